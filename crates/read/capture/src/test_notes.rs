//! Notes and code for tests.

use crate::code::Code;
use crate::moment::{Moment, Reached};
use crate::note::{Note, What};
use mote_pt::image::{Image as _, Space};

/// A note of a process, at a time; 0 for none.
pub(crate) fn note(pid: i32, cpu: Option<u32>, time: u64, what: What) -> Note {
    Note { pid, tid: pid, cpu, instructions: None, time: Some(time).filter(|time| *time > 0), what }
}

/// Code of a byte.
pub(crate) fn code(start: u64, byte: u8) -> What {
    What::Code { start, code: vec![byte], since: None }
}

/// The byte at an address at a time, where these versions count.
pub(crate) fn byte(code: &Code, versions: &[(Moment, Space)], time: u64, address: u64) -> Option<u8> {
    let is_reached = |from: Moment| from.is_reached(0, Reached { time: Some(time), next: None });
    let (_, space) = versions.iter().rev().find(|(from, _)| is_reached(*from)).expect("a version");
    code.read(*space, address).ok().and_then(|bytes| bytes.first().copied())
}
