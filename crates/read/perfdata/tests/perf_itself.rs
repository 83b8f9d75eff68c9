//! What perf wrote itself is read as perf reads it: each record as `perf report -D` prints it.

use mote_perfdata::record::{File, Lifetime, Mmap, Mode, Task};
use mote_perfdata::{Entry, PerfData, Record};
use std::path::Path;
use std::process::{Command, Stdio};

/// Of all events here.
const PERIOD: u64 = 100_000;

/// Records with perf; `None`, said loudly, where it cannot.
fn record(to: &Path, options: &[&str]) -> Option<()> {
    let program = ["sh", "-c", "ls /usr/bin | sort | tail -3 & for i in 1 2 3; do /bin/true; done; wait"];
    let mut perf = Command::new("perf");
    perf.arg("record").arg("-o").arg(to).args(options).arg("--").args(program);
    match perf.stdout(Stdio::null()).stderr(Stdio::piped()).output() {
        Ok(done) if done.status.success() => Some(()),
        Ok(done) => skip(&format!("perf record: {}", String::from_utf8_lossy(&done.stderr))),
        Err(why) => skip(&format!("perf is not installed: {why}")),
    }
}

fn skip(why: &str) -> Option<()> {
    mote_skip::skip(why);
    None
}

/// The lines of `perf report -D` that say a record: its offset, and what it is, words apart by one space.
fn as_perf_has_them(path: &Path) -> Vec<(u64, u64, String)> {
    let output = Command::new("perf").args(["report", "-D", "-i"]).arg(path).stderr(Stdio::null()).output();
    let text = output.expect("perf").stdout;
    let mut lines: Vec<_> = String::from_utf8_lossy(&text).lines().filter_map(line).collect();
    lines.sort();
    lines
}

/// `[CPU] TIME OFFSET [SIZE]: PERF_RECORD_WHAT`
fn line(line: &str) -> Option<(u64, u64, String)> {
    let (front, what) = line.split_once(": PERF_RECORD_")?;
    let words: Vec<&str> = front.split_whitespace().collect();
    let [.., time, offset, _] = words.as_slice() else { return None };
    let offset = u64::from_str_radix(offset.strip_prefix("0x")?, 16).ok()?;
    let what = what.split_whitespace().collect::<Vec<_>>().join(" ");
    Some((offset, time.parse().ok()?, what))
}

/// As perf prints it; `None` of records that it prints otherwise.
fn said(entry: &Entry) -> Option<String> {
    let pair = |task: &Task| format!("{}/{}", task.pid, task.tid);
    Some(match &entry.record {
        Record::Mmap(mmap) => mapping(mmap),
        Record::Comm { task, is_exec, name } => {
            let exec = if *is_exec { " exec" } else { "" };
            format!("COMM{exec}: {}:{}", name.to_string_lossy(), pair(task))
        }
        Record::Fork(lifetime) => format!("FORK{}", ids(lifetime)),
        Record::Exit(lifetime) => format!("EXIT{}", ids(lifetime)),
        Record::Sample { ip, address, period, mode, .. } => {
            let Task { pid, tid } = entry.id.task?;
            let mode = if *mode == Mode::Kernel { 1 } else { 2 };
            // Where samples do not say it, it is that of the event.
            let period = if *period == 0 { PERIOD } else { *period };
            format!("SAMPLE(IP, 0x{mode:x}): {pid}/{tid}: {ip:#x} period: {period} addr: {address:x}")
        }
        Record::Switch { is_out, is_preempted, other } => {
            let direction = if *is_out { "OUT" } else { "IN" };
            let preempt = if *is_preempted { " preempt" } else { "" };
            match other {
                None => format!("SWITCH {direction}{preempt}"),
                Some(task) => {
                    let which = if *is_out { "next" } else { "prev" };
                    format!(
                        "SWITCH_CPU_WIDE {direction}{preempt} {which} pid/tid: {:>5}/{:<5}",
                        task.pid, task.tid
                    )
                }
            }
        }
        Record::FinishedRound => "FINISHED_ROUND".to_owned(),
        Record::IdIndex(entries) => format!("ID_INDEX nr: {}", entries.len()),
        Record::TimeConversion(_) => "TIME_CONV".to_owned(),
        _ => return None,
    })
}

fn ids(Lifetime { task, parent, .. }: &Lifetime) -> String {
    format!("({}:{}):({}:{})", task.pid, task.tid, parent.pid, parent.tid)
}

fn mapping(mmap: &Mmap) -> String {
    let Mmap { task: Task { pid, tid }, start, len, offset, path, protection, flags, .. } = mmap;
    let zero = |value: &u64| if *value == 0 { "0".to_owned() } else { format!("{value:#x}") };
    let place = format!("{pid}/{tid}: [{}({}) @ {}", zero(start), zero(len), zero(offset));
    let bit = |bit, letter| if protection & bit != 0 { letter } else { '-' };
    // `MAP_SHARED`
    let shared = if flags & 1 != 0 { 's' } else { 'p' };
    let mode = format!("{}{}{}{shared}", bit(1, 'r'), bit(2, 'w'), bit(4, 'x'));
    let path = path.display();
    match &mmap.file {
        File::Unknown => format!("MMAP {place}]: {} {path}", bit(4, 'x')),
        File::BuildId(id) => {
            let id: String = id.iter().map(|byte| format!("{byte:02x}")).collect();
            format!("MMAP2 {place} <{id}>]: {mode} {path}")
        }
        File::Inode { major, minor, inode, generation } => {
            format!("MMAP2 {place} {major:02x}:{minor:02x} {inode} {generation}]: {mode} {path}")
        }
    }
}

fn check(options: &[&str], kinds: &[&str]) {
    let folder = tempfile::tempdir().expect("a directory");
    let path = folder.path().join("perf.data");
    let Some(()) = record(&path, options) else { return };
    let expected = as_perf_has_them(&path);
    let file = PerfData::open(std::fs::File::open(&path).expect("the file")).expect("a file of perf");
    assert_eq!(file.problems(), [""; 0]);
    let entries: Vec<Entry> = file.records().collect::<Result<_, _>>().expect("all records");
    let mut seen = 0;
    for entry in &entries {
        let Some(said) = said(entry) else { continue };
        let said = said.split_whitespace().collect::<Vec<_>>().join(" ");
        let perf = expected.iter().find(|(offset, ..)| *offset == entry.offset);
        let (_, time, what) = perf.unwrap_or_else(|| panic!("perf has no {said} at {:#x}", entry.offset));
        assert_eq!(*what, said, "at {:#x}", entry.offset);
        assert_eq!(*time, entry.id.time.unwrap_or(0), "{said}");
        seen += 1;
    }
    assert!(seen >= 20, "{seen}");
    for kind in kinds {
        assert!(entries.iter().filter_map(said).any(|said| said.starts_with(kind)), "{kind} is missing");
    }
    // perf sees none that we do not.
    let ours = |offset| entries.iter().any(|entry| entry.offset == offset);
    let more: Vec<_> = expected.iter().filter(|(offset, ..)| !ours(*offset)).collect();
    assert!(more.is_empty(), "{more:?}");
}

#[test]
fn one_event() {
    check(
        &["-e", "cpu-clock", "-c", "100000", "--switch-events"],
        &["MMAP ", "MMAP2", "COMM exec", "FORK", "EXIT", "SAMPLE", "SWITCH IN", "SWITCH OUT"],
    );
}

#[test]
fn two_events_with_build_ids_on_all_cpus() {
    check(
        &["-e", "cpu-clock,dummy", "-c", "100000", "-a", "--buildid-mmap", "--switch-events", "-d"],
        &["MMAP2", "COMM exec", "FORK", "EXIT", "SAMPLE", "SWITCH_CPU_WIDE IN", "SWITCH_CPU_WIDE OUT"],
    );
}

#[test]
fn to_a_pipe() {
    let folder = tempfile::tempdir().expect("a directory");
    let path = folder.path().join("perf.data");
    let to = std::fs::File::create(&path).expect("a file");
    let perf =
        Command::new("perf").args(["record", "-e", "cpu-clock", "-o", "-", "true"]).stdout(to).output();
    let Ok(done) = perf else { return mote_skip::skip("perf is not installed") };
    if !done.status.success() {
        return mote_skip::skip(format_args!("perf record: {}", String::from_utf8_lossy(&done.stderr)));
    }
    let file = PerfData::open(std::fs::File::open(&path).expect("the file")).expect("a file of perf");
    assert!(file.is_streamed());
    assert_eq!(file.events().len(), 1);
    assert!(file.features().command().is_some_and(|words| words.last().is_some_and(|word| word == "true")));
    let entries: Vec<Entry> = file.records().collect::<Result<_, _>>().expect("all records");
    let is_exec =
        |entry: &Entry| matches!(&entry.record, Record::Comm { is_exec: true, name, .. } if name == "true");
    assert!(entries.iter().any(is_exec));
    assert!(entries.iter().all(|entry| !matches!(entry.record, Record::Damaged { .. })));
}

/// perf says of records that were compressed where they would stand without; so they are compared by time and text.
#[test]
fn compressed() {
    let folder = tempfile::tempdir().expect("a directory");
    let path = folder.path().join("perf.data");
    let Some(()) = record(&path, &["-z", "-e", "cpu-clock", "-c", "100000", "--switch-events"]) else {
        return;
    };
    let mut expected: Vec<_> =
        as_perf_has_them(&path).into_iter().map(|(_, time, what)| (time, what)).collect();
    expected.sort();
    let file = PerfData::open(std::fs::File::open(&path).expect("the file")).expect("a file of perf");
    let mut seen = 0;
    for entry in file.records() {
        let entry = entry.expect("a record");
        assert!(!matches!(entry.record, Record::Damaged { .. }), "{entry:?}");
        seen += usize::from(entry.was_compressed);
        let Some(said) = said(&entry) else { continue };
        let said = said.split_whitespace().collect::<Vec<_>>().join(" ");
        let one = (entry.id.time.unwrap_or(0), said);
        let place = expected.binary_search(&one).unwrap_or_else(|_| panic!("perf has no {one:?}"));
        expected.remove(place);
    }
    assert!(seen >= 20, "{seen}");
    // What is left are records that perf has made, which are not compared.
    assert!(expected.iter().all(|(time, _)| *time == 0), "{expected:?}");
}

/// A file that is cut in its compressed records has those before.
#[test]
fn compressed_and_cut() {
    let folder = tempfile::tempdir().expect("a directory");
    let path = folder.path().join("perf.data");
    let Some(()) = record(&path, &["-z", "-e", "cpu-clock", "-c", "100000"]) else { return };
    let bytes = std::fs::read(&path).expect("the file");
    let count = |bytes: &[u8]| {
        std::fs::write(&path, bytes).expect("it is written");
        let file = PerfData::open(std::fs::File::open(&path).expect("the file")).expect("a file of perf");
        let (records, errors): (Vec<_>, Vec<_>) = file.records().partition(Result::is_ok);
        (records.len(), errors.len())
    };
    let (all, errors) = count(&bytes);
    assert_eq!(errors, 0);
    let mut last = 0;
    for cut in (1000..bytes.len()).step_by(bytes.len() / 20) {
        let (some, errors) = count(&bytes[..cut]);
        assert!(some >= last && some <= all && errors <= 1, "{some} of {all} records of {cut} bytes");
        last = some;
    }
}
