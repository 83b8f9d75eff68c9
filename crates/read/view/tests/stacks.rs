//! Stacks in every format: names from what the recording kept, no matter what machine it is shown on.

use mote_journal::{ClockSample, DIRECTORY, FILE, Fact, Journal, Map, Process, Summary};
use mote_symbol::Options;
use mote_timeline::{Range, Trace};
use mote_view::{Folded, Format, Json, Selection, Stacked, Stacks, Text, TimeStyle, TopStacks, pump};
use std::fs;
use std::path::Path;
use tempfile::TempDir;

const METADATA: &str = r#"/* CTF 1.8 */
trace { major = 1; minor = 8; byte_order = le; };
clock { name = monotonic; freq = 1000000000; };
stream {
    event.header := struct { integer { size = 64; align = 8; map = clock.monotonic.value; } timestamp; };
    event.context := struct { integer { size = 32; align = 8; } vtid; };
};
event {
    name = "tick";
    fields := struct {
        integer { size = 16; align = 8; } callstack_kernel_length;
        integer { size = 64; align = 8; base = 16; } callstack_kernel[callstack_kernel_length];
        integer { size = 16; align = 8; } callstack_user_length;
        integer { size = 64; align = 8; base = 16; } callstack_user[callstack_user_length];
        integer { size = 32; align = 8; } n;
    };
};
"#;

const KERNEL: u64 = 0xffff_ffff_8100_0000;

fn event(time: u64, kernel: &[u64], user: &[u64], n: u32) -> Vec<u8> {
    let mut bytes = [&time.to_le_bytes()[..], &42_u32.to_le_bytes()].concat();
    for stack in [kernel, user] {
        bytes.extend((stack.len() as u16).to_le_bytes());
        bytes.extend(stack.iter().flat_map(|address| address.to_le_bytes()));
    }
    bytes.extend(n.to_le_bytes());
    bytes
}

/// Three events of one thread, of which two have one stack.
fn recording() -> TempDir {
    let dir = TempDir::new().expect("a directory");
    let write = |name: &str, bytes: &[u8]| fs::write(dir.path().join(name), bytes).expect("writable");
    write("metadata", METADATA.as_bytes());
    let stack = [KERNEL + 0x110, KERNEL + 0x28];
    let first = event(100, &stack, &[0x1104, 0x1010, 0x5000], 1);
    let second = event(200, &stack, &[0x1104, 0x1010, 0x5000], 2);
    write("stream", &[first, second, event(300, &[], &[0x1204], 3)].concat());
    fs::create_dir(dir.path().join(DIRECTORY)).expect("writable");
    let kept = |name: &str, text: &str| write(&format!("{DIRECTORY}/{name}"), text.as_bytes());
    kept("kallsyms", "ffffffff81000000 T entry\nffffffff81000100 t do_work\nffffffff81000200 T end\n");
    kept("perf-42.map", "1000 100 outer\n1100 100 inner; \x1b[31m\n");
    journal(dir.path());
    dir
}

fn journal(dir: &Path) {
    let mut journal = Journal::new(fs::File::create(dir.join(DIRECTORY).join(FILE)).expect("writable"));
    let clock = ClockSample { ticks: 0, monotonic_ns: 0, realtime_ns: 0, error_ns: 0 };
    let map =
        Map { start: 0x1000, end: 0x3000, offset: 0, path: "[anon]".to_owned(), build_id: String::new() };
    let text = || "worker".to_owned();
    let process = Process {
        pid: 42,
        parent: 1,
        at: 50,
        how: "start".to_owned(),
        comm: text(),
        exe: String::new(),
        maps: vec![map],
    };
    let thread = Fact::Thread { tid: 42, pid: 42, at: 50, name: text() };
    for fact in [Fact::Clock(clock), Fact::Process(process), thread, Fact::End(Summary::default())] {
        journal.note(&fact).expect("writable");
    }
}

fn shown<F: Format>(trace: &Trace, format: &mut F) -> String {
    let all = Selection::new(trace, &[], &[], &[]);
    let mut out = Vec::new();
    pump(&mut trace.events(Range::ALL), &all, None, format, &mut out).expect("a vector takes it");
    String::from_utf8(out).expect("all formats are UTF-8")
}

#[test]
fn names_below_each_line_of_text() {
    let dir = recording();
    let trace = Trace::open(dir.path()).expect("it opens");
    let mut stacks = Stacks::new(&trace, dir.path(), &Options::default()).expect("readable");
    let text = shown(&trace, &mut Stacked::text(Text::new(&trace, TimeStyle::Monotonic, false), &mut stacks));
    let lines: Vec<&str> = text.lines().collect();
    assert!(lines[0].ends_with("tick: { n = 1 }"), "{text}");
    let frames = [
        "    do_work+0x10 [kernel]",
        "    entry+0x28 [kernel]",
        "    -- user",
        "    inner; \\x1b[31m+0x4 [jit]",
        "    outer+0x10 [jit]",
        "    [cut short]",
    ];
    assert_eq!(lines[1..7], frames);
    assert_eq!(lines[15], "    0x1204 [anon+0x204]");
    assert_eq!(lines.len(), 16);
    let doubts = stacks.doubts();
    assert!(doubts.iter().any(|doubt| doubt.contains("code without frame pointers")), "{doubts:?}");
    // Without being asked, the addresses are shown as they are.
    let plain = shown(&trace, &mut Text::new(&trace, TimeStyle::Monotonic, false));
    assert!(plain.contains("callstack_user = [0x1104, 0x1010, 0x5000]"), "{plain}");
}

#[test]
fn arrays_in_json_and_counted_stacks() {
    let dir = recording();
    let trace = Trace::open(dir.path()).expect("it opens");
    let mut stacks = Stacks::new(&trace, dir.path(), &Options::default()).expect("readable");
    let json = shown(&trace, &mut Stacked::json(Json::new(&trace, TimeStyle::Monotonic), &mut stacks));
    let first: serde_json::Value = serde_json::from_str(json.lines().next().expect("a line")).expect("JSON");
    assert_eq!(first["fields"], serde_json::json!({ "n": 1 }));
    assert_eq!(first["stack"]["kernel"], serde_json::json!(["do_work+0x10 [kernel]", "entry+0x28 [kernel]"]));
    assert_eq!(first["stack"]["user"][1], "outer+0x10 [jit]");
    let folded = shown(&trace, &mut Folded::new(&mut stacks));
    let expected = "worker;[anon] 1\nworker;[cut];outer;inner: ?[31m;entry_[k];do_work_[k] 2\n".to_owned();
    assert_eq!(folded, expected);
    let top = mote_analysis::run(&mut trace.events(Range::ALL), TopStacks::new(&trace, &mut stacks, 100));
    assert!(
        top.starts_with("tick: 3 events, 2 stacks\n\n           2  66.7%\n    do_work+0x10 [kernel]\n"),
        "{top}"
    );
    assert!(!top.contains('\u{1b}'), "no escape sequence of a traced program reaches the terminal");
}
