//! Programs from text: any text is assembled or refused, and what is assembled comes back from its listing.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| mote_assembler::fuzz_entry::text(bytes));
