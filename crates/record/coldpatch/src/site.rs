//! What is found in code: places that are placeholders, and what is left as it is.

use mote_probelist::{Kind, Was};

/// A use of a hook that cannot be made a NOP, or an entry of a table that leads nowhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Left {
    /// Its address, in the file's own address space.
    pub address: u64,
    /// The option of the compiler that has made it.
    pub kind: Kind,
    /// Why it is left.
    pub why: Why,
}

/// Why something is left as it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Why {
    /// It is a conditional jump to a hook.
    Conditional,
    /// It loads the address of a hook, which something else calls.
    Address,
    /// A table of placeholders leads to what is no placeholder.
    Nowhere,
}

impl Why {
    /// The reason in words, as a part of a sentence.
    #[must_use]
    pub fn words(self) -> &'static str {
        match self {
            Why::Conditional => "a conditional jump leads there",
            Why::Address => "its address is taken, and called by that",
            Why::Nowhere => "no placeholder is where the table says",
        }
    }
}

/// A place in the code, before its names are known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Site {
    pub(crate) address: u64,
    pub(crate) size: u64,
    pub(crate) kind: Kind,
    pub(crate) was: Was,
    pub(crate) event: Option<String>,
}
