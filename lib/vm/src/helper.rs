//! The functions that programs call: what implements the signatures of [`mote_bpf::helper::BUILTIN`].
//!
//! | module | job |
//! |---|---|
//! | [`maps`] | entries of maps, `keep_last` |
//! | [`records`] | ring buffers |
//! | [`text`] | texts of the context: compare, copy, hash |
//! | [`search`], [`glob`] | texts of the context: find, match |
//! | [`process`] | which thread this is, where it runs, what time it is |
//!
//! What they are given is as the verifier says. Texts, keys, and other readable bytes may lie where the context's words
//! say, which may be nowhere: so all of that is read by [`touch`](crate::touch), and such helpers can end the program
//! with a fault.

mod glob;
mod maps;
mod process;
mod records;
mod search;
mod text;

pub use process::note_process;
pub(crate) use text::until_nul;

use crate::entry::{Returned, Target};
use crate::map::Map;
use mote_bpf::helper as id;

/// A helper: arguments from `r1` to `r5`, its result in `r0`.
pub type HelperFn = unsafe extern "C" fn(u64, u64, u64, u64, u64) -> u64;
/// A helper that may end the program with a fault.
pub type FaultingFn = unsafe extern "C" fn(u64, u64, u64, u64, u64) -> Returned;

/// How a helper is called.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Function {
    /// As any function.
    Plain(HelperFn),
    /// The program ends if it says so.
    Faulting(FaultingFn),
    /// The engine's own affair.
    TailCall,
}

/// The built-in helper of this number.
pub(crate) fn builtin(id: u32) -> Option<Function> {
    use Function::{Faulting, Plain};
    Some(match id {
        id::MAP_LOOKUP => Faulting(maps::lookup),
        id::MAP_UPDATE => Faulting(maps::update),
        id::MAP_DELETE => Faulting(maps::delete),
        id::MAP_ADD => Faulting(maps::add),
        id::KEEP_LAST => Faulting(maps::keep_last),
        id::KTIME_GET_NS => Plain(process::ktime_get_ns),
        id::GET_PRANDOM_U32 => Plain(process::get_prandom_u32),
        id::GET_SMP_PROCESSOR_ID => Plain(process::get_smp_processor_id),
        id::GET_CURRENT_PID_TGID => Plain(process::get_current_pid_tgid),
        id::GET_CURRENT_COMM => Plain(process::get_current_comm),
        id::TAIL_CALL => Function::TailCall,
        id::RINGBUF_OUTPUT => Faulting(records::output),
        id::RINGBUF_RESERVE => Plain(records::reserve),
        id::RINGBUF_SUBMIT => Plain(records::submit),
        id::RINGBUF_DISCARD => Plain(records::discard),
        id::STRNCMP => Faulting(text::strncmp),
        id::MEMORY_COMPARE => Faulting(text::memory_compare),
        id::TEXT_COMPARE => Faulting(text::text_compare),
        id::TEXT_TEXT_COMPARE => Faulting(text::text_text_compare),
        id::TEXT_COPY => Faulting(text::text_copy),
        id::TEXT_HASH => Faulting(text::text_hash),
        id::TEXT_FIND => Faulting(search::text_find),
        id::TEXT_GLOB => Faulting(glob::text_glob),
        id::LOG_LINEAR => Plain(process::log_linear),
        _ => return None,
    })
}

/// What `tail_call` returns when there is no program: as the kernel's, `-ENOENT`.
pub(crate) const NO_PROGRAM: u64 = errno(2);

/// An error number as a program sees it.
pub(crate) const fn errno(number: i64) -> u64 {
    -number as u64
}

/// The program at an index, unless that many tail calls were enough.
///
/// # Safety
/// `map` is a program's reference to a map, which is being run.
pub(crate) unsafe fn tail_target(map: u64, index: u64, tail_calls: u64) -> Option<Target> {
    if tail_calls >= u64::from(id::TAIL_CALLS_MAX) {
        return None;
    }
    // SAFETY: the caller's promise.
    let map = unsafe { map_of(map) };
    let crate::map::place::Place::Array(place) = &map.place else { return None };
    let at = place.value(u32::try_from(index).ok()?, 0)?;
    let number = crate::map::memory::Memory::load(map.memory, at) as u32;
    // SAFETY: a program with this map is being run, and the reference ends with this function.
    unsafe { map.slot(number)?.get() }.copied()
}

/// Where machine code goes on: an entry (0: nowhere), and the program for it.
#[repr(C)]
pub(crate) struct Jump {
    entry: u64,
    program: u64,
}

/// `tail_call` for machine code, which passes how many there were as the fourth argument.
///
/// # Safety
/// As [`tail_target`].
pub(crate) unsafe extern "C" fn tail_call(_: u64, map: u64, index: u64, tail_calls: u64, _: u64) -> Jump {
    // SAFETY: the caller's promise.
    match unsafe { tail_target(map, index, tail_calls) } {
        Some(target) => Jump { entry: target.entry as usize as u64, program: target.image as u64 },
        None => Jump { entry: 0, program: 0 },
    }
}

/// The map that a program refers to.
///
/// # Safety
/// `map` is such a reference, of a program that is being run; the result is not used after that run.
#[inline(always)]
pub(crate) unsafe fn map_of<'a>(map: u64) -> &'a Map {
    // SAFETY: the address of a descriptor in the program's mapping, which does not change.
    unsafe { &*(map as *const Map) }
}
