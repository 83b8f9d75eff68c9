//! Probes in functions of programs: the library is loaded into the process, with a plan of its own.

use crate::error::Error;
use crate::registration::attached::Report;
use mote_clock::Source;
use mote_functions::Pattern;
use mote_inject::{Load, Patience, Starts, Visit, Wish};
use mote_sys::Errno;
use mote_trampolines::{Choice, Meant, Needs, Nothing, Sampling, choose};
use mote_words::counted_grouped;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Where the library is, if not beside us.
const LIBRARY: &str = "MOTE_LIBRARY";
/// Its places beside the program `mote`: in a build, and where it is installed.
const BESIDE: [&str; 4] = ["libmote.so", "../library/libmote.so", "../lib/libmote.so", "../lib64/libmote.so"];

/// The functions that are to have probes, in each process that is recorded.
#[derive(Debug)]
pub(crate) struct Functions {
    patterns: Vec<Pattern>,
    sampling: Option<Sampling>,
    library: Vec<u8>,
    /// A tick's nanoseconds, in units of 2^-32.
    tick: u64,
}

impl Functions {
    /// Those that patterns mean; `None` where there are no patterns. Their calls are samples where `sampling` says how.
    ///
    /// # Errors
    /// [`Error::Functions`]: a pattern is none, or there is no library, or no clock that they could read.
    pub(crate) fn of(
        patterns: &[String],
        sampling: Option<&Sampling>,
        source: Source,
        hz: u64,
    ) -> Result<Option<Arc<Functions>>, Error> {
        if patterns.is_empty() {
            return Ok(None);
        }
        if source != Source::Tsc {
            return Err(Error::Functions(
                "the clock of this machine is not the processor's time-stamp counter".to_owned(),
            ));
        }
        let patterns: Result<_, String> = patterns.iter().map(|pattern| Pattern::new(pattern)).collect();
        let patterns = patterns.map_err(Error::Functions)?;
        let sampling = sampling.cloned();
        Ok(Some(Arc::new(Functions { patterns, sampling, library: library()?, tick: tick(hz) })))
    }

    /// Puts probes into a process that runs, and has it join the session at `place`. Returns what is to be said.
    pub(crate) fn join(&self, pid: i32, place: &str, patience: Patience<'_>) -> Result<String, String> {
        let mut left = PLANS;
        loop {
            left -= 1;
            let visit = Visit::open(pid).map_err(|why| why.to_string())?;
            let choice = self.choose(pid, Needs::All).map_err(|why| why.to_string())?;
            let load = Load { library: &self.library, plan: &choice.plan, place };
            match visit.load(load, patience) {
                // It has mapped something meanwhile where the probes' code was to lie.
                Err(mote_inject::Error::Refused(Errno(libc::EEXIST))) if left > 0 => {}
                loaded => return loaded.map(|_| said(pid, &choice)).map_err(|why| why.to_string()),
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
        let mut starting = Starting {
            functions: self,
            report,
            meant: Meant::default(),
            chosen: None,
            nothing: None,
            programs: 0,
            has_any: false,
        };
        let done = mote_inject::at_start(pid, &self.library, &mut starting, patience);
        let Starting { nothing, programs, has_any, .. } = starting;
        (starting.report)(Report::FirstIsFree);
        match (done, nothing) {
            (Err(why), _) => Err(why.to_string()),
            (Ok(()), Some(why)) if !has_any => {
                let others = programs.saturating_sub(1) as u64;
                let others = match others {
                    0 => String::new(),
                    others => format!(
                        "; nor of {} that it has started",
                        counted_grouped(others, "program", "programs")
                    ),
                };
                Err(format!("{why}{others}"))
            }
            (Ok(()), _) => Ok(String::new()),
        }
    }

    fn choose(&self, pid: i32, needs: Needs) -> Result<Choice, Nothing> {
        choose(pid.unsigned_abs(), &self.patterns, needs, self.tick, self.sampling.as_ref())
    }
}

/// Programs that begin, and what is wanted in each.
struct Starting<'f> {
    functions: &'f Functions,
    report: &'f mut dyn FnMut(Report),
    meant: Meant,
    /// Of the program that is being loaded into.
    chosen: Option<Choice>,
    /// Why there was nothing in the first one.
    nothing: Option<Nothing>,
    programs: usize,
    has_any: bool,
}

impl Starts for Starting<'_> {
    fn wish(&mut self, pid: i32) -> Wish {
        let is_first = self.programs == 0;
        self.programs += 1;
        // Of the first one it is said what it has instead.
        if !is_first && !self.meant.may_be_in(pid.unsigned_abs(), &self.functions.patterns) {
            return Wish::PassOn;
        }
        let needs = if is_first { Needs::All } else { Needs::Any };
        match self.functions.choose(pid, needs) {
            Ok(choice) => Wish::Load(self.chosen.insert(choice).plan.clone()),
            Err(why @ Nothing::NoSuch { others_do: false, .. }) => {
                self.nothing.get_or_insert(why);
                Wish::PassOn
            }
            Err(why) => {
                self.has_any = true;
                (self.report)(Report::Probed(pid, Err(why.to_string())));
                Wish::LetGo
            }
        }
    }

    fn done(&mut self, pid: i32, loaded: Result<u64, mote_inject::Error>) {
        self.has_any = true;
        let choice = self.chosen.take();
        let said = match loaded {
            Ok(_) => Ok(choice.map_or_else(String::new, |choice| said(pid, &choice))),
            Err(why) => Err(why.to_string()),
        };
        (self.report)(Report::Probed(pid, said));
    }

    fn follows(&mut self) {
        (self.report)(Report::Follows);
    }

    fn first_has_ended(&mut self) {
        (self.report)(Report::FirstIsFree);
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

fn said(pid: i32, choice: &Choice) -> String {
    let probes = counted_grouped(choice.probes as u64, "function", "functions");
    let refusals = choice.refusals();
    let without = if refusals.is_empty() { refusals } else { format!("; without: {refusals}") };
    format!("probes in {probes} of process {pid}{without}")
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
