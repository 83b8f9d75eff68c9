//! What a process's run-time compiler calls its functions: `perf-PID.map`, `jit-PID.dump` of the capture.

use crate::note::{Note, What};
use mote_symbol::{JitDump, PerfMap, collect};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

/// Bytes that a table may have.
const TABLE_MAX: u64 = 256 << 20;

/// The names of a process's functions.
#[derive(Debug)]
pub(crate) struct Compiled {
    /// Without times.
    table: Option<PerfMap>,
    dump: Option<JitDump>,
    /// Times of the dump are those of the time stamp counter.
    has_times: bool,
}

impl Compiled {
    /// Those of a process, whose clocks were at these places.
    pub(crate) fn read(folder: &Path, pid: u32, clocks: &Clocks) -> Option<Compiled> {
        let table = bytes(&folder.join(collect::perf_map_name(pid)));
        let table = table.map(|bytes| PerfMap::parse(&String::from_utf8_lossy(&bytes)));
        let dump = bytes(&folder.join(collect::jit_dump_name(pid))).and_then(|bytes| JitDump::parse(&bytes));
        let (dump, has_times) = dump.map_or((None, false), |dump| match clocks.line() {
            _ if dump.is_of_counter() => (Some(dump), true),
            Some(line) => (Some(dump.with_times(|time| line.ticks(time))), true),
            None => (Some(dump), false),
        });
        (table.is_some() || dump.is_some()).then_some(Compiled { table, dump, has_times })
    }

    /// The function at an address up to a time, and the offset in it.
    pub(crate) fn find(&self, address: u64, until: Option<u64>) -> Option<(&str, u64)> {
        let until = until.filter(|_| self.has_times);
        let dumped = self.dump.as_ref().and_then(|dump| dump.find(address, until));
        dumped.or_else(|| self.table.as_ref()?.find(address))
    }

    /// The code that the dump has, by time, as notes.
    fn code(&self, pid: i32) -> Vec<Note> {
        let loads = self.dump.iter().filter(|_| self.has_times).flat_map(JitDump::loads);
        let noted = loads.filter(|load| !load.code.is_empty()).map(|load| {
            let what = What::Code { start: load.start, code: load.code.to_vec(), since: None };
            Note { pid, tid: pid, cpu: None, instructions: None, time: Some(load.time), what }
        });
        let mut notes: Vec<Note> = noted.collect();
        notes.sort_by_key(|note| note.time);
        notes
    }
}

/// A file of the capture; one that is none, or too large, is not read.
fn bytes(path: &Path) -> Option<Vec<u8>> {
    fs::metadata(path).ok().filter(|data| data.is_file() && data.len() <= TABLE_MAX)?;
    fs::read(path).ok()
}

/// Where the kernel's clock and the time stamp counter were together, first and last.
#[derive(Clone, Debug, Default)]
pub(crate) struct Clocks {
    first: Option<(u64, u64)>,
    last: Option<(u64, u64)>,
}

/// The line through both.
#[derive(Clone, Copy, Debug)]
struct Line {
    from: (u64, u64),
    to: (u64, u64),
}

impl Clocks {
    /// As notes say it.
    pub(crate) fn of(notes: &[Note]) -> Clocks {
        let one = |note: &Note| match note.what {
            What::Clock { monotonic_ns, .. } => Some((monotonic_ns, note.time?)),
            _ => None,
        };
        let mut all = notes.iter().filter_map(one);
        Clocks { first: all.next(), last: all.next_back() }
    }

    fn line(&self) -> Option<Line> {
        let line = Line { from: self.first?, to: self.last? };
        (line.from.0 < line.to.0 && line.from.1 < line.to.1).then_some(line)
    }
}

impl Line {
    /// The time stamp counter when `CLOCK_MONOTONIC` was this, in nanoseconds.
    fn ticks(&self, monotonic_ns: u64) -> u64 {
        let [ns, ticks] = [self.to.0 - self.from.0, self.to.1 - self.from.1].map(i128::from);
        let since = i128::from(monotonic_ns) - i128::from(self.from.0);
        // Both are below 2^64, and `ns` is above 0.
        let at = i128::from(self.from.1) + since * ticks / ns;
        at.clamp(0, u64::MAX.into()) as u64
    }
}

/// The notes with the code that dumps have, of those processes of which there are no copies.
pub(crate) fn with_code(notes: Vec<Note>, of: impl Fn(i32) -> Option<Vec<Note>>) -> Vec<Note> {
    let copied: BTreeSet<i32> = notes
        .iter()
        .filter(|note| matches!(note.what, What::Code { .. }) && note.time.is_some())
        .map(|note| note.pid)
        .collect();
    let others: BTreeSet<i32> =
        notes.iter().map(|note| note.pid).filter(|pid| !copied.contains(pid)).collect();
    let mut dumped: BTreeMap<u64, Vec<Note>> = BTreeMap::new();
    for note in others.into_iter().filter_map(of).flatten() {
        dumped.entry(note.time.unwrap_or(0)).or_default().push(note);
    }
    if dumped.is_empty() {
        return notes;
    }
    let mut all = Vec::new();
    for note in notes {
        while let Some(first) = dumped.first_entry().filter(|first| note.time > Some(*first.key())) {
            all.extend(first.remove());
        }
        all.push(note);
    }
    all.extend(dumped.into_values().flatten());
    all
}

/// The code of a process's dump, as notes.
pub(crate) fn code_of(folder: &Path, pid: i32, clocks: &Clocks) -> Option<Vec<Note>> {
    Some(Compiled::read(folder, u32::try_from(pid).ok()?, clocks)?.code(pid))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn note(pid: i32, time: u64, what: What) -> Note {
        Note { pid, tid: pid, cpu: None, instructions: None, time: Some(time), what }
    }

    #[test]
    fn times_of_the_kernels_clock_are_the_counters() {
        let clock = |monotonic_ns| What::Clock { monotonic_ns, realtime_ns: 0, error_ns: 0 };
        let one = Clocks::of(&[note(0, 3000, clock(1000))]);
        assert!(one.line().is_none());
        let line =
            Clocks::of(&[note(0, 3000, clock(1000)), note(0, 5000, clock(1500)), note(0, 7000, clock(2000))]);
        let line = line.line().expect("two");
        assert_eq!([1000, 1250, 2000, 3000, 0].map(|ns| line.ticks(ns)), [3000, 4000, 7000, 11000, 0]);
    }

    #[test]
    fn code_of_a_dump_is_there_where_there_are_no_copies() {
        let code = |byte| What::Code { start: 0x1000, code: vec![byte], since: None };
        let exec = || What::Exec { path: "/bin/node".into() };
        let notes = vec![note(7, 5, exec()), note(8, 6, code(1)), note(7, 20, exec())];
        let dumped = |pid| Some(vec![note(pid, 10, code(2)), note(pid, 30, code(3))]);
        let all = with_code(notes, dumped);
        let times: Vec<_> = all.iter().map(|note| (note.pid, note.time.unwrap_or(0))).collect();
        assert_eq!(times, [(7, 5), (8, 6), (7, 10), (7, 20), (7, 30)]);
    }
}
