//! A process that is to join a recording.

use crate::arch;
use crate::error::{Busy, Error};
use crate::join_point::{self, JoinPoint};
use crate::stop::{Sent, Stopped, Waiting};
use crate::thread::{self, Call, Rank};
use mote_layout::join;
use mote_symbol::mapped;
use mote_sys::fd::Fd;
use mote_sys::{Errno, mem, process};
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Read};
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// For how long only threads that suit best are looked for.
const PREFER: Duration = Duration::from_millis(50);
/// How long a thread is looked for.
pub(crate) const LOOKING: Duration = Duration::from_secs(5);
/// How long an answer is waited for: joining itself has steps of two seconds.
const ANSWER: Duration = Duration::from_secs(10);
/// How long a thread may use the memory that another recorder has sent.
const OTHERS: Duration = Duration::from_secs(3);
/// Name of the threads that stop others.
const TRACER: &str = "mote-bring";
/// Name of the threads that the library makes in a process.
const OURS: &str = "mote-agent";
/// How often is looked.
pub(crate) const LOOK: Duration = Duration::from_millis(1);
/// Most threads of a process that are looked at.
const THREADS_MAX: usize = 10_000;

/// Until when things are waited for, and whether the recording is over.
#[derive(Clone, Copy, Debug)]
pub struct Patience<'a> {
    /// Nothing is waited for after this.
    pub until: Instant,
    /// Set when the recording ends.
    pub over: &'a AtomicBool,
}

impl Patience<'_> {
    pub(crate) fn is_over(&self) -> bool {
        self.over.load(Ordering::Relaxed) || Instant::now() > self.until
    }

    /// The same with less time.
    pub(crate) fn at_most(&self, time: Duration) -> Self {
        Patience { until: self.until.min(Instant::now() + time), over: self.over }
    }

    /// Sleeps a little; an error when there is no time left.
    pub(crate) fn wait(&self, then: Error) -> Result<(), Error> {
        if self.over.load(Ordering::Relaxed) {
            return Err(Error::Over);
        }
        if Instant::now() > self.until {
            return Err(then);
        }
        std::thread::sleep(LOOK);
        Ok(())
    }
}

/// A process that carries our code.
#[derive(Debug)]
pub struct Target {
    pid: i32,
    /// `/proc/PID/mem`: of the program that it runs now. After an exec it leads nowhere.
    memory: File,
    points: Vec<JoinPoint>,
}

impl Target {
    /// Looks whether a process can be asked to join.
    ///
    /// # Errors
    /// [`Error`]: it carries nothing, may not be looked into, or is in a state in which it is not to be touched.
    ///
    /// # Cost
    /// Reads the headers of each file that it has mapped as code.
    pub fn open(pid: i32, patience: Patience<'_>) -> Result<Target, Error> {
        let memory = open_memory(pid).map_err(|why| match why {
            // Whether it carries events cannot be seen either.
            Error::Forbidden(Errno(libc::EACCES | libc::EPERM)) => Error::NoEvents,
            other => other,
        })?;
        let points = join_point::find(pid.unsigned_abs(), &memory, patience.until)?;
        Target::checked(pid, memory, points)
    }

    /// A process that need not carry our code.
    pub(crate) fn any(pid: i32) -> Result<Target, Error> {
        Target::checked(pid, open_memory(pid)?, Vec::new())
    }

    /// A process that was touched before, in whatever state it is.
    pub(crate) fn whatever_it_does(pid: i32) -> Result<Target, Error> {
        Ok(Target { pid, memory: open_memory(pid)?, points: Vec::new() })
    }

    fn checked(pid: i32, memory: File, points: Vec<JoinPoint>) -> Result<Target, Error> {
        if !arch::can_keep_registers() {
            return Err(Error::LosesRegisters);
        }
        let target = Target { pid, memory, points };
        target.check()?;
        Ok(target)
    }

    pub(crate) fn pid(&self) -> i32 {
        self.pid
    }

    pub(crate) fn memory(&self) -> &File {
        &self.memory
    }

    /// Sends a thread to each copy of mote in turn, which then joins the session at `place`.
    ///
    /// # Errors
    /// [`Error`]; the process goes on as before. [`Error::InAnother`] when it is in a recording already, which could
    /// have been asked.
    pub fn join(&self, place: &str, patience: Patience<'_>) -> Result<(), Error> {
        self.lock(patience)?;
        let joined = self.points.iter().map(|point| self.join_at(point, place, patience)).collect::<Vec<_>>();
        self.unlock();
        // One copy that has joined is what was asked for.
        if joined.iter().any(Result::is_ok) {
            return Ok(());
        }
        joined.into_iter().next().unwrap_or(Err(Error::NoEvents))
    }

    /// One recorder at a time: with two, the memory has the wrong place for one of them.
    pub(crate) fn lock(&self, patience: Patience<'_>) -> Result<(), Error> {
        loop {
            match self.memory.try_lock() {
                Ok(()) => return Ok(()),
                Err(TryLockError::WouldBlock) => patience.wait(Error::Locked(self.pid))?,
                Err(TryLockError::Error(why)) => return Err(Error::Forbidden(errno(&why))),
            }
        }
    }

    pub(crate) fn unlock(&self) {
        let _ = self.memory.unlock();
    }

    fn join_at(&self, point: &JoinPoint, place: &str, patience: Patience<'_>) -> Result<(), Error> {
        self.check()?;
        let nonce = self.claim(point, patience)?;
        self.write_place(point, place)?;
        let tell = |waiting: &Waiting| {
            self.write(point, join::KIND, &waiting.kind.to_le_bytes())?;
            self.write(point, join::NONCE, &nonce.to_le_bytes())
        };
        let sent = self.send((point.code, nonce), &tell, patience.at_most(LOOKING))?;
        let answer = self.answer(point, nonce, patience.at_most(ANSWER));
        if matches!(answer, Err(Error::Silent(_) | Error::Over)) {
            take_back(point.code, &sent);
        }
        match answer? {
            0 => Ok(()),
            busy if busy == -i64::from(libc::EBUSY) => Err(Error::InAnother),
            error => Err(Error::Refused(Errno(error.unsigned_abs() as i32))),
        }
    }

    /// Why the process is not to be touched, if so.
    pub(crate) fn check(&self) -> Result<(), Error> {
        let status = mapped::table(&format!("/proc/{}/status", self.pid));
        let field = |name: &str| status.lines().find_map(|line| Some(line.strip_prefix(name)?.trim()));
        let tracer = tracer(&status);
        match field("State:").unwrap_or("X").chars().next() {
            Some('Z' | 'X') => Err(Error::Ended),
            Some('T') => Err(Error::Stopped(self.pid)),
            _ if field("Seccomp:").is_some_and(|mode| mode != "0") => Err(Error::Seccomp),
            // Another recorder, which has stopped it for a moment, is waited for; it may have gone meanwhile, and its
            // name with it.
            _ if tracer != 0 && !is_mote(tracer) && self.tracer_of(self.pid) == tracer => {
                Err(Error::Debugged(tracer))
            }
            _ => Ok(()),
        }
    }

    /// Who traces one of its threads; 0 where nobody does.
    pub(crate) fn tracer_of(&self, tid: i32) -> i32 {
        tracer(&mapped::table(&format!("/proc/{}/task/{tid}/status", self.pid)))
    }

    /// Waits until no thread uses the memory. Returns a number for this join.
    ///
    /// A copy that has not answered yet was asked by a recorder that is gone: no recorder misses its answer.
    fn claim(&self, point: &JoinPoint, patience: Patience<'_>) -> Result<u64, Error> {
        let patience = patience.at_most(OTHERS);
        loop {
            let busy = self.read(point, join::BUSY, &mut [0; 4]).map(u32::from_le_bytes)?;
            if busy == 0 {
                break;
            }
            if self.own_pid().is_some_and(|own| own != busy) {
                // A child of fork has a copy of its parent's memory.
                self.write(point, join::BUSY, &[0; 4])?;
                break;
            }
            patience.wait(Error::Occupied)?;
        }
        fresh_number().map_err(|why| Error::Forbidden(errno(&why)))
    }

    fn write_place(&self, point: &JoinPoint, place: &str) -> Result<(), Error> {
        let text = place.as_bytes().get(..join::PLACE_BYTES - 1).unwrap_or(place.as_bytes());
        self.write(point, join::PLACE, &[text, &[0]].concat())
    }

    /// Finds a thread that suits, and sends it to code, with a number; `tell` has the last word before.
    pub(crate) fn send(
        &self,
        to: (u64, u64),
        tell: &(impl Fn(&Waiting) -> Result<(), Error> + Sync),
        patience: Patience<'_>,
    ) -> Result<Sent, Error> {
        let since = Instant::now();
        let mut busy = Busy::default();
        loop {
            let worst = if since.elapsed() < PREFER { Rank::Waits } else { Rank::Ends };
            let mut candidates: Vec<(Rank, i32)> =
                self.threads()?.into_iter().filter_map(|tid| Some((self.rank(tid)?, tid))).collect();
            candidates.retain(|(rank, _)| *rank <= worst);
            if candidates.is_empty() {
                // It has ended, or was stopped.
                self.check()?;
            }
            // The process's first thread has the largest stack, and goes in front of others of its rank.
            candidates.sort_unstable_by_key(|(rank, tid)| (*rank, *tid != self.pid, *tid));
            for (_, tid) in candidates {
                let sent = apart(|| self.try_send(tid, to, tell, &mut busy, patience)).unwrap_or(Ok(None));
                if let Some(sent) = sent? {
                    return Ok(sent);
                }
                if patience.is_over() {
                    break;
                }
            }
            patience.wait(Error::NoThread(busy))?;
        }
    }

    fn try_send(
        &self,
        tid: i32,
        (code, number): (u64, u64),
        tell: &impl Fn(&Waiting) -> Result<(), Error>,
        busy: &mut Busy,
        patience: Patience<'_>,
    ) -> Result<Option<Sent>, Error> {
        let stopped = match Stopped::stop(tid, &patience) {
            Ok(Some(stopped)) => stopped,
            Ok(None) => return Ok(None),
            // Another recorder has stopped it, or it does not stop.
            Err(Errno(libc::ETIMEDOUT)) => {
                busy.unstoppable |= !patience.is_over();
                return Ok(None);
            }
            Err(Errno(libc::EPERM)) => return self.check().map(|()| None),
            Err(why) => return Err(Error::Forbidden(why)),
        };
        let Some(waiting) = stopped.waiting().filter(|waiting| self.is_at_call(waiting)) else {
            return Ok(None);
        };
        if thread::has_signal_frame(&self.memory, waiting.stack_pointer) {
            busy.in_handlers = true;
            return Ok(None);
        }
        tell(&waiting)?;
        let sent = stopped.note();
        match stopped.send(code, number) {
            Ok(()) => Ok(Some(sent)),
            // It was killed meanwhile.
            Err(Errno(libc::ESRCH)) => Ok(None),
            Err(why) => Err(Error::Forbidden(why)),
        }
    }

    /// Leads a thread through code that goes back by itself: any that runs code of its own, at whatever instruction.
    /// The code may neither take a lock nor use memory. `Ok(None)`: none could be led there in time.
    pub(crate) fn lead(&self, code: u64, patience: Patience<'_>) -> Result<Option<Sent>, Error> {
        while !patience.is_over() {
            for tid in self.threads()? {
                let led = || {
                    let stopped = Stopped::stop(tid, &patience).ok()??;
                    let sent = stopped.note();
                    let is_led = stopped.runs(&self.memory) && stopped.detour(&self.memory, code).is_ok();
                    is_led.then_some(sent)
                };
                if let Some(sent) = apart(led).flatten() {
                    return Ok(Some(sent));
                }
            }
            self.check()?;
            std::thread::sleep(LOOK);
        }
        Ok(None)
    }

    /// Whether the thread is behind an instruction of the program that enters the kernel.
    fn is_at_call(&self, waiting: &Waiting) -> bool {
        let mut code = [0; join::SYSCALL.len()];
        let at = waiting.returns_to.wrapping_sub(join::RESTART_BYTES);
        self.memory.read_exact_at(&mut code, at).is_ok() && code == join::SYSCALL
    }

    /// Waits for the answer.
    fn answer(&self, point: &JoinPoint, nonce: u64, patience: Patience<'_>) -> Result<i64, Error> {
        loop {
            if self.word(point, join::ANSWERED)? == nonce {
                return self.word(point, join::ANSWER).map(|answer| answer as i64);
            }
            patience.wait(Error::Silent(ANSWER.as_secs()))?;
        }
    }

    fn rank(&self, tid: i32) -> Option<Rank> {
        // It has descriptors of its own, and so would the thread that it makes.
        if is_ours(self.pid, tid) {
            return None;
        }
        let line = fs::read_to_string(format!("/proc/{}/task/{tid}/syscall", self.pid)).ok()?;
        Call::parse(&line)?.rank()
    }

    pub(crate) fn threads(&self) -> Result<Vec<i32>, Error> {
        Ok(threads(self.pid).map_err(|_| Error::Ended)?.take(THREADS_MAX).collect())
    }

    /// Memory that the process has a descriptor of, whose number it says: no other file, whatever is behind that.
    pub(crate) fn memory_of(&self, number: i32) -> Result<Fd, Error> {
        let taken = process::pidfd_open(self.pid)
            .and_then(|process| process::descriptor_of(&process, number))
            .map_err(Error::Forbidden)?;
        if mem::is_memory(&taken) { Ok(taken) } else { Err(Error::Refused(Errno(libc::EBADF))) }
    }

    /// Those that have to be looked at all, or none.
    pub(crate) fn all_threads(&self) -> Result<Vec<i32>, Error> {
        let threads = self.threads()?;
        if threads.len() < THREADS_MAX { Ok(threads) } else { Err(Error::Forbidden(Errno(libc::E2BIG))) }
    }

    /// The process's id as it knows it itself.
    fn own_pid(&self) -> Option<u32> {
        let status = mapped::table(&format!("/proc/{}/status", self.pid));
        let ids = status.lines().find_map(|line| line.strip_prefix("NStgid:"))?;
        ids.split_ascii_whitespace().next_back()?.parse().ok()
    }

    fn word(&self, point: &JoinPoint, at: usize) -> Result<u64, Error> {
        self.read(point, at, &mut [0; 8]).map(u64::from_le_bytes)
    }

    fn read<const N: usize>(
        &self,
        point: &JoinPoint,
        at: usize,
        into: &mut [u8; N],
    ) -> Result<[u8; N], Error> {
        let read = self.memory.read_exact_at(into, point.area.wrapping_add(at as u64));
        read.map(|()| *into).map_err(|_| self.why_not())
    }

    fn write(&self, point: &JoinPoint, at: usize, bytes: &[u8]) -> Result<(), Error> {
        let written = self.memory.write_all_at(bytes, point.area.wrapping_add(at as u64));
        written.map_err(|_| self.why_not())
    }

    /// Its memory cannot be reached any more.
    pub(crate) fn why_not(&self) -> Error {
        // One that is about to end has no memory any more, before it is told to have ended.
        let maps = File::open(format!("/proc/{}/maps", self.pid));
        let has_memory = maps.and_then(|mut maps| maps.read(&mut [0])).is_ok_and(|read| read > 0);
        match self.check() {
            Err(Error::Ended) => Error::Ended,
            _ if has_memory => Error::Replaced,
            _ => Error::Ended,
        }
    }
}

/// The threads of a process.
///
/// # Errors
/// It has gone.
pub(crate) fn threads(pid: i32) -> io::Result<impl Iterator<Item = i32>> {
    let entries = fs::read_dir(format!("/proc/{pid}/task"))?.flatten();
    Ok(entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()))
}

/// A set of signals of a thread, by the name that it has in its status.
pub(crate) fn signals(pid: i32, tid: i32, name: &str) -> u64 {
    let status = mapped::table(&format!("/proc/{pid}/task/{tid}/status"));
    let signals = status.lines().find_map(|line| line.strip_prefix(name)).unwrap_or_default();
    u64::from_str_radix(signals.trim(), 16).unwrap_or(0)
}

/// Whether a thread of a process is one that the library has made there, by its name.
pub(crate) fn is_ours(pid: i32, tid: i32) -> bool {
    mapped::table(&format!("/proc/{pid}/task/{tid}/comm")).trim_end() == OURS
}

/// Whether it is a thread of the kernel: it never had memory of its own.
fn is_of_kernel(pid: i32) -> bool {
    /// `include/linux/sched.h`.
    const PF_KTHREAD: u64 = 0x0020_0000;
    mapped::state(pid).is_some_and(|(_, flags)| flags & PF_KTHREAD != 0)
}

/// The memory of the program that a process runs now.
fn open_memory(pid: i32) -> Result<File, Error> {
    let memory = OpenOptions::new().read(true).write(true).open(format!("/proc/{pid}/mem"));
    memory.map_err(|why| match why.raw_os_error().unwrap_or(0) {
        libc::ESRCH if is_of_kernel(pid) => Error::Kernel,
        libc::ENOENT | libc::ESRCH => Error::Ended,
        other => Error::Forbidden(Errno(other)),
    })
}

/// Does something on a thread of its own: with its end the kernel lets go of what it traces, also of what has not
/// stopped. `None` when there is no thread.
pub(crate) fn apart<R: Send>(work: impl FnOnce() -> R + Send) -> Option<R> {
    std::thread::scope(|scope| {
        let made = std::thread::Builder::new().name(TRACER.to_owned()).spawn_scoped(scope, work);
        made.ok()?.join().ok()
    })
}

/// A thread that has not come beyond the first instruction that it was sent to, which then is not ours, is put back.
pub(crate) fn take_back(code: u64, sent: &Sent) {
    let moment = Patience { until: Instant::now() + LOOKING, over: &AtomicBool::new(false) };
    let is_there = || fs::exists(format!("/proc/{}", sent.tid)).unwrap_or(false);
    loop {
        match Stopped::stop(sent.tid, &moment) {
            Ok(Some(stopped)) => return stopped.put_back(code, sent),
            // It takes a signal, and its handler comes back to the code.
            Ok(None) if is_there() && moment.wait(Error::Ended).is_ok() => {}
            _ => return,
        }
    }
}

/// Who traces a process, by its status: 0 where nobody does.
pub(crate) fn tracer(status: &str) -> i32 {
    let tracer = status.lines().find_map(|line| line.strip_prefix("TracerPid:"));
    tracer.and_then(|tracer| tracer.trim().parse().ok()).unwrap_or(0)
}

/// Whether a process is a recorder, we ourselves or another one: its name is ours.
pub(crate) fn is_mote(pid: i32) -> bool {
    if fs::exists(format!("/proc/self/task/{pid}")).unwrap_or(false) {
        return true;
    }
    let group = mapped::table(&format!("/proc/{pid}/status"));
    group.lines().any(|line| line.strip_prefix("Name:").is_some_and(|name| name.trim().starts_with("mote")))
}

/// A number that no other recorder uses, above 0.
pub(crate) fn fresh_number() -> io::Result<u64> {
    let mut bytes = [0; 8];
    File::open("/dev/urandom")?.read_exact(&mut bytes)?;
    Ok(u64::from_le_bytes(bytes).max(1))
}

pub(crate) fn errno(why: &io::Error) -> Errno {
    Errno(why.raw_os_error().unwrap_or(libc::EIO))
}
