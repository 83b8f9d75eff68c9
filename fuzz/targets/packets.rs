//! CTF data streams: any bytes are decoded up to where they are good.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| mote_ctf::fuzz_entry::stream(bytes));
