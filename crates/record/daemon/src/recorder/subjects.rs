//! What is recorded: the command, and running processes, how these are asked to come, and when they are gone.

use crate::call_counts::CallCounts;
use crate::command::Command;
use crate::control::Request;
use crate::control::join::{ask_all, recorders};
use crate::error::Error;
use crate::functions::{Functions, Joined};
use crate::kernel::Remarks;
use crate::options::Options;
use crate::process;
use crate::registration::attached::{AGAIN, Attached, FINDING, Report};
use crate::registration::awaited::Awaited;
use crate::registration::listeners::Listeners;
use crate::watch::Watch;
use mote_inject::Patience;
use mote_session::Session;
use mote_sys::fd::Fd;
use nix::sys::signal::Signal;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// The command and the processes that are recorded.
#[derive(Default)]
pub(crate) struct Subjects {
    pub(crate) command: Option<Command>,
    /// Running processes that are recorded, too.
    attached: Attached,
    /// Those of them that other recordings have promised.
    awaited: Awaited,
    /// What has probes in functions, and gets more of them when it loads libraries.
    functions: Vec<Arc<Functions>>,
    /// When it was looked for libraries.
    looked: Option<Instant>,
}

/// Asks other recordings for a process.
type Asking = Box<dyn Fn() -> Option<Vec<String>> + Send>;

/// How often it is looked for libraries that were loaded.
const LOOK: Duration = Duration::from_millis(200);

impl Subjects {
    /// How the command is.
    pub(crate) fn command_state(&mut self) -> mote_session::Command {
        match self.command.as_mut().map(Command::has_ended) {
            None => mote_session::Command::None,
            Some(false) => mote_session::Command::Runs,
            Some(true) => mote_session::Command::Ended,
        }
    }

    /// The command's exit status, or 128 plus the signal that ended it, once it has ended.
    pub(crate) fn status(&self) -> Option<i32> {
        self.command.as_ref()?.status()
    }

    /// Lets the command, which waits for that, become its program.
    pub(crate) fn let_command_go(&mut self) {
        self.command.iter_mut().for_each(|command| command.pass_on(Signal::SIGCONT));
    }

    /// Ends the command, which waits to become its program.
    pub(crate) fn kill_command(&mut self) {
        self.command.iter_mut().for_each(|command| command.pass_on(Signal::SIGKILL));
    }

    /// What is counted of calls of functions.
    pub(crate) fn counts(&self) -> impl Iterator<Item = &CallCounts> {
        self.functions.iter().map(|functions| functions.counts())
    }

    /// The recording ends: no process is to be brought any more.
    pub(crate) fn tell_over(&self) {
        self.attached.tell_over();
        self.attached.open_probed();
    }

    /// Takes probes away that would stay otherwise. Returns what went wrong.
    pub(crate) fn end_bare(&self) -> Vec<String> {
        self.functions.iter().flat_map(|functions| functions.end_bare()).collect()
    }

    /// Whether threads of ours are still at work in processes that were to be brought.
    pub(crate) fn is_joining(&self) -> bool {
        self.attached.is_busy()
    }

    /// Waits for no process any more.
    pub(crate) fn let_go(&mut self) {
        self.attached.coming.clear();
    }

    /// A process has said hello, and is let in.
    pub(crate) fn came(&mut self, pid: i32) {
        self.awaited.came(pid);
        self.attached.came(pid);
    }

    /// Finds the running processes that are to be recorded, and begins to ask them to come. Whether they can be asked
    /// says [`Subjects::were_asked`]. Tells of those of which that is known at once.
    ///
    /// # Errors
    /// [`Error::Process`] when one of them is not there; [`Error::NotReached`] when it cannot be asked, which is only
    /// told when there are kernel events to be recorded of it.
    pub(crate) fn attach(
        &mut self,
        listeners: &mut Listeners,
        options: &Options,
        functions: Option<&Arc<Functions>>,
        watch: &mut dyn Watch,
    ) -> Result<(), Error> {
        // What the kernel sees of a process needs nothing of the process.
        let latency = options.kernel.as_ref().is_some_and(|kernel| kernel.latency.is_some());
        let asks = latency || !options.rules.is_empty() || !options.objects.is_empty();
        for pid in &options.attach {
            let fd = mote_sys::process::pidfd_open(*pid).map_err(|why| Error::Process { pid: *pid, why })?;
            self.attached.alive.push((*pid, fd));
            if !asks {
                continue;
            }
            if let Some(functions) = functions {
                // It may carry events of its own, if what it carries is not what recorders have put there.
                let was_visited = mote_inject::was_visited(*pid);
                self.probe(listeners, functions, *pid, true)?;
                self.attached.expected.push(*pid);
                if !was_visited {
                    let _ = self.invite(listeners, *pid);
                }
                continue;
            }
            if let Err(why) = self.invite(listeners, *pid) {
                self.invited(*pid, Err(why), options, watch)?;
            }
        }
        Ok(())
    }

    /// The functions of these patterns, below these callers, if they were asked for before.
    pub(crate) fn asked_before(&self, patterns: &[String], under: &[String]) -> Option<Arc<Functions>> {
        self.functions.iter().find(|functions| functions.are_of(patterns, under)).cloned()
    }

    fn remember(&mut self, functions: &Arc<Functions>) {
        if !self.functions.iter().any(|known| Arc::ptr_eq(known, functions)) {
            self.functions.push(functions.clone());
        }
    }

    /// Whether it is known of all running processes that are to be recorded that they can be asked to come. Tells of
    /// those that cannot be.
    ///
    /// # Errors
    /// [`Error::NotReached`], as [`Subjects::attach`].
    pub(crate) fn were_asked(&mut self, options: &Options, watch: &mut dyn Watch) -> Result<bool, Error> {
        let looked = self.attached.looked();
        // With probes they come by these; the events that they carry themselves come beside.
        if !options.has_functions() {
            looked.into_iter().try_for_each(|(pid, invited)| self.invited(pid, invited, options, watch))?;
        }
        Ok(!self.attached.is_looking())
    }

    /// A process can be asked to come, or cannot.
    fn invited(
        &mut self,
        pid: i32,
        invited: Result<(), Error>,
        options: &Options,
        watch: &mut dyn Watch,
    ) -> Result<(), Error> {
        if invited.is_err() {
            self.awaited.came(pid);
        }
        if invited.is_ok() && !(options.rules.is_empty() && options.objects.is_empty()) {
            self.attached.expected.push(pid);
        }
        match invited {
            // A recording that asks for none of their own events misses nothing.
            Err(_) if options.rules.is_empty() => {}
            Err(why) if options.sees_from_outside() => watch.say(&why.to_string()),
            invited => invited?,
        }
        Ok(())
    }

    /// Has probes put into a running process, which joins us by them; or, where other recordings have it, by these, if
    /// they are to be asked (`asks_others`).
    fn probe(
        &mut self,
        listeners: &mut Listeners,
        functions: &Arc<Functions>,
        pid: i32,
        asks_others: bool,
    ) -> Result<(), Error> {
        let uid = process::users(pid.unsigned_abs()).map_or(listeners.trust().own(), |[real, ..]| real);
        let place = listeners.place_of(uid)?;
        let asking = if asks_others { self.asking(listeners, pid)? } else { None };
        self.remember(functions);
        functions.ask_of(pid);
        let (functions, awaited) = (functions.clone(), self.awaited.clone());
        let command = self.command.as_ref().filter(|command| command.id().cast_signed() == pid);
        let is_traced = command.map(Command::trace);
        let trace = move |traced: bool| {
            is_traced.iter().for_each(|is_traced| is_traced.store(traced, Ordering::Release));
        };
        trace(true);
        self.attached.probe(pid, move |patience| {
            let joined = functions.join(pid, &place, patience);
            trace(false);
            let Joined { said, is_in_another } = joined?;
            if functions.are_counted_bare_in(pid) {
                awaited.came(pid);
            }
            let Some((_, ask)) = asking.filter(|_| is_in_another) else { return Ok(said) };
            match passed_on(&ask, patience) {
                Some(answers) => {
                    Err(format!("another recording has it, and does not share it: {}", answers.join("; ")))
                }
                None => Ok(said),
            }
        })
    }

    /// Has probes put into more functions: of the processes that were chosen, of the command, and of those that are
    /// `connected`.
    ///
    /// # Errors
    /// There is no thread.
    pub(crate) fn probe_more(
        &mut self,
        listeners: &mut Listeners,
        functions: &Arc<Functions>,
        connected: BTreeSet<i32>,
    ) -> Result<(), Error> {
        let mut pids = connected;
        pids.extend(self.attached.alive.iter().map(|(pid, _)| *pid));
        pids.extend(self.command.as_ref().map(|command| command.id().cast_signed()));
        pids.retain(|pid| process::runs(*pid) && !functions.are_asked_of(*pid));
        pids.into_iter().try_for_each(|pid| self.probe(listeners, functions, pid, false))
    }

    /// Has probes put into functions of libraries that processes have loaded since they got theirs.
    ///
    /// # Errors
    /// There is no thread.
    pub(crate) fn probe_later(&mut self, listeners: &mut Listeners) -> Result<(), Error> {
        let is_early = self.looked.is_some_and(|looked| looked.elapsed() < LOOK);
        if is_early && !self.functions.iter().any(|functions| functions.expects_later()) {
            return Ok(());
        }
        self.looked = Some(Instant::now());
        for functions in self.functions.clone() {
            let later = functions.with_later_files();
            for pid in later.into_iter().filter(|pid| !self.attached.is_probing(*pid)).collect::<Vec<_>>() {
                self.probe(listeners, &functions, pid, false)?;
            }
        }
        Ok(())
    }

    /// Has probes put into the command, which is held until then.
    ///
    /// # Errors
    /// There is no thread.
    pub(crate) fn probe_command(&mut self, functions: &Arc<Functions>) -> Result<(), Error> {
        let Some(command) = &self.command else { return Ok(()) };
        let (functions, pid, is_traced) = (functions.clone(), command.id().cast_signed(), command.trace());
        self.remember(&functions);
        is_traced.store(true, Ordering::Release);
        let start = move |patience: Patience<'_>, report: &mut dyn FnMut(Report)| {
            functions.start(pid, patience, report)
        };
        self.attached.probe_started(pid, start, is_traced)
    }

    /// Whether all running processes that were asked for are gone, `None` when there were none; and what is to be told
    /// of them.
    pub(crate) fn are_gone(&mut self, options: &Options) -> (Option<bool>, Remarks) {
        let mut remarks = self.hear(options);
        if options.attach.is_empty() {
            return (None, remarks);
        }
        let is_alive = |fd: &Fd| mote_sys::socket::wait_readable(fd.raw(), 0) != Ok(true);
        self.attached.alive.retain(|(_, fd)| is_alive(fd));
        remarks.problems.extend(self.missing(options, false));
        // Those that are still being brought say in a moment why not.
        (Some(self.attached.alive.is_empty() && self.attached.coming.is_empty()), remarks)
    }

    /// What is to be told of processes that were asked to come, or are to have probes.
    pub(crate) fn hear(&mut self, options: &Options) -> Remarks {
        let mut remarks = Remarks::default();
        for (pid, said) in self.attached.done() {
            let why = match said {
                Ok(text) => {
                    remarks.said.push(text);
                    continue;
                }
                Err(why) => why,
            };
            self.awaited.came(pid);
            self.attached.expected.retain(|known| *known != pid);
            let what = if options.has_functions() { "functions" } else { "events" };
            remarks.problems.push(format!("the {what} of process {pid} are not recorded: {why}"));
            // What the kernel sees of it goes on.
            self.attached.alive.retain(|(known, _)| *known != pid || options.sees_from_outside());
        }
        remarks
    }

    /// Whether all running processes that were asked to come are in the session, are gone, or will not come.
    pub(crate) fn have_come(&mut self, session: &Session) -> bool {
        let attached = &mut self.attached;
        let is_alive = |pid: i32| attached.alive.iter().any(|(known, _)| *known == pid);
        let functions = &self.functions;
        let is_bare = |pid: i32| functions.iter().any(|functions| functions.are_counted_bare_in(pid));
        attached.expected.retain(|pid| is_alive(*pid) && !session.is_recorded(*pid) && !is_bare(*pid));
        attached.expected.is_empty()
    }

    /// What is to be told of processes that have not come: in time after a promise, or, at the end, at all, if they
    /// still run.
    pub(crate) fn missing(&mut self, options: &Options, at_all: bool) -> Vec<String> {
        let missing = self.awaited.take_missing(at_all);
        self.attached.expected.retain(|known| !missing.contains(known));
        // A recording that asks for none of their own events misses nothing.
        let asks = !options.rules.is_empty();
        let missing = missing.into_iter().filter(|pid| asks && process::runs(*pid));
        let messages = missing.map(|pid| {
            format!("the events of process {pid} are not recorded: it did not follow the request to join the recording")
        });
        messages.collect()
    }

    /// Begins to ask the recording that the process `pid` is in to let us have it, too, or else the process itself.
    ///
    /// # Errors
    /// There is no place for it, or no thread.
    fn invite(&mut self, listeners: &mut Listeners, pid: i32) -> Result<(), Error> {
        match self.asking(listeners, pid)? {
            Some((place, ask)) => self.attached.bring(pid, place, ask),
            None => Ok(()),
        }
    }

    /// What asks the recordings that the process `pid` is in to let us have it, too: `None` when one does, else what
    /// they have said. And our place.
    ///
    /// # Errors
    /// There is no place for it.
    fn asking(&self, listeners: &mut Listeners, pid: i32) -> Result<Option<(String, Asking)>, Error> {
        let (trust, own) = (listeners.trust(), listeners.sockets().path().to_owned());
        let uid = process::users(pid.unsigned_abs()).map_or(trust.own(), |[real, ..]| real);
        let Some((place, mailbox)) = listeners.place_for(uid)? else { return Ok(None) };
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
        Ok(Some((place, Box::new(ask))))
    }
}

/// Asks other recordings for a process until one of them passes our invitation on (`None`), or has something to say
/// against it. The process may be about to join one that does not know it yet.
fn passed_on(ask: &Asking, patience: Patience<'_>) -> Option<Vec<String>> {
    let until = Instant::now() + FINDING;
    loop {
        match ask() {
            Some(answers)
                if answers.is_empty() && Instant::now() < until && !patience.over.load(Ordering::Relaxed) =>
            {
                std::thread::sleep(AGAIN);
            }
            answers => return answers,
        }
    }
}
