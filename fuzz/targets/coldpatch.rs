//! Programs that are to be prepared for probes, and probe lists: any bytes are understood or refused; what was prepared
//! is understood again, and a list that was read is written as it was.
#![no_main]

use mote_coldpatch::{Symbols, coldpatch, find};
use mote_probelist::List;
use std::path::Path;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    if bytes.first() == Some(&b'{') {
        let Ok(list) = List::read(bytes) else { return };
        let mut text = Vec::new();
        list.write(&mut text).expect("memory");
        assert_eq!(List::read(text.as_slice()).expect("it was read"), list);
        return;
    }
    let path = Path::new("fuzz");
    let Ok(cold) = coldpatch(path, bytes, Symbols::Keep) else { return };
    assert_eq!(cold.bytes.len(), bytes.len());
    find(path, &cold.bytes).expect("only code was changed");
    if let Ok(stripped) = mote_coldpatch::strip(path, &cold.bytes) {
        let _ = find(path, &stripped);
    }
});
