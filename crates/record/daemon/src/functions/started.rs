//! Programs that a command begins as, and that it starts: which of them get probes, and when.

use super::{Functions, not_loaded};
use crate::process;
use crate::registration::attached::Report;
use mote_inject::{Loaded, Starts, Wish};
use mote_symbol::mapped::{self, FileId};
use mote_trampolines::{Choice, Needs, Nothing, choose};
use mote_words::counted_grouped;
use std::collections::{HashMap, HashSet};

/// Programs that begin, and what is wanted in each.
pub(super) struct Started<'f> {
    functions: &'f Functions,
    report: &'f mut dyn FnMut(Report),
    /// Of the program that is being loaded into.
    chosen: Option<Choice>,
    /// Why there was nothing in the first one.
    nothing: Option<Nothing>,
    /// Those in which nothing is wanted yet, and the files that they have so far.
    passed_on: HashMap<i32, HashSet<FileId>>,
    /// Those that have loaded something since, as long as they are traced.
    leaving: HashMap<i32, HashSet<FileId>>,
    programs: u64,
    has_any: bool,
    first_is_free: bool,
}

impl<'f> Started<'f> {
    /// None yet.
    pub(super) fn new(functions: &'f Functions, report: &'f mut dyn FnMut(Report)) -> Started<'f> {
        Started {
            functions,
            report,
            chosen: None,
            nothing: None,
            passed_on: HashMap::new(),
            leaving: HashMap::new(),
            programs: 0,
            has_any: false,
            first_is_free: false,
        }
    }

    /// No more of them begin. Says why none of them has probes, if that is so.
    pub(super) fn end(mut self) -> Result<(), String> {
        self.first_is_free();
        match self.nothing {
            Some(why) if !self.has_any => {
                let others = match self.programs.saturating_sub(1) {
                    0 => String::new(),
                    others => {
                        let others = counted_grouped(others, "program", "programs");
                        format!("; nor of {others} that it has started")
                    }
                };
                Err(format!("{why}{others}"))
            }
            _ => Ok(()),
        }
    }

    fn decide(&mut self, pid: i32) -> Wish {
        let is_first = self.programs == 0;
        self.programs += 1;
        let functions = self.functions;
        // Of the first one it is said what it has instead.
        let wanted = functions.wanted();
        if !is_first && !functions.known().meant.may_be_in(pid.unsigned_abs(), wanted) {
            return Wish::PassOn;
        }
        let needs = if is_first { Needs::All } else { Needs::Any };
        match self.functions.choose(pid, needs, &HashSet::new()) {
            // All are awaited, which may be for what it starts.
            Ok(Choice { probes: 0, awaited, .. }) => {
                let pattern = awaited.into_iter().next().unwrap_or_default();
                let similar = String::new();
                self.nothing.get_or_insert(Nothing::NoSuch { pattern, similar, others_do: false });
                Wish::PassOn
            }
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
}

impl Starts for Started<'_> {
    fn wish(&mut self, pid: i32) -> Wish {
        let wish = self.decide(pid);
        self.leaving.remove(&pid);
        match wish {
            Wish::PassOn => self.passed_on.insert(pid, files_of(pid)),
            Wish::Load(_) | Wish::LetGo => self.passed_on.remove(&pid),
        };
        wish
    }

    fn done(&mut self, pid: i32, loaded: Result<Loaded, mote_inject::Error>) {
        self.has_any = true;
        let choice = self.chosen.take();
        let said = match loaded {
            Ok(loaded) => Ok(choice.map_or_else(String::new, |choice| {
                self.functions.note(pid, &choice.files);
                self.functions.said(&format!("process {pid}"), pid, &choice, loaded)
            })),
            Err(why) => Err(not_loaded(why)),
        };
        (self.report)(Report::Probed(pid, said));
    }

    fn follows(&mut self) {
        (self.report)(Report::Follows);
    }

    /// Once: it may be traced again behind that, for what it has loaded.
    fn first_is_free(&mut self) {
        if !std::mem::replace(&mut self.first_is_free, true) {
            (self.report)(Report::FirstIsFree);
        }
    }

    /// Those that have loaded a file since which has functions that are wanted.
    fn later(&mut self) -> Vec<i32> {
        let wanted = self.functions.wanted();
        let (mut later, mut refused) = (Vec::new(), Vec::new());
        self.passed_on.retain(|pid, files| {
            let id = pid.unsigned_abs();
            let now = mapped::code(id);
            if self.functions.known().meant.may_be_in_others(id, &now, files, wanted) {
                match choose(id, wanted, Needs::Any, files) {
                    Ok(choice) if choice.probes > 0 => later.push(*pid),
                    // It has just ended, or is about to.
                    Err(Nothing::Closed) => return !now.is_empty(),
                    why => {
                        files.extend(now.iter().filter_map(|mapped| mapped.file));
                        // By its name only.
                        let is_none = matches!(why, Ok(_) | Err(Nothing::NoSuch { .. }));
                        refused.extend(why.err().filter(|_| !is_none).map(|why| (*pid, why.to_string())));
                    }
                }
            }
            !now.is_empty()
        });
        self.leaving.extend(later.iter().filter_map(|pid| self.passed_on.remove_entry(pid)));
        for (pid, why) in refused {
            self.has_any = true;
            (self.report)(Report::Probed(pid, Err(why)));
        }
        later
    }

    fn let_go(&mut self, pid: i32) {
        let Some(files) = self.leaving.remove(&pid).filter(|_| process::runs(pid)) else { return };
        self.has_any = true;
        // It is one that has loaded something since it was looked at.
        self.functions.note(pid, &files);
        self.functions.expect_later();
    }
}

/// The files that a process has code of.
fn files_of(pid: i32) -> HashSet<FileId> {
    mapped::code(pid.unsigned_abs()).iter().filter_map(|mapped| mapped.file).collect()
}
