//! x86-64. See [`crate::arch`] for what each item is.

use iced_x86::{Decoder, DecoderOptions, Formatter, IntelFormatter};

/// How many bytes the instruction at `at` of `code` takes, and its text; `None` at the end.
pub(crate) fn disassemble(code: &[u8], at: usize) -> Option<(usize, String)> {
    let rest = code.get(at..).filter(|rest| !rest.is_empty())?;
    let machine = Decoder::with_ip(64, rest, at as u64, DecoderOptions::NONE).decode();
    let mut text = String::new();
    IntelFormatter::new().format(&machine, &mut text);
    Some((machine.len(), text))
}
