//! A command that waits before it becomes its program, so that events can be opened of it.

use nix::sys::signal::{Signal, kill};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::Pid;
use std::ffi::OsString;
use std::io;
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command as Program, ExitStatus};

/// Stops itself, and becomes the program.
const STOP_AND_EXEC: &str = "kill -STOP $$; exec \"$@\"";

/// The command.
#[derive(Debug)]
pub struct Command {
    child: Child,
    status: Option<ExitStatus>,
    /// It is nobody's business any more.
    is_left: bool,
}

impl Command {
    /// Starts it; it has stopped before its program begins.
    ///
    /// # Errors
    /// There is no such program, or no /bin/sh.
    pub fn stopped(words: &[OsString]) -> io::Result<Command> {
        let missing = || io::Error::new(io::ErrorKind::NotFound, "there is no such program");
        let program = words.first().filter(|name| is_program(name)).ok_or_else(missing)?;
        let mut shell = Program::new("/bin/sh");
        shell.args(["-c", STOP_AND_EXEC, "sh"]).arg(program).args(&words[1..]);
        let child = shell.spawn()?;
        let mut command = Command { child, status: None, is_left: false };
        match waitpid(command.raw(), Some(WaitPidFlag::WUNTRACED)) {
            Ok(WaitStatus::Stopped(..)) => Ok(command),
            other => {
                command.end();
                Err(io::Error::other(format!("/bin/sh does not wait: {other:?}")))
            }
        }
    }

    fn raw(&self) -> Pid {
        Pid::from_raw(self.pid())
    }

    /// Its process.
    #[must_use]
    pub fn pid(&self) -> i32 {
        self.child.id().cast_signed()
    }

    /// Lets the command of this process become its program.
    pub fn go(pid: i32) {
        let _ = kill(Pid::from_raw(pid), Signal::SIGCONT);
    }

    /// Sends it a signal, if it still runs.
    pub fn signal(&mut self, signal: i32) {
        if self.status().is_none()
            && let Ok(signal) = Signal::try_from(signal)
        {
            let _ = kill(self.raw(), signal);
        }
    }

    /// Its exit status, or 128 and the signal that ended it; `None` while it runs.
    pub fn status(&mut self) -> Option<i32> {
        if self.status.is_none() {
            self.status = self.child.try_wait().ok().flatten();
        }
        let status = self.status?;
        Some(status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or(0)))
    }

    /// Lets it go on by itself.
    pub fn leave(mut self) {
        self.is_left = true;
    }

    fn end(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Drop for Command {
    fn drop(&mut self) {
        // Where nothing was recorded it would stay stopped.
        if !self.is_left && self.status().is_none() {
            self.end();
        }
    }
}

/// Whether there is a program of this name: a path, or one that is found as shells find it.
#[must_use]
pub fn is_program(name: &OsString) -> bool {
    let path = std::path::Path::new(name);
    if path.components().count() > 1 || path.is_absolute() {
        return path.is_file();
    }
    // Where it is not set, as execvp(3).
    let folders = std::env::var_os("PATH").unwrap_or_else(|| "/bin:/usr/bin".into());
    std::env::split_paths(&folders).any(|folder| folder.join(path).is_file())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_waits_and_goes() {
        let words = ["sh", "-c", "exit 7"].map(OsString::from);
        let mut command = Command::stopped(&words).expect("a shell");
        assert_eq!(command.status(), None);
        Command::go(command.pid());
        let status = std::iter::repeat_with(|| {
            std::thread::sleep(std::time::Duration::from_millis(1));
            command.status()
        });
        assert_eq!(status.take(10_000).flatten().next(), Some(7));
        let why = Command::stopped(&["/no/such/program".into()]).map(drop).expect_err("it is not there");
        assert_eq!(why.kind(), io::ErrorKind::NotFound);
    }
}
