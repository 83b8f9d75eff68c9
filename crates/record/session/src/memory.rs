//! The words that all processes of a session share by name (`$shared`, `mote::SharedMap`), as the session knows of
//! them.

use mote_bpf::{MapKind, MapShape};
use mote_layout::cooperation::SHARED_WORDS;

/// The shape by which filters of processes see the words.
pub const SHAPE: MapShape = MapShape {
    kind: MapKind::Array,
    key_bytes: 4,
    value_bytes: SHARED_WORDS * 8,
    entries: 1,
    read_only: false,
};

/// Whether the words are there. They are made when a rule first names some, and before it is in force
/// ([`crate::Action::MakeWords`]).
#[derive(Clone, Debug, Default)]
pub(crate) enum SharedWords {
    /// Nothing has named them.
    #[default]
    Unasked,
    /// They are being made.
    Asked,
    /// They are there, or it is known, for a person, why not.
    Made(Result<(), String>),
}

impl SharedWords {
    /// They are wanted. Returns whether they are to be made now.
    pub(crate) fn ask(&mut self) -> bool {
        let is_first = matches!(self, SharedWords::Unasked);
        if is_first {
            *self = SharedWords::Asked;
        }
        is_first
    }

    /// Whether they are there; `None` when that is not known yet.
    pub(crate) fn made(&self) -> Option<Result<(), String>> {
        match self {
            SharedWords::Made(made) => Some(made.clone()),
            SharedWords::Unasked | SharedWords::Asked => None,
        }
    }

    /// Whether the words can be named by a map of this shape.
    ///
    /// # Errors
    /// Why not, for a person.
    pub(crate) fn check(&self, shape: &MapShape) -> Result<(), String> {
        if *shape != SHAPE {
            return Err("its size differs from what this version of mote uses".to_owned());
        }
        self.made().unwrap_or_else(|| Err("it is not there yet".to_owned()))
    }
}
