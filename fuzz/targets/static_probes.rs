//! Notes of static probes: any bytes are read or passed over.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let _ = mote_probes::read_notes(bytes, Some(0x1000));
});
