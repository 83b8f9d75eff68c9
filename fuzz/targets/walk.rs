//! Records of a ring: any bytes are walked up to where they are good.
#![no_main]

use mote_daemon::walk::{Steps, walk};
use mote_layout::parse;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let texts = ["a u32\nb u64\n", "s str\nq u64[]\nx u8[3]\n", ""].map(|fields| format!("mote1\np:e\n6 f:1\n\n{fields}"));
    let events = texts.map(|text| Steps::of(&parse::parse(text.as_bytes()).expect("well formed")));
    let mut counts = [0; 3];
    let walked = walk(bytes, (0, 1 << 46), &events, &mut counts);
    assert!(walked.good <= bytes.len());
    assert_eq!(counts.iter().sum::<u64>(), walked.records);
});
