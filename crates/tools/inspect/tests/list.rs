//! What `mote list` shows of a program and of a running process: the example `carrier`, which Cargo builds with the
//! tests.

use mote_inspect::{Carrier, Error, Event, Field, State, file, process};
use mote_layout::Level;
use std::fs::OpenOptions;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

fn carrier() -> PathBuf {
    let test = std::env::current_exe().expect("the test's own path");
    test.ancestors().nth(2).expect("the directory of the profile").join("examples/carrier")
}

fn named<'c>(carrier: &'c Carrier, name: &str) -> &'c Event {
    let all: Vec<String> = carrier.events.iter().map(Event::full_name).collect();
    carrier
        .events
        .iter()
        .find(|event| event.full_name() == name)
        .unwrap_or_else(|| panic!("no {name} in {all:?}"))
}

/// Number of the line of `carrier.rs` that has `text`.
fn line_of(text: &str) -> u32 {
    let source = include_str!("../examples/carrier.rs");
    (1..).zip(source.lines()).find(|(_, line)| line.contains(text)).expect("in the source").0
}

#[test]
fn a_program_lists_names_levels_places_fields_and_sites() {
    let read = file::read(&carrier()).expect("readable");
    assert_eq!(read.problems, [""; 0]);
    let names: Vec<String> = read.events.iter().map(Event::full_name).collect();
    assert_eq!(names, ["http:request_done", "http:request_failed", "work:begin", "work:types"]);

    let done = named(&read, "http:request_done");
    assert_eq!((done.level, done.text.as_str()), (Level::Debug, "A request was answered."));
    assert!(done.file.ends_with("examples/carrier.rs"), "{}", done.file);
    assert_eq!((done.sites.len(), done.switch_text(), done.state_text().as_str()), (2, "patched", "-"));

    let begin = named(&read, "work:begin");
    assert_eq!((begin.level, begin.line, begin.fields.len()), (Level::Info, line_of("work::begin"), 0));

    let types = named(&read, "work:types");
    assert_eq!((types.level, types.text.as_str()), (Level::Warning, "all the types"));
    assert!((line_of("work::begin") + 1..=line_of("all the types")).contains(&types.line), "{}", types.line);
    let expected = [
        ("a", "u8"),
        ("b", "i64"),
        ("c", "bool"),
        ("d", "f64"),
        ("e", "bytes"),
        ("f", "u16[3]"),
        ("g", "u32[]"),
        ("h", "enum u8 Idle=0 Busy=4"),
        ("i", "x64"),
    ];
    let expected = expected.map(|(name, ty)| Field { name: name.to_owned(), ty: ty.to_owned() });
    assert_eq!(types.fields, expected);
}

/// The example, running, ended when dropped.
struct Running(Child);

impl Running {
    fn start() -> Running {
        let child = Command::new(carrier()).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
        let mut running = Running(child.expect("started"));
        let mut line = String::new();
        let output = running.0.stdout.as_mut().expect("piped");
        BufReader::new(output).read_line(&mut line).expect("a line");
        assert_eq!(line, "ready\n");
        running
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn a_running_process_shows_the_state_of_each_site() {
    let running = Running::start();
    let pid = running.0.id();
    let read = process::read(pid).expect("readable");
    assert_eq!(
        (read.comm.as_str(), read.carriers.len(), read.state_unknown.as_deref()),
        ("carrier", 1, None)
    );
    assert_eq!((read.events(), read.events_on()), (4, Some(0)));
    let event = named(&read.carriers[0], "work:begin");
    assert_eq!(event.state_text(), "off");

    // As the agent does it, but nothing runs there: the program waits for its input.
    let path = carrier().canonicalize().expect("exists");
    let maps = std::fs::read_to_string(format!("/proc/{pid}/maps")).expect("readable");
    let first = maps.lines().find(|line| line.ends_with(path.to_str().expect("text"))).expect("mapped");
    let base = u64::from_str_radix(first.split('-').next().expect("a range"), 16).expect("an address");
    let code = base + event.sites[0].code.expect("patched");
    let memory = OpenOptions::new().write(true).open(format!("/proc/{pid}/mem")).expect("ours");
    for (bytes, state, text) in [
        ([0xe9, 0, 0, 0, 0], State::On, "on"),
        ([0xcc, 0x1f, 0x44, 0, 0], State::Changing, "changing"),
        ([0x90; 5], State::Foreign, "other code"),
        ([0x0f, 0x1f, 0x44, 0, 0], State::Off, "off"),
    ] {
        memory.write_all_at(&bytes, code).expect("writable");
        let read = process::read(pid).expect("readable");
        let event = named(&read.carriers[0], "work:begin");
        assert_eq!((event.sites[0].state, event.state_text().as_str()), (Some(state), text));
        assert_eq!(read.events_on(), Some(usize::from(state == State::On)));
    }
}

#[test]
fn a_scan_finds_the_process_among_all() {
    let running = Running::start();
    let (all, _) = process::all();
    let found = all.iter().find(|process| process.pid == running.0.id()).expect("found");
    assert_eq!(found.events(), 4);
    assert!(all.iter().all(|process| process.events() > 0));
}

#[test]
fn files_that_carry_nothing_say_what_they_are() {
    let plain = file::read(Path::new("/bin/sh")).expect("a program");
    assert!(plain.events.is_empty() && plain.problems.is_empty());
    assert!(matches!(file::read(Path::new("Cargo.toml")), Err(Error::NotElf(_))));
    assert!(matches!(file::read(Path::new("src")), Err(Error::NotElf(_))));
    assert!(matches!(file::read(Path::new("missing")), Err(Error::Unreadable { .. })));
    assert!(matches!(process::read(4_000_000_000), Err(Error::NoProcess(_))));

    let dir = tempfile::tempdir().expect("a directory");
    let script = dir.path().join("script");
    std::fs::write(&script, "#!/bin/sh -e\n").expect("writable");
    let Err(Error::Script { interpreter, .. }) = file::read(&script) else { panic!("not seen as a script") };
    assert_eq!(interpreter, "/bin/sh -e");
}

#[test]
fn a_damaged_file_is_an_error_or_a_problem_and_never_a_panic() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("damaged");
    let whole = std::fs::read(carrier()).expect("readable");
    for end in (0..whole.len()).step_by(whole.len() / 50) {
        std::fs::write(&path, &whole[..end]).expect("writable");
        let _ = file::read(&path);
    }
    // Bits of the headers and of the records, where everything else hangs on.
    let records = records_at(&whole);
    let mut bytes = whole.clone();
    for at in (0..64).chain(64..700).step_by(3).chain(records..records + 64) {
        let old = bytes[at];
        bytes[at] ^= 1 << (at % 8);
        std::fs::write(&path, &bytes).expect("writable");
        let _ = file::read(&path);
        bytes[at] = old;
    }
    // A record that leads out of the file.
    let event = (records..).step_by(16).find(|at| whole[at + 8..at + 12] != [0; 4]).expect("a record");
    bytes[event + 12..event + 16].copy_from_slice(&[0xff, 0xff, 0xff, 0x7f]);
    std::fs::write(&path, &bytes).expect("writable");
    assert_eq!(file::read(&path).expect("readable").problems.len(), 1);
}

/// Where the section `mote_sites` begins in the file, by its name in the section headers.
fn records_at(elf: &[u8]) -> usize {
    let number = |at: usize, len: usize| {
        let mut word = [0; 8];
        word[..len].copy_from_slice(&elf[at..at + len]);
        u64::from_le_bytes(word) as usize
    };
    let (headers, size, count, names) = (number(40, 8), number(58, 2), number(60, 2), number(62, 2));
    let names = number(headers + names * size + 24, 8);
    let is_ours = |header: &usize| {
        let name = names + number(*header, 4);
        elf[name..].starts_with(b"mote_sites\0")
    };
    let header = (0..count).map(|index| headers + index * size).find(is_ours).expect("has the section");
    number(header + 24, 8)
}
