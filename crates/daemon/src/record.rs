//! One recording, from start to end.

use crate::command::{Command, Signals};
use crate::consumer::{self, Consumed, Notice, Shared};
use crate::describe::{self, Frame};
use crate::directory::Directory;
use crate::door::Door;
use crate::error::Error;
use crate::events::Events;
use crate::options::{self, Options};
use crate::peer::{Peer, Said};
use crate::process::{self, BuildIds};
use mote_clock::{Conversion, Sample, Source};
use mote_journal::{ClockSample, EventSource, Fact, Process, Session, Summary};
use mote_layout::Cause;
use mote_ring::reader::{Channel, MakeError};
use mote_ring::{Clock, Geometry, Mode};
use mote_sys::time::{ClockId, clock_gettime};
use mote_wire::{How, Ready};
use nix::sys::signal::Signal;
use std::collections::{BTreeSet, HashSet};
use std::os::fd::AsRawFd;
use std::path::PathBuf;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

/// What a recording tells while it runs.
pub trait Watch {
    /// How far it is; called about ten times a second.
    fn progress(&mut self, progress: &Progress);
    /// Something that a person should know now.
    fn say(&mut self, text: &str);
}

/// How far a recording is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// Events in the trace so far; packets written in a hurry are counted a little later.
    pub events: u64,
    /// Bytes on disk.
    pub bytes: u64,
    /// Lost events.
    pub lost: u64,
    /// Processes in the session now.
    pub processes: usize,
}

/// A finished recording.
#[derive(Clone, Debug)]
pub struct Recorded {
    /// Where it is.
    pub directory: PathBuf,
    /// What it came to.
    pub summary: Summary,
    /// What went wrong, in words.
    pub problems: Vec<String>,
}

/// How often the loop looks around when nothing happens.
const TICK: Duration = Duration::from_millis(100);
/// How long processes have to switch off at the end.
const GOODBYE: Duration = Duration::from_millis(500);
/// How far the clock may drift from where the last samples point before a sample is kept, in nanoseconds.
const DRIFT_NS: u64 = 100;
/// Samples are kept at least this often, in nanoseconds.
const SAMPLE_NS: u64 = 10_000_000_000;

/// Records a command until it and all its children have ended, the duration is over, or a signal asks to stop.
///
/// # Errors
/// [`Error`] when nothing could be recorded. What goes wrong later is in [`Recorded::problems`], and the trace is
/// whole up to there.
pub fn record(options: &Options, watch: &mut dyn Watch) -> Result<Recorded, Error> {
    let signals = Signals::catch()?;
    let mut directory = Directory::make(&options.output)?;
    let source = Source::choose(options.clock).source;
    let memory = make_channel(options, source)?;
    let first = mote_clock::quick_pair(source, 5_000_000);
    let frame = frame(options, source, &first[0]);
    let shared = Shared::default();
    let (tell, hear) = channel();
    let path = directory.path().to_owned();
    directory.note(&Fact::Session(session(options, &frame, &memory, &first)));
    std::thread::scope(|scope| {
        let consumer = std::thread::Builder::new().name("mote-consumer".to_owned()).spawn_scoped(scope, || {
            let tell = |notice| drop(tell.send(notice));
            consumer::consume(&memory, &shared, &path, frame.uuid, source, &tell)
        });
        let consumer = consumer.map_err(|why| Error::Loop { what: "start the consumer", why })?;
        let mut recorder = Recorder {
            options,
            directory: &mut directory,
            memory: &memory,
            shared: &shared,
            watch,
            hear,
            source,
            frame: &frame,
            samples: first.to_vec(),
            recent: first[1],
            events: Events::new(&options.include, &options.exclude),
            peers: Vec::new(),
            joined: HashSet::new(),
            threads: BTreeSet::new(),
            build_ids: BuildIds::default(),
            problems: Vec::new(),
            patterns_told: false,
        };
        let served = recorder.serve(&signals);
        shared.stop();
        let consumed = consumer.join().map_err(|_| Error::Loop {
            what: "empty the rings",
            why: std::io::Error::other("the consumer has failed"),
        })?;
        recorder.finish(served?, &consumed, &signals)
    })
}

fn make_channel(options: &Options, source: Source) -> Result<Channel, Error> {
    let cpus = options::cpus();
    let geometry = Geometry {
        cpus,
        shared: cpus.min(16),
        sub_bits: options.buffers.sub_bits,
        count_bits: options.buffers.count_bits,
        mode: options.mode,
        clock: if source == Source::Tsc { Clock::Tsc } else { Clock::Monotonic },
    };
    let online = std::thread::available_parallelism().map_or(1, |n| n.get() as u32).max(online_cpus());
    Channel::make(geometry, 0..online.min(cpus)).map_err(|error| match error {
        MakeError::Geometry(bad) => Error::Geometry(bad),
        MakeError::System(why) => Error::Memory { bytes: geometry.ring_bytes() * u64::from(online), why },
    })
}

fn online_cpus() -> u32 {
    std::fs::read_dir("/sys/devices/system/cpu")
        .map(|entries| {
            let name = |entry: std::io::Result<std::fs::DirEntry>| entry.ok()?.file_name().into_string().ok();
            let is_cpu = |name: &String| name.strip_prefix("cpu").is_some_and(|n| n.parse::<u32>().is_ok());
            entries.filter_map(name).filter(is_cpu).count() as u32
        })
        .unwrap_or(1)
}

fn frame(options: &Options, source: Source, first: &Sample) -> Frame {
    Frame {
        uuid: uuid(),
        host: host(),
        name: options.output.file_name().unwrap_or_default().to_string_lossy().into_owned(),
        created: first.realtime_ns / 1_000_000_000,
        clock: source.name(),
    }
}

/// A random UUID (RFC 9562, version 4), from the kernel.
fn uuid() -> [u8; 16] {
    let text = std::fs::read_to_string("/proc/sys/kernel/random/uuid").unwrap_or_default();
    let digits: Vec<u32> = text.chars().filter_map(|c| c.to_digit(16)).collect();
    let mut uuid = [0; 16];
    for (byte, pair) in uuid.iter_mut().zip(digits.chunks_exact(2)) {
        *byte = (pair[0] << 4 | pair[1]) as u8;
    }
    uuid
}

fn host() -> String {
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    name.trim().to_owned()
}

fn session(options: &Options, frame: &Frame, memory: &Channel, first: &[Sample; 2]) -> Session {
    let geometry = memory.geometry();
    let excluded = options.exclude.iter().map(|pattern| format!("!{pattern}"));
    Session {
        version: env!("CARGO_PKG_VERSION").to_owned(),
        uuid: frame.uuid.iter().map(|byte| format!("{byte:02x}")).collect(),
        host: frame.host.clone(),
        command: options.command.iter().map(|word| word.to_string_lossy().into_owned()).collect(),
        mode: if options.mode == Mode::Discard { "discard" } else { "overwrite" }.to_owned(),
        sub_bytes: geometry.sub_bytes(),
        sub_count: geometry.sub_count(),
        cpus: geometry.cpus,
        clock: frame.clock.to_owned(),
        frequency: mote_clock::frequency_hz(&first[0], &first[1]).unwrap_or(1_000_000_000),
        patterns: options.include.iter().cloned().chain(excluded).collect(),
    }
}

/// The state of a recording's event loop.
struct Recorder<'r> {
    options: &'r Options,
    directory: &'r mut Directory,
    memory: &'r Channel,
    shared: &'r Shared,
    watch: &'r mut dyn Watch,
    hear: Receiver<Notice>,
    source: Source,
    frame: &'r Frame,
    /// Clock samples that are kept, and the newest that was taken.
    samples: Vec<Sample>,
    recent: Sample,
    events: Events,
    peers: Vec<Peer>,
    joined: HashSet<(u32, u32)>,
    threads: BTreeSet<u32>,
    build_ids: BuildIds,
    problems: Vec<String>,
    patterns_told: bool,
}

/// How serving ended.
struct Served {
    command: Command,
    began: Instant,
}

impl Recorder<'_> {
    /// Starts the command and serves it until the recording is over.
    fn serve(&mut self, signals: &Signals) -> Result<Served, Error> {
        let door = Door::open()?;
        self.keep_sample(self.samples[0]);
        self.keep_sample(self.samples[1]);
        self.write_metadata()?;
        let variable = door.variable()?;
        let mut command = Command::start(&self.options.command, (variable.0, &variable.1))?;
        let began = Instant::now();
        let mut end = End::default();
        while !self.is_over(&mut command, began, &mut end) {
            self.wait(&door, signals, began, &end)?;
            while let Some(arrived) = signals.next() {
                end.signal(arrived.signal, arrived.from_terminal, &mut command);
            }
            self.admit(&door);
            self.talk()?;
            self.look_around();
        }
        self.say_goodbye(&door)?;
        Ok(Served { command, began })
    }

    fn is_over(&mut self, command: &mut Command, began: Instant, end: &mut End) -> bool {
        let timed_out = self.options.duration.is_some_and(|duration| began.elapsed() >= duration);
        let failed = self.shared.failed.load(Ordering::Acquire);
        if timed_out || failed || end.now {
            return true;
        }
        if !command.has_ended() {
            return false;
        }
        let left = self.peers.iter().filter(|peer| peer.is_process()).count();
        if left > 0 && !end.waiting_told {
            end.waiting_told = true;
            self.watch.say(&format!("the command has ended; recording its {left} other processes until they end, or Ctrl-C"));
        }
        // What the last processes have sent is still to be read: one more round when they are gone.
        end.rounds_alone += u32::from(left == 0);
        left == 0 && end.rounds_alone > 1
    }

    /// Sleeps until something happens or the next tick.
    fn wait(&self, door: &Door, signals: &Signals, began: Instant, end: &End) -> Result<(), Error> {
        let ours = [door.mailbox.raw(), door.listener.raw(), signals.fd().as_raw_fd()];
        let all = ours.into_iter().chain(self.peers.iter().map(Peer::raw));
        let mut polled: Vec<libc::pollfd> =
            all.map(|fd| libc::pollfd { fd, events: libc::POLLIN, revents: 0 }).collect();
        let left = self.options.duration.map_or(TICK, |duration| duration.saturating_sub(began.elapsed()));
        let left = if end.rounds_alone > 0 { Duration::ZERO } else { left.min(TICK) };
        match mote_sys::socket::wait_any(&mut polled, left.as_millis() as i32) {
            Ok(_) | Err(mote_sys::Errno(libc::EINTR)) => Ok(()),
            Err(why) => Err(Error::Session { what: "wait for processes", why }),
        }
    }

    /// Lets in who stands at the door.
    fn admit(&mut self, door: &Door) {
        let mut buffer = [0; 256];
        while let Some((len, socket)) = door.receive(&mut buffer) {
            let mut peer = Peer::new(socket);
            match peer.understand(&buffer[..len], &mut self.events, |_| ()) {
                Said::Hello(hello) => {
                    self.greet(&mut peer, hello);
                    self.peers.push(peer);
                }
                _ => self.problem(format!("process {} said nonsense at the door and was not let in", peer.pid)),
            }
        }
        while mote_sys::socket::wait_readable(door.listener.raw(), 0) == Ok(true) {
            let Some(socket) = door.accept() else { break };
            self.peers.push(Peer::new(socket));
        }
    }

    fn greet(&mut self, peer: &mut Peer, hello: mote_wire::Hello) {
        let maps = process::maps(peer.pid);
        if hello.how == How::Start && !peer.welcome(self.memory.geometry(), self.memory.memfd()) {
            self.problem(format!("process {} left before it was welcomed", hello.pid));
            return;
        }
        let at = self.source.ticks();
        self.joined.insert((hello.pid, hello.how as u32 & 1));
        let end = hello.comm.iter().position(|byte| *byte == 0).unwrap_or(hello.comm.len());
        let mut process = Process {
            pid: hello.pid as i32,
            parent: hello.parent as i32,
            at,
            how: format!("{:?}", hello.how).to_lowercase(),
            comm: String::from_utf8_lossy(&hello.comm[..end]).into_owned(),
            exe: process::executable(peer.pid),
            maps,
        };
        self.build_ids.fill(&mut process.maps);
        self.note(&Fact::Process(process));
    }

    /// Serves every message that has arrived.
    fn talk(&mut self) -> Result<(), Error> {
        let mut peers = std::mem::take(&mut self.peers);
        let mut stay = Vec::with_capacity(peers.len());
        for mut peer in peers.drain(..) {
            if self.talk_to(&mut peer)? {
                stay.push(peer);
            }
        }
        self.peers.append(&mut stay);
        Ok(())
    }

    /// Serves one peer's messages; false when it has gone.
    fn talk_to(&mut self, peer: &mut Peer) -> Result<bool, Error> {
        let shared = self.shared;
        while let Some(said) = peer.serve(&mut self.events, |steps| shared.add_event(steps)) {
            match said {
                Said::Hello(hello) => self.greet(peer, hello),
                Said::Events { new, words, wrong } => {
                    self.learn(&new)?;
                    peer.answer(&words);
                    if let Some(why) = wrong {
                        self.problem(format!("an event of process {} cannot be recorded: {why}", peer.pid));
                    }
                }
                Said::Ready(ready) => self.ready(peer, ready),
                Said::Gone => {
                    self.gone(peer);
                    return Ok(false);
                }
                Said::Nonsense(why) => {
                    self.problem(format!("process {} was sent away: {why}", peer.pid));
                    return Ok(false);
                }
            }
        }
        Ok(true)
    }

    /// Puts new events into journal and metadata, before anyone can record them.
    fn learn(&mut self, new: &[u32]) -> Result<(), Error> {
        for id in new {
            let Some(event) = self.events.description(*id) else { continue };
            let fact = Fact::Event(EventSource {
                id: *id,
                provider: event.provider.to_owned(),
                name: event.name.to_owned(),
                level: event.level as u8,
                file: event.file.to_owned(),
                line: event.line,
                text: event.text.to_owned(),
            });
            self.note(&fact);
        }
        if new.is_empty() { Ok(()) } else { self.write_metadata() }
    }

    fn ready(&mut self, peer: &Peer, ready: Ready) {
        if ready.failed > 0 {
            let why = match ready.errno {
                0 => "their code could not be patched safely".to_owned(),
                errno => mote_sys::Errno(errno as i32).to_string(),
            };
            self.problem(format!(
                "{} of {} event sites of process {} could not be switched on: {why}; \
                 run `mote doctor`, or build with the feature tested-byte",
                ready.failed, ready.sites, peer.pid
            ));
        }
        if !self.patterns_told {
            self.patterns_told = true;
            for (pattern, near) in self.events.unmatched() {
                let near = if near.is_empty() { String::new() } else { format!("; near: {}", near.join(", ")) };
                self.watch.say(&format!("pattern '{pattern}' matches no event so far{near}"));
            }
        }
    }

    fn gone(&mut self, peer: &Peer) {
        if let Some(hello) = peer.hello.filter(|_| peer.is_process()) {
            let at = self.source.ticks();
            self.note(&Fact::Exit { pid: hello.pid as i32, at });
        }
    }

    /// What is done at every tick: clock, news from the consumer, progress.
    fn look_around(&mut self) {
        self.sample();
        self.hear_consumer();
        self.watch.progress(&Progress {
            events: self.shared.events.load(Ordering::Relaxed),
            bytes: self.shared.bytes.load(Ordering::Relaxed),
            lost: self.shared.lost.load(Ordering::Relaxed),
            processes: self.peers.iter().filter(|peer| peer.is_process()).count(),
        });
    }

    fn hear_consumer(&mut self) {
        while let Ok(notice) = self.hear.try_recv() {
            match notice {
                Notice::Thread(name) => {
                    self.threads.insert(name.tid);
                    let end = name.comm.iter().position(|byte| *byte == 0).unwrap_or(name.comm.len());
                    let text = String::from_utf8_lossy(&name.comm[..end]).into_owned();
                    self.note(&Fact::Thread { tid: name.tid, pid: name.pid, at: name.time, name: text });
                }
                Notice::Problem(text) => self.problem(text),
            }
        }
    }

    /// Reads all clocks; keeps the sample when the clock has left the line of the last two.
    fn sample(&mut self) {
        let tick = TICK.as_nanos() as u64;
        if clock_gettime(ClockId::Monotonic) < self.recent.monotonic_ns + tick {
            return;
        }
        let now = Sample::take(self.source);
        let expected = match self.samples.as_slice() {
            [.., before, last] => mote_clock::frequency_hz(before, last)
                .and_then(|frequency| Conversion::through(last, frequency))
                .map(|line| line.realtime_ns(now.ticks) - last.epoch_offset_ns()),
            _ => None,
        };
        let drift = expected.map_or(u128::MAX, |ns| (ns - i128::from(now.monotonic_ns)).unsigned_abs());
        let last = self.samples.last().map_or(0, |sample| sample.monotonic_ns);
        if drift > u128::from(DRIFT_NS) && self.recent.monotonic_ns > last {
            self.keep(self.recent);
        }
        if drift > u128::from(DRIFT_NS) || now.monotonic_ns >= last + SAMPLE_NS {
            self.keep(now);
        }
        self.recent = now;
    }

    fn keep(&mut self, sample: Sample) {
        self.samples.push(sample);
        self.keep_sample(sample);
    }

    fn keep_sample(&mut self, sample: Sample) {
        self.note(&Fact::Clock(ClockSample {
            ticks: sample.ticks,
            monotonic_ns: sample.monotonic_ns,
            realtime_ns: sample.realtime_ns,
            error_ns: sample.error_ns,
        }));
    }

    /// Asks all processes to switch off, and waits a little until they have.
    fn say_goodbye(&mut self, door: &Door) -> Result<(), Error> {
        for peer in &self.peers {
            let _ = peer.stop();
        }
        let until = Instant::now() + GOODBYE;
        while Instant::now() < until {
            let mut buffer = [0; 256];
            while let Some((_, socket)) = door.receive(&mut buffer) {
                Peer::new(socket).refuse();
            }
            self.talk()?;
            if !self.peers.iter().any(Peer::is_process) {
                break;
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        Ok(())
    }

    /// Writes what is known now that everything has been read.
    fn finish(&mut self, served: Served, consumed: &Consumed, signals: &Signals) -> Result<Recorded, Error> {
        let duration_ns = served.began.elapsed().as_nanos() as u64;
        self.hear_consumer();
        let last = Sample::take(self.source);
        self.keep(last);
        self.write_metadata()?;
        if consumed.nameless > 0 {
            self.problem(format!("{} threads have no name: they started too fast to be noted", consumed.nameless));
        }
        let mut summary = self.summary(consumed, duration_ns);
        summary.status = self.wait_for(served.command, signals);
        if !self.directory.note(&Fact::End(summary.clone())) {
            self.problem("the journal could not be written to its end".to_owned());
        }
        Ok(Recorded {
            directory: self.directory.path().to_owned(),
            summary,
            problems: std::mem::take(&mut self.problems),
        })
    }

    /// Waits for the command, still passing signals on.
    fn wait_for(&mut self, mut command: Command, signals: &Signals) -> Option<i32> {
        if !command.has_ended() {
            self.watch.say("recording has ended and the trace is complete; waiting for the command to end");
        }
        while !command.has_ended() {
            if let Some(arrived) = signals.next()
                && !arrived.from_terminal
                && arrived.signal != Signal::SIGCHLD
            {
                command.pass_on(arrived.signal);
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        command.wait()
    }

    fn summary(&self, consumed: &Consumed, duration_ns: u64) -> Summary {
        let name = |id: usize| self.events.description(id as u32).map(|e| format!("{}:{}", e.provider, e.name));
        let mut summary = Summary {
            duration_ns,
            bytes: consumed.totals.bytes,
            packets: consumed.totals.packets,
            overwritten_bytes: consumed.totals.overwritten,
            processes: self.joined.iter().map(|(pid, _)| pid).collect::<HashSet<_>>().len() as u32,
            threads: self.threads.len() as u32,
            ..Summary::default()
        };
        for (id, count) in consumed.totals.counts.iter().enumerate().filter(|(_, count)| **count > 0) {
            *summary.events.entry(name(id).unwrap_or_default()).or_default() += count;
        }
        let lost = Cause::ALL.iter().map(|cause| (cause.name(), consumed.lost[*cause as usize]));
        let unwritten = ("not_written", consumed.totals.unwritten);
        for (cause, count) in lost.chain([unwritten]).filter(|(_, count)| *count > 0) {
            summary.lost.insert(cause.to_owned(), count);
        }
        summary
    }

    fn write_metadata(&self) -> Result<(), Error> {
        let conversion = Conversion::fit(&self.samples).or_else(|| Conversion::through(&self.recent, 1_000_000_000));
        let Some(conversion) = conversion else { return Ok(()) };
        let trace = describe::trace_class(self.frame, &conversion, self.events.iter());
        self.directory.write_metadata(&trace, self.options.ctf)
    }

    fn note(&mut self, fact: &Fact) {
        if !self.directory.note(fact) {
            self.problem("the journal cannot be written any more; thread names and maps will be missing".to_owned());
        }
    }

    fn problem(&mut self, text: String) {
        self.watch.say(&text);
        let fact = Fact::Problem { at: self.source.ticks(), text: text.clone() };
        let _ = self.directory.note(&fact);
        self.problems.push(text);
    }
}

/// What has been asked about the end.
#[derive(Default)]
struct End {
    now: bool,
    asked: bool,
    waiting_told: bool,
    rounds_alone: u32,
}

impl End {
    /// A signal: the command gets it, and ends if it wants to. When it has ended already, or with the second
    /// request that is no Ctrl-C, the recording ends.
    fn signal(&mut self, signal: Signal, from_terminal: bool, command: &mut Command) {
        if signal == Signal::SIGCHLD {
            return;
        }
        if command.has_ended() || (self.asked && signal != Signal::SIGINT) {
            self.now = true;
        }
        self.asked = true;
        if !from_terminal {
            command.pass_on(signal);
        }
    }
}
