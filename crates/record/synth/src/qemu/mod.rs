//! The engine **qemu**: a program runs under qemu-user with a plugin of ours, which writes down the blocks that its
//! threads execute: tens to hundreds of millions of instructions a second, threads and forked children included.
//!
//! # What is exact
//! The sequence of each thread's instructions; a REP-prefixed one is one, however often it repeats. Where a signal's
//! handler begins, the thread was at the very instruction that is reported: the faulting one, or the one that would
//! have been next; none behind it counts. Code that is written or changed at run time, with its bytes.
//!
//! # What is not
//! - A block in which a thread ended without coming to its end, by a fault without a handler or together with its
//!   process, does not count at all.
//! - qemu takes signals at ends of blocks only, a processor anywhere.
//! - A conditional jump to the next instruction counts as not taken.
//! - A program that a process becomes (execve(2)) is recorded, too, unless it is of another processor, or another
//!   thread than the first one has called: then it runs without qemu, and its last fact is the system call.
//! - Names of threads are the program's; status of children is not known.
//! - What qemu does otherwise than a kernel: no vdso and no rseq, other addresses, its own CPU features (no AVX in
//!   version 7.2), no PTWRITE.
//!
//! It was made for version 7.2; the plugin looks whether it finds registers where that has them, and refuses otherwise.

mod blocks;
mod code;
mod folder;
mod launch;
mod walk;

#[cfg(test)]
mod tests;

use crate::error::Error;
use crate::observer::Observer;
pub use code::Code;
use folder::Folder;
use launch::Launched;
use nix::sys::signal::Signal;
use nix::unistd::Pid;
use std::ffi::OsString;
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// How often is looked for what the plugin has written.
const LOOK: Duration = Duration::from_millis(1);

/// Whether there is what the engine needs: qemu-user, and a C compiler for the plugin, which is compiled each time.
///
/// # Errors
/// What is missing, and how it comes to be there.
pub fn check() -> Result<(), Error> {
    launch::check()
}

/// Runs a program, named by its first word, to its end, and that of its children. Returns its exit status, or the
/// signal's number below 0.
///
/// # Errors
/// [`Error`]: there is no `qemu-x86_64` or no C compiler, or the program is killed.
pub fn run(words: &[OsString], code: Code, observer: &mut dyn Observer) -> Result<i32, Error> {
    let mut launched = launch::launch(words, code)?;
    let name = launched.name.clone();
    let mut folder = Folder::new(launched.folder.path().to_owned(), name, code);
    let done = follow(&mut launched, &mut folder, observer);
    if done.is_err() {
        let _ = launched.child.kill();
        let _ = launched.child.wait();
    }
    done
}

fn kill(pid: i32) {
    let _ = nix::sys::signal::kill(Pid::from_raw(pid), Signal::SIGKILL);
}

fn follow(launched: &mut Launched, folder: &mut Folder, observer: &mut dyn Observer) -> Result<i32, Error> {
    let mut ended: Option<ExitStatus> = None;
    let stop = observer.stop();
    loop {
        if stop.as_ref().is_some_and(|stop| stop.load(Ordering::Relaxed)) {
            // What they have written is read, and they end as others do.
            folder.processes()?.into_iter().for_each(kill);
        }
        // Before it is looked what there is: nothing comes behind.
        let is_over = ended.is_some() && !launched.is_alive();
        if is_over {
            break;
        }
        ended = ended.or(launched.child.try_wait().ok().flatten());
        folder.read(observer)?;
        std::thread::sleep(LOOK);
    }
    if let Some(why) = folder.refused() {
        return Err(Error::Qemu(why));
    }
    let status = ended.map(|ended| ended.code().unwrap_or_else(|| -ended.signal().unwrap_or(0)));
    folder.finish(launched.child.id() as i32, status, observer)?;
    Ok(status.unwrap_or(-1))
}
