//! The one way into a process that runs already: a thread of it is sent to where it joins a recording, and comes back
//! by itself.
//!
//! A program that carries mote has the code for it (`probe/src/join.rs`), and memory that it shares with the recorder
//! (`mote_layout::join`). [`Target::open`] finds both, [`Target::join`] sends a thread there:
//!
//! ```text
//! recorder                                             process
//! locks /proc/PID/mem: one recorder at a time
//! chooses a thread that waits (`thread`)
//! writes place, kind, nonce into the memory
//! PTRACE_SEIZE, INTERRUPT, looks at the registers
//! PTRACE_SETREGSET: rip, rcx, r11                      (the only step that changes where it runs)
//! PTRACE_DETACH                                        makes a thread of ours, restores itself, goes back to its call
//! looks for the answer in the memory                   that thread joins, and answers
//! ```
//! # What holds
//! - A recorder that is killed at any of these steps leaves the process running: before the change the kernel puts the
//!   thread back into its call when its tracer ends; after it the thread does so itself.
//! - The interrupted call goes on as after any stop: it is begun again with the time that was left, or ends with
//!   `EINTR` where a handler has run.
//! - Nothing that the process says is believed, every wait has an end ([`Patience`]), and so has what is read of it.
//! - A thread that may be in the middle of its allocator is not chosen: one in a signal handler, one that waits for a
//!   lock.
//!
//! Into a program that carries nothing of ours, a library is loaded by the same way ([`Visit`]), or a descriptor made
//! there by which it is seen which of its pages are written to ([`tracker`]). Where there is nothing that could load
//! one, calls can be counted ([`Bare`]).

mod arch;
mod bare;
mod code;
mod descriptor;
mod elsewhere;
mod error;
mod halt;
mod image;
mod join_point;
mod placed;
mod shared;
mod start;
mod stop;
mod target;
mod thread;
mod track;
mod visit;

pub use bare::{Bare, LeftOff};
pub use error::Error;
pub use start::{Starts, Wish, at_start};
pub use target::{Patience, Target};
pub use track::tracker;
pub use visit::{Load, Loaded, Visit, open_to_traps, was_visited};
