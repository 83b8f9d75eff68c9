//! `mote demo`: records its server, shows the first events and a report.

use mote_timeline::{Entry, Range, Trace};
use std::collections::BTreeMap;
use std::process::Command;

const MOTE: &str = env!("CARGO_BIN_EXE_mote");

#[test]
fn the_demo_records_every_request_and_shows_the_trace() {
    const REQUESTS: usize = 500;
    let dir = tempfile::tempdir().expect("a directory");
    let demo = || {
        let mut command = Command::new(MOTE);
        command.current_dir(dir.path()).args([
            "demo",
            "--requests",
            &REQUESTS.to_string(),
            "--seconds",
            "600",
        ]);
        command.output().expect("runs")
    };
    let output = demo();
    let (out, said) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{out}{said}");
    for words in [
        "500 requests (",
        "x 404",
        "mote view mote-demo --limit 10",
        "http:request_start",
        "The slowest request took",
        "http:request_done",
        "To look further",
    ] {
        assert!(out.contains(words), "`{words}` is not in: {out}");
    }

    let trace = Trace::open(&dir.path().join("mote-demo")).expect("a trace");
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    let mut events = trace.events(Range::ALL);
    while let Some(entry) = events.next() {
        match entry {
            Entry::Event(record) => *counts.entry(record.name().to_owned()).or_default() += 1,
            Entry::Loss(loss) => panic!("lost: {:?}", loss.loss),
        }
    }
    let count = |name: &str| counts.get(name).copied().unwrap_or(0);
    for name in ["client:request_sent", "client:response_received", "http:request_start", "http:request_done"]
    {
        assert_eq!(count(name), REQUESTS, "{name}: {counts:?}");
    }
    assert!(count("http:connection_accepted") >= 6, "{counts:?}");
    for (begin, end) in [
        ("http:connection_accepted", "http:connection_closed"),
        ("pool:job_queued", "pool:job_begin"),
        ("pool:job_begin", "pool:job_end"),
    ] {
        assert_eq!(count(begin), count(end), "{begin}, {end}: {counts:?}");
    }
    assert_eq!((count("client:response_wrong"), count("http:request_bad")), (0, 0));

    if mote_kernel::privilege::check().is_none() {
        assert!(count("sched_switch") > 0 && count("syscall_entry_sendto") >= REQUESTS, "{counts:?}");
    } else {
        mote_skip::skip("the kernel side of the demonstration needs CAP_BPF and CAP_PERFMON");
    }

    // The name is taken now: the next one is another.
    assert!(demo().status.success());
    assert!(dir.path().join("mote-demo-2").exists());
}

#[test]
fn a_directory_that_exists_is_an_error_that_says_what_to_do() {
    let dir = tempfile::tempdir().expect("a directory");
    let output = Command::new(MOTE).arg("demo").arg("-o").arg(dir.path()).output().expect("runs");
    assert_eq!(output.status.code(), Some(2));
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("exists already; give another directory with -o"), "{said}");
}
