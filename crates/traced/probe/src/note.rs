//! Quick text: `note!`, for what is not worth an event with fields.

use crate::emit::emit;
use crate::field::Field;
use core::fmt::{self, Write};
use mote_agent::Event;

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

/// The beginning of a text that is being made.
struct Beginning {
    bytes: [u8; NOTE_BYTES],
    len: usize,
}

impl Write for Beginning {
    /// Takes what there is room for; an error when that is not all, so that nothing more is formatted.
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let room = NOTE_BYTES.saturating_sub(self.len);
        let taken = text.floor_char_boundary(room);
        let to = self.bytes.iter_mut().skip(self.len);
        to.zip(text.bytes().take(taken)).for_each(|(to, from)| *to = from);
        self.len += taken;
        if taken == text.len() { Ok(()) } else { Err(fmt::Error) }
    }
}

impl Beginning {
    fn text(&self) -> &str {
        // Whole characters were put there.
        self.bytes.get(..self.len).and_then(|bytes| core::str::from_utf8(bytes).ok()).unwrap_or_default()
    }
}

/// Records a note that is on.
#[cold]
#[inline(never)]
pub fn note(event: &Event, text: fmt::Arguments<'_>) {
    if let Some(text) = text.as_str() {
        return emit(event, (text.ready(), ()));
    }
    let mut beginning = Beginning { bytes: [0; NOTE_BYTES], len: 0 };
    // A text that is too long is cut; so is one whose argument cannot be shown.
    let _ = beginning.write_fmt(text);
    emit(event, (beginning.text().ready(), ()));
}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;
    use std::format;
    use std::string::String;

    fn cut(text: fmt::Arguments<'_>) -> String {
        let mut beginning = Beginning { bytes: [0; NOTE_BYTES], len: 0 };
        let _ = beginning.write_fmt(text);
        beginning.text().into()
    }

    #[test]
    fn texts_are_cut_between_characters() {
        assert_eq!(cut(format_args!("{}-{}", 1, "two")), "1-two");
        for len in 500..520 {
            // Characters of two bytes, behind one of one byte.
            let long = format!("a{}", "é".repeat(len));
            let expected = format!("a{}", "é".repeat(255));
            assert_eq!(cut(format_args!("{long}")), expected, "{len}");
        }
        let whole = "x".repeat(NOTE_BYTES);
        assert_eq!(cut(format_args!("{whole}{}", "")), whole);
        assert_eq!(cut(format_args!("{whole}{}", "y")), whole);
    }

    #[test]
    fn nothing_comes_behind_what_was_cut() {
        let long = "é".repeat(300);
        assert_eq!(cut(format_args!("a{long}{}", "b")), format!("a{}", "é".repeat(255)));
    }
}
