//! The stack frame of a program that records: offsets from `r10`.

use crate::FILTER_WORDS_MAX;

/// The word that is cleared when the ring is released.
pub(crate) const CLAIM: i16 = -8;
/// The running thread's id.
pub(crate) const TID: i16 = -16;
/// `pos` at which the record begins.
pub(crate) const POS: i16 = -24;
/// The time, once it was read.
pub(crate) const TIME: i16 = -32;
/// What the system call returned.
pub(crate) const RESULT: i16 = -40;
/// The context, where `r6` is something else.
pub(crate) const CONTEXT: i16 = -48;
/// The event id, where one program serves many.
pub(crate) const ID: i16 = -56;
/// Where the record begins.
pub(crate) const START: i16 = -64;
/// The ring's scratch area.
pub(crate) const SCRATCH: i16 = -72;
/// When the system call began.
pub(crate) const BEGAN: i16 = -80;
/// For any value on its way; the second word is for operands, for the length of a socket address, and for the seconds
/// of a time.
pub(crate) const VALUE: i16 = -88;
/// Process and thread as the recorder sees them, for a filter; the second word of [`VALUE`] is free then. Behind the
/// words: a filter finds it from there.
pub(crate) const RECORDER_IDS: i16 = WORDS + 8 * FILTER_WORDS_MAX as i16;
/// The words of a filter. What is below belongs to the filter's own frame.
pub(crate) const WORDS: i16 = -256;
