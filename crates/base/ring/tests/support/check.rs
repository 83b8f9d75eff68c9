//! The proof, from the reader's side.
//!
//! Each stream's records are kept as runs: consecutive sequence numbers found in one ring one after the other. At the
//! end, the runs of a stream must not overlap (nothing doubled), their times must be in the order of their numbers
//! (nothing out of order), and what is missing between them must have been counted as lost, or lie where the reader was
//! told that something was overwritten.

use super::board::Told;
use super::record::{self, Found, STREAMS};
use mote_layout::record::TIME_BITS;
use mote_loss::Lost;
use mote_ring::Mode;

const TIME_MASK: u64 = (1 << TIME_BITS) - 1;

/// In rings that several CPUs write, a record may be so much older than the one before: what the counters of two
/// virtual CPUs may differ by beyond the time that a word takes from one to the other. (Seen once: 6 ticks, three
/// records of one round beside a build. Of 80 M words handed over, with the counter read by RDTSCP, most take more than
/// 150 ticks, but for some seconds the fastest took 0 to 9, then 40 or 130 again: the host moves virtual CPUs.)
const SKEW_TICKS_MAX: u64 = 32;

/// Consecutive records of one stream in one ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Run {
    stream: u32,
    first: u64,
    last: u64,
    begin: u64,
    end: u64,
}

/// A time in which a ring lost records that were not counted.
#[derive(Clone, Copy, Debug)]
struct Skip {
    from: u64,
    to: u64,
}

#[derive(Clone, Copy, Debug, Default)]
struct RingState {
    last_time: u64,
    skipping_from: Option<u64>,
}

/// What the reader of a round has found.
pub struct Check {
    /// Times are extended to 64 bits from here.
    base: u64,
    rings: Vec<RingState>,
    /// The run that a stream is in, for each ring: its index, and 1.
    open: Vec<u32>,
    runs: Vec<Run>,
    skips: Vec<Skip>,
    read: Vec<u64>,
    pub events: u64,
    pub violations: u64,
    pub messages: Vec<String>,
    /// Rings from this one on are written by several CPUs.
    shared_from: usize,
}

impl Check {
    /// `now` is the channel's time, before any record. Rings from `shared_from` on are written by several CPUs.
    pub fn new(rings: usize, shared_from: usize, now: u64) -> Check {
        Check {
            shared_from,
            base: now.saturating_sub(1 << 36),
            rings: vec![RingState::default(); rings],
            open: vec![0; rings * STREAMS],
            runs: Vec::new(),
            skips: Vec::new(),
            read: vec![0; STREAMS],
            events: 0,
            violations: 0,
            messages: Vec::new(),
        }
    }

    pub fn violation(&mut self, what: impl FnOnce() -> String) {
        self.violations += 1;
        if self.messages.len() < 8 {
            self.messages.push(what());
        }
    }

    /// The reader was told that records of `ring` are gone.
    pub fn skip(&mut self, ring: usize) {
        let state = &mut self.rings[ring];
        state.skipping_from.get_or_insert(state.last_time);
    }

    /// Whole records that the reader was handed.
    pub fn chunk(&mut self, ring: usize, bytes: &[u8], time_end: Option<u64>) {
        let mut at = 0;
        while at < bytes.len() {
            match record::read(&bytes[at..]) {
                Ok(found) => {
                    self.record(ring, found);
                    at += found.bytes;
                }
                Err(what) => {
                    self.violation(|| format!("ring {ring}: torn: {what} at {at} of {} bytes", bytes.len()));
                    return;
                }
            }
        }
        let last = self.rings[ring].last_time;
        if time_end.is_some_and(|end| self.extend(end & TIME_MASK) < last) {
            self.violation(|| format!("ring {ring}: the sub-buffer ends before its last record"));
        }
    }

    fn extend(&self, time: u64) -> u64 {
        self.base + (time.wrapping_sub(self.base) & TIME_MASK)
    }

    fn record(&mut self, ring: usize, found: Found) {
        let time = self.extend(found.time);
        self.events += 1;
        self.read[found.stream] += 1;
        let state = &mut self.rings[ring];
        let before = state.last_time;
        state.last_time = time.max(before);
        if let Some(from) = state.skipping_from.take() {
            self.skips.push(Skip { from, to: time });
        }
        let back = before.saturating_sub(time);
        if back > 0 && (ring < self.shared_from || back > SKEW_TICKS_MAX) {
            self.violation(|| format!("ring {ring}: time goes back by {back}"));
        }
        let open = &mut self.open[ring * STREAMS + found.stream];
        let run = (*open as usize).checked_sub(1).map(|index| &mut self.runs[index]);
        match run {
            Some(run) if found.sequence == run.last + 1 => {
                run.last += 1;
                run.end = time;
            }
            run => {
                let after = run.is_some_and(|run| found.sequence <= run.last);
                self.runs.push(Run {
                    stream: found.stream as u32,
                    first: found.sequence,
                    last: found.sequence,
                    begin: time,
                    end: time,
                });
                *open = self.runs.len() as u32;
                if after {
                    self.violation(|| format!("ring {ring}: out of order or doubled: {found:?}"));
                }
            }
        }
    }

    /// The verdict, when no thread writes any more and all was read.
    pub fn finish(&mut self, told: &[Told], lost: &Lost, torn: u64, mode: Mode) {
        for state in &self.rings {
            if let Some(from) = state.skipping_from {
                self.skips.push(Skip { from, to: u64::MAX });
            }
        }
        let missing = self.compare_runs(told);
        let mut sum = Told::default();
        let mut open = 0;
        for (stream, told) in told.iter().enumerate() {
            self.compare_stream(stream, told, missing[stream], mode == Mode::Discard && torn == 0);
            open += told.open();
            sum.begun += told.begun;
            sum.written += told.written;
            sum.refused += told.refused;
            for (sum, lost) in sum.lost.iter_mut().zip(told.lost) {
                *sum += lost;
            }
        }
        let all: u64 = lost.iter().sum();
        if lost.iter().zip(sum.lost).any(|(counted, told)| *counted < told || *counted > told + open) {
            self.violation(|| format!("counted as lost: {lost:?}, told: {:?}, open: {open}", sum.lost));
        }
        if sum.refused != 0 {
            self.violation(|| format!("{} records were refused", sum.refused));
        }
        let found = self.events + torn + all;
        let done = sum.begun - open;
        if found > sum.begun || (mode == Mode::Discard && found < done) {
            let read = self.events;
            self.violation(|| {
                format!("emitted {done} and {open} open; read {read} + torn {torn} + lost {all}")
            });
        }
    }

    /// Orders the runs of each stream. Returns for each how many records are missing that nothing explains.
    fn compare_runs(&mut self, told: &[Told]) -> Vec<u64> {
        let mut runs = std::mem::take(&mut self.runs);
        runs.sort_unstable();
        let skips = Skips::new(&self.skips);
        let mut missing = vec![0; told.len()];
        let mut expected = 0;
        let mut time = 0;
        for (at, run) in runs.iter().enumerate() {
            let stream = run.stream as usize;
            if at == 0 || runs[at - 1].stream != run.stream {
                (expected, time) = (0, 0);
            }
            if stream >= told.len() || run.last >= told[stream].begun {
                self.violation(|| format!("never emitted: {run:?}"));
                continue;
            }
            if run.first < expected {
                self.violation(|| format!("doubled: {run:?} after {expected}"));
            } else if run.first > expected && !skips.touch(time, run.begin) {
                missing[stream] += run.first - expected;
            }
            if run.begin < time {
                self.violation(|| {
                    format!("out of order across rings: {run:?} is {} early", time - run.begin)
                });
            }
            expected = run.last + 1;
            time = run.end;
            let is_last = runs.get(at + 1).is_none_or(|next| next.stream != run.stream);
            if is_last && !skips.touch(time, u64::MAX) {
                missing[stream] += told[stream].begun - expected;
            }
        }
        missing
    }

    fn compare_stream(&mut self, stream: usize, told: &Told, missing: u64, exact: bool) {
        let read = self.read[stream];
        let most = told.written + told.open();
        if read > most || (exact && read < told.written) {
            self.violation(|| {
                format!("stream {stream}: read {read}, written {} and {} open", told.written, told.open())
            });
        }
        if missing > told.begun - told.written {
            self.violation(|| {
                format!("stream {stream}: {missing} are missing without a reason: {told:?}, read {read}")
            });
        }
    }
}

/// The skips, joined where they overlap.
struct Skips(Vec<Skip>);

impl Skips {
    fn new(skips: &[Skip]) -> Skips {
        let mut sorted = skips.to_vec();
        sorted.sort_unstable_by_key(|skip| skip.from);
        let mut joined: Vec<Skip> = Vec::new();
        for skip in sorted {
            match joined.last_mut() {
                Some(last) if skip.from <= last.to => last.to = last.to.max(skip.to),
                _ => joined.push(skip),
            }
        }
        Skips(joined)
    }

    /// Whether a skip has a moment in common with `from..=to`.
    fn touch(&self, from: u64, to: u64) -> bool {
        let after = self.0.partition_point(|skip| skip.to < from);
        self.0.get(after).is_some_and(|skip| skip.from <= to)
    }
}
