//! Programs and libraries: any bytes are understood or refused, and what is understood can be asked.
#![no_main]

use mote_symbol::{Image, Kernel, PerfMap, demangle};
use std::path::Path;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let text = String::from_utf8_lossy(bytes);
    let _ = (
        demangle(&text),
        PerfMap::parse(&text).find(1),
        Kernel::parse(&text).map(|kernel| kernel.find(1).is_some()),
    );
    if let Ok(found) = mote_functions::from_bytes(Path::new("fuzz"), bytes) {
        assert!(found.functions.is_sorted_by_key(|function| function.address));
    }
    let Ok(image) = Image::from_bytes(Path::new("fuzz"), bytes) else { return };
    for symbol in image.table.iter() {
        let found = image.table.find(symbol.address).expect("there is one");
        assert_eq!(found.address, symbol.address);
        let _ = (image.offset_of(symbol.address), image.address_of(symbol.address), demangle(symbol.name));
    }
});
