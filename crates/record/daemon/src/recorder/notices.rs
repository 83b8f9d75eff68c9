//! What the consumer has noticed.

use super::Recorder;
use crate::consumer::Notice;
use mote_session::{Input, Kind};

impl Recorder<'_> {
    /// Takes in what the consumer has noticed.
    pub(super) fn hear_consumer(&mut self) {
        while let Some(notice) = self.consumer.notice() {
            match notice {
                Notice::Thread(name) => {
                    let end = name.comm.iter().position(|byte| *byte == 0).unwrap_or(name.comm.len());
                    let text = String::from_utf8_lossy(&name.comm[..end]).into_owned();
                    self.take(Input::Thread { tid: name.tid, pid: name.pid, at: name.time, name: text });
                }
                Notice::Threads(ids) => self.name_threads(&ids),
                Notice::Problem(text) => self.problem(text),
                Notice::Damage(text) => self.problem_of(Kind::Damage, 0, text),
                Notice::Damaged(groups) => {
                    groups.into_iter().for_each(|group| self.take(Input::Damaged(group)));
                }
                Notice::Ended(groups) => {
                    groups.into_iter().for_each(|group| self.take(Input::Ended(group)));
                }
                Notice::Snapshot(snapshot, parts) => self.complete_snapshot(&snapshot, &parts),
                Notice::NoSnapshot(number, why) => self.take(Input::Snapshot(number, Err(why))),
                Notice::Figures(number) => self.take(Input::Figures(number)),
            }
        }
    }
}
