//! Threads on the CPUs, of a trace made by hand in which no CPU is ever idle.

use mote_analysis::{Summary, ThreadTime, run};
use mote_journal::{DIRECTORY, FILE, Fact, Journal, Session};
use mote_timeline::{Range, Trace};
use std::fs::{self, File};
use tempfile::TempDir;

const UUID: &str = "00000000000000000000000000000001";

const METADATA: &str = r#"/* CTF 1.8 */
typealias integer { size = 32; align = 8; signed = false; } := u32;
typealias integer { size = 64; align = 8; signed = false; } := u64;
typealias integer { size = 32; align = 8; signed = true; } := i32;
typealias integer { size = 64; align = 8; signed = true; } := i64;
trace { major = 1; minor = 8; byte_order = le; uuid = "00000000-0000-0000-0000-000000000001"; };
clock { name = monotonic; freq = 1000000000; };
typealias integer { size = 64; align = 8; signed = false; map = clock.monotonic.value; } := ticks;
stream {
    packet.context := struct { u32 cpu_id; };
    event.header := struct { ticks timestamp; };
    event.context := struct { u32 tid; };
};
event { name = "sched_switch"; fields := struct {
    i32 prev_tid; i64 prev_state; integer { size = 8; align = 8; signed = false; encoding = UTF8; } next_comm[4];
    i32 next_tid; }; };
"#;

/// The threads that are shown of two which have a CPU in turns.
fn threads(whole_system: bool) -> Vec<ThreadTime> {
    let mut bytes = 0_u32.to_le_bytes().to_vec();
    for (time, prev, next) in [(100_u64, 1_i32, 2_i32), (150, 2, 1), (250, 1, 2), (300, 2, 1)] {
        bytes.extend(time.to_le_bytes());
        bytes.extend(prev.to_le_bytes());
        bytes.extend(prev.to_le_bytes());
        bytes.extend(0_i64.to_le_bytes());
        bytes.extend(b"busy");
        bytes.extend(next.to_le_bytes());
    }
    let dir = TempDir::new().expect("a directory");
    fs::write(dir.path().join("metadata"), METADATA).expect("written");
    fs::write(dir.path().join("stream"), bytes).expect("written");
    fs::create_dir(dir.path().join(DIRECTORY)).expect("a directory");
    let mut journal = Journal::new(File::create(dir.path().join(DIRECTORY).join(FILE)).expect("a file"));
    let session = Session {
        version: "0".to_owned(),
        uuid: UUID.to_owned(),
        host: "host".to_owned(),
        command: Vec::new(),
        mode: "discard".to_owned(),
        sub_bytes: 4096,
        sub_count: 4,
        cpus: 1,
        clock: "monotonic".to_owned(),
        frequency: 1_000_000_000,
        patterns: Vec::new(),
        whole_system,
    };
    journal.note(&Fact::Session(session)).expect("written");
    let trace = Trace::open(dir.path()).expect("it opens");
    run(&mut trace.events(Range::ALL), Summary::new(&trace)).scheduling
}

#[test]
fn all_threads_of_the_whole_system_are_recorded_also_where_no_cpu_is_idle() {
    let found = threads(true);
    let times: Vec<(u32, u64)> = found.iter().map(|thread| (thread.tid, thread.running_ns)).collect();
    assert_eq!(times, [(1, 100), (2, 100)]);
    // Both could run all the time: how long they waited for the CPU.
    let waited = |at: usize| found[at].queued_ns.map(|queued| (queued.samples, queued.max));
    assert_eq!((waited(0), waited(1)), (Some((2, 50)), Some((1, 100))));
    // Of others it is not known whether they are recorded.
    assert!(threads(false).is_empty());
}
