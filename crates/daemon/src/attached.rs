//! Running processes that are recorded: when they are gone.

use crate::door::Door;
use crate::error::Error;
use crate::recorder::Recorder;
use crate::seize;
use mote_sys::Errno;
use mote_sys::fd::Fd;
use mote_sys::process;
use std::thread::JoinHandle;

/// The processes, by descriptors, so that an id that is used again is not taken for them.
#[derive(Debug, Default)]
pub(crate) struct Attached {
    alive: Vec<(i32, Fd)>,
    /// Those that are being sent to where they join.
    seized: Vec<(i32, JoinHandle<Result<(), String>>)>,
}

impl Attached {
    /// Has a process that is in no recording join ours, while the event loop talks to it.
    pub(crate) fn seize(&mut self, pid: i32, entries: Vec<u64>, place: String) -> Result<(), Error> {
        let work = std::thread::Builder::new().name("mote-seize".to_owned());
        let work = work.spawn(move || seize::join(pid, &entries, &place));
        self.seized.push((pid, work.map_err(|why| Error::Loop { what: "start a thread", why })?));
        Ok(())
    }

    /// What went wrong with those that have been sent by now.
    fn failed(&mut self) -> Vec<(i32, String)> {
        let (done, running) = self.seized.drain(..).partition(|(_, work)| work.is_finished());
        self.seized = running;
        let failed =
            |(pid, work): (i32, JoinHandle<Result<(), String>>)| Some((pid, work.join().ok()?.err()?));
        Vec::into_iter(done).filter_map(failed).collect()
    }
}

impl Drop for Attached {
    fn drop(&mut self) {
        // A thread of somebody else's that is not put back to where it was ends its process.
        self.seized.drain(..).for_each(|(_, work)| drop(work.join()));
    }
}

impl Recorder<'_> {
    /// Finds the processes that are to be recorded, and asks them to come.
    ///
    /// # Errors
    /// [`Error::Process`] when one of them is not there; [`Error::NotReached`] when it cannot be asked, which is only told when there are
    /// kernel events to be recorded of it.
    pub(crate) fn attach(&mut self, door: &mut Door) -> Result<(), Error> {
        let options = self.options;
        // What the kernel sees of a process needs nothing of the process.
        let latency = options.kernel.as_ref().is_some_and(|kernel| kernel.latency.is_some());
        let asks = latency || !options.rules.is_empty() || !options.objects.is_empty();
        for pid in &options.attach {
            let fd = process::pidfd_open(*pid).map_err(|why| Error::Process { pid: *pid, why })?;
            self.attached.alive.push((*pid, fd));
            if !asks {
                continue;
            }
            match self.invite(door, *pid) {
                // Who asks for none of its own events misses nothing.
                Err(_) if options.rules.is_empty() => {}
                Err(why) if options.kernel.is_some() => self.watch.say(&why.to_string()),
                invited => invited?,
            }
        }
        Ok(())
    }

    /// Whether there were running processes to record, and none of them is left, nor any that they have started.
    pub(crate) fn attached_are_gone(&mut self) -> bool {
        for (pid, why) in self.attached.failed() {
            self.problem(format!("the events of process {pid} are not recorded: {why}"));
            // What the kernel sees of it goes on.
            self.attached.alive.retain(|(known, _)| *known != pid || self.options.kernel.is_some());
        }
        let is_alive = |fd: &Fd| mote_sys::socket::wait_readable(fd.raw(), 0) != Ok(true);
        self.attached.alive.retain(|(_, fd)| is_alive(fd));
        self.look_for_awaited(false);
        let asked = !self.options.attach.is_empty();
        asked && self.attached.alive.is_empty() && self.left() == 0
    }
}

/// What is to be told of a process that is not there.
pub(crate) fn hint(why: Errno) -> &'static str {
    if why.0 == libc::ESRCH { "; is it still running? `ps -e` lists processes" } else { "" }
}
