//! Where arguments and results are.

use mote_layout::functions::{Origin, Value, What};

/// Where an argument or a result is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Passed {
    /// In registers: first byte, number of bytes, and which register. None at all: nobody knows.
    Registers(Vec<(u64, u64, Origin)>),
    /// In memory, so many bytes behind where that points to.
    Behind {
        /// What points there.
        origin: Origin,
        /// Bytes.
        offset: i64,
    },
}

impl Default for Passed {
    fn default() -> Passed {
        Passed::Registers(Vec::new())
    }
}

impl Passed {
    /// The register that holds these bytes of it, and how many bytes before them.
    pub(crate) fn register(&self, offset: u64, bytes: u64) -> Option<(Origin, u64)> {
        let Passed::Registers(parts) = self else { return None };
        let mut parts = parts.iter();
        parts.find_map(|(start, len, origin)| {
            let into = offset.checked_sub(*start)?;
            (into.checked_add(bytes)? <= *len).then_some((*origin, into))
        })
    }

    /// How these bytes of it are taken; `None` when they cannot be.
    pub(crate) fn value(&self, what: What, offset: u64, bytes: u64) -> Option<Value> {
        let (from, is_behind, offset) = match self {
            Passed::Registers(_) => {
                let (from, before) = self.register(offset, bytes)?;
                (from, false, i64::try_from(before).ok()?)
            }
            Passed::Behind { origin, offset: base } => {
                (*origin, true, base.checked_add(i64::try_from(offset).ok()?)?)
            }
        };
        let bytes = u8::try_from(bytes).ok()?;
        Some(Value { what, from, is_behind, bytes, offset: i32::try_from(offset).ok()? })
    }
}
