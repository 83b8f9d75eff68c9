//! How long a system call took whose beginning was not seen: 0 in mote's own traces, which says that it is not known.

use mote_journal::{Fact, Journal, Session};
use mote_pattern::Glob;
use mote_timeline::{Range, Trace};
use mote_view::{Csv, Format, Json, Selection, Text, TimeStyle, pump};
use std::fs::{self, File};
use tempfile::TempDir;

const METADATA: &str = r#"/* CTF 1.8 */
typealias integer { size = 16; align = 8; signed = false; } := u16;
typealias integer { size = 64; align = 8; signed = false; } := u64;
trace { major = 1; minor = 8; byte_order = le; };
clock { name = monotonic; freq = 1000000000; };
typealias integer { size = 64; align = 8; signed = false; map = clock.monotonic.value; } := ticks;
stream { event.header := struct { u16 id; ticks timestamp; }; };
event { name = "syscall_exit_read"; id = 0; fields := struct { u64 ret; u64 duration_ns; }; };
event { name = "app:syscall_exit_read"; id = 1; fields := struct { u64 ret; u64 duration_ns; }; };
"#;

/// A trace of three events, with the journal of mote or without.
fn trace(is_ours: bool) -> (TempDir, Trace) {
    let dir = TempDir::new().expect("a directory");
    let mut bytes = Vec::new();
    for (id, time, duration) in [(0_u16, 1_u64, 0_u64), (0, 2, 1500), (1, 3, 0)] {
        bytes.extend(id.to_le_bytes());
        [time, 7, duration].iter().for_each(|word| bytes.extend(word.to_le_bytes()));
    }
    fs::write(dir.path().join("metadata"), METADATA).expect("written");
    fs::write(dir.path().join("stream"), bytes).expect("written");
    if is_ours {
        let folder = dir.path().join(mote_journal::DIRECTORY);
        fs::create_dir(&folder).expect("made");
        let mut journal = Journal::new(File::create(folder.join(mote_journal::FILE)).expect("made"));
        let session = Session {
            version: "0".to_owned(),
            uuid: String::new(),
            host: String::new(),
            command: Vec::new(),
            mode: "discard".to_owned(),
            sub_bytes: 4096,
            sub_count: 2,
            cpus: 1,
            clock: "monotonic".to_owned(),
            frequency: 1_000_000_000,
            patterns: Vec::new(),
            whole_system: false,
        };
        journal.note(&Fact::Session(session)).expect("written");
    }
    let trace = Trace::open(dir.path()).expect("it opens");
    (dir, trace)
}

/// What is printed of the events of one name, the last word of each line.
fn printed(trace: &Trace, name: &str, format: &mut impl Format) -> Vec<String> {
    let selection = Selection::new(trace, &[], &[Glob::new(name)], &[]);
    let mut out = Vec::new();
    pump(&mut trace.events(Range::ALL), &selection, None, format, &mut out).expect("a vector takes it");
    let text = String::from_utf8(out).expect("text");
    text.lines()
        .filter_map(|line| line.split("7, ").nth(1).or(line.split("7,").nth(1)))
        .map(str::to_owned)
        .collect()
}

#[test]
fn an_unknown_duration_is_absent() {
    let (_dir, trace) = trace(true);
    let name = "syscall_exit_read";
    let text = printed(&trace, name, &mut Text::new(&trace, TimeStyle::Relative(0), false));
    assert_eq!(text[..2], ["duration_ns = none }", "duration_ns = 1500 }"]);
    let json = printed(&trace, name, &mut Json::new(&trace, TimeStyle::Relative(0)));
    assert_eq!(json[..2], ["\"duration_ns\":null}}", "\"duration_ns\":1500}}"]);
    let csv = printed(&trace, name, &mut Csv::flat(&trace, TimeStyle::Relative(0)));
    assert_eq!(csv[..2], ["", "1500"]);
    let objects = printed(&trace, name, &mut Csv::new(&trace, TimeStyle::Relative(0)));
    assert_eq!(objects[..2], ["\"\"duration_ns\"\":null}\"", "\"\"duration_ns\"\":1500}\""]);
}

#[test]
fn events_of_others_mean_what_they_say() {
    let (_dir, ours) = trace(true);
    let text = |trace: &Trace, name: &str| {
        printed(trace, name, &mut Text::new(trace, TimeStyle::Relative(0), false)).join("\n")
    };
    assert_eq!(text(&ours, "app:*"), "duration_ns = 0 }");
    let (_dir, foreign) = trace(false);
    assert!(text(&foreign, "syscall_exit_read").starts_with("duration_ns = 0 }"));
}
