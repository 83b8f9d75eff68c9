//! The stack frame of a program that records.

use crate::FILTER_WORDS_MAX;
use mote_builder::Local;

/// The word that is cleared when the ring is released.
pub(crate) const CLAIM: Local<u64> = Local::at(-8);
/// The running thread's id.
pub(crate) const TID: Local<u64> = Local::at(-16);
/// `pos` at which the record begins.
pub(crate) const POS: Local<u64> = Local::at(-24);
/// The time, once it was read.
pub(crate) const TIME: Local<u64> = Local::at(-32);
/// What the system call returned.
pub(crate) const RESULT: Local<u64> = Local::at(-40);
/// The context of a system call's program, whose register then has the registers of the process.
pub(crate) const CONTEXT: Local<u64> = Local::at(-48);
/// The event id, where one program serves many.
pub(crate) const ID: Local<u64> = Local::at(-56);
/// Where the record begins.
pub(crate) const START: Local<u64> = Local::at(-64);
/// The ring's scratch area.
pub(crate) const SCRATCH: Local<u64> = Local::at(-72);
/// When the system call began.
pub(crate) const BEGAN: Local<u64> = Local::at(-80);
/// For any value on its way.
pub(crate) const VALUE: Local<u64> = Local::at(-88);
/// For operands, for the length of a socket address, for the seconds of a time, whose nanoseconds are in [`VALUE`], and
/// for a value while an argument is read.
pub(crate) const SECOND: Local<u64> = Local::at(-96);
/// Process and thread as the recorder sees them, for a filter; [`SECOND`] is free then. Behind the words: a filter
/// finds it from there.
pub(crate) const RECORDER_IDS: i16 = WORDS + 8 * FILTER_WORDS_MAX as i16;
/// The words of a filter. What is below belongs to the filter's own frame.
pub(crate) const WORDS: i16 = -256;

const _: () = assert!(RECORDER_IDS == SECOND.offset());

/// The low bytes of a word.
pub(crate) const fn low<T>(word: Local<u64>) -> Local<T> {
    Local::at(word.offset())
}
