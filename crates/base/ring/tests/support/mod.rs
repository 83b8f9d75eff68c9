//! The torture of the ring: what its tests and `mote-bench torture ring` share.
//!
//! ```text
//! round     one channel, its writers, its reader, the verdict
//! crowd     the director: child processes and their threads, signals, migrations, kills
//! emit      one thread that writes records, and its signal handlers
//! board     what the writers say of themselves, in shared memory
//! record    the bytes of a record, all of which follow from its writer and sequence number
//! drain     the reader: slow, sudden, partial
//! check     the proof: none torn, doubled, out of order, or lost without being counted
//! ```
#![allow(dead_code, unreachable_pub, missing_docs)]

pub mod board;
pub mod check;
pub mod child;
pub mod crowd;
pub mod drain;
pub mod emit;
pub mod random;
pub mod record;
pub mod round;
pub mod scenario;
pub mod tally;
