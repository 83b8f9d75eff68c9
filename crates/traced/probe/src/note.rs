//! Quick text: `note!`, for what is not worth an event with fields.

use crate::emit::emit;
use crate::field::Field;
use core::fmt::{self, Write};
use mote_agent::{Beginning, Event};

/// Bytes of a note that has to be formatted, at most.
const NOTE_BYTES: usize = 512;

/// Records a text, made as by `format!`: an event `mote:note` of level `Debug`, with the field `text`.
///
/// The arguments are evaluated, and the text is made, only while the event is on (`mote record -e mote:note`). A text
/// with arguments is cut to 512 bytes, between two characters; nothing is allocated, unless an argument's `Display`
/// does it. Each note in the source is an event of its own, with its file and line.
///
/// ```
/// # let (tries, why) = (3, "refused");
/// mote::note!("gave up after {tries} tries: {}", why);
/// ```
///
/// # Cost
/// Off: one 5-byte NOP. On: that of `format!` without the allocation.
///
/// # Signal safety
/// May stand in a signal handler, if the formatting of its arguments may.
#[macro_export]
macro_rules! note {
    ($($format:tt)+) => {{
        $crate::__statics!("mote", "note", Debug, [(text, &str)], "");
        if $crate::__switch!(__MOTE_EVENT, __MOTE_DESCRIPTION) {
            $crate::__private::note(&__MOTE_EVENT, ::core::format_args!($($format)+));
        }
    }};
}

/// Records a note that is on.
#[cold]
#[inline(never)]
pub fn note(event: &Event, text: fmt::Arguments<'_>) {
    if let Some(text) = text.as_str() {
        return emit(event, (text.ready(), ()));
    }
    let mut beginning = Beginning::<NOTE_BYTES>::new();
    // A text that is too long is cut; so is one whose argument cannot be shown.
    let _ = beginning.write_fmt(text);
    emit(event, (beginning.text().ready(), ()));
}
