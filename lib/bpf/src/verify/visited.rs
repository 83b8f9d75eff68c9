//! The states that were visited where ways meet, and those that wait to be walked.
//!
//! # Paths and their ends
//! Each kept state knows the one before it on its path, and how many paths that went through it have not ended. When
//! none is left, the program is known to be harmless from that state on, and from every state that it covers: a path
//! ends where it meets such a state. A path that meets a state just as it was before, of which a path has not ended, is
//! in a loop that makes no progress.
//!
//! # Slots that are read
//! When a stack slot is read, all kept states back to its last writing are told. Slots that no path from a kept state
//! reads are not compared with it.
//!
//! # Steps
//! A path goes on only where the state is not covered by one whose paths have all ended. So the walked instructions
//! form a graph without circles, a run of the program takes each of them at most once, and their count bounds the steps
//! of a run.

use super::compare::{Looked, Question, compare};
use super::saved::{Reader, Writer};
use super::state::State;
use super::structure::Slots;
use crate::table::Table;

/// Words for visited states.
const WORDS: usize = 1 << 19;
/// Most visited states.
const STATES: usize = 1 << 15;
/// Words for states that wait.
const WAITING_WORDS: usize = 1 << 18;
/// Most states that wait.
const WAITING: usize = 1 << 13;
/// As many words.
pub(crate) type Room = Table<u64, WAITING_WORDS>;
/// Most kept states that a state is compared with, from the place where the last one was found, and from the newest.
const LOOKS: usize = 48;
/// Most words of kept states that are looked at in all, which takes about a quarter of a second. After that no path
/// ends early.
pub(crate) const EFFORT_MAX: u64 = 1 << 25;
/// What it takes to look at a kept state at all, in words.
const LOOK: u64 = 4;

/// A kept state.
#[derive(Clone, Copy)]
struct Kept {
    /// Its words in `words`: for each frame the slots that were read later, and those that were written on the way to
    /// it; then the state.
    at: u32,
    words: u32,
    frames: u32,
    /// The next older one at the same instruction, plus 1.
    older: u32,
    /// The one before it on its path, plus 1.
    parent: u32,
    /// Paths through it that have not ended.
    open: u32,
}

/// A state that waits to be walked on from.
#[derive(Clone, Copy)]
struct Waiting {
    at: u32,
    words: u32,
    pc: u32,
    parent: u32,
}

/// The states that were met at each instruction.
pub(crate) struct Visited {
    kept: Table<Kept, STATES>,
    kept_count: usize,
    words: Table<u64, WORDS>,
    words_used: usize,
    waiting: Table<Waiting, WAITING>,
    waiting_count: usize,
    waiting_words: Room,
    /// The last kept state of the path that is being walked, plus 1.
    parent: u32,
    /// Words of kept states that were looked at.
    pub(crate) effort: u64,
}

/// What to do with a path where ways meet.
#[must_use]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Meeting {
    /// Go on: something is new.
    New,
    /// It ends: what follows was walked already.
    Covered,
    /// Nothing has changed since the path was here.
    Circle,
}

impl Visited {
    pub(crate) const NOTHING: Visited = Visited {
        kept: Table([Kept { at: 0, words: 0, frames: 0, older: 0, parent: 0, open: 0 }; STATES]),
        kept_count: 0,
        words: Table([0; WORDS]),
        words_used: 0,
        waiting: Table([Waiting { at: 0, words: 0, pc: 0, parent: 0 }; WAITING]),
        waiting_count: 0,
        waiting_words: Table([0; WAITING_WORDS]),
        parent: 0,
        effort: 0,
    };

    /// Forgets all, but how much was looked at.
    pub(crate) fn clear(&mut self) {
        (self.kept_count, self.words_used, self.waiting_count, self.parent) = (0, 0, 0, 0);
    }

    /// Room for other things, before the walk.
    pub(crate) fn room(&mut self) -> &mut Room {
        &mut self.waiting_words
    }

    /// A path has come to where ways meet. If it goes on the state is kept.
    pub(crate) fn meet(&mut self, pc: usize, state: &mut State, slots: &mut Slots) -> Meeting {
        let info = slots[pc];
        if self.effort > EFFORT_MAX {
            return Meeting::New;
        }
        for first in [info.cursor, info.visited] {
            let mut at = first;
            for _ in 0..LOOKS {
                let Some(index) = (at as usize).checked_sub(1) else { break };
                let kept = self.kept[index];
                let (meeting, looked) = self.look(kept, pc, state, slots);
                self.effort += looked;
                match meeting {
                    Meeting::New => at = kept.older,
                    Meeting::Circle => return Meeting::Circle,
                    Meeting::Covered => {
                        slots[pc].cursor = at;
                        self.read_again(kept, state);
                        return Meeting::Covered;
                    }
                }
            }
            if info.cursor == info.visited {
                break;
            }
        }
        self.keep(pc, state, slots);
        Meeting::New
    }

    /// Compares with a kept state. Returns also what that took, in words that were looked at.
    fn look(&self, kept: Kept, pc: usize, state: &State, slots: &Slots) -> (Meeting, u64) {
        let words = self.words.part(kept.at as usize, kept.words as usize);
        let (marks, rest) = words.split_at_checked(2 * kept.frames as usize).unwrap_or_default();
        let ended = kept.open == 0;
        let looked = |frame: usize| Looked {
            exact: slots[place(state, frame, pc)].exact,
            slots: if ended { marks.get(2 * frame).copied().unwrap_or(0) } else { u64::MAX },
        };
        let question = if ended { Question::Covers } else { Question::Equals };
        let mut reader = Reader::new(rest);
        let meeting = match compare(&mut reader, state, question, looked) {
            false => Meeting::New,
            true if ended => Meeting::Covered,
            true => Meeting::Circle,
        };
        (meeting, LOOK + (rest.len() - reader.left()) as u64)
    }

    /// Keeps a state, if there is space; without, walks get longer, not wrong.
    fn keep(&mut self, pc: usize, state: &mut State, slots: &mut Slots) {
        let Some(place_of_kept) = self.kept.rest_mut(self.kept_count).first_mut() else { return };
        let (at, frames) = (self.words_used, state.top + 1);
        let room = self.words.rest_mut(at).split_at_mut_checked(2 * frames);
        let Some((marks, room)) = room else { return };
        for (pair, frame) in marks.as_chunks_mut::<2>().0.iter_mut().zip(state.running()) {
            *pair = [0, frame.written];
        }
        let mut writer = Writer::new(room);
        writer.state(state, |frame| slots[place(state, frame, pc)].live);
        let Some(words) = writer.finish() else { return };
        let words = words + 2 * frames;
        self.words_used += words;
        state.work += words as u64;
        *place_of_kept = Kept {
            at: at as u32,
            words: words as u32,
            frames: frames as u32,
            older: slots[pc].visited,
            parent: self.parent,
            open: 1,
        };
        self.kept_count += 1;
        self.parent = self.kept_count as u32;
        (slots[pc].visited, slots[pc].cursor) = (self.parent, self.parent);
        state.frames.first_mut(frames).iter_mut().for_each(|frame| frame.written = 0);
    }

    /// Slots of a frame are read: every kept state back to where they were written is told.
    pub(crate) fn read(&mut self, state: &State, frame: usize, slots: u64) {
        let mut slots = slots & !state.frames[frame].written;
        let mut at = self.parent;
        while let Some(index) = (at as usize).checked_sub(1)
            && slots != 0
        {
            let kept = self.kept[index];
            if frame >= kept.frames as usize {
                return;
            }
            let place = kept.at as usize + 2 * frame;
            // What is marked already is marked further back too.
            slots &= !self.words[place];
            self.words[place] |= slots;
            slots &= !self.words[place + 1];
            at = kept.parent;
        }
    }

    /// What is read after a kept state is read after the state that it stands for.
    fn read_again(&mut self, kept: Kept, state: &State) {
        for frame in 0..kept.frames as usize {
            self.read(state, frame, self.words[kept.at as usize + 2 * frame]);
        }
    }

    /// The path that is being walked has ended.
    pub(crate) fn end_path(&mut self) {
        let mut at = self.parent;
        while let Some(index) = (at as usize).checked_sub(1) {
            let kept = &mut self.kept[index];
            kept.open -= 1;
            if kept.open > 0 {
                return;
            }
            at = kept.parent;
        }
    }

    /// Keeps the state of a branch that is followed later, from `pc` on. Returns false when there is no room.
    pub(crate) fn postpone(&mut self, pc: usize, state: &mut State, slots: &Slots) -> bool {
        let at = match self.waiting_count.checked_sub(1) {
            Some(last) => (self.waiting[last].at + self.waiting[last].words) as usize,
            None => 0,
        };
        let mut writer = Writer::new(self.waiting_words.rest_mut(at));
        writer.state(state, |frame| slots[place(state, frame, pc)].live);
        let (Some(words), Some(waiting)) =
            (writer.finish(), self.waiting.rest_mut(self.waiting_count).first_mut())
        else {
            return false;
        };
        state.work += words as u64;
        *waiting = Waiting { at: at as u32, words: words as u32, pc: pc as u32, parent: self.parent };
        self.waiting_count += 1;
        if let Some(kept) = (self.parent as usize).checked_sub(1) {
            self.kept[kept].open += 1;
        }
        true
    }

    /// Takes up the state that was put aside last, and returns where it goes on.
    pub(crate) fn take_up(&mut self, state: &mut State) -> Option<usize> {
        self.waiting_count = self.waiting_count.checked_sub(1)?;
        let waiting = self.waiting[self.waiting_count];
        Reader::new(self.waiting_words.part(waiting.at as usize, waiting.words as usize)).state(state);
        state.work += u64::from(waiting.words);
        self.parent = waiting.parent;
        Some(waiting.pc as usize)
    }
}

/// The slot whose sets say what of a frame is live, when the running one is at `pc`.
fn place(state: &State, frame: usize, pc: usize) -> usize {
    match state.running().get(frame + 1) {
        Some(callee) => callee.back as usize,
        None => pc,
    }
}
