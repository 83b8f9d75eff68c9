//! The recorder's event loop: processes come, announce events, and go.

use crate::area::Area;
use crate::areas::Areas;
use crate::attached::Attached;
use crate::awaited::Awaited;
use crate::command::{Command, Signals};
use crate::consumer::{Notice, Shared};
use crate::control::Answer;
use crate::cooperate::Cooperation;
use crate::desk::{Desk, Ticket};
use crate::door::Door;
use crate::ending::End;
use crate::error::Error;
use crate::filters::Filters;
use crate::flow::Figures;
use crate::groups::Groups;
use crate::hall::{Caller, Hall};
use crate::join::Forward;
use crate::kernel::Kernel;
use crate::later::Later;
use crate::options::Options;
use crate::owner::Owner;
use crate::peer::Peer;
use crate::principal::Principal;
use crate::problems::{Kind, Problems};
use crate::process;
use crate::record::{Progress, Watch};
use crate::samples::Samples;
use crate::shares::Shares;
use crate::tap::Consumed;
use crate::trace::Trace;
use crate::trust::Trust;
use mote_clock::Source;
use mote_journal::{Fact, Process, Summary};
use mote_symbol::collect::{self, BuildIds};
use mote_sys::fd::Fd;
use mote_wire::{How, Ready, Refusal};
use std::collections::{BTreeSet, HashMap, HashSet};
use std::os::fd::AsRawFd;
use std::sync::mpsc::Receiver;
use std::time::{Duration, Instant};

/// How often the loop looks around when nothing happens.
const TICK: Duration = Duration::from_millis(100);
/// The same when what happened is to be written down before it is overwritten.
const TICK_SOON: Duration = Duration::from_millis(10);
/// How long processes have to switch off at the end: looks, a millisecond apart. When the whole machine stood still, they have had no more time than we.
const GOODBYE: u32 = 500;

/// What a recording works on.
pub(crate) struct Session<'r> {
    /// Who shares rings with whom.
    pub(crate) groups: Groups<'r>,
    pub(crate) shared: &'r Shared,
    /// What they share beside these.
    pub(crate) areas: Areas<'r>,
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
    /// Losses of processes that were recorded late or never; of how many events is unknown.
    pub(crate) missing: u64,
    /// The processes that were seen, and the mappings of each that the journal has.
    pub(crate) maps: HashMap<u32, HashSet<(u64, String)>>,
    pub(crate) threads: BTreeSet<u32>,
    /// Running processes that are recorded, too.
    pub(crate) attached: Attached,
    /// Those of them that other recordings have promised.
    pub(crate) awaited: Awaited,
    /// Other recordings that have joined processes of ours.
    pub(crate) forwards: Vec<Forward>,
    /// Whose processes have which ids, as they see them themselves.
    pub(crate) ids: HashMap<u32, u32>,
    /// Who has said hello and was not let in yet.
    pub(crate) hall: Hall,
    /// Somebody has more to say than there was time for.
    pub(crate) pressed: bool,
    /// What each user may take.
    pub(crate) shares: Shares,
    /// Returns to requests that could not be answered at once.
    pub(crate) late: Vec<(Ticket, Answer)>,
    /// Who waits for them.
    pub(crate) later: Later,
    pub(crate) build_ids: BuildIds,
    /// Who is to have the recording.
    pub(crate) owner: Owner,
    pub(crate) problems: Problems,
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
            missing: 0,
            maps: HashMap::new(),
            threads: BTreeSet::new(),
            attached: Attached::default(),
            awaited: Awaited::default(),
            forwards: Vec::new(),
            ids: HashMap::new(),
            hall: Hall::default(),
            pressed: false,
            shares: Shares::new(Trust::find().own()),
            late: Vec::new(),
            later: Later::default(),
            build_ids: BuildIds::default(),
            owner: Owner::of(options),
            problems: Problems::default(),
            patterns_told: false,
            began: Instant::now(),
            shown: Instant::now(),
        }
    }

    /// Starts the command, if there is one, and serves until the recording is over.
    pub(crate) fn serve(&mut self, signals: &Signals) -> Result<Served, Error> {
        let mut door = Door::open()?;
        let mut desk = Desk::open(door.sockets(), door.trust(), self.trace.directory.inner())?;
        self.note_samples();
        self.write_metadata()?;
        self.attach(&mut door)?;
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
            let ready = self.wait(&door, &desk, signals, &end)?;
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
            desk.serve(|ticket, request, beside| self.requested(ticket, request, beside));
            self.late.drain(..).for_each(|(ticket, answer)| desk.answer(ticket, &answer));
            self.look_around();
        }
        let duration_ns = self.began.elapsed().as_nanos() as u64;
        self.look_at_owners(usize::MAX);
        self.look_for_awaited(true);
        self.end_kernel();
        self.end_latency();
        self.count_unready();
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
        let failed = self.session.shared.failure().is_some();
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
        end.alone(Instant::now(), door.is_deserted() && self.hall.is_empty() && !self.pressed)
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

    /// Sleeps until something happens or the next tick. Returns the descriptors that can be read.
    fn wait(&self, door: &Door, desk: &Desk, signals: &Signals, end: &End) -> Result<HashSet<i32>, Error> {
        let ours = door.polled().chain([signals.fd().as_raw_fd()]);
        let readable = ours.chain(self.peers.iter().map(Peer::raw));
        let readable = readable.map(|fd| libc::pollfd { fd, events: libc::POLLIN, revents: 0 });
        let mut polled: Vec<libc::pollfd> = readable.chain(desk.polled()).collect();
        let soon = self.kernel.as_ref().is_some_and(Kernel::snapshots_slow);
        let tick = if soon { TICK_SOON } else { TICK };
        let left =
            self.options.duration.map_or(tick, |duration| duration.saturating_sub(self.began.elapsed()));
        let left = if end.is_last_round() || !self.hall.is_empty() { Duration::ZERO } else { left.min(tick) };
        match mote_sys::socket::wait_any(&mut polled, left.as_millis() as i32) {
            Ok(_) | Err(mote_sys::Errno(libc::EINTR)) => {}
            Err(why) => return Err(Error::Session { what: "wait for processes", why }),
        }
        Ok(polled.into_iter().filter(|polled| polled.revents != 0).map(|polled| polled.fd).collect())
    }

    pub(crate) fn greet(&mut self, peer: &mut Peer, hello: mote_wire::Hello) {
        let maps = collect::maps(peer.pid.unsigned_abs());
        if !self.give_rings(peer, hello.how) {
            return;
        }
        self.note_owner(peer);
        self.awaited.came(peer.pid);
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
            how: how(hello.how).to_owned(),
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
        if hello.how.is_child() {
            // It has inherited its filters, which may have changed since.
            self.send_filters(peer);
            self.forward(peer);
        }
        if hello.how != How::Library || !process.maps.is_empty() {
            self.build_ids.fill(peer.pid.unsigned_abs(), &mut process.maps);
            self.note(&Fact::Process(process));
        }
    }

    /// Gives a process its rings, if it waits for some. False when it does not get any.
    fn give_rings(&mut self, peer: &mut Peer, how: How) -> bool {
        let principal = Principal::of(peer.pid, peer.uid);
        if !how.wants_rings() {
            if how == How::Fork {
                self.join_again(peer, principal);
            }
            return true;
        }
        let Some(rings) = self.session.groups.join(principal, peer.pid) else {
            peer.refuse(Refusal::Memory);
            // Of one that has ended meanwhile it cannot be said any more whose it was, and nothing of it is missing.
            if !peer.has_hung_up() {
                let text = format!(
                    "process {} is not recorded: all memory for buffers is taken by other processes; give larger --buffers",
                    peer.pid
                );
                self.problem_of(Kind::Memory, peer.pid, text);
                self.missing += 1;
            }
            return false;
        };
        peer.group = Some(rings.group);
        // Who has just come gets maps with the first filters.
        let maps = if how.is_child() { self.maps_of(rings.group) } else { None };
        // One that cannot be answered has died at once: nothing of it is missing.
        peer.welcome(rings.whose, &rings.channel, maps)
    }

    /// The maps of a group's processes, once there are filters.
    fn maps_of(&mut self, group: u64) -> Option<&Fd> {
        // When there is no memory for them that is told with the filters.
        self.filters.has_bundle().then(|| self.session.areas.of(group).ok()).flatten().map(Area::memfd)
    }

    /// A child goes on in its parent's rings, if these are to be used.
    fn join_again(&mut self, peer: &mut Peer, principal: Principal) {
        peer.group = self.session.groups.join_again(principal, peer.pid);
        if peer.group.is_none()
            && let Some(rings) = self.session.groups.join_others(principal, peer.pid)
        {
            peer.group = Some(rings.group);
            peer.renew(&rings.channel, self.maps_of(rings.group));
        }
    }

    /// Gives the processes of a group whose rings a process has damaged rings of their own: those that listen; the others when they do.
    fn retire(&mut self, group: u64) {
        if !self.session.groups.retire(group) {
            return;
        }
        let mut peers = std::mem::take(&mut self.peers);
        let of_group = peers.iter_mut().filter(|peer| peer.group == Some(group) && peer.listens());
        of_group.for_each(|peer| self.part(peer));
        self.peers = peers;
        self.problem(
            "buffers that processes of one user share were damaged by one of them; each has buffers of its own from now on"
                .to_owned(),
        );
    }

    /// Gives a process rings of its own instead of those of its group, if these are not used any more.
    pub(crate) fn part(&mut self, peer: &mut Peer) {
        let Some(group) = peer.group.filter(|group| self.session.groups.is_retired(*group)) else { return };
        let rings = self.session.groups.join(Principal::alone(peer.pid), peer.pid);
        match rings {
            Some(rings) if peer.renew(&rings.channel, self.maps_of(rings.group)) => {
                peer.group = Some(rings.group);
                self.session.groups.leave(group, peer.pid);
            }
            rings => {
                rings.into_iter().for_each(|rings| self.session.groups.leave(rings.group, peer.pid));
                self.missing(peer, "cannot be given other buffers than those that were damaged".to_owned());
            }
        }
    }

    /// Events of a process are missing, nobody knows how many.
    pub(crate) fn missing(&mut self, peer: &Peer, why: String) {
        self.missing += 1;
        self.problem_of(Kind::Missing, peer.pid, format!("process {} is not recorded: it {why}", peer.pid));
    }

    /// At the end: processes that were let in and never came to record anything.
    pub(crate) fn count_unready(&mut self) {
        let peers = std::mem::take(&mut self.peers);
        for peer in peers.iter().filter(|peer| peer.is_unready() && peer.goes_on) {
            self.missing(peer, "was let in, and did not become ready until the end".to_owned());
        }
        self.peers = peers;
    }

    pub(crate) fn ready(&mut self, peer: &Peer, ready: Ready) {
        if ready.late_ms > 0 {
            self.missing += 1;
            let text = format!(
                "process {} was let in {} s late: events from before are missing; the recorder was busy or stopped, or the process had no descriptors left (ulimit -n)",
                peer.pid,
                f64::from(ready.late_ms) / 1e3
            );
            self.problem_of(Kind::Missing, peer.pid, text);
        }
        if ready.failed > 0 {
            let why = match ready.errno {
                0 => "their code could not be patched safely".to_owned(),
                errno => mote_sys::Errno(errno as i32).to_string(),
            };
            self.problem_of(
                Kind::Sites,
                peer.pid,
                format!(
                    "{} of {} event sites of process {} could not be switched on: {why}; \
                 run `mote doctor`, or build with the feature tested-byte",
                    ready.failed, ready.sites, peer.pid
                ),
            );
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

    pub(crate) fn gone(&mut self, peer: &Peer) {
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
        self.look_at_some_owners();
        self.look_at_directories();
        self.look_at_agents();
        if self.note_samples() {
            // The line through the clock is better known: what is there is right even if we are killed.
            self.renew_metadata();
        }
        self.note_mapped();
        self.publish_if_asked();
        self.look_at_latency();
        self.hear_consumer();
        self.answer_old_figures();
        self.session.groups.prepare();
        self.show_aggregates();
        let now = self.figures();
        self.watch.progress(&Progress {
            events: now.events,
            bytes: now.bytes,
            lost: now.lost,
            lost_unknown: now.unknown,
            processes: self.peers.iter().filter(|peer| peer.is_process()).count(),
        });
    }

    /// What has come of both traces so far.
    pub(crate) fn figures(&self) -> Figures {
        let kernel = self.kernel.as_ref().map(|kernel| kernel.trace.flow.figures());
        self.figures_of_processes() + kernel.unwrap_or_default()
    }

    /// What has come of the processes' trace so far.
    pub(crate) fn figures_of_processes(&self) -> Figures {
        self.trace.flow.figures() + Figures { unknown: self.missing, ..Figures::default() }
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
                Notice::Damage(text) => self.problem_of(Kind::Damage, 0, text),
                Notice::Damaged(groups) => groups.into_iter().for_each(|group| self.retire(group)),
                Notice::Ended(groups) => {
                    self.session.groups.ended(&groups);
                    self.session.areas.end(&groups);
                }
                Notice::Snapshot(snapshot, parts) => self.complete_snapshot(&snapshot, &parts),
                Notice::NoSnapshot(number, why) => self.answer_snapshots(number, Err(why)),
                Notice::Figures(number) => self.answer_figures(number),
            }
        }
    }

    /// Asks all processes to switch off, and waits a little until they have.
    fn say_goodbye(&mut self, door: &Door) {
        for peer in &mut self.peers {
            let _ = peer.stop();
            peer.let_be();
        }
        for _ in 0..GOODBYE {
            self.shares.begin_turn();
            door.entrances().for_each(|entrance| drop(self.hall.take(entrance)));
            for uid in self.hall.users() {
                while let Some(Caller { guard, letter, .. }) = self.hall.next(uid) {
                    let peer = letter.socket.and_then(|it| Peer::new(it, letter.sender, guard).ok());
                    peer.map(|peer| peer.refuse(Refusal::Ending));
                }
            }
            self.talk(|_| true);
            if !self.peers.iter().any(Peer::can_leave) {
                break;
            }
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// What the trace of the processes came to.
    pub(crate) fn summary(&self, consumed: &Consumed, duration_ns: u64) -> Summary {
        let own = self.trace.summary(consumed, duration_ns);
        Summary {
            processes: self.maps.len() as u32,
            threads: self.threads.len() as u32,
            stopped: self.session.shared.failure().cloned(),
            lost_unknown: own.lost_unknown + self.missing,
            ..own
        }
    }
}

/// How a process came, as the journal says it.
fn how(how: How) -> &'static str {
    match how {
        How::Start => "start",
        How::Fork | How::Apart => "fork",
        How::Library => "library",
        How::Attach => "attach",
    }
}
