//! Our library in a process, where a recorder has loaded it from memory: no file of it can be opened by everybody, so
//! what unwinding needs is read from where it is mapped. And the words there that lead to the slots of calls
//! (`mote_layout::stubs`), by which return addresses are known that probes of functions have replaced.
//!
//! What is read is the process's, and is trusted no more than a file of its own.

use crate::arch::RESTORER;
use crate::memory::Memory;
use crate::modules::{Bytes, File};
use mote_journal::Map;
use mote_layout::stack::FINDER;
use mote_layout::stubs::{VERSION, VERSION_BEFORE, WORDS};
use mote_symbol::mapped::table;
use mote_symbol::{IN_MEMORY, Segment};
use std::ops::Range;
use std::sync::Arc;

/// Most segments.
const SEGMENTS_MAX: usize = 64;
/// Bytes of the headers (ELF-64).
const HEADER: usize = 64;
const SEGMENT: usize = 56;
/// `PT_LOAD`, `PT_GNU_EH_FRAME`, `PF_X`.
const LOAD: u32 = 1;
const FRAMES: u32 = 0x6474_e550;
const EXECUTABLE: u32 = 1;
/// `DW_EH_PE_pcrel | DW_EH_PE_sdata4`
const RELATIVE: u8 = 0x1b;

/// A program header.
struct Header {
    kind: u32,
    flags: u32,
    offset: u64,
    address: u64,
    len: u64,
}

impl Header {
    fn range(&self) -> Range<u64> {
        self.address..self.address.saturating_add(self.len)
    }
}

/// What of the library unwinding needs, by the mapping of its code.
pub(crate) fn read(pid: u32, map: &Map) -> Option<File> {
    let memory = Memory::of(pid)?;
    let maps = table(&format!("/proc/{pid}/maps"));
    let base = maps.lines().filter_map(begin).filter(|base| *base <= map.start).max()?;
    let headers = headers(&memory, base)?;
    let part = |range: Range<u64>| -> Option<(Range<u64>, Bytes)> {
        let at = |address: u64| base.wrapping_add(address);
        Some((range.clone(), Arc::from(memory.bytes(at(range.start)..at(range.end))?)))
    };
    let loaded = || headers.iter().filter(|header| header.kind == LOAD);
    let code = loaded().find(|header| header.flags & EXECUTABLE != 0)?;
    let (text, bytes) = part(code.range())?;
    let header = headers.iter().find(|header| header.kind == FRAMES)?;
    let header = part(header.range())?;
    let frames = frames_at(&header)?;
    let around = loaded().find(|header| header.range().contains(&frames))?.range();
    let at = |at: usize| text.start.wrapping_add(at as u64);
    let segments = loaded().map(|header| Segment {
        offset: header.offset,
        address: header.address,
        len: header.len,
        executable: header.flags & EXECUTABLE != 0,
    });
    Some(File {
        restorers: bytes
            .windows(RESTORER.len())
            .position(|here| here == RESTORER)
            .map(at)
            .into_iter()
            .collect(),
        finder: finder(&bytes).map(at),
        segments: segments.collect(),
        frames: Some(part(frames..around.end)?),
        header: Some(header),
        text: Some(text),
    })
}

/// Where a library begins, by a line of `/proc/PID/maps`.
fn begin(line: &str) -> Option<u64> {
    let mut words = line.split_ascii_whitespace();
    let (range, offset) = (words.next()?, words.nth(1)?);
    let is_begin = words.nth(2)? == IN_MEMORY && u64::from_str_radix(offset, 16) == Ok(0);
    is_begin.then(|| u64::from_str_radix(range.split_once('-')?.0, 16).ok()).flatten()
}

fn number<const N: usize>(bytes: &[u8], at: usize) -> Option<[u8; N]> {
    bytes.get(at..)?.first_chunk::<N>().copied()
}

fn headers(memory: &Memory, base: u64) -> Option<Vec<Header>> {
    let elf = memory.bytes(base..base.checked_add(HEADER as u64)?)?;
    let at = u64::from_le_bytes(number(&elf, 32)?);
    let count = usize::from(u16::from_le_bytes(number(&elf, 56)?)).min(SEGMENTS_MAX);
    let begin = base.checked_add(at)?;
    let bytes = memory.bytes(begin..begin.checked_add((count * SEGMENT) as u64)?)?;
    let header = |bytes: &[u8; SEGMENT]| {
        let [offset, address, _, len] = [8, 16, 24, 32].map(|at| number(bytes, at).map(u64::from_le_bytes));
        let [kind, flags] = [0, 4].map(|at| number(bytes, at).map(u32::from_le_bytes));
        Some(Header { kind: kind?, flags: flags?, offset: offset?, address: address?, len: len? })
    };
    bytes.as_chunks::<SEGMENT>().0.iter().map(header).collect()
}

/// Where the frames are that a header of theirs is about.
fn frames_at((range, bytes): &(Range<u64>, Bytes)) -> Option<u64> {
    let far = i32::from_le_bytes(number(bytes, 4)?);
    let is_relative = bytes.get(1) == Some(&RELATIVE);
    is_relative.then(|| range.start.wrapping_add(4).wrapping_add_signed(far.into()))
}

/// Where in code the mark of a function is that knows of replaced return addresses.
pub(crate) fn finder(code: &[u8]) -> Option<usize> {
    let marks = FINDER.map(u64::to_le_bytes);
    let marks = marks.as_flattened();
    code.windows(marks.len()).position(|bytes| bytes == marks)
}

/// How far from the pointer of a thread the words lie that lead to its slots, by the address of the mark in front of
/// the function that knows of them. `None` where nothing was replaced yet.
pub(crate) fn tops(memory: &Memory, finder: u64) -> Option<[u64; WORDS]> {
    let at = finder.checked_sub(VERSION_BEFORE as u64)?;
    let [about] = memory.words(at)?;
    let [version, far] = [about as u32, (about >> 32) as u32];
    let words = at.wrapping_add(4).wrapping_add_signed((far as i32).into());
    let tops = (version == VERSION).then(|| memory.words(words)).flatten()?;
    tops.iter().all(|offset| *offset != 0).then_some(tops)
}
