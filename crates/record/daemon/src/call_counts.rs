//! Calls of functions that are counted in processes: the memory that these get for it, and what is in it.
//!
//! A plan of probes has a number, by which a process that has it asks for memory. Its forked children count in the same
//! memory, or ask for memory of their own. The memory is ours: what was counted stays when a process has ended.

use crate::area;
use mote_filter::Aggregate;
use mote_filter::aggregate::{Content, Row, Table, Value};
use mote_layout::functions::COUNT_BYTES;
use mote_sys::fd::{self, Fd};
use mote_sys::{Errno, Result};
use mote_trampolines::CountedFunctions;
use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Most bytes of memory of all processes' counts.
const BYTES_MAX: u64 = 4 << 30;
/// Bytes that are read at a time.
const READ: usize = 1 << 20;

/// The counts of all plans.
#[derive(Debug, Default)]
pub(crate) struct CallCounts(Mutex<Inner>);

#[derive(Debug, Default)]
struct Inner {
    plans: BTreeMap<u64, Counted>,
    bytes: u64,
}

/// A plan's counts.
#[derive(Debug)]
struct Counted {
    functions: CountedFunctions,
    /// The memory of each process that has asked.
    files: Vec<Fd>,
    /// What was counted in memory that has gone, word by word.
    settled: Vec<u64>,
}

impl Counted {
    /// What was counted so far, word by word.
    fn sums(&self) -> Vec<u64> {
        let mut sums = self.settled.clone();
        sums.resize(self.functions.names.len() * self.functions.counting.words(), 0);
        for file in &self.files {
            for row in 0..self.functions.counts.rows {
                add_row(file, row * self.functions.counts.row_bytes, &mut sums);
            }
        }
        sums
    }
}

/// How often a function was called, and how many of these calls have ended.
type Calls = (u64, u64);

impl CallCounts {
    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Knows a plan by its number, before a process has it.
    pub(crate) fn add(&self, functions: CountedFunctions) {
        let number = functions.counts.number;
        self.inner().plans.insert(number, Counted { functions, files: Vec::new(), settled: Vec::new() });
    }

    /// Memory for the counts of a process; `None` when the plan is not known here.
    ///
    /// # Errors
    /// `ENOMEM`, `ENOSPC`, `EMFILE`.
    pub(crate) fn make(&self, number: u64) -> Option<Result<i32>> {
        let Inner { plans, bytes: all } = &mut *self.inner();
        let Counted { functions, files, .. } = plans.get_mut(&number)?;
        let bytes = functions.counts.bytes()? as u64;
        if *all + bytes > BYTES_MAX {
            return Some(Err(Errno(libc::ENOMEM)));
        }
        Some(area::file(c"mote-counts", bytes).map(|file| {
            *all += bytes;
            let raw = file.raw();
            files.push(file);
            raw
        }))
    }

    /// Knows memory in which a process counts that was made for that by itself, of which it uses one row. It need not
    /// be what it should be: what cannot be read is 0.
    pub(crate) fn adopt(&self, number: u64, memory: Fd) {
        if let Some(counted) = self.inner().plans.get_mut(&number) {
            counted.files.push(memory);
        }
    }

    /// Nothing is counted any more in the memory that a plan has: keeps what was, and lets the memory go.
    pub(crate) fn settle(&self, number: u64) {
        if let Some(counted) = self.inner().plans.get_mut(&number) {
            counted.settled = counted.sums();
            counted.files.clear();
        }
    }

    /// Adds what was counted to `all`, by function. Returns whether returns are counted, too.
    ///
    /// # Cost
    /// Reads all memory: 8 bytes for each function, CPU and process.
    pub(crate) fn add_to(&self, all: &mut BTreeMap<String, Calls>) -> bool {
        let inner = self.inner();
        let mut returns = false;
        for counted in inner.plans.values() {
            let functions = &counted.functions;
            returns |= functions.counting.returns;
            let (words, sums) = (functions.counting.words(), counted.sums());
            for (name, counts) in functions.names.iter().zip(sums.chunks_exact(words)) {
                let entries = counts.first().copied().unwrap_or(0);
                let ended = counts.get(1).copied().unwrap_or(0);
                let sum = all.entry(name.clone()).or_default();
                *sum = (sum.0.saturating_add(entries), sum.1.saturating_add(ended));
            }
        }
        returns
    }
}

/// Adds the words of a row to sums. Processes write there: they are numbers, and no more.
fn add_row(file: &Fd, at: u64, sums: &mut [u64]) {
    let mut bytes = vec![0; (sums.len() * COUNT_BYTES).min(READ)];
    for (number, sums) in (0..).zip(sums.chunks_mut(READ / COUNT_BYTES)) {
        // What cannot be read is 0.
        let read = fd::read_at(file, &mut bytes, at + number * READ as u64).unwrap_or(0);
        let words = bytes.get(..read).unwrap_or_default().as_chunks().0;
        for (sum, word) in sums.iter_mut().zip(words) {
            *sum = sum.wrapping_add(u64::from_le_bytes(*word));
        }
    }
}

/// The calls as a table, for people and for the recording; `None` when none was counted.
pub(crate) fn aggregate<'c>(counts: impl Iterator<Item = &'c CallCounts>) -> Option<Aggregate> {
    let mut all = BTreeMap::new();
    let mut returns = false;
    for counts in counts {
        returns |= counts.add_to(&mut all);
    }
    let mut calls: Vec<(String, Calls)> = all.into_iter().filter(|(_, (entries, _))| *entries > 0).collect();
    calls.sort_by(|(a, (more, _)), (b, (less, _))| less.cmp(more).then_with(|| a.cmp(b)));
    let row = |(name, (entries, ended)): (String, Calls)| {
        // Both are read at different moments.
        let under_way = returns.then(|| Value::Unsigned(entries.saturating_sub(ended)));
        let name = Value::String { text: name, cut: false };
        Row { values: std::iter::once(name).chain(under_way).collect(), count: entries }
    };
    let rows: Vec<Row> = calls.into_iter().map(row).collect();
    let columns =
        [mote_journal::CALLS_FUNCTION].into_iter().chain(returns.then_some(mote_journal::CALLS_UNDER_WAY));
    let table = Table { columns: columns.map(str::to_owned).collect(), rows };
    (!table.rows.is_empty()).then(|| Aggregate {
        name: mote_journal::CALLS.to_owned(),
        content: Content::Counts(table),
        dropped: 0,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use mote_layout::functions::Counts;
    use mote_trampolines::Counting;

    #[test]
    fn rows_of_all_processes_are_added_up() {
        let counting = Counting { returns: true, cpus: 2 };
        let counts = Counts::new(7, 2, 4).expect("small");
        let names = vec!["f".to_owned(), "g".to_owned()];
        let all = CallCounts::default();
        all.add(CountedFunctions { counts, counting, names });
        assert!(all.make(8).is_none(), "no such plan");
        for _ in 0..2 {
            let file = all.make(7).expect("known").expect("memory");
            for row in 0..3_u64 {
                for (word, value) in [(0, 10 + row), (1, 9), (2, 0)] {
                    let inner = all.inner();
                    let file = inner.plans[&7].files.iter().find(|one| one.raw() == file).expect("it");
                    fd::write_at(file, &value.to_le_bytes(), row * 128 + word * 8).expect("memory");
                }
            }
        }
        all.settle(7);
        assert!(all.inner().plans[&7].files.is_empty(), "what was counted stays");
        let shown = aggregate(std::iter::once(&all)).expect("some");
        let Content::Counts(table) = shown.content else { panic!("no counts") };
        let [row] = table.rows.as_slice() else { panic!("{table:?}") };
        assert_eq!((row.count, &row.values[1]), (66, &Value::Unsigned(12)));
    }
}
