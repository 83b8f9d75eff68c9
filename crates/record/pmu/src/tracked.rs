//! Code in memory that stays writable and executable: which pages were written to, and since when (Sharma 2017, 7.4,
//! algorithms 3 and 4: access tracking).
//!
//! The thesis takes the right to execute from a page, copies it in the fault of its first execution, gives that right
//! back and takes the one to write, and so on: in a kernel of its own. Of a kernel as it is this is asked:
//! ```text
//! tracker (`mote_inject`)        a userfaultfd(2) of the process: pages are protected from writing
//! fault of a write               the kernel lifts the protection by itself; a program notes the time (`mote_jitcode`)
//! look, some 50 times a second   PAGEMAP_SCAN: which pages were written to; they are protected again, then read
//! ```
//! So a version is known from its first write on, exactly, and what was executed before that is certain. Until the look
//! behind there may have been others between: it is in doubt for that time, where bytes have changed that were code
//! before. No thread of the process ever waits for the recorder; when that ends, all is as before.
//!
//! A page costs its process one fault for each look in which it is found, and no more. The more pages are found, the
//! later is the next look.

use crate::elsewhere::{Changed, Elsewhere};
use crate::generated::Generated;
use crate::open::{self, Open};
use mote_clock::Sample;
use mote_inject::{Error, Patience};
use mote_perfdata::intel_pt::Clock;
use mote_symbol::mapped;
use mote_sys::Errno;
use mote_sys::fd::{self, Fd};
use mote_sys::mem::PAGE_BYTES;
use mote_sys::uffd::{self, Region};
use std::collections::BTreeMap;
use std::ffi::CString;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, TryRecvError, channel};
use std::time::{Duration, Instant};

/// The shortest time from one round of looks to the next.
const PAUSE: Duration = Duration::from_millis(20);
/// What it is longer for each page that was found: of a process's time, faults cost no more than some hundredths.
const PAUSE_FOR_PAGE: Duration = Duration::from_micros(50);
/// The shortest time from one look into the maps of a process to the next.
const MAPS: Duration = Duration::from_millis(10);
/// Of a recorder's time no more than one part of so many.
const SHARE: u32 = 20;
/// Pages that one look reads.
const PAGES_MAX: u64 = 256;
/// Regions of which the kernel tells at once.
const FOUND_MAX: usize = 64;
/// Pages of which it is kept what they were: 64 MiB.
const KEPT_MAX: usize = 16 << 10;
/// Processes, and memories of each, that are tracked at most.
const PROCESSES_MAX: usize = 256;
const MEMORIES_MAX: usize = 1024;
/// Looks that take everything in when a recording ends.
const LAST_LOOKS: usize = 64;
/// How long it may take to make a tracker.
const MAKING: Duration = Duration::from_secs(5);

/// The memory of all processes.
#[derive(Debug, Default)]
pub(crate) struct Tracked {
    processes: BTreeMap<i32, Process>,
    /// What pages were when they were read, by process and address.
    before: BTreeMap<(i32, u64), Vec<u8>>,
    /// When pages were written to, since they were read.
    writes: BTreeMap<(i32, u64), Vec<u64>>,
    /// Process and address where the next look goes on; `None` for the begin of a round.
    next: Option<(i32, u64)>,
    /// Pages that were found in this round.
    found: u32,
    due: Option<Instant>,
    /// No look before.
    rest_until: Option<Instant>,
    /// The recording ends.
    over: Arc<AtomicBool>,
    problems: Vec<String>,
}

/// How far tracking a process is.
#[derive(Debug)]
enum State {
    /// It has no such memory.
    Idle,
    /// A thread of ours makes a tracker there.
    Asked(Receiver<Result<Fd, Error>>),
    On(Tracker),
    /// It cannot be tracked.
    Impossible,
}

#[derive(Debug)]
struct Process {
    state: State,
    /// When its maps are to be looked into: something was mapped or protected.
    look: Option<Instant>,
}

/// What tracks a process.
#[derive(Debug)]
struct Tracker {
    uffd: Fd,
    pagemap: Fd,
    memory: Fd,
    /// By address.
    memories: BTreeMap<u64, Memory>,
}

#[derive(Clone, Copy, Debug)]
struct Memory {
    open: Open,
    /// The time stamp counter before pages of it were protected the last time.
    since: Option<u64>,
}

/// The clocks, and how that of the packets runs, where both are known.
pub(crate) trait Clocks: Fn() -> Option<(Sample, Clock)> {}
impl<F: Fn() -> Option<(Sample, Clock)>> Clocks for F {}

/// What was found of a memory.
struct Scanned {
    open: Open,
    /// The pages, by address where they are written; nothing where there is no such memory any more.
    read: Option<Vec<(u64, Vec<u8>)>>,
    /// When they were protected before, and now.
    since: Option<u64>,
    protected: Option<u64>,
    /// Where the look goes on.
    next: u64,
}

/// A page that was written to, as it is now.
struct Page {
    pid: i32,
    at: u64,
    code: Vec<u8>,
    time: Option<u64>,
    since: Option<u64>,
}

impl Tracked {
    /// Something was mapped in a process, or protected otherwise.
    pub(crate) fn changed(&mut self, pid: i32) {
        let has_room = self.processes.len() < PROCESSES_MAX;
        let process = match self.processes.get_mut(&pid) {
            Some(process) => process,
            None if has_room => {
                self.processes.entry(pid).or_insert(Process { state: State::Idle, look: None })
            }
            None => return,
        };
        process.look.get_or_insert_with(|| Instant::now() + MAPS);
    }

    /// A page was noted as it was when it became executable: what it was before does not count any more.
    pub(crate) fn copied(&mut self, pid: i32, at: u64) {
        self.before.remove(&(pid, at));
    }

    /// A process has ended, or has become another program.
    pub(crate) fn gone(&mut self, pid: i32, generated: &Generated) {
        if let Some(Process { state: State::On(tracker), .. }) = self.processes.remove(&pid) {
            tracker.memories.values().for_each(|memory| generated.leave(pid, memory.open));
        }
        let all = (pid, 0)..=(pid, u64::MAX);
        self.before.extract_if(all.clone(), |_, _| true).for_each(drop);
        self.writes.extract_if(all, |_, _| true).for_each(drop);
    }

    /// What is not tracked, and why, as sentences.
    pub(crate) fn take_problems(&mut self) -> Vec<String> {
        std::mem::take(&mut self.problems)
    }

    /// Looks for memory that is to be tracked, and, where that is due, for pages that were written to; gives those
    /// that have changed to `to`, in the order in which they were written to.
    ///
    /// # Errors
    /// Those of `to`.
    ///
    /// # Cost
    /// Reads up to 1 MiB. When it is called often, it takes a twentieth of the time at most.
    pub(crate) fn step(
        &mut self,
        generated: &mut Generated,
        elsewhere: &mut Elsewhere,
        clocks: &impl Clocks,
        to: impl FnMut(Changed<'_>) -> std::io::Result<()>,
    ) -> std::io::Result<()> {
        self.follow(generated, elsewhere);
        let is_over = |until: Option<Instant>| until.is_none_or(|until| Instant::now() >= until);
        if self.processes.is_empty()
            || !is_over(self.rest_until)
            || (self.next.is_none() && !is_over(self.due))
        {
            return Ok(());
        }
        self.look(generated, elsewhere, clocks, to)
    }

    /// Looks at all of it, as far as [`LAST_LOOKS`] get.
    ///
    /// # Errors
    /// Those of `to`.
    pub(crate) fn look_at_all(
        &mut self,
        generated: &mut Generated,
        elsewhere: &mut Elsewhere,
        clocks: &impl Clocks,
        mut to: impl FnMut(Changed<'_>) -> std::io::Result<()>,
    ) -> std::io::Result<()> {
        self.next = None;
        for _ in 0..LAST_LOOKS {
            self.look(generated, elsewhere, clocks, &mut to)?;
            if self.next.is_none() {
                break;
            }
        }
        Ok(())
    }

    fn look(
        &mut self,
        generated: &mut Generated,
        elsewhere: &mut Elsewhere,
        clocks: &impl Clocks,
        mut to: impl FnMut(Changed<'_>) -> std::io::Result<()>,
    ) -> std::io::Result<()> {
        let begun = Instant::now();
        if self.next.is_none() {
            self.found = 0;
        }
        let mut pages = self.find(generated, clocks);
        // Versions count from when they begin, one after the other.
        pages.sort_by_key(|page| page.since.or(page.time));
        for page in pages {
            self.give(page, elsewhere, &mut to)?;
        }
        let now = Instant::now();
        if self.next.is_none() {
            self.due = Some(begun + PAUSE + PAUSE_FOR_PAGE * self.found);
        }
        self.rest_until = Some(now + begun.elapsed() * SHARE);
        Ok(())
    }

    /// Finds pages that were written to, from where the last look has ended, and reads them.
    fn find(&mut self, generated: &mut Generated, clocks: &impl Clocks) -> Vec<Page> {
        let ticks = || clocks().map(|(sample, _)| sample.ticks);
        let mut pages = Vec::new();
        let mut left = PAGES_MAX;
        while left > 0 {
            let Some((pid, scanned)) = self.scan(left, &ticks) else { break };
            let Scanned { open, read, since, protected, next } = scanned;
            self.next = Some((pid, next));
            let Some(read) = read else {
                // It was unmapped, or is about to be.
                self.changed(pid);
                continue;
            };
            if read.is_empty() {
                continue;
            }
            left = left.saturating_sub(read.len() as u64);
            self.found = self.found.saturating_add(read.len() as u32);
            self.note_writes(generated, clocks);
            let time = ticks();
            for (at, code) in read {
                let since = self.written(pid, at, protected).or(since);
                pages.push(Page { pid, at: open.code + (at - open.start), code, time, since });
            }
        }
        pages
    }

    /// Finds and reads no more than so many pages of the memory where the look goes on; nothing where the round is
    /// over.
    fn scan(&mut self, pages: u64, ticks: &impl Fn() -> Option<u64>) -> Option<(i32, Scanned)> {
        let Some((pid, tracker, (start, from))) = following(&mut self.processes, self.next) else {
            self.next = None;
            return None;
        };
        let memory = tracker.memories.get_mut(&start)?;
        let (open, since) = (memory.open, memory.since);
        let now = ticks();
        let mut found = [Region::default(); FOUND_MAX];
        let Ok((count, behind)) = uffd::written(&tracker.pagemap, from, open.end, &mut found, pages) else {
            tracker.memories.remove(&start);
            return Some((pid, Scanned { open, read: None, since, protected: now, next: open.end }));
        };
        let protected = ticks();
        let is_whole = behind >= open.end || behind <= from;
        if is_whole {
            memory.since = now;
        }
        let found = found.get(..count).unwrap_or_default();
        let addresses = found.iter().flat_map(|region| (region.start..region.end).step_by(PAGE_BYTES));
        let read = addresses.filter_map(|at| {
            let mut code = vec![0; PAGE_BYTES];
            let read = fd::read_at(&tracker.memory, &mut code, open.code + (at - open.start));
            (read == Ok(PAGE_BYTES)).then_some((at, code))
        });
        let read = Some(read.collect());
        let next = if is_whole { open.end } else { behind };
        Some((pid, Scanned { open, read, since, protected, next }))
    }

    /// Takes the times of writes from the kernel's program.
    fn note_writes(&mut self, generated: &mut Generated, clocks: &impl Clocks) {
        for (pid, at, time) in generated.take_writes(clocks()) {
            let Some(Process { state: State::On(tracker), .. }) = self.processes.get(&pid) else { continue };
            let memory = tracker.memories.range(..=at).next_back();
            if memory.is_some_and(|(_, memory)| at < memory.open.end) {
                self.writes.entry((pid, at)).or_default().push(time);
            }
        }
    }

    /// When a page was written to first, of those times up to when it was protected again; the later ones stay.
    fn written(&mut self, pid: i32, at: u64, protected: Option<u64>) -> Option<u64> {
        let times = self.writes.get_mut(&(pid, at))?;
        let is_before = |time: &u64| protected.is_none_or(|protected| *time <= protected);
        let first = times.iter().copied().filter(is_before).min();
        times.retain(|time| !is_before(time));
        if times.is_empty() {
            self.writes.remove(&(pid, at));
        }
        first
    }

    /// Gives what has changed of a page to `to`.
    fn give(
        &mut self,
        page: Page,
        elsewhere: &mut Elsewhere,
        to: &mut impl FnMut(Changed<'_>) -> std::io::Result<()>,
    ) -> std::io::Result<()> {
        let Page { pid, at, code, time, since } = page;
        let before = self.before.get(&(pid, at)).map(Vec::as_slice);
        let changed = Changed { pid, start: at, code: &code, time, since };
        elsewhere.written(changed, before, to)?;
        if before.is_some() || self.before.len() < KEPT_MAX {
            self.before.insert((pid, at), code);
        }
        Ok(())
    }

    /// Looks into the maps of those processes in which something was mapped, and begins to track what is new there.
    fn follow(&mut self, generated: &mut Generated, elsewhere: &mut Elsewhere) {
        let now = Instant::now();
        for (pid, process) in &mut self.processes {
            if let State::Asked(answer) = &process.state {
                process.state = match answer.try_recv() {
                    Err(TryRecvError::Empty) => continue,
                    Ok(Ok(uffd)) => {
                        process.look = Some(now);
                        Tracker::open(*pid, uffd).map_or_else(
                            |why| refused(*pid, &Error::Refused(why), &mut self.problems),
                            State::On,
                        )
                    }
                    Ok(Err(why)) => refused(*pid, &why, &mut self.problems),
                    Err(TryRecvError::Disconnected) => State::Impossible,
                };
            }
            if process.look.is_none_or(|look| look > now) || matches!(process.state, State::Impossible) {
                continue;
            }
            process.look = None;
            let mut all = open::find(&mapped::table(&format!("/proc/{pid}/maps")));
            all.truncate(MEMORIES_MAX);
            match &mut process.state {
                State::Idle if !all.is_empty() => process.state = State::Asked(ask(*pid, &self.over)),
                State::On(tracker) => {
                    if tracker.watch(*pid, all, generated) {
                        (self.due, self.rest_until) = (None, None);
                    }
                    elsewhere.set_tracked(*pid, tracker.memories.values().map(|memory| memory.open));
                }
                _ => {}
            }
        }
    }
}

/// The process and memory where a look goes on: where it begins, and from which address on.
fn following(
    processes: &mut BTreeMap<i32, Process>,
    next: Option<(i32, u64)>,
) -> Option<(i32, &mut Tracker, (u64, u64))> {
    let (first, from) = next.unwrap_or((i32::MIN, 0));
    processes.range_mut(first..).find_map(|(pid, process)| {
        let State::On(tracker) = &mut process.state else { return None };
        let from = if *pid == first { from } else { 0 };
        let memory = tracker.memories.values().find(|memory| memory.open.end > from)?;
        let start = memory.open.start;
        Some((*pid, tracker, (start, start.max(from))))
    })
}

impl Drop for Tracked {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Relaxed);
    }
}

impl Tracker {
    fn open(pid: i32, uffd: Fd) -> Result<Tracker, Errno> {
        uffd::prepare(&uffd)?;
        let open = |name: &str| {
            let path = CString::new(format!("/proc/{pid}/{name}")).map_err(|_| Errno(libc::EINVAL))?;
            fd::open(&path, libc::O_RDONLY, 0)
        };
        Ok(Tracker { pagemap: open("pagemap")?, memory: open("mem")?, uffd, memories: BTreeMap::new() })
    }

    /// Watches this memory, and none that is not there any more; returns whether there is new one. What it has before
    /// it is protected for the first time, which the next look does, is not known as precisely.
    fn watch(&mut self, pid: i32, all: Vec<Open>, generated: &mut Generated) -> bool {
        let mut is_new = false;
        let mut before = std::mem::take(&mut self.memories);
        for open in all {
            let known = before.remove(&open.start).filter(|memory| memory.open == open);
            // What is watched already stays so; what has been mapped anew is not.
            if uffd::watch(&self.uffd, open.start, open.end - open.start).is_err() {
                continue;
            }
            generated.track(pid, open);
            is_new |= known.is_none();
            let memory = known.unwrap_or(Memory { open, since: None });
            self.memories.insert(open.start, memory);
        }
        before.values().for_each(|memory| generated.leave(pid, memory.open));
        is_new
    }
}

/// Has a thread of its own make a tracker: it may have to wait for one of the process's.
fn ask(pid: i32, over: &Arc<AtomicBool>) -> Receiver<Result<Fd, Error>> {
    let (tell, answer) = channel();
    let over = Arc::clone(over);
    let make = move || {
        let patience = Patience { until: Instant::now() + MAKING, over: &over };
        // Nobody may be there any more.
        let _ = tell.send(mote_inject::tracker(pid, patience));
    };
    // Without a thread, nobody answers.
    let _ = std::thread::Builder::new().name("mote-track".to_owned()).spawn(make);
    answer
}

/// Says why a process is not tracked, where that is of interest.
fn refused(pid: i32, why: &Error, problems: &mut Vec<String>) -> State {
    let is_away = matches!(why, Error::Ended | Error::Replaced | Error::Over);
    if !is_away {
        let why = match why {
            Error::Refused(Errno(libc::ENOSYS | libc::EINVAL)) => {
                "Linux 6.7 and CONFIG_USERFAULTFD are needed".into()
            }
            other => other.to_string(),
        };
        problems.push(format!(
            "code of process {pid} that stays writable is looked at some times a second, and may be in doubt between: \
             it cannot be seen when it is written to: {why}"
        ));
    }
    State::Impossible
}
