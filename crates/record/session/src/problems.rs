//! Problems of a recording, and which of them are reported: each kind of problem of each process has a budget.
//!
//! A hostile process can cause any number of problems, and start any number of processes. It uses up its own budget,
//! and all processes together use up that of one kind of problem. Reports of other kinds, and of the recorder itself,
//! are not affected. What is over a budget is counted, and the count is reported at the end.

use mote_words::counted;

/// Reports of one kind about one process.
const OF_PROCESS: usize = 5;
/// Reports of one kind about all processes together.
const OF_KIND: usize = 30;
/// Reports about the recorder itself.
const OF_RECORDER: usize = 100;

/// What a problem is about: those of one kind share a budget.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// The recorder itself: disk, kernel, names.
    Recorder,
    /// A process was not admitted, or its first message was malformed.
    Admission,
    /// A process broke the rules of the protocol.
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

/// A problem that was reported.
#[derive(Debug)]
struct Report {
    kind: Kind,
    pid: i32,
    text: String,
}

/// All problems of a recording.
#[derive(Debug, Default)]
pub struct Problems {
    reported: Vec<Report>,
    /// Kinds of which there were more.
    more: Vec<(Kind, u64)>,
    /// The newest, reported or not.
    newest: String,
    count: u64,
    /// How many times events were lost of processes that came late or never; how many events is unknown.
    missing: u64,
}

impl Problems {
    /// Takes a problem in; returns whether to report it. `pid` is 0 for a problem that no process has caused.
    pub fn take(&mut self, kind: Kind, pid: i32, text: &str) -> bool {
        self.count += 1;
        text.clone_into(&mut self.newest);
        let of_kind = || self.reported.iter().filter(|report| report.kind == kind);
        let has_room = match kind {
            Kind::Recorder => of_kind().count() < OF_RECORDER,
            _ if of_kind().count() >= OF_KIND => false,
            _ => pid == 0 || of_kind().filter(|report| report.pid == pid).count() < OF_PROCESS,
        };
        if has_room {
            self.reported.push(Report { kind, pid, text: text.to_owned() });
            return true;
        }
        match self.more.iter_mut().find(|(known, _)| *known == kind) {
            Some((_, more)) => *more += 1,
            None => self.more.push((kind, 1)),
        }
        false
    }

    /// Notes that an unknown number of events was lost of a process that came late or never.
    pub(crate) fn note_missing(&mut self) {
        self.missing += 1;
    }

    /// How many times events were lost so.
    pub(crate) fn missing(&self) -> u64 {
        self.missing
    }

    /// How many there were, reported or not.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// The newest one, reported or not.
    pub fn newest(&self) -> &str {
        &self.newest
    }

    /// One line for each kind of which not all were reported.
    pub fn more(&self) -> Vec<String> {
        let first =
            |kind| self.reported.iter().find(|report| report.kind == kind).map_or("", |report| &*report.text);
        self.more
            .iter()
            .map(|(kind, more)| {
                format!("{} of this kind: {}", counted(*more, "more problem", "more problems"), first(*kind))
            })
            .collect()
    }

    /// The reported ones, and [`Problems::more`].
    pub fn all(&self) -> Vec<String> {
        self.reported.iter().map(|report| report.text.clone()).chain(self.more()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_uses_up_only_its_own_budget() {
        let mut problems = Problems::default();
        let reported =
            (0..1000).filter(|n| problems.take(Kind::Admission, 7, &format!("nonsense {n}"))).count();
        assert_eq!(reported, OF_PROCESS);
        assert!(problems.take(Kind::Admission, 8, "of another process"));
        assert!(problems.take(Kind::Sites, 7, "of another kind"));
        assert!(problems.take(Kind::Recorder, 0, "disk full"));
        // One that makes processes uses up that kind alone.
        let reported = (9..1000).filter(|pid| problems.take(Kind::Admission, *pid, "nonsense")).count();
        assert_eq!(reported, OF_KIND - OF_PROCESS - 1);
        assert!(problems.take(Kind::Sites, 9, "of another kind"));
        assert!(problems.take(Kind::Recorder, 0, "disk still full"));
        let (all, more) = (problems.all(), 1000 - OF_PROCESS + 991 - reported);
        assert_eq!(all.len(), OF_KIND + 4 + 1);
        assert_eq!(all.last(), Some(&format!("{more} more problems of this kind: nonsense 0")));
        assert_eq!((problems.count(), problems.newest()), (1000 + 991 + 5, "disk still full"));
    }
}
