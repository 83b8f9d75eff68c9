//! When the recording is over, and what is to be done then.

use crate::action::{Action, Letter};
use crate::ending::{Command, Outlook, Signal};
use crate::session::{Now, Session};

impl Session {
    /// A signal asks for the end.
    pub(crate) fn signal(&mut self, signal: Signal, command: Command) {
        if self.end.signal(signal, command) {
            self.act(Action::PassOn(signal.number));
        }
    }

    /// A round of the event loop is over: so may be the recording.
    pub(crate) fn outlook(&mut self, outlook: &Outlook, now: Now) {
        if !self.end.is_announced && self.is_over(outlook, now) {
            self.end.is_announced = true;
            self.act(Action::End);
        }
    }

    fn is_over(&mut self, outlook: &Outlook, now: Now) -> bool {
        if outlook.is_cut || self.end.now {
            return true;
        }
        let left = self.processes().max(outlook.threads);
        match outlook.command {
            Command::None => outlook.attached == Some(true) && left == 0,
            Command::Runs => false,
            // Beside running processes the command says how long: what it leaves behind is not waited for.
            Command::Ended if left > 0 && outlook.attached.is_none() => {
                if self.end.in_company(now.at) {
                    let rest = rest(self.processes(), left);
                    self.act(Action::Say(format!(
                        "the command has ended; recording goes on until {rest} (Ctrl-C \
                                                  stops it)"
                    )));
                }
                false
            }
            Command::Ended => self.end.alone(now.at, outlook.is_deserted),
        }
    }

    /// Ends: all processes are to switch off. Those that never came to record anything are missing.
    pub(crate) fn say_goodbye(&mut self) {
        let unready = self.peers.iter().filter(|(_, peer)| peer.is_unready() && peer.goes_on);
        let unready: Vec<i32> = unready.map(|(_, peer)| peer.pid).collect();
        for pid in unready {
            self.missing(pid, "joined, but was not ready before the recording ended");
        }
        let greeted = self.peers.that(|peer| peer.hello.is_some());
        greeted.into_iter().for_each(|peer| self.send(peer, Letter::Stop));
    }

    /// Says how many more problems there were than were reported.
    pub(crate) fn report_more(&mut self) {
        let more = self.problems.more();
        self.actions.extend(more.into_iter().map(Action::Report));
    }
}

/// `2 other processes until they end`.
fn rest(processes: usize, left: usize) -> String {
    match (processes, left) {
        (0, 1) => "another thread ends".to_owned(),
        (0, threads) => format!("{threads} other threads end"),
        (1, _) => "another process ends".to_owned(),
        (processes, _) => format!("{processes} other processes end"),
    }
}
