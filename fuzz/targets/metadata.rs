//! CTF metadata, 1.8 and 2: any text is understood or refused.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| mote_ctf::fuzz_entry::metadata(bytes));
