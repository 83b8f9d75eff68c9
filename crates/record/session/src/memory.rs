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

/// Makes the memory of the words; the error is for a person.
pub type MakeWords = Box<dyn FnMut() -> Result<(), String>>;

/// The words, made when a rule first names some. The only answer that the session cannot wait for: a rule fits or is
/// refused at once.
pub struct SharedWords {
    make: MakeWords,
    made: Option<Result<(), String>>,
}

impl SharedWords {
    /// Not made yet.
    pub(crate) fn new(make: MakeWords) -> SharedWords {
        SharedWords { make, made: None }
    }

    /// Whether the words can be named by a map of this shape; makes them if need be.
    ///
    /// # Errors
    /// Why not, for a person.
    pub(crate) fn check(&mut self, shape: &MapShape) -> Result<(), String> {
        if *shape != SHAPE {
            return Err("it has another shape".to_owned());
        }
        self.made.get_or_insert_with(&mut self.make).clone()
    }
}
