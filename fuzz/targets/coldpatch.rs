//! Programs that are to be prepared for probes or rewritten, and probe lists: any bytes are understood or refused; what
//! was prepared is understood again, and a list that was read is written as it was.
#![no_main]

use mote_coldpatch::{Rewrite, Symbols, coldpatch, find};
use mote_functions::Pattern;
use mote_probelist::{Kind, List, Placeholder};
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
    let Ok(cold) = coldpatch(path, bytes, Symbols::Keep, Rewrite::Needed(&[])) else { return };
    assert_eq!(cold.bytes.len(), bytes.len());
    find(path, &cold.bytes).expect("only code was changed");
    let all = [Pattern::new("*").expect("a pattern")];
    if let Ok(rewritten) = coldpatch(path, bytes, Symbols::Keep, Rewrite::All(&all)) {
        find(path, &rewritten.bytes).expect("it is whole");
        let is_new = |place: &Placeholder| place.kind == Kind::Rewritten;
        if rewritten.list.placeholders.iter().any(is_new) {
            coldpatch(path, &rewritten.bytes, Symbols::Keep, Rewrite::All(&all)).expect_err("once is enough");
        }
    }
    if let Ok(stripped) = mote_coldpatch::strip(path, &cold.bytes) {
        let _ = find(path, &stripped);
    }
});
