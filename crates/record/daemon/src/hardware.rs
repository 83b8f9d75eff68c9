//! The hardware trace of a recording (`mote_pmu`): a capture of its own, in the directory `pt` of the recording's.
//!
//! A thread reads the memory of packets, which fills within milliseconds, and writes the capture. The loop hears whose
//! code it has, and why there is no more. Whatever becomes of it, the events beside go on.
//!
//! Where only the last packets are kept, rules may ask for those before an event (`pt snapshot 5ms`):
//! ```text
//! rule ─ slot in shared memory ([`crate::area::packets`]) ─▶ Taker ─ pt/snapshot-N
//!                                                             └─▶ SnapshotEvents: `pt_snapshot`, for readers
//! ```

mod events;
mod limits;
mod taker;

use crate::area::packets::Requests;
use crate::error::Error;
use crate::options::{HardwareOptions, Options};
use crate::output::directory::Directory;
use crate::output::folder::Folder;
use crate::output::owner::Owner;
use crate::samples::Samples;
use crate::trace::Trace;
use events::SnapshotEvents;
use mote_capture::IN_RECORDING;
use mote_journal::Fact;
use mote_pmu::{AnyMachine, Files, Kept, Recorded, Session, Targets, folder};
use mote_symbol::collect;
use std::collections::BTreeSet;
use std::fs::File;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
pub(crate) use taker::Taken;
use taker::Taker;

/// The hardware trace.
pub(crate) struct Hardware {
    folder: Folder,
    thread: Option<JoinHandle<Ended>>,
    shared: Arc<Shared>,
    /// Asks the thread for snapshots.
    ask: Option<Sender<Wanted>>,
    recorded: Option<Recorded>,
    wanted: HardwareOptions,
    /// What rules ask for.
    requests: Arc<Mutex<Requests>>,
    /// The snapshots that were taken for rules, and their trace once there is one.
    taken: Option<Receiver<Taken>>,
    events: Option<SnapshotEvents>,
}

/// How long a snapshot may take.
const WRITING: Duration = Duration::from_secs(20);

/// What the thread has come to.
type Ended = Result<Recorded, mote_pmu::Error>;

/// What the thread and the loop share.
#[derive(Debug, Default)]
struct Shared {
    /// Nothing is to be recorded any more.
    ends: AtomicBool,
    /// Rules ask for packets before events.
    is_asked: AtomicBool,
    /// Processes that were seen.
    seen: Mutex<BTreeSet<i32>>,
    /// What rules have asked for and is not there, as sentences, when it is over.
    left_out: Mutex<Vec<String>>,
}

/// A snapshot of the packets that is wanted.
#[derive(Debug)]
struct Wanted {
    folder: Folder,
    /// The loop waits no longer.
    until: Instant,
    /// Tells the loop what has come of it.
    tell: Sender<Result<u64, String>>,
}

impl Shared {
    fn seen(&self) -> MutexGuard<'_, BTreeSet<i32>> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn take_left_out(&self) -> Vec<String> {
        std::mem::take(&mut *self.left_out.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// Files of the recording.
impl Files for Folder {
    fn create(&self, name: &str) -> io::Result<File> {
        Folder::create(self, name)
    }
}

impl Hardware {
    /// Makes the directory for it.
    ///
    /// # Errors
    /// [`Error::Output`].
    pub(crate) fn make(
        directory: &Directory,
        wanted: &HardwareOptions,
        requests: Arc<Mutex<Requests>>,
    ) -> Result<Hardware, Error> {
        let folder = directory.make_beside(IN_RECORDING)?;
        let wanted = wanted.clone();
        Ok(Hardware {
            folder,
            thread: None,
            shared: Arc::default(),
            ask: None,
            recorded: None,
            wanted,
            requests,
            taken: None,
            events: None,
        })
    }

    /// Whether it is the command whose code is recorded: that has to wait until it is.
    pub(crate) fn is_of_command(options: &Options) -> bool {
        let is_wanted = options.hardware.as_ref().is_some_and(|hardware| !hardware.all);
        is_wanted && options.attach.is_empty() && !options.command.is_empty()
    }

    /// Begins it; of a command from the moment on when the process that waits becomes it. Returns what the journal is
    /// to have.
    ///
    /// # Errors
    /// [`Error::Hardware`], [`Error::Loop`].
    pub(crate) fn begin(
        &mut self,
        options: &Options,
        waiting: Option<i32>,
        owner: &mut Owner,
    ) -> Result<Fact, Error> {
        let wanted = &self.wanted;
        let targets = targets(wanted, options, waiting);
        let known = match targets {
            Targets::Command(_) => Vec::new(),
            Targets::Threads(_) | Targets::EachThread(_) => options.attach.clone(),
            Targets::All => collect::processes().map(u32::cast_signed).collect(),
        };
        let machine = (wanted.machine)(&targets);
        let settings = mote_pmu::Options {
            settings: wanted.settings.clone(),
            targets,
            cpus: wanted.cpus.clone(),
            memory: wanted.memory,
            kept: wanted.kept,
            filter: wanted.filter.clone(),
            jit: wanted.jit,
        };
        let files = Box::new(self.folder.clone());
        let session = Session::begin(machine, &wanted.device, &settings, files, &known);
        let mut session = session.map_err(Error::Hardware)?;
        session.enable().map_err(Error::Hardware)?;
        see(owner, session.take_seen());
        let shared = self.shared.clone();
        let thread = std::thread::Builder::new().name("mote-pt".to_owned());
        let (ask, asked) = channel();
        let (tell, taken) = channel();
        let taker = Taker::new(self.folder.clone(), self.requests.clone(), tell);
        self.taken = Some(taken);
        let thread = thread.spawn(move || run(session, taker, &shared, &asked));
        self.thread = Some(thread.map_err(|why| Error::Loop { what: "start the thread of packets", why })?);
        self.ask = Some(ask);
        Ok(Fact::Hardware { directory: IN_RECORDING.to_owned() })
    }

    /// Whether only the last packets are kept, and rules can ask for them.
    pub(crate) fn keeps_last(options: &Options) -> bool {
        options.hardware.as_ref().is_some_and(|hardware| hardware.kept == Kept::Last)
    }

    /// Rules ask for the packets before events, or do not.
    pub(crate) fn heed_rules(&self, ask: bool) {
        self.shared.is_asked.store(ask && self.wanted.kept == Kept::Last, Ordering::Release);
    }

    /// The snapshots that were taken for rules since the last time.
    pub(crate) fn taken(&self) -> Vec<Taken> {
        self.taken.iter().flat_map(Receiver::try_iter).collect()
    }

    /// Makes an event of a snapshot, which this event has asked for.
    ///
    /// # Errors
    /// Why there is none, for a person.
    pub(crate) fn note(
        &mut self,
        taken: &Taken,
        event: &str,
        (options, trace, samples): (&Options, &Trace, &Samples),
    ) -> Result<(), String> {
        let events = match &mut self.events {
            Some(events) => events,
            None => {
                let made = SnapshotEvents::make(options, (&trace.directory, trace.frame()), samples);
                self.events.insert(made.map_err(|why| why.to_string())?)
            }
        };
        events.add(taken, event).map_err(|why| why.to_string())
    }

    /// Ends the trace of snapshots, if there is one. Returns whether all of it is written.
    pub(crate) fn finish(&mut self, duration_ns: u64) -> bool {
        self.events.take().is_none_or(|events| events.finish(duration_ns))
    }

    /// What is done in every round: hears whose code it has. Returns why it has ended, if it has by itself.
    pub(crate) fn look(&mut self, owner: &mut Owner) -> Option<String> {
        see(owner, std::mem::take(&mut *self.shared.seen()));
        let thread = self.thread.take_if(|thread| thread.is_finished())?;
        self.join(thread).err()
    }

    /// Ends it; what there is is written. Returns what was lost.
    pub(crate) fn end(&mut self, owner: &mut Owner) -> Vec<String> {
        self.shared.ends.store(true, Ordering::Release);
        let ended = self.thread.take().map_or(Ok(()), |thread| self.join(thread));
        see(owner, std::mem::take(&mut *self.shared.seen()));
        let losses = self.recorded.iter().flat_map(Recorded::losses);
        let losses = losses.map(|loss| format!("hardware trace: {loss}"));
        ended.err().into_iter().chain(losses).chain(self.shared.take_left_out()).collect()
    }

    /// Writes what the memory of packets has now as a capture in the directory of a snapshot, where only the last ones
    /// are kept.
    ///
    /// # Errors
    /// A sentence: it cannot be written, or there is no hardware trace any more.
    ///
    /// # Cost
    /// Waits until it is written: the memory of all CPUs.
    pub(crate) fn snapshot(&self, snapshot: &Folder) -> Result<(), String> {
        let is_over = self.thread.as_ref().is_none_or(JoinHandle::is_finished);
        let Some(ask) = self.ask.as_ref().filter(|_| self.wanted.kept == Kept::Last && !is_over) else {
            return Ok(());
        };
        let folder = snapshot.make(IN_RECORDING).map_err(|why| why.to_string())?;
        let (tell, hear) = channel();
        // When the thread ends instead, it drops what it was asked, and with it what it would tell us by.
        let _ = ask.send(Wanted { folder, until: Instant::now() + WRITING, tell });
        let said = hear.recv_timeout(WRITING).map_err(|why| match why {
            RecvTimeoutError::Timeout => "it takes too long".to_owned(),
            RecvTimeoutError::Disconnected => "it has ended".to_owned(),
        })?;
        said.map(drop)
    }

    /// What it came to, if it came to its end.
    pub(crate) fn recorded(&self) -> Option<Recorded> {
        self.recorded.clone()
    }

    fn join(&mut self, thread: JoinHandle<Ended>) -> Result<(), String> {
        match thread.join() {
            Ok(Ok(recorded)) => {
                self.recorded = Some(recorded);
                Ok(())
            }
            Ok(Err(why)) => Err(format!("the hardware trace ends before the recording does: {why}")),
            Err(_) => Err("the thread that reads packets has failed (a bug of mote)".to_owned()),
        }
    }
}

impl Drop for Hardware {
    fn drop(&mut self) {
        self.shared.ends.store(true, Ordering::Release);
        // Its directory may be about to be removed.
        self.thread.take().into_iter().for_each(|thread| drop(thread.join()));
    }
}

/// The directory of a snapshot that a rule has asked for, in that of the recording.
pub(crate) fn directory_of(number: u32) -> String {
    format!("{IN_RECORDING}/{}", taker::directory(number))
}

/// Whose code is to be recorded.
fn targets(wanted: &HardwareOptions, options: &Options, waiting: Option<i32>) -> Targets {
    match waiting {
        _ if wanted.all => Targets::All,
        Some(pid) => Targets::Command(pid),
        None => Targets::Threads(options.attach.iter().flat_map(|pid| folder::threads(*pid)).collect()),
    }
}

/// The recording has code of these processes.
fn see(owner: &mut Owner, processes: BTreeSet<i32>) {
    let ids: Vec<u32> = processes.into_iter().map(i32::unsigned_abs).collect();
    owner.note(&ids);
}

/// Reads packets and writes them, and snapshots of them, until the end.
fn run(
    mut session: Session<AnyMachine>,
    mut taker: Taker,
    shared: &Shared,
    asked: &Receiver<Wanted>,
) -> Ended {
    loop {
        let ends = shared.ends.load(Ordering::Acquire);
        let is_asked = shared.is_asked.load(Ordering::Acquire);
        if is_asked {
            session.set_tick(taker::TICK);
        }
        session.round()?;
        if is_asked {
            taker.round(&mut session);
        }
        shared.seen().append(&mut session.take_seen());
        if let Ok(Wanted { folder, until, tell }) = asked.try_recv()
            && Instant::now() < until
        {
            let written = session.snapshot(Box::new(folder));
            // The loop may not wait any more.
            let _ = tell.send(written.map_err(|why| why.to_string()));
        }
        if ends {
            *shared.left_out.lock().unwrap_or_else(PoisonError::into_inner) = taker.end();
            return session.finish().map(|(recorded, _)| recorded);
        }
    }
}
