//! What leads to replaced return addresses ([`mote_generate::stubs`]), as the recorder writes it.

use crate::map::State;
use mote_builder::field;
use mote_generate::stubs::{Process, offset};
use mote_layout::stubs::WORDS;

impl State {
    /// Notes how the slots of a process's threads are found, or that it has none. A program that reads meanwhile finds
    /// none, or what leads nowhere.
    pub fn note_stubs(&self, pid: u32, tops: Option<[u64; WORDS]>) {
        let entry = (self.layout().stubs() + offset(pid)) as usize;
        let known = entry + field!(Process, pid).offset();
        let is_known = self.memory().load32(known) == pid;
        match tops {
            Some(tops) => {
                self.memory().store32(known, 0);
                for (field, word) in field!(Process, tops).elements().zip(tops) {
                    self.memory().store64(entry + field.offset(), word);
                }
                self.memory().store32(known, pid);
            }
            None if is_known => self.memory().store32(known, 0),
            // The place is another process's.
            None => {}
        }
    }
}
