//! The recorded command and the signals around it.

use crate::error::Error;
use nix::sys::signal::{SigSet, Signal, kill};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use nix::unistd::Pid;
use std::ffi::OsString;
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command as Program, ExitStatus};

/// The command, running or done.
pub(crate) struct Command {
    child: Child,
    status: Option<ExitStatus>,
}

impl Command {
    /// Starts it with one more environment variable, and with the signals blocked that were blocked before
    /// [`Signals::catch`].
    pub(crate) fn start(
        command: &[OsString],
        variable: (&str, &str),
        signals: &Signals,
    ) -> Result<Command, Error> {
        let name = command.first().cloned().unwrap_or_default();
        let mut program = Program::new(&name);
        program.args(command.iter().skip(1)).env(variable.0, variable.1);
        let child = signals.let_through(|| program.spawn());
        let child = child.map_err(|why| Error::Command(name.to_string_lossy().into_owned(), why))?;
        Ok(Command { child, status: None })
    }

    /// Its process id.
    pub(crate) fn pid(&self) -> i32 {
        self.child.id() as i32
    }

    /// Whether it has ended.
    pub(crate) fn has_ended(&mut self) -> bool {
        if self.status.is_none() {
            self.status = self.child.try_wait().ok().flatten();
        }
        self.status.is_some()
    }

    /// Passes a signal on, if it still runs.
    pub(crate) fn pass_on(&mut self, signal: Signal) {
        if !self.has_ended() {
            let _ = kill(Pid::from_raw(self.pid()), signal);
        }
    }

    /// Waits for its end. Answers its exit status, or 128 plus the signal that ended it.
    pub(crate) fn wait(&mut self) -> Option<i32> {
        if self.status.is_none() {
            self.status = self.child.wait().ok();
        }
        let status = self.status?;
        status.code().or_else(|| status.signal().map(|signal| 128 + signal))
    }
}

/// Signals that the recorder handles in its loop instead of dying of them.
pub(crate) struct Signals {
    fd: SignalFd,
    before: SigSet,
    mask: SigSet,
}

/// A signal that arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Arrived {
    /// Which.
    pub(crate) signal: Signal,
    /// It came from the terminal, so the command has got it too.
    pub(crate) from_terminal: bool,
}

impl Arrived {
    /// Whether it asks the recording to end; the others only wake the loop.
    pub(crate) fn asks_to_end(self) -> bool {
        !matches!(self.signal, Signal::SIGCHLD | Signal::SIGXFSZ)
    }
}

impl Signals {
    /// Blocks them for the calling thread and those that it starts. SIGXFSZ is among them so that a file that may not
    /// grow is an error like any other.
    pub(crate) fn catch() -> Result<Signals, Error> {
        let what = "handle signals";
        let fail = |errno: nix::Error| Error::Loop { what, why: errno.into() };
        let mut mask = SigSet::empty();
        for signal in [
            Signal::SIGINT,
            Signal::SIGTERM,
            Signal::SIGHUP,
            Signal::SIGQUIT,
            Signal::SIGCHLD,
            Signal::SIGXFSZ,
        ] {
            mask.add(signal);
        }
        let before = SigSet::thread_get_mask().map_err(fail)?;
        mask.thread_block().map_err(fail)?;
        let fd = SignalFd::with_flags(&mask, SfdFlags::SFD_NONBLOCK | SfdFlags::SFD_CLOEXEC).map_err(fail)?;
        Ok(Signals { fd, before, mask })
    }

    /// Does something with the signals as they were before: a child inherits what is blocked.
    fn let_through<T>(&self, what: impl FnOnce() -> T) -> T {
        let _ = self.before.thread_set_mask();
        let done = what();
        let _ = self.mask.thread_block();
        done
    }

    /// The descriptor to poll.
    pub(crate) fn fd(&self) -> &SignalFd {
        &self.fd
    }

    /// The next signal that has arrived.
    pub(crate) fn next(&self) -> Option<Arrived> {
        /// Sent by the kernel (asm-generic/siginfo.h).
        const SI_KERNEL: i32 = 0x80;
        let info = self.fd.read_signal().ok()??;
        let signal = Signal::try_from(info.ssi_signo as i32).ok()?;
        Some(Arrived { signal, from_terminal: info.ssi_code == SI_KERNEL })
    }
}

impl Drop for Signals {
    fn drop(&mut self) {
        let _ = self.before.thread_set_mask();
    }
}
