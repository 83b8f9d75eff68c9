//! What went wrong, as it is told: each kind of problem of each process has a budget of its own.
//!
//! A hostile process can make any number of problems, and any number of processes. So a process may use up its own budget, and all processes
//! together that of one kind; what is told of other kinds, and of the recorder itself, stays as it was. What is over a budget is
//! counted, and told at the end.

use crate::recorder::Recorder;
use mote_journal::Fact;

/// Problems of one kind that are told of one process.
const OF_PROCESS: usize = 5;
/// Problems of one kind that are told of all processes.
const OF_KIND: usize = 30;
/// Problems of the recorder itself that are told.
const OF_RECORDER: usize = 100;

/// What a problem is about: those of one kind share a budget.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// The recorder itself: disk, kernel, names.
    Recorder,
    /// Something that cannot be understood came through the door.
    Door,
    /// A process broke the rules of the conversation.
    Conversation,
    /// An event's description is not taken.
    Event,
    /// Event sites are not switched on.
    Sites,
    /// Filters are not sent or not loaded.
    Filters,
    /// Processes have damaged their rings.
    Damage,
    /// There is no memory for its rings.
    Memory,
    /// A process does not want to be recorded.
    Declined,
    /// Events of a process are missing.
    Missing,
    /// A rule cannot hold for an event.
    Rules,
}

/// One that was told.
#[derive(Debug)]
struct Told {
    kind: Kind,
    pid: i32,
    text: String,
}

/// All of a recording.
#[derive(Debug, Default)]
pub(crate) struct Problems {
    told: Vec<Told>,
    /// Kinds of which there were more.
    more: Vec<(Kind, u64)>,
    /// The newest, told or not.
    newest: String,
    count: u64,
}

impl Problems {
    /// Takes a problem in; returns whether it is to be told. `pid` is 0 when it is of no process.
    pub(crate) fn take(&mut self, kind: Kind, pid: i32, text: &str) -> bool {
        self.count += 1;
        text.clone_into(&mut self.newest);
        let of_kind = || self.told.iter().filter(|told| told.kind == kind);
        let has_room = match kind {
            Kind::Recorder => of_kind().count() < OF_RECORDER,
            _ if of_kind().count() >= OF_KIND => false,
            _ => pid == 0 || of_kind().filter(|told| told.pid == pid).count() < OF_PROCESS,
        };
        if has_room {
            self.told.push(Told { kind, pid, text: text.to_owned() });
            return true;
        }
        match self.more.iter_mut().find(|(known, _)| *known == kind) {
            Some((_, more)) => *more += 1,
            None => self.more.push((kind, 1)),
        }
        false
    }

    /// How many there were, also those that were not told.
    pub(crate) fn count(&self) -> u64 {
        self.count
    }

    /// The newest one, told or not.
    pub(crate) fn newest(&self) -> &str {
        &self.newest
    }

    /// What there is to say of those that were not told.
    pub(crate) fn more(&self) -> Vec<String> {
        let first = |kind| self.told.iter().find(|told| told.kind == kind).map_or("", |told| &*told.text);
        self.more
            .iter()
            .map(|(kind, more)| format!("and {more} more of the same kind as: {}", first(*kind)))
            .collect()
    }

    /// Those that were told, and what there is to say of the others.
    pub(crate) fn all(&self) -> Vec<String> {
        self.told.iter().map(|told| told.text.clone()).chain(self.more()).collect()
    }
}

impl Recorder<'_> {
    /// Tells of a problem of the recorder itself.
    pub(crate) fn problem(&mut self, text: String) {
        self.problem_of(Kind::Recorder, 0, text);
    }

    /// Tells of a problem that a process has made, or has; one that makes too many is told no more of that kind.
    pub(crate) fn problem_of(&mut self, kind: Kind, pid: i32, text: String) {
        if self.problems.take(kind, pid, &text) {
            self.tell_problem(text);
        }
    }

    /// Says how many more problems there were than were told.
    pub(crate) fn tell_more_problems(&mut self) {
        self.problems.more().into_iter().for_each(|text| self.tell_problem(text));
    }

    fn tell_problem(&mut self, text: String) {
        self.watch.problem(&text);
        let fact = Fact::Problem { at: self.session.source.ticks(), text };
        let _ = self.trace.directory.note(&fact);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nobody_silences_others() {
        let mut problems = Problems::default();
        let told = (0..1000).filter(|n| problems.take(Kind::Door, 7, &format!("nonsense {n}"))).count();
        assert_eq!(told, OF_PROCESS);
        assert!(problems.take(Kind::Door, 8, "of another process"));
        assert!(problems.take(Kind::Sites, 7, "of another kind"));
        assert!(problems.take(Kind::Recorder, 0, "disk full"));
        // One that makes processes uses up that kind alone.
        let told = (9..1000).filter(|pid| problems.take(Kind::Door, *pid, "nonsense")).count();
        assert_eq!(told, OF_KIND - OF_PROCESS - 1);
        assert!(problems.take(Kind::Sites, 9, "of another kind"));
        assert!(problems.take(Kind::Recorder, 0, "disk still full"));
        let (all, more) = (problems.all(), 1000 - OF_PROCESS + 991 - told);
        assert_eq!(all.len(), OF_KIND + 4 + 1);
        assert_eq!(all.last(), Some(&format!("and {more} more of the same kind as: nonsense 0")));
        assert_eq!((problems.count(), problems.newest()), (1000 + 991 + 5, "disk still full"));
    }
}
