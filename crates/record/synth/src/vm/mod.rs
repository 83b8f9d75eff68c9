//! Schedules of virtual machines as packets: who was on which processor, from a description, and the truth beside it.
//!
//! ```text
//! Script (text, or made at random) ─ play ─┬─▶ Writer ─▶ cpuN.pt: PIP, VMCS, TSC, TMA, MTC, CYC, branches between
//!                                          └─▶ True ─▶ truth-vm.jsonl: what each processor was busy with, and when
//! ```
//! [`Script`]'s text is described where it is read (`parse.rs`), the lines of the truth at [`True`].
//! Nothing is executed, and no code lies behind the branches: this is for readers that need none.

mod files;
mod parse;
mod play;
mod random;
mod script;
mod truth;
mod unplayable;
mod writer;

pub use files::{TRUTH, write};
pub use parse::BadLine;
pub use play::{Played, play};
pub use random::{Random, random};
pub use script::{Host, How, Machine, Process, Script, Step, Timing, Vcpu};
pub use truth::{State, True};
pub use unplayable::Unplayable;
