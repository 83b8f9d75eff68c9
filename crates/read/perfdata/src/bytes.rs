//! Numbers and texts in records: little-endian, one behind the other.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;

/// Bytes that are read from the front, and, for what stands behind everything else, from the end.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bytes<'b>(pub(crate) &'b [u8]);

impl<'b> Bytes<'b> {
    pub(crate) fn take(&mut self, len: usize) -> Option<&'b [u8]> {
        let (taken, rest) = self.0.split_at_checked(len)?;
        self.0 = rest;
        Some(taken)
    }

    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (taken, rest) = self.0.split_first_chunk::<N>()?;
        self.0 = rest;
        Some(*taken)
    }

    pub(crate) fn u8(&mut self) -> Option<u8> {
        self.array::<1>().map(|[byte]| byte)
    }

    pub(crate) fn u16(&mut self) -> Option<u16> {
        self.array().map(u16::from_le_bytes)
    }

    pub(crate) fn u32(&mut self) -> Option<u32> {
        self.array().map(u32::from_le_bytes)
    }

    pub(crate) fn i32(&mut self) -> Option<i32> {
        self.array().map(i32::from_le_bytes)
    }

    pub(crate) fn u64(&mut self) -> Option<u64> {
        self.array().map(u64::from_le_bytes)
    }

    /// The rest, up to its first NUL.
    pub(crate) fn text(&mut self) -> OsString {
        let rest = std::mem::take(&mut self.0);
        let text = rest.split(|byte| *byte == 0).next().unwrap_or_default();
        OsStr::from_bytes(text).to_owned()
    }
}

/// Bytes that are written.
#[derive(Clone, Debug, Default)]
pub(crate) struct Out(pub(crate) Vec<u8>);

impl Out {
    pub(crate) fn bytes(&mut self, bytes: &[u8]) -> &mut Out {
        self.0.extend_from_slice(bytes);
        self
    }

    pub(crate) fn u8(&mut self, value: u8) -> &mut Out {
        self.bytes(&[value])
    }

    pub(crate) fn u16(&mut self, value: u16) -> &mut Out {
        self.bytes(&value.to_le_bytes())
    }

    pub(crate) fn u32(&mut self, value: u32) -> &mut Out {
        self.bytes(&value.to_le_bytes())
    }

    pub(crate) fn i32(&mut self, value: i32) -> &mut Out {
        self.bytes(&value.to_le_bytes())
    }

    pub(crate) fn u64(&mut self, value: u64) -> &mut Out {
        self.bytes(&value.to_le_bytes())
    }

    /// A text with a NUL, filled up with more of them to a multiple of 8 bytes.
    pub(crate) fn text(&mut self, text: &OsStr) -> &mut Out {
        self.bytes(text.as_bytes()).u8(0).fill()
    }

    /// NULs up to a multiple of 8 bytes.
    pub(crate) fn fill(&mut self) -> &mut Out {
        let len = self.0.len().next_multiple_of(8);
        self.0.resize(len, 0);
        self
    }
}
