//! A program that is started for us: a library is loaded into it before its first instruction, but behind the dynamic
//! linker's work.
//!
//! Whoever is to become the program stops itself, and then becomes it. It is stopped once more where the dynamic linker
//! hands over: no other thread and no lock is in the way there.

use crate::arch::{BREAKPOINT, Registers};
use crate::error::Error;
use crate::target::{Patience, Target};
use crate::visit::{Load, Visit};
use mote_sys::Errno;
use mote_sys::ptrace::{self, State};
use mote_sys::thread::send_signal;
use std::os::unix::fs::FileExt;
use std::time::Duration;

/// How often is looked whether it has stopped.
const LOOK: Duration = Duration::from_micros(200);
/// Where a program begins (`AT_ENTRY`, elf.h).
const AT_ENTRY: u64 = 9;

/// Loads a library into the program that the process `pid`, which stops itself, is about to become. `plan` makes what
/// the library is given, when all that the program begins with is in its memory; without an answer nothing is loaded.
/// Returns how many functions have probes. The calling thread is the process's tracer meanwhile.
///
/// # Errors
/// [`Error`]; whatever it is, the program runs.
pub fn at_start(
    pid: i32,
    library: &[u8],
    plan: impl FnOnce() -> Option<Vec<u8>>,
    patience: Patience<'_>,
) -> Result<Option<u64>, Error> {
    ptrace::seize_until_exec(pid).map_err(Error::Forbidden)?;
    let loaded = Held { pid, patience }.load(library, plan);
    let _ = ptrace::detach(pid, 0);
    // If it has not come to be the program.
    let _ = send_signal(pid, pid, libc::SIGCONT);
    loaded
}

struct Held<'p> {
    pid: i32,
    patience: Patience<'p>,
}

impl Held<'_> {
    fn load(&self, library: &[u8], plan: impl FnOnce() -> Option<Vec<u8>>) -> Result<Option<u64>, Error> {
        self.run_until(|state| state == State::GroupStop)?;
        send_signal(self.pid, self.pid, libc::SIGCONT).map_err(Error::Forbidden)?;
        self.resume_until(|state| state == State::Exec)?;
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
        let loaded = self.load_here(library, plan, registers);
        // Whatever has come of it, the program begins.
        registers.give(self.pid).map_err(Error::Forbidden)?;
        loaded
    }

    fn load_here(
        &self,
        library: &[u8],
        plan: impl FnOnce() -> Option<Vec<u8>>,
        registers: Registers,
    ) -> Result<Option<u64>, Error> {
        let visit = Visit::open(self.pid)?;
        let Some(plan) = plan() else { return Ok(None) };
        let mut away = registers;
        away.go(visit.prepare_start(library)?);
        away.give(self.pid).map_err(Error::Forbidden)?;
        ptrace::resume(self.pid, 0).map_err(Error::Forbidden)?;
        let load = Load { library, plan: &plan, place: "" };
        let done = visit.attend(load, self.patience);
        self.run_until(|state| state == State::Signal(libc::SIGTRAP))?;
        visit.end_start()?;
        done.map(Some)
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
