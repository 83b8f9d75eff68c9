//! Which thread a processor ran, by what is known beside its packets.

use mote_capture::{Note, Of, What};
use mote_pt::time::Span;

/// The threads that a stream is of, one after the other.
#[derive(Clone, Debug)]
pub struct Running {
    /// When each begins to run.
    switches: Vec<(When, i32)>,
    /// How many of them have been.
    next: usize,
    now: Option<i32>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
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
            (Some(count), _) => Some((When::Instructions(count), note.tid)),
            (None, Some(time)) => Some((When::Time(time), note.tid)),
            (None, None) => None,
        };
        Running { switches: notes.iter().filter(is_here).filter_map(switch).collect(), next: 0, now }
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
            self.now = Some(*tid);
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
}
