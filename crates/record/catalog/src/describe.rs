//! An event's description, as the rest of mote reads it (`mote_layout::describe`).

use crate::event::{Event, Hook, Type};
use mote_layout::Level;
use mote_layout::describe::VERSION;
use mote_layout::types::Scalar;
use std::fmt::{self, Write};

impl Event {
    /// The name as patterns match it, `provider:name`.
    pub fn full_name(&self) -> String {
        format!("{}:{}", self.provider, self.name)
    }

    /// The event as `mote_layout::parse` reads it: name, level, and a line for each field.
    pub fn description(&self) -> String {
        let mut text = format!(
            "{VERSION}\n{}:{}\n{} {}:0\n\n",
            word(&self.provider),
            word(&self.name),
            Level::Info as u8,
            self.place()
        );
        for field in &self.fields {
            let _ = writeln!(text, "{} {}", word(&field.name), field.ty);
        }
        text
    }

    /// Where it comes from, which stands for the file.
    fn place(&self) -> String {
        match &self.hook {
            Hook::Raw { name, .. } => word(name),
            Hook::Tracepoint { path, .. } => word(path),
            Hook::Uprobe { path, .. } => word(&path.to_string_lossy()),
            _ => String::new(),
        }
    }
}

/// As descriptions have it.
impl fmt::Display for Type {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Type::Scalar(scalar) => f.write_str(scalar.name()),
            Type::Text => f.write_str("str"),
            Type::FixedText(len) => write!(f, "char[{len}]"),
            Type::Array(scalar, len) => write!(f, "{}[{len}]", scalar.name()),
            Type::Sequence(scalar, _) => write!(f, "{}[]", scalar.name()),
            Type::Enumeration(scalar, labels) => labelled(f, "enum", *scalar, labels),
            Type::Labelled(scalar, labels) => labelled(f, "labelled", *scalar, labels),
            Type::Flags(scalar, bits) => {
                write!(f, "flags {}", scalar.name())?;
                // Descriptions have signed numbers: what does not fit has no name.
                let mut known = bits.iter().filter(|(_, bits)| i64::try_from(*bits).is_ok());
                known.try_for_each(|(label, bits)| write!(f, " {}={bits}", word(label)))
            }
        }
    }
}

fn labelled(
    f: &mut fmt::Formatter<'_>,
    kind: &str,
    scalar: Scalar,
    labels: &[(String, i64, i64)],
) -> fmt::Result {
    write!(f, "{kind} {}", scalar.name())?;
    for (label, first, last) in labels {
        write!(f, " {}={first}", word(label))?;
        if last != first {
            write!(f, "..{last}")?;
        }
    }
    Ok(())
}

/// A name as descriptions allow it.
fn word(name: &str) -> String {
    let plain = |c: char| if c.is_control() || c.is_whitespace() || c == '"' || c == '\\' { '_' } else { c };
    name.chars().map(plain).collect()
}
