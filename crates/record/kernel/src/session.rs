//! One recording of kernel events: programs loaded, attached, and their rings.
//!
//! ```text
//! Request ─▶ maps (rings, state) ─▶ thread programs ─▶ event programs ─▶ attached, disabled ─ enable() ─▶ records
//! ```
//! Everything is attached before the first record is written: programs look at a word that [`Kernel::enable`] sets.
//! Dropping a [`Kernel`] detaches all of it.

mod add;
mod follow;
mod ids;
mod losses;
mod multi_probe;
mod place;
mod probe_scope;
mod replace;
mod request;
mod selection;
mod state;
mod thread_table;

pub use follow::Launching;
pub use ids::Ids;
pub use losses::Losses;
pub use request::{Refused, Request, THREADS, Targets};
pub use state::Kernel;

use crate::Error;
use crate::births::Born;
use crate::map::{Map, State};
use mote_bpf::Insn;
use mote_catalog::btf::Btf;
use mote_catalog::event::Hook;
use mote_generate::{Chosen, Facts, state as words};
use mote_ring::Geometry;
use mote_ring::reader::Channel;
use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};

impl Kernel {
    /// Makes rings, loads and attaches everything, disabled. Events that the kernel refuses are
    /// [listed](Kernel::refused), and the others recorded.
    ///
    /// # Errors
    /// [`Error`] when nothing can be recorded: says what is missing for what.
    ///
    /// # Cost
    /// A program takes the kernel some milliseconds to verify; reading its types takes some 50.
    pub fn start(request: Request) -> Result<Kernel, Error> {
        add::start(request, facts())
    }

    /// As [`Kernel::start`], with types that were read before.
    ///
    /// # Errors
    /// As [`Kernel::start`].
    pub fn start_with(request: Request, facts: Facts) -> Result<Kernel, Error> {
        add::start(request, Ok(facts))
    }

    /// Attaches more events, with the filters' maps known at the start.
    ///
    /// # Errors
    /// As [`Kernel::start`].
    pub fn add(&self, events: &[Chosen]) -> Result<(), Error> {
        add::events(self, events)
    }

    /// Records these events from now on, and no others, with these maps of their filters: those that there are come
    /// first. Every event is recorded as before or as now, none twice and none not at all (`change` says how, and the
    /// one exception).
    ///
    /// # Errors
    /// As [`Kernel::start`], and when the kernel refuses a program: then nothing has changed.
    ///
    /// # Cost
    /// Programs are made and verified as at the start. After the first change a tail call for each event.
    pub fn replace(&self, events: &[Chosen], maps: Vec<Arc<Map>>) -> Result<(), Error> {
        replace::replace(self, events, maps)
    }

    /// Attaches a program that was made elsewhere, which lives as long as this. Its instructions name maps by numbers:
    /// 0 the state ([`mote_generate::threads`] and [`mote_generate::state`] say what lies where), 1 the rings, 2 and up
    /// `maps`. Hooks of system calls are those of all calls: the context is that of the tracepoint.
    ///
    /// # Errors
    /// [`Error`]: why it was refused.
    pub fn attach(&self, name: &str, hook: &Hook, insns: &[Insn], maps: &[&Map]) -> Result<(), Error> {
        add::program(self, name, hook, insns, maps)
    }

    /// Events that are not recorded, by their numbers, each with the reason.
    pub fn refused(&self) -> Vec<(u16, String)> {
        self.attached().refused.iter().map(|refused| (refused.id, refused.why.to_string())).collect()
    }

    /// The rings. Those of CPU `n` are `n` (usual) and `n + cpus` (records of programs that interrupted another one
    /// that was writing).
    pub fn channel(&self) -> &Arc<Channel> {
        &self.channel
    }

    /// Sizes and number of the rings, those of the second level counted.
    pub fn geometry(&self) -> Geometry {
        self.channel.geometry()
    }

    /// Lets all programs record from now on.
    pub fn enable(&self) {
        self.state.enable(self.generation.load(Ordering::Relaxed));
    }

    /// Lets none of them record; they stay attached. Returns when those that were running have ended: no record comes
    /// behind.
    pub fn disable(&self) {
        self.state.enable(0);
        place::grace();
    }

    /// Follows what the calling thread forks while the answer is held.
    ///
    /// # Errors
    /// [`Error::Process`] when the table is full.
    pub fn launching(&self) -> Result<Launching<'_>, Error> {
        follow::launching(self)
    }

    /// Follows a process: all its threads, and what they fork. Returns how many threads it has.
    ///
    /// # Errors
    /// When there is no such process, or the table is full; in a pid namespace on a kernel that does not say which
    /// process is meant.
    pub fn follow(&self, pid: u32) -> Result<usize, Error> {
        follow::process(self, pid)
    }

    /// Probes code in a process that was forked by one of [`Targets::ProbedIn`], where that is not so already. Returns
    /// whether there is any.
    ///
    /// # Errors
    /// [`Error::Attach`].
    pub fn probe_process(&self, pid: u32) -> Result<bool, Error> {
        probe_scope::add(self, pid)
    }

    /// What the user should know of where code is probed: a sentence for each file that other processes map, too.
    pub fn notes(&self) -> Vec<String> {
        self.scope.notes()
    }

    /// Follows a process no longer, nor its threads. What it has forked stays followed.
    pub fn forget(&self, pid: u32) {
        follow::forget(self, pid);
    }

    /// How many threads are followed that have not exited. With [`Targets::All`], [`Targets::Others`] and
    /// [`Targets::Cgroup`] none is.
    pub fn live(&self) -> usize {
        let live = |thread: &crate::threads::Thread| {
            thread.flags & mote_generate::threads::TRACED != 0 && !thread.exiting
        };
        self.state.threads().filter(live).count()
    }

    /// Threads that are in a system call of which the duration is recorded, with its number and since when
    /// (CLOCK_MONOTONIC, ns).
    pub fn open_syscalls(&self) -> Vec<(u32, u32, u64)> {
        let open = |thread: crate::threads::Thread| {
            thread.syscall.filter(|_| !thread.exiting).map(|(number, since)| (thread.tid, number, since))
        };
        self.state.threads().filter_map(open).collect()
    }

    /// Gives all threads of a process, and those that they create, the number of the process's cooperation area (0:
    /// none). They need not be followed.
    ///
    /// # Errors
    /// As [`Kernel::follow`].
    pub fn set_process_index(&self, pid: u32, index: u32) -> Result<(), Error> {
        follow::set_index(self, pid, index)
    }

    /// Number of the cooperation area of a thread.
    pub fn process_index(&self, tid: u32) -> Option<u32> {
        follow::find(self, tid).map(|entry| self.state.index(entry))
    }

    /// The kernel's clock as records have it (CLOCK_MONOTONIC, ns), read by a program.
    ///
    /// # Errors
    /// `ENOTSUPP` on kernels before 5.10.
    pub fn now(&self) -> mote_sys::Result<u64> {
        self.test_run.run()?;
        Ok(self.state.memory().load64(words::NOW as usize))
    }

    /// How many attachments the kernel ends one after the other, and so slowly that a child of this process ends with
    /// them, when this is dropped; 0 for none.
    pub fn left_behind(&self) -> usize {
        crate::attach::left_behind(self.attached().links())
    }

    /// What was not recorded, beside what the rings themselves count.
    pub fn losses(&self) -> Losses {
        losses::of(self)
    }

    /// The state map: thread table, switches, scratch. For programs that share it.
    pub fn state(&self) -> &Arc<State> {
        &self.state
    }

    /// The map that holds the rings. For programs that share it.
    pub fn rings(&self) -> &Map {
        &self.rings
    }

    /// Threads that were found since the last time, and have other ids for themselves than the recorder has for them.
    /// Also, how many of them were lost.
    pub fn born(&self) -> (Vec<Born>, u64) {
        let mut births = self.births.lock().unwrap_or_else(PoisonError::into_inner);
        let mut found = std::mem::take(&mut births.found);
        let (born, lost) = self.state.births(&mut births.read);
        found.extend(born);
        (found, lost)
    }

    /// Whose ids of threads there are in records.
    pub fn ids(&self) -> Ids {
        ids::of(self)
    }

    /// Thread id of the caller, as the kernel counts; another one than gettid(2)'s inside a pid namespace.
    ///
    /// # Errors
    /// As [`Kernel::now`].
    pub fn own_thread(&self) -> mote_sys::Result<u32> {
        self.test_run.run()
    }
}

/// What programs need to know of the running kernel's types.
///
/// # Errors
/// [`mote_generate::Error::Types`], naming what is not there.
///
/// # Cost
/// Some 50 ms: the kernel's types are many.
pub fn facts() -> Result<Facts, Error> {
    let btf = Btf::of_kernel().map_err(|error| mote_generate::Error::Types(error.to_string()))?;
    Ok(Facts::of(&btf)?)
}

#[cfg(test)]
mod function_tests;
#[cfg(test)]
mod tests;
