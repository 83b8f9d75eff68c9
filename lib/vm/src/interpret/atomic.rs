//! Atomic operations of programs.
//!
//! Verified programs do them on memory that is mapped and aligned (stack, values of maps, records).

use crate::fault::Fault;
use core::sync::atomic::{AtomicU8, AtomicU16, AtomicU32, AtomicU64, Ordering};
use mote_bpf::op::AtomicOp;

/// All of them are fully ordered: what the kernel asks of those that fetch, and the others cost the same here.
const ORDER: Ordering = Ordering::SeqCst;

/// Operations by their place in a step.
const OPS: [AtomicOp; 10] = [
    AtomicOp::Add,
    AtomicOp::Or,
    AtomicOp::And,
    AtomicOp::Xor,
    AtomicOp::FetchAdd,
    AtomicOp::FetchOr,
    AtomicOp::FetchAnd,
    AtomicOp::FetchXor,
    AtomicOp::Xchg,
    AtomicOp::CmpXchg,
];

/// The place of an operation; `None` for loads and stores.
pub(super) fn number(op: AtomicOp) -> Option<u64> {
    OPS.iter().position(|other| *other == op).map(|place| place as u64)
}

macro_rules! read_modify_write {
    ($name:ident, $word:ty, $atomic:ty) => {
        /// Does the operation at `at` with `reg`; returns what was there, and whether it goes to `reg` or, as the
        /// last says, to `r0`.
        ///
        /// # Safety
        /// `at` is valid for atomic access, if it is aligned.
        ///
        /// # Errors
        /// A fault when it is not aligned.
        pub(super) unsafe fn $name(number: u32, at: u64, reg: u64, r0: u64) -> Result<(u64, Into), Fault> {
            let at = at as *mut $word;
            if !at.is_aligned() {
                return Err(Fault::Memory);
            }
            let op = OPS.get(number as usize).copied().unwrap_or(AtomicOp::Add);
            // SAFETY: valid by the caller's promise, aligned.
            let word = unsafe { <$atomic>::from_ptr(at) };
            let reg = reg as $word;
            let was = match op {
                AtomicOp::Or | AtomicOp::FetchOr => word.fetch_or(reg, ORDER),
                AtomicOp::And | AtomicOp::FetchAnd => word.fetch_and(reg, ORDER),
                AtomicOp::Xor | AtomicOp::FetchXor => word.fetch_xor(reg, ORDER),
                AtomicOp::Xchg => word.swap(reg, ORDER),
                AtomicOp::CmpXchg => {
                    word.compare_exchange(r0 as $word, reg, ORDER, ORDER).unwrap_or_else(|other| other)
                }
                _ => word.fetch_add(reg, ORDER),
            };
            let into = match op {
                AtomicOp::Add | AtomicOp::Or | AtomicOp::And | AtomicOp::Xor => Into::Nothing,
                AtomicOp::CmpXchg => Into::R0,
                _ => Into::Reg,
            };
            Ok((u64::from(was), into))
        }
    };
}

/// Where what was fetched goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Into {
    /// Nowhere.
    Nothing,
    /// To the operand.
    Reg,
    /// To `r0`.
    R0,
}

read_modify_write!(on_32, u32, AtomicU32);
read_modify_write!(on_64, u64, AtomicU64);

/// Loads so many bytes at `at`, acquiring.
///
/// # Safety
/// `at` is valid for atomic access, if it is aligned.
///
/// # Errors
/// A fault when it is not aligned.
pub(super) unsafe fn load(bytes: u32, at: u64) -> Result<u64, Fault> {
    if !at.is_multiple_of(u64::from(bytes)) {
        return Err(Fault::Memory);
    }
    Ok(match bytes {
        // SAFETY: valid by the caller's promise, and so the next three, which are aligned, too.
        1 => u64::from(unsafe { AtomicU8::from_ptr(at as *mut u8) }.load(Ordering::Acquire)),
        // SAFETY: as above.
        2 => u64::from(unsafe { AtomicU16::from_ptr(at as *mut u16) }.load(Ordering::Acquire)),
        // SAFETY: as above.
        4 => u64::from(unsafe { AtomicU32::from_ptr(at as *mut u32) }.load(Ordering::Acquire)),
        // SAFETY: as above.
        _ => unsafe { AtomicU64::from_ptr(at as *mut u64) }.load(Ordering::Acquire),
    })
}

/// Stores the low bytes of a value at `at`, releasing.
///
/// # Safety
/// `at` is valid for atomic access, if it is aligned.
///
/// # Errors
/// A fault when it is not aligned.
pub(super) unsafe fn store(bytes: u32, at: u64, value: u64) -> Result<(), Fault> {
    if !at.is_multiple_of(u64::from(bytes)) {
        return Err(Fault::Memory);
    }
    match bytes {
        // SAFETY: valid by the caller's promise, and so the next three, which are aligned, too.
        1 => unsafe { AtomicU8::from_ptr(at as *mut u8) }.store(value as u8, Ordering::Release),
        // SAFETY: as above.
        2 => unsafe { AtomicU16::from_ptr(at as *mut u16) }.store(value as u16, Ordering::Release),
        // SAFETY: as above.
        4 => unsafe { AtomicU32::from_ptr(at as *mut u32) }.store(value as u32, Ordering::Release),
        // SAFETY: as above.
        _ => unsafe { AtomicU64::from_ptr(at as *mut u64) }.store(value, Ordering::Release),
    }
    Ok(())
}
