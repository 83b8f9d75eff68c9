//! What others write: the state of the thread, to which `r2` points when the program starts, and words with names.

use crate::diagnostic::{Diagnostic, Kind, Span};
use crate::emit::code::{Code, Held, StatePlaces, Stop};
use crate::maps::Entry;
use crate::typed::{Kept, SharedWord};
use mote_bpf::Reg;
use mote_bpf::op::{AluOp, Cond, Size};
use mote_builder::{Build, Local, Memory, map_value};
use mote_layout::cooperation::{SHARED_WORDS_AT, STATE_AT, WORDS_AT};

impl Code<'_> {
    /// At the program's beginning: puts the pointer where it is not lost, and reads what is compared with the next
    /// event's.
    pub(in crate::emit) fn save_state(&mut self) -> Result<(), Stop> {
        if !self.needs.state {
            return Ok(());
        }
        if self.is_leaf() {
            return self.hold_state();
        }
        let pointer = self.room()?;
        let state = self.left_in(Reg::R2);
        self.put(pointer, &state);
        let mut now = Vec::new();
        let plan = self.plan;
        for kept in &plan.thread {
            let Kept::Published(offset) = *kept else { continue };
            let place = self.room::<u64>()?;
            self.put(place, Memory::new(&state, offset.into(), Size::DW));
            now.push((offset, place));
        }
        self.state_places = StatePlaces { pointer, now };
        Ok(())
    }

    /// A register with the pointer, not to be changed.
    fn state_pointer(&mut self) -> Result<Held, Stop> {
        if self.is_leaf() {
            return Ok(self.held_state());
        }
        let pointer = self.get(self.state_places.pointer);
        Ok(self.held(pointer))
    }

    /// Where the value of this event is, if it is kept.
    pub(in crate::emit) fn published_now(&self, offset: u16) -> Option<Local<u64>> {
        self.state_places.now.iter().find(|(known, _)| *known == offset).map(|(_, place)| *place)
    }

    /// A value of the thread's state.
    pub(in crate::emit) fn published(&mut self, offset: u16) -> Result<Held, Stop> {
        if let Some(place) = self.published_now(offset) {
            let now = self.get(place);
            return Ok(self.held(now));
        }
        let pointer = self.state_pointer()?;
        let held = self.own_or_other(pointer)?;
        self.load_into(held, Size::DW, pointer, offset as i16);
        Ok(held)
    }

    /// How much such a value has grown since the thread's last event of this kind.
    pub(in crate::emit) fn since(&mut self, kept: u16) -> Result<Held, Stop> {
        let Some(Kept::Published(offset)) = self.plan.thread.get(usize::from(kept)).copied() else {
            return self.kept(kept);
        };
        let now = self.published(offset)?;
        let last = self.kept_or_zero(kept)?;
        let (now, last) = (self.value(now)?, self.value(last)?);
        // What was kept is another thread's of the same number, or from before the state began anew.
        self.when(now.lt(&last), |code| code.set(&last, 0));
        let grown = self.get(now - last);
        Ok(self.held(grown))
    }

    /// A word with a name; fails when it has fewer words.
    pub(in crate::emit) fn shared_number(&mut self, word: &SharedWord) -> Result<Held, Stop> {
        let constant = word.index.as_constant().and_then(|at| u32::try_from(at).ok());
        let names = self.maps.names().clone();
        let Some(place) = names.place(&word.name, word.each_thread, constant.map_or(1, |at| at + 1)) else {
            let message = format!("`{}` has fewer words, or the session has no room for more", word.name);
            let problem = Diagnostic::new(Kind::TooLarge, Span::default(), message);
            return Err(Stop::Wrong(Box::new(problem)));
        };
        let index = match constant {
            Some(_) => None,
            None => {
                let index = self.number(&word.index)?;
                let index = self.own(index)?;
                self.branch(Cond::Gt, index, place.count as i32 - 1, self.fail);
                self.apply(AluOp::Lsh, index, 3);
                Some(index)
            }
        };
        let first = place.at + constant.unwrap_or(0);
        let (pointer, offset) = if word.each_thread {
            (self.state_pointer()?, (WORDS_AT - STATE_AT) as i16 + first as i16 * 8)
        } else {
            (self.shared_pointer(first)?, 0)
        };
        let held = match index {
            None => self.own_or_other(pointer)?,
            Some(index) => {
                // A number to which a pointer is added is a pointer.
                self.apply(AluOp::Add, index, pointer);
                self.release(pointer);
                self.load_into(index, Size::DW, index, offset);
                return Ok(index);
            }
        };
        self.load_into(held, Size::DW, pointer, offset);
        Ok(held)
    }

    /// The address of a word that all share.
    fn shared_pointer(&mut self, word: u32) -> Result<Held, Stop> {
        let address = if self.is_kernel() {
            self.shared_word(SHARED_WORDS_AT + word as usize * 8)
        } else {
            map_value(self.maps.shared(Entry::shared_words()), word * 8)
        };
        let pointer = self.get(address);
        Ok(self.held(pointer))
    }
}
