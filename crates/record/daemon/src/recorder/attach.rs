//! Running processes that are to be recorded, too: how they are asked to come, and when they are gone.

use super::Recorder;
use crate::control::Request;
use crate::control::join::{ask_all, recorders};
use crate::error::Error;
use crate::process;
use crate::registration::listeners::Listeners;
use mote_sys::fd::Fd;

impl Recorder<'_> {
    /// Finds the processes that are to be recorded, and asks them to come.
    ///
    /// # Errors
    /// [`Error::Process`] when one of them is not there; [`Error::NotReached`] when it cannot be asked, which is only
    /// told when there are kernel events to be recorded of it.
    pub(crate) fn attach(&mut self, listeners: &mut Listeners) -> Result<(), Error> {
        let options = self.options.clone();
        // What the kernel sees of a process needs nothing of the process.
        let latency = options.kernel.as_ref().is_some_and(|kernel| kernel.latency.is_some());
        let asks = latency || !options.rules.is_empty() || !options.objects.is_empty();
        for pid in &options.attach {
            let fd = mote_sys::process::pidfd_open(*pid).map_err(|why| Error::Process { pid: *pid, why })?;
            self.attached.alive.push((*pid, fd));
            if !asks {
                continue;
            }
            let invited = self.invite(listeners, *pid);
            if invited.is_err() {
                self.awaited.came(*pid);
            }
            if invited.is_ok() && !(options.rules.is_empty() && options.objects.is_empty()) {
                self.attached.expected.push(*pid);
            }
            match invited {
                // A recording that asks for none of their own events misses nothing.
                Err(_) if options.rules.is_empty() => {}
                Err(why) if options.kernel.is_some() => self.watch.say(&why.to_string()),
                invited => invited?,
            }
        }
        Ok(())
    }

    /// Whether all running processes that were asked for are gone; `None` when there were none.
    pub(crate) fn attached_are_gone(&mut self) -> Option<bool> {
        if self.options.attach.is_empty() {
            return None;
        }
        for (pid, why) in self.attached.failed() {
            self.awaited.came(pid);
            self.attached.expected.retain(|known| *known != pid);
            self.problem(format!("the events of process {pid} are not recorded: {why}"));
            // What the kernel sees of it goes on.
            self.attached.alive.retain(|(known, _)| *known != pid || self.options.kernel.is_some());
        }
        let is_alive = |fd: &Fd| mote_sys::socket::wait_readable(fd.raw(), 0) != Ok(true);
        self.attached.alive.retain(|(_, fd)| is_alive(fd));
        self.look_for_awaited(false);
        // Those that are still being brought say in a moment why not.
        Some(self.attached.alive.is_empty() && self.attached.coming.is_empty())
    }

    /// Whether all running processes that were asked to come are in the session, are gone, or will not come.
    pub(crate) fn has_all_expected(&mut self) -> bool {
        let (session, attached) = (&self.session, &mut self.attached);
        let is_alive = |pid: i32| attached.alive.iter().any(|(known, _)| *known == pid);
        attached.expected.retain(|pid| is_alive(*pid) && !session.is_recorded(*pid));
        attached.expected.is_empty()
    }

    /// Tells of processes that have not come: in time after a promise, or, at the end, at all, if they still run.
    pub(crate) fn look_for_awaited(&mut self, at_all: bool) {
        let missing = self.awaited.take_missing(at_all);
        self.attached.expected.retain(|known| !missing.contains(known));
        // A recording that asks for none of their own events misses nothing.
        let asks = !self.options.rules.is_empty();
        for pid in missing.into_iter().filter(|pid| asks && process::runs(*pid)) {
            self.problem(format!(
                "the events of process {pid} are not recorded: it did not follow the request to join the recording"
            ));
        }
    }

    /// Asks the recording that the process `pid` is in to let us have it, too.
    ///
    /// # Errors
    /// [`Error::NotReached`], with what the others have said, or when there is none.
    pub(crate) fn invite(&mut self, listeners: &mut Listeners, pid: i32) -> Result<(), Error> {
        let (trust, own) = (listeners.trust(), listeners.sockets().path().to_owned());
        let uid = process::users(pid.unsigned_abs()).map_or(trust.own(), |[real, ..]| real);
        let Some((place, mailbox)) = listeners.place_for(uid)? else { return Ok(()) };
        let request = Request::Join { pid, place: place.clone() };
        let mailbox = mote_sys::fd::duplicate(mailbox).map_err(|why| Error::Session {
            what: "hand the session's mailbox to the other recorder",
            why,
        })?;
        let awaited = self.awaited.clone();
        awaited.asks(pid);
        let wanted = move |owner| trust.invites(owner, uid);
        let ask = move || {
            // Asking ourselves would wait for ourselves.
            let others = recorders(pid).into_iter().filter(|socket| !socket.starts_with(&own)).collect();
            let said = ask_all(others, &request, wanted, &mailbox);
            if said.is_none() {
                awaited.promised(pid);
            }
            said
        };
        self.attached.bring(pid, place, ask)
    }
}
