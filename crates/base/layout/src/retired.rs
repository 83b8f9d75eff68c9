//! Plans of probes in functions (`crate::functions`) that a recorder has given up, and their code taken away.
//!
//! The code of plans whose functions are off stays, as threads may still be in it. A recorder that comes later has it
//! taken away, so that its own plan finds the places again: in the place of a plan it hands over a file that begins
//! with [`RETIRE`] and a number. The library gives up all plans, if the process is in no session, and writes behind
//! that ([`RETIRED_AT`]) from where to where the stubs lie by which calls return, how far from a thread's pointer its
//! two words of tops lie (`crate::stubs`), and then, for each piece of code, where it begins and ends: also of what
//! stays and leads there (`crate::functions::COUNTING`). When the recorder has seen each thread elsewhere once, it
//! hands over [`RELEASE`] and the same number: the code is unmapped, unless another recorder has had plans given up
//! meanwhile.

/// First word of a file by which plans are to be given up; a number is the second one.
pub const RETIRE: u64 = u64::from_le_bytes(*b"moteRt7\0");
/// First word of a file by which the code of those is to be unmapped that were given up by the number behind it.
pub const RELEASE: u64 = u64::from_le_bytes(*b"moteRl7\0");
/// Where the answer to [`RETIRE`] begins in its file, in bytes: pairs of words.
pub const RETIRED_AT: usize = 16;
