//! Each mistake gets one clear message, status 2 when nothing could be recorded, and no harm.

use crate::support::event::{assert_counts, named};
use crate::support::{Record, Trace, has_tool, is_root, output_of, programs, wait_for};
use std::fs;
use std::path::Path;
use std::process::Command;

/// Asserts that nothing was recorded, and that the one line about it has all these words.
#[track_caller]
fn assert_refused(trace: &Trace, words: &[&str]) {
    assert_eq!(trace.status, 2, "{}", trace.err);
    assert_eq!(trace.out, "", "the command must not run");
    for word in words {
        assert!(trace.err.contains(word), "no '{word}' in {}", trace.err);
    }
    assert!(trace.err.starts_with("mote: ") && !trace.err.contains("panicked"), "{}", trace.err);
}

#[test]
fn a_command_that_does_not_exist() {
    let trace = Record::program(&["no-such-command-here"]).run();
    assert_refused(&trace, &["'no-such-command-here'", "No such file", "check the name"]);
    assert!(!trace.path.exists(), "an empty recording is left behind, which the next try would stumble over");
}

#[test]
fn a_command_that_is_not_executable() {
    let trace = Record::program(&["/etc/passwd"]).run();
    assert_refused(&trace, &["'/etc/passwd'", "Permission denied", "executable"]);
}

#[test]
fn an_output_directory_that_is_in_use() {
    let directory = tempfile::tempdir().expect("a directory");
    fs::write(directory.path().join("precious"), "data").expect("a file");
    let trace = Record::scene(&["count", "5"]).to(directory.path()).run();
    assert_refused(&trace, &["not empty", "-o"]);
    assert_eq!(fs::read_dir(directory.path()).expect("it").count(), 1, "nothing was added");
    assert_eq!(fs::read_to_string(directory.path().join("precious")).expect("it"), "data");
}

#[test]
fn a_directory_with_much_else_in_it() {
    let view = |path: &Path| {
        let output = Command::new(programs::mote()).arg("view").arg(path).output().expect("mote runs");
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        (output.status.code(), said)
    };
    let (status, said) = view(Path::new("/"));
    assert!(status == Some(2) && said.contains("/ is not a recording, and is too large to search"), "{said}");
    let tree = tempfile::tempdir().expect("a directory");
    let trace = tree.path().join("trace");
    Record::scene(&["count", "5"]).to(&trace).run().ends_with(0);
    assert_eq!(view(tree.path()).0, Some(0), "it is found");
    for number in 0..3000 {
        fs::create_dir_all(tree.path().join(format!("d{}/{number}", number % 30))).expect("a directory");
    }
    let (status, said) = view(tree.path());
    // It is near, and named.
    let named = format!("for example {}", trace.display());
    assert!(status == Some(2) && said.contains("give the directory of a recording"), "{said}");
    assert!(said.contains(&named), "no '{named}' in {said}");
    assert_eq!(view(&trace).0, Some(0));
}

#[test]
fn an_output_directory_that_is_empty() {
    let directory = tempfile::tempdir().expect("a directory");
    let trace = Record::scene(&["count", "5"]).to(directory.path()).run().ends_with(0);
    assert_eq!(trace.events().len(), 5);
}

#[test]
fn output_directories_that_cannot_be() {
    for path in ["/etc/passwd", "/dev/null/trace", "/proc/trace"] {
        let trace = Record::scene(&["count", "5"]).to(Path::new(path)).run();
        assert_refused(&trace, &[path, "-o"]);
    }
}

#[test]
fn a_pattern_that_matches_nothing_is_told_at_once() {
    // Of a program that goes on for long.
    let running =
        Record::scene(&["count", "100000", "10000"]).with(&["-e", "e2e:cuont", "-e", "e2e:exitin*"]).start();
    running.wait_until_said("no event matches");
    let said = running.said().1;
    assert!(said.contains("'e2e:cuont'") && said.contains("e2e:count"), "{said}");
    assert!(!said.contains("exitin"), "that one matches: {said}");
    running.signal(nix::sys::signal::Signal::SIGTERM);
    running.wait().ends_with(128 + 15);
}

#[test]
fn one_pattern_of_two_that_matches_is_recorded() {
    let trace =
        Record::scene(&["count", "10"]).with(&["-e", "nonsense:*", "-e", "e2e:count"]).run().ends_with(0);
    assert!(trace.err.contains("no event matches 'nonsense:*'"), "{}", trace.err);
    assert_counts(&named(&trace.events(), "e2e:count"), "seq", 10);
}

#[test]
fn sizes_that_make_no_sense() {
    for (size, words) in [
        ("12Q", &["12Q"][..]),
        ("x", &["--buffers"]),
        ("0x0x0", &["--buffers"]),
        ("1Gx8", &["buffer sizes", "128 MiB"]),
        ("4kx9999", &["buffer sizes", "4096"]),
    ] {
        let trace = Record::scene(&["count", "5"]).with(&["--buffers", size]).run();
        assert_eq!(trace.status, 2, "{size}: {}", trace.err);
        assert_eq!(trace.out, "");
        words.iter().for_each(|word| assert!(trace.err.contains(word), "{size}: {}", trace.err));
    }
}

#[test]
fn no_memory_for_buffers() {
    if has_tool("prlimit") {
        let trace = Record::scene(&["count", "5"])
            .with(&["--buffers", "1G"])
            .under(&["prlimit", "--as=600000000"])
            .run();
        assert_refused(&trace, &["for buffers", "smaller --buffers"]);
        assert!(!trace.path.exists(), "an empty recording is left behind");
    }
}

#[test]
fn a_program_without_memory_for_buffers_goes_on_untraced() {
    if has_tool("prlimit") {
        let command = ["prlimit", "--as=60000000", programs::scenes(), "count", "100"];
        let trace = Record::program(&command).run();
        assert_eq!(trace.printed("emitted"), 100, "{}", trace.err);
        assert!(trace.status == 0 || trace.status == 3, "{}", trace.status);
        trace.events();
    }
}

#[test]
fn few_descriptors_are_enough() {
    if has_tool("prlimit") {
        let trace =
            Record::scene(&["fork", "5", "20"]).under(&["prlimit", "--nofile=128"]).run().ends_with(0);
        assert_eq!(trace.events().len(), 7 * 20);
    }
}

/// A file system of so many bytes, for the life of the value.
struct SmallDisk(tempfile::TempDir);

impl SmallDisk {
    fn mount(size: &str) -> SmallDisk {
        let place = tempfile::tempdir().expect("a directory");
        let options = format!("size={size}");
        output_of(
            Command::new("mount").args(["-t", "tmpfs", "-o", &options, "mote-claim"]).arg(place.path()),
        );
        SmallDisk(place)
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(self.0.path()).status();
    }
}

#[test]
fn a_full_disk() {
    if !is_root() {
        return;
    }
    let disk = SmallDisk::mount("3M");
    // On one CPU: a second stream could go on with packets that are small enough for what is left.
    let counting = Record::scene(&["count", "400000"]).under(&["taskset", "-c", "0"]);
    let trace = counting.to(&disk.0.path().join("trace")).run().ends_with(3);
    assert_eq!(trace.printed("emitted"), 400_000, "the program came to its own end");
    assert!(trace.err.contains("no space left") && trace.err.contains("complete"), "{}", trace.err);
    let events = trace.events();
    let count = events.len() as u64;
    assert!(count > 1000 && count < 400_000, "{count}");
    assert_counts(&named(&events, "e2e:count"), "seq", count);
    // Every reader says that it is not all.
    let report = trace.report();
    assert_eq!(report["complete"], false);
    let why = report["incomplete"].as_str().expect("a reason");
    assert!(why.contains("no space left") || why.contains("No space left"), "{why}");
    for verb in [&["report"][..], &["view"]] {
        let output = trace.mote(verb);
        let said = [output.stdout, output.stderr].concat();
        let said = String::from_utf8_lossy(&said);
        assert!(said.contains(why), "mote {verb:?} does not say '{why}'");
    }
}

/// Removes files of a recording that runs; returns it when it has ended, with the number of events of its program.
#[track_caller]
fn assert_removal_is_told(remove: impl Fn(&Path), removed: &str) -> Trace {
    let running = Record::scene(&["count", "3000", "1000"]).start();
    running.wait_until_recorded();
    remove(running.output());
    let trace = running.wait().ends_with(3);
    let emitted = trace.printed("emitted");
    assert!(trace.err.contains(removed) && trace.err.contains("was removed"), "{}", trace.err);
    assert!(trace.err.contains("not_written"), "{}", trace.err);
    assert!(!trace.err.contains("no counted event"), "{}", trace.err);
    assert_eq!(emitted, 3000, "the program came to its own end");
    trace
}

#[test]
fn a_recording_that_is_removed_meanwhile() {
    // The recorder may just be making a file in it.
    let remove = |path: &Path| {
        wait_for("removal", || (fs::remove_dir_all(path).is_ok() || !path.exists()).then_some(()));
    };
    let trace = assert_removal_is_told(remove, "trace");
    assert!(!trace.path.exists());
    assert!(trace.err.contains("  events     0 "), "what is gone was not recorded: {}", trace.err);
}

#[test]
fn a_stream_that_is_removed_meanwhile() {
    let streams = |path: &Path| {
        let entries = fs::read_dir(path).expect("a directory").map(|entry| entry.expect("read").path());
        entries
            .filter(|path| path.is_file() && path.file_name().is_some_and(|name| name != "metadata"))
            .collect::<Vec<_>>()
    };
    let remove = |path: &Path| streams(path).iter().for_each(|path| fs::remove_file(path).expect("removed"));
    let trace = assert_removal_is_told(remove, "cpu_");
    let summary = trace.summary();
    assert!(trace.lost()["not_written"] > 0, "{summary}");
    assert!(summary["stopped"].as_str().is_some_and(|why| why.contains("was removed")), "{summary}");
    // What is counted is what is there.
    let recorded: u64 =
        summary["events"].as_object().expect("events").values().filter_map(|n| n.as_u64()).sum();
    assert_eq!(trace.view().len() as u64, recorded);
}

#[test]
fn a_disk_that_is_full_from_the_start() {
    if !is_root() {
        return;
    }
    let disk = SmallDisk::mount("16k");
    fs::write(disk.0.path().join("filler"), vec![0; 16 << 10]).unwrap_or_default();
    let trace = Record::scene(&["count", "5000"]).to(&disk.0.path().join("trace")).run();
    assert!(trace.status == 2 || trace.status == 3, "{}: {}", trace.status, trace.err);
    assert!(trace.err.to_lowercase().contains("no space left"), "{}", trace.err);
    assert!(!trace.err.contains("panicked"), "{}", trace.err);
}
