//! A program that is started for us: a library is loaded into it before its first instruction, but behind the dynamic
//! linker's work.
//!
//! The process that is to become the program stops itself, and then becomes it. It is stopped once more where the
//! dynamic linker hands over: no other thread and no lock is in the way there. A program in which nothing is wanted, as
//! a shell or `make`, is traced on, with all that it forks, until these become programs in which something is: those
//! are let go. So is one that loads something later in which there is: it is a process that runs then.

use crate::arch::{BREAKPOINT, Registers};
use crate::bare::{Bare, Prepared};
use crate::error::Error;
use crate::stop::Stopped;
use crate::target::{Patience, Target, threads, tracer};
use crate::visit::{Load, Loaded, Visit};
use mote_symbol::mapped;
use mote_sys::Errno;
use mote_sys::ptrace::{self, State};
use mote_sys::thread::send_signal;
use std::collections::HashSet;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// How often is looked whether a thread has stopped that is about to.
const LOOK: Duration = Duration::from_micros(200);
/// The same of threads that run on, at least.
const LOOK_LAZILY: Duration = Duration::from_millis(5);
/// How often is looked whether something is wanted by now in programs that were passed on.
const LATER: Duration = Duration::from_millis(50);
/// One part of so many that this takes of the time, if that is not longer than what follows.
const LATER_PART: u32 = 20;
const LATER_MOST: Duration = Duration::from_secs(2);
/// How long what is done in one program may take.
const LOADING: Duration = Duration::from_secs(120);
/// Where a program begins (`AT_ENTRY`, elf.h).
const AT_ENTRY: u64 = 9;

/// What is to become of a program that begins.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Wish {
    /// The library is loaded, and given this plan.
    Load(Vec<u8>),
    /// Nothing is wanted in it, but perhaps in what it starts.
    PassOn,
    /// It is let go.
    LetGo,
}

/// Decides what to do with programs that begin, and learns what came of it.
pub trait Starts {
    /// What is wanted in the program of a process: it has mapped all that it begins with, and is stopped.
    fn wish(&mut self, pid: i32) -> Wish;
    /// The library was loaded into the process, with so many functions, or not.
    fn done(&mut self, pid: i32, loaded: Result<Loaded, Error>);
    /// From now on all that is started is looked at.
    fn follows(&mut self) {}
    /// The first process is let go, or has ended: its parent may ask for its status.
    fn first_is_free(&mut self) {}
    /// Programs that were passed on in which something is wanted by now. They are let go.
    fn later(&mut self) -> Vec<i32> {
        Vec::new()
    }
    /// A process of [`Starts::later`] is let go.
    fn let_go(&mut self, _pid: i32) {}
}

/// Loads a library into the program that the process `pid`, which stops itself, is about to become, if something is
/// wanted there; else into those that it starts. Returns when that is done, or there is none left. The calling thread
/// traces the processes meanwhile.
///
/// # Errors
/// [`Error`] of the first program; whatever it is, the program runs.
pub fn at_start(
    pid: i32,
    library: &[u8],
    starts: &mut dyn Starts,
    patience: Patience<'_>,
) -> Result<(), Error> {
    ptrace::seize_until_exec(pid).map_err(Error::Forbidden)?;
    let held = Held { pid, library, patience };
    let begun = held.become_program().and_then(|()| held.begin(starts));
    if matches!(begun, Ok(Begun::PassedOn)) {
        starts.follows();
        follow(pid, library, starts, patience.over);
        return Ok(());
    }
    let _ = ptrace::detach(pid, 0);
    // If it has not come to be the program.
    let _ = send_signal(pid, pid, libc::SIGCONT);
    match begun? {
        Begun::Loaded(count) => starts.done(pid, Ok(count)),
        Begun::PassedOn | Begun::LetGo => {}
    }
    Ok(())
}

/// What has come of a program that began.
#[derive(Debug)]
enum Begun {
    Loaded(Loaded),
    /// It runs on, traced.
    PassedOn,
    LetGo,
}

/// Looks at each program that the traced processes become, until the recording is over or none of them is left.
fn follow(command: i32, library: &[u8], starts: &mut dyn Starts, over: &AtomicBool) {
    let mut pause = LOOK;
    let mut first = Some(command);
    let (mut leaving, mut look_at) = (Leaving::default(), Instant::now() + LATER);
    while !over.load(Ordering::Relaxed) {
        let now = Instant::now();
        if now >= look_at {
            starts.later().into_iter().for_each(|pid| leaving.begin(pid));
            // Of many programs it takes longer: it is no more than a part of the time.
            look_at = Instant::now() + (LATER_PART * now.elapsed()).clamp(LATER, LATER_MOST);
            leaving.is_changed = true;
        }
        for pid in leaving.gone() {
            if first.take_if(|first| *first == pid).is_some() {
                starts.first_is_free();
            }
            starts.let_go(pid);
        }
        let (tid, state) = match ptrace::any_state() {
            Ok((_, State::Runs)) | Err(Errno(libc::EINTR)) => {
                std::thread::sleep(pause);
                pause = (2 * pause).min(LOOK_LAZILY);
                continue;
            }
            Ok(found) => found,
            Err(_) => return,
        };
        pause = LOOK;
        if leaving.lets_go(tid, state) {
            continue;
        }
        let _ = match state {
            State::Runs => Ok(()),
            State::Bears | State::Interrupted => ptrace::resume(tid, 0),
            State::Signal(signal) => ptrace::resume(tid, signal),
            State::GroupStop => ptrace::listen(tid),
            State::Exec => {
                began(tid, library, starts, over);
                Ok(())
            }
            // Its parent, which is a thread of this process, asks for its status.
            State::Gone if tid == command => {
                if first.take().is_some() {
                    starts.first_is_free();
                }
                std::thread::sleep(LOOK_LAZILY);
                Ok(())
            }
            State::Gone => ptrace::let_rest(tid),
        };
    }
}

/// Processes that are let go while they run: thread by thread, as these stop.
#[derive(Default)]
struct Leaving {
    processes: HashSet<i32>,
    /// One of them may be traced no longer.
    is_changed: bool,
}

impl Leaving {
    /// Has all threads of a process stop.
    fn begin(&mut self, pid: i32) {
        // What they start meanwhile is traced, too, and stops first.
        for tid in threads(pid).into_iter().flatten() {
            let _ = ptrace::interrupt(tid);
        }
        self.processes.insert(pid);
    }

    /// Lets a thread go that has stopped, if its process is one of these. Not one that has ended, or is another
    /// program now: that is looked at again.
    fn lets_go(&mut self, tid: i32, state: State) -> bool {
        let is_of = |pid: &&i32| Path::new(&format!("/proc/{pid}/task/{tid}")).exists();
        let Some(pid) = self.processes.iter().find(is_of).copied() else { return false };
        self.is_changed = true;
        match state {
            State::Gone => false,
            State::Exec => {
                self.processes.remove(&pid);
                false
            }
            State::Interrupted => Stopped::interrupted_before(tid).is_some(),
            State::Signal(signal) => ptrace::detach(tid, signal).is_ok(),
            State::Runs | State::Bears | State::GroupStop => ptrace::detach(tid, 0).is_ok(),
        }
    }

    /// Takes out those that are traced no longer.
    fn gone(&mut self) -> Vec<i32> {
        if !std::mem::take(&mut self.is_changed) {
            return Vec::new();
        }
        self.processes
            .extract_if(|pid| !threads(*pid).is_ok_and(|mut all| all.any(|tid| is_traced(*pid, tid))))
            .collect()
    }
}

/// Whether a thread is traced that has not ended.
fn is_traced(pid: i32, tid: i32) -> bool {
    let status = mapped::table(&format!("/proc/{pid}/task/{tid}/status"));
    tracer(&status) != 0 && !status.contains("\nState:\tZ")
}

/// Looks at a program that a traced process has become.
fn began(pid: i32, library: &[u8], starts: &mut dyn Starts, over: &AtomicBool) {
    let patience = Patience { until: Instant::now() + LOADING, over };
    let _ = ptrace::follow_children(pid, false);
    match (Held { pid, library, patience }).begin(starts) {
        Ok(Begun::PassedOn) => return,
        Ok(Begun::Loaded(count)) => starts.done(pid, Ok(count)),
        Ok(Begun::LetGo) | Err(Error::Ended) => {}
        Err(why) => starts.done(pid, Err(why)),
    }
    let _ = ptrace::detach(pid, 0);
}

struct Held<'p> {
    pid: i32,
    library: &'p [u8],
    patience: Patience<'p>,
}

impl Held<'_> {
    /// Has it go on from where it has stopped itself, until it is the program.
    fn become_program(&self) -> Result<(), Error> {
        self.run_until(|state| state == State::GroupStop)?;
        send_signal(self.pid, self.pid, libc::SIGCONT).map_err(Error::Forbidden)?;
        self.resume_until(|state| state == State::Exec)
    }

    /// Has the program go on to where it begins, and does there what is wanted. It has stopped in exec.
    fn begin(&self, starts: &mut dyn Starts) -> Result<Begun, Error> {
        let target = Target::any(self.pid)?;
        let entry = self.entry().ok_or(Error::Ended)?;
        let mut kept = BREAKPOINT;
        let memory = target.memory();
        memory.read_exact_at(&mut kept, entry).map_err(|_| target.why_not())?;
        memory.write_all_at(&BREAKPOINT, entry).map_err(|_| target.why_not())?;
        self.resume_until(|state| state == State::Signal(libc::SIGTRAP))?;
        memory.write_all_at(&kept, entry).map_err(|_| target.why_not())?;
        let mut registers = Registers::of(self.pid).map_err(Error::Forbidden)?;
        registers.set_instruction(entry);
        // From here on a tracer that dies leaves it as if nothing had been: also without our signal.
        registers.give(self.pid).map_err(Error::Forbidden)?;
        ptrace::take_signal(self.pid).map_err(Error::Forbidden)?;
        let begun = match starts.wish(self.pid) {
            Wish::Load(plan) => self.load(&plan, registers).map(Begun::Loaded),
            Wish::PassOn => Ok(Begun::PassedOn),
            Wish::LetGo => Ok(Begun::LetGo),
        };
        // Whatever has come of it, the program begins.
        registers.give(self.pid).map_err(Error::Forbidden)?;
        if let Ok(Begun::PassedOn) = begun {
            ptrace::follow_children(self.pid, true).map_err(Error::Forbidden)?;
            ptrace::resume(self.pid, 0).map_err(Error::Forbidden)?;
        }
        begun
    }

    fn load(&self, plan: &[u8], registers: Registers) -> Result<Loaded, Error> {
        let visit = match Visit::open(self.pid) {
            Err(Error::NoLoader) if Bare::can(plan) => return self.count(plan, registers).map(Loaded::bare),
            visit => visit?,
        };
        self.go_through(visit.prepare_start()?, registers)?;
        let load = Load { library: self.library, plan, place: "" };
        let done = visit.attend(load, self.patience);
        self.run_until(|state| state == State::Signal(libc::SIGTRAP))?;
        visit.end_start()?;
        done
    }

    fn count(&self, plan: &[u8], registers: Registers) -> Result<Bare, Error> {
        let target = Target::any(self.pid)?;
        let prepared = Prepared::new(&target, plan)?;
        self.go_through(prepared.maker.prepare_start()?, registers)?;
        let memory = prepared.maker.take(self.pid, |file| prepared.layout.fill(file), self.patience);
        self.run_until(|state| state == State::Signal(libc::SIGTRAP))?;
        prepared.maker.end_start()?;
        prepared.begin_at_start(memory?)
    }

    /// Lets it go on at `code`, which ends with a breakpoint.
    fn go_through(&self, code: u64, mut registers: Registers) -> Result<(), Error> {
        registers.go(code);
        registers.give(self.pid).map_err(Error::Forbidden)?;
        ptrace::resume(self.pid, 0).map_err(Error::Forbidden)
    }

    /// Lets it go on until it stops so, by whatever signals.
    fn resume_until(&self, wanted: impl Fn(State) -> bool) -> Result<(), Error> {
        ptrace::resume(self.pid, 0).map_err(Error::Forbidden)?;
        self.run_until(wanted)
    }

    /// Waits until it has stopped so; wherever else it stops it is let go on, with its signal.
    fn run_until(&self, wanted: impl Fn(State) -> bool) -> Result<(), Error> {
        loop {
            let state = self.stop()?;
            if wanted(state) {
                return Ok(());
            }
            let signal = if let State::Signal(signal) = state { signal } else { 0 };
            ptrace::resume(self.pid, signal).map_err(Error::Forbidden)?;
        }
    }

    fn stop(&self) -> Result<State, Error> {
        loop {
            match ptrace::state(self.pid) {
                Ok(State::Runs) | Err(Errno(libc::EINTR)) => {}
                Ok(State::Gone) | Err(Errno(libc::ECHILD)) => return Err(Error::Ended),
                state => return state.map_err(Error::Forbidden),
            }
            if self.patience.is_over() {
                return Err(Error::Silent(0));
            }
            std::thread::sleep(LOOK);
        }
    }

    /// Where the program begins.
    fn entry(&self) -> Option<u64> {
        let words = std::fs::read(format!("/proc/{}/auxv", self.pid)).ok()?;
        let words: Vec<u64> = words.as_chunks::<8>().0.iter().map(|word| u64::from_le_bytes(*word)).collect();
        words.as_chunks::<2>().0.iter().find(|[kind, _]| *kind == AT_ENTRY).map(|[_, entry]| *entry)
    }
}
