//! eBPF programs made by code.
//!
//! [`Build`] is the way to write them: by values, places and conditions. A value is in a register for as long as
//! it is held; the builder knows which registers a call changes, and tells of a value that is read after it was
//! lost. A [`Place`] knows size and sign of the member that it is; a [`Test`] decides without a label in the ordinary
//! case.
//!
//! ```
//! use mote_builder::{Build, Builder, Field, field};
//! use mote_bpf::{Reg, helper};
//!
//! /// What the program is given.
//! #[repr(C)]
//! struct Context { bytes: u32, count: u32 }
//! /// What it keeps: how often there were many bytes, and when that was last.
//! #[repr(C)]
//! struct Seen { times: u64, last: u64 }
//!
//! const BYTES: Field<Context, u32> = field!(Context, bytes);
//!
//! let mut b = Builder::new();
//! let context = b.pin(Reg::R1).to::<Context>();
//! b.when(context.at(BYTES).gt(1500), |b| {
//!     // In a saved register: it is read behind a call.
//!     let seen = b.keep(mote_builder::map_value(0, 64)).to::<Seen>();
//!     b.add_atomically(seen.at(field!(Seen, times)), 1);
//!     let now = b.invoke(helper::KTIME_GET_NS, ());
//!     b.put(seen.at(field!(Seen, last)), now);
//! });
//! b.exit_with(0);
//! assert_eq!(b.finish().unwrap().len(), 10);
//! ```
//!
//! # Registers
//! | | are taken by | until |
//! |---|---|---|
//! | `r0` to `r5` | [`Build::get`], and what expressions need on their way | the value is dropped, or at a call |
//! | `r6` to `r9` | [`Build::keep`] | the value is dropped |
//!
//! A function ([`Build::function`]) has registers and a frame of its own. Nothing is moved to the stack behind one's
//! back: a program that needs more registers than there are is refused, and keeps something in a [`Local`] then.
//!
//! # Refused
//! [`Builder::finish`] returns the first mistake, with its place in the source: a value that is read after a call took
//! its register, or before it was set on all ways; too many values; a frame that is too large; instructions that no way
//! leads to.
//!
//! # One by one
//! Below are the instructions themselves, by register and label, for what passes on code that is there already. Offsets
//! are worked out by [`Builder::finish`], which also makes long jumps of those that do not fit 16 bits: `goto` has a
//! 32-bit form in one slot; a far branch becomes its opposite over such a `goto`.

#![forbid(unsafe_code)]

mod bucket;
mod build;
mod builder;
mod call;
mod emit;
mod error;
mod evaluate;
mod expr;
mod place;
mod registers;
mod slots;

pub use bucket::bucket;
pub use build::Build;
pub use builder::Builder;
pub use call::Arguments;
pub use error::{BuildError, Label};
pub use expr::{Expr, Test, map, map_value};
pub use place::{Field, Local, Memory, Place, Pointer, Scalar};
pub use registers::Value;

#[cfg(test)]
mod tests;
