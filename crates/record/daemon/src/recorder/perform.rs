//! What the session wants done.

use super::Recorder;
use super::post::Post;
use crate::consumer::Change as ForConsumer;
use crate::consumer::walk::Steps;
use crate::control::Answer;
use crate::process;
use crate::registration::connection::Connection;
use crate::registration::principal;
use mote_journal::{Fact, Process};
use mote_session::{Action, Change, Input, KernelChange, Letter, PeerId, Seen};
use mote_symbol::collect;
use mote_wire::{How, Message};
use std::sync::atomic::Ordering;

impl Recorder<'_> {
    /// Tells the session what has happened, and does what it wants done for that.
    pub(crate) fn take(&mut self, input: Input<'_>) {
        let now = self.clock.now();
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
                let made = self.memory.make_rings(make);
                self.take(Input::Rings { group: make.group, made });
            }
            Action::PrepareRings(sizes) => {
                if !self.memory.prepare_rings(sizes) {
                    self.take(Input::NotAhead);
                }
            }
            Action::Rings(Change::Left(group)) => self.consumer.shared.change(ForConsumer::Left(group)),
            Action::Rings(Change::Evict(group)) => self.consumer.shared.change(ForConsumer::Evict(group)),
            Action::DropRings(group) => self.memory.drop_group(group, self.session.layout()),
            Action::Send(peer, letter) => self.post(peer, &letter),
            Action::Close(peer) => self.peers.close(peer),
            Action::Admitted { peer, pid, is_process } => self.admitted(peer, pid, is_process),
            Action::Left { peer, pid } => {
                self.kernel.leave(&mut self.peers, peer);
                self.consumer.shared.left(pid);
            }
            Action::Cooperate(peer) => self.kernel.cooperate(&mut self.peers, peer),
            Action::Share { peer, name, words, each_thread } => {
                self.kernel.share(&mut self.peers, peer, (&name, words, each_thread));
            }
            Action::GiveCounts { peer, number } => self.give_counts(peer, number),
            Action::Keep(peer) => self.peers.get_mut(peer).into_iter().for_each(Connection::keep),
            Action::Listens(peer) => {
                let connection = self.peers.get_mut(peer);
                connection.into_iter().for_each(|connection| connection.sandbox.listens());
            }
            Action::KnowEvent(id) => self.know_event(id),
            Action::PublishEvents(new) => self.publish_events(&new),
            Action::Note(fact) => self.note(&fact),
            Action::NoteProcess { pid, process } => self.note_process(pid, process),
            Action::Bundle { bytes, .. } => self.keep_bundle(&bytes),
            Action::MakeWords => {
                let made = self.kernel.cooperation.session_area.fd().map(drop).map_err(|why| why.to_string());
                self.take(Input::Words(made));
            }
            Action::PassOn(number) => {
                self.subjects.command.iter_mut().for_each(|command| command.pass_on_number(number));
            }
            Action::End => self.outcome.is_over = true,
            Action::ReadToEnd => {
                self.ways_in = None;
                self.consumer.stop();
            }
            Action::WriteEnd => self.write_end(),
            Action::Finish => self.finish(),
            Action::Speculate => self.consumer.shared.speculates.store(true, Ordering::Release),
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
            Action::BeginCooperation => {
                let problem = self.kernel.begin_cooperation(self.session.filters().asks_kernel());
                problem.into_iter().for_each(|why| self.problem(why));
            }
            Action::AskSnapshot(ticket) => {
                let number = self.consumer.shared.snapshots.ask();
                self.take(Input::Asked { ticket, number });
            }
            Action::AskFigures(ticket) => {
                let number = self.consumer.shared.figures.ask();
                self.take(Input::Asked { ticket, number });
            }
            Action::DropMailbox(mailbox) => self.requests.drop_mailbox(mailbox),
            Action::Answer { ticket, done, text } => self.requests.answer(ticket, Answer { done, text }),
            Action::AnswerStatus { ticket, remark } => {
                let columns = self.requests.columns(ticket);
                let text = self.status(columns) + remark;
                self.requests.answer(ticket, Answer { done: true, text });
            }
            Action::Say(text) => self.screen.say(&text),
            Action::Report(text) => {
                self.screen.watch.problem(&text);
                let fact = Fact::Problem { at: self.clock.source.ticks(), text };
                let _ = self.output.note(&fact);
            }
            other => debug_assert!(false, "{other:?} is of processes"),
        }
    }

    /// Gives a process memory for the counts of a plan, or says that there is none.
    fn give_counts(&mut self, peer: PeerId, number: u64) {
        let made = self.subjects.counts().find_map(|counts| counts.make(number));
        let memory = match made {
            Some(Ok(memory)) => Some(memory),
            Some(Err(why)) => {
                let pid = self.peers.get(peer).map_or(0, |connection| connection.pid);
                self.problem(format!("calls of process {pid} are not counted: no memory for that: {why}"));
                None
            }
            None => None,
        };
        // One that does not listen is not waited for; its calls are in memory of its own.
        let _ = self.peers.send(peer, &Message::Counts, memory.as_slice());
    }

    /// Finds out what the kernel says of a process that has said hello.
    fn look_at(&mut self, peer: PeerId, (pid, uid): (i32, u32), how: How, said: u32) {
        let Some(connection) = self.peers.get_mut(peer) else { return };
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
        let Some(connection) = self.peers.get_mut(peer) else { return };
        connection.is_process = is_process;
        let (pid, uid) = (connection.pid, connection.uid);
        self.output.owner.came(pid, uid);
        self.subjects.came(pid);
        if is_process {
            self.consumer.shared.came(said, pid == said as i32);
        }
    }

    fn know_event(&mut self, id: u32) {
        let steps = self.session.events().description(id).map(|event| Steps::of(&event)).unwrap_or_default();
        let has_stacks = self.options.stack > 0;
        self.output.trace.state.add_event(if has_stacks { steps.behind_stack() } else { steps });
    }

    /// Puts new events into journal and metadata, before any process can record them.
    fn publish_events(&mut self, new: &[u32]) {
        let noted = self.output.trace.note_events(self.session.events(), new);
        self.check_journal(noted);
        self.renew_metadata();
    }

    fn note_process(&mut self, pid: i32, process: Process) {
        let noted = self.output.note_process(pid, process);
        self.check_journal(noted);
    }

    fn keep_bundle(&mut self, bytes: &[u8]) {
        if let Err(why) = self.memory.keep_bundle(bytes) {
            self.problem(why);
        }
    }

    /// Sends a letter, and tells the session what came of it, if it wants to know.
    fn post(&mut self, peer: PeerId, letter: &Letter) {
        let Recorder { peers, memory, requests, session, options, .. } = self;
        let stack = options.stack;
        let done = Post { peers, memory, requests, layout: session.layout(), stack }.deliver(peer, letter);
        if let Some(receipt) = letter.receipt() {
            self.take(Input::Sent { peer, receipt, done });
        }
    }
}
