//! CTF metadata up to the first NUL, and a data stream of it behind.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| mote_ctf::fuzz_entry::trace(bytes));
