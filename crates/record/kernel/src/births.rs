//! Threads that have other ids than the recorder sees ([`mote_generate::births`]), as the recorder reads them.

use crate::map::State;
use mote_builder::{Field, field};
use mote_generate::births::{Birth, ENTRIES, ENTRY_BITS};

/// A thread, and what it calls itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Born {
    /// When it was forked (CLOCK_MONOTONIC, ns); 0 for one that was there when its process was followed.
    pub time_ns: u64,
    /// Thread, as the recorder sees it.
    pub tid: u32,
    /// Process, as the recorder sees it.
    pub pid: u32,
    /// Thread, as gettid(2) answers in it.
    pub vtid: u32,
    /// Process, as getpid(2) answers in it.
    pub vpid: u32,
    /// Level of its pid namespace; 0 for the outermost one.
    pub level: u32,
}

impl State {
    /// What programs have told since `read` were read, which is how many there are then; and how many of them were
    /// lost.
    pub(crate) fn births(&self, read: &mut u64) -> (Vec<Born>, u64) {
        let first = self.layout().births() as usize;
        let (mut born, mut lost) = (Vec::new(), 0);
        let head = self.memory().load64(first);
        if head.saturating_sub(*read) > u64::from(ENTRIES) {
            lost = head - *read - u64::from(ENTRIES);
            *read += lost;
        }
        while *read < head {
            let number = (*read % u64::from(ENTRIES)) as usize;
            let entry = first + ((number + 1) << ENTRY_BITS);
            let time = entry + field!(Birth, time).offset();
            let time_ns = self.memory().load64(time);
            if time_ns == 0 {
                break;
            }
            let word = |at: Field<Birth, u32>| self.memory().load32(entry + at.offset());
            born.push(Born {
                time_ns,
                tid: word(field!(Birth, tid)),
                pid: word(field!(Birth, pid)),
                vtid: word(field!(Birth, vtid)),
                vpid: word(field!(Birth, vpid)),
                level: word(field!(Birth, level)),
            });
            self.memory().store64(time, 0);
            *read += 1;
        }
        (born, lost)
    }
}
