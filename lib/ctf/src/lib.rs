//! CTF 1.8 and CTF 2, read and write: metadata, packets, events. No IO, no unsafe code, no panic on bad
//! input.
//!
//! # Reading
//! 1. [`Schema::parse`] turns the bytes of a `metadata` file (CTF 1.8 text or packets, CTF 2 JSON
//!    fragments) into a [`model::TraceClass`] and compiles it for decoding. What could change how a byte is
//!    read is refused, with its line and column; what else is odd is one of [`Schema::warnings`].
//! 2. A [`Cursor`] (one per data stream file) reads packets that the caller holds in memory:
//!    [`Cursor::begin`] on a prefix tells the packet's size, [`Cursor::advance`] steps to the next event,
//!    [`Cursor::event`] shows it. Buffers and cursor carry no lifetime, so a merger can keep them side by
//!    side. [`Packet`] wraps the three for a single packet.
//! 3. [`text`] prints events as babeltrace2 does.
//!
//! # Writing
//! [`write::tsdl`] and [`write::json`] print a [`model::TraceClass`]; [`write::encode`] assembles packets
//! from values, for tests.
//!
//! # Cost
//! An event of two integers and a thread id: 20 ns to decode, 68 ns to decode and print
//! (`examples/decode_speed.rs`, on the project's 2-core x86-64 machine).
#![forbid(unsafe_code)]

mod check;
pub mod decode;
mod error;
#[cfg(any(test, fuzzing))]
pub mod fuzz_entry;
pub mod model;
pub mod read;
mod schema;
pub mod text;
mod value;
pub mod write;

pub use decode::{Cursor, Event, Packet, PacketHeader};
pub use error::{
    DecodeError, DecodeFault, MAX_DEPTH, MAX_WARNINGS, MetadataError, MetadataFault, MetadataWarning, Oddity,
};
pub use schema::Schema;
pub use value::{Children, Field, Fields, Members, Value};
