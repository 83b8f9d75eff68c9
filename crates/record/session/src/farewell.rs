//! What is done as a recording ends, stage by stage.

use crate::action::Action;
use crate::ending::Command;
use crate::session::{Now, Session};
use crate::stage::{Left, Stage};

impl Session {
    /// How far the end is.
    pub fn stage(&self) -> Stage {
        self.stage
    }

    /// The end begins: all processes are told to switch off. Once.
    pub(crate) fn begin_to_end(&mut self, now: Now) {
        if self.stage.is_recording() {
            self.stage = Stage::Leaving(now.at, 0);
            self.say_goodbye();
        }
    }

    /// A round of the event loop while the recording ends.
    pub(crate) fn left(&mut self, left: Left, now: Now) {
        if !self.stage.step(left, now.at) {
            return;
        }
        match self.stage {
            Stage::Records | Stage::Leaving(..) => {}
            Stage::Reading => self.act(Action::ReadToEnd),
            Stage::Waiting(_) => {
                self.act(Action::WriteEnd);
                if left.command == Command::Runs {
                    let text = "recording has ended; waiting for the command to end";
                    self.act(Action::Say(text.to_owned()));
                }
            }
            Stage::Ended => self.act(Action::Finish),
        }
    }
}
