//! Functions of run-time compilers with times: any bytes are understood or refused, and what is understood can be
//! asked.
#![no_main]

use mote_symbol::JitDump;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let Some(dump) = JitDump::parse(bytes) else { return };
    let all: usize = dump.loads().map(|load| load.code.len()).sum();
    assert!(all <= bytes.len(), "no code is twice there");
    for load in dump.loads().take(64) {
        let found = dump.find(load.start, Some(load.time));
        assert!(found.is_none_or(|(name, _)| bytes.len() >= name.len() / 3));
        let _ = dump.find(load.start, None);
    }
    let later = dump.clone().with_times(|time| time.wrapping_mul(3));
    assert_eq!(later.loads().count(), dump.loads().count());
});
