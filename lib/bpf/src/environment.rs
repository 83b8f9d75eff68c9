//! What a program finds when it starts: its context, the maps, the helpers, its bounds.
//!
//! # The context of a filter
//! `r1` points to an array of 8-byte words, which describe the arguments of an event where they lie. A number is one
//! word. A text, or a sequence, is two: where it begins, and where it ends. A program may read the memory between those
//! two, after it has compared them, as programs of the kernel do with a packet's `data` and `data_end`.

use crate::helper::Helper;
use crate::map::MapShape;

/// One 8-byte word of the context.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Word {
    /// A number, of which `bits` (8, 16, 32 or 64) are meant: extended to 64 by its sign or by zeros.
    Number {
        /// 8, 16, 32 or 64.
        bits: u8,
        /// Extended by its sign.
        signed: bool,
    },
    /// Points to the first byte of a text or sequence. The next word is its `End`.
    Start,
    /// Points behind the last byte of what the word before it starts.
    End,
    /// Points to this many readable bytes.
    Bytes(u32),
}

/// What `r1` (and `r2`) hold when a program starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Entry<'a> {
    /// `r1` points to words, read-only.
    Context(&'a [Word]),
    /// As `Context`; and `r2` points to `state` bytes, read-only, which others change at any time: what the kernel
    /// publishes of the thread (`mote_layout::cooperation`). There are no tail calls: what they lead to has no `r2`.
    Traced {
        /// What `r1` points to.
        words: &'a [Word],
        /// Bytes at `r2`.
        state: u32,
    },
    /// `r1` points to `len` bytes, which the program may read and write; `r2` is `len`. As `bpf_conformance` calls
    /// programs.
    Memory {
        /// How many bytes.
        len: u32,
    },
}

/// Everything that a program may rely on.
#[derive(Clone, Copy, Debug)]
pub struct Environment<'a> {
    /// What registers and memory hold when it starts.
    pub entry: Entry<'a>,
    /// The maps, which `lddw` instructions name by their index here.
    pub maps: &'a [MapShape],
    /// Helpers of the application; those of [`crate::helper::BUILTIN`] are there without being named.
    pub helpers: &'a [Helper],
    /// Most instructions that a run may take, by the verifier's count.
    pub steps_max: u32,
}

/// Most instructions of a program.
pub const INSNS_MAX: usize = 1 << 16;
/// Bytes of a stack frame.
pub const STACK_BYTES: usize = 512;
/// Most frames: a program and the functions that it calls.
pub const FRAMES_MAX: usize = 8;
/// Most instructions of a run, when the environment's maker has no wish.
pub const STEPS_MAX: u32 = 1 << 20;

impl<'a> Entry<'a> {
    /// The words that `r1` points to; none when it points to memory.
    pub const fn words(&self) -> &'a [Word] {
        match self {
            Entry::Context(words) | Entry::Traced { words, .. } => words,
            Entry::Memory { .. } => &[],
        }
    }
}

impl<'a> Environment<'a> {
    /// The helper of this number.
    pub fn helper(&self, id: u32) -> Option<&'a Helper> {
        self.helpers.iter().chain(crate::helper::BUILTIN).find(|helper| helper.id == id)
    }
}
