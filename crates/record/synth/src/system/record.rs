//! What qemu's plugin writes (`plugin.c` has the format), taken apart.

use crate::arch::PAGE;

/// Numbers from here on are records, not blocks.
const RECORDS: u32 = 0xffff_fff0;
/// Bytes of a record at most: the kernel's code is one.
const BYTES_MAX: usize = 1 << 28;

/// A record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Record<'a> {
    /// The block of this number begins.
    Begins(u32),
    /// A block, as lengths of instructions and their bytes.
    Block { id: u32, address: u64, lengths: &'a [u8], bytes: &'a [u8] },
    /// A page of a program.
    Page { address: u64, bytes: &'a [u8] },
    /// An interrupt or an exception.
    Event(Event),
    /// CR3.
    Space(u64),
    /// A thread runs.
    Task { is_exec: bool, tid: i32, pid: i32, name: &'a [u8] },
    /// The address space is no more.
    Freed(u64),
    /// The kernel's code.
    Text { address: u64, bytes: &'a [u8] },
    /// A part of the kernel's symbols.
    Symbols(&'a [u8]),
    /// What is wrong.
    Say(&'a [u8]),
    /// What the program has written.
    Output(&'a [u8]),
    /// Recording begins, in this process.
    Begin(i32),
    /// It ends, before this instruction; the program's status as wait(2) has it.
    End { status: i32, address: u64 },
    /// What follows is of this processor.
    Cpu(u32),
    /// The processor would go on at this address, when recording ends.
    Last(u64),
}

/// An interrupt or an exception, which leads to the block that begins next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Event {
    /// The interrupted instruction.
    pub(super) from: u64,
    pub(super) vector: u32,
    pub(super) error: u32,
}

/// The bytes are no record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct NoRecord;

impl Record<'_> {
    /// The record at the begin of `bytes`, and how many it has; `None` where it is not whole.
    pub(super) fn read(bytes: &[u8]) -> Result<Option<(Record<'_>, usize)>, NoRecord> {
        let mut rest = Rest { bytes, is_wrong: false };
        match record(&mut rest) {
            _ if rest.is_wrong => Err(NoRecord),
            Some(record) => Ok(Some((record, bytes.len() - rest.bytes.len()))),
            None => Ok(None),
        }
    }
}

fn record<'a>(rest: &mut Rest<'a>) -> Option<Record<'a>> {
    let kind = rest.word()?;
    if kind < RECORDS {
        return Some(Record::Begins(kind));
    }
    Some(match kind - RECORDS {
        0 => {
            let (id, address, count, size) = (rest.word()?, rest.long()?, rest.word()?, rest.word()?);
            let both = rest.bytes((count as usize).checked_add(size as usize)?)?;
            let (lengths, bytes) = both.split_at_checked(count as usize)?;
            Record::Block { id, address, lengths, bytes }
        }
        1 => Record::Page { address: rest.long()?, bytes: rest.bytes(PAGE)? },
        2 => Record::Event(Event { from: rest.long()?, vector: rest.word()?, error: rest.word()? }),
        3 => Record::Space(rest.long()?),
        4 => {
            let is_exec = rest.word()? == 2;
            let (tid, pid, name) = (rest.word()? as i32, rest.word()? as i32, rest.bytes(16)?);
            let name = name.split(|byte| *byte == 0).next().unwrap_or_default();
            Record::Task { is_exec, tid, pid, name }
        }
        5 => Record::Freed(rest.long()?),
        6 => {
            let (address, count) = (rest.long()?, rest.word()?);
            Record::Text { address, bytes: rest.bytes(count as usize)? }
        }
        7 => Record::Symbols(rest.counted()?),
        8 => Record::Say(rest.counted()?),
        9 => Record::Output(rest.counted()?),
        10 => Record::Begin(rest.word()? as i32),
        11 => Record::End { status: rest.word()? as i32, address: rest.long()? },
        12 => Record::Cpu(rest.word()?),
        13 => Record::Last(rest.long()?),
        _ => {
            rest.is_wrong = true;
            return None;
        }
    })
}

/// What was not read.
struct Rest<'a> {
    bytes: &'a [u8],
    is_wrong: bool,
}

impl<'a> Rest<'a> {
    fn word(&mut self) -> Option<u32> {
        let (word, rest) = self.bytes.split_first_chunk()?;
        self.bytes = rest;
        Some(u32::from_le_bytes(*word))
    }

    fn long(&mut self) -> Option<u64> {
        Some(u64::from(self.word()?) | u64::from(self.word()?) << 32)
    }

    /// They are filled up to whole words.
    fn bytes(&mut self, count: usize) -> Option<&'a [u8]> {
        self.is_wrong |= count > BYTES_MAX;
        let (bytes, rest) = self.bytes.split_at_checked(count.checked_next_multiple_of(4)?)?;
        self.bytes = rest;
        bytes.get(..count)
    }

    fn counted(&mut self) -> Option<&'a [u8]> {
        let count = self.word()?;
        self.bytes(count as usize)
    }
}
