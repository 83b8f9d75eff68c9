//! Of real servers under load `mote latency` says which call was slow, on what, in which function, and why; and what
//! that costs them is measured.
//!
//! What makes them slow is certain: a disk that stands still, a control group without a CPU (`support::slow_disk`,
//! `support::cgroup`).

use crate::support::cgroup::CpuLimit;
use crate::support::kernel;
use crate::support::latency::{Call, Report, Watching};
use crate::support::servers::{Kind, Load, Server};
use crate::support::slow_disk::SlowDisk;
use crate::support::{Record, skip, wait_for, within};
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

/// How long the disk stands still, and from where on a call is slow.
const STILL: Duration = Duration::from_millis(300);
const SLOW: &str = "*=50ms";
const SLOW_NS: u64 = 50_000_000;

/// Whether a server can be run and watched here; says so when not.
fn is_there(kind: Kind) -> bool {
    let missing = kind.missing();
    if let Some(packages) = missing {
        skip(format_args!("{} is not installed: apt-get install {packages}", kind.name()));
    }
    missing.is_none() && kernel::is_there()
}

/// Somebody else on the same disk, who makes durable all that he writes.
struct Neighbour {
    ends: Arc<AtomicBool>,
    syncs: Arc<AtomicU64>,
    thread: Option<JoinHandle<()>>,
}

impl Neighbour {
    fn on(disk: &Path) -> Neighbour {
        let file = File::create(disk.join("neighbour")).expect("a file");
        let (ends, syncs) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
        let (stop, count) = (ends.clone(), syncs.clone());
        let thread = std::thread::spawn(move || {
            while !stop.load(Ordering::Relaxed) {
                file.write_all_at(&[7; 64 << 10], 0).expect("it writes");
                file.sync_all().expect("it syncs");
                count.fetch_add(1, Ordering::Relaxed);
            }
        });
        Neighbour { ends, syncs, thread: Some(thread) }
    }

    fn syncs(&self) -> u64 {
        self.syncs.load(Ordering::Relaxed)
    }
}

impl Drop for Neighbour {
    fn drop(&mut self) {
        self.ends.store(true, Ordering::Relaxed);
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

/// What is said of a server whose clients write, on a disk that a neighbour keeps busy and that stands still three
/// times.
fn on_a_disk_that_stands_still(server: &Server, disk: &SlowDisk) -> Report {
    let neighbour = Neighbour::on(disk.path());
    let watching = Watching::begin(&server.pids(), SLOW);
    // Its connections are new, so that the processes that serve them are children of one that is watched.
    let load = server.home().load(Load::Writes).expect("a load");
    for _ in 0..3 {
        let (syncs, sleeps) = (neighbour.syncs() + 4, server.sleeps() + 200);
        wait_for("a busy disk", || (neighbour.syncs() >= syncs && server.sleeps() >= sleeps).then_some(()));
        disk.stand_still(STILL);
    }
    let report = watching.end();
    drop(load);
    report
}

/// What is not as it should be of a call that waited for the disk: which, on what, and why.
fn wrong(call: &Call, disk: &SlowDisk, file: &str) -> Option<&'static str> {
    let words = call.text("words");
    let on = call.text("file");
    // Milliseconds, or on a busy machine seconds. The block itself, or the journal that is written to it.
    let is_told = words.starts_with("waited ")
        && words.contains("s off CPU in state D")
        && ["block I/O in ext4_", "jbd2_"].iter().any(|place| words.contains(place));
    let tests = [
        (call.text("syscall") == "fdatasync", "another call"),
        ((call.text("cause"), call.text("wait_state")) == ("waited", "D"), "another cause"),
        (on.starts_with(disk.path().to_str().expect("text")) && on.contains(file), "another file"),
        (call.number("duration_ns") >= SLOW_NS && call.number("wait_ns") >= SLOW_NS, "not slow"),
        (is_told, "other words"),
        (call.has_frame("callstack_kernel", "ext4_sync_file"), "no ext4_sync_file"),
        (call.has_frame("callstack_kernel", "fdatasync"), "no fdatasync of the kernel"),
        (call.has_frame("callstack_user", "fdatasync"), "no fdatasync of the program"),
    ];
    tests.into_iter().find_map(|(is_right, what)| (!is_right).then_some(what))
}

/// The worst call that waited for the disk. On a busy machine others may be worse, that waited for a CPU.
#[track_caller]
fn worst_that_waited_for_the_disk(report: &Report, disk: &SlowDisk, file: &str) -> Call {
    let judged: Vec<_> = report.worst().into_iter().map(|call| (wrong(&call, disk, file), call)).collect();
    let at = judged.iter().position(|(wrong, _)| wrong.is_none());
    let at = at.unwrap_or_else(|| panic!("none has waited for the disk: {judged:#?}"));
    let call = judged.into_iter().nth(at).expect("it is there").1;
    println!("{} of {}: {}", call.text("syscall"), call.text("comm"), call.text("words"));
    call
}

#[test]
fn redis_waits_for_the_disk() {
    if !is_there(Kind::Redis) {
        return;
    }
    let Some(disk) = SlowDisk::new() else { return };
    let server = Server::start(Kind::Redis, disk.path()).expect("redis");
    let report = on_a_disk_that_stands_still(&server, &disk);
    // Its file is append-only: `write` goes into the page cache, what waits is `fdatasync`.
    let call = worst_that_waited_for_the_disk(&report, &disk, ".aof");
    assert_eq!(call.text("comm"), "redis-server");
    assert_eq!(call.number("pid"), u64::from(server.pid()));
    // Debian builds it without frame pointers.
    for function in ["aeMain", "main", "_start"] {
        assert!(call.has_frame("callstack_user", function), "no {function} in {call:?}");
    }
}

#[test]
fn a_backend_of_postgres_waits_for_the_disk() {
    if !is_there(Kind::Postgres) {
        return;
    }
    let Some(disk) = SlowDisk::new() else { return };
    let server = Server::start(Kind::Postgres, disk.path()).expect("postgres");
    let report = on_a_disk_that_stands_still(&server, &disk);
    let call = worst_that_waited_for_the_disk(&report, &disk, "/pg_wal/");
    assert_eq!(call.text("comm"), "postgres");
    // A child of the one that was named, and what it was doing: making a commit durable.
    assert_ne!(call.number("pid"), u64::from(server.pid()), "{call:?}");
    for function in ["XLogFlush", "CommitTransactionCommand", "PostgresMain"] {
        assert!(call.has_frame("callstack_user", function), "no {function} in {call:?}");
    }
}

#[test]
fn the_statements_of_postgres_are_recorded_as_text() {
    const TIMES: u64 = 100;
    if !is_there(Kind::Postgres) {
        return;
    }
    let data = tempfile::tempdir().expect("a directory");
    let open = <std::fs::Permissions as std::os::unix::fs::PermissionsExt>::from_mode(0o755);
    std::fs::set_permissions(data.path(), open).expect("permissions");
    let server = Server::start(Kind::Postgres, data.path()).expect("postgres");
    // Other claims may run one beside.
    let sql = format!("SELECT 'asked of {}', 1 + 1", server.pid());
    let binary = std::fs::read_link(format!("/proc/{}/exe", server.pid())).expect("it runs");
    let pattern = format!("usdt:{}:query__start(sql: str)", binary.display());
    let mut running = Record::nothing().with(&["-a", "-k", &pattern]).start();
    wait_for("a recording", || {
        (running.said().1.contains("recording ") || running.has_ended()).then_some(())
    });
    if running.has_ended() {
        let said = running.said().1;
        assert!(said.contains("has no static probes"), "{said}");
        return skip("this build of PostgreSQL has no static probes");
    }
    server.home().ask(&sql, TIMES).expect("answers");
    running.signal(nix::sys::signal::Signal::SIGINT);
    let events = running.wait().ends_with(0).view();
    let asked = events.iter().filter(|event| event.name == "usdt_postgresql_query__start");
    assert_eq!(
        asked.filter(|event| event.fields["sql"] == format!("{sql};")).count() as u64,
        TIMES,
        "{events:?}"
    );
}

#[test]
fn nginx_is_held_back_by_its_control_group() {
    if !is_there(Kind::Nginx) {
        return;
    }
    let Some(group) = CpuLimit::of(10) else { return };
    let nowhere = tempfile::tempdir().expect("a directory");
    let server = Server::start(Kind::Nginx, nowhere.path()).expect("nginx");
    server.pids().into_iter().for_each(|pid| group.take(pid));
    let load = server.home().load(Load::Reads).expect("a load");
    // From Linux 6.18 on a thread is held back between its calls, so it is its client who has slow ones: both are
    // watched.
    let watched: Vec<u32> = server.pids().into_iter().chain([load.pid()]).collect();
    let watch = |ms: u64| {
        let watching = Watching::begin(&watched, "*=50ms,epoll_wait=50ms,poll=50ms");
        std::thread::sleep(Duration::from_millis(ms));
        watching.end().worst()
    };
    let its_own = |call: &&Call| {
        call.text("comm") == "nginx"
            && call.text("words").contains("by its cgroup")
            && call.number("throttled_ns") > 0
    };
    let its_clients = |call: &&Call| {
        call.text("comm") == "ab"
            && call.text("words").contains("woken by nginx")
            && call.text("words").contains("which its cgroup had held back")
            && call.number("waker_throttled_ns") > SLOW_NS / 2
            && watched.contains(&(call.number("waker_tid") as u32))
    };
    fn first<'c>(calls: &'c [Call], of: [&dyn Fn(&&'c Call) -> bool; 2]) -> Option<&'c Call> {
        of.into_iter().find_map(|is| calls.iter().find(is))
    }
    let calls = within(1200, watch, |calls| first(calls, [&its_own, &its_clients]).is_some());
    let blamed = first(&calls, [&its_own, &its_clients]);
    let blamed = blamed.unwrap_or_else(|| panic!("nobody blames the control group: {calls:?}"));
    println!("{} of {}: {}", blamed.text("syscall"), blamed.text("comm"), blamed.text("words"));
}

/// Rounds in which a server is loaded by itself and watched, in turns.
const ROUNDS: usize = 3;

/// Requests of a round: about a quarter of a second.
fn requests(kind: Kind) -> u64 {
    match kind {
        Kind::Redis => 10_000,
        Kind::Postgres => 2_000,
        Kind::Nginx => 5_000,
    }
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

#[test]
fn at_a_price_that_is_measured() {
    for kind in Kind::ALL.into_iter().filter(|kind| is_there(*kind)) {
        let data = tempfile::tempdir().expect("a directory");
        let open = <std::fs::Permissions as std::os::unix::fs::PermissionsExt>::from_mode(0o755);
        std::fs::set_permissions(data.path(), open).expect("permissions");
        let server = Server::start(kind, data.path()).expect("a server");
        let (mut alone, mut watched) = (Vec::new(), Vec::new());
        for _ in 0..ROUNDS {
            alone.push(server.home().rate(Load::Reads, requests(kind)).expect("a rate"));
            let watching = Watching::begin(&server.pids(), "*=10ms");
            watched.push(server.home().rate(Load::Reads, requests(kind)).expect("a rate"));
            let seen = watching.end().calls();
            // Each request is read and answered at least.
            assert!(seen >= 2 * requests(kind), "{}: {seen} system calls", kind.name());
        }
        let (alone, watched) = (median(alone), median(watched));
        println!(
            "{}: {alone:.0} requests a second, watched {watched:.0}: {:.1} % fewer",
            server.home().kind().name(),
            (1.0 - watched / alone) * 100.0
        );
        assert!(alone.is_finite() && watched.is_finite());
    }
}
