//! Objects of clang: any bytes are read or refused.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| mote_assembler::fuzz_entry::object(bytes));
