//! Which thread a processor ran, by what is known beside its packets.

use crate::process::Process;
use mote_capture::{Note, Of, What};
use mote_pt::time::Span;

/// The threads that a stream is of, one after the other.
#[derive(Clone, Debug)]
pub struct Running {
    /// When each begins to run; none does where it is not known, or not meant.
    switches: Vec<(When, Option<i32>)>,
    /// How many of them have been.
    next: usize,
    now: Option<i32>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum When {
    /// Behind so many instructions of the stream.
    Instructions(u64),
    /// At this count of the time stamp counter.
    Time(u64),
}

impl Running {
    /// Of a stream, by the notes of its capture. Of a processor whose switches no note tells, it is not known.
    #[must_use]
    pub fn of(notes: &[Note], of: Of) -> Running {
        let (cpu, now) = match of {
            Of::Thread(tid) => (None, Some(tid)),
            Of::Cpu(cpu) => (Some(cpu), None),
        };
        let is_here = |note: &&Note| note.what == What::Switch && note.cpu == cpu && cpu.is_some();
        let switch = |note: &Note| match (note.instructions, note.time) {
            (Some(count), _) => Some((When::Instructions(count), Some(note.tid))),
            (None, Some(time)) => Some((When::Time(time), Some(note.tid))),
            (None, None) => None,
        };
        Running { switches: notes.iter().filter(is_here).filter_map(switch).collect(), next: 0, now }
    }

    /// The same of the threads of one process, as long as that is what is meant: no thread is known meanwhile.
    #[must_use]
    pub fn of_process(notes: &[Note], of: Of, process: &Process) -> Running {
        let mut running = Running::of(notes, of);
        let begin = process.begin_in(of);
        let is_meant = |tid: &i32| process.has(*tid);
        for (when, tid) in &mut running.switches {
            let is_before =
                matches!((&*when, begin), (When::Instructions(count), Some(begin)) if *count < begin);
            *tid = tid.filter(|tid| is_meant(tid) && !is_before);
        }
        running.now = running.now.filter(is_meant);
        if let (Some(begin), Some(main)) = (begin, process.main()) {
            running.now = running.now.filter(|tid| *tid != main);
            let behind = running.switches.partition_point(|(when, _)| *when <= When::Instructions(begin));
            running.switches.insert(behind, (When::Instructions(begin), Some(main)));
        }
        running
    }

    /// After how many instructions another thread may run; `u64::MAX` where time says so, or none does.
    #[must_use]
    pub fn next_number(&self) -> u64 {
        match self.switches.get(self.next) {
            Some((When::Instructions(count), _)) => *count,
            _ => u64::MAX,
        }
    }

    /// Whether time says when another thread runs.
    #[must_use]
    pub fn is_by_time(&self) -> bool {
        matches!(self.switches.get(self.next), Some((When::Time(_), _)))
    }

    /// The thread that executes an instruction: its number in the stream, and when that is. Both only grow.
    pub fn at(&mut self, number: u64, when: Span) -> Option<i32> {
        while let Some((from, tid)) = self.switches.get(self.next) {
            let is_reached = match from {
                When::Instructions(count) => *count <= number,
                When::Time(time) => when.low.is_some_and(|low| *time <= low),
            };
            if !is_reached {
                break;
            }
            self.now = *tid;
            self.next += 1;
        }
        self.now
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_take_turns() {
        let note = |tid, cpu, instructions, time| Note {
            pid: 1,
            tid,
            cpu: Some(cpu),
            instructions,
            time,
            what: What::Switch,
        };
        let counted = [note(1, 0, Some(0), None), note(9, 1, Some(3), None), note(2, 0, Some(10), None)];
        let mut running = Running::of(&counted, Of::Cpu(0));
        assert_eq!([0, 9, 10, 11].map(|number| running.at(number, Span::UNKNOWN)), [1, 1, 2, 2].map(Some));
        let timed = [note(1, 0, None, Some(100)), note(2, 0, None, Some(200))];
        let mut running = Running::of(&timed, Of::Cpu(0));
        let at = |low| Span { low: Some(low), high: None };
        assert_eq!([50, 100, 250].map(|low| running.at(0, at(low))), [None, Some(1), Some(2)]);
        assert_eq!(Running::of(&counted, Of::Thread(7)).at(0, Span::UNKNOWN), Some(7));
        assert_eq!(Running::of(&counted, Of::Cpu(5)).at(0, Span::UNKNOWN), None);
    }

    #[test]
    fn only_the_threads_of_a_process_are_known_from_its_begin_on() {
        let note = |tid, instructions, what| Note {
            pid: if tid < 10 { 1 } else { 10 },
            tid,
            cpu: Some(0),
            instructions: Some(instructions),
            time: None,
            what,
        };
        let thread = || What::Thread { name: String::new() };
        let notes = [
            note(1, 0, thread()),
            note(1, 0, What::Switch),
            note(1, 7, What::Exec { path: "/app".into() }),
            note(10, 9, What::Switch),
            note(2, 12, What::Switch),
            note(2, 12, thread()),
        ];
        let at = |process: &Process| {
            let mut running = Running::of_process(&notes, Of::Cpu(0), process);
            [0, 6, 7, 9, 12].map(|number| running.at(number, Span::UNKNOWN))
        };
        let first = Process::first(&notes).expect("a process");
        assert_eq!(at(&first), [Some(1), Some(1), Some(1), None, Some(2)]);
        let app = Process::that_became(&notes, |path| path.ends_with("app")).expect("it became that");
        assert_eq!(at(&app), [None, None, Some(1), None, Some(2)]);
        assert!(Process::that_became(&notes, |path| path.ends_with("other")).is_none());
        // A thread's own stream.
        let own = |tid| Running::of_process(&notes, Of::Thread(tid), &first).at(0, Span::UNKNOWN);
        assert_eq!([own(2), own(10)], [Some(2), None]);
    }
}
