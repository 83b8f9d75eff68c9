//! Sums of system calls, of a trace made by hand: how long a call took whose entry is not there is not known.

use mote_analysis::{Summary, run};
use mote_timeline::{Range, Trace};
use tempfile::TempDir;

const METADATA: &str = r#"/* CTF 1.8 */
typealias integer { size = 16; align = 8; signed = false; } := u16;
typealias integer { size = 32; align = 8; signed = false; } := u32;
typealias integer { size = 64; align = 8; signed = false; } := u64;
typealias integer { size = 64; align = 8; signed = true; } := i64;
trace { major = 1; minor = 8; byte_order = le; };
clock { name = monotonic; freq = 1000000000; };
typealias integer { size = 64; align = 8; signed = false; map = clock.monotonic.value; } := ticks;
stream {
    event.header := struct { u16 id; ticks timestamp; };
    event.context := struct { u32 vtid; };
};
event { name = "syscall_entry_read"; id = 0; fields := struct { u64 fd; }; };
event { name = "syscall_exit_read"; id = 1; fields := struct { i64 ret; }; };
event { name = "syscall_exit_write"; id = 2; fields := struct { i64 ret; u64 duration_ns; }; };
"#;

/// Time, id, thread, fields.
fn trace(events: &[(u64, u16, u32, &[u64])]) -> (TempDir, Trace) {
    let mut bytes = Vec::new();
    for (time, id, thread, fields) in events {
        bytes.extend(id.to_le_bytes());
        bytes.extend(time.to_le_bytes());
        bytes.extend(thread.to_le_bytes());
        fields.iter().for_each(|field| bytes.extend(field.to_le_bytes()));
    }
    let dir = TempDir::new().expect("a directory");
    std::fs::write(dir.path().join("metadata"), METADATA).expect("written");
    std::fs::write(dir.path().join("stream"), bytes).expect("written");
    let trace = Trace::open(dir.path()).expect("it opens");
    (dir, trace)
}

#[test]
fn a_duration_that_is_not_known_is_absent() {
    let (_dir, trace) = trace(&[
        // Two of another thread are known: one by its entry, one by what is told.
        (100, 0, 2, &[3]),
        (150, 1, 2, &[1]),
        (160, 2, 2, &[1, 7]),
        // These began before the recording.
        (200, 1, 1, &[1]),
        (300, 2, 1, &[1, 0]),
    ]);
    let report = run(&mut trace.events(Range::ALL), Summary::new(&trace));
    for (name, took) in [("read", 50), ("write", 7)] {
        let call = report.syscalls.iter().find(|call| call.name == name).expect("it is there");
        let duration = call.duration_ns.expect("one is known");
        assert_eq!((call.calls, call.total_ns, duration.samples), (2, Some(took), 1), "{name}");
        assert_eq!((duration.min, duration.max), (took, took));
    }
    let thread = |tid| report.thread_syscalls.iter().find(|thread| thread.tid == tid).expect("it is there");
    assert_eq!((thread(2).calls, thread(2).total_ns), (2, Some(57)));
    assert_eq!((thread(1).calls, thread(1).total_ns), (2, None));
    assert!(
        thread(1).syscalls.iter().all(|call| (call.timed, call.total_ns, call.max_ns) == (0, None, None))
    );
}
