//! Takes snapshots of packets when rules ask for them, in the thread that has the trace.

use super::limits::{LeftOut, Limits};
use crate::area::packets::{Request, Requests};
use crate::output::folder::Folder;
use mote_pmu::{AnyMachine, Before, Session, Snapshot, Written};
use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// How often it is looked for requests: the packets before an event are written over in the time that this takes, and
/// what a processor writes in a millisecond is a small part of any memory.
pub(super) const TICK: Duration = Duration::from_millis(1);

/// A snapshot that was taken.
#[derive(Debug)]
pub(crate) struct Taken {
    /// From 1.
    pub(crate) number: u32,
    /// What has asked for it.
    pub(crate) request: Request,
    /// The capture: how much, and of when.
    pub(crate) written: Written,
}

/// What takes them.
pub(super) struct Taker {
    /// Where they go.
    folder: Folder,
    requests: Arc<Mutex<Requests>>,
    limits: Limits,
    tell: Sender<Taken>,
    /// Why the first one failed.
    failure: Option<String>,
}

impl Taker {
    pub(super) fn new(folder: Folder, requests: Arc<Mutex<Requests>>, tell: Sender<Taken>) -> Taker {
        Taker { folder, requests, limits: Limits::new(Instant::now()), tell, failure: None }
    }

    fn requests(&self) -> MutexGuard<'_, Requests> {
        self.requests.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes those that are asked for.
    pub(super) fn round(&mut self, session: &mut Session<AnyMachine>) {
        let requests = self.requests().take();
        for request in requests {
            let Ok((number, room)) = self.limits.admit(Instant::now()) else { continue };
            let before = Before {
                cpu: request.cpu,
                tid: request.tid.cast_signed(),
                time_ns: request.time_ns,
                duration_ns: request.duration_ns,
            };
            let name = directory(number);
            let files = || self.folder.make(&name).map(|folder| Box::new(folder) as _);
            let why = match session.snapshot_before(&before, room, files) {
                Ok(Snapshot::Written(written)) => {
                    self.limits.take(written.bytes);
                    // The loop hears until it has joined this thread.
                    let _ = self.tell.send(Taken { number, request, written });
                    continue;
                }
                Ok(Snapshot::Nothing) => LeftOut::Nothing,
                Ok(Snapshot::TooLate(_)) => LeftOut::TooLate,
                Ok(Snapshot::NoRoom(_)) => LeftOut::NoRoom,
                Err(why) => {
                    self.failure.get_or_insert_with(|| format!("{name}: {why}"));
                    self.folder.open(&name).iter().for_each(Folder::clear);
                    self.folder.remove_directory(&name);
                    LeftOut::Failed
                }
            };
            self.limits.leave_out(why, 1);
        }
    }

    /// What was left out, and why, as sentences.
    pub(super) fn end(mut self) -> Vec<String> {
        let refused = self.requests().refused();
        self.limits.leave_out(LeftOut::Refused, refused);
        let failure = self.failure.map(|why| format!("a snapshot of the hardware trace failed: {why}"));
        failure.into_iter().chain(self.limits.sentences()).collect()
    }
}

/// The directory of a snapshot, in that of the capture.
pub(super) fn directory(number: u32) -> String {
    format!("snapshot-{number}")
}
