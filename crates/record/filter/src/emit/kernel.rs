//! What is done otherwise on the kernel's side, where there are only the kernel's helpers.
//!
//! | on the user's side | here |
//! |---|---|
//! | strings lie between two pointers | a pointer and a length of at most [`STRING_LEN_MAX`](crate::STRING_LEN_MAX) |
//! | helpers search, compare and hash strings | loops, which the kernel's verifier follows to their end |
//! | `map_add`, `log_linear`, `keep_last` | the same in instructions |
//! | flags and requests are the agent's | words of the memory that a session shares with its processes |
//!
//! Loops are the one place with jumps back: what is known of registers at their heads has to be true each time.

mod maps;
mod string;
mod window;

use crate::diagnostic::{Diagnostic, Kind, Span};
use crate::emit::code::{Code, Stop};
use crate::maps::{Entry, FLAGS_MAX, flag_offset};
use mote_bpf::Reg;
use mote_bpf::helper;
use mote_builder::{Build, Expr, Place, map_value};
use mote_layout::cooperation::{SHARED_WORDS_AT, SharedHeader};
use std::mem::offset_of;

impl Code<'_> {
    /// Has the kernel's verifier keep what it knows here, so that a way that comes here and knows no more is not
    /// followed again: before each loop, else each of the ways that lead there would have all its rounds looked at.
    ///
    /// It keeps its knowledge at places that are jumped to, if there were 2 jumps and 8 instructions since it did last
    /// (`is_state_visited` in kernel/bpf/verifier.c). Jumps to what is next it takes out of the program in the end.
    fn checkpoint(&mut self) {
        for _ in 0..8 {
            let next = self.b.label();
            self.b.jump(next);
            self.b.bind(next);
        }
    }

    /// Nothing that a loop may change is known any more.
    fn forget_for_loop(&mut self) {
        [Reg::R0, Reg::R1, Reg::R2, Reg::R3, Reg::R4, Reg::R5].into_iter().for_each(|reg| self.changed(reg));
    }

    /// The address of a word that the session shares with its processes.
    pub(in crate::emit) fn shared_word(&mut self, offset: usize) -> Expr {
        map_value(self.maps.shared(Entry::shared()), offset as u32)
    }

    /// A flag's word.
    pub(in crate::emit) fn flag_word(&mut self, flag: &str) -> Result<Place<u64>, Stop> {
        if !self.is_kernel() && !self.maps.flags_are_shared() {
            return Ok(map_value(self.maps.shared(Entry::flag(flag)), 0).place());
        }
        let offset = self.maps.names().flag(flag).map(flag_offset).ok_or_else(|| {
            let message = format!("there are more than {FLAGS_MAX} flags");
            Stop::Wrong(Box::new(Diagnostic::new(Kind::TooLarge, Span::default(), message)))
        })?;
        if self.is_kernel() {
            Ok(self.shared_word(SHARED_WORDS_AT + offset).place())
        } else {
            Ok(map_value(self.maps.shared(Entry::shared_words()), offset as u32).place())
        }
    }

    /// The thread that the session is about.
    pub(in crate::emit) fn target(&mut self) -> Place<u64> {
        self.shared_word(offset_of!(SharedHeader, target)).place()
    }

    /// Asks the recorder for a snapshot.
    pub(in crate::emit) fn ask_for_snapshot(&mut self) -> Result<(), Stop> {
        let thread = self.call_with(helper::GET_CURRENT_PID_TGID, ())?;
        let asking = self.shared_word(offset_of!(SharedHeader, snapshot_thread));
        self.put(asking.place::<u64>(), thread);
        let snapshots = self.shared_word(offset_of!(SharedHeader, snapshots));
        self.add_atomically(snapshots.place::<u64>(), 1);
        Ok(())
    }
}
