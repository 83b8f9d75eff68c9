//! A machine with Intel PT that is none: for tests, and for whoever wants to see what a recorder does.
//!
//! Its events are files in memory, which are mapped as the kernel's are, and written as the kernel and a processor
//! write them: records that lose others where there is no room, packets that stop an event when their memory is full.
//! What happens is a list of steps; each wait of the recorder does some.
//!
//! Source: Linux 6.1, kernel/events/ring_buffer.c (`perf_output_begin`, `perf_aux_output_end`).

use crate::machine::Machine;
use mote_clock::Sample;
use mote_perfdata::record::aux;
use mote_perfdata::{Attribute, Record, SampleFormat, SampleId};
use mote_sys::fd::{self, Fd};
use mote_sys::mem::{PAGE_BYTES, sealed_memfd};
use mote_sys::{Errno, perf_count::TimeScale};
use std::collections::{BTreeMap, VecDeque};
use std::ffi::{CStr, CString};
use std::time::Duration;

/// Bytes of an event's file: what is not touched takes no memory.
const FILE: u64 = 1 << 30;
/// Words of the first page (`struct perf_event_mmap_page`).
const CAPABILITIES: u64 = 40;
const TIME_SHIFT: u64 = 50;
const TIME_ZERO: u64 = 64;
const DATA_HEAD: u64 = 1024;
const DATA_TAIL: u64 = 1032;
const AUX_HEAD: u64 = 1056;
const AUX_TAIL: u64 = 1064;
const AUX_OFFSET: u64 = 1072;
const AUX_SIZE: u64 = 1080;

/// What happens.
#[derive(Clone, Debug)]
pub enum Step {
    /// The kernel writes a record to the memory of a CPU.
    Record(i32, Record, SampleId),
    /// A processor writes packets to the memory of a CPU.
    Packets(i32, Vec<u8>),
    /// The kernel says something of the packets since the last time (`PERF_AUX_FLAG_*`).
    Flags(i32, u64),
    /// Somebody writes anything at an offset of a CPU's memory.
    Anything(i32, u64, Vec<u8>),
    /// The recorder comes.
    Wait,
}

/// An event that was opened.
#[derive(Debug)]
struct Opened {
    attribute: Attribute,
    cpu: i32,
    file: Fd,
    /// The recorder's descriptor.
    raw: i32,
    is_on: bool,
    /// Records that there was no room for, and of which that was not said.
    lost: u64,
    /// Bytes of packets since the last record that says so.
    since: u64,
    filter: Option<CString>,
}

/// The machine.
#[derive(Debug, Default)]
pub struct Simulated {
    opened: Vec<Opened>,
    /// The event to whose memory another one writes, by descriptor.
    sent: BTreeMap<i32, i32>,
    steps: VecDeque<Step>,
    /// The unit's number of Intel PT.
    unit: u32,
    clock: TimeScale,
    /// Memory is written over.
    pub overwrites: bool,
    /// What opening an event is refused with, if it is.
    pub refusal: Option<Errno>,
    /// Bytes of packets that there was no room for, or no event that was on.
    pub dropped: u64,
    /// Waits so far.
    pub waits: u64,
    /// Its clocks, where time passes on it.
    time: Option<fn() -> Sample>,
}

impl Simulated {
    /// One whose Intel PT has this number, and whose clock is this, where these steps happen. Events begin on
    /// execve(2), which has happened before the first step.
    #[must_use]
    pub fn new(unit: u32, clock: TimeScale, steps: impl IntoIterator<Item = Step>) -> Simulated {
        Simulated { unit, clock, steps: steps.into_iter().collect(), ..Simulated::default() }
    }

    /// The same where time passes: waits are ones, and it has these clocks.
    #[must_use]
    pub fn with_time(self, time: fn() -> Sample) -> Simulated {
        Simulated { time: Some(time), ..self }
    }

    /// Lets these steps happen behind those that are left.
    pub fn then(&mut self, steps: impl IntoIterator<Item = Step>) {
        self.steps.extend(steps);
    }

    /// How many steps are left.
    #[must_use]
    pub fn left(&self) -> usize {
        self.steps.len()
    }

    /// The attributes of what was opened, with the CPU of each, and its filter.
    pub fn opened(&self) -> impl Iterator<Item = (&Attribute, i32, Option<&CStr>)> {
        self.opened.iter().map(|event| (&event.attribute, event.cpu, event.filter.as_deref()))
    }

    fn find(&mut self, raw: i32) -> Result<&mut Opened, Errno> {
        self.opened.iter_mut().find(|event| event.raw == raw).ok_or(Errno(libc::EBADF))
    }

    /// Does steps up to the next wait.
    fn go(&mut self) {
        for event in &mut self.opened {
            let on_exec = event.attribute.flags & mote_perfdata::attribute::flag::ENABLE_ON_EXEC != 0;
            event.is_on |= on_exec && self.waits == 0;
        }
        self.waits += 1;
        while let Some(step) = self.steps.pop_front() {
            match step {
                Step::Wait => return,
                Step::Record(cpu, record, id) => self.with(cpu, |event, _| event.record(&record, &id)),
                Step::Packets(cpu, bytes) => {
                    let overwrites = self.overwrites;
                    self.with(cpu, |event, dropped| *dropped += event.packets(&bytes, overwrites));
                }
                Step::Flags(cpu, flags) => self.with(cpu, |event, _| event.says(flags)),
                Step::Anything(cpu, at, bytes) => self.with(cpu, |event, _| event.write(at, &bytes)),
            }
        }
    }

    /// The event of Intel PT that has memory on a CPU.
    fn with(&mut self, cpu: i32, does: impl FnOnce(&mut Opened, &mut u64)) {
        let Simulated { opened, sent, unit, dropped, .. } = self;
        let is_it = |event: &&mut Opened| {
            event.cpu == cpu && event.attribute.kind == *unit && !sent.contains_key(&event.raw)
        };
        if let Some(event) = opened.iter_mut().find(is_it) {
            does(event, dropped);
        }
    }
}

impl Opened {
    fn word(&self, at: u64) -> u64 {
        let mut word = [0; 8];
        let _ = fd::read_at(&self.file, &mut word, at);
        u64::from_le_bytes(word)
    }

    fn write(&self, at: u64, bytes: &[u8]) {
        let _ = fd::write_at(&self.file, bytes, at);
    }

    /// Writes to a ring of `size` bytes at `base`, from position `from` on.
    fn write_ring(&self, base: u64, size: u64, from: u64, bytes: &[u8]) {
        for (number, part) in ring_parts(size, from, bytes).into_iter().enumerate() {
            let at = if number == 0 { from % size } else { 0 };
            self.write(base + at, part);
        }
    }

    fn record(&mut self, record: &Record, id: &SampleId) {
        let base = PAGE_BYTES as u64;
        let Some(size) = self.word(AUX_OFFSET).checked_sub(base).filter(|size| *size > 0) else { return };
        let format = SampleFormat::of(&self.attribute);
        let write = |record: &Record| {
            let Ok(bytes) = record.write(id, format) else { return true };
            let (head, tail) = (self.word(DATA_HEAD), self.word(DATA_TAIL));
            if head.wrapping_sub(tail) + bytes.len() as u64 > size {
                return false;
            }
            self.write_ring(base, size, head, &bytes);
            self.write(DATA_HEAD, &(head + bytes.len() as u64).to_le_bytes());
            true
        };
        let lost = self.lost;
        let is_said = lost == 0 || write(&Record::Lost { id: id.id.unwrap_or(0), count: lost });
        let is_written = is_said && write(record);
        self.lost = if is_said { 0 } else { lost } + u64::from(!is_written);
    }

    /// Returns how many bytes there was no room for.
    fn packets(&mut self, bytes: &[u8], overwrites: bool) -> u64 {
        let (base, size) = (self.word(AUX_OFFSET), self.word(AUX_SIZE));
        if !self.is_on || size == 0 {
            return bytes.len() as u64;
        }
        let head = self.word(AUX_HEAD);
        if overwrites {
            let kept = &bytes[bytes.len().saturating_sub(size as usize)..];
            let from = head + (bytes.len() - kept.len()) as u64;
            self.write_ring(base, size, from, kept);
            self.write(AUX_HEAD, &((head + bytes.len() as u64) % size).to_le_bytes());
            return 0;
        }
        let room = size - head.wrapping_sub(self.word(AUX_TAIL)).min(size);
        let kept = &bytes[..bytes.len().min(room as usize)];
        self.write_ring(base, size, head, kept);
        self.write(AUX_HEAD, &(head + kept.len() as u64).to_le_bytes());
        self.since += kept.len() as u64;
        if kept.len() < bytes.len() {
            self.says(aux::TRUNCATED);
            self.is_on = false;
        }
        (bytes.len() - kept.len()) as u64
    }

    fn says(&mut self, flags: u64) {
        let size = std::mem::take(&mut self.since);
        let offset = self.word(AUX_HEAD).wrapping_sub(size);
        self.record(&Record::Aux { offset, size, flags }, &SampleId::default());
    }
}

/// The parts of bytes that lie before and behind the end of a ring.
fn ring_parts(size: u64, from: u64, bytes: &[u8]) -> Vec<&[u8]> {
    let first = bytes.len().min((size - from % size) as usize);
    let (first, rest) = bytes.split_at(first);
    [first, rest].into_iter().filter(|part| !part.is_empty()).collect()
}

impl Machine for Simulated {
    fn open(&mut self, attribute: &Attribute, _: i32, cpu: i32) -> Result<Fd, Errno> {
        if let Some(refusal) = self.refusal {
            return Err(refusal);
        }
        let file = sealed_memfd(c"intel_pt", FILE)?;
        let given = fd::duplicate(&file)?;
        let TimeScale { shift, mult, zero } = self.clock;
        let has_zero = 1_u64 << 4;
        fd::write_at(&file, &has_zero.to_le_bytes(), CAPABILITIES)?;
        fd::write_at(&file, &shift.to_le_bytes(), TIME_SHIFT)?;
        fd::write_at(&file, &mult.to_le_bytes(), TIME_SHIFT + 2)?;
        fd::write_at(&file, &zero.to_le_bytes(), TIME_ZERO)?;
        let raw = given.raw();
        let attribute = *attribute;
        let opened = Opened { attribute, cpu, file, raw, is_on: false, lost: 0, since: 0, filter: None };
        self.opened.push(opened);
        Ok(given)
    }

    fn send_to(&mut self, event: &Fd, other: &Fd) -> Result<(), Errno> {
        self.find(other.raw())?;
        self.sent.insert(event.raw(), other.raw());
        Ok(())
    }

    fn filter(&mut self, event: &Fd, filter: &CStr) -> Result<(), Errno> {
        self.find(event.raw())?.filter = Some(filter.to_owned());
        Ok(())
    }

    fn enable(&mut self, event: &Fd) -> Result<(), Errno> {
        self.find(event.raw())?.is_on = true;
        Ok(())
    }

    fn disable(&mut self, event: &Fd) -> Result<(), Errno> {
        self.find(event.raw())?.is_on = false;
        Ok(())
    }

    fn wait(&mut self, time: Duration) {
        if self.time.is_some() {
            std::thread::sleep(time);
        }
        self.go();
    }

    fn clocks(&self) -> Option<Sample> {
        self.time.map(|time| time())
    }
}
