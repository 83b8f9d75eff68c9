//! One round of the event loop.

use super::Recorder;
use super::sampled::Sampled;
use super::ways_in::WaysIn;
use crate::control::Answer;
use crate::error::Error;
use crate::functions::{Functions, Given};
use crate::kernel::Kernel;
use crate::output::owner::LOOKS;
use crate::registration::listeners::Listeners;
use crate::watch::Progress;
use mote_session::{Input, Outlook, PeerId, Stage};
use std::collections::{BTreeSet, HashSet};
use std::time::Duration;

/// How often the loop looks around when nothing happens.
const TICK: Duration = Duration::from_millis(100);
/// The same when what happened is to be written down before it is overwritten, or the command is about to end.
const TICK_SOON: Duration = Duration::from_millis(10);
/// The same when processes are about to leave.
const TICK_LEAVING: Duration = Duration::from_millis(1);

impl Recorder<'_> {
    /// Serves what has arrived: connections and messages of processes, requests, what the consumer has noticed, the
    /// clock. Then looks ahead: it may be that the recording is over.
    pub(crate) fn serve(&mut self, ready: &HashSet<i32>) {
        let Some(WaysIn { mut server, mut listeners }) = self.ways_in.take() else { return };
        self.admit(&listeners);
        self.talk(Some(ready));
        for (ticket, request) in self.requests.read(&mut server) {
            let functions = self.requests.functions(ticket);
            match self.probe_more(&mut listeners, &functions) {
                Ok(()) => self.take(Input::Request { ticket, request }),
                Err(why) => self.requests.answer(ticket, Answer { done: false, text: why.to_string() }),
            }
        }
        self.requests.give(&mut server);
        if let Err(why) = self.subjects.probe_later(&mut listeners) {
            self.problem(format!("libraries that were loaded since have no probes: {why}"));
        }
        self.look_around();
        self.requests.give(&mut server);
        let is_deserted = listeners.is_deserted();
        self.ways_in = Some(WaysIn { server, listeners });
        self.look_ahead(is_deserted);
    }

    /// Looks whether the recording is over. No process can come any more when the mailbox is deserted, and empty.
    fn look_ahead(&mut self, is_deserted: bool) {
        let command = self.subjects.command_state();
        let (attached, remarks) = self.subjects.are_gone(&self.options);
        self.tell(remarks);
        let timed_out = self.options.duration.is_some_and(|duration| self.clock.whole_for() >= duration);
        let is_cut = timed_out || self.consumer.shared.failure().is_some();
        let is_deserted = is_deserted && self.peers.is_at_rest();
        let threads = self.kernel.get().map_or(0, Kernel::left);
        self.take(Input::Outlook(Outlook { command, is_cut, is_deserted, threads, attached }));
        if self.outcome.is_over {
            self.begin_to_end();
        }
    }

    /// Puts probes into more functions of all processes that are recorded. What comes of it is said as it comes. Those
    /// that were asked for before are put only where they could not be: the rules alone say whether they are on.
    ///
    /// # Errors
    /// [`Error::Functions`]; there is no thread.
    fn probe_more(
        &mut self,
        listeners: &mut Listeners,
        (patterns, under): &(Vec<String>, Vec<String>),
    ) -> Result<(), Error> {
        let functions = match self.subjects.asked_before(patterns, under) {
            Some(functions) => functions,
            None => {
                let (hz, source) = (self.clock.samples.frequency(), self.clock.source());
                let given = Given { patterns, under, asked: &[] };
                let functions = Functions::of(given, &self.options, source, hz)?;
                let Some(functions) = functions else { return Ok(()) };
                self.options.functions.extend_from_slice(patterns);
                functions
            }
        };
        let connected = self.peers.from(PeerId(0)).map(|(_, connection)| connection.pid);
        let connected: BTreeSet<i32> = connected.collect();
        self.subjects.probe_more(listeners, &functions, connected)
    }

    /// How long to wait for something to serve.
    pub(crate) fn patience(&self) -> Duration {
        match self.session.stage() {
            Stage::Records => {}
            Stage::Leaving(..) | Stage::Reading => return TICK_LEAVING,
            Stage::Waiting(_) => return TICK_SOON,
            Stage::Ended => return TICK,
        }
        if self.session.is_last_round() || self.peers.has_waiting() {
            return Duration::ZERO;
        }
        let soon = self.kernel.get().is_some_and(Kernel::snapshots_slow);
        let tick = if soon || self.sampled.is_some() { TICK_SOON } else { TICK };
        let tick = self.sampled.as_ref().and_then(Sampled::patience).map_or(tick, |left| left.min(tick));
        let left = |duration: Duration| duration.saturating_sub(self.clock.whole_for());
        self.options.duration.map_or(tick, |duration| left(duration).min(tick))
    }

    /// What is done in every round: clock, news from the consumer, progress.
    fn look_around(&mut self) {
        self.take(Input::Tick);
        self.clock.samples.tick();
        self.output.look_at_owners(&self.peers, LOOKS);
        self.look_at_directories();
        self.look_at_agents();
        if self.note_samples() {
            // The line through the clock is better known: what is there is right even if we are killed.
            self.renew_metadata();
        }
        let noted = self.kernel.note_mapped() & self.output.note_found(self.clock.now().ticks);
        self.check_journal(noted);
        let remarks = self.kernel.publish_if_asked();
        self.tell(remarks);
        self.look_at_slow_calls();
        self.look_at_profile();
        self.look_at_hardware();
        self.look_at_sampled();
        self.hear_consumer();
        if self.screen.is_due() {
            let all = self.aggregates();
            self.screen.show_aggregates(&all);
        }
        let now = self.figures();
        self.screen.watch.progress(&Progress {
            events: now.events,
            bytes: now.bytes,
            lost: now.lost,
            lost_unknown: now.unknown,
            processes: self.session.processes(),
        });
    }

    /// Tells of processes that have locked themselves in since.
    fn look_at_agents(&mut self) {
        for pid in self.peers.look(self.output.trace.state.is_without_clock()) {
            self.screen.say(&format!(
                "process {pid} has put all of its threads into a sandbox (seccomp): its rules can no longer change"
            ));
        }
    }
}
