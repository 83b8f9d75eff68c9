//! What the hardware trace says: analyses of the packets of Intel PT, and of what was executed.
//!
//! | module | question | it needs |
//! |---|---|---|
//! | [`vm`] | which virtual machine, vCPU and process a processor was busy with, and when | packets only, no code |
//! | [`delta`] | how many instructions and how long from one pattern of instructions to another, and how often patterns were | code |
//! | [`paths`] | which way functions were called, within system calls or everywhere, how two captures differ in that, and what a tracer adds | code with names |
//!
//! `mote_pt` reads packets, `mote_capture` captures; here is what can be asked of them.
#![forbid(unsafe_code)]

pub mod delta;
pub mod paths;
mod process;
mod program;
mod running;
pub mod vm;

pub use process::Process;
pub use program::{Function, Program};
pub use running::Running;
