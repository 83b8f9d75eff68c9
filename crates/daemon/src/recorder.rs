//! The recorder's event loop: processes come, announce events, and go.

use crate::command::{Command, Signals};
use crate::consumer::{Consumed, Notice, Shared};
use crate::describe::{self, Frame};
use crate::directory::Directory;
use crate::door::Door;
use crate::ending::End;
use crate::error::Error;
use crate::events::Events;
use crate::options::Options;
use crate::peer::{Peer, Said};
use crate::process::{self, BuildIds};
use crate::record::{Progress, Recorded, Watch};
use crate::samples::Samples;
use mote_clock::Source;
use mote_journal::{ClockSample, EventSource, Fact, Process, Summary};
use mote_layout::Cause;
use mote_ring::reader::Channel;
use mote_wire::{How, Ready};
use std::collections::{BTreeSet, HashSet};
use std::os::fd::AsRawFd;
use std::sync::atomic::Ordering;
use std::sync::mpsc::Receiver;
use std::time::{Duration, Instant};

/// How often the loop looks around when nothing happens.
const TICK: Duration = Duration::from_millis(100);
/// How long processes have to switch off at the end.
const GOODBYE: Duration = Duration::from_millis(500);

/// What a recording works on.
pub(crate) struct Session<'r> {
    pub(crate) directory: &'r mut Directory,
    pub(crate) memory: &'r Channel,
    pub(crate) shared: &'r Shared,
    pub(crate) source: Source,
    pub(crate) frame: &'r Frame,
}

/// The state of a recording's event loop.
pub(crate) struct Recorder<'r> {
    options: &'r Options,
    session: Session<'r>,
    watch: &'r mut dyn Watch,
    hear: Receiver<Notice>,
    samples: Samples,
    events: Events,
    peers: Vec<Peer>,
    joined: HashSet<(u32, u32)>,
    threads: BTreeSet<u32>,
    build_ids: BuildIds,
    problems: Vec<String>,
    patterns_told: bool,
}

/// How serving ended.
pub(crate) struct Served {
    command: Command,
    began: Instant,
}

impl<'r> Recorder<'r> {
    /// A recorder that has not begun.
    pub(crate) fn new(
        options: &'r Options,
        session: Session<'r>,
        samples: Samples,
        watch: &'r mut dyn Watch,
        hear: Receiver<Notice>,
    ) -> Recorder<'r> {
        Recorder {
            options,
            session,
            watch,
            hear,
            samples,
            events: Events::new(&options.include, &options.exclude),
            peers: Vec::new(),
            joined: HashSet::new(),
            threads: BTreeSet::new(),
            build_ids: BuildIds::default(),
            problems: Vec::new(),
            patterns_told: false,
        }
    }

    /// Starts the command and serves it until the recording is over.
    pub(crate) fn serve(&mut self, signals: &Signals) -> Result<Served, Error> {
        let door = Door::open()?;
        self.note_samples();
        self.write_metadata()?;
        let variable = door.variable()?;
        let mut command = Command::start(&self.options.command, (variable.0, &variable.1), signals)?;
        let began = Instant::now();
        let mut end = End::default();
        while !self.is_over(&mut command, began, &mut end) {
            self.wait(&door, signals, began, &end)?;
            while let Some(arrived) = signals.next() {
                end.signal(arrived, &mut command);
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
        let failed = self.session.shared.failed.load(Ordering::Acquire);
        if timed_out || failed || end.now {
            return true;
        }
        if !command.has_ended() {
            return false;
        }
        let left = self.peers.iter().filter(|peer| peer.is_process()).count();
        if left > 0 && !end.waiting_told {
            end.waiting_told = true;
            self.watch.say(&format!(
                "the command has ended; recording its {left} other processes until they end, or Ctrl-C"
            ));
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
                _ => {
                    self.problem(format!("process {} said nonsense at the door and was not let in", peer.pid))
                }
            }
        }
        while mote_sys::socket::wait_readable(door.listener.raw(), 0) == Ok(true) {
            let Some(socket) = door.accept() else { break };
            self.peers.push(Peer::new(socket));
        }
    }

    fn greet(&mut self, peer: &mut Peer, hello: mote_wire::Hello) {
        let maps = process::maps(peer.pid);
        if hello.how == How::Start
            && !peer.welcome(self.session.memory.geometry(), self.session.memory.memfd())
        {
            self.problem(format!("process {} left before it was welcomed", hello.pid));
            return;
        }
        let at = self.session.source.ticks();
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
        let shared = self.session.shared;
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
                let near =
                    if near.is_empty() { String::new() } else { format!("; near: {}", near.join(", ")) };
                self.watch.say(&format!("pattern '{pattern}' matches no event so far{near}"));
            }
        }
    }

    fn gone(&mut self, peer: &Peer) {
        if let Some(hello) = peer.hello.filter(|_| peer.is_process()) {
            let at = self.session.source.ticks();
            self.note(&Fact::Exit { pid: hello.pid as i32, at });
        }
    }

    /// What is done at every tick: clock, news from the consumer, progress.
    fn look_around(&mut self) {
        self.samples.tick();
        self.note_samples();
        self.hear_consumer();
        self.watch.progress(&Progress {
            events: self.session.shared.events.load(Ordering::Relaxed),
            bytes: self.session.shared.bytes.load(Ordering::Relaxed),
            lost: self.session.shared.lost.load(Ordering::Relaxed),
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

    fn note_samples(&mut self) {
        for sample in self.samples.news() {
            self.note(&Fact::Clock(ClockSample {
                ticks: sample.ticks,
                monotonic_ns: sample.monotonic_ns,
                realtime_ns: sample.realtime_ns,
                error_ns: sample.error_ns,
            }));
        }
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
    pub(crate) fn finish(
        &mut self,
        served: Served,
        consumed: &Consumed,
        signals: &Signals,
    ) -> Result<Recorded, Error> {
        let duration_ns = served.began.elapsed().as_nanos() as u64;
        self.hear_consumer();
        self.samples.end();
        self.note_samples();
        self.write_metadata()?;
        if consumed.nameless > 0 {
            self.problem(format!(
                "{} threads have no name: they started too fast to be noted",
                consumed.nameless
            ));
        }
        let mut summary = self.summary(consumed, duration_ns);
        summary.status = self.wait_for(served.command, signals);
        if !self.session.directory.note(&Fact::End(summary.clone())) {
            self.problem("the journal could not be written to its end".to_owned());
        }
        Ok(Recorded {
            directory: self.session.directory.path().to_owned(),
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
                && arrived.asks_to_end()
            {
                command.pass_on(arrived.signal);
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        command.wait()
    }

    fn summary(&self, consumed: &Consumed, duration_ns: u64) -> Summary {
        let name =
            |id: usize| self.events.description(id as u32).map(|e| format!("{}:{}", e.provider, e.name));
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
        let Some(conversion) = self.samples.conversion() else { return Ok(()) };
        let trace = describe::trace_class(self.session.frame, &conversion, self.events.iter());
        self.session.directory.write_metadata(&trace, self.options.ctf)
    }

    fn note(&mut self, fact: &Fact) {
        if !self.session.directory.note(fact) {
            self.problem(
                "the journal cannot be written any more; thread names and maps will be missing".to_owned(),
            );
        }
    }

    fn problem(&mut self, text: String) {
        self.watch.say(&text);
        let fact = Fact::Problem { at: self.session.source.ticks(), text: text.clone() };
        let _ = self.session.directory.note(&fact);
        self.problems.push(text);
    }
}
