//! Programs are compiled, run, and looked at later: what `mote-symbol` makes of them.

mod common;
mod resolve;
mod signatures;
