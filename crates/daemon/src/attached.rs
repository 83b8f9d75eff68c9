//! Running processes that are recorded: when they are gone.

use crate::door::Door;
use crate::error::Error;
use crate::recorder::Recorder;
use mote_sys::Errno;
use mote_sys::fd::Fd;
use mote_sys::process;

/// The processes, by descriptors, so that an id that is used again is not taken for them.
#[derive(Debug, Default)]
pub(crate) struct Attached {
    alive: Vec<(i32, Fd)>,
}

impl Recorder<'_> {
    /// Finds the processes that are to be recorded, and asks them to come.
    ///
    /// # Errors
    /// [`Error::Process`] when one of them is not there; [`Error::NotReached`] when it cannot be asked, which is only told when there are
    /// kernel events to be recorded of it.
    pub(crate) fn attach(&mut self, door: &Door) -> Result<(), Error> {
        let options = self.options;
        for pid in &options.attach {
            let fd = process::pidfd_open(*pid).map_err(|why| Error::Process { pid: *pid, why })?;
            self.attached.alive.push((*pid, fd));
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
        let is_alive = |fd: &Fd| mote_sys::socket::wait_readable(fd.raw(), 0) != Ok(true);
        self.attached.alive.retain(|(_, fd)| is_alive(fd));
        let asked = !self.options.attach.is_empty();
        asked && self.attached.alive.is_empty() && self.left() == 0
    }
}

/// What is to be told of a process that is not there.
pub(crate) fn hint(why: Errno) -> &'static str {
    if why.0 == libc::ESRCH { "; is it still running? `ps -e` lists processes" } else { "" }
}
