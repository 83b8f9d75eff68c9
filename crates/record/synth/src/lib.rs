//! The Intel PT packets that a processor would have written while it ran a program, and the truth beside them.
//!
//! ```text
//! engine: a program runs ── facts of its threads ─┬─▶ Generator ─▶ packets
//!   step (ptrace), qemu, system                   ├─▶ truth: what was executed
//!                                                 └─▶ sideband: code, threads
//! ```
//! [`trace::Trace`] is all of this; each part is of use by itself. A [`Generator`] has no IO: it makes the packets of
//! whatever facts it is given, as [`Options`] describe the processor. An engine gives facts to any [`Observer`].
//!
//! Packets are those of a thread in its program (User=1, OS=0), which has a stream of its own; or, by the engine
//! system, those of a processor with its kernel (OS=1). A [`Filter`] limits them to addresses. There are no
//! transactions, or packets of power and event trace. [`Files`] writes them as a processor would.
#![forbid(unsafe_code)]

mod arch;
mod block;
mod branches;
mod error;
mod fact;
mod files;
mod gather;
mod logic;
mod maps;
mod observer;
mod options;
mod plugin;
mod program;
pub mod qemu;
mod ranges;
mod returns;
pub mod sideband;
mod sink;
pub mod step;
mod stop;
pub mod system;
mod time;
pub mod trace;
pub mod truth;
pub mod vm;

pub use error::Error;
pub use fact::{Exit, Fact, Run};
pub use files::{Files, Stream};
pub use logic::Generator;
pub use mote_pt::digest::{Digest, P};
pub use observer::{Image, Note, Observer};
pub use options::{Clock, Options};
pub use program::find as find_program;
pub use ranges::{Filter, Parts, Place, Ranges};
pub use sink::Sink;
pub use stop::Stop;
