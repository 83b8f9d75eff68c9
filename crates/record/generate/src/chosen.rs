//! What programs are made for: an event, its number, and its filter.

use mote_bpf::Insn;
use mote_catalog::event::Event;
use mote_filter::ContextWord;

/// An event to record.
#[derive(Clone, Debug)]
pub struct Chosen {
    /// Its number in the records' headers.
    pub id: u16,
    /// What it is. Stacks are fields like others (`mote_catalog::stack::add`).
    pub event: Event,
    /// What decides about each record before it is written.
    pub filter: Option<Filter>,
}

/// A function that decides about records, as `mote_filter::compile` makes it for the kernel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Filter {
    /// Its instructions: `r1` points to the words on the caller's stack; `r0` is not 0 when the event is to be
    /// recorded. Maps are numbered as in the recording's list. `r2` is the entry in the table ([`crate::threads`]) of
    /// the thread whose event it is, or 0 when it has none.
    pub insns: Vec<Insn>,
    /// What must be in the words. At most [`FILTER_WORDS_MAX`](crate::FILTER_WORDS_MAX).
    pub words: Vec<ContextWord>,
    /// False: it is called for what it counts, and nothing is recorded.
    pub records: bool,
    /// What is decided instead about an event that was chosen for a thread which it names, where it happens in another
    /// one; `None` for the same.
    pub foreign: Option<Box<Outcome>>,
}

/// What becomes of an event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// No rule is about it: there is no program.
    Off,
    /// It is always recorded.
    Recorded,
    /// The filter decides, and does what else there is to do.
    Filtered(Filter),
}
