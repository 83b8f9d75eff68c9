//! The recorded command and the signals around it.

use crate::error::Error;
use crate::umask::Umask;
use nix::errno::Errno;
use nix::spawn::{PosixSpawnAttr, PosixSpawnFileActions, PosixSpawnFlags, posix_spawnp};
use nix::sys::signal::{SigSet, Signal, kill};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use nix::sys::wait::{Id, WaitPidFlag, WaitStatus, waitid, waitpid};
use nix::unistd::Pid;
use std::ffi::{CString, OsStr, OsString};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// The command, running or done.
pub(crate) struct Command {
    pid: Pid,
    /// Exit status, or 128 plus the signal that ended it.
    status: Option<i32>,
    /// A thread of ours traces it, and waits for its stops, which we would take away.
    is_traced: Arc<AtomicBool>,
}

impl Command {
    /// As long as it is set, a thread of ours may trace it.
    pub(crate) fn trace(&self) -> Arc<AtomicBool> {
        self.is_traced.clone()
    }

    /// Its process.
    pub(crate) fn id(&self) -> u32 {
        self.pid.as_raw().unsigned_abs()
    }

    /// Starts it with one more environment variable, and with the signals blocked that were blocked before
    /// [`Signals::catch`]. The recorder itself keeps them blocked, or one that arrives now would end it.
    pub(crate) fn start(
        command: &[OsString],
        variable: (&str, &str),
        signals: &Signals,
    ) -> Result<Command, Error> {
        let name = command.first().cloned().unwrap_or_default();
        let fail = |why: Errno| Error::Command(name.to_string_lossy().into_owned(), why.into());
        let words: Result<Vec<CString>, Errno> = command.iter().map(|word| text(word)).collect();
        let others = std::env::vars_os().filter(|(name, _)| name != variable.0);
        let all = others.chain([(variable.0.into(), variable.1.into())]);
        let environment: Result<Vec<CString>, Errno> = all.map(|(name, value)| pair(name, &value)).collect();
        let (words, environment) = (words.map_err(fail)?, environment.map_err(fail)?);
        let program = text(&name).map_err(fail)?;
        let actions = PosixSpawnFileActions::init().map_err(fail)?;
        let attributes = signals.attributes().map_err(fail)?;
        let spawn = || posix_spawnp(&program, &actions, &attributes, &words, &environment);
        let pid = signals.umask.as_before(spawn).map_err(fail)?;
        Ok(Command { pid, status: None, is_traced: Arc::default() })
    }

    /// Waits until it has stopped itself, as one that is held does before it becomes its program.
    ///
    /// # Errors
    /// [`Error::Command`]: it has ended instead.
    pub(crate) fn wait_until_stopped(&mut self) -> Result<(), Error> {
        // Whoever traces it later is to see the stop, too.
        let flags = WaitPidFlag::WSTOPPED | WaitPidFlag::WEXITED | WaitPidFlag::WNOWAIT;
        let stopped = loop {
            match waitid(Id::Pid(self.pid), flags) {
                Err(Errno::EINTR) => {}
                stopped => break stopped,
            }
        };
        match stopped {
            Ok(WaitStatus::Stopped(..)) => Ok(()),
            other => {
                let why = io::Error::other(format!("it does not wait for its hardware trace: {other:?}"));
                Err(Error::Command(self.pid.to_string(), why))
            }
        }
    }

    /// Whether it has ended.
    pub(crate) fn has_ended(&mut self) -> bool {
        if self.status.is_none() {
            self.look();
        }
        self.status.is_some()
    }

    fn look(&mut self) {
        if self.is_traced.load(Ordering::Acquire) {
            return;
        }
        self.status = match waitpid(self.pid, Some(WaitPidFlag::WNOHANG)) {
            Ok(WaitStatus::Exited(_, status)) => Some(status),
            Ok(WaitStatus::Signaled(_, signal, _)) => Some(128 + signal as i32),
            // By a real-time signal, which nix has no name for.
            Err(Errno::EINVAL | Errno::ECHILD) => Some(128),
            _ => None,
        };
    }

    /// Passes a signal on, if it still runs.
    pub(crate) fn pass_on(&mut self, signal: Signal) {
        if !self.has_ended() {
            let _ = kill(self.pid, signal);
        }
    }

    /// Passes on the signal of this number.
    pub(crate) fn pass_on_number(&mut self, number: i32) {
        if let Ok(signal) = Signal::try_from(number) {
            self.pass_on(signal);
        }
    }

    /// Its exit status, or 128 plus the signal that ended it; `None` while it runs.
    pub(crate) fn status(&self) -> Option<i32> {
        self.status
    }
}

fn text(word: &OsStr) -> Result<CString, Errno> {
    CString::new(word.as_bytes()).map_err(|_| Errno::EINVAL)
}

fn pair(mut name: OsString, value: &OsStr) -> Result<CString, Errno> {
    name.push("=");
    name.push(value);
    text(&name)
}

/// Signals that the recorder handles in its loop instead of dying of them.
pub struct Signals {
    fd: SignalFd,
    before: SigSet,
    /// For what is made meanwhile.
    umask: Umask,
}

/// A signal that arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arrived {
    /// What the signal asks for.
    pub signal: Signal,
    /// It came from the terminal, so the command has got it too.
    pub from_terminal: bool,
}

impl Arrived {
    /// Whether it asks the recording to end; the others only wake the loop.
    pub fn asks_to_end(self) -> bool {
        !matches!(self.signal, Signal::SIGCHLD | Signal::SIGXFSZ | Signal::SIGUSR2)
    }

    /// As the session takes it.
    pub(crate) fn as_request(self) -> mote_session::Signal {
        mote_session::Signal {
            number: self.signal as i32,
            from_terminal: self.from_terminal,
            is_interrupt: self.signal == Signal::SIGINT,
        }
    }

    /// Whether it asks for a snapshot, as `perf record --switch-output=signal` and others take it.
    pub fn asks_for_snapshot(self) -> bool {
        self.signal == Signal::SIGUSR2
    }
}

impl Signals {
    /// Blocks them for the calling thread and those that it starts. SIGXFSZ is among them so that a file that may not
    /// grow is an error like any other.
    pub fn catch() -> Result<Signals, Error> {
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
            Signal::SIGUSR2,
        ] {
            mask.add(signal);
        }
        let before = SigSet::thread_get_mask().map_err(fail)?;
        mask.thread_block().map_err(fail)?;
        let fd = SignalFd::with_flags(&mask, SfdFlags::SFD_NONBLOCK | SfdFlags::SFD_CLOEXEC).map_err(fail)?;
        Ok(Signals { fd, before, umask: Umask::private() })
    }

    /// What a child starts with: the signals blocked as before, and SIGPIPE, which Rust's programs ignore, as usual.
    fn attributes(&self) -> Result<PosixSpawnAttr, Errno> {
        let mut usual = SigSet::empty();
        usual.add(Signal::SIGPIPE);
        let mut attributes = PosixSpawnAttr::init()?;
        attributes.set_sigmask(&self.before)?;
        attributes.set_sigdefault(&usual)?;
        attributes
            .set_flags(PosixSpawnFlags::POSIX_SPAWN_SETSIGMASK | PosixSpawnFlags::POSIX_SPAWN_SETSIGDEF)?;
        Ok(attributes)
    }

    /// What to wait for.
    pub fn polled(&self) -> libc::pollfd {
        libc::pollfd { fd: self.fd.as_raw_fd(), events: libc::POLLIN, revents: 0 }
    }

    /// The next signal that has arrived.
    pub fn next(&self) -> Option<Arrived> {
        /// Sent by the kernel (asm-generic/siginfo.h).
        const SI_KERNEL: i32 = 0x80;
        let info = self.fd.read_signal().ok()??;
        let signal = Signal::try_from(info.ssi_signo as i32).ok()?;
        Some(Arrived { signal, from_terminal: info.ssi_code == SI_KERNEL })
    }
}

impl Drop for Signals {
    fn drop(&mut self) {
        // What has arrived meanwhile was for the recording, and must not end us after it.
        while self.next().is_some() {}
        let _ = self.before.thread_set_mask();
    }
}
