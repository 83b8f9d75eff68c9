//! Calls that are counted in place of being recorded: where each function's counts are, for the code in `arch`.
//!
//! The code of a probe adds one to a word of its CPU by a restartable sequence: no lock, and nothing is lost to another
//! thread, to a signal's handler, or to another process that counts in the same memory. What is counted is there when
//! the instruction is done, so that whatever ends the process takes nothing away. Threads without a registration share
//! the first row, and lock it.

use core::ops::Range;
use core::ptr::null_mut;
use core::sync::atomic::{AtomicU64, Ordering};
use mote_agent::{CountArea, Counter, Function, add_counts};
use mote_layout::functions::{COUNT_BYTES, Plan, VALUE_BYTES, What};
use mote_sys::mem::{Mapping, PAGE_BYTES};
use mote_sys::{Errno, Result, process};

/// Entries of a table of rows before that of the first CPU: of the numbers -2 and -1 (linux/rseq.h,
/// `RSEQ_CPU_ID_REGISTRATION_FAILED`, `RSEQ_CPU_ID_UNINITIALIZED`).
const BEFORE: usize = 2;
/// As many CPUs have an entry where the kernel does not say how many there can be.
const CPUS: usize = 510;

/// What is counted of a function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Counted {
    /// Calls that begin.
    Entries,
    /// Their ends, too.
    Both,
}

/// What is counted of a function with these values; `None` when its calls are recorded.
pub(crate) fn of(values: &[[u8; VALUE_BYTES]]) -> Option<Counted> {
    let is = |value: Option<&[u8; VALUE_BYTES]>, what: What| {
        value.is_some_and(|value| value.first() == Some(&(what as u8)))
    };
    if !is(values.first(), What::Entries) {
        return None;
    }
    Some(if is(values.get(1), What::Returns) { Counted::Both } else { Counted::Entries })
}

/// The counters of a plan's functions.
pub(crate) struct Counters {
    first: *mut Counter,
    count: usize,
}

impl Counters {
    /// None.
    pub(crate) const NONE: Counters = Counters { first: null_mut(), count: 0 };

    /// Makes those of a plan, in memory that stays, which is private until a session gives some.
    ///
    /// # Errors
    /// `EINVAL` when they have no room in the rows; `ENOMEM`.
    pub(crate) fn make(plan: &Plan<'static>) -> Result<Counters> {
        let Some(counts) = plan.counts else { return Ok(Counters::NONE) };
        let bytes = counts.bytes().ok_or(Errno(libc::EINVAL))?;
        let (rows, row_bytes) = (counts.rows as usize, counts.row_bytes as usize);
        let each = || plan.probes().filter_map(|probe| of(plan.values(&probe)?)).map(words);
        let (count, needed) = each().fold((0, 0), |(count, all), words| (count + 1, all + words));
        if needed > counts.words() || count != plan.probe_count() {
            return Err(Errno(libc::EINVAL));
        }
        let cpus = process::possible_cpus().map_or(CPUS, |cpus| cpus as usize).max(rows);
        let table = Mapping::private((BEFORE + cpus) * size_of::<usize>())?;
        let area = Mapping::private(bytes)?;
        let counters = Mapping::private(size_of::<CountArea>() + count * size_of::<Counter>())?;
        let (table, base) = (table.leak().cast::<usize>(), area.leak());
        for row in 1..rows {
            // SAFETY: the table has an entry for each CPU that has a row.
            unsafe { table.wrapping_add(BEFORE + row - 1).write(row * row_bytes) };
        }
        let known = counters.leak().cast::<CountArea>();
        let first = known.wrapping_add(1).cast::<Counter>();
        let mut at = base.cast::<u64>();
        for (number, words) in each().enumerate() {
            let counter = Counter { rows: table.wrapping_add(BEFORE), at };
            // SAFETY: the mapping has room for as many; pages are aligned for any type.
            unsafe { first.wrapping_add(number).write(counter) };
            at = at.wrapping_add(words);
        }
        // SAFETY: the area was leaked just now, and is used by the code of probes and as atomics.
        let area = unsafe { CountArea::new(counts.number, base, bytes) };
        // SAFETY: as above.
        unsafe { known.write(area) };
        // SAFETY: written just now, and leaked.
        add_counts(unsafe { &*known });
        Ok(Counters { first, count })
    }

    /// Where they are, but for what is known of the area: whole pages.
    pub(crate) fn pages(&self) -> Range<usize> {
        let end = self.first.addr() + self.count * size_of::<Counter>();
        let begin = self.first.addr().next_multiple_of(PAGE_BYTES);
        begin..end.next_multiple_of(PAGE_BYTES).max(begin)
    }

    /// The counter of the plan's function of this number; null where there is none.
    pub(crate) fn of(&self, number: usize) -> *mut Counter {
        if number < self.count { self.first.wrapping_add(number) } else { null_mut() }
    }
}

fn words(counted: Counted) -> usize {
    match counted {
        Counted::Entries => 1,
        Counted::Both => 2,
    }
}

/// Counts the begin of a call, where the code does not do it.
pub(crate) fn began(function: &Function) {
    add_one(function, 0);
}

/// Counts the end of a call, where that is counted, and the code has not done it.
pub(crate) fn ended(function: &Function, counted: Counted) {
    if counted == Counted::Both {
        add_one(function, COUNT_BYTES);
    }
}

/// Adds one to a word of a function, so many bytes behind its first, in the row that all threads share.
fn add_one(function: &Function, bytes: usize) {
    let counter = function.counter.load(Ordering::Acquire).cast_const();
    // SAFETY: null, or one that stays for good.
    let Some(counter) = (unsafe { counter.as_ref() }) else { return };
    // SAFETY: `counter-stays`: it has a word in this row, and a second one where ends are counted.
    let word = unsafe { AtomicU64::from_ptr(counter.at.wrapping_byte_add(bytes)) };
    word.fetch_add(1, Ordering::Relaxed);
}
