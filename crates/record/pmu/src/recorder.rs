//! A recording: events, their memory, and rounds of reading it.
//!
//! # Events
//! Of each CPU, an event of Intel PT for each thread that is recorded, or one for all threads; threads that are started
//! later inherit them. The first one's memory has the packets of all, and their records. Beside each there is one that
//! tells what is mapped and run: it goes on while Intel PT has stopped for want of room. Or one for each thread, with
//! memory of its own, wherever it runs: these are not inherited, since the kernel does not map them then.

use crate::device::Device;
use crate::machine::Machine;
use crate::settings::{Impossible, Settings};
use crate::trace::TraceReader;
use mote_capture::Of;
use mote_clock::Sample;
use mote_perfdata::attribute::flag;
use mote_perfdata::filter::Filter;
use mote_perfdata::intel_pt::Clock;
use mote_perfdata::record::{aux, kind};
use mote_perfdata::{Attribute, Record, SampleFormat, SampleId};
use mote_sys::Errno;
use mote_sys::fd::Fd;
use mote_sys::perf_ring::{Kept, PerfRing, RECORD_MAX, TraceMemory};
use std::io;
use std::time::Duration;

const PAGE: usize = mote_sys::mem::PAGE_BYTES;
/// Pages for records of a stream, and which part of the wished memory packets have: as much as the kernel gives, from
/// the most on. The second and third are about what users may lock where nothing else is said (perf_event_mlock_kb).
const SHARES: [(usize, usize); 5] = [(256, 1), (64, 4), (64, 32), (16, 64), (8, 1024)];
/// The smallest memory for packets.
const TRACE_PAGES_MIN: usize = 4;

/// Whose code is recorded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Targets {
    /// A process of one thread that waits, from the moment on when it runs another program; and what that starts.
    Command(i32),
    /// These threads, and what they start from now on.
    Threads(Vec<i32>),
    /// These threads, each with packets of its own; and none that they start.
    EachThread(Vec<i32>),
    /// All, on the CPUs that are given.
    All,
}

/// Where and how.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// What packets.
    pub settings: Settings,
    /// The threads or processors to be traced.
    pub targets: Targets,
    /// On which CPUs.
    pub cpus: Vec<u32>,
    /// Bytes of memory for packets of a stream, a power of two; fewer where the kernel gives no more.
    pub memory: usize,
    /// Whether all packets are kept, or the last ones.
    pub kept: Kept,
    /// The addresses to be traced; all, where there is none.
    pub filter: Option<Filter>,
    /// Code that is made at run time is copied when it becomes executable.
    pub jit: bool,
}

/// Why nothing can be recorded.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The processor or the kernel cannot.
    #[error(transparent)]
    Impossible(#[from] Impossible),
    /// The kernel does not let us.
    #[error(
        "the kernel does not let this user record {what} ({why:?}): set sysctl kernel.perf_event_paranoid to {level} or \
         less, or record as root"
    )]
    Forbidden {
        /// Whom.
        what: &'static str,
        /// What it said.
        why: Errno,
        /// What would do.
        level: i32,
    },
    /// Another one has Intel PT, or a debugger its registers.
    #[error("Intel PT is in use already ({0}): by another recorder, or by a hypervisor for its guests")]
    Busy(Of),
    /// There is no memory that may be locked.
    #[error(
        "there is no memory for packets that may be locked: raise `ulimit -l`, or kernel.perf_event_mlock_kb"
    )]
    Memory,
    /// The address filter.
    #[error("the filter cannot be set: {0}")]
    Filter(String),
    /// No CPU is there, or no thread.
    #[error("nothing is there to be recorded: {0}")]
    Nothing(&'static str),
    /// Code that is made at run time.
    #[error("code that is made at run time cannot be copied: {0}")]
    Generated(#[from] mote_jitcode::Error),
    /// Another error.
    #[error("perf_event_open(2): {0:?}")]
    Other(Errno),
    /// What was recorded cannot be written.
    #[error("cannot write what was recorded: {0}")]
    Output(io::Error),
}

/// Where a recording goes.
pub trait Output {
    /// Bytes of a stream's packets, behind those before.
    ///
    /// # Errors
    /// They cannot be written.
    fn packets(&mut self, of: Of, bytes: &[u8]) -> io::Result<()>;

    /// A record. They come in the order of time.
    ///
    /// # Errors
    /// It cannot be written.
    fn record(&mut self, record: &Record, id: &SampleId) -> io::Result<()>;
}

/// What was lost, and what there is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    /// Bytes of packets.
    pub bytes: u64,
    /// How often Intel PT stopped because its memory was full.
    pub truncated: u64,
    /// How often tracing was off for a while (a hypervisor).
    pub partial: u64,
    /// How often two samples of it met.
    pub collisions: u64,
    /// Records that were lost: mappings or switches of threads.
    pub records_lost: u64,
    /// Bytes that were written over before they were read.
    pub bytes_lost: u64,
}

impl Summary {
    /// Whether anything was.
    #[must_use]
    pub fn has_lost(&self) -> bool {
        let Summary { bytes: _, truncated, partial, collisions, records_lost, bytes_lost } = *self;
        truncated + partial + collisions + records_lost + bytes_lost > 0
    }
}

/// The memory of a stream, and the events that write there.
#[derive(Debug)]
struct Memory {
    of: Of,
    ring: PerfRing,
    memory: TraceMemory,
    reader: TraceReader,
    /// The other events of it whose packets go to the memory.
    others: Vec<Fd>,
    /// Those that tell what is mapped.
    bands: Vec<Fd>,
}

impl Memory {
    /// The events whose packets go there.
    fn traces(&self) -> impl Iterator<Item = &Fd> {
        [self.ring.event()].into_iter().chain(&self.others)
    }

    /// Stops the writing of packets.
    fn pause(&self, machine: &mut impl Machine) {
        self.traces().for_each(|event| {
            // A process that has ended has none any more.
            let _ = machine.disable(event);
        });
    }

    /// Lets packets be written again.
    fn resume(&self, machine: &mut impl Machine) {
        self.traces().for_each(|event| {
            // As above.
            let _ = machine.enable(event);
        });
    }
}

/// What the memory of a stream had.
#[derive(Debug)]
pub(crate) struct Last {
    pub(crate) of: Of,
    /// From the oldest byte on.
    pub(crate) bytes: Vec<u8>,
    /// The memory was full: older bytes were written over, perhaps.
    pub(crate) is_full: bool,
    /// The clocks when the writing had stopped, where they are known.
    pub(crate) stopped: Option<Sample>,
}

/// A recording that runs.
#[derive(Debug)]
pub struct Recorder<M> {
    machine: M,
    all: Vec<Memory>,
    format: SampleFormat,
    kept: Kept,
    clock: Option<Clock>,
    /// The event's attribute.
    attribute: Attribute,
    summary: Summary,
    /// Records that may have others before them which were not read yet.
    waiting: Vec<(Record, SampleId)>,
    /// The time of the latest record before the last round.
    latest: u64,
    buffer: Vec<u8>,
    /// Somebody has switched it on, or execve(2) will.
    is_on: bool,
    /// Everything is off for good.
    is_ending: bool,
}

impl<M: Machine> Recorder<M> {
    /// Opens all events; they are off.
    ///
    /// # Errors
    /// What is missing, and what to do about it.
    pub fn open(mut machine: M, device: &Device, options: &Options) -> Result<Recorder<M>, Error> {
        let mut attribute = options.settings.attribute(device)?;
        let mut band = options.settings.side_band(options.targets == Targets::All);
        let more = match options.targets {
            Targets::Command(_) => flag::INHERIT | flag::ENABLE_ON_EXEC,
            Targets::Threads(_) => flag::INHERIT,
            Targets::EachThread(_) | Targets::All => 0,
        };
        attribute.flags |= more;
        band.flags |= more;
        check_filter(options, device)?;
        let mut all = Vec::new();
        let mut nothing = Error::Nothing("no such CPU is there");
        for (of, places) in places(options) {
            match open_memory(&mut machine, [&attribute, &band], options, of, &places) {
                // A CPU that is possible, but not there.
                Err(Error::Other(Errno(libc::ENODEV))) => {}
                Err(why @ Error::Nothing(_)) => nothing = why,
                memory => all.push(memory?),
            }
        }
        let Some(first) = all.first() else { return Err(nothing) };
        let clock = first.ring.time_scale();
        let clock = clock.map(|scale| Clock { shift: scale.shift, mult: scale.mult, zero: scale.zero });
        Ok(Recorder {
            machine,
            all,
            format: SampleFormat::of(&attribute),
            kept: options.kept,
            clock,
            attribute,
            summary: Summary::default(),
            waiting: Vec::new(),
            latest: 0,
            buffer: vec![0; RECORD_MAX],
            is_on: matches!(options.targets, Targets::Command(_)),
            is_ending: false,
        })
    }

    /// How the records' times are the packets', where the kernel says it.
    #[must_use]
    pub fn clock(&self) -> Option<Clock> {
        self.clock
    }

    /// The kernel, real or simulated, that is asked.
    pub fn machine(&self) -> &M {
        &self.machine
    }

    /// What the kernel was told.
    #[must_use]
    pub fn attribute(&self) -> &Attribute {
        &self.attribute
    }

    /// Bytes of memory for packets of a stream.
    #[must_use]
    pub fn memory(&self) -> u64 {
        self.all.first().map_or(0, |memory| memory.memory.bytes())
    }

    /// Lets the kernel tell what is mapped and run from now on; of a [command](Targets::Command) execve(2) does it.
    ///
    /// # Errors
    /// As ioctl(2).
    pub fn listen(&mut self) -> Result<(), Error> {
        if !self.is_on {
            let Recorder { machine, all, .. } = self;
            let mut bands = all.iter().flat_map(|memory| &memory.bands);
            bands.try_for_each(|event| machine.enable(event)).map_err(Error::Other)?;
        }
        Ok(())
    }

    /// Switches recording on; of a [command](Targets::Command) execve(2) does it.
    ///
    /// # Errors
    /// As ioctl(2).
    pub fn enable(&mut self) -> Result<(), Error> {
        self.listen()?;
        if !self.is_on {
            let Recorder { machine, all, .. } = self;
            let mut traces = all.iter().flat_map(Memory::traces);
            traces.try_for_each(|event| machine.enable(event)).map_err(Error::Other)?;
        }
        self.is_on = true;
        Ok(())
    }

    /// Lets some time pass.
    pub fn wait(&mut self, time: Duration) {
        self.machine.wait(time);
    }

    /// Reads what there is. Call it often enough that memory does not fill: a processor may write some 100 MB/s.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn round(&mut self, output: &mut impl Output) -> Result<(), Error> {
        let before = self.waiting.len();
        self.read_records();
        if self.kept == Kept::All {
            self.read_packets(output)?;
        }
        // What a CPU has told before the last round began is known from all of them now.
        let newest = self.waiting[before..].iter().filter_map(|(_, id)| id.time).max();
        self.give(output, Some(self.latest))?;
        self.latest = self.latest.max(newest.unwrap_or(0));
        Ok(())
    }

    /// Switches recording off, and reads the rest.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn finish(mut self, output: &mut impl Output) -> Result<(Summary, M), Error> {
        self.is_ending = true;
        for event in self.all.iter().flat_map(|memory| memory.traces().chain(&memory.bands)) {
            // A process that has ended has none any more.
            let _ = self.machine.disable(event);
        }
        self.read_records();
        match self.kept {
            Kept::All => self.read_packets(output)?,
            Kept::Last => {
                for Memory { of, ring, memory, reader, .. } in &mut self.all {
                    let to = |bytes: &[u8]| output.packets(*of, bytes);
                    self.summary.bytes += reader.snapshot(ring, memory, to).map_err(Error::Output)?;
                }
            }
        }
        self.give(output, None)?;
        self.summary.bytes_lost = self.all.iter().map(|memory| memory.reader.lost).sum();
        Ok((self.summary, self.machine))
    }

    /// Gives what memory has that is [written over](Kept::Last) to `output`, and goes on.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn snapshot(&mut self, output: &mut impl Output) -> Result<u64, Error> {
        if self.kept == Kept::All {
            return Ok(0);
        }
        let mut bytes = 0;
        let mut done = Ok(());
        for memory in &mut self.all {
            memory.pause(&mut self.machine);
            let Memory { of, ring, memory: trace, reader, .. } = memory;
            match reader.snapshot(ring, trace, |bytes| output.packets(*of, bytes)) {
                Ok(read) => bytes += read,
                Err(why) => done = Err(Error::Output(why)),
            }
            memory.resume(&mut self.machine);
        }
        done.map(|()| bytes)
    }

    /// What the memory of the first of these streams that there is has, where it is [written over](Kept::Last); and
    /// goes on.
    ///
    /// # Cost
    /// The stream is not written while its memory is copied: 4 MiB take about a millisecond.
    pub(crate) fn last(&mut self, of: &[Of]) -> Option<Last> {
        let is_it = |memory: &&mut Memory| self.kept == Kept::Last && of.contains(&memory.of);
        let memory = self.all.iter_mut().find(is_it)?;
        memory.pause(&mut self.machine);
        let stopped = self.machine.clocks();
        let Memory { of, ring, memory: trace, reader, .. } = memory;
        let mut bytes = Vec::with_capacity(trace.bytes() as usize);
        let copied = reader.snapshot(ring, trace, |chunk| {
            bytes.extend_from_slice(chunk);
            Ok(())
        });
        let (of, is_full) = (*of, copied.is_ok_and(|copied| copied == trace.bytes()));
        memory.resume(&mut self.machine);
        Some(Last { of, bytes, is_full, stopped })
    }

    fn read_records(&mut self) {
        for memory in &mut self.all {
            while let Some(len) = memory.ring.next(&mut self.buffer) {
                let (record, id) = Record::read(&self.buffer[..len], self.format);
                match &record {
                    Record::Aux { flags, .. } => {
                        let count = |flag| u64::from(flags & flag != 0);
                        self.summary.truncated += count(aux::TRUNCATED);
                        self.summary.partial += count(aux::PARTIAL);
                        self.summary.collisions += count(aux::COLLISION);
                    }
                    Record::Lost { count, .. } | Record::LostSamples(count) => {
                        self.summary.records_lost = self.summary.records_lost.saturating_add(*count);
                    }
                    // What the memory has is the kernel's; anything else is not believed.
                    record if record.kind() >= kind::OF_PERF => continue,
                    _ => {}
                }
                self.waiting.push((record, id));
            }
        }
    }

    fn read_packets(&mut self, output: &mut impl Output) -> Result<(), Error> {
        for Memory { of, ring, memory, reader, others, .. } in &mut self.all {
            let to = |bytes: &[u8]| output.packets(*of, bytes);
            let read = reader.drain(ring, memory, to).map_err(Error::Output)?;
            self.summary.bytes += read;
            // It stops when its memory is full, which it need not say, and goes on when it is told to.
            if read > 0 && !self.is_ending {
                for event in [ring.event()].into_iter().chain(&*others) {
                    let _ = self.machine.enable(event);
                }
            }
        }
        Ok(())
    }

    /// Gives records away that are not later than `until`.
    fn give(&mut self, output: &mut impl Output, until: Option<u64>) -> Result<(), Error> {
        self.waiting.sort_by_key(|(_, id)| id.time.unwrap_or(0));
        let is_early = |(_, id): &(Record, SampleId)| until.is_none_or(|until| id.time.unwrap_or(0) <= until);
        let early = self.waiting.partition_point(is_early);
        for (record, id) in self.waiting.drain(..early) {
            output.record(&record, &id).map_err(Error::Output)?;
        }
        Ok(())
    }
}

fn check_filter(options: &Options, device: &Device) -> Result<(), Error> {
    let Some(filter) = &options.filter else { return Ok(()) };
    let wrong = |why: String| Err(Error::Filter(why));
    match () {
        () if device.filters == 0 => {
            wrong("this processor has no address ranges: Intel's have since Skylake and Goldmont".to_owned())
        }
        () if filter.ranges() > device.filters => {
            wrong(format!("it has {} ranges; this processor has {}", filter.ranges(), device.filters))
        }
        () if filter.of_files() && options.targets == Targets::All => {
            wrong("ranges of files are for processes (-p, or a command), not for CPUs".to_owned())
        }
        () if !filter.of_files() && !options.settings.kernel => wrong(
            "addresses without `@ FILE` are the kernel's, which is not recorded: use --kernel".to_owned(),
        ),
        () => Ok(()),
    }
}

/// Streams, and which threads on which CPUs they are of.
fn places(options: &Options) -> Vec<(Of, Vec<(i32, i32)>)> {
    let by_cpu = |threads: &[i32]| {
        let place =
            |cpu: &u32| (Of::Cpu(*cpu), threads.iter().map(|thread| (*thread, *cpu as i32)).collect());
        options.cpus.iter().map(place).collect()
    };
    match &options.targets {
        Targets::Command(process) => by_cpu(&[*process]),
        Targets::Threads(threads) => by_cpu(threads),
        Targets::EachThread(threads) => {
            threads.iter().map(|thread| (Of::Thread(*thread), vec![(*thread, -1)])).collect()
        }
        Targets::All => by_cpu(&[-1]),
    }
}

fn open_memory<M: Machine>(
    machine: &mut M,
    [attribute, band]: [&Attribute; 2],
    options: &Options,
    of: Of,
    places: &[(i32, i32)],
) -> Result<Memory, Error> {
    let mut memory: Option<Memory> = None;
    for (thread, cpu) in places {
        let open = |machine: &mut M, attribute| match machine.open(attribute, *thread, *cpu) {
            // It has ended meanwhile.
            Err(Errno(libc::ESRCH)) => Ok(None),
            event => event.map(Some).map_err(|why| refused(why, options, of)),
        };
        let Some(event) = open(machine, attribute)? else { continue };
        if let Some(filter) = &options.filter {
            let text = filter.for_kernel().ok_or_else(|| Error::Filter("a path has a NUL".to_owned()))?;
            machine.filter(&event, &text).map_err(|why| unfit(why, filter))?;
        }
        let to = match &mut memory {
            None => memory.insert(map(event, options, of)?),
            Some(memory) => {
                machine.send_to(&event, memory.ring.event()).map_err(Error::Other)?;
                memory.others.push(event);
                memory
            }
        };
        let Some(event) = open(machine, band)? else { continue };
        machine.send_to(&event, to.ring.event()).map_err(Error::Other)?;
        to.bands.push(event);
    }
    memory.ok_or(Error::Nothing("the process has ended"))
}

/// Memory for an event, as much as the kernel gives.
fn map(event: Fd, options: &Options, of: Of) -> Result<Memory, Error> {
    let wanted = (options.memory / PAGE).next_power_of_two();
    let mut event = event;
    for (records, part) in SHARES {
        let pages = (wanted / part).max(TRACE_PAGES_MIN);
        // What cannot be mapped is closed with its event.
        let again = mote_sys::fd::duplicate(&event).map_err(Error::Other)?;
        let mapped =
            PerfRing::new(event, records).and_then(|ring| Ok((ring.trace(pages, options.kept)?, ring)));
        match mapped {
            Ok((memory, ring)) => {
                let (others, bands, reader) = (Vec::new(), Vec::new(), TraceReader::default());
                return Ok(Memory { of, ring, memory, reader, others, bands });
            }
            Err(Errno(libc::EPERM | libc::ENOMEM)) => event = again,
            Err(Errno(libc::EBUSY)) => return Err(Error::Busy(of)),
            Err(why) => return Err(Error::Other(why)),
        }
    }
    Err(Error::Memory)
}

fn refused(why: Errno, options: &Options, of: Of) -> Error {
    match why {
        Errno(libc::EACCES | libc::EPERM) => {
            let (what, level) = match (&options.targets, options.settings.kernel) {
                (Targets::All, _) => ("whole CPUs", 0),
                (_, true) => ("the kernel's code", 1),
                (_, false) => ("these threads", 2),
            };
            Error::Forbidden { what, why, level }
        }
        Errno(libc::EBUSY) => Error::Busy(of),
        why => Error::Other(why),
    }
}

fn unfit(why: Errno, filter: &Filter) -> Error {
    let said = match why {
        Errno(libc::ENOENT) => "a file of it is not there".to_owned(),
        Errno(libc::EOPNOTSUPP) => "the processor has no such ranges".to_owned(),
        why => format!("the kernel does not take `{}` ({why:?})", filter.text()),
    };
    Error::Filter(said)
}
