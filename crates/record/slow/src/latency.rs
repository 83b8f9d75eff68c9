//! The recorder's side of slow calls: programs attached, thresholds set, slow calls and histograms read.

use crate::histogram::Histogram;
use crate::offsets::Offsets;
use crate::places as at;
use crate::programs::{self, WAKING};
use crate::slow::Slow;
use mote_catalog::btf::Btf;
use mote_generate::threads;
use mote_kernel::Error;
use mote_kernel::attach::{self, Link};
use mote_kernel::load::{Kind, Program};
use mote_kernel::map::{Create, Map, MapType, Mapped, State};
use mote_layout::cooperation as area;
use std::mem::offset_of;

/// Most processes with an area.
const AREAS: u32 = 1024;

/// What is recorded from the start; all of it can be changed later.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// By system call: from how many nanoseconds on it is recorded.
    pub thresholds: Vec<(u32, u64)>,
    /// From how many nanoseconds on the other ones are; `u64::MAX` for never.
    pub others: u64,
}

/// A thread in a system call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Open {
    /// The thread, as the recorder sees it.
    pub tid: u32,
    /// Number of the call.
    pub number: u32,
    /// Since when (CLOCK_MONOTONIC, ns), or a tick longer.
    pub since_ns: u64,
}

/// What could not be done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Slow calls that came faster than they were read.
    pub lost: u64,
    /// Threads for which there was no slot in the area of their process.
    pub unpublished: u64,
    /// System calls of other ABIs.
    pub foreign: u64,
}

/// The programs at work.
#[derive(Debug)]
pub struct Latency {
    /// First, so that it is dropped first.
    _links: Vec<Link>,
    _programs: Vec<Program>,
    control: Mapped,
    records: Mapped,
    histogram: Mapped,
    slow: Mapped,
    areas: Map,
    cpus: u32,
    tick_ns: u64,
    /// Slow calls read so far.
    read: u64,
    /// What a system call took before the programs were attached, in nanoseconds.
    bare_ns: f64,
    /// The histogram's words when they were last looked at.
    seen: Vec<u32>,
}

/// A memory that is shared with a process: an array map with one element of [`area::area_bytes`].
pub type Area = Mapped;

/// The word of a system call in a table of the control map.
fn of_call(table: usize, number: u32) -> usize {
    table + number as usize * 8
}

impl Latency {
    /// Attaches everything, for the threads that `state` follows.
    ///
    /// # Errors
    /// [`Error`]: no right, no memory, no types, or what the verifier says.
    pub fn attach(state: &State, btf: &Btf, settings: &Settings) -> Result<Latency, Error> {
        let layout = state.layout();
        let make = |name, what, bytes: u32| {
            Mapped::create(name, bytes).map_err(|errno| Error::memory(what, bytes.into(), errno))
        };
        let control = make("mote_latency", "thresholds and counts", at::control_bytes(layout.cpus))?;
        let records = make("mote_waits", "the records of threads", layout.threads * at::RECORD_BYTES)?;
        let words = at::CALLS * at::BUCKETS;
        let histogram = make("mote_durations", "histograms", words * 4)?;
        let slow = make("mote_slow", "slow calls", at::SLOW_BYTES)?;
        let areas = areas()?;
        let mut latency = Latency {
            _links: Vec::new(),
            _programs: Vec::new(),
            control,
            records,
            histogram,
            slow,
            areas,
            cpus: layout.cpus,
            tick_ns: mote_sys::time::tick_ns(),
            read: 0,
            bare_ns: fast_call(),
            seen: vec![0; words as usize],
        };
        (0..at::CALLS).for_each(|number| latency.set_threshold(number, settings.others));
        settings.thresholds.iter().for_each(|(number, ns)| latency.set_threshold(*number, *ns));
        latency.set_names();
        latency.load(state, btf)?;
        Ok(latency)
    }

    fn load(&mut self, state: &State, btf: &Btf) -> Result<(), Error> {
        let offsets = Offsets::of(btf)?.seen_by(state, btf);
        let blind = Offsets { preempt_count: None, ..offsets.clone() };
        let layout = state.layout();
        // The second one is the rings' elsewhere, which nothing here needs.
        let maps = [
            state.map(),
            state.map(),
            self.control.map(),
            self.records.map(),
            self.histogram.map(),
            self.slow.map(),
            &self.areas,
        ];
        for (name, insns) in programs::all(&offsets, layout) {
            let id = btf
                .tracepoint(name)
                .ok_or_else(|| mote_generate::Error::Types(format!("no tracepoint {name}")))?;
            let insns = insns.map_err(|error| Error::event(name, error.to_string()))?;
            let program = match Program::load(name, Kind::Typed(id), &insns, &maps) {
                // A kernel without symbols of its variables (CONFIG_KALLSYMS_ALL) does not tell its programs about
                // interrupts.
                Err(_) if name == WAKING && offsets.preempt_count.is_some() => {
                    let insns = programs::waking(&blind, layout)
                        .map_err(|error| Error::event(name, error.to_string()))?;
                    Program::load(name, Kind::Typed(id), &insns, &maps)?
                }
                program => program?,
            };
            self._links.push(attach::tracepoint(&program, name, None)?);
            self._programs.push(program);
        }
        Ok(())
    }

    /// Tells which argument of which call is a path or an address.
    fn set_names(&self) {
        let mut bytes = [0_u8; at::CALLS as usize];
        for (name, argument) in crate::waits::NAMES {
            let number = mote_layout::syscalls::number(name);
            if let Some(byte) = number.and_then(|number| bytes.get_mut(number as usize)) {
                *byte = *argument;
            }
        }
        for (place, word) in bytes.as_chunks::<8>().0.iter().enumerate() {
            self.control.store64(offset_of!(at::Control, names) + place * 8, u64::from_ne_bytes(*word));
        }
    }

    /// Records calls of this number from so many nanoseconds on; `u64::MAX`: none.
    pub fn set_threshold(&self, number: u32, ns: u64) {
        if number >= at::CALLS {
            return;
        }
        let ticks = i64::try_from(ns / self.tick_ns).unwrap_or(i64::MAX).saturating_sub(2);
        // The clock is first, should a program look in between.
        self.control.store64(of_call(offset_of!(at::Control, ticks), number), (-1_i64) as u64);
        self.control.store64(of_call(offset_of!(at::Control, thresholds), number), ns);
        let word = if ns == u64::MAX { i64::MAX } else { ticks.max(-1) };
        self.control.store64(of_call(offset_of!(at::Control, ticks), number), word as u64);
        self.set_stack_from();
    }

    /// The threshold of a call.
    pub fn threshold(&self, number: u32) -> u64 {
        self.control.load64(of_call(offset_of!(at::Control, thresholds), number))
    }

    /// Waits of a fourth of the smallest threshold are worth a stack; those below 20 us never are.
    fn set_stack_from(&self) {
        let least = (0..at::CALLS).map(|number| self.threshold(number)).min().unwrap_or(0);
        self.control.store64(offset_of!(at::Control, stack_from), (least / 4).clamp(20_000, 1_000_000));
    }

    /// Hands on the slow calls that came since the last time, in the order in which they were claimed.
    pub fn slow(&mut self, mut each: impl FnMut(Slow)) {
        let head = self.slow.load64(offset_of!(at::Ring, head));
        while self.read < head {
            let Some(slow) = Slow::read(&self.slow, self.read, self.tick_ns) else { break };
            each(slow);
            self.read += 1;
            self.slow.store64(offset_of!(at::Ring, consumed), self.read);
        }
    }

    /// Adds what came since the last time to `to`, by number of the call. What it adds is at most one call's length
    /// old.
    pub fn durations(&mut self, mut to: impl FnMut(u32, usize, f64)) {
        for (word, seen) in self.seen.iter_mut().enumerate() {
            let now = self.histogram.load32(word * 4);
            let new = now.wrapping_sub(*seen);
            *seen = now;
            if new > 0 {
                let buckets = at::BUCKETS as usize;
                to((word / buckets) as u32, word % buckets, f64::from(new));
            }
        }
    }

    /// How many calls of this number have returned.
    pub fn count(&self, number: u32) -> u64 {
        let cpu =
            |cpu: u32| of_call(offset_of!(at::Control, counts) + (cpu * at::COUNTS_BYTES) as usize, number);
        (0..self.cpus).map(|number| self.control.load64(cpu(number))).sum()
    }

    /// The threads that are in a system call.
    pub fn open(&self, state: &State) -> Vec<Open> {
        let first = state.layout().threads() as usize;
        let mut open = Vec::new();
        for place in 0..state.layout().threads as usize {
            let tid = state.memory().load32(first + (place << threads::ENTRY_BITS));
            let record = place << at::RECORD_BITS;
            let number = self.records.load32(record + offset_of!(at::Record, number));
            let same = tid != 0 && self.records.load32(record + offset_of!(at::Record, tid)) == tid;
            if same && number != 0 {
                let since_ns = self.records.load64(record + offset_of!(at::Record, known));
                let tid = state.recorder_tid_at(place as u32);
                open.push(Open { tid, number: number - 1, since_ns });
            }
        }
        open
    }

    /// Gives programs the area of the processes with this index (from 1 on; 0 means none).
    ///
    /// # Errors
    /// When the index is too large, or the area has another size than [`area::area_bytes`] of [`area::SLOTS`].
    pub fn set_area(&self, index: u32, area: &Map) -> Result<(), Error> {
        let fail = |errno| Error::memory("an area shared with a process", area_bytes().into(), errno);
        self.areas.update(&index.to_ne_bytes(), &area.raw().to_ne_bytes()).map_err(fail)
    }

    /// Takes an area away; programs that are in it finish first.
    pub fn forget_area(&self, index: u32) {
        let _ = self.areas.delete(&index.to_ne_bytes());
    }

    /// What could not be done.
    pub fn counters(&self) -> Counters {
        Counters {
            lost: self.slow.load64(offset_of!(at::Ring, lost)),
            unpublished: self.control.load64(offset_of!(at::Control, unpublished)),
            foreign: self.control.load64(offset_of!(at::Control, foreign)),
        }
    }

    /// What the programs add to a fast system call of a thread that is followed, in nanoseconds: measured in the
    /// calling thread, whose id is `tid`. It is followed meanwhile, and what it calls is counted. `None` when the
    /// machine was too busy to tell.
    pub fn cost_ns(&self, state: &State, tid: u32) -> Option<f64> {
        state.follow(tid, threads::TRACED).ok()?;
        let with = fast_call();
        state.clear(tid, threads::TRACED);
        (with > self.bare_ns).then_some(with - self.bare_ns)
    }

    /// Nanoseconds of a tick: thresholds from two of them on cost no clock.
    pub fn tick_ns(&self) -> u64 {
        self.tick_ns
    }
}

impl Histogram {
    /// Adds to the bucket that [`Latency::durations`] names.
    pub fn add_bucket(&mut self, bucket: usize, count: f64) {
        self.add_to(bucket, count);
    }
}

/// What a fast system call takes: the best of some tries, which nothing has disturbed.
fn fast_call() -> f64 {
    const TRIES: usize = 20;
    const CALLS: u32 = 200;
    let time = || {
        let start = std::time::Instant::now();
        for _ in 0..CALLS {
            std::hint::black_box(std::os::unix::process::parent_id());
        }
        start.elapsed().as_nanos() as f64 / f64::from(CALLS)
    };
    (0..TRIES).map(|_| time()).fold(f64::INFINITY, f64::min)
}

const fn area_bytes() -> u32 {
    area::area_bytes(area::SLOTS) as u32
}

/// The map of areas.
fn areas() -> Result<Map, Error> {
    let fail = |errno| Error::memory("the table of areas", AREAS.into(), errno);
    let like = Mapped::create("mote_area", area_bytes()).map_err(fail)?;
    let create = Create {
        map_type: MapType::ArrayOfMaps,
        key_bytes: 4,
        value_bytes: 4,
        entries: AREAS,
        flags: 0,
        inner: Some(like.map()),
        name: "mote_areas",
    };
    Map::make(&create).map_err(fail)
}
