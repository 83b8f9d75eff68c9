//! Running processes that are recorded: how they are brought, and when they are gone.
//!
//! A process is asked by other recordings that it is in, or else joins by itself (`mote_inject`). Both wait for our own
//! event loop, and for others that may never answer: so this runs on a thread of its own for each process. The event
//! loop asks from round to round how far these threads are, and waits for none without an end: it leaves the process
//! running wherever it is.

use crate::error::Error;
use mote_inject::{Patience, Target};
use mote_sys::Errno;
use mote_sys::fd::Fd;
use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, TryRecvError, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// How long it may take to look at a process, before it is said that it cannot be.
const LOOKING: Duration = Duration::from_secs(10);
/// How long all may take together: other recordings are asked, and it is in one of them and out of it again.
const BRINGING: Duration = Duration::from_secs(25);
/// How long probes in functions may take: all binaries of the process are read, and large ones take seconds.
const PROBING: Duration = Duration::from_secs(120);
/// How long it may take to have the threads of a process take SIGTRAP.
const OPENING: Duration = Duration::from_millis(500);
/// How long a thread that is told to end is waited for.
const ENDING: Duration = Duration::from_secs(2);
/// For how long other recordings are asked again when one of them must have it by now.
pub(crate) const FINDING: Duration = Duration::from_secs(5);
/// The first pause before that; each is twice as long as the one before.
pub(crate) const AGAIN: Duration = Duration::from_millis(20);

/// The processes, by descriptors, so that an id that is used again is not taken for them.
#[derive(Debug, Default)]
pub(crate) struct Attached {
    pub(crate) alive: Vec<(i32, Fd)>,
    /// Those that are being looked at, before they are brought.
    looks: Vec<Look>,
    /// Those that are being brought.
    pub(crate) coming: Vec<Coming>,
    /// Those that have come.
    came: HashSet<i32>,
    /// Those that were asked to come, until they are in the session, or it is plain that they will not be.
    pub(crate) expected: Vec<i32>,
    /// Those that have probes in functions.
    probed: Vec<i32>,
    /// Whose turn it is to put some into a process: a plan takes what is free in its memory.
    turns: HashMap<i32, Arc<Mutex<()>>>,
    /// What was told of programs that the command has started.
    started: Arc<Mutex<Vec<Said>>>,
    /// Set when the recording ends.
    over: Arc<AtomicBool>,
}

/// What is said of a process: that it went well, or what went wrong.
type Said = (i32, Result<String, String>);

/// What is reported of a command that is started, and of programs that it starts.
#[derive(Debug)]
pub(crate) enum Report {
    /// Probes were put into a process, or not.
    Probed(i32, Result<String, String>),
    /// What is started is looked at from now on.
    Follows,
    /// The first process is let go, or has ended.
    FirstIsFree,
}

/// A process that is being brought.
#[derive(Debug)]
pub(crate) struct Coming {
    pid: i32,
    until: Instant,
    work: JoinHandle<Result<String, String>>,
    /// It gets probes in functions, too: what goes wrong is told even if it has come.
    is_probed: bool,
    /// Others may put probes into it meanwhile.
    is_free: Arc<AtomicBool>,
    /// What it starts is looked at, for as long as the recording lasts.
    follows: Arc<AtomicBool>,
}

/// A process of which it is not known yet whether it can be brought.
#[derive(Debug)]
struct Look {
    until: Instant,
    /// Says that it can be.
    hear: Receiver<()>,
    coming: Coming,
}

/// What came of looking at a process.
enum Looked {
    /// It can be brought, and is.
    Comes(Coming),
    /// That is not known yet.
    NotYet(Look),
    /// It was brought already, or cannot be.
    Done(Result<(), Error>),
}

impl Look {
    /// What came of it by now.
    fn take(self, now: Instant) -> Looked {
        let pid = self.coming.pid;
        let not_reached = |why| Error::NotReached { pid, why };
        match self.hear.try_recv() {
            Ok(()) => Looked::Comes(self.coming),
            // It has ended without a word: what it has to say is its result.
            Err(TryRecvError::Disconnected) => {
                let failed = || Err("the thread that asks it to join has failed (a bug of mote)".to_owned());
                let said = self.coming.work.join().unwrap_or_else(|_| failed());
                Looked::Done(said.map(drop).map_err(not_reached))
            }
            Err(TryRecvError::Empty) if now < self.until => Looked::NotYet(self),
            Err(TryRecvError::Empty) => {
                let seconds = LOOKING.as_secs();
                let why = format!("its memory maps could not be read within {seconds} s");
                Looked::Done(Err(not_reached(why)))
            }
        }
    }
}

impl Attached {
    /// Has a process join us, while the event loop talks to it; whether it can says [`Attached::looked`]. `ask` asks
    /// other recordings for it: `None` when one of them has it and has passed our invitation on, else what they have
    /// said.
    ///
    /// # Errors
    /// There is no thread.
    pub(crate) fn bring(
        &mut self,
        pid: i32,
        place: String,
        ask: impl Fn() -> Option<Vec<String>> + Send + 'static,
    ) -> Result<(), Error> {
        let over = self.over.clone();
        let (now, follows) = (Instant::now(), Arc::default());
        let until = now + BRINGING;
        let (tell, hear) = channel();
        let bring =
            move || bring(pid, &place, ask, Patience { until, over: &over }, &tell).map(|()| String::new());
        let work = std::thread::Builder::new().name("mote-bring".to_owned()).spawn(bring);
        let work = work.map_err(|why| Error::Loop { what: "start a thread", why })?;
        let is_free = Arc::default();
        let coming = Coming { pid, until: until + LOOKING, work, is_probed: false, is_free, follows };
        self.looks.push(Look { until: now + LOOKING, hear, coming });
        Ok(())
    }

    /// What came by now of looking at processes that are to be brought: whether they can be. Each is here once.
    pub(crate) fn looked(&mut self) -> Vec<(i32, Result<(), Error>)> {
        let (now, mut done) = (Instant::now(), Vec::new());
        for look in std::mem::take(&mut self.looks) {
            let pid = look.coming.pid;
            match look.take(now) {
                Looked::NotYet(look) => self.looks.push(look),
                Looked::Comes(coming) => {
                    self.coming.push(coming);
                    done.push((pid, Ok(())));
                }
                Looked::Done(said) => done.push((pid, said)),
            }
        }
        done
    }

    /// Whether processes are still being looked at.
    pub(crate) fn is_looking(&self) -> bool {
        !self.looks.is_empty()
    }

    /// Has `probe` put probes into a process, on a thread of its own, when those before it have. What it has to say is
    /// told when it is done.
    ///
    /// # Errors
    /// There is no thread.
    pub(crate) fn probe(
        &mut self,
        pid: i32,
        probe: impl FnOnce(Patience<'_>) -> Result<String, String> + Send + 'static,
    ) -> Result<(), Error> {
        let is_free = Arc::default();
        self.probe_until(pid, is_free, |patience, _turn| probe(patience))
    }

    /// As [`Attached::probe`]; `probe` may let others have their turn, and say by `is_free` that it has.
    fn probe_until(
        &mut self,
        pid: i32,
        is_free: Arc<AtomicBool>,
        probe: impl FnOnce(Patience<'_>, MutexGuard<'_, ()>) -> Result<String, String> + Send + 'static,
    ) -> Result<(), Error> {
        let over = self.over.clone();
        let until = Instant::now() + PROBING;
        self.turns.retain(|_, turn| Arc::strong_count(turn) > 1);
        let turn = self.turns.entry(pid).or_default().clone();
        let work = std::thread::Builder::new().name("mote-bring".to_owned());
        let work = work.spawn(move || {
            let turn = turn.lock().unwrap_or_else(PoisonError::into_inner);
            probe(Patience { until, over: &over }, turn)
        });
        let work = work.map_err(|why| Error::Loop { what: "start a thread", why })?;
        if !self.probed.contains(&pid) {
            self.probed.push(pid);
        }
        let follows = Arc::default();
        self.coming.push(Coming { pid, until: until + LOOKING, work, is_probed: true, is_free, follows });
        Ok(())
    }

    /// Has `start` put probes into the program that the process is about to become, or into those that it starts.
    ///
    /// # Errors
    /// There is no thread.
    pub(crate) fn probe_started(
        &mut self,
        pid: i32,
        start: impl FnOnce(Patience<'_>, &mut dyn FnMut(Report)) -> Result<String, String> + Send + 'static,
        is_traced: Arc<AtomicBool>,
    ) -> Result<(), Error> {
        let (started, follows) = (self.started.clone(), Arc::new(AtomicBool::new(false)));
        let (is_followed, is_free) = (follows.clone(), Arc::new(AtomicBool::new(false)));
        let tell_free = is_free.clone();
        self.probe_until(pid, is_free, move |patience, turn| {
            let mut turn = Some(turn);
            start(patience, &mut |report| match report {
                Report::Probed(pid, said) => {
                    started.lock().unwrap_or_else(PoisonError::into_inner).push((pid, said));
                }
                Report::Follows => is_followed.store(true, Ordering::Relaxed),
                Report::FirstIsFree => {
                    is_traced.store(false, Ordering::Release);
                    tell_free.store(true, Ordering::Release);
                    turn = None;
                }
            })
        })?;
        if let Some(coming) = self.coming.last_mut() {
            coming.follows = follows;
        }
        Ok(())
    }

    /// A process has said hello: whatever becomes of its answer, it is there.
    pub(crate) fn came(&mut self, pid: i32) {
        self.came.insert(pid);
    }

    /// The recording ends: those that are being brought are left as they were.
    pub(crate) fn tell_over(&self) {
        self.over.store(true, Ordering::Relaxed);
    }

    /// Probes are to be removed: no thread that blocks SIGTRAP is to be in the way of that.
    pub(crate) fn open_probed(&self) {
        let over = AtomicBool::new(false);
        for pid in &self.probed {
            let patience = Patience { until: Instant::now() + OPENING, over: &over };
            // It has ended, or does what it likes: then its probes stay, and do nothing.
            let _ = mote_inject::open_to_traps(*pid, &patience);
        }
    }

    /// Whether probes are being put into a process.
    pub(crate) fn is_probing(&self, pid: i32) -> bool {
        let is_of = |coming: &Coming| coming.is_probed && coming.pid == pid;
        self.coming.iter().any(|coming| is_of(coming) && !coming.is_free.load(Ordering::Acquire))
    }

    /// Whether some are still being brought.
    pub(crate) fn is_busy(&self) -> bool {
        let looks = self.looks.iter().map(|look| &look.coming);
        self.coming.iter().chain(looks).any(|coming| !coming.work.is_finished())
    }

    /// What there is to say of those that have been asked by now: of some that it went well, of others what went wrong.
    pub(crate) fn done(&mut self) -> Vec<Said> {
        let now = Instant::now();
        let is_late = |coming: &Coming| now > coming.until && !coming.follows.load(Ordering::Relaxed);
        let is_done = |coming: &Coming| coming.work.is_finished() || is_late(coming);
        let started = std::mem::take(&mut *self.started.lock().unwrap_or_else(PoisonError::into_inner));
        let probed = started.iter().filter(|(_, said)| said.is_ok()).map(|(pid, _)| *pid);
        self.probed.extend(probed);
        let (done, running) = self.coming.drain(..).partition(is_done);
        self.coming = running;
        let outcome = |coming: Coming| {
            let (pid, always) = (coming.pid, coming.is_probed);
            let said = match coming.work.is_finished() {
                true => coming.work.join().ok()?,
                // It sleeps in the kernel, in the process's memory.
                false => Err("its memory could not be read or written in time".to_owned()),
            };
            let is_reported = match &said {
                Ok(text) => !text.is_empty(),
                Err(_) => always || !self.came.contains(&pid),
            };
            is_reported.then_some((pid, said))
        };
        started.into_iter().chain(Vec::into_iter(done).filter_map(outcome)).collect()
    }
}

impl Drop for Attached {
    fn drop(&mut self) {
        self.tell_over();
        let until = Instant::now() + ENDING;
        // Only for the sake of processes whose code is not ours: they are put back as they were. A recording that has
        // ended has waited for them already.
        while self.is_busy() && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}

/// Brings a process; says so when it could be looked at, and the rest depends on others.
fn bring(
    pid: i32,
    place: &str,
    ask: impl Fn() -> Option<Vec<String>>,
    patience: Patience<'_>,
    tell: &Sender<()>,
) -> Result<(), String> {
    let opened = Target::open(pid, patience);
    if opened.is_ok() {
        let _ = tell.send(());
    }
    let (mut in_another, mut pause) = (None, AGAIN);
    loop {
        let Some(mut said) = ask() else { return Ok(()) };
        let joined = match &opened {
            Ok(target) => target.join(place, patience),
            Err(why) => Err(why.clone()),
        };
        match joined {
            Ok(()) => return Ok(()),
            // Another recording was faster, and has it now, or will in a moment.
            Err(mote_inject::Error::InAnother)
                if in_another.get_or_insert_with(Instant::now).elapsed() < FINDING
                    && !patience.over.load(Ordering::Relaxed) =>
            {
                std::thread::sleep(pause);
                pause = (2 * pause).min(FINDING / 10);
            }
            Err(why) => {
                said.push(why.to_string());
                return Err(said.join("; "));
            }
        }
    }
}

/// What is to be told of a process that is not there.
pub(crate) fn hint(why: Errno) -> &'static str {
    if why.0 == libc::ESRCH { "; is it still running? `ps -e` lists processes" } else { "" }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A look at a process whose thread does this with the sender; it may take until then.
    fn look(until: Instant, work: impl FnOnce(Sender<()>) -> Result<(), String> + Send + 'static) -> Look {
        let (tell, hear) = channel();
        let work = std::thread::spawn(move || work(tell).map(|()| String::new()));
        Look {
            until,
            hear,
            coming: Coming {
                pid: 7,
                until,
                work,
                is_probed: false,
                is_free: Arc::default(),
                follows: Arc::default(),
            },
        }
    }

    /// What comes of it in the end.
    fn wait(attached: &mut Attached) -> Result<(), String> {
        loop {
            if let Some((pid, said)) = attached.looked().pop() {
                assert_eq!(pid, 7);
                assert!(attached.looked().is_empty() && !attached.is_looking(), "it is said once");
                return said.map_err(|why| why.to_string());
            }
            assert!(attached.is_looking());
            std::thread::yield_now();
        }
    }

    #[test]
    fn a_process_that_does_not_answer_keeps_nobody() {
        let (end, ended) = channel::<()>();
        let far = Instant::now() + Duration::from_secs(3600);
        let mut attached = Attached::default();
        attached.looks.push(look(far, move |tell| {
            let _ = ended.recv();
            drop(tell);
            Ok(())
        }));
        assert!(attached.looked().is_empty() && attached.is_looking(), "it is not known, and not waited for");
        attached.looks.iter_mut().for_each(|look| look.until = Instant::now());
        let said = wait(&mut attached).expect_err("it is too late");
        assert!(said.contains("could not be read within 10 s"), "{said}");
        assert!(attached.coming.is_empty());
        drop(end);
    }

    #[test]
    fn a_process_that_can_be_brought_is() {
        let far = Instant::now() + Duration::from_secs(3600);
        let mut attached = Attached::default();
        attached.looks.push(look(far, |tell| tell.send(()).map_err(|why| why.to_string())));
        assert_eq!(wait(&mut attached), Ok(()));
        assert_eq!(attached.coming.len(), 1);
    }

    #[test]
    fn a_thread_that_ends_without_a_word_has_said_all_there_is() {
        let far = Instant::now() + Duration::from_secs(3600);
        for (said, is_error) in [(Ok(()), false), (Err("it is gone".to_owned()), true)] {
            let mut attached = Attached::default();
            attached.looks.push(look(far, move |_| said));
            let said = wait(&mut attached);
            assert_eq!(said.is_err(), is_error, "{said:?}");
            assert!(said.err().is_none_or(|why| why.contains("it is gone")));
            assert!(
                attached.coming.is_empty(),
                "another recording has passed it on, or it cannot be reached"
            );
        }
    }
}
