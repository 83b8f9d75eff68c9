//! The kernel's types: walks through any bytes come to an end.
#![no_main]

use mote_catalog::btf::Btf;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let Ok(btf) = Btf::read(bytes.to_vec()) else { return };
    for (structure, path) in [("a", "b"), ("a", "b.c"), ("a", "b.c.d"), ("b", "a")] {
        let _ = (btf.member(structure, path), btf.offset(structure, path));
    }
    let _ = (btf.parameters("a"), btf.enumerator("a", "b"), btf.function("a"), btf.size("a"));
    let _ = btf.functions().take(8).filter_map(|(_, id)| btf.prototype(id)).count();
});
