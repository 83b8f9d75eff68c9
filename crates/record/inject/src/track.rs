//! A descriptor by which it is seen which pages of a process are written to (`mote_sys::uffd`).

use crate::descriptor::{Made, Maker, Steps};
use crate::error::Error;
use crate::target::{Patience, Target};
use mote_symbol::mapped;
use mote_sys::fd::Fd;
use mote_sys::{Errno, process, uffd};

/// Makes a userfaultfd(2) in a process, which keeps none; also in our own one.
///
/// # Errors
/// [`Error`]: it may not be touched, or is in a state in which it is not to be; its kernel has no such call.
///
/// # Cost
/// A thread of it makes a detour of some milliseconds.
pub fn tracker(pid: i32, patience: Patience<'_>) -> Result<Fd, Error> {
    if pid == process::pid() {
        return uffd::make().map_err(Error::Refused);
    }
    let target = Target::any(pid)?;
    if mapped::has_shadow_stack(pid.unsigned_abs()) {
        return Err(Error::Forbidden(Errno(libc::EOPNOTSUPP)));
    }
    Maker::new(&target, Made::Tracker(uffd::FLAGS))?.make(|_| Ok(Steps::default()), patience)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::{Child, Command, Stdio};
    use std::sync::atomic::AtomicBool;
    use std::time::{Duration, Instant};

    /// A process that ends when dropped.
    struct Program(Child);

    impl Program {
        fn start(script: &str) -> Program {
            let mut shell = Command::new("/bin/sh");
            let started = shell.args(["-c", script]).stdin(Stdio::piped()).spawn();
            Program(started.expect("a shell"))
        }
    }

    impl Drop for Program {
        fn drop(&mut self) {
            let _ = self.0.kill();
            let _ = self.0.wait();
        }
    }

    fn descriptors(pid: i32) -> usize {
        std::fs::read_dir(format!("/proc/{pid}/fd")).map_or(0, Iterator::count)
    }

    #[test]
    fn a_thread_that_waits_or_runs_makes_it_and_goes_on() {
        for script in ["read line; :", "while :; do :; done"] {
            let mut program = Program::start(script);
            let pid = program.0.id().cast_signed();
            std::thread::sleep(Duration::from_millis(50));
            let before = descriptors(pid);
            let over = AtomicBool::new(false);
            let patience = Patience { until: Instant::now() + Duration::from_secs(20), over: &over };
            let made = match tracker(pid, patience) {
                Ok(made) => made,
                Err(Error::Refused(why) | Error::Forbidden(why)) => {
                    return mote_skip::skip(format_args!("{why:?}"));
                }
                Err(why) => panic!("{script}: {why}"),
            };
            if mote_sys::uffd::prepare(&made).is_err() {
                return mote_skip::skip("write-protection that the kernel lifts itself is of Linux 6.7");
            }
            assert_eq!(descriptors(pid), before, "it keeps none");
            // Its code is away, and whatever it was, it still runs.
            std::thread::sleep(Duration::from_millis(20));
            assert_eq!(program.0.try_wait().expect("a child"), None, "{script}");
        }
    }
}
