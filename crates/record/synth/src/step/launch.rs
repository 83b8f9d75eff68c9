//! A program that is stopped where it begins.

use crate::error::{Error, cannot};
use mote_sys::Errno;
use mote_sys::ptrace::{self, State};
use mote_sys::thread::send_signal;
use nix::sched::{CpuSet, sched_getaffinity, sched_getcpu, sched_setaffinity};
use nix::sys::wait::{WaitPidFlag, waitpid};
use nix::unistd::Pid;
use std::ffi::OsString;
use std::process::Command;

/// Stops itself, and becomes the program.
const STOP_AND_EXEC: &str = "kill -STOP $$; exec \"$@\"";

/// What the C library is asked for: no restartable sequences.
const TUNABLE: &str = "glibc.pthread.rseq=0";

/// The calling thread runs on one CPU, and what it starts with it: to hand over between two CPUs takes longer than a
/// step. As it was when it is dropped.
pub(super) struct OneCpu(Option<CpuSet>);

impl OneCpu {
    pub(super) fn here() -> OneCpu {
        let this = Pid::from_raw(0);
        let before = sched_getaffinity(this).ok();
        let mut one = CpuSet::new();
        let is_set = sched_getcpu().and_then(|cpu| one.set(cpu)).and_then(|()| sched_setaffinity(this, &one));
        OneCpu(before.filter(|_| is_set.is_ok()))
    }
}

impl Drop for OneCpu {
    fn drop(&mut self) {
        if let Some(before) = &self.0 {
            let _ = sched_setaffinity(Pid::from_raw(0), before);
        }
    }
}

/// Starts the program of this name and these arguments; it has stopped in exec, before its first instruction, and the
/// calling thread traces it.
pub(super) fn launch(words: &[OsString]) -> Result<i32, Error> {
    let program = words.first().ok_or(Error::NoProgram)?;
    let mut tunables = std::env::var("GLIBC_TUNABLES").unwrap_or_default();
    if !tunables.is_empty() {
        tunables.push(':');
    }
    tunables.push_str(TUNABLE);
    let mut command = Command::new("/bin/sh");
    command.args(["-c", STOP_AND_EXEC, "sh"]).args(words).env("GLIBC_TUNABLES", tunables);
    let child = command.spawn().map_err(cannot("start /bin/sh"))?;
    let pid = child.id() as i32;
    become_program(pid).map_err(|why| match why {
        Error::NotExecuted(_) => Error::NotExecuted(program.to_string_lossy().into_owned()),
        why => {
            // It would stay stopped.
            let _ = send_signal(pid, pid, libc::SIGKILL);
            let _ = waitpid(Pid::from_raw(pid), None);
            why
        }
    })?;
    Ok(pid)
}

fn become_program(pid: i32) -> Result<(), Error> {
    waitpid(Pid::from_raw(pid), Some(WaitPidFlag::WUNTRACED)).map_err(|errno| Errno(errno as i32))?;
    ptrace::seize_until_exec(pid)?;
    until(pid, State::GroupStop)?;
    send_signal(pid, pid, libc::SIGCONT)?;
    ptrace::resume(pid, 0)?;
    until(pid, State::Exec)
}

/// Waits until the process has stopped so; elsewhere it is let go on.
fn until(pid: i32, wanted: State) -> Result<(), Error> {
    loop {
        match ptrace::next_state() {
            Ok((tid, state)) if tid == pid && state == wanted => return Ok(()),
            Ok((_, State::Gone)) => {
                let _ = ptrace::let_rest(pid);
                return Err(Error::NotExecuted(String::new()));
            }
            Ok((tid, State::Signal(signal))) => ptrace::resume(tid, signal)?,
            Ok((tid, _)) => ptrace::resume(tid, 0)?,
            Err(Errno(libc::EINTR)) => {}
            Err(errno) => return Err(errno.into()),
        }
    }
}
