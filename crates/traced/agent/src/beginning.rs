//! The beginning of a text that is made without an allocation: what does not fit is cut, between two characters.

use core::fmt::{self, Write};

/// The first bytes of a text, at most so many. All of it are zeros when it is empty.
#[derive(Debug)]
pub struct Beginning<const BYTES: usize> {
    bytes: [u8; BYTES],
    len: usize,
}

impl<const BYTES: usize> Beginning<BYTES> {
    /// An empty text.
    pub const fn new() -> Beginning<BYTES> {
        Beginning { bytes: [0; BYTES], len: 0 }
    }

    /// Forgets the text.
    pub fn clear(&mut self) {
        self.len = 0;
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The bytes of the text's beginning, without a NUL.
    pub fn bytes(&self) -> &[u8] {
        self.bytes.get(..self.len).unwrap_or_default()
    }

    /// What fits of the text, cut between characters.
    pub fn text(&self) -> &str {
        // Whole characters were put there.
        core::str::from_utf8(self.bytes()).unwrap_or_default()
    }
}

impl<const BYTES: usize> Default for Beginning<BYTES> {
    fn default() -> Beginning<BYTES> {
        Beginning::new()
    }
}

impl<const BYTES: usize> Write for Beginning<BYTES> {
    /// Takes what there is room for; an error when that is not all, so that nothing more is formatted.
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let room = BYTES.saturating_sub(self.len);
        let taken = text.floor_char_boundary(room);
        let to = self.bytes.iter_mut().skip(self.len);
        to.zip(text.bytes().take(taken)).for_each(|(to, from)| *to = from);
        self.len += taken;
        if taken == text.len() { Ok(()) } else { Err(fmt::Error) }
    }
}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;
    use std::format;
    use std::string::String;

    const BYTES: usize = 512;

    fn cut(text: fmt::Arguments<'_>) -> String {
        let mut beginning = Beginning::<BYTES>::new();
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
        let whole = "x".repeat(BYTES);
        assert_eq!(cut(format_args!("{whole}{}", "")), whole);
        assert_eq!(cut(format_args!("{whole}{}", "y")), whole);
    }

    #[test]
    fn nothing_comes_behind_what_was_cut() {
        let long = "é".repeat(300);
        assert_eq!(cut(format_args!("a{long}{}", "b")), format!("a{}", "é".repeat(255)));
    }
}
