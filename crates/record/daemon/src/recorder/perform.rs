//! What the session wants done.

use super::Recorder;
use crate::consumer::Change as ForConsumer;
use crate::consumer::walk::Steps;
use crate::control::Answer;
use crate::process;
use crate::registration::connection::Connection;
use crate::registration::principal;
use mote_journal::{Fact, Process};
use mote_session::{Action, Change, Input, KernelChange, Now, PeerId, Seen};
use mote_symbol::collect;
use mote_sys::fd;
use mote_sys::mem::sealed_memfd;
use mote_wire::How;
use std::sync::atomic::Ordering;
use std::time::Instant;

impl Recorder<'_> {
    pub(crate) fn now(&self) -> Now {
        Now { at: Instant::now(), ticks: self.source.ticks() }
    }

    /// Tells the session what has happened, and does what it wants done for that.
    pub(crate) fn take(&mut self, input: Input<'_>) {
        let now = self.now();
        self.session.take(input, now);
        self.perform();
    }

    /// Does what the session wants done. What comes of an action is taken in before the next one is done: within an
    /// action, new ones wait.
    pub(crate) fn perform(&mut self) {
        if std::mem::replace(&mut self.performs, true) {
            return;
        }
        while let Some(action) = self.session.next_action() {
            self.act(action);
        }
        self.performs = false;
    }

    fn act(&mut self, action: Action) {
        match action {
            Action::Look { peer, pid, uid, how, said } => self.look_at(peer, (pid, uid), how, said),
            Action::MakeRings(make) => {
                let made = self.rings.make(make);
                self.take(Input::Rings { group: make.group, made });
            }
            Action::PrepareRings(sizes) => {
                if !self.rings.prepare(sizes) {
                    self.take(Input::NotAhead);
                }
            }
            Action::Rings(Change::Left(group)) => self.shared.change(ForConsumer::Left(group)),
            Action::Rings(Change::Evict(group)) => self.shared.change(ForConsumer::Evict(group)),
            Action::DropRings(group) => {
                self.rings.forget(group);
                self.areas.end(group, self.session.layout());
            }
            Action::Send(peer, letter) => self.post(peer, &letter),
            Action::Close(peer) => drop(self.connections.remove(&peer)),
            Action::Admitted { peer, pid, is_process } => self.admitted(peer, pid, is_process),
            Action::Left { peer, pid } => {
                let area = self.connections.get_mut(&peer).and_then(|connection| connection.area.take());
                area.into_iter().for_each(|area| self.cooperation.leave(area));
                self.shared.left(pid);
            }
            Action::Cooperate(peer) => self.cooperate(peer),
            Action::Share { peer, name, words, each_thread } => self.share(peer, &name, words, each_thread),
            Action::Keep(peer) => self.connections.get_mut(&peer).into_iter().for_each(Connection::keep),
            Action::Listens(peer) => {
                self.connections
                    .get_mut(&peer)
                    .into_iter()
                    .for_each(|connection| connection.sandbox.listens());
            }
            Action::KnowEvent(id) => self.know_event(id),
            Action::PublishEvents(new) => self.publish_events(&new),
            Action::Note(fact) => self.note(&fact),
            Action::NoteProcess { pid, process } => self.note_process(pid, process),
            Action::Bundle { bytes, .. } => self.keep_bundle(&bytes),
            Action::MakeWords => {
                let made = self.cooperation.session_area.fd().map(drop).map_err(|why| why.to_string());
                self.take(Input::Words(made));
            }
            Action::PassOn(number) => {
                self.command.iter_mut().for_each(|command| command.pass_on_number(number));
            }
            Action::End => self.is_over = true,
            Action::Speculate => self.shared.speculates.store(true, Ordering::Release),
            other => self.act_on_requests(other),
        }
    }

    /// What requests, rules and signals want done.
    fn act_on_requests(&mut self, action: Action) {
        match action {
            Action::ChangeKernel { ticket, change } => {
                let done = match change {
                    KernelChange::Enable(rules) => self.enable_kernel(rules).map(|()| 0),
                    KernelChange::Disable(patterns) => self.disable_kernel(&patterns),
                };
                self.take(Input::KernelChanged { ticket, done });
            }
            Action::BeginCooperation => self.begin_cooperation(),
            Action::AskSnapshot(ticket) => {
                let number = self.shared.snapshots.ask();
                self.take(Input::Asked { ticket, number });
            }
            Action::AskFigures(ticket) => {
                let number = self.shared.figures.ask();
                self.take(Input::Asked { ticket, number });
            }
            Action::DropMailbox(mailbox) => drop(self.mailboxes.remove(&mailbox)),
            Action::Answer { ticket, done, text } => self.answers.push((ticket, Answer { done, text })),
            Action::AnswerStatus { ticket, remark } => {
                let text = self.status(ticket) + remark;
                self.answers.push((ticket, Answer { done: true, text }));
            }
            Action::Say(text) => self.watch.say(&text),
            Action::Report(text) => {
                self.watch.problem(&text);
                let fact = Fact::Problem { at: self.source.ticks(), text };
                let _ = self.trace.directory.note(&fact);
            }
            other => debug_assert!(false, "{other:?} is of processes"),
        }
    }

    /// Finds out what the kernel says of a process that has said hello.
    fn look_at(&mut self, peer: PeerId, (pid, uid): (i32, u32), how: How, said: u32) {
        let Some(connection) = self.connections.get_mut(&peer) else { return };
        (connection.pid, connection.uid) = (pid, uid);
        connection.sandbox.begin(pid, how);
        let ask = || process::proc_is_ours().then(|| process::own_id(pid.unsigned_abs())).flatten();
        let own_id = if said as i32 == pid { Some(said) } else { ask() };
        let (principal, alone) = (principal::of(pid, uid), principal::alone(pid));
        // After the principals: the executable is the first of these that a process loses when it ends.
        let exe = process::executable(pid);
        let has_ended = exe.is_empty() && pid > 0 && process::proc_is_ours() && !process::runs(pid);
        let maps = collect::maps(pid.unsigned_abs());
        let seen = Seen { has_ended, own_id, principal, alone, exe, maps };
        self.take(Input::Looked { peer, seen });
    }

    fn admitted(&mut self, peer: PeerId, said: u32, is_process: bool) {
        let Some(connection) = self.connections.get_mut(&peer) else { return };
        connection.is_process = is_process;
        let (pid, uid) = (connection.pid, connection.uid);
        self.note_owner(pid, uid);
        self.awaited.came(pid);
        self.attached.came(pid);
        if is_process {
            self.shared.came(said, pid == said as i32);
        }
    }

    fn know_event(&mut self, id: u32) {
        let steps = self.session.events().description(id).map(|event| Steps::of(&event));
        self.trace.state.add_event(steps.unwrap_or_default());
    }

    /// Puts new events into journal and metadata, before any process can record them.
    fn publish_events(&mut self, new: &[u32]) {
        let noted = self.trace.note_events(self.session.events(), new);
        self.check_journal(noted);
        self.renew_metadata();
    }

    fn note_process(&mut self, pid: i32, mut process: Process) {
        self.build_ids.fill(pid.unsigned_abs(), &mut process.maps);
        self.note(&Fact::Process(process));
    }

    /// Makes a file of the newest filters.
    fn keep_bundle(&mut self, bytes: &[u8]) {
        let made = sealed_memfd(c"mote-bundle", bytes.len() as u64);
        let made = made.and_then(|file| fd::write_at(&file, bytes, 0).map(|()| file));
        self.bundle = match made {
            Ok(file) => Some(file),
            Err(why) => {
                self.problem(format!("cannot make a file of filters: {why}"));
                None
            }
        };
    }
}
