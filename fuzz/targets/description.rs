//! Event descriptions: any text is understood or refused.
#![no_main]

use mote_daemon::walk::Steps;
use mote_layout::parse;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    if let Ok(event) = parse::parse(bytes) {
        event.fields().for_each(drop);
        let _ = Steps::of(&event);
    }
});
