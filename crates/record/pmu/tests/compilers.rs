//! What a run-time compiler has made is in the capture: as it says it itself (jitdump), bytes, names and times.

mod support;

use mote_capture::{Capture, Note, What};
use mote_pmu::Session;
use mote_symbol::JitDump;
use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};
use support::{now, recorded};

/// Functions that become hot, one after the other; then it waits to be told to end.
const SCRIPT: &str = "
const made = [];
let turn = 0;
function more() {
  const loop = `for (let i = 0; i < n; i++) s = (s * 31 + i + ${turn}) | 0`;
  const add = new Function('n', `let s = ${turn}; ${loop}; return s`);
  for (let k = 0; k < 40; k++) add(20000);
  made.push(add);
  if (++turn < 12) setTimeout(more, 20); else console.log('made');
}
console.log('begins');
process.stdin.once('data', more);
process.stdin.on('end', () => process.exit(0));
";

/// Rounds of the recorder in which nothing new is made.
const ROUNDS: u32 = 40;

/// Ends when dropped.
struct Node(Child);

impl Drop for Node {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// What code memory held, by address, as notes tell it one after the other.
#[derive(Default)]
struct Memory(BTreeMap<u64, u8>);

impl Memory {
    fn take(&mut self, start: u64, code: &[u8]) {
        self.0.extend((start..).zip(code.iter().copied()));
    }

    fn holds(&self, start: u64, code: &[u8]) -> bool {
        let held = self.0.range(start..).map(|(at, byte)| (*at, *byte));
        held.take(code.len()).eq((start..).zip(code.iter().copied()))
    }
}

/// Of the functions that were compiled from a time on: how many the copies held as they were dumped, and how many there
/// are where any copy is.
fn held(notes: &[Note], pid: i32, dump: &JitDump, from: u64) -> (usize, usize) {
    let mut memory = Memory::default();
    let mut left: Vec<_> = dump.loads().filter(|load| load.time >= from && !load.code.is_empty()).collect();
    let all = left.len();
    for note in notes.iter().filter(|note| note.pid == pid) {
        let What::Code { start, code, .. } = &note.what else { continue };
        memory.take(*start, code);
        let end = start + code.len() as u64;
        left.retain(|load| {
            let is_touched = load.start < end && *start < load.start + load.code.len() as u64;
            !(is_touched && memory.holds(load.start, load.code))
        });
    }
    // What lies in files is not copied.
    let copied = left.iter().filter(|load| memory.0.contains_key(&load.start)).count();
    (all - left.len(), all - left.len() + copied)
}

#[test]
fn what_node_has_compiled_is_what_it_dumps() {
    if Command::new("node").arg("--version").output().is_err() {
        return mote_skip::skip("there is no node");
    }
    let folder = tempfile::tempdir().expect("a directory");
    let script = folder.path().join("script.js");
    fs::write(&script, SCRIPT).expect("a file");
    let mut node = Command::new("node");
    // It writes to where it is started.
    node.current_dir(folder.path())
        .arg("--perf-prof")
        .arg(&script)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped());
    let mut node = Node(node.spawn().expect("node"));
    let pid = node.0.id().cast_signed();
    let lines = BufReader::new(node.0.stdout.take().expect("a pipe")).lines();
    let (tell, said) = channel();
    let hears = std::thread::spawn(move || lines.map_while(Result::ok).all(|line| tell.send(line).is_ok()));
    let until = Instant::now() + Duration::from_secs(60);
    let wait = until.saturating_duration_since(Instant::now());
    assert_eq!(said.recv_timeout(wait).as_deref(), Ok("begins"));
    let (mut rounds, mut begun, mut made) = (0, 0, None);
    let goes_on = || {
        assert!(Instant::now() < until, "it takes too long");
        rounds += 1;
        // What is tracked is, by now or soon.
        if rounds == ROUNDS {
            begun = now();
            let mut stdin = node.0.stdin.as_ref().expect("a pipe");
            stdin.write_all(b"go\n").expect("it listens");
        }
        if made.is_none() && said.try_recv().as_deref() == Ok("made") {
            made = Some(rounds);
        }
        // Its dump is whole when it has ended.
        if made.is_some_and(|made| rounds == made + ROUNDS) {
            drop(node.0.stdin.take());
        }
        made.is_none_or(|made| rounds < made + ROUNDS) || node.0.try_wait().is_ok_and(|ended| ended.is_none())
    };
    if recorded(folder.path(), pid, goes_on).is_none() {
        return;
    }
    assert_eq!(hears.join().ok(), Some(true));
    let capture = folder.path().join("capture");
    let copy = fs::read(capture.join(format!("jit-{pid}.dump"))).expect("it is copied");
    let dump = JitDump::parse(&copy).expect("a dump");
    let capture = Capture::open(&capture).expect("a capture");
    let (held, all) = held(capture.notes(), pid, &dump, begun);
    println!("{held} of {all} functions are as they were dumped");
    let made = dump.loads().filter(|load| load.time >= begun && load.name.ends_with(" :1:20")).count();
    assert!(made >= 12 && all >= made, "{made} of the script's functions were compiled, of {all}");
    assert_eq!(held, all);
}

/// Our own process, which has code of no file, and a table of names for it.
#[test]
fn a_snapshot_has_the_names_as_they_are_then() {
    let folder = tempfile::tempdir().expect("a directory");
    let pid = std::process::id().cast_signed();
    let (code, private) = (libc::PROT_READ | libc::PROT_EXEC, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
    // SAFETY: new memory, anywhere, which nothing is ever written to.
    let page = unsafe { libc::mmap(std::ptr::null_mut(), 4096, code, private, -1, 0) };
    assert_ne!(page, libc::MAP_FAILED);
    let name = format!("perf-{pid}.map");
    let table = Path::new("/tmp").join(&name);
    let [output, first, second] = ["capture", "first", "second"].map(|name| folder.path().join(name));
    for folder in [&output, &first, &second] {
        fs::create_dir(folder).expect("a directory");
    }
    let (device, options) = (support::device(folder.path()), support::options(pid, false));
    let output = Box::new(output);
    let session = Session::begin(support::machine(), &device, &options, output, &[pid]);
    let mut session = session.expect("it begins");
    session.enable().expect("it is on");
    let mut taken = |into: &Path, text: &str| {
        fs::write(&table, text).expect("a file");
        session.round().expect("it is read");
        session.snapshot(Box::new(into.to_owned())).expect("it is taken");
        fs::read_to_string(into.join(&name)).expect("the names")
    };
    assert_eq!(taken(&first, "1000 10 first\n"), "1000 10 first\n");
    assert_eq!(taken(&second, "1000 10 second\n"), "1000 10 second\n");
    session.finish().expect("it ends");
    fs::remove_file(&table).expect("it was there");
    // SAFETY: of this size, and nothing points there.
    unsafe { libc::munmap(page, 4096) };
}
