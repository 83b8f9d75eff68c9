//! One round of the event loop.

use super::Recorder;
use crate::control::server::Server;
use crate::registration::connection::Connection;
use crate::registration::listeners::Listeners;
use crate::watch::Progress;
use mote_session::Input;
use mote_wire::{Message, Refusal};
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
        self.serve_requests(server);
        self.look_around();
        self.give_answers(server);
    }

    /// What is done in every round: clock, news from the consumer, progress.
    fn look_around(&mut self) {
        self.take(Input::Tick);
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
        self.look_at_slow_calls();
        self.hear_consumer();
        self.show_aggregates();
        let now = self.figures();
        self.watch.progress(&Progress {
            events: now.events,
            bytes: now.bytes,
            lost: now.lost,
            lost_unknown: now.unknown,
            processes: self.session.processes(),
        });
    }

    /// Asks all processes to switch off, and waits a little until they have.
    pub(crate) fn say_goodbye(&mut self, listeners: &Listeners) {
        self.take(Input::Ending);
        self.connections.values_mut().for_each(Connection::let_be);
        for _ in 0..GOODBYE {
            self.turns.begin_round();
            self.send_away(listeners);
            self.talk(None);
            if !self.connections.values().any(Connection::can_leave) {
                break;
            }
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// Sends those away who have put a hello into a mailbox when the recording ends.
    fn send_away(&mut self, listeners: &Listeners) {
        listeners.all().for_each(|listener| drop(self.backlog.take(listener)));
        for uid in self.backlog.users() {
            while let Some(waiting) = self.backlog.next(uid) {
                let (sender, socket) = (waiting.letter.sender, waiting.letter.socket);
                if waiting.guard.admit(sender).is_ok()
                    && let Some(Ok(connection)) = socket.map(|socket| Connection::new(socket, sender))
                {
                    let _ = connection.send(&Message::Refused(Refusal::Ending), &[]);
                }
            }
        }
    }
}
