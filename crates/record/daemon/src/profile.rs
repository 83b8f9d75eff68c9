//! Samples of threads (`mote_sampler`): a trace of their own, in the directory `profile` of the recording's.
//!
//! A thread reads and unwinds them, and writes the streams; the loop notes names and mappings in the journal.

use crate::area::packets::Requests;
use crate::consumer::state::TraceState;
use crate::consumer::totals::{Context, Totals};
use crate::consumer::trace::Consumed;
use crate::error::Error;
use crate::kernel::Remarks;
use crate::kernel::make::announce;
use crate::kernel::mapped::of_change;
use crate::kernel::names::Names;
use crate::kernel::symbols::{keep_symbols, keep_tables};
use crate::options::{self, Options, ProfileOptions};
use crate::output::directory::Directory;
use crate::output::metadata::Frame;
use crate::output::owner::Owner;
use crate::output::records::{RecordStream, now};
use crate::samples::of_monotonic;
use crate::setup;
use crate::trace::Trace;
use mote_catalog::stack::{self, Stacks};
use mote_clock::{Conversion, Sample as ClockSample, Source};
use mote_journal::{Fact, Summary, merge_times};
use mote_loss::Cause;
use mote_sampler::mappings::News;
use mote_sampler::{Sample, Sampler, Settings, Targets};
use mote_session::events::Events;
use mote_sys::Errno;
use mote_words::counted_grouped;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant, SystemTime};

/// The trace's directory in that of the recording.
pub(crate) const DIRECTORY: &str = "profile";
/// Records wait for as many bytes, or for [`FLUSH`].
const PACKET: usize = 256 << 10;
/// After so long they are written.
const FLUSH: Duration = Duration::from_secs(1);

/// The samples of a recording.
pub(crate) struct Profile {
    pub(crate) trace: Trace,
    events: Events,
    /// Until it begins.
    sampler: Option<Sampler>,
    thread: Option<JoinHandle<Totals>>,
    shared: Arc<Shared>,
    /// What rules ask for, where only that is kept.
    asked: Option<Arc<Mutex<Requests>>>,
    ids: Ids,
    names: Names,
    /// Processes that the journal has, and whose they are.
    processes: HashMap<u32, Option<u32>>,
    since: SystemTime,
    has_kernel: bool,
    samples: u64,
    lost: u64,
    totals: Totals,
}

/// What the thread and the loop share.
#[derive(Debug, Default)]
struct Shared {
    /// Nothing is to be sampled any more.
    ends: AtomicBool,
    heard: Mutex<Heard>,
}

/// What the thread has heard of.
#[derive(Debug, Default)]
struct Heard {
    news: News,
    threads: BTreeSet<u32>,
    samples: u64,
    lost: u64,
    problem: Option<Errno>,
}

impl Shared {
    fn heard(&self) -> MutexGuard<'_, Heard> {
        self.heard.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Profile {
    /// Opens what samples, and makes the directory. Of a command, it is sampled from its start on, if the calling
    /// thread starts it.
    ///
    /// # Errors
    /// [`Error::Profile`], [`Error::Output`].
    pub(crate) fn make(
        wanted: &ProfileOptions,
        options: &Options,
        (directory, frame): (&Directory, &Frame),
        requests: &Arc<Mutex<Requests>>,
    ) -> Result<(Profile, Vec<String>), Error> {
        let targets = match options.attach.as_slice() {
            _ if wanted.all => Targets::All,
            [] => Targets::Started,
            pids => Targets::Processes(pids.iter().map(|pid| pid.unsigned_abs()).collect()),
        };
        let cpus = options::cpus();
        let ProfileOptions { frequency, stack, off_cpu, .. } = *wanted;
        let settings = Settings { frequency, stack, off_cpu, cpus, by_cpu: true, targets };
        let sampler = Sampler::open(&settings).map_err(Error::Profile)?;
        let directory = directory.make_inside(DIRECTORY, &options.streams)?;
        let frame = setup::kernel_frame(frame);
        let mut trace = Trace::new(directory, frame, options.ctf, Arc::new(TraceState::default()));
        trace.directory.note(&Fact::Session(setup::profile_session(options, wanted, trace.frame())));
        let mut events = Events::default();
        let running = announce(&trace, &mut events, &description(sampler.has_cycles()))?;
        let off_cpu = if off_cpu { Some(announce(&trace, &mut events, &of_off_cpu())?) } else { None };
        let ids = Ids { running, off_cpu };
        trace.note_events(&events, &[Some(running), off_cpu].into_iter().flatten().collect::<Vec<_>>());
        let mut said = Vec::new();
        if !sampler.has_kernel() {
            said.push(
                "samples are of programs only: this user may not sample the kernel (sysctl \
                 kernel.perf_event_paranoid is above 1)"
                    .to_owned(),
            );
        }
        let has_kernel = sampler.has_kernel();
        let profile = Profile {
            trace,
            events,
            sampler: Some(sampler),
            thread: None,
            shared: Arc::default(),
            asked: wanted.when_asked.then(|| requests.clone()),
            ids,
            names: Names::default(),
            processes: HashMap::new(),
            since: SystemTime::now(),
            has_kernel,
            samples: 0,
            lost: 0,
            totals: Totals::default(),
        };
        Ok((profile, said))
    }

    /// Begins to sample.
    ///
    /// # Errors
    /// [`Error::Profile`], [`Error::Loop`].
    pub(crate) fn begin(&mut self, options: &Options) -> Result<Remarks, Error> {
        let Some(sampler) = self.sampler.take() else { return Ok(Remarks::default()) };
        let stacks = Stacks { kernel: self.has_kernel, ..Stacks::BOTH };
        let problems = keep_symbols(&self.trace.directory, stacks);
        if !options.attach.is_empty() || options.profile.as_ref().is_some_and(|wanted| wanted.all) {
            sampler.enable().map_err(Error::Profile)?;
        }
        let is_unnoted = !self.note(sampler.known(now()), &BTreeSet::new());
        let sink = self.trace.directory.sink();
        let context = Context { sink, uuid: self.trace.uuid(), clock: Source::Monotonic };
        let writer = Writer { context, ids: self.ids, streams: BTreeMap::new(), written: Instant::now() };
        let shared = self.shared.clone();
        let wanted = self.asked.clone().map(Times::new);
        let work = move || run(sampler, writer, &shared, wanted);
        let thread = std::thread::Builder::new().name("mote-profile".to_owned()).spawn(work);
        self.thread = Some(thread.map_err(|why| Error::Loop { what: "start the sampling thread", why })?);
        Ok(Remarks { problems, is_unnoted, ..Remarks::default() })
    }

    /// What is done in every round: names and mappings are noted.
    pub(crate) fn look(&mut self, owner: &mut Owner) -> Remarks {
        let Heard { news, threads, samples, lost, problem } = std::mem::take(&mut *self.shared.heard());
        self.samples += samples;
        self.lost += lost;
        let ids: Vec<u32> = threads.iter().copied().collect();
        owner.note(&ids);
        let is_unnoted = !self.note(news, &threads);
        let problem = problem.map(|why| format!("cannot write {DIRECTORY}: {why}; samples are missing"));
        Remarks { problems: problem.into_iter().collect(), is_unnoted, ..Remarks::default() }
    }

    /// How it is, for a person.
    pub(crate) fn status(&self) -> String {
        let when = if self.asked.is_some() { ", when rules ask for them" } else { "" };
        format!("\nprofile: {}, {} lost{when}", counted_grouped(self.samples, "sample", "samples"), self.lost)
    }

    /// Notes what processes have mapped, and the names of threads. Returns whether the journal has it.
    fn note(&mut self, news: News, threads: &BTreeSet<u32>) -> bool {
        let mut noted = true;
        for change in news.processes {
            let owner = mote_symbol::mapped::user(change.pid);
            let known = self.processes.entry(change.pid).or_default();
            *known = owner.or(*known);
            noted &= self.trace.directory.note(&Fact::Process(of_change(change)));
        }
        let mut facts: Vec<Fact> =
            news.threads.into_iter().filter_map(|named| self.names.learn(named)).collect();
        // Of others the kernel tells each new name.
        let at = now();
        for tid in threads {
            facts.extend((!self.names.has(*tid)).then(|| self.names.look(*tid, at)).flatten());
        }
        facts.iter().fold(noted, |noted, fact| noted & self.trace.directory.note(fact))
    }

    /// Notes samples of the clocks. Returns whether the journal has them.
    pub(crate) fn note_samples(&mut self, news: &[ClockSample]) -> bool {
        self.trace.note_samples(news.iter().map(of_monotonic))
    }

    /// Writes the metadata as they are now.
    ///
    /// # Errors
    /// [`Error::Output`], [`Error::Metadata`].
    pub(crate) fn write_metadata(&self, conversion: Option<Conversion>) -> Result<(), Error> {
        self.trace.write_metadata(&self.events, conversion)
    }

    /// Ends the sampling; what was sampled is written.
    pub(crate) fn end(&mut self, owner: &mut Owner) -> Remarks {
        self.shared.ends.store(true, Ordering::Release);
        let joined = self.thread.take().map(JoinHandle::join);
        let mut remarks = self.look(owner);
        match joined {
            Some(Ok(totals)) => self.totals = totals,
            Some(Err(_)) => {
                remarks.problems.push("the thread that reads samples has failed (a bug of mote)".to_owned());
            }
            None => {}
        }
        remarks
    }

    /// Ends the trace. Returns what it came to, and whether the journal has that.
    pub(crate) fn finish(&mut self, duration_ns: u64, stopped: Option<String>) -> (Summary, bool) {
        keep_tables(&self.trace.directory, std::mem::take(&mut self.processes), self.since);
        let totals = std::mem::take(&mut self.totals);
        let consumed = Consumed { totals, ..Consumed::default() };
        let mut summary = self.trace.summary(&self.events, &consumed, duration_ns);
        (summary.processes, summary.threads) = (self.names.processes() as u32, self.names.threads() as u32);
        summary.stopped = stopped;
        if self.lost > 0 {
            summary.lost.insert(Cause::RingFull.name().to_owned(), self.lost);
        }
        let noted = self.trace.directory.note(&Fact::End(summary.clone()));
        (summary, noted)
    }
}

/// The event of a sample.
fn description(has_cycles: bool) -> String {
    let by = if has_cycles { "by cycles of the processor" } else { "by time on a CPU (cpu-clock)" };
    let (kernel, user) = (stack::KERNEL, stack::USER);
    format!(
        "mote1\nprofile:profile_sample\n6 :0\na sample, {by}\n{kernel} x64[]\n{user} x64[]\ncomplete bool\n"
    )
}

/// The event of a time without a CPU: when it is over.
fn of_off_cpu() -> String {
    let (kernel, user) = (stack::KERNEL, stack::USER);
    format!(
        "mote1\nprofile:profile_off_cpu\n6 :0\na time without a CPU, in nanoseconds, with the stack where it began\n\
         duration u64\nreason enum u8 waits=0 preempted=1\n{kernel} x64[]\n{user} x64[]\ncomplete bool\n"
    )
}

/// The events' ids.
#[derive(Clone, Copy, Debug)]
struct Ids {
    running: u32,
    off_cpu: Option<u32>,
}

/// The fields of a sample.
fn fields(sample: &Sample) -> Vec<u8> {
    let mut fields = Vec::new();
    if let Some(off_cpu) = sample.off_cpu {
        fields.extend(off_cpu.duration.to_le_bytes());
        fields.push(u8::from(off_cpu.is_preempted));
    }
    for stack in [&sample.kernel, &sample.user] {
        let count = u16::try_from(stack.len()).unwrap_or(u16::MAX);
        fields.extend(count.to_le_bytes());
        fields.extend(stack.iter().take(count.into()).flat_map(|address| address.to_le_bytes()));
    }
    fields.push(u8::from(sample.is_whole));
    fields
}

/// Reads samples and writes them, until the end.
fn run(mut sampler: Sampler, mut writer: Writer, shared: &Shared, mut wanted: Option<Times>) -> Totals {
    loop {
        let ends = shared.ends.load(Ordering::Acquire);
        if ends {
            sampler.disable();
        }
        let mut round = sampler.round(ends);
        wanted.iter_mut().for_each(|wanted| wanted.choose(&mut round.samples));
        let written = writer.write(&round.samples, &round.lost, ends);
        let mut heard = shared.heard();
        heard.news.processes.extend(round.news.processes);
        heard.news.threads.extend(round.news.threads);
        heard.threads.extend(round.samples.iter().map(|sample| sample.tid).filter(|tid| *tid != 0));
        heard.samples += round.samples.len() as u64;
        heard.lost += round.lost.iter().map(|(_, lost)| lost).sum::<u64>();
        heard.problem = heard.problem.or(written.err());
        drop(heard);
        if ends {
            return writer.end();
        }
        std::thread::sleep(sampler.patience());
    }
}

/// The times whose samples are kept.
struct Times {
    requests: Arc<Mutex<Requests>>,
    /// In the order in which they were asked for.
    times: Vec<Range<u64>>,
}

impl Times {
    fn new(requests: Arc<Mutex<Requests>>) -> Times {
        Times { requests, times: Vec::new() }
    }

    /// Keeps the samples that are wanted, of a round that has just been read: what asks for them was before them.
    fn choose(&mut self, samples: &mut Vec<Sample>) {
        let asked = self.requests.lock().unwrap_or_else(PoisonError::into_inner).take_samples();
        self.times.extend(asked);
        samples.retain(|sample| self.times.iter().any(|time| time.contains(&sample.time)));
        // Samples of other CPUs come no later than a round after these.
        let past = now().saturating_sub(KEPT.as_nanos() as u64);
        self.times.retain(|time| time.end > past);
        merge_times(&mut self.times);
    }
}

/// For so long it is known that samples were wanted.
const KEPT: Duration = Duration::from_secs(5);

/// Writes samples: a stream for each CPU.
struct Writer {
    context: Context,
    ids: Ids,
    streams: BTreeMap<u32, RecordStream>,
    written: Instant,
}

impl Writer {
    fn write(&mut self, samples: &[Sample], lost: &[(u32, u64)], is_last: bool) -> Result<(), Errno> {
        let Writer { context, ids, streams, written } = self;
        let mut done = Ok(());
        let stream = |cpu| RecordStream::of_cpu(format!("cpu_{cpu}"), cpu, cpu);
        for sample in samples {
            let to = streams.entry(sample.cpu).or_insert_with(|| stream(sample.cpu));
            let id = sample.off_cpu.and(ids.off_cpu).unwrap_or(ids.running);
            to.add(id, sample.time, sample.tid, &fields(sample));
            if to.waiting() >= PACKET {
                done = done.and(to.write(context));
            }
        }
        for (cpu, count) in lost {
            let to = streams.entry(*cpu).or_insert_with(|| stream(*cpu));
            done = done.and(to.lose(*count, now(), context));
        }
        if is_last || written.elapsed() >= FLUSH {
            *written = Instant::now();
            for to in streams.values_mut() {
                done = done.and(to.write(context));
            }
        }
        done
    }

    fn end(mut self) -> Totals {
        let mut totals = Totals::default();
        for stream in self.streams.values_mut() {
            let (own, _) = stream.end(&self.context);
            totals.add(&own);
        }
        totals
    }
}
