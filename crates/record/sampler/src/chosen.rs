//! Which threads are sampled, where there is one event for each CPU.
//!
//! An event of a thread that is taken by a timer starts that timer whenever the thread gets a CPU, and stops it when it
//! leaves. In a virtual machine each of that is an exit: of a server that switches for every second request it was all
//! that samples cost. The timer of a CPU runs on. Programs of the kernel keep a table of the threads that are meant (at
//! forks, execs and exits, as the kernel inherits events), and one at the event drops the samples of others, before
//! they have a stack.

use crate::programs::{self, LAUNCHES, SAMPLED};
use crate::replaced::{Replaced, load_sample};
use crate::sampler::Kind;
use mote_bpf::Insn;
use mote_builder::BuildError;
use mote_catalog::btf::Btf;
use mote_generate::namespace::member;
use mote_sys::bpf::link::{self, TRACE_RAW_TP};
use mote_sys::bpf::program::{Loading, load};
use mote_sys::bpf::{Map, MapType, ProgramType};
use mote_sys::fd::Fd;
use mote_sys::{Errno, Result};

/// The number of the outermost pid namespace (`PROC_PID_INIT_INO`, include/linux/proc_ns.h).
const OUTERMOST: &str = "pid:[4026531836]";
/// Threads at a time.
const THREADS: u32 = 1 << 16;

/// How a thread is chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    /// It is sampled, and so is what it starts.
    Sampled,
    /// What it starts is sampled, from the moment on when that runs another program.
    Launches,
}

/// The threads that are chosen, and the programs that know them.
#[derive(Debug)]
pub(crate) struct Chosen {
    /// At forks, execs and exits.
    _links: Vec<Fd>,
    /// At the events.
    filters: Vec<Fd>,
    filter: Fd,
    threads: Map,
}

impl Chosen {
    /// Attaches the programs; no thread is chosen yet. That at samples gives out what was `replaced`, too.
    ///
    /// # Errors
    /// `EPERM` without the right to load programs; `ENOENT` where the kernel's types are others.
    pub(crate) fn watch(btf: &Btf, replaced: Option<&Replaced>) -> Result<Chosen> {
        let threads = Map::create(MapType::Hash, 4, 4, THREADS)?;
        let load =
            |(kind, id): (ProgramType, u32), name, insns: std::result::Result<Vec<Insn>, BuildError>| {
                let insns = insns.map_err(|_| Errno(libc::EINVAL))?;
                let words: Vec<u64> = insns.iter().map(|insn| u64::from_le_bytes(insn.to_bytes())).collect();
                let loading = Loading {
                    program_type: kind,
                    attach_type: if id == 0 { 0 } else { TRACE_RAW_TP },
                    attach_btf_id: id,
                    name,
                    instructions: &words,
                    maps: &[threads.raw()],
                };
                load(&loading, &mut [])
            };
        let missing = Errno(libc::ENOENT);
        let pid = member(btf, "pid").ok_or(missing)?;
        let at = [
            ("sched_process_fork", programs::fork(pid)),
            ("sched_process_exec", programs::exec(pid)),
            ("sched_process_exit", programs::exit(pid)),
        ];
        let links: Result<Vec<Fd>> = at
            .into_iter()
            .map(|(name, insns)| {
                let id = btf.tracepoint(name).ok_or(missing)?;
                link::raw_tracepoint(&load((ProgramType::Tracing, id), name, insns)?, None)
            })
            .collect();
        let filter = replaced.and_then(|replaced| replaced.load(Kind::Running, Some(&threads)).ok());
        let filter = match filter {
            Some(filter) => filter,
            None => load_sample(programs::sample(true, None), &[&threads])?,
        };
        Ok(Chosen { _links: links?, filters: Vec::new(), filter, threads })
    }

    /// Chooses a thread, and what it starts from now on.
    ///
    /// # Errors
    /// `E2BIG`: there are too many.
    pub(crate) fn choose(&self, tid: u32, state: State) -> Result<()> {
        let state = match state {
            State::Sampled => SAMPLED,
            State::Launches => LAUNCHES,
        };
        self.threads.update(&tid.to_ne_bytes(), &state.to_ne_bytes())
    }

    /// Chooses no longer what a thread that has ended would have been.
    pub(crate) fn forget(&self, tid: u32) {
        // It may not have been there.
        let _ = self.threads.delete(&tid.to_ne_bytes());
    }

    /// Drops from now on what an event samples of others.
    ///
    /// # Errors
    /// `EINVAL` before Linux 5.15.
    pub(crate) fn filter(&mut self, event: &Fd) -> Result<()> {
        self.filters.push(link::perf_event(&self.filter, event, 0)?);
        Ok(())
    }
}

/// The kernel's types, where it runs our programs.
///
/// # Errors
/// `EPERM` without the right to load programs; `ENOENT` where the kernel has no BTF; `EXDEV` in a pid namespace, where
/// threads have other ids than the kernel knows them by.
pub(crate) fn types() -> Result<Btf> {
    let namespace = std::fs::read_link("/proc/self/ns/pid").unwrap_or_default();
    if namespace.to_string_lossy() != OUTERMOST {
        return Err(Errno(libc::EXDEV));
    }
    // Without the right to make a map there is none to load a program.
    Map::create(MapType::Array, 4, 4, 1)?;
    Btf::of_kernel().map_err(|_| Errno(libc::ENOENT))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};
    use std::process::{Command, Stdio};

    fn state(chosen: &Chosen, tid: u32) -> Option<u32> {
        let mut state = [0; 4];
        chosen.threads.lookup(&tid.to_ne_bytes(), &mut state).ok()?;
        Some(u32::from_ne_bytes(state))
    }

    #[test]
    fn what_a_thread_starts_is_chosen_from_its_exec_to_its_end() {
        let chosen = match types().and_then(|btf| Chosen::watch(&btf, None)) {
            Ok(chosen) => chosen,
            Err(why) => return mote_skip::skip(format_args!("{why:?}")),
        };
        let own = mote_sys::process::tid().unsigned_abs();
        let shell = || {
            let mut shell = Command::new("sh");
            shell.args(["-c", "echo; read line; exit"]).stdin(Stdio::piped()).stdout(Stdio::piped());
            let mut shell = shell.spawn().expect("every machine has it");
            // It has run the shell when that says something.
            let said = shell.stdout.as_mut().expect("a pipe").read(&mut [0]);
            assert_eq!(said.expect("it says something"), 1);
            shell
        };
        let mut other = shell();
        chosen.choose(own, State::Launches).expect("there is room");
        let mut child = shell();
        assert_eq!(state(&chosen, child.id()), Some(SAMPLED));
        assert_eq!([own, other.id()].map(|tid| state(&chosen, tid)), [Some(LAUNCHES), None]);
        let thread = std::thread::spawn(|| mote_sys::process::tid().unsigned_abs());
        let thread = thread.join().expect("it answers");
        assert_ne!(state(&chosen, thread), Some(SAMPLED), "it has run no program");
        chosen.choose(own, State::Sampled).expect("there is room");
        let (tell, told) = std::sync::mpsc::channel::<()>();
        let (say, said) = std::sync::mpsc::channel();
        let waiting = std::thread::spawn(move || {
            say.send(mote_sys::process::tid().unsigned_abs()).expect("it is waited for");
            told.recv()
        });
        let waits = said.recv().expect("it has begun");
        assert_eq!(state(&chosen, waits), Some(SAMPLED));
        drop(tell);
        let _ = waiting.join();
        for child in [&mut child, &mut other] {
            child.stdin.take().expect("a pipe").write_all(b"\n").expect("it reads");
            child.wait().expect("it ends");
        }
        assert_eq!(state(&chosen, child.id()), None, "its id may be another one's");
        chosen.forget(own);
        assert_eq!(state(&chosen, own), None);
    }
}
