//! A list that grows up to a bound, in memory of the kernel: the agent has no allocator.

use core::marker::PhantomData;
use mote_sys::mem::Mapping;
use mote_sys::{Errno, Result};

/// At most `MAX` values, one behind the other. Memory is reserved with the first, and used as they come.
///
/// # Invariants
/// `growing-written`: `memory` has room for `MAX` values, of which the first `count` are written.
#[derive(Debug)]
pub(crate) struct Growing<T: Copy, const MAX: usize> {
    memory: Option<Mapping>,
    count: usize,
    of: PhantomData<T>,
}

impl<T: Copy, const MAX: usize> Growing<T, MAX> {
    /// Empty.
    pub(crate) const fn new() -> Growing<T, MAX> {
        Growing { memory: None, count: 0, of: PhantomData }
    }

    fn base(&self) -> *mut T {
        // Pages are aligned for any type.
        self.memory.as_ref().map_or(core::ptr::null_mut(), Mapping::base).cast()
    }

    /// Reserves the memory, so that adding fails only when there are `MAX` already.
    ///
    /// # Errors
    /// `ENOMEM`.
    pub(crate) fn reserve(&mut self) -> Result<()> {
        if self.memory.is_none() {
            self.memory = Some(Mapping::private(MAX * size_of::<T>())?);
        }
        Ok(())
    }

    /// Adds a value behind the others.
    ///
    /// # Errors
    /// `ENOMEM` when there are `MAX` already, or no memory is to be had.
    pub(crate) fn push(&mut self, value: T) -> Result<()> {
        if self.count >= MAX {
            return Err(Errno(libc::ENOMEM));
        }
        self.reserve()?;
        // SAFETY: `growing-written`, and `count` is below `MAX`.
        unsafe { self.base().wrapping_add(self.count).write(value) };
        self.count += 1;
        Ok(())
    }

    /// Takes the last value away.
    pub(crate) fn pop(&mut self) -> Option<T> {
        let last = self.all().last().copied()?;
        self.count -= 1;
        Some(last)
    }

    /// The values.
    pub(crate) fn all(&self) -> &[T] {
        if self.count == 0 {
            return &[];
        }
        // SAFETY: `growing-written`.
        unsafe { core::slice::from_raw_parts(self.base(), self.count) }
    }

    /// The values, to be changed.
    pub(crate) fn all_mut(&mut self) -> &mut [T] {
        if self.count == 0 {
            return &mut [];
        }
        // SAFETY: `growing-written`; `self` is borrowed exclusively.
        unsafe { core::slice::from_raw_parts_mut(self.base(), self.count) }
    }

    /// Forgets the values; keeps the memory.
    #[cfg(feature = "filters")]
    pub(crate) fn clear(&mut self) {
        self.count = 0;
    }
}
