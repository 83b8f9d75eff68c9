//! The recorder's event loop: processes come, announce events, and go.

use crate::area::Area;
use crate::attached::Attached;
use crate::awaited::Awaited;
use crate::command::{Command, Signals};
use crate::consumer::{Notice, Shared};
use crate::control::Answer;
use crate::cooperate::Cooperation;
use crate::desk::{Desk, Ticket};
use crate::directory::Directory;
use crate::door::Door;
use crate::ending::End;
use crate::entrance::Letter;
use crate::error::Error;
use crate::filters::Filters;
use crate::flow::Figures;
use crate::groups::Groups;
use crate::hall::{Caller, Hall};
use crate::join::Forward;
use crate::kernel::{self, Kernel};
use crate::options::Options;
use crate::owner::Owner;
use crate::peer::{Peer, Said};
use crate::principal::Principal;
use crate::problems::{Kind, Problems};
use crate::process;
use crate::record::{Progress, Watch};
use crate::samples::{self, Samples};
use crate::shares::Shares;
use crate::snapshot::Snapshot;
use crate::tap::Consumed;
use crate::trace::Trace;
use crate::trust::Trust;
use mote_clock::Source;
use mote_journal::{Fact, Process, Summary};
use mote_symbol::collect::{self, BuildIds};
use mote_wire::{How, Ready, Reason, Refusal};
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
/// Messages of one sender that are served before it is the turn of the others: nobody can keep the loop busy.
const ROUND: usize = 64;

/// What a recording works on.
pub(crate) struct Session<'r> {
    /// Who shares rings with whom.
    pub(crate) groups: Groups<'r>,
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
    /// Who has said hello and was not let in yet.
    pub(crate) hall: Hall,
    /// Somebody has more to say than there was time for.
    pressed: bool,
    /// What each user may take.
    pub(crate) shares: Shares,
    /// Answers to requests that could not be answered at once.
    pub(crate) late: Vec<(Ticket, Answer)>,
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
            hall: Hall::default(),
            pressed: false,
            shares: Shares::new(Trust::find().own()),
            late: Vec::new(),
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

    /// Sleeps until something happens or the next tick. Answers the descriptors that can be read.
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

    /// Lets in who stands at the door, and may come in.
    fn admit(&mut self, door: &Door) {
        self.shares.begin_turn();
        for entrance in door.entrances() {
            for uid in self.hall.take(entrance) {
                let text = format!("processes of user {uid} were not let in: too many came at once");
                self.problem_of(Kind::Door, 0, text);
            }
            for _ in 0..ROUND {
                let Some((socket, who)) = entrance.accept() else { break };
                let room = self.shares.admit(who.uid, &self.peers);
                match room.and_then(|()| Peer::new(socket, who, entrance.guard())) {
                    Ok(peer) => self.peers.push(peer),
                    Err(why) => {
                        self.problem_of(Kind::Door, who.pid, format!("a process was not let in: {why}"));
                    }
                }
            }
        }
        for uid in self.hall.users() {
            while self.shares.has_time(uid) {
                let began = Instant::now();
                let Some(caller) = self.hall.next(uid) else { break };
                let pid = caller.letter.sender.pid;
                if let Err(why) = self.let_in(caller) {
                    self.problem_of(Kind::Door, pid, format!("a process was not let in: {why}"));
                }
                self.shares.spend(uid, began);
            }
        }
    }

    /// Lets in who has put a letter into the mailbox.
    fn let_in(&mut self, Caller { guard, bytes, letter }: Caller) -> Result<(), String> {
        let Letter { sender, socket, .. } = letter;
        let pid = sender.pid;
        let nonsense = |what: &str| format!("process {pid} said nonsense at the door: {what}");
        let socket = socket.ok_or_else(|| nonsense("it has sent no socket"))?;
        let mut peer = Peer::new(socket, sender, guard)?;
        self.shares.admit(sender.uid, &self.peers)?;
        match peer.understand(&bytes, sender, &mut self.trace, 0) {
            Said::Hello(hello) => {
                self.greet(&mut peer, hello);
                self.peers.push(peer);
                Ok(())
            }
            Said::Nonsense(why) => Err(nonsense(&why)),
            _ => Err(nonsense("a message out of turn")),
        }
    }

    fn greet(&mut self, peer: &mut Peer, hello: mote_wire::Hello) {
        let maps = collect::maps(peer.pid.unsigned_abs());
        if !self.give_rings(peer, hello.how) {
            return;
        }
        self.note_owner(peer);
        self.awaited.came(peer.pid);
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
            self.problem(format!(
                "process {} is not recorded: all memory for buffers is taken by other processes; give larger --buffers",
                peer.pid
            ));
            self.missing += 1;
            return false;
        };
        peer.group = Some(rings.group);
        // One that cannot be answered has died at once: nothing of it is missing.
        peer.welcome(rings.whose, &rings.channel)
    }

    /// A child goes on in its parent's rings, if these are to be used.
    fn join_again(&mut self, peer: &mut Peer, principal: Principal) {
        peer.group = self.session.groups.join_again(principal);
        if peer.group.is_none()
            && let Some(rings) = self.session.groups.join_others(principal, peer.pid)
        {
            peer.group = Some(rings.group);
            peer.renew(&rings.channel);
        }
    }

    /// Gives the processes of a group whose rings a process has damaged rings of their own.
    fn retire(&mut self, group: u64) {
        if !self.session.groups.retire(group) {
            return;
        }
        let mut peers = std::mem::take(&mut self.peers);
        let mut moved = 0;
        for peer in peers.iter_mut().filter(|peer| peer.group == Some(group)) {
            let rings = self.session.groups.join(Principal::alone(peer.pid), peer.pid);
            if rings.as_ref().is_some_and(|rings| peer.renew(&rings.channel)) {
                moved += 1;
                peer.group = rings.map(|rings| rings.group);
                self.session.groups.leave(group);
            } else {
                rings.into_iter().for_each(|rings| self.session.groups.leave(rings.group));
                self.missing(peer, "cannot be given other buffers than those that were damaged".to_owned());
            }
        }
        self.peers = peers;
        self.problem(format!(
            "buffers that processes of one user share were damaged by one of them; its {moved} processes have buffers of their own from now on"
        ));
    }

    /// Serves what has arrived from those peers that may have something to say. New events are in journal and metadata
    /// before anyone is told their ids.
    fn talk(&mut self, may_speak: impl Fn(&Peer) -> bool) {
        let mut peers = std::mem::take(&mut self.peers);
        let mut new = Vec::new();
        let mut passed_over = None;
        peers.retain_mut(|peer| {
            if may_speak(peer) && !self.shares.has_time(peer.uid) {
                passed_over.get_or_insert(peer.raw());
                return true;
            }
            let stays = !Shares::is_silent(peer) && (!may_speak(peer) || self.talk_to(peer, &mut new));
            if !stays {
                peer.group.take().into_iter().for_each(|group| self.session.groups.leave(group));
            }
            stays
        });
        // Whose turn it was not is the first next time.
        let first = peers.iter().position(|peer| Some(peer.raw()) == passed_over);
        peers.rotate_left(first.unwrap_or(0));
        self.pressed = passed_over.is_some();
        self.decide(&mut new);
        self.learn(&new);
        self.answer(&mut peers);
        self.peers.append(&mut peers);
        self.serve_shares();
    }

    /// Serves one peer's messages, while its user has time; false when it has gone.
    fn talk_to(&mut self, peer: &mut Peer, learned: &mut Vec<u32>) -> bool {
        for _ in 0..ROUND {
            let (began, uid) = (Instant::now(), peer.uid);
            if !self.shares.has_time(uid) {
                break;
            }
            let Some(said) = peer.serve(&mut self.trace, self.shares.events_left(uid)) else { break };
            let stays = self.heard(peer, said, learned);
            self.shares.spend(uid, began);
            if !stays {
                return false;
            }
        }
        true
    }

    /// Does what a message asks for; false when the peer has gone.
    fn heard(&mut self, peer: &mut Peer, said: Said, learned: &mut Vec<u32>) -> bool {
        match said {
            Said::Hello(hello) => self.greet(peer, hello),
            Said::Events { new, ids, wrong } => {
                self.shares.take_events(peer.uid, new.len());
                learned.extend(new);
                peer.answer = Some(ids);
                if let Some(why) = wrong {
                    let text = format!("an event of process {} cannot be recorded: {why}", peer.pid);
                    self.problem_of(Kind::Event, peer.pid, text);
                }
            }
            Said::Installed { interpreted, refused, why } => {
                self.installed(peer, interpreted, refused, &why);
            }
            Said::Wish(wish) => peer.wish = Some(wish),
            Said::Keeper => {}
            Said::Ready(ready) => {
                self.ready(peer, ready);
                self.forward(peer);
            }
            Said::Renewed | Said::GoesOn => {}
            Said::Declined(why) => self.declined(peer, why),
            Said::Failed(why) => {
                self.missing(peer, format!("cannot join: {why}{}", unready_hint(why)));
                return false;
            }
            Said::Gone => {
                // Of one that has ended in the middle of the conversation nothing is missing.
                if peer.is_unready() && (peer.goes_on || process::runs(peer.pid)) {
                    self.missing(peer, "has hung up before it was ready".to_owned());
                }
                self.gone(peer);
                return false;
            }
            Said::Nonsense(why) => {
                let text = format!("process {} was sent away: {why}", peer.pid);
                self.problem_of(Kind::Conversation, peer.pid, text);
                return false;
            }
        }
        true
    }

    pub(crate) fn renew_metadata(&mut self) {
        if let Err(why) = self.write_metadata() {
            self.look_at_directories();
            if self.session.shared.failure().is_some() {
                return;
            }
            self.problem(format!("{why}; recording stops, what was written before is whole"));
            self.session.shared.fail(why.to_string());
        }
    }

    /// Events of a process are missing, nobody knows how many.
    fn missing(&mut self, peer: &Peer, why: String) {
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

    fn ready(&mut self, peer: &Peer, ready: Ready) {
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

    fn declined(&mut self, peer: &Peer, why: Reason) {
        let pid = peer.pid;
        self.problem_of(Kind::Declined, pid, match why {
            Reason::Full => format!(
                "process {pid} is not recorded: it is in {} other recordings, and more are not possible; end one of them",
                mote_wire::SESSIONS_MAX
            ),
            Reason::Stranger => format!(
                "process {pid} is not recorded: it does not believe this recorder, whose user has no number in its user namespace; run `mote record` inside of that"
            ),
        });
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
        self.session.groups.prepare();
        self.show_aggregates();
        let now = self.figures();
        self.watch.progress(&Progress {
            events: now.events,
            bytes: now.bytes,
            lost: now.lost,
            processes: self.peers.iter().filter(|peer| peer.is_process()).count(),
        });
    }

    /// Stops when a directory of the recording was removed.
    fn look_at_directories(&mut self) {
        let shared = self.session.shared;
        let kernel = self.kernel.as_ref().map(|kernel| &kernel.trace.directory);
        let removed =
            [Some(&self.trace.directory), kernel].into_iter().flatten().find_map(Directory::removed);
        if let Some(path) = removed.filter(|_| shared.failure().is_none()) {
            let text = format!("{} was removed while it was recorded", path.display());
            self.problem(format!("{text}; recording stops"));
            shared.fail(text);
        }
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
                Notice::Damaged(groups) => groups.into_iter().for_each(|group| self.retire(group)),
                Notice::Ended(groups) => self.session.groups.ended(&groups),
                Notice::Snapshot(snapshot, parts) => self.complete_snapshot(&snapshot, &parts),
            }
        }
    }

    /// Gives a snapshot what makes it a recording.
    fn complete_snapshot(&mut self, Snapshot { path, folder }: &Snapshot, parts: &[Consumed]) {
        parts.iter().flat_map(|part| &part.totals.problems).for_each(|text| self.problem(text.clone()));
        let duration_ns = self.began.elapsed().as_nanos() as u64;
        let mut completed = Ok(());
        let mut problem = None;
        if let Some(own) = parts.first() {
            let end = Fact::End(self.summary(own, duration_ns));
            completed = self.trace.directory.complete(folder, &end);
        }
        if let (Some(kernel), Some(part)) = (&self.kernel, parts.get(1)) {
            let mut part = part.clone();
            completed = completed.and_then(|()| {
                let inside = folder.open(kernel::DIRECTORY)?;
                match kernel.add_slow(&inside) {
                    Ok(count) => part.totals.count(kernel.slow_id().unwrap_or(0), count),
                    Err(why) => {
                        problem = Some(format!("slow system calls are missing in {}: {why}", path.display()))
                    }
                }
                kernel.trace.directory.complete(&inside, &Fact::End(kernel.summary(&part, duration_ns)))
            });
        }
        match completed {
            Ok(()) => {
                self.owner.keep(folder);
                self.watch.say(&format!("snapshot written: {}", path.display()));
            }
            Err(why) => problem = Some(format!("cannot finish snapshot {}: {why}", path.display())),
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
        let own = self.trace.summary(consumed, duration_ns);
        Summary {
            processes: self.maps.len() as u32,
            threads: self.threads.len() as u32,
            stopped: self.session.shared.failure().cloned(),
            lost_unknown: own.lost_unknown + self.missing,
            ..own
        }
    }

    /// Tells of a problem of the recorder itself.
    pub(crate) fn problem(&mut self, text: String) {
        self.problem_of(Kind::Recorder, 0, text);
    }

    /// Tells of a problem that a process has made, or has; one that makes too many is told no more of that kind.
    pub(crate) fn problem_of(&mut self, kind: Kind, pid: i32, text: String) {
        if self.problems.take(kind, pid, &text) {
            self.tell_problem(text);
        }
    }

    /// Says how many more problems there were than were told.
    pub(crate) fn tell_more_problems(&mut self) {
        self.problems.more().into_iter().for_each(|text| self.tell_problem(text));
    }

    fn tell_problem(&mut self, text: String) {
        self.watch.problem(&text);
        let fact = Fact::Problem { at: self.session.source.ticks(), text };
        let _ = self.trace.directory.note(&fact);
    }
}

/// What to do about a process that cannot join.
fn unready_hint(why: mote_sys::Errno) -> &'static str {
    match why.0 {
        libc::ENOMEM => "; its address space is limited (ulimit -v): give smaller --buffers",
        libc::EMFILE => "; it has too few descriptors (ulimit -n)",
        _ => "",
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
