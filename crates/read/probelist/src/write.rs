//! The list as text.

use crate::read::{Header, Line};
use crate::{List, VERSION};
use std::io::{self, Write};

impl List {
    /// Writes it; functions and placeholders have to be in the order of addresses.
    ///
    /// # Errors
    /// Those of `out`.
    pub fn write(&self, mut out: impl Write) -> io::Result<()> {
        let header = Header {
            version: VERSION,
            build_id: self.build_id.clone(),
            text: self.text.clone(),
            functions: self.functions.len() as u64,
            placeholders: self.placeholders.len() as u64,
        };
        line(&mut out, &Line::List(header))?;
        for function in &self.functions {
            line(&mut out, &Line::Function(function.clone()))?;
        }
        for placeholder in &self.placeholders {
            line(&mut out, &Line::Placeholder(placeholder.clone()))?;
        }
        out.flush()
    }
}

fn line(out: &mut impl Write, line: &Line) -> io::Result<()> {
    serde_json::to_writer(&mut *out, line)?;
    out.write_all(b"\n")
}
