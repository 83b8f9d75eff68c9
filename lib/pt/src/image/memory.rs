//! An image in memory: segments of bytes, by address space.

use super::{Image, NoImage, Space};
use std::borrow::Cow;
use std::collections::BTreeMap;
use thiserror::Error;

/// Segments of code. Those of [`Space::ANY`] are in every address space that has no other segment there.
#[derive(Clone, Debug, Default)]
pub struct Memory<'a> {
    /// By address space and first address; those of one space do not overlap, and none is empty.
    segments: BTreeMap<(Space, u64), Cow<'a, [u8]>>,
}

/// A segment would lie over another one, or over the end of the address space.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("{len} bytes at {address:#x} overlap other code of the image; each address has one segment")]
pub struct Overlap {
    /// Where the segment was to begin.
    pub address: u64,
    /// Its length in bytes.
    pub len: usize,
}

impl<'a> Memory<'a> {
    /// An image without code.
    pub fn new() -> Self {
        Memory::default()
    }

    /// Adds the bytes at an address; no bytes are no segment.
    ///
    /// # Errors
    /// Another segment of the same address space is there.
    pub fn add(
        &mut self,
        space: Space,
        address: u64,
        bytes: impl Into<Cow<'a, [u8]>>,
    ) -> Result<(), Overlap> {
        let bytes = bytes.into();
        let overlap = Overlap { address, len: bytes.len() };
        let Some(beyond) = (bytes.len() as u64).checked_sub(1) else { return Ok(()) };
        let last = address.checked_add(beyond).ok_or(overlap)?;
        let below = self.segments.range(..=(space, last)).next_back();
        let is_taken = below
            .is_some_and(|(&(of, start), other)| of == space && start + (other.len() as u64 - 1) >= address);
        if is_taken {
            return Err(overlap);
        }
        self.segments.insert((space, address), bytes);
        Ok(())
    }

    /// The bytes of one address space from an address on.
    fn find(&self, space: Space, address: u64) -> Option<&[u8]> {
        let (&(of, start), bytes) = self.segments.range(..=(space, address)).next_back()?;
        let offset = if of == space { address - start } else { return None };
        bytes.get(usize::try_from(offset).ok()?..).filter(|rest| !rest.is_empty())
    }

    fn has(&self, space: Space) -> bool {
        self.segments.range((space, 0)..=(space, u64::MAX)).next().is_some()
    }
}

impl Image for Memory<'_> {
    fn read(&self, space: Space, address: u64) -> Result<&[u8], NoImage> {
        let of_any = || self.find(Space::ANY, address);
        self.find(space, address).or_else(of_any).ok_or(NoImage { address })
    }

    /// [`Space::ANY`] for address spaces without segments of their own, so that their code is decoded once.
    fn space(&self, cr3: u64, is_guest: bool) -> Space {
        let space = Space(cr3 | u64::from(is_guest));
        if self.has(space) { space } else { Space::ANY }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(memory: &Memory, space: Space, address: u64, expect: Option<&[u8]>) {
        assert_eq!(memory.read(space, address), expect.ok_or(NoImage { address }), "{address:#x}");
    }

    #[test]
    fn segments_are_read_to_their_ends() {
        let mut memory = Memory::new();
        memory.add(Space(32), 0x1000, &[1, 2, 3][..]).unwrap();
        memory.add(Space(32), 0x1003, vec![4]).unwrap();
        memory.add(Space::ANY, 0x1001, &[7, 8, 9][..]).unwrap();
        memory.add(Space::ANY, u64::MAX, &[10][..]).unwrap();
        memory.add(Space(32), 0x2000, &[][..]).unwrap();
        check(&memory, Space(32), 0xfff, None);
        check(&memory, Space(32), 0x1000, Some(&[1, 2, 3]));
        check(&memory, Space(32), 0x1002, Some(&[3]));
        check(&memory, Space(32), 0x1003, Some(&[4]));
        check(&memory, Space(32), 0x1004, None);
        check(&memory, Space(64), 0x1000, None);
        check(&memory, Space(64), 0x1002, Some(&[8, 9]));
        check(&memory, Space(64), u64::MAX, Some(&[10]));
        check(&memory, Space(32), 0x2000, None);
        assert_eq!(memory.space(32, false), Space(32));
        assert_eq!(memory.space(32, true), Space::ANY);
    }

    #[test]
    fn segments_do_not_overlap() {
        let mut memory = Memory::new();
        memory.add(Space(1), 0x1000, &[0; 16][..]).unwrap();
        for (address, len) in [(0x1000, 1), (0xff8, 9), (0x100f, 4), (0xf00, 0x1000), (u64::MAX, 2)] {
            let error = memory.add(Space(1), address, vec![0; len]).unwrap_err();
            assert_eq!(error, Overlap { address, len });
        }
        memory.add(Space(1), 0xff8, vec![0; 8]).unwrap();
        memory.add(Space(1), 0x1010, vec![0; 8]).unwrap();
        memory.add(Space(2), 0x1000, vec![0; 8]).unwrap();
    }
}
