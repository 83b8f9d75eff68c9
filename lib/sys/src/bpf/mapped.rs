//! An array map in our memory, read and written word by word.

use super::{Create, MMAPABLE, Map, MapType};
use crate::fd::Fd;
use crate::mem::Mapping;
use crate::{Errno, Result};
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// An array map with one element, mapped. Programs and other processes may write to it at any moment: all access is by
/// atomics.
///
/// Offsets are in bytes. One outside of the element, or not a multiple of the word's size, reads as 0 and is not
/// written to.
#[derive(Debug)]
pub struct Mapped {
    map: Map,
    memory: Mapping,
}

impl Mapped {
    /// Makes a map with one element of `bytes` zero bytes, and maps it.
    ///
    /// # Errors
    /// As [`Map::make`] and mmap(2); `E2BIG` when there are no arrays as large.
    pub fn create(name: &str, bytes: u32) -> Result<Mapped> {
        let create = Create {
            map_type: MapType::Array,
            key_bytes: 4,
            value_bytes: bytes,
            entries: 1,
            flags: MMAPABLE,
            inner: None,
            name,
        };
        Mapped::over(Map::make(&create)?, bytes)
    }

    /// Maps the first `bytes` bytes of an array map that was made with [`MMAPABLE`].
    ///
    /// # Errors
    /// As mmap(2): `EINVAL` when the array is smaller.
    pub fn over(map: Map, bytes: u32) -> Result<Mapped> {
        let memory = Mapping::shared(map.fd(), bytes as usize)?;
        Ok(Mapped { map, memory })
    }

    /// The map whose values are mapped.
    pub fn map(&self) -> &Map {
        &self.map
    }

    /// The map's descriptor.
    pub fn fd(&self) -> &Fd {
        self.map.fd()
    }

    /// Bytes that are mapped, as given to [`Mapped::over`].
    pub fn len(&self) -> usize {
        self.memory.len()
    }

    /// True when nothing is mapped, which never is.
    pub fn is_empty(&self) -> bool {
        self.memory.is_empty()
    }

    fn word64(&self, offset: usize) -> Option<&AtomicU64> {
        let fits = offset.is_multiple_of(8) && offset.checked_add(8)? <= self.memory.len();
        // SAFETY: eight aligned bytes of the mapping, which lives as long as `self`; atomics may be changed by any
        // thread.
        fits.then(|| unsafe { &*self.memory.base().cast_const().wrapping_add(offset).cast::<AtomicU64>() })
    }

    fn word32(&self, offset: usize) -> Option<&AtomicU32> {
        let fits = offset.is_multiple_of(4) && offset.checked_add(4)? <= self.memory.len();
        // SAFETY: four aligned bytes of the mapping, as above.
        fits.then(|| unsafe { &*self.memory.base().cast_const().wrapping_add(offset).cast::<AtomicU32>() })
    }

    /// The 64-bit word at `offset` bytes, by an acquiring load; 0 when it is not aligned or not inside.
    pub fn load64(&self, offset: usize) -> u64 {
        self.word64(offset).map_or(0, |word| word.load(Ordering::Acquire))
    }

    /// Sets the 64-bit word.
    pub fn store64(&self, offset: usize, value: u64) {
        if let Some(word) = self.word64(offset) {
            word.store(value, Ordering::Release);
        }
    }

    /// The 32-bit word at `offset` bytes, by an acquiring load; 0 when it is not aligned or not inside.
    pub fn load32(&self, offset: usize) -> u32 {
        self.word32(offset).map_or(0, |word| word.load(Ordering::Acquire))
    }

    /// Sets the 32-bit word.
    pub fn store32(&self, offset: usize, value: u32) {
        if let Some(word) = self.word32(offset) {
            word.store(value, Ordering::Release);
        }
    }

    /// Sets the 32-bit word to `new` if it is `old`.
    ///
    /// # Errors
    /// `EAGAIN` when it was another.
    pub fn exchange32(&self, offset: usize, old: u32, new: u32) -> Result<()> {
        let word = self.word32(offset).ok_or(Errno(libc::EINVAL))?;
        match word.compare_exchange(old, new, Ordering::AcqRel, Ordering::Acquire) {
            Ok(_) => Ok(()),
            Err(_) => Err(Errno(libc::EAGAIN)),
        }
    }

    /// Sets bits of the 32-bit word.
    pub fn set_bits32(&self, offset: usize, bits: u32) {
        if let Some(word) = self.word32(offset) {
            word.fetch_or(bits, Ordering::AcqRel);
        }
    }

    /// Clears bits of the 32-bit word.
    pub fn clear_bits32(&self, offset: usize, bits: u32) {
        if let Some(word) = self.word32(offset) {
            word.fetch_and(!bits, Ordering::AcqRel);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_inside_are_reached_and_no_others() {
        let mapped = match Mapped::create("words", 4096) {
            Err(Errno(libc::EPERM)) => return,
            mapped => mapped.expect("root may"),
        };
        mapped.store64(4088, 7);
        mapped.store64(4092, 8);
        mapped.store64(4096, 9);
        assert_eq!([mapped.load64(4088), mapped.load64(4096)], [7, 0]);
        assert_eq!(mapped.exchange32(4088, 7, 1), Ok(()));
        assert_eq!(mapped.exchange32(4088, 7, 1), Err(Errno(libc::EAGAIN)));
        let mut value = [0; 4096];
        assert_eq!(mapped.map().lookup(&[0; 4], &mut value), Ok(()));
        assert_eq!(value[4088], 1);
    }
}
