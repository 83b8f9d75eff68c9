//! Puts fields into a record, one behind the other.

use super::event::{Kind, Record};

/// Longest text; longer ones are cut.
const TEXT_MAX: usize = 1024;

/// A record that is being written.
#[derive(Debug)]
pub(super) struct Fields {
    event: usize,
    bytes: Vec<u8>,
}

impl Fields {
    pub(super) fn new(kind: Kind) -> Fields {
        Fields { event: kind as usize, bytes: Vec::new() }
    }

    pub(super) fn u8(mut self, value: u8) -> Fields {
        self.bytes.push(value);
        self
    }

    pub(super) fn u16(mut self, value: u16) -> Fields {
        self.bytes.extend(value.to_le_bytes());
        self
    }

    pub(super) fn u32(mut self, value: u32) -> Fields {
        self.bytes.extend(value.to_le_bytes());
        self
    }

    /// Process and thread ids, descriptors: the kernel's `int`.
    pub(super) fn i32(self, value: i64) -> Fields {
        self.u32(value as i32 as u32)
    }

    pub(super) fn u64(mut self, value: u64) -> Fields {
        self.bytes.extend(value.to_le_bytes());
        self
    }

    /// Up to the first NUL, as all texts of a record.
    pub(super) fn text(mut self, text: &[u8]) -> Fields {
        let text = text.split(|byte| *byte == 0).next().unwrap_or_default();
        self.bytes.extend(text.iter().take(TEXT_MAX));
        self.bytes.push(0);
        self
    }

    /// A thread's name: 16 bytes, the last of which is a NUL.
    pub(super) fn name(mut self, text: &[u8]) -> Fields {
        let start = self.bytes.len();
        self.bytes.extend(text.iter().take(15));
        self.bytes.resize(start + 16, 0);
        self
    }

    pub(super) fn record(self) -> Record {
        Record { event: self.event, tid: std::process::id(), fields: self.bytes }
    }
}
