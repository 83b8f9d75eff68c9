//! How a function's entry can be probed.

use std::fmt;

/// How a function's entry can be probed, from the cheapest to the most costly.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Way {
    /// A NOP that was put there to be replaced: `-fpatchable-function-entry`, `-pg -mfentry -mnop-mcount`.
    Placeholder,
    /// A jump in the place of one instruction, or of one that ends the function and the padding behind it.
    Jump,
    /// A jump in the place of one instruction that is shorter: the last bytes of the jump's offset are the instructions
    /// behind it, so that only memory at some distances can be its target.
    Punned {
        /// The nearest target, in bytes from the function's begin.
        nearest: i64,
        /// How many targets there are, in bytes from there on.
        targets: u64,
    },
    /// A jump in the place of several instructions: no thread may stand between them when it is written.
    Window {
        /// How many.
        instructions: u8,
        /// Bytes of all of them.
        bytes: u8,
    },
    /// Only a breakpoint: a system call's time or more for each call.
    Trap(Reason),
    /// Not at all: its first instruction cannot be decoded.
    Unknown,
}

/// Why there is room for a breakpoint only.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Reason {
    /// The function, with the padding behind it, is shorter than a jump.
    Short,
    /// Something jumps between its first instructions.
    JumpedInto,
    /// A call between its first instructions would return between them.
    Call,
    /// Its first instructions cannot be decoded.
    Undecodable,
}

impl Way {
    /// All words of [`Way::word`].
    pub const WORDS: [&'static str; 6] = ["placeholder", "jump", "punned", "window", "trap", "none"];

    /// In one word, as lists have it.
    #[must_use]
    pub fn word(self) -> &'static str {
        let [placeholder, jump, punned, window, trap, none] = Way::WORDS;
        match self {
            Way::Placeholder => placeholder,
            Way::Jump => jump,
            Way::Punned { .. } => punned,
            Way::Window { .. } => window,
            Way::Trap(_) => trap,
            Way::Unknown => none,
        }
    }

    /// Why it is no jump, where it is none.
    #[must_use]
    pub fn why(self) -> Option<String> {
        match self {
            Way::Trap(reason) => Some(reason.to_string()),
            Way::Unknown => Some("its first instruction cannot be decoded".to_owned()),
            _ => None,
        }
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Reason::Short => "it is shorter than a jump",
            Reason::JumpedInto => "something jumps between its first instructions",
            Reason::Call => "a call in its first bytes would return between them",
            Reason::Undecodable => "its first instructions cannot be decoded",
        })
    }
}
