//! Filter expressions and actions, compiled to eBPF.
//!
//! ```text
//! text ─ lex, parse ─▶ Rule ─ resolve ─▶ typed tree ─ optimise ─▶ tree ─ emit ─▶ instructions and maps
//! ```
//! A [`Rule`] is read once; [`compile`] fits all rules of a session to one event after another. What the programs then keep in maps,
//! [`aggregate`] reads back. The language is described in `docs/filters.md`.
#![forbid(unsafe_code)]

pub mod aggregate;
mod compile;
mod diagnostic;
mod emit;
mod lex;
pub mod maps;
mod optimise;
mod parse;
pub mod reference;
mod resolve;
mod rule;
mod session;
mod shared;
mod syntax;
mod target;
mod text_pattern;
mod tree;

pub use aggregate::Aggregate;
pub use compile::{Compiled, Decision, compile, explain, fits};
pub use diagnostic::{Diagnostic, Kind, Span};
pub use maps::Maps;
pub use rule::{Form, Rule};
pub use session::{Emitted, Missing, Session};
pub use shared::{SharedNames, SharedPlace};
pub use target::{ContextWord, KERNEL_STACK_BYTES, Side, TEXT_LEN_MAX, TEXT_ROOM};
pub use text_pattern::TextPattern;
