//! A whole recording, into a directory.

use crate::device::Device;
use crate::folder::{Files, Folder};
use crate::generated::Generated;
use crate::machine::Machine;
use crate::recorder::{Error, Options, Recorder, Summary, Targets};
use mote_capture::perf;
use mote_clock::Sample;
use mote_perfdata::intel_pt::{Clock, Info};
use mote_pt::errata::Errata;
use mote_pt::time::Clocks;
use mote_sys::perf_ring::Kept;
use mote_words::counted_grouped;
use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

/// How long a recorder waits: 4 MiB of memory have room for what a processor writes in that time at 800 MB/s.
const TICK: Duration = Duration::from_millis(5);

/// How often the clocks are noted.
const CLOCKS: Duration = Duration::from_secs(1);

/// What was recorded.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Recorded {
    /// What was lost, and what there is.
    pub summary: Summary,
    /// How many mappings of code there were whose bytes are not known: of no file.
    pub unknown: u64,
    /// Code that is not in the capture, and why, as sentences.
    pub missing: Vec<String>,
}

impl Recorded {
    /// What was lost, as sentences.
    #[must_use]
    pub fn losses(&self) -> Vec<String> {
        let Summary { bytes: _, truncated, partial, collisions, records_lost, bytes_lost } = self.summary;
        let lost = [
            (
                truncated,
                ["time", "times"],
                "packets were lost because they were not read in time: use a larger buffer",
            ),
            (partial, ["time", "times"], "tracing was off for a hypervisor"),
            (collisions, ["time", "times"], "samples of packets met"),
            (
                records_lost,
                ["record", "records"],
                "of mappings and switches were lost: some packets may have no code",
            ),
            (bytes_lost, ["byte", "bytes"], "of packets were written over before they were read"),
        ];
        let there = lost.into_iter().filter(|(count, ..)| *count > 0);
        there
            .map(|(count, [one, many], what)| format!("{} {what}", counted_grouped(count, one, many)))
            .collect()
    }
}

/// A recording that runs, into a capture.
#[derive(Debug)]
pub struct Session<M> {
    pub(crate) recorder: Recorder<M>,
    pub(crate) output: Folder,
    /// The clocks of the packets, and what the processor writes otherwise than the manual says.
    pub(crate) clocks: Clocks,
    pub(crate) errata: Errata,
    /// The first sample of the clocks.
    pub(crate) began: Option<Sample>,
    /// When the clocks were noted.
    noted: Option<Instant>,
    /// How long a round waits.
    tick: Duration,
}

impl<M: Machine> Session<M> {
    /// Opens all events, and begins the capture in `files`; nothing is recorded yet. `known`: processes that are there
    /// already.
    ///
    /// # Errors
    /// Nothing can be recorded, or it cannot be written.
    pub fn begin(
        machine: M,
        device: &Device,
        options: &Options,
        files: Box<dyn Files>,
        known: &[i32],
    ) -> Result<Session<M>, Error> {
        let mut recorder = Recorder::open(machine, device, options)?;
        let info = info(device, recorder.clock(), options);
        let processor = perf::processor(&info, recorder.attribute().config, model().as_deref());
        let generated = options.jit.then(|| Generated::attach(&options.targets)).transpose()?;
        let output = Folder::create(files, &processor, recorder.clock()).map_err(Error::Output)?;
        let mut output = output.with_generated(generated);
        if options.kept == Kept::All {
            output = output.without_index();
        }
        // What is mapped while this is read is in records, too. It takes a while: packets begin behind it.
        recorder.listen()?;
        for pid in known {
            output.know(*pid).map_err(Error::Output)?;
            recorder.round(&mut output)?;
        }
        if options.settings.kernel {
            output.kernel().map_err(Error::Output)?;
        }
        let (clocks, errata) = (processor.clocks(), processor.errata());
        let began = recorder.machine().clocks();
        let mut session = Session { recorder, output, clocks, errata, began, noted: None, tick: TICK };
        session.note_clocks()?;
        Ok(session)
    }

    /// Rounds wait so long from now on: for who has more to do between them.
    pub fn set_tick(&mut self, tick: Duration) {
        self.tick = tick;
    }

    /// Begins to record; of a [command](crate::Targets::Command) execve(2) does it.
    ///
    /// # Errors
    /// As ioctl(2).
    pub fn enable(&mut self) -> Result<(), Error> {
        self.recorder.enable()
    }

    /// Waits a moment, and writes what there is: whatever happens from then on, it is in the capture.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn round(&mut self) -> Result<(), Error> {
        self.recorder.wait(self.tick);
        self.recorder.round(&mut self.output)?;
        self.output.copy_generated(self.recorder.machine().clocks()).map_err(Error::Output)?;
        let machine = self.recorder.machine();
        self.output.track(|| machine.clocks()).map_err(Error::Output)?;
        if self.output.is_due() {
            self.output.look(self.ticks()).map_err(Error::Output)?;
        }
        if self.noted.is_none_or(|noted| noted.elapsed() >= CLOCKS) {
            self.note_clocks()?;
        }
        self.output.flush().map_err(Error::Output)
    }

    /// Writes a capture of the packets that memory has now, with all that was noted so far, into `files`; returns how
    /// many bytes of packets there are. There are none where all are [kept](Kept::All) anyway.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn snapshot(&mut self, files: Box<dyn Files>) -> Result<u64, Error> {
        self.settle()?;
        let mut copy = self.output.copy(files).map_err(Error::Output)?;
        self.recorder.snapshot(&mut copy)
    }

    /// Notes all that has happened up to now.
    ///
    /// # Errors
    /// It cannot be written.
    pub(crate) fn settle(&mut self) -> Result<(), Error> {
        // The second one gives what the first has read: records of other CPUs may have been earlier.
        self.recorder.round(&mut self.output)?;
        self.recorder.round(&mut self.output)?;
        let machine = self.recorder.machine();
        self.output.end_generated(machine.clocks()).map_err(Error::Output)?;
        self.output.track_all(|| machine.clocks()).map_err(Error::Output)?;
        self.output.look_at_all(self.ticks()).map_err(Error::Output)?;
        self.note_clocks()
    }

    /// Ends it.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn finish(mut self) -> Result<(Recorded, M), Error> {
        self.note_clocks()?;
        let (summary, machine) = self.recorder.finish(&mut self.output)?;
        self.output.end_generated(machine.clocks()).map_err(Error::Output)?;
        self.output.track_all(|| machine.clocks()).map_err(Error::Output)?;
        // The last records may have told of code.
        self.output.look_at_all(machine.clocks().map(|sample| sample.ticks)).map_err(Error::Output)?;
        self.output.compiled().map_err(Error::Output)?;
        let (unknown, missing) = (self.output.unknown(), self.output.problems().map_err(Error::Output)?);
        self.output.flush().map_err(Error::Output)?;
        Ok((Recorded { summary, unknown, missing }, machine))
    }

    /// The kernel, real or simulated, that is asked.
    pub fn machine(&self) -> &M {
        self.recorder.machine()
    }

    /// The processes that were seen since the last time.
    pub fn take_seen(&mut self) -> BTreeSet<i32> {
        self.output.take_seen()
    }

    /// The time stamp counter, where it is known.
    fn ticks(&self) -> Option<u64> {
        self.recorder.machine().clocks().map(|sample| sample.ticks)
    }

    fn note_clocks(&mut self) -> Result<(), Error> {
        self.noted = Some(Instant::now());
        let clocks = self.recorder.machine().clocks();
        clocks.map_or(Ok(()), |sample| self.output.clocks(&sample)).map_err(Error::Output)
    }
}

/// Records into a directory that is there and empty, as long as `goes_on`, which is asked after each round; before the
/// first, `begun` is told that everything is on. `known`: processes that are there already.
///
/// # Errors
/// Nothing can be recorded, or it cannot be written.
pub fn record<M: Machine>(
    machine: M,
    device: &Device,
    options: &Options,
    folder: &Path,
    known: &[i32],
    begun: impl FnOnce(),
    mut goes_on: impl FnMut(&M) -> bool,
) -> Result<(Recorded, M), Error> {
    let mut session = Session::begin(machine, device, options, Box::new(folder.to_owned()), known)?;
    session.enable()?;
    begun();
    loop {
        session.round()?;
        if !goes_on(session.machine()) {
            break;
        }
    }
    session.finish()
}

/// As perf says it in its files.
fn info(device: &Device, clock: Option<Clock>, options: &Options) -> Info {
    Info {
        unit: device.unit,
        clock,
        tsc_bit: device.mask("tsc"),
        no_return_compression_bit: device.mask("noretcomp"),
        switches: if options.targets == Targets::All { 3 } else { 2 },
        is_snapshot: options.kept == Kept::Last,
        per_cpu: !matches!(options.targets, Targets::EachThread(_)),
        mtc_bit: device.mask("mtc"),
        mtc_period_bits: device.mask("mtc_period"),
        tsc_per_art: device.tsc_per_art,
        cyc_bit: device.mask("cyc"),
        max_nonturbo_ratio: device.max_nonturbo_ratio,
        filter: options.filter.as_ref().map_or_else(String::new, |filter| filter.text().to_owned()),
    }
}

/// The processor, as perf writes it: `GenuineIntel,6,142,10`.
#[must_use]
pub fn model() -> Option<String> {
    let text = fs::read_to_string("/proc/cpuinfo").ok()?;
    let word = |name: &str| {
        let mut lines = text.lines().filter_map(|line| line.split_once(':'));
        lines.find(|(key, _)| key.trim() == name).map(|(_, value)| value.trim().to_owned())
    };
    let words = [word("vendor_id")?, word("cpu family")?, word("model")?, word("stepping")?];
    Some(words.join(","))
}
