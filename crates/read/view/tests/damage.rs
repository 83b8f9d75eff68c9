//! Whatever is in a stream, formats stay valid and nothing panics: LTTng's sample with bits flipped and files cut.

use mote_analysis::{Summary, run};
use mote_timeline::{Range, Trace};
use mote_view::{Csv, Json, Selection, Text, TimeStyle, pump, table};
use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};
use tempfile::TempDir;

/// A copy of a sample trace.
fn copy(name: &str) -> (TempDir, PathBuf) {
    let from = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../../lib/ctf/tests/data/lttng-2.16")
        .join(name)
        .join("ust/uid/0/64-bit");
    let dir = TempDir::new().expect("a directory");
    for file in ["metadata", "ch0_0", "ch0_1"] {
        fs::copy(from.join(file), dir.path().join(file)).expect("copied");
    }
    let path = dir.path().to_owned();
    (dir, path)
}

/// Prints in all formats; returns the events of the second stream.
fn check(dir: &Path, damage: &str) -> Vec<String> {
    let Ok(trace) = Trace::open(dir) else { return Vec::new() };
    let all = Selection::new(&trace, &[], &[], &[]);
    let mut json = Vec::new();
    let mut rest = Vec::new();
    let mut events = trace.events(Range::ALL);
    pump(&mut events, &all, None, &mut Json::new(&trace, TimeStyle::Monotonic), &mut json).expect("written");
    for style in [TimeStyle::Date, TimeStyle::Relative(trace.start().unwrap_or(0)), TimeStyle::Delta] {
        let text = &mut Text::new(&trace, style, true);
        pump(&mut trace.events(Range::ALL), &all, None, text, &mut rest).expect("written");
    }
    pump(&mut trace.events(Range::ALL), &all, None, &mut Csv::new(&trace, TimeStyle::Delta), &mut rest)
        .expect("written");
    let mut events = trace.events(Range::ALL);
    let mut report = run(&mut events, Summary::new(&trace));
    report.add_problems(events.problems());
    rest.extend_from_slice(table("x", &report, 80).as_bytes());
    std::str::from_utf8(&rest).unwrap_or_else(|error| panic!("{damage}: {error}"));
    let json = String::from_utf8(json).unwrap_or_else(|error| panic!("{damage}: {error}"));
    for line in json.lines() {
        serde_json::from_str::<Value>(line).unwrap_or_else(|error| panic!("{damage}: {error}: {line}"));
    }
    json.lines().filter(|line| line.contains("\"cpu\":1,")).map(str::to_owned).collect()
}

fn flip_bits(name: &str, file: &str, rounds: u64) {
    let (_dir, dir) = copy(name);
    let whole = check(&dir, "no damage");
    assert_eq!(whole.len(), 269);
    let path = dir.join(file);
    let bytes = fs::read(&path).expect("readable");
    // Most of a stream file is padding: damage what is not.
    let end = bytes.iter().rposition(|b| *b != 0).expect("content") + 1;
    let mut seed = 0x2545_f491_4f6c_dd1d_u64;
    for round in 0..rounds {
        seed ^= seed << 13;
        seed ^= seed >> 7;
        seed ^= seed << 17;
        let mut damaged = bytes.clone();
        let bit = seed as usize % (end * 8);
        damaged[bit / 8] ^= 1 << (bit % 8);
        if round % 5 == 0 {
            damaged.truncate(bit / 8);
        }
        fs::write(&path, &damaged).expect("written");
        let seen = check(&dir, &format!("{name}, {file}, bit {bit}, cut {}", round % 5 == 0));
        assert!(file == "metadata" || seen == whole, "bit {bit} of {file} changed another stream");
    }
}

#[test]
fn a_damaged_stream_of_ctf_1_8() {
    flip_bits("ctf-1.8-full", "ch0_0", 80);
}

#[test]
fn a_damaged_stream_of_ctf_2() {
    flip_bits("ctf-2-full", "ch0_0", 40);
}

#[test]
fn damaged_metadata() {
    flip_bits("ctf-1.8-full", "metadata", 80);
    flip_bits("ctf-2-full", "metadata", 40);
}
