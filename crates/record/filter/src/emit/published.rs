//! What others write: the state of the thread, to which `r2` points when the program starts, and words with names.

use crate::diagnostic::{Diagnostic, Kind, Span};
use crate::emit::code::{Code, Held, StatePlaces, Stop};
use crate::maps::Entry;
use crate::typed::{Kept, SharedWord};
use mote_bpf::Reg;
use mote_bpf::op::{Cond, Size};
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
        let pointer = self.reserve(8)?;
        self.b.store(Size::DW, Reg::R10, pointer, Reg::R2);
        let mut now = Vec::new();
        let plan = self.plan;
        for kept in &plan.thread {
            let Kept::Published(offset) = *kept else { continue };
            let place = self.reserve(8)?;
            self.changed(Reg::R0);
            self.b.load(Size::DW, Reg::R0, Reg::R2, offset as i16);
            self.b.store(Size::DW, Reg::R10, place, Reg::R0);
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
        let held = self.alloc()?;
        self.b.load(Size::DW, held.reg, Reg::R10, self.state_places.pointer);
        Ok(held)
    }

    /// Where the value of this event is, if it is kept.
    pub(in crate::emit) fn published_now(&self, offset: u16) -> Option<i16> {
        self.state_places.now.iter().find(|(known, _)| *known == offset).map(|(_, place)| *place)
    }

    /// A value of the thread's state.
    pub(in crate::emit) fn published(&mut self, offset: u16) -> Result<Held, Stop> {
        if let Some(place) = self.published_now(offset) {
            let held = self.alloc()?;
            self.b.load(Size::DW, held.reg, Reg::R10, place);
            return Ok(held);
        }
        let pointer = self.state_pointer()?;
        let held = self.own_or_other(pointer)?;
        self.b.load(Size::DW, held.reg, pointer.reg, offset as i16);
        Ok(held)
    }

    /// How much such a value has grown since the thread's last event of this kind.
    pub(in crate::emit) fn since(&mut self, kept: u16) -> Result<Held, Stop> {
        let Some(Kept::Published(offset)) = self.plan.thread.get(usize::from(kept)).copied() else {
            return self.kept(kept);
        };
        let now = self.published(offset)?;
        let last = self.kept_or_zero(kept)?;
        // What was kept is another thread's of the same number, or from before the state began anew.
        let grown = self.label();
        self.branch(Cond::Ge, now.reg, last.reg, grown);
        self.b.mov(last.reg, 0);
        self.bind(grown);
        self.b.sub(now.reg, last.reg);
        self.release(last);
        Ok(now)
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
                self.branch(Cond::Gt, index.reg, place.count as i32 - 1, self.fail);
                self.b.lsh(index.reg, 3);
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
                self.b.add(index.reg, pointer.reg);
                self.release(pointer);
                self.b.load(Size::DW, index.reg, index.reg, offset);
                return Ok(index);
            }
        };
        self.b.load(Size::DW, held.reg, pointer.reg, offset);
        Ok(held)
    }

    /// The address of a word that all share.
    fn shared_pointer(&mut self, word: u32) -> Result<Held, Stop> {
        let held = self.alloc()?;
        if self.is_kernel() {
            self.shared_word(held.reg, SHARED_WORDS_AT + word as usize * 8);
        } else {
            let map = self.maps.shared(Entry::shared_words());
            self.b.map_value(held.reg, map, word * 8);
        }
        Ok(held)
    }
}
