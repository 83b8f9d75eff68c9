//! Probes in functions of programs: the library is loaded into the process, with a plan of its own; and again, with
//! another plan, when the process has loaded libraries since that have functions which are wanted.

mod bare;
mod started;

use crate::call_counts::CallCounts;
use crate::error::Error;
use crate::options::Options;
use crate::process;
use crate::registration::attached::Report;
use bare::BareProcesses;
use mote_clock::Source;
use mote_functions::{Lists, Pattern};
use mote_inject::{Bare, Load, Loaded, Patience, Starts, Visit};
use mote_symbol::mapped::{self, FileId};
use mote_sys::Errno;
use mote_trampolines::{Asked, CallsAre, Choice, Counting, Meant, Needs, Nothing, Sampling, Wanted, choose};
use mote_words::{counted_grouped, grouped};
use started::Started;
use std::collections::{BTreeMap, HashSet};
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

/// Where the library is, if not beside us.
const LIBRARY: &str = "MOTE_LIBRARY";
/// Its places beside the program `mote`: in a build, and where it is installed.
const BESIDE: [&str; 4] = ["libmote.so", "../library/libmote.so", "../lib/libmote.so", "../lib64/libmote.so"];

/// Patterns of functions.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Given<'g> {
    /// Those that are to have events of their own.
    pub(crate) patterns: &'g [String],
    /// Those whose calls have to be around the others'; none where these are wanted anywhere.
    pub(crate) under: &'g [String],
    /// Those that are sampled when a rule asks for that.
    pub(crate) asked: &'g [String],
}

/// The functions that are to have probes, in each process that is recorded.
#[derive(Debug)]
pub(crate) struct Functions {
    patterns: Vec<Pattern>,
    /// The patterns as they were given, and those of `callers`.
    given: (Vec<String>, Vec<String>),
    /// Those of them whose calls have to be around the others'.
    callers: Vec<Pattern>,
    /// The number by which processes know these.
    callers_number: u64,
    /// Names for functions of stripped binaries.
    lists: Lists,
    calls: CallsAre,
    /// How many of the patterns, the last ones, are of functions that are sampled when a rule asks for that, and how.
    asked: (usize, Sampling),
    /// What they count.
    counts: CallCounts,
    /// The processes that count without the library.
    bare: BareProcesses,
    /// The number of the next plan.
    number: AtomicU64,
    /// There is a process that has loaded something.
    has_later: AtomicBool,
    library: Vec<u8>,
    /// A tick's nanoseconds, in units of 2^-32.
    tick: u64,
    known: Mutex<Known>,
}

/// What came of putting probes into a process.
#[derive(Debug, Default)]
pub(crate) struct Joined {
    /// What is to be said.
    pub(crate) said: String,
    /// It did not join by this, as another recording has it.
    pub(crate) is_in_another: bool,
}

/// What was looked at.
#[derive(Debug, Default)]
struct Known {
    /// Which files have functions that are wanted.
    meant: Meant,
    /// Of each process that has probes: the files whose functions have theirs, or are not wanted.
    files: BTreeMap<i32, HashSet<FileId>>,
    /// The processes that have probes, or are to get some.
    asked: HashSet<i32>,
}

impl Functions {
    /// Those that patterns mean, by the probe lists of `options`, too; `None` where there are no patterns. What becomes
    /// of calls say `options`.
    ///
    /// # Errors
    /// [`Error::Functions`]: a pattern is none, a list is none, or there is no library, or no clock that they could
    /// read.
    pub(crate) fn of(
        Given { patterns, under, asked }: Given<'_>,
        options: &Options,
        source: Source,
        hz: u64,
    ) -> Result<Option<Arc<Functions>>, Error> {
        if patterns.is_empty() && asked.is_empty() {
            return Ok(None);
        }
        if source != Source::Tsc {
            return Err(Error::Functions(
                "the clock of this machine is not the processor's time-stamp counter".to_owned(),
            ));
        }
        let given = (patterns.to_vec(), under.to_vec());
        let parsed = |patterns: &[String]| -> Result<Vec<Pattern>, Error> {
            patterns.iter().map(|pattern| Pattern::new(pattern).map_err(Error::Functions)).collect()
        };
        let (mut patterns, callers) = (parsed(patterns)?, parsed(under)?);
        patterns.extend_from_slice(&callers);
        patterns.extend(parsed(asked)?);
        let asked = (asked.len(), options.sampling.clone().unwrap_or_else(Sampling::usual));
        let lists = Lists::open(&options.probe_lists).map_err(|why| Error::Functions(why.to_string()))?;
        let (calls, library) = (options.calls.clone(), library()?);
        let (tick, known, counts) = (tick(hz), Mutex::default(), CallCounts::default());
        let bare = BareProcesses::default();
        // Other recorders count from another moment on.
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let first = now.as_nanos() as u64 | 1;
        let number = AtomicU64::new(first);
        let callers_number = first;
        Ok(Some(Arc::new(Functions {
            patterns,
            given,
            callers,
            callers_number,
            lists,
            calls,
            asked,
            counts,
            bare,
            number,
            has_later: AtomicBool::new(false),
            library,
            tick,
            known,
        })))
    }

    /// Whether they are those of these patterns, below calls of these callers.
    pub(crate) fn are_of(&self, patterns: &[String], under: &[String]) -> bool {
        self.given.0 == patterns && self.given.1 == under
    }

    /// Whether a process has probes in them, or is to get some.
    pub(crate) fn are_asked_of(&self, pid: i32) -> bool {
        self.known().asked.contains(&pid)
    }

    /// A process is to get probes in them.
    pub(crate) fn ask_of(&self, pid: i32) {
        self.known().asked.insert(pid);
    }

    /// The processes with probes that have loaded files since which have functions that are wanted. Those that have
    /// ended, or have become another program, are forgotten.
    ///
    /// # Cost
    /// Reads the table of mappings of each; the symbols of each file once.
    pub(crate) fn with_later_files(&self) -> Vec<i32> {
        let wanted = self.wanted();
        let Known { meant, files, asked } = &mut *self.known();
        let mut later = Vec::new();
        files.retain(|pid, known| {
            let id = pid.unsigned_abs();
            let now = mapped::code(id);
            let is_the_same = now.iter().any(|mapped| mapped.file.is_some_and(|id| known.contains(&id)));
            if is_the_same && meant.may_be_in_others(id, &now, known, wanted) {
                later.push(*pid);
            }
            if !is_the_same {
                asked.remove(pid);
            }
            is_the_same
        });
        later
    }

    /// A process has loaded something since it was looked at.
    fn expect_later(&self) {
        self.has_later.store(true, Ordering::Release);
    }

    /// Whether that is so; once.
    pub(crate) fn expects_later(&self) -> bool {
        self.has_later.swap(false, Ordering::Acquire)
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn note(&self, pid: i32, files: &HashSet<FileId>) {
        let known = &mut *self.known();
        known.files.entry(pid).or_default().extend(files);
        known.asked.insert(pid);
    }

    /// A process has got none: it may be asked for another time.
    fn forget(&self, pid: i32) {
        let known = &mut *self.known();
        known.files.remove(&pid);
        known.asked.remove(&pid);
    }

    /// Puts probes into a process that runs, or into what it has loaded since it got some, and has it join the session
    /// at `place`.
    pub(crate) fn join(&self, pid: i32, place: &str, patience: Patience<'_>) -> Result<Joined, String> {
        let known = self.known().files.get(&pid).cloned().unwrap_or_default();
        let (needs, whole) = if known.is_empty() {
            (Needs::All, format!("process {pid}"))
        } else {
            (Needs::Any, format!("what process {pid} has loaded since"))
        };
        match self.load(pid, (needs, &known), place, patience) {
            Ok((choice, _)) if choice.probes == 0 && !known.is_empty() => Ok(Joined::default()),
            Ok((choice, loaded)) => {
                let is_in_another = loaded.is_in_one && known.is_empty();
                Ok(Joined { said: self.said(&whole, pid, &choice, loaded), is_in_another })
            }
            // What it has loaded is gone with it.
            Err(_) if !known.is_empty() && !process::runs(pid) => Ok(Joined::default()),
            Err(why) => {
                if known.is_empty() {
                    self.forget(pid);
                }
                Err(why)
            }
        }
    }

    /// Loads the library and a plan; returns that, and how many functions the process has for it.
    fn load(
        &self,
        pid: i32,
        (needs, known): (Needs, &HashSet<FileId>),
        place: &str,
        patience: Patience<'_>,
    ) -> Result<(Choice, Loaded), String> {
        let mut left = PLANS;
        loop {
            left -= 1;
            let visit = match Visit::open(pid) {
                Err(mote_inject::Error::NoLoader) if self.can_be_bare() => None,
                visit => Some(visit.map_err(|why| why.to_string())?),
            };
            // What earlier recordings have left there takes the places of what is planned now. It does no other harm.
            if let Some(visit) = visit.as_ref().filter(|_| known.is_empty()) {
                let _ = visit.reclaim(&self.library, patience);
            }
            let choice = self.choose(pid, needs, known).map_err(|why| why.to_string())?;
            // Whatever comes of it: once.
            self.note(pid, &choice.files);
            if choice.probes == 0 && !known.is_empty() {
                return Ok((choice, Loaded { functions: 0, is_in_one: false, bare: None }));
            }
            let load = Load { library: &self.library, plan: &choice.plan, place };
            let loaded = match visit {
                Some(visit) => visit.load(load, patience),
                None => Bare::count(pid, &choice.plan, patience).map(Loaded::bare),
            };
            match loaded {
                // It has mapped something meanwhile where the probes' code was to lie.
                Err(mote_inject::Error::Refused(Errno(libc::EEXIST))) if left > 0 => {}
                loaded => return loaded.map(|loaded| (choice, loaded)).map_err(not_loaded),
            }
        }
    }

    /// Puts probes into the program that a process is about to become, which has stopped itself; or, where it has none
    /// of the functions, into those that it starts. `report` is told what has come of each, and when the first process
    /// can be asked for its status.
    pub(crate) fn start(
        &self,
        pid: i32,
        patience: Patience<'_>,
        report: &mut dyn FnMut(Report),
    ) -> Result<String, String> {
        let mut started = Started::new(self, report);
        let done = mote_inject::at_start(pid, &self.library, &mut started, patience);
        let said = match done {
            Ok(()) => started.end().map(|()| String::new()),
            Err(why) => {
                started.first_is_free();
                Err(not_loaded(why))
            }
        };
        said.inspect_err(|_| self.forget(pid))
    }

    fn choose(&self, pid: i32, needs: Needs, known: &HashSet<FileId>) -> Result<Choice, Nothing> {
        let mut choice = choose(pid.unsigned_abs(), self.wanted(), needs, known)?;
        choice.counted.take().into_iter().for_each(|counted| self.counts.add(counted));
        Ok(choice)
    }

    /// Whether their calls can be counted in processes that cannot load the library.
    fn can_be_bare(&self) -> bool {
        let counts = matches!(self.calls, CallsAre::Counted(Counting { returns: false, .. }));
        counts && self.callers.is_empty() && self.asked.0 == 0
    }

    /// Whether a process is one of those.
    pub(crate) fn are_counted_bare_in(&self, pid: i32) -> bool {
        self.bare.has(pid)
    }

    /// The recording ends: takes the probes of processes away that would not do so themselves. Returns what is to be
    /// said.
    pub(crate) fn end_bare(&self) -> Vec<String> {
        self.bare.end()
    }

    /// What is to be said of functions that have got probes, of which a process that has no library is kept.
    fn said(&self, whole: &str, pid: i32, choice: &Choice, loaded: Loaded) -> String {
        let Some(bare) = loaded.bare else { return said(whole, choice, loaded.functions) };
        let text = said(whole, choice, choice.probes as u64) + &bare::remark(&bare);
        let kept = mote_sys::fd::duplicate(bare.memory());
        let kept = kept.map(|memory| self.counts.adopt(bare.number(), memory));
        let kept = kept.map_err(|why| format!("its counts cannot be read: {why}"));
        match kept.and(self.bare.add(pid, bare, &self.counts)) {
            Ok(()) => text,
            Err(why) => format!("{text}; {why}"),
        }
    }

    /// What is counted of their calls.
    pub(crate) fn counts(&self) -> &CallCounts {
        &self.counts
    }

    fn wanted(&self) -> Wanted<'_> {
        Wanted {
            patterns: &self.patterns,
            asked: Asked { patterns: self.asked.0, sampling: Some(&self.asked.1) },
            callers: &self.callers,
            callers_number: self.callers_number,
            lists: &self.lists,
            calls: &self.calls,
            number: self.number.fetch_add(1, Ordering::Relaxed),
            tick: self.tick,
        }
    }
}

/// A command that stops itself before it becomes `command`, with a variable in its environment.
pub(crate) fn held(command: &[OsString], (name, value): (&str, &str)) -> Result<Vec<OsString>, Error> {
    let own = std::env::current_exe()
        .map_err(|why| Error::Functions(format!("mote does not find itself: {why}")))?;
    let variable = format!("{name}={value}");
    Ok([own.into_os_string(), HOLD.into(), variable.into()]
        .into_iter()
        .chain(command.iter().cloned())
        .collect())
}

/// How often a plan is made for a process that runs.
const PLANS: u32 = 5;

/// The word by which `mote` is asked to stop itself and then to become what the words behind it say.
pub const HOLD: &str = "__hold";

/// What is to be said of probes in functions of `whole`, which has that many for this plan: others are on for another
/// recording.
fn said(whole: &str, choice: &Choice, had: u64) -> String {
    let probes = counted_grouped(choice.probes as u64, "function", "functions");
    let refusals = choice.refusals();
    let without = if refusals.is_empty() { refusals } else { format!("; without: {refusals}") };
    let busy = match (choice.probes as u64).saturating_sub(had) {
        0 => String::new(),
        busy => format!(
            "; nothing of {}, whose calls another recording counts: end that first",
            counted_grouped(busy, "function", "functions")
        ),
    };
    let asked = match choice.asked as u64 {
        0 => String::new(),
        asked => format!(", {} of them off until a rule asks for samples", grouped(asked)),
    };
    format!("probes in {probes} of {whole}{asked}{without}{busy}")
}

/// Why a plan was not taken in, for a person.
fn not_loaded(why: mote_inject::Error) -> String {
    let hint = match why {
        mote_inject::Error::Refused(Errno(libc::EINVAL)) => {
            "; is the libmote.so beside mote of another version? build or install both anew"
        }
        _ => "",
    };
    format!("{why}{hint}")
}

/// The nanoseconds of a tick of this frequency, in units of 2^-32.
fn tick(hz: u64) -> u64 {
    const NS_PER_S: u128 = 1_000_000_000;
    let tick = (NS_PER_S << 32).checked_div(u128::from(hz)).unwrap_or(0);
    u64::try_from(tick).unwrap_or(u64::MAX)
}

/// The library that is loaded into programs.
fn library() -> Result<Vec<u8>, Error> {
    let own = std::env::current_exe().unwrap_or_default();
    let folder = own.parent().unwrap_or(Path::new("."));
    let named = std::env::var_os(LIBRARY).map(PathBuf::from);
    // Debian's place for libraries of a processor.
    let of_processor = format!("../lib/{}-linux-gnu/libmote.so", std::env::consts::ARCH);
    let beside = BESIDE.iter().copied().chain([of_processor.as_str()]).map(|place| folder.join(place));
    let tried: Vec<PathBuf> = named.into_iter().chain(beside).collect();
    let read = |path: &PathBuf| std::fs::read(path).ok().filter(|bytes| bytes.starts_with(b"\x7fELF"));
    tried.iter().find_map(read).ok_or_else(|| {
        Error::Functions(format!(
            "libmote.so, which is loaded into the program, is not in {} or beside it; build it with `cargo build \
             --profile library -p mote-capi`, or say where it is with {LIBRARY}",
            folder.display()
        ))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_become_nanoseconds() {
        for hz in [24_000_000_u64, 1_000_000_000, 2_100_000_000, 2_893_202_000, 5_900_000_000] {
            let ns = (u128::from(3600 * hz) * u128::from(tick(hz))) >> 32;
            let error = ns.abs_diff(3_600_000_000_000);
            assert!(error < 3_600_000, "{hz} Hz: {error} ns in an hour");
        }
    }
}
