//! A program that is built without filters is small, is recorded like any other, and says that it has no filters.

use crate::support::event::named;
use crate::support::{Record, Trace, has_tool, output_of, programs};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

/// What is said of a filter in a program without filters.
const REFUSED: &str = "this program was built without filters";

fn scenes() -> PathBuf {
    programs::without_filters().join("scenes")
}

fn scene<'a>(words: &[&'a str]) -> Vec<&'a str> {
    let scenes: &'static str = scenes().to_string_lossy().into_owned().leak();
    [&[scenes], words].concat()
}

fn counts(trace: &Trace) -> BTreeMap<String, u64> {
    let mut counts = BTreeMap::new();
    trace.events().into_iter().for_each(|event| *counts.entry(event.name).or_default() += 1);
    counts
}

#[test]
fn its_events_are_those_of_a_program_with_filters() {
    for words in [&["net", "2000"][..], &["threads", "4", "300"], &["fork", "3", "100"]] {
        let without = Record::program(&scene(words)).run().ends_with(0);
        let with = Record::scene(words).run().ends_with(0);
        assert!(!counts(&without).is_empty(), "{words:?}");
        assert_eq!(counts(&without), counts(&with), "{words:?}");
        assert_eq!((without.problems(), without.lost_total()), (Vec::new(), 0), "{words:?}");
    }
}

#[test]
fn only_the_events_that_are_wanted_are_on() {
    let trace = Record::program(&scene(&["net", "500"])).with(&["-e", "net:noise"]).run().ends_with(0);
    assert_eq!(trace.events().len(), named(&trace.events(), "net:noise").len());
    assert!(!trace.events().is_empty());
}

#[test]
fn a_filter_is_refused_aloud_and_its_event_stays_off() {
    let wanted = ["-e", "net:packet", "--filter", "id < 10", "-e", "net:noise"];
    let trace = Record::program(&scene(&["net", "500"])).with(&wanted).run();
    let problems = trace.problems().join("\n");
    assert!(problems.contains(REFUSED) && problems.contains("net:packet"), "{problems}");
    assert!(trace.err.contains(REFUSED), "{}", trace.err);
    let events = trace.events();
    assert_eq!(named(&events, "net:packet").len(), 0);
    assert!(!named(&events, "net:noise").is_empty());
    // With filters none is refused.
    let with = Record::scene(&["net", "500"]).with(&wanted).run().ends_with(0);
    assert_eq!((with.problems(), named(&with.events(), "net:packet").len()), (Vec::new(), 10));
}

#[test]
fn several_sessions_record_it() {
    let keep = tempfile::tempdir().expect("a directory");
    let inner = keep.path().join("inner").to_string_lossy().into_owned();
    let mote = programs::mote().to_string_lossy();
    let record = [&mote, "record", "-q", "-o", &inner, "-e", "e2e:count", "--"];
    let outer = Record::program(&[&record[..], &scene(&["count", "1000"])].concat()).run().ends_with(0);
    let read = Command::new(programs::mote()).args(["view", &inner]).output().expect("it runs");
    let shown =
        String::from_utf8_lossy(&read.stdout).lines().filter(|line| line.contains("e2e:count")).count();
    assert_eq!((named(&outer.events(), "e2e:count").len(), shown), (1000, 1000));
    assert_eq!(outer.lost_total(), 0);
}

/// Bytes of text, read-only and writable data that a program takes (`size`).
fn size_of(program: &Path) -> u64 {
    let text = output_of(Command::new("size").arg(program));
    let line = text.lines().nth(1).expect("a line");
    line.split_whitespace().take(2).map(|word| word.parse::<u64>().expect("a number")).sum()
}

#[test]
fn a_program_of_rust_grows_by_200_kib_at_most() {
    if has_tool("size") {
        let built = programs::without_filters();
        let grown = size_of(&built.join("spotted")) - size_of(&built.join("plain"));
        println!("grown by {grown} bytes");
        assert!(grown <= 200 << 10, "grown by {grown} bytes");
    }
}

#[test]
fn a_static_program_of_c_grows_by_250_kib_at_most() {
    if !has_tool("size") || !has_tool("gcc") {
        return;
    }
    let directory = tempfile::tempdir().expect("a directory");
    let sources = Path::new(env!("CARGO_MANIFEST_DIR"));
    let (plain, source) = (directory.path().join("plain"), directory.path().join("plain.c"));
    std::fs::write(&source, "int main(void) { return 0; }\n").expect("a file");
    output_of(Command::new("gcc").arg("-O2").arg(&source).arg("-o").arg(&plain));
    let source = directory.path().join("spotted.c");
    let event = "mote_event(spotted, hello, MOTE_INFO, \"\", mote_i32(count, count));";
    std::fs::write(
        &source,
        format!("#include <mote.h>\nint main(int count, char **words) {{ {event} return !words; }}\n"),
    )
    .expect("a file");
    let program = directory.path().join("spotted");
    let mut command = Command::new("gcc");
    command.arg("-O2").arg("-I").arg(sources.join("../crates/traced/capi/include")).arg(&source);
    // The linker need not be told to drop what is not used.
    output_of(command.arg(programs::library_without_filters().join("libmote.a")).arg("-o").arg(&program));
    let grown = size_of(&program) - size_of(&plain);
    println!("grown by {grown} bytes");
    assert!(grown <= 250 << 10, "grown by {grown} bytes");
    let trace = Record::program(&[&program]).run().ends_with(0);
    assert_eq!(named(&trace.events(), "spotted:hello").len(), 1);
}
