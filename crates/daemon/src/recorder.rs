//! The recorder's event loop: processes come, announce events, and go.

use crate::area::Area;
use crate::attached::Attached;
use crate::command::{Command, Signals};
use crate::consumer::{Notice, Shared};
use crate::control::Control;
use crate::cooperate::Cooperation;
use crate::door::Door;
use crate::ending::End;
use crate::error::Error;
use crate::filters::Filters;
use crate::flow::Figures;
use crate::join::Forward;
use crate::kernel::{self, Kernel};
use crate::options::Options;
use crate::peer::{Peer, Said};
use crate::process;
use crate::record::{Progress, Watch};
use crate::samples::{self, Samples};
use crate::tap::Consumed;
use crate::trace::Trace;
use mote_clock::Source;
use mote_journal::{Fact, Process, Summary};
use mote_ring::reader::Channel;
use mote_symbol::collect::{self, BuildIds};
use mote_wire::{How, Ready};
use std::collections::{BTreeSet, HashMap, HashSet};
use std::os::fd::AsRawFd;
use std::path::Path;
use std::sync::atomic::Ordering;
use std::sync::mpsc::Receiver;
use std::time::{Duration, Instant};

/// How often the loop looks around when nothing happens.
const TICK: Duration = Duration::from_millis(100);
/// The same when what happened is to be written down before it is overwritten.
const TICK_SOON: Duration = Duration::from_millis(10);
/// How long processes have to switch off at the end: looks, a millisecond apart. When the whole machine stood still, they have had no more time than we.
const GOODBYE: u32 = 500;
/// Messages of one sender that are served before it is the turn of the others: nobody can keep the loop busy.
const ROUND: usize = 64;
/// Problems that are told; a hostile process could make any number of them.
const PROBLEMS_MAX: usize = 100;

/// What a recording works on.
pub(crate) struct Session<'r> {
    pub(crate) memory: &'r Channel,
    pub(crate) shared: &'r Shared,
    pub(crate) area: &'r Area,
    pub(crate) source: Source,
}

/// The state of a recording's event loop.
pub(crate) struct Recorder<'r> {
    pub(crate) options: &'r Options,
    pub(crate) session: Session<'r>,
    pub(crate) watch: &'r mut dyn Watch,
    pub(crate) hear: Receiver<Notice>,
    pub(crate) samples: Samples,
    /// The kernel's side, if its events were asked for. Before `trace`: of two directories the inner one goes first.
    pub(crate) kernel: Option<Kernel<'r>>,
    /// What the processes write.
    pub(crate) trace: Trace,
    pub(crate) filters: Filters,
    pub(crate) cooperation: Cooperation,
    pub(crate) peers: Vec<Peer>,
    /// The processes that were seen, and the mappings of each that the journal has.
    pub(crate) maps: HashMap<u32, HashSet<(u64, String)>>,
    pub(crate) threads: BTreeSet<u32>,
    /// Running processes that are recorded, too.
    pub(crate) attached: Attached,
    /// Other recordings that have joined processes of ours.
    pub(crate) forwards: Vec<Forward>,
    pub(crate) build_ids: BuildIds,
    pub(crate) problems: Vec<String>,
    pub(crate) patterns_told: bool,
    pub(crate) began: Instant,
    /// When counts and histograms were last shown.
    pub(crate) shown: Instant,
}

/// How serving ended.
pub(crate) struct Served {
    /// The command, if there was one.
    pub(crate) command: Option<Command>,
    /// How long it was recorded, in nanoseconds.
    pub(crate) duration_ns: u64,
}

impl<'r> Recorder<'r> {
    /// A recorder that has not begun.
    pub(crate) fn new(
        options: &'r Options,
        session: Session<'r>,
        (trace, kernel): (Trace, Option<Kernel<'r>>),
        samples: Samples,
        watch: &'r mut dyn Watch,
        hear: Receiver<Notice>,
        (filters, cooperation): (Filters, Cooperation),
    ) -> Recorder<'r> {
        Recorder {
            options,
            session,
            watch,
            hear,
            samples,
            kernel,
            trace,
            filters,
            cooperation,
            peers: Vec::new(),
            maps: HashMap::new(),
            threads: BTreeSet::new(),
            attached: Attached::default(),
            forwards: Vec::new(),
            build_ids: BuildIds::default(),
            problems: Vec::new(),
            patterns_told: false,
            began: Instant::now(),
            shown: Instant::now(),
        }
    }

    /// Starts the command, if there is one, and serves until the recording is over.
    pub(crate) fn serve(&mut self, signals: &Signals) -> Result<Served, Error> {
        let mut door = Door::open()?;
        let control = Control::open(door.directory(), self.trace.directory.path())?;
        self.note_samples();
        self.write_metadata()?;
        self.attach(&door)?;
        self.begin_latency();
        self.begin_cooperation();
        self.begin_kernel();
        self.follow_all();
        let mut command = self.start(&door, signals)?;
        self.trace.directory.keep();
        self.kernel.iter_mut().for_each(|kernel| kernel.trace.directory.keep());
        door.hand_over();
        self.began = Instant::now();
        let mut end = End::default();
        while !self.is_over(&door, command.as_mut(), &mut end) {
            let ready = self.wait(&door, &control, signals, &end)?;
            while let Some(arrived) = signals.next() {
                if arrived.asks_for_snapshot()
                    && let Err(why) = self.ask_for_snapshot()
                {
                    self.watch.say(why);
                }
                end.signal(arrived, command.as_mut());
            }
            self.admit(&door);
            self.talk(|peer| peer.hello.is_none() || ready.contains(&peer.raw()));
            control.serve(|request, beside| self.requested(request, beside));
            self.look_around();
        }
        let duration_ns = self.began.elapsed().as_nanos() as u64;
        self.end_kernel();
        self.end_latency();
        self.say_goodbye(&door);
        Ok(Served { command, duration_ns })
    }

    /// Starts the command. What is recorded of the kernel is on by then.
    fn start(&self, door: &Door, signals: &Signals) -> Result<Option<Command>, Error> {
        let commons = &self.cooperation.commons;
        if self.options.command.is_empty() {
            self.options.attach.first().into_iter().for_each(|pid| commons.set_target(pid.unsigned_abs()));
            return Ok(None);
        }
        let variable = door.variable()?;
        let launching = self.kernel.as_ref().map(|kernel| kernel.tracer.launching()).transpose();
        let _launching = launching.map_err(|why| Error::Kernel(why.to_string()))?;
        let command = Command::start(&self.options.command, (variable.0, &variable.1), signals)?;
        commons.set_target(command.id());
        Ok(Some(command))
    }

    fn is_over(&mut self, door: &Door, command: Option<&mut Command>, end: &mut End) -> bool {
        let timed_out = self.options.duration.is_some_and(|duration| self.began.elapsed() >= duration);
        let failed = self.session.shared.failed.load(Ordering::Acquire);
        if timed_out || failed || end.now {
            return true;
        }
        let Some(command) = command else { return self.attached_are_gone() };
        if !command.has_ended() {
            return false;
        }
        // Beside running processes the command says how long: what it leaves behind is not waited for.
        if self.left() > 0 && self.options.attach.is_empty() {
            if end.in_company(Instant::now()) {
                let who = self.who_is_left();
                let told = format!("the command has ended; recording its {who}, or Ctrl-C");
                self.watch.say(&told);
            }
            return false;
        }
        end.alone(Instant::now(), door.is_deserted())
    }

    /// Processes that are left and carry events, or threads that are left and that the kernel follows.
    pub(crate) fn left(&self) -> usize {
        self.processes().max(self.kernel.as_ref().map_or(0, Kernel::left))
    }

    fn processes(&self) -> usize {
        self.peers.iter().filter(|peer| peer.is_process()).count()
    }

    fn who_is_left(&self) -> String {
        match (self.processes(), self.left()) {
            (0, 1) => "one other thread until it ends".to_owned(),
            (0, threads) => format!("{threads} other threads until they end"),
            (1, _) => "one other process until it ends".to_owned(),
            (processes, _) => format!("{processes} other processes until they end"),
        }
    }

    /// Sleeps until something happens or the next tick. Answers the descriptors that can be read.
    fn wait(
        &self,
        door: &Door,
        control: &Control,
        signals: &Signals,
        end: &End,
    ) -> Result<HashSet<i32>, Error> {
        let asked = control.listener.as_raw_fd();
        let ours = [door.polled_mailbox(), door.listener.raw(), signals.fd().as_raw_fd(), asked];
        let all = ours.into_iter().chain(self.peers.iter().map(Peer::raw));
        let mut polled: Vec<libc::pollfd> =
            all.map(|fd| libc::pollfd { fd, events: libc::POLLIN, revents: 0 }).collect();
        let soon = self.kernel.as_ref().is_some_and(Kernel::snapshots_slow);
        let tick = if soon { TICK_SOON } else { TICK };
        let left =
            self.options.duration.map_or(tick, |duration| duration.saturating_sub(self.began.elapsed()));
        let left = if end.is_last_round() { Duration::ZERO } else { left.min(tick) };
        match mote_sys::socket::wait_any(&mut polled, left.as_millis() as i32) {
            Ok(_) | Err(mote_sys::Errno(libc::EINTR)) => {}
            Err(why) => return Err(Error::Session { what: "wait for processes", why }),
        }
        Ok(polled.into_iter().filter(|polled| polled.revents != 0).map(|polled| polled.fd).collect())
    }

    /// Lets in who stands at the door.
    fn admit(&mut self, door: &Door) {
        let mut buffer = [0; 256];
        for _ in 0..ROUND {
            let Some((len, socket)) = door.receive(&mut buffer) else { break };
            let Some(socket) = socket else {
                self.problem(
                    "a process said nonsense at the door, without a socket for an answer".to_owned(),
                );
                continue;
            };
            let mut peer = Peer::new(socket);
            match peer.understand(&buffer[..len], &mut self.trace) {
                Said::Hello(hello) => {
                    self.greet(&mut peer, hello);
                    self.peers.push(peer);
                }
                Said::Nonsense(why) => {
                    self.problem(format!("process {} was not let in: {why}", peer.pid));
                }
                _ => {
                    self.problem(format!("process {} said nonsense at the door and was not let in", peer.pid))
                }
            }
        }
        for _ in 0..ROUND {
            if mote_sys::socket::wait_readable(door.listener.raw(), 0) != Ok(true) {
                break;
            }
            let Some(socket) = door.accept() else {
                // Most likely out of descriptors: the next try may do better.
                std::thread::sleep(Duration::from_millis(20));
                break;
            };
            self.peers.push(Peer::new(socket));
        }
    }

    fn greet(&mut self, peer: &mut Peer, hello: mote_wire::Hello) {
        let maps = collect::maps(peer.pid.unsigned_abs());
        if matches!(hello.how, How::Start | How::Attach)
            && !peer.welcome(self.session.memory.geometry(), self.session.memory.memfd())
        {
            // It has died at once: nothing of it is missing.
            return;
        }
        self.attached.came(peer.pid);
        if peer.is_process() {
            self.session.shared.came(hello.pid, peer.pid == hello.pid as i32);
        }
        let at = self.session.source.ticks();
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
        // Of a process that is known only what is new.
        let known = self.maps.entry(hello.pid).or_default();
        process.maps.retain(|map| known.insert((map.start, map.path.clone())));
        if peer.is_process() {
            self.cooperate(peer);
        }
        if hello.how == How::Fork {
            // It has inherited its filters, which may have changed since.
            self.send_filters(peer);
            self.forward(peer);
        }
        if hello.how != How::Library || !process.maps.is_empty() {
            self.build_ids.fill(peer.pid.unsigned_abs(), &mut process.maps);
            self.note(&Fact::Process(process));
        }
    }

    /// Serves what has arrived from those peers that may have something to say. New events are in journal and metadata
    /// before anyone is told their ids.
    fn talk(&mut self, may_speak: impl Fn(&Peer) -> bool) {
        let mut peers = std::mem::take(&mut self.peers);
        let mut new = Vec::new();
        peers.retain_mut(|peer| !may_speak(peer) || self.talk_to(peer, &mut new));
        self.decide(&mut new);
        self.learn(&new);
        self.answer(&mut peers);
        self.peers.append(&mut peers);
        self.serve_shares();
    }

    /// Serves one peer's messages; false when it has gone.
    fn talk_to(&mut self, peer: &mut Peer, learned: &mut Vec<u32>) -> bool {
        for _ in 0..ROUND {
            let Some(said) = peer.serve(&mut self.trace) else { break };
            match said {
                Said::Hello(hello) => self.greet(peer, hello),
                Said::Events { new, ids, wrong } => {
                    learned.extend(new);
                    peer.answer = Some(ids);
                    if let Some(why) = wrong {
                        self.problem(format!("an event of process {} cannot be recorded: {why}", peer.pid));
                    }
                }
                Said::Installed { interpreted, refused, why } => {
                    self.installed(peer, interpreted, refused, &why);
                }
                Said::Wish(wish) => peer.wish = Some(wish),
                Said::Ready(ready) => {
                    self.ready(peer, ready);
                    self.forward(peer);
                }
                Said::Declined => self.problem(format!(
                    "process {} is not recorded: it is in {} other recordings, and more are not possible; end one of them",
                    peer.pid,
                    mote_wire::SESSIONS_MAX
                )),
                Said::Gone => {
                    self.gone(peer);
                    return false;
                }
                Said::Nonsense(why) => {
                    self.problem(format!("process {} was sent away: {why}", peer.pid));
                    return false;
                }
            }
        }
        true
    }

    pub(crate) fn renew_metadata(&mut self) {
        if let Err(why) = self.write_metadata() {
            self.problem(format!("{why}; recording stops, what was written before is whole"));
            self.session.shared.failed.store(true, Ordering::Release);
        }
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
            for (pattern, near) in self.trace.events.unmatched(self.filters.patterns()) {
                let near =
                    if near.is_empty() { String::new() } else { format!("; near: {}", near.join(", ")) };
                self.watch.say(&format!("pattern '{pattern}' matches no event so far{near}"));
            }
        }
    }

    fn gone(&mut self, peer: &Peer) {
        peer.area.into_iter().for_each(|area| self.cooperation.leave(area));
        if let Some(hello) = peer.hello.filter(|_| peer.is_process()) {
            self.session.shared.left(hello.pid);
            let at = self.session.source.ticks();
            self.note(&Fact::Exit { pid: hello.pid as i32, at });
        }
    }

    /// What is done at every tick: clock, news from the consumer, progress.
    fn look_around(&mut self) {
        self.samples.tick();
        if self.note_samples() {
            // The line through the clock is better known: what is there is right even if we are killed.
            self.renew_metadata();
        }
        self.note_mapped();
        self.publish_if_asked();
        self.look_at_latency();
        self.hear_consumer();
        self.show_aggregates();
        let now = self.figures();
        self.watch.progress(&Progress {
            events: now.events,
            bytes: now.bytes,
            lost: now.lost,
            processes: self.peers.iter().filter(|peer| peer.is_process()).count(),
        });
    }

    /// What has come of both traces so far.
    pub(crate) fn figures(&self) -> Figures {
        let kernel = self.kernel.as_ref().map(|kernel| kernel.trace.flow.figures());
        self.trace.flow.figures() + kernel.unwrap_or_default()
    }

    pub(crate) fn hear_consumer(&mut self) {
        while let Ok(notice) = self.hear.try_recv() {
            match notice {
                Notice::Thread(name) => {
                    self.threads.insert(name.tid);
                    let end = name.comm.iter().position(|byte| *byte == 0).unwrap_or(name.comm.len());
                    let text = String::from_utf8_lossy(&name.comm[..end]).into_owned();
                    self.note(&Fact::Thread { tid: name.tid, pid: name.pid, at: name.time, name: text });
                }
                Notice::Threads(ids) => self.name_threads(&ids),
                Notice::Problem(text) => self.problem(text),
                Notice::Snapshot(directory, parts) => self.complete_snapshot(&directory, &parts),
            }
        }
    }

    /// Gives a snapshot what makes it a recording.
    fn complete_snapshot(&mut self, directory: &Path, parts: &[Consumed]) {
        parts.iter().flat_map(|part| &part.totals.problems).for_each(|text| self.problem(text.clone()));
        let duration_ns = self.began.elapsed().as_nanos() as u64;
        let mut completed = Ok(());
        let mut problem = None;
        if let Some(own) = parts.first() {
            let end = Fact::End(self.summary(own, duration_ns));
            completed = self.trace.directory.complete(directory, &end);
        }
        if let (Some(kernel), Some(part)) = (&self.kernel, parts.get(1)) {
            let inside = directory.join(kernel::DIRECTORY);
            let mut part = part.clone();
            match kernel.add_slow(&inside) {
                Ok(count) => part.totals.count(kernel.slow_id().unwrap_or(0), count),
                Err(why) => {
                    problem = Some(format!("slow system calls are missing in {}: {why}", inside.display()))
                }
            }
            let end = Fact::End(kernel.summary(&part, duration_ns));
            completed = completed.and_then(|()| kernel.trace.directory.complete(&inside, &end));
        }
        match completed {
            Ok(()) => self.watch.say(&format!("snapshot written: {}", directory.display())),
            Err(why) => problem = Some(format!("cannot finish snapshot {}: {why}", directory.display())),
        }
        problem.into_iter().for_each(|why| self.problem(why));
    }

    /// Notes the samples that are new; true when there were any.
    pub(crate) fn note_samples(&mut self) -> bool {
        let news = self.samples.news();
        let mut noted = self.trace.note_samples(news.iter().copied());
        if let Some(kernel) = &mut self.kernel {
            noted &= kernel.trace.note_samples(news.iter().map(samples::of_monotonic));
        }
        self.check_journal(noted);
        !news.is_empty()
    }

    /// Asks all processes to switch off, and waits a little until they have.
    fn say_goodbye(&mut self, door: &Door) {
        for peer in &self.peers {
            let _ = peer.stop();
        }
        for _ in 0..GOODBYE {
            let mut buffer = [0; 256];
            for _ in 0..ROUND {
                let Some((_, socket)) = door.receive(&mut buffer) else { break };
                socket.map(|socket| Peer::new(socket).refuse());
            }
            self.talk(|_| true);
            if !self.peers.iter().any(Peer::is_process) {
                break;
            }
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    pub(crate) fn write_metadata(&self) -> Result<(), Error> {
        self.trace.write_metadata(self.samples.conversion())?;
        match &self.kernel {
            Some(kernel) => kernel.trace.write_metadata(self.samples.conversion_of_monotonic()),
            None => Ok(()),
        }
    }

    pub(crate) fn note(&mut self, fact: &Fact) {
        let noted = self.trace.directory.note(fact);
        self.check_journal(noted);
    }

    /// Tells if something could not be noted.
    pub(crate) fn check_journal(&mut self, noted: bool) {
        if !noted {
            self.problem(
                "the journal cannot be written any more; thread names and maps will be missing".to_owned(),
            );
        }
    }

    /// What the trace of the processes came to.
    pub(crate) fn summary(&self, consumed: &Consumed, duration_ns: u64) -> Summary {
        Summary {
            processes: self.maps.len() as u32,
            threads: self.threads.len() as u32,
            ..self.trace.summary(consumed, duration_ns)
        }
    }

    pub(crate) fn problem(&mut self, text: String) {
        let text = match self.problems.len() {
            0..PROBLEMS_MAX => text,
            PROBLEMS_MAX => "there are more problems, which are not told".to_owned(),
            _ => return,
        };
        self.watch.problem(&text);
        let fact = Fact::Problem { at: self.session.source.ticks(), text: text.clone() };
        let _ = self.trace.directory.note(&fact);
        self.problems.push(text);
    }
}
