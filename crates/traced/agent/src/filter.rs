//! A filter as a probe meets it.

use crate::cooperate::state::state;
use crate::quick::Quick;
use mote_bpf::{Insn, Word};
use mote_layout::record::FIELDS_MAX;
use mote_rcu::{Guard, Library, library};
pub(crate) use mote_vm::{Engine, note_process, watch_clock};
use mote_vm::{Fault, Program};

/// Events with more words than this have filters of their own, also if other events have the same program.
pub(crate) const SHAPE_MAX: usize = 96;
/// Memory is there in pages.
const PAGE: u64 = mote_sys::mem::PAGE_BYTES as u64;

/// A program that decides about each occurrence of an event.
#[derive(Debug)]
pub(crate) struct Filter {
    /// What the program begins with, if that is a test.
    quick: Option<Quick>,
    program: Program,
    how: How,
    /// How many words the context has; `None` when they are not all in `shape`.
    words: Option<u8>,
    shape: [Word; SHAPE_MAX],
}

/// What is to be known for running a program.
#[derive(Clone, Copy, Debug)]
pub(crate) struct How {
    /// Events at which it has a fault are to be kept.
    pub(crate) keeps_on_fault: bool,
    /// It was verified with the state of the thread as its second argument.
    pub(crate) reads_state: bool,
}

/// Begins a section in which filters stay.
#[inline(always)]
pub(crate) fn read() -> Guard<'static, Library> {
    library::read()
}

/// As [`read`], for a thread that has read before.
#[inline(always)]
pub(crate) fn read_again() -> Option<library::Again> {
    library::read_again()
}

/// Bytes of a text before its NUL; `None` when it cannot be read up to there.
///
/// # Safety
/// No other thread changes the text meanwhile. While no filter was ever loaded, `text` must be readable.
pub(crate) unsafe fn text_len(text: *const u8) -> Option<usize> {
    // SAFETY: the caller's promise; where it cannot be read this is a fault, not a signal.
    unsafe { mote_vm::text_len(text) }.ok()
}

impl Filter {
    /// A filter that runs `program`, made of `insns`, which were verified for a context of such words.
    pub(crate) fn new(program: Program, insns: &[Insn], words: &[Word], how: How) -> Filter {
        let mut shape = [Word::Start; SHAPE_MAX];
        shape.iter_mut().zip(words).for_each(|(to, word)| *to = *word);
        let words = u8::try_from(words.len()).ok().filter(|count| usize::from(*count) <= SHAPE_MAX);
        Filter { quick: Quick::of(insns), program, how, words, shape }
    }

    /// The words of its context, if they are known.
    pub(crate) fn shape(&self) -> Option<&[Word]> {
        self.shape.get(..usize::from(self.words?))
    }

    /// Whether events at which it has a fault are to be kept.
    pub(crate) fn keeps_on_fault(&self) -> bool {
        self.how.keeps_on_fault
    }

    /// What it runs on.
    pub(crate) fn engine(&self) -> Engine {
        self.program.engine()
    }

    /// Whether the program would drop the event at once.
    ///
    /// # Safety
    /// As for `run`.
    #[inline(always)]
    pub(crate) unsafe fn drops_at_once(&self, words: *const u64) -> bool {
        // SAFETY: the caller's promise.
        self.quick.as_ref().is_some_and(|quick| unsafe { quick.drops(words) })
    }

    /// What the program answers for a context.
    ///
    /// # Safety
    /// `words` must point to the words that the program was verified for.
    #[inline(always)]
    pub(crate) unsafe fn run(&self, words: *const u64) -> Result<u64, Fault> {
        if self.how.reads_state {
            // SAFETY: the caller's promise.
            return unsafe { self.run_with_state(words) };
        }
        // SAFETY: the caller's promise.
        unsafe { self.program.run(words.expose_provenance() as u64, 0) }
    }

    /// As `run`, of a program that reads the state of its thread. Out of line, so that others need not save what the
    /// search for it changes.
    ///
    /// # Safety
    /// As for `run`.
    #[inline(never)]
    unsafe fn run_with_state(&self, words: *const u64) -> Result<u64, Fault> {
        // SAFETY: the caller's promise; as many bytes can be read there as it was verified with.
        unsafe { self.program.run(words.expose_provenance() as u64, state()) }
    }

    /// Whether an event at which there was a fault is to be kept, and can be: to record it is to read what it points
    /// to.
    ///
    /// # Safety
    /// As for `run`.
    pub(crate) unsafe fn can_keep(&self, words: *const u64) -> bool {
        let shape = self.shape().filter(|_| self.how.keeps_on_fault);
        // SAFETY: the caller's promise.
        shape.is_some_and(|shape| unsafe { can_be_read(shape, words) })
    }
}

/// Whether everything that `words` point to can be read, as far as it would be recorded.
///
/// # Safety
/// `words` must point to words of this shape.
unsafe fn can_be_read(shape: &[Word], words: *const u64) -> bool {
    shape.iter().enumerate().all(|(index, word)| {
        // SAFETY: the caller's promise.
        let at = |index: usize| unsafe { words.wrapping_add(index).read() };
        match word {
            Word::Start => is_there(at(index), at(index + 1).wrapping_sub(at(index))),
            Word::Bytes(bytes) => is_there(at(index), u64::from(*bytes)),
            Word::End | Word::Number { .. } => true,
        }
    })
}

/// Whether `bytes` bytes at `from` can be read; more than an event takes are not looked at.
fn is_there(from: u64, bytes: u64) -> bool {
    let bytes = bytes.min(FIELDS_MAX as u64 + 1);
    let pages = (0..bytes).step_by(PAGE as usize);
    pages.chain(bytes.checked_sub(1)).all(|offset| {
        let mut byte = 0u8;
        // SAFETY: `byte` is one byte of ours; what cannot be read is answered as a fault.
        unsafe { mote_vm::copy(&raw mut byte, from.wrapping_add(offset), 1) }.is_ok()
    })
}
