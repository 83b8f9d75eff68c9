//! Matching a text with a pattern: `*` any bytes, `?` any one, `\` before one that is meant literally.
//!
//! What is before the first `*` must begin the text, what is behind the last must end it; the pieces between are looked
//! for one after the other, each at the first place where it is: if there is any match, there is that one. No
//! recursion, no way back: linear time for pieces of up to 64 bytes.

use super::search::{PIECE_MAX, Piece, Text};
use super::text::span;
use crate::entry::Returned;
use crate::fault::Fault;

/// One element of a pattern.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Token {
    Byte(u8),
    Any,
    Star,
    End,
}

/// A pattern, in a program's memory.
struct Pattern(Text);

impl Pattern {
    /// The element at `at`, and where the next one is.
    ///
    /// # Safety
    /// The pattern is as the verifier says.
    #[inline(always)]
    unsafe fn token(&self, at: usize) -> Result<(Token, usize), Fault> {
        if at >= self.0.len {
            return Ok((Token::End, at));
        }
        // SAFETY: the caller's promise.
        let token = match unsafe { self.0.byte(at) }? {
            b'*' => Token::Star,
            b'?' => Token::Any,
            b'\\' if at + 1 < self.0.len => {
                // SAFETY: the caller's promise.
                let literal = unsafe { self.0.byte(at + 1) }?;
                return Ok((Token::Byte(literal), at + 2));
            }
            byte => Token::Byte(byte),
        };
        Ok((token, at + 1))
    }

    /// Compares the elements from `at` on with the text from `from` on. Where the next star, or the end, of both is;
    /// `None` when they differ.
    ///
    /// # Safety
    /// Both are as the verifier says.
    unsafe fn begins(
        &self,
        mut at: usize,
        text: &Text,
        mut from: usize,
    ) -> Result<Option<(usize, usize)>, Fault> {
        loop {
            // SAFETY: the caller's promise.
            let (token, next) = unsafe { self.token(at) }?;
            if matches!(token, Token::Star | Token::End) {
                return Ok(Some((at, from)));
            }
            if from >= text.len {
                return Ok(None);
            }
            // SAFETY: the caller's promise.
            let byte = unsafe { text.byte(from) }?;
            if token != Token::Any && token != Token::Byte(byte) {
                return Ok(None);
            }
            (at, from) = (next, from + 1);
        }
    }

    /// The piece from `at` to the next star or the end.
    ///
    /// # Safety
    /// The pattern is as the verifier says.
    unsafe fn section(&self, mut at: usize) -> Result<Section, Fault> {
        let begin = at;
        let (mut piece, mut count) = (Piece::new(), 0);
        loop {
            // SAFETY: the caller's promise.
            let (token, next) = unsafe { self.token(at) }?;
            match token {
                Token::Star => return Ok(Section { begin, end: at, piece, count, is_last: false }),
                Token::End => return Ok(Section { begin, end: at, piece, count, is_last: true }),
                Token::Any => piece.push(None),
                Token::Byte(byte) => piece.push(Some(byte)),
            }
            count += 1;
            at = next;
        }
    }
}

/// What is between two stars.
struct Section {
    begin: usize,
    end: usize,
    piece: Piece,
    /// Bytes of a text that it matches.
    count: usize,
    is_last: bool,
}

pub(super) unsafe extern "C" fn text_glob(start: u64, end: u64, pattern: u64, size: u64, _: u64) -> Returned {
    // SAFETY: the verifier: a text of the context, and so many readable bytes.
    unsafe { matches(start, span(start, end), pattern, size as usize) }.map(u64::from).into()
}

/// # Safety
/// Both are as the verifier says.
unsafe fn matches(start: u64, most: usize, pattern: u64, size: usize) -> Result<bool, Fault> {
    // SAFETY: the caller's promise.
    let pattern = Pattern(unsafe { Text::new(pattern, size) }?);
    // SAFETY: the caller's promise.
    let text = unsafe { Text::new(start, most) }?;
    // SAFETY: the caller's promise.
    let Some((mut at, mut from)) = (unsafe { pattern.begins(0, &text, 0) })? else { return Ok(false) };
    if at >= pattern.0.len {
        return Ok(from == text.len);
    }
    loop {
        // SAFETY: the caller's promise. At `at` there is a star.
        let section = unsafe { pattern.section(at + 1) }?;
        at = section.end;
        if section.is_last {
            let Some(place) = text.len.checked_sub(section.count).filter(|place| *place >= from) else {
                return Ok(false);
            };
            // SAFETY: the caller's promise.
            return Ok(unsafe { pattern.begins(section.begin, &text, place) }?.is_some());
        }
        // SAFETY: the caller's promise.
        let Some(place) = (unsafe { find(&pattern, &section, &text, from) })? else { return Ok(false) };
        from = place + section.count;
    }
}

/// The first place of a section in the text, from `from` on.
///
/// # Safety
/// Both are as the verifier says.
unsafe fn find(
    pattern: &Pattern,
    section: &Section,
    text: &Text,
    mut from: usize,
) -> Result<Option<usize>, Fault> {
    loop {
        // SAFETY: the caller's promise.
        let Some(place) = (unsafe { section.piece.find(text, from) })? else { return Ok(None) };
        if section.count <= PIECE_MAX {
            return Ok(Some(place));
        }
        // SAFETY: the caller's promise.
        if unsafe { pattern.begins(section.begin, text, place) }?.is_some() {
            return Ok(Some(place));
        }
        from = place + 1;
    }
}
