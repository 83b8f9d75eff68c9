//! Damage ends nothing but what it hits, and is told.

#[path = "../examples/make_trace/build.rs"]
mod build;

use build::Plan;
use mote_layout::packet::{CONTENT_SIZE_AT, HEADER_BYTES};
use mote_timeline::{Entry, Fault, Range, Trace};
use std::fs;
use std::path::{Path, PathBuf};
use tempfile::TempDir;

/// Bytes of an event of two integers.
const EVENT: usize = 24;

/// A recording of one stream: 10 packets of 40 events each.
fn recording() -> (TempDir, PathBuf, Vec<u8>) {
    let dir = TempDir::new().expect("a directory");
    let plan =
        Plan { events: 400, streams: 1, packet_bytes: HEADER_BYTES + 40 * EVENT + 9, ..Plan::default() };
    build::build(dir.path(), &plan).expect("built");
    let stream = dir.path().join("stream_0");
    let bytes = fs::read(&stream).expect("readable");
    assert_eq!(bytes.len(), 10 * packet_bytes());
    (dir, stream, bytes)
}

fn packet_bytes() -> usize {
    HEADER_BYTES + 40 * EVENT
}

/// The values of `a`, in order, and the problems in words.
fn read(dir: &Path) -> (Vec<i128>, Vec<String>) {
    let trace = Trace::open(dir).expect("it opens");
    let mut events = trace.events(Range::ALL);
    let mut seen = Vec::new();
    while let Some(entry) = events.next() {
        if let Entry::Event(record) = entry {
            let event = record.event().expect("an event");
            seen.push(event.payload().integer("a").unwrap_or(-1));
        }
    }
    let problems = events.problems();
    (seen, problems.list().iter().map(ToString::to_string).collect())
}

fn all() -> Vec<i128> {
    (0..400).collect()
}

#[test]
fn a_file_cut_anywhere_shows_all_whole_events() {
    let (dir, stream, bytes) = recording();
    for len in (0..bytes.len()).rev().step_by(101).chain([0, 1, 11]) {
        fs::write(&stream, &bytes[..len]).expect("written");
        let (seen, problems) = read(dir.path());
        let packets = len / packet_bytes();
        let inside = (len % packet_bytes()).saturating_sub(HEADER_BYTES) / EVENT;
        assert_eq!(seen, all()[..packets * 40 + inside.min(40)], "cut at {len}");
        let whole = len % packet_bytes() == 0;
        assert_eq!(problems.is_empty(), whole, "cut at {len}: {problems:?}");
        assert!(problems.iter().all(|p| p.contains("stream_0, byte ")), "{problems:?}");
    }
}

#[test]
fn a_flipped_bit_hurts_its_packet_only() {
    let (dir, stream, bytes) = recording();
    let mut seed = 88_172_645_463_325_252_u64;
    for _ in 0..500 {
        seed ^= seed << 13;
        seed ^= seed >> 7;
        seed ^= seed << 17;
        let bit = seed as usize % (bytes.len() * 8);
        let mut damaged = bytes.clone();
        damaged[bit / 8] ^= 1 << (bit % 8);
        fs::write(&stream, &damaged).expect("written");
        let (seen, problems) = read(dir.path());
        let packet = bit / 8 / packet_bytes();
        let in_packet = bit / 8 % packet_bytes();
        let good_before = packet * 40 + in_packet.saturating_sub(HEADER_BYTES) / EVENT;
        assert_eq!(seen[..good_before], all()[..good_before], "bit {bit}: {problems:?}");
        let behind = &all()[(packet + 1) * 40..];
        assert!(
            seen.ends_with(behind),
            "bit {bit}, byte {in_packet} of packet {packet}: what is behind the packet is missing: {problems:?}"
        );
    }
}

#[test]
fn a_lost_header_is_told_and_passed_over() {
    let (dir, stream, mut bytes) = recording();
    let at = 3 * packet_bytes();
    bytes[at] ^= 0xff;
    fs::write(&stream, &bytes).expect("written");
    let (seen, problems) = read(dir.path());
    let expected: Vec<i128> = all().into_iter().filter(|n| !(120..160).contains(n)).collect();
    assert_eq!(seen, expected);
    assert_eq!(problems.len(), 1);
    let told = &problems[0];
    assert!(told.contains(&format!("byte {at}: bad magic number")), "{told}");
    assert!(told.contains(&format!("{} bytes could not be read", packet_bytes())), "{told}");
}

#[test]
fn a_packet_that_lies_about_its_size_does_not_hide_the_next() {
    let (dir, stream, bytes) = recording();
    // `packet_size` follows the 64 bits of `content_size`.
    let field = 2 * packet_bytes() + CONTENT_SIZE_AT + 8;
    for size in [packet_bytes() as u64 + 17, 1 << 40, (packet_bytes() * 3) as u64] {
        let mut damaged = bytes.clone();
        damaged[field..field + 8].copy_from_slice(&(size * 8).to_le_bytes());
        fs::write(&stream, &damaged).expect("written");
        let (seen, _) = read(dir.path());
        let skipped = if size == (packet_bytes() * 3) as u64 { 120..200 } else { 0..0 };
        let expected: Vec<i128> = all().into_iter().filter(|n| !skipped.contains(n)).collect();
        assert_eq!(seen, expected, "size {size}");
    }
}

#[test]
fn rubbish_and_empty_files_are_harmless() {
    let (dir, _, _) = recording();
    fs::write(dir.path().join("empty"), b"").expect("written");
    let (seen, problems) = read(dir.path());
    assert_eq!((seen, problems.len()), (all(), 0));
    fs::write(dir.path().join("rubbish"), [0xc1; 100_000]).expect("written");
    let (seen, problems) = read(dir.path());
    assert_eq!((seen, problems.len()), (all(), 1), "{problems:?}");
}

#[test]
fn a_trace_without_metadata_says_what_is_there() {
    let (dir, _, _) = recording();
    fs::remove_file(dir.path().join("metadata")).expect("removed");
    let told = Trace::open(dir.path()).expect_err("no metadata").to_string();
    assert!(
        told.contains("no file called `metadata`") && told.contains("there is journal.jsonl, mote, stream_0"),
        "{told}"
    );
    let told = Trace::open(&dir.path().join("stream_0")).expect_err("a file").to_string();
    assert!(told.contains("is not a directory"), "{told}");
    let told = Trace::open(&dir.path().join("nothing")).expect_err("nothing").to_string();
    assert!(told.contains("cannot read"), "{told}");
}

#[test]
fn damaged_metadata_never_panics() {
    let (dir, _, _) = recording();
    let path = dir.path().join("metadata");
    let text = fs::read(&path).expect("readable");
    for place in 0..text.len() {
        let mut damaged = text.clone();
        damaged[place] ^= 1 << (place % 8);
        fs::write(&path, &damaged).expect("written");
        if let Ok(trace) = Trace::open(dir.path()) {
            let mut events = trace.events(Range::ALL);
            while events.next().is_some() {}
        }
    }
}

#[test]
fn a_broken_journal_is_a_problem_but_events_are_shown() {
    let (dir, _, _) = recording();
    let path = dir.path().join("mote/journal.jsonl");
    let mut text = fs::read_to_string(&path).expect("readable");
    text.truncate(text.len() - 5);
    fs::write(&path, &text).expect("written");
    let trace = Trace::open(dir.path()).expect("it opens");
    assert!(matches!(trace.problems().list()[..], [ref p] if matches!(p.fault, Fault::Journal { lines: 1 })));
    fs::write(&path, text.replace("6d6f7465", "00000000")).expect("written");
    let trace = Trace::open(dir.path()).expect("it opens");
    assert!(trace.problems().list().iter().any(|p| matches!(p.fault, Fault::ForeignJournal)));
    assert_eq!(read(dir.path()).0, all());
}
