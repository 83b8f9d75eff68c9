//! Where our code and memory are in a process: what the section `mote_join` of its binaries says. Nothing of a binary
//! is trusted, and of each no more than [`READ_MAX`] is read.

use crate::code::Code;
use crate::error::Error;
use mote_layout::join::{JoinRecord, RECORD_BYTES, SECTION, VERSION};
use mote_symbol::mapped::{self, Bounded, Mapped};
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::time::Instant;

/// Most bytes that are read of one file: its headers.
const READ_MAX: u64 = 8 << 20;
/// Most files that are looked into.
const FILES_MAX: usize = 4096;
/// Most copies of mote in a process that are asked.
const POINTS_MAX: usize = 64;

/// Code and memory of one copy of mote.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct JoinPoint {
    /// Where a thread is sent to.
    pub(crate) code: u64,
    /// The words that are shared.
    pub(crate) area: u64,
}

/// All of a process.
pub(crate) fn find(pid: u32, memory: &File, until: Instant) -> Result<Vec<JoinPoint>, Error> {
    let mut points = Vec::new();
    let mut other_version = false;
    for mapped in mapped::code(pid).iter().take(FILES_MAX) {
        if Instant::now() > until || points.len() >= POINTS_MAX {
            break;
        }
        let Some(record) = record_of(pid, mapped, memory) else { continue };
        match record {
            (at, record) if record.version == VERSION => {
                let (code, area) = record.resolve(at);
                points.push(JoinPoint { code, area });
            }
            _ => other_version = true,
        }
    }
    points.sort_unstable();
    points.dedup();
    match points.is_empty() {
        true if other_version => Err(Error::OtherVersion),
        true => Err(Error::NoEvents),
        false => Ok(points),
    }
}

/// The record of the binary that is mapped there, and its address.
fn record_of(pid: u32, mapped: &Mapped, memory: &File) -> Option<(u64, JoinRecord)> {
    let map = &mapped.map;
    let file = mapped.file?.open(pid, (map.start, map.end), &map.path).ok()?;
    let headers = Bounded::new(file, READ_MAX);
    let address = Code::of(&headers, mapped)?.section(SECTION)?;
    let mut bytes = [0; RECORD_BYTES];
    memory.read_exact_at(&mut bytes, address).ok()?;
    Some((address, JoinRecord::from_bytes(bytes)))
}
