//! One round of the event loop.

use super::Recorder;
use crate::control::server::Server;
use crate::output::owner::LOOKS;
use crate::registration::listeners::Listeners;
use crate::watch::Progress;
use mote_session::Input;
use std::collections::HashSet;
use std::time::Duration;

/// How often the loop looks around when nothing happens.
pub(crate) const TICK: Duration = Duration::from_millis(100);
/// The same when what happened is to be written down before it is overwritten.
pub(crate) const TICK_SOON: Duration = Duration::from_millis(10);
/// How long processes have to switch off at the end: looks, a millisecond apart. When the whole machine stood still,
/// they have had no more time than we.
const GOODBYE: u32 = 500;

impl Recorder<'_> {
    /// Serves what has arrived: connections and messages of processes, requests, what the consumer has noticed, the
    /// clock.
    pub(crate) fn serve(&mut self, listeners: &Listeners, server: &mut Server, ready: &HashSet<i32>) {
        self.admit(listeners);
        self.talk(Some(ready));
        for (ticket, request) in self.requests.read(server) {
            self.take(Input::Request { ticket, request });
        }
        self.requests.give(server);
        self.look_around();
        self.requests.give(server);
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
        let noted = self.kernel.note_mapped();
        self.check_journal(noted);
        let remarks = self.kernel.publish_if_asked();
        self.tell(remarks);
        self.look_at_slow_calls();
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

    /// Asks all processes to switch off, and waits a little until they have.
    pub(crate) fn say_goodbye(&mut self, listeners: &Listeners) {
        self.take(Input::Ending);
        self.peers.let_be();
        for _ in 0..GOODBYE {
            self.peers.begin_round();
            self.peers.send_away(listeners);
            self.talk(None);
            if !self.peers.can_leave() {
                break;
            }
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}
