//! A whole recording: metadata, journal and data streams as files of a directory, with [`MARK`] between them. What can
//! be opened is read, and read again from a moment in the middle, by a reader that knows the recording and by a new
//! one. Both must find the same, unless packets lie about where they end: then it matters from where the next is looked
//! for.
#![no_main]

use mote_timeline::{Entry, Events, Range, Trace};
use std::path::{Path, PathBuf};
use std::sync::LazyLock;
use std::{env, fs, process};

/// What stands between two files.
const MARK: &[u8] = b"%%%%";
/// Most data streams.
const STREAMS: usize = 4;
/// Most entries that are read of an input: a few bytes can be a million events without fields.
const ENTRIES: usize = 10_000;

/// The directory of this process, in memory.
static PLACE: LazyLock<PathBuf> = LazyLock::new(|| {
    let memory = Path::new("/dev/shm");
    let above = if memory.is_dir() { memory.to_owned() } else { env::temp_dir() };
    let place = above.join(format!("mote-fuzz-{}", process::id()));
    fs::create_dir_all(place.join("mote")).expect("a directory");
    place
});

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    write(bytes);
    let Ok(trace) = Trace::open(&PLACE) else { return };
    let mut known = trace.events(Range::ALL);
    let all = entries(&mut known);
    for problem in trace.problems().list().iter().chain(known.problems().list()) {
        std::hint::black_box(problem.to_string());
    }
    let is_whole = known.problems().is_empty();
    let Some((_, from, _)) = all.get(all.len() / 2).copied() else { return };
    let range = Range { from, to: from.saturating_add(1000) };
    known.seek(range);
    let found = entries(&mut known);
    assert!(
        found.iter().all(|(_, time, _)| (range.from..=range.to).contains(time)),
        "{found:?} in {range:?}"
    );
    let fresh = entries(&mut trace.events(range));
    assert!(found == fresh || !is_whole, "{found:?} and {fresh:?} in {range:?}");
});

/// Makes the files that `bytes` say, and removes those of the input before.
fn write(bytes: &[u8]) {
    let mut rest = Some(bytes);
    let streams: Vec<String> = (0..STREAMS).map(|number| format!("stream_{number}")).collect();
    let names = ["metadata", "mote/journal.jsonl"].into_iter().chain(streams.iter().map(String::as_str));
    for name in names {
        let path = PLACE.join(name);
        match rest.map(split) {
            Some((piece, more)) => {
                fs::write(path, piece).expect("it is written");
                rest = more;
            }
            None => drop(fs::remove_file(path)),
        }
    }
}

/// The bytes before the first mark, and those behind it.
fn split(bytes: &[u8]) -> (&[u8], Option<&[u8]>) {
    match bytes.windows(MARK.len()).position(|window| window == MARK) {
        Some(at) => (&bytes[..at], bytes.get(at + MARK.len()..)),
        None => (bytes, None),
    }
}

/// What is next, up to [`ENTRIES`]: whether it is a loss, its time, and what of.
fn entries(events: &mut Events<'_>) -> Vec<(bool, i64, u64)> {
    let mut found = Vec::new();
    while found.len() < ENTRIES {
        match events.next() {
            Some(Entry::Event(record)) => {
                let fields = record.event().map_or(0, |event| event.payload().iter().count());
                found.push((false, record.time(), u64::from(record.class().0) << 32 | fields as u64));
            }
            Some(Entry::Loss(lost)) => found.push((true, lost.time, lost.loss.events)),
            None => break,
        }
    }
    found
}
