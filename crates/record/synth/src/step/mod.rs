//! The engine **step**: a program runs instruction by instruction under ptrace(2), with its threads and children.
//!
//! It is the reference for small programs: some 10,000 to 60,000 instructions a second, and exact about each. What it
//! reports differs from what the processor would do in this:
//! - threads run as slowly as that, and on one CPU: what depends on time runs otherwise;
//! - restartable sequences (rseq(2)) would never get through, because each stop restarts them: the C library is asked
//!   not to use them, and to programs that ask by themselves the kernel has none (ENOSYS);
//! - a program that stops (SIGSTOP) goes on at once; a SIGTRAP that is sent to it by kill(2) is lost;
//! - a system call that begins again because of a signal without a handler counts once;
//! - of a process that ends while another of its threads runs, that thread's last instruction may be missing, or be a
//!   system call that was not made.

mod launch;
mod thread;

use crate::arch::Registers;
use crate::error::Error;
use crate::fact::Fact;
use crate::maps;
use crate::observer::{Image, Note, Observer};
use crate::stop::Stopper;
use mote_sys::Errno;
use mote_sys::ptrace::{self, State};
use nix::sys::signal::Signal;
use nix::sys::wait::{WaitStatus, waitpid};
use nix::unistd::Pid;
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use thread::Thread;

/// Runs a program, named by its first word, to its end, and that of its children. Returns its exit status, or the
/// signal's number below 0. The calling thread traces it, and must have no other children that end meanwhile.
///
/// # Errors
/// [`Error`]: the program is killed then.
pub fn run(words: &[OsString], observer: &mut dyn Observer) -> Result<i32, Error> {
    let _one_cpu = launch::OneCpu::here();
    let pid = launch::launch(words)?;
    let mut engine =
        Engine { observer, threads: BTreeMap::new(), images: BTreeSet::new(), first: pid, status: None };
    let tracer = nix::unistd::gettid().as_raw();
    let stopper = Stopper::new(engine.observer.stop(), move || {
        let all = std::fs::read_dir("/proc").into_iter().flatten().flatten();
        all.filter_map(|one| one.file_name().to_str()?.parse().ok()).for_each(|pid| end(pid, tracer));
    });
    let done = engine.begin(pid).and_then(|()| engine.follow());
    drop(stopper);
    if done.is_err() {
        engine.kill();
    }
    done.map(|()| engine.status.unwrap_or(-1))
}

/// Ends a process, if it is one that this thread of ours traces: another one may have got its number.
fn end(pid: i32, tracer: i32) {
    if status(pid, "TracerPid:") == Some(tracer) {
        let _ = nix::sys::signal::kill(Pid::from_raw(pid), Signal::SIGKILL);
    }
}

struct Engine<'o> {
    observer: &'o mut dyn Observer,
    threads: BTreeMap<i32, Thread>,
    /// What is reported of each process: its mappings' begin and end.
    images: BTreeSet<(i32, u64, u64)>,
    first: i32,
    status: Option<i32>,
}

impl Engine<'_> {
    /// The first thread has stopped in exec, where the program begins.
    fn begin(&mut self, pid: i32) -> Result<(), Error> {
        ptrace::follow_children(pid, true)?;
        self.appear(pid)?;
        self.becomes(pid)?;
        self.look(pid)?;
        Ok(ptrace::step(pid, 0)?)
    }

    /// Takes stops until no thread is left.
    fn follow(&mut self) -> Result<(), Error> {
        loop {
            match ptrace::next_state() {
                Ok((tid, State::Gone)) => self.ends(tid)?,
                Ok((tid, state)) => self.stop(tid, state)?,
                Err(Errno(libc::EINTR)) => {}
                Err(Errno(libc::ECHILD)) => return Ok(()),
                Err(errno) => return Err(errno.into()),
            }
        }
    }

    /// A thread that has ended by then is found to have so by the next wait.
    fn stop(&mut self, tid: i32, state: State) -> Result<(), Error> {
        match self.stopped(tid, state) {
            Err(Error::Ptrace(Errno(libc::ESRCH))) => Ok(()),
            done => done,
        }
    }

    fn stopped(&mut self, tid: i32, state: State) -> Result<(), Error> {
        if !self.threads.contains_key(&tid) {
            self.appear(tid)?;
            self.look(tid)?;
        }
        let signal = match state {
            State::Signal(signal) => self.trapped(tid, signal)?,
            State::Exec => {
                self.becomes(tid)?;
                self.look(tid)?;
                0
            }
            _ => 0,
        };
        Ok(ptrace::step(tid, signal)?)
    }

    /// A thread that was not seen before.
    fn appear(&mut self, tid: i32) -> Result<(), Error> {
        let pid = process_of(tid).unwrap_or(tid);
        let name = std::fs::read_to_string(format!("/proc/{tid}/comm")).unwrap_or_default();
        self.observer.note(tid, &Note::Thread { pid, name: name.trim_end().to_owned() })?;
        let thread = Thread::new(tid, pid)?;
        self.threads.insert(tid, thread);
        // A process of its own has what its parent had.
        self.map(tid)
    }

    /// The thread's process has become another program. The thread has its process's number then, and the others are
    /// gone without a word.
    fn becomes(&mut self, tid: i32) -> Result<(), Error> {
        let path = std::fs::read_link(format!("/proc/{tid}/exe")).unwrap_or_default();
        let Some(thread) = self.threads.get_mut(&tid) else { return Ok(()) };
        let pid = thread.pid;
        thread.becomes(&mut *self.observer)?;
        self.observer.note(tid, &Note::Exec { pid, path })?;
        self.images.retain(|(of, ..)| *of != pid);
        self.map(tid)
    }

    /// Reports what code of files is mapped that was not before.
    fn map(&mut self, tid: i32) -> Result<(), Error> {
        let Some(thread) = self.threads.get_mut(&tid) else { return Ok(()) };
        let pid = thread.pid;
        // Gone already.
        let Ok(mappings) = maps::read(pid) else { return Ok(()) };
        let is_there = |start: u64, end| mappings.iter().any(|one| one.start == start && one.end == end);
        self.images.retain(|(of, start, end)| *of != pid || is_there(*start, *end));
        for mapping in mappings.iter().filter(|mapping| mapping.is_executable) {
            let Some(path) = &mapping.path else { continue };
            if self.images.insert((pid, mapping.start, mapping.end)) {
                let Mapped { start, bytes, offset } = mapping.into();
                let image = Image { pid, start, bytes, path: path.clone(), offset };
                self.observer.note(tid, &Note::Image(image))?;
            }
        }
        for thread in self.threads.values_mut().filter(|thread| thread.pid == pid) {
            thread.set_mappings(&mappings);
        }
        Ok(())
    }

    /// A step, or a signal: returns the one that the thread is to get.
    fn trapped(&mut self, tid: i32, signal: i32) -> Result<i32, Error> {
        let Some(thread) = self.threads.get_mut(&tid) else { return Ok(signal) };
        let registers = Registers::of(tid)?;
        let has_mapped = thread.has_mapped();
        let signal = thread.stopped(&registers, signal, &mut *self.observer)?;
        if has_mapped {
            self.map(tid)?;
        }
        self.look(tid)?;
        Ok(signal)
    }

    /// Looks at the instruction that a stopped thread executes next.
    fn look(&mut self, tid: i32) -> Result<(), Error> {
        let Some(thread) = self.threads.get_mut(&tid) else { return Ok(()) };
        let registers = Registers::of(tid)?;
        thread.look(&registers, &mut *self.observer)?;
        if thread.asks_for_rseq() {
            // As a kernel without them would answer.
            registers.call_nothing(tid)?;
        }
        Ok(())
    }

    fn ends(&mut self, tid: i32) -> Result<(), Error> {
        let status = match waitpid(Pid::from_raw(tid), Some(nix::sys::wait::WaitPidFlag::__WALL)) {
            Ok(WaitStatus::Exited(_, code)) => Some(code),
            Ok(WaitStatus::Signaled(_, signal, _)) => Some(-(signal as i32)),
            _ => None,
        };
        if tid == self.first {
            self.status = status;
        }
        let Some(mut thread) = self.threads.remove(&tid) else { return Ok(()) };
        thread.ends(&mut *self.observer)?;
        self.observer.fact(tid, &Fact::End)?;
        if tid == thread.pid {
            self.images.retain(|(of, ..)| *of != tid);
            self.observer.note(tid, &Note::Exit { pid: tid, status })?;
        }
        Ok(())
    }

    /// Has all end that are known.
    /// Ends all that is left.
    fn kill(&mut self) {
        let tracer = nix::unistd::gettid().as_raw();
        let pids: BTreeSet<i32> =
            self.threads.values().map(|thread| thread.pid).chain([self.first]).collect();
        pids.into_iter().for_each(|pid| end(pid, tracer));
        while let Ok((tid, state)) = ptrace::next_state() {
            let _ = if state == State::Gone { ptrace::let_rest(tid) } else { ptrace::resume(tid, 0) };
        }
    }
}

/// The place of a mapping.
struct Mapped {
    start: u64,
    bytes: u64,
    offset: u64,
}

impl From<&maps::Mapping> for Mapped {
    fn from(mapping: &maps::Mapping) -> Mapped {
        Mapped { start: mapping.start, bytes: mapping.end - mapping.start, offset: mapping.offset }
    }
}

/// The process of a thread.
fn process_of(tid: i32) -> Option<i32> {
    status(tid, "Tgid:")
}

/// A number of the status of a thread or process (proc_pid_status(5)).
fn status(tid: i32, field: &str) -> Option<i32> {
    let status = std::fs::read_to_string(format!("/proc/{tid}/status")).ok()?;
    status.lines().find_map(|line| line.strip_prefix(field)?.trim().parse().ok())
}
