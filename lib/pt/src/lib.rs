//! Intel Processor Trace: what a processor writes down of each branch, and what it says.
//!
//! A layer is a module, usable by itself: [`packet`] has the packets, as bytes and as values, [`flow`] the instructions
//! that they say were executed, of code in an [`image`], decoded by [`insn`], and [`time`] when they were. Two readers
//! compare what they have found by a [`digest`]. What some processors do otherwise are [`errata`]. Section numbers are
//! those of the Intel SDM, volume 3, chapter "Intel Processor Trace" (33 in editions since 2022).

#![forbid(unsafe_code)]

pub mod digest;
pub mod errata;
pub mod flow;
pub mod image;
pub mod insn;
pub mod packet;
pub mod time;
