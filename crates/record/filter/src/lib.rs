//! Filter expressions and actions, compiled to eBPF.
//!
//! ```text
//! rule ─ lex, parse ─▶ syntax ─ resolve ─▶ typed ─ optimise, emit ─▶ instructions, maps ─ aggregate ─▶ results
//! ```
//! | a rule's way | |
//! |---|---|
//! | `rule` | what a user hands in, and what the recorder asks of it: [`Rule`] |
//! | `lex`, `parse`, `syntax` | tokens; the tree as it was written, whatever the event |
//! | `resolve`, `typed` | names and types looked up in one event's description; the tree with types |
//! | `optimise` | what is constant, what is cheap and goes first |
//! | `emit` | instructions: `code` is the program in the making, `condition`, `number`, `float` and `action` write it; `published` and `last_event` read what the kernel and the thread's last event left; `kernel` writes what our helpers do in a traced process, for the kernel has none of these |
//! | `compile` | all of these steps for one event of a session: [`compile()`] |
//! | [`maps`] | what programs keep between events |
//! | [`aggregate`] | what maps hold, read back for people and programs |
//!
//! Beside the way: `foreign` says what is left of a rule where the contexts of a thread are absent; `session` and
//! `target` say what a program is made for, `string_pattern` and `shared_names` are values that several steps know,
//! `diagnostic` shows problems in the rule's text, and [`interpret`] works rules out without any program, for tests.
//! The language is described in `docs/filters.md`.
#![forbid(unsafe_code)]

pub mod aggregate;
mod compile;
mod diagnostic;
mod emit;
mod foreign;
pub mod interpret;
mod lex;
pub mod maps;
mod optimise;
mod parse;
mod resolve;
mod rule;
mod session;
mod shared_names;
mod string_pattern;
mod syntax;
mod target;
mod typed;

pub use aggregate::Aggregate;
pub use compile::{Compiled, Decision, compile, explain, fits};
pub use diagnostic::{Diagnostic, Kind, Span};
pub use maps::Maps;
pub use rule::{Form, Rule};
pub use session::{Emitted, Missing, Session};
pub use shared_names::{SharedNames, SharedPlace};
pub use string_pattern::StringPattern;
pub use target::{ContextWord, KERNEL_STACK_BYTES, STRING_LEN_MAX, STRING_ROOM, Side};
