//! Real programs run their own tests and benchmarks while all of their functions are switched off and on again: they
//! do what they do without us, and nothing is left in them.

use crate::real_programs_are_followed::is_long;
use crate::support::command::{mote, text};
use crate::support::compiled::changed_text;
use crate::support::servers::{Kind, Server};
use crate::support::switched::child_of;
use crate::support::{Record, Running, Trace, has_tool, is_root, output_of, skip, wait_for};
use nix::sys::signal::Signal;
use std::collections::BTreeSet;
use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;
use std::process::{Command, Stdio};

/// All functions; those of which several have one name among them.
const ALL: [&str; 2] = ["f:*", "f:*@*"];
/// A flight recorder: its newest events are kept.
const FLIGHT: [&str; 4] = ["--mode", "overwrite", "--buffers", "1M"];

/// A recording of all functions of a program, which are switched.
struct Switched {
    running: Running,
    /// How often they were off.
    off: usize,
}

impl Switched {
    /// When so many functions have their probes.
    fn begin(record: Record, patterns: &[&str], functions: usize) -> Switched {
        let patterns: Vec<&str> = patterns.iter().flat_map(|pattern| ["-f", pattern]).collect();
        let mut running = record.with(&patterns).with(&FLIGHT).start();
        wait_for("probes", || {
            (running.said().1.contains("mote: probes in ") || running.has_ended()).then_some(())
        });
        let said = running.said().1;
        let (_, rest) = said.split_once("mote: probes in ").unwrap_or_else(|| panic!("no probes: {said}"));
        let count = rest.split(' ').next().expect("a number").replace(',', "");
        assert!(count.parse::<usize>().expect("a number") > functions, "{said}");
        Switched { running, off: 0 }
    }

    /// Whether `mote` could do that: false only when the recording has ended.
    fn done(&mut self, words: &[&str]) -> bool {
        let output = mote(words);
        let said = String::from_utf8_lossy(&output.stderr);
        if said.contains("no recording is running in ") {
            wait_for("its end", || self.running.has_ended().then_some(()));
        } else {
            assert!(output.status.success(), "{said}");
        }
        output.status.success()
    }

    /// Switches all of them off and on again; a process whose code can be looked at has its own meanwhile.
    fn switch(&mut self, process: Option<u32>) {
        let folder = self.running.output().to_owned();
        let code_is = |of_file: bool| {
            let Some(pid) = process else { return };
            wait_for("the code that it should have", || {
                changed_text(pid).is_none_or(|changed| changed.is_empty() == of_file).then_some(())
            });
        };
        if self.done(&["disable", text(&folder), "-f", "*"]) {
            code_is(true);
            self.off += 1;
        }
        if self.done(&["enable", text(&folder), "-e", ALL[0], "-e", ALL[1]]) {
            code_is(false);
        }
    }

    /// When its command has ended, or it is ended: calls are recorded, and none is lost.
    fn end(self) -> Trace {
        let (off, trace) = (self.off, self.running.wait());
        assert!(off > 2, "switched off {off} times only: {}", trace.err);
        let trace = trace.ends_with(0);
        let calls = trace.view().len();
        println!("switched off and on {off} times, {calls} calls were left at the end");
        assert!(calls > 100, "{calls} calls: {}", trace.err);
        trace
    }
}

#[test]
fn transactions_of_postgres() {
    if let Some(packages) = Kind::Postgres.missing() {
        return skip(format_args!("postgres is not installed: apt-get install {packages}"));
    }
    if !is_root() || !has_tool("psql") || !has_tool("setpriv") {
        return;
    }
    let data = tempfile::tempdir().expect("a directory");
    fs::set_permissions(data.path(), Permissions::from_mode(0o777)).expect("permissions");
    let server = Server::start(Kind::Postgres, data.path()).expect("postgres");
    // By its own user: another one's processes may have 4096 kinds of events.
    let owner = fs::metadata(format!("/proc/{}", server.pid())).expect("it runs");
    let (user, group) = (format!("--reuid={}", owner.uid()), format!("--regid={}", owner.gid()));
    let record = Record::process(server.pid().into()).to(&data.path().join("trace"));
    let record = record.under(&["setpriv", &user, &group, "--clear-groups", "--"]);
    let mut switched = Switched::begin(record, &["postgres:*"], 10_000);
    let (rounds, each) = if is_long() { (40, 100) } else { (3, 10) };
    for _ in 0..rounds {
        let mut load = server.home().transactions(each).expect("pgbench");
        while load.try_wait().expect("our child").is_none() {
            switched.switch(Some(server.pid()));
        }
        let done = load.wait_with_output().expect("our child");
        let said = String::from_utf8_lossy(&done.stdout);
        assert!(done.status.success(), "{said} {}", String::from_utf8_lossy(&done.stderr));
        let all = 4 * each;
        for line in [
            &format!("number of transactions actually processed: {all}/{all}"),
            "number of failed transactions: 0 (0.000%)",
        ] {
            assert!(said.lines().any(|said| said == line), "no `{line}`: {said}");
        }
    }
    let sums = "SELECT (SELECT sum(abalance) FROM pgbench_accounts) = (SELECT sum(delta) FROM pgbench_history), \
                (SELECT sum(tbalance) FROM pgbench_tellers) = (SELECT sum(delta) FROM pgbench_history), \
                (SELECT sum(bbalance) FROM pgbench_branches) = (SELECT sum(delta) FROM pgbench_history), \
                (SELECT count(*) FROM pgbench_history)";
    assert_eq!(server.home().query(sums).expect("an answer"), format!("t|t|t|{}", rounds * 4 * each));
    switched.running.signal(Signal::SIGINT);
    switched.end();
    wait_for("code that is as in the files", || {
        (changed_text(server.pid()) == Some(Vec::new())).then_some(())
    });
    assert_eq!(server.home().query("SELECT 1 + 1").expect("it lives"), "2");
}

/// The tests of Python that have come to something without saying more: where threads print, lines are no tests' own.
fn results(said: &str) -> BTreeSet<&str> {
    let is_result = |line: &&str| {
        let result = line.rsplit_once(" ... ").map(|(_, result)| result);
        line.starts_with("test")
            && result.is_some_and(|result| result == "ok" || result.starts_with("skipped"))
    };
    said.lines().filter(is_result).collect()
}

/// Those of test_json that start no process, and others without `regrtest`. A thread that blocks all signals, as
/// `faulthandler` and `subprocess` do, could come by a function while that is being switched (docs/soundness/patch.md,
/// residual races 1 and 7).
const SWITCHED: [&str; 13] = [
    "test.test_json.test_decode",
    "test.test_json.test_default",
    "test.test_json.test_dump",
    "test.test_json.test_encode_basestring_ascii",
    "test.test_json.test_fail",
    "test.test_json.test_float",
    "test.test_json.test_indent",
    "test.test_json.test_recursion",
    "test.test_json.test_scanstring",
    "test.test_json.test_speedups",
    "test.test_json.test_unicode",
    "test.test_thread",
    "test.test_dict",
];
/// With all functions on from begin to end.
const ON: [&str; 4] = ["test_json", "test_exceptions", "test_struct", "test_subprocess"];

#[test]
fn tests_of_python() {
    let python = Path::new("/usr/bin/python3").canonicalize().unwrap_or_default();
    let mut has_tests = Command::new(&python);
    if !has_tests.args(["-c", "import test.test_json"]).output().is_ok_and(|done| done.status.success()) {
        return skip("there is no /usr/bin/python3 with its own tests (package libpython3-testsuite)");
    }
    let name = python.file_name().expect("a name").to_string_lossy().into_owned();
    let patterns = [&format!("{name}*:*"), "libpython3*:*"];
    let check = |words: &[&str], is_switched: bool| {
        let words = [&[text(&python), "-m"], words].concat();
        let done = Command::new(words[0]).args(&words[1..]).output().expect("it runs");
        let alone =
            [done.stdout, done.stderr].map(|said| String::from_utf8_lossy(&said).into_owned()).concat();
        assert!(done.status.success() && results(&alone).len() > 100, "{alone}");
        let mut switched = Switched::begin(Record::program(&words), &patterns, 5000);
        while is_switched && !switched.running.has_ended() {
            switched.switch(None);
        }
        let trace = if is_switched { switched.end() } else { switched.running.wait().ends_with(0) };
        let said = [trace.out.as_str(), &trace.err].concat();
        let (here, there) = (results(&said), results(&alone));
        let differ: Vec<_> = here.symmetric_difference(&there).collect();
        assert!(differ.is_empty(), "{differ:?}: {said}");
    };
    let on = if is_long() { &ON[..] } else { &ON[..1] };
    check(&[&["test", "-v"], on].concat(), false);
    check(&[&["unittest", "-v"], &SWITCHED[..]].concat(), true);
}

#[test]
fn benchmarks_of_node() {
    let Some(node) = ["node", "nodejs"].into_iter().find(|name| crate::support::is_there(name)) else {
        return skip("there is no node (package nodejs)");
    };
    let node = output_of(Command::new(node).args(["-p", "process.execPath"]));
    let node = Path::new(node.trim()).canonicalize().expect("a program");
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("programs/js/benchmarks.js");
    let keep = tempfile::tempdir().expect("a directory");
    let sign = keep.path().join("sign");
    let words = [text(&node), text(&script), text(&sign)];
    // One round, as the sign is there.
    fs::write(&sign, "").expect("a file");
    let alone = output_of(Command::new(words[0]).args(&words[1..]));
    assert_eq!(alone.lines().count(), 14, "{alone}");
    fs::remove_file(&sign).expect("it was there");
    // A recording has at most 65,536 kinds of events.
    let least = if is_long() { 32 } else { 128 };
    let patterns = ["node*", "libnode.so*"].map(|file| format!("{file}:*{{>={least}}}"));
    let patterns = patterns.each_ref().map(String::as_str);
    let mut switched = Switched::begin(Record::program(&words), &patterns, 10_000);
    let recorder = switched.running.pid().as_raw() as u32;
    let name = node.file_name().expect("a name").to_string_lossy();
    let pid = child_of(recorder, &name).expect("node");
    let round = |running: &mut Running, number: usize| {
        let line = format!("round {number}\n");
        wait_for(&line, || (running.said().1.contains(&line) || running.has_ended()).then_some(()));
    };
    for number in 1..=if is_long() { 100 } else { 2 } {
        round(&mut switched.running, number);
        switched.switch(Some(pid));
        switched.switch(None);
    }
    fs::write(&sign, "").expect("a file");
    assert_eq!(switched.end().out, alone);
}

/// Its collector walks through stacks of code that it has generated.
#[test]
fn the_machine_of_java() {
    if !has_tool("java") || !has_tool("javac") {
        return;
    }
    let keep = tempfile::tempdir().expect("a directory");
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("programs/java/Steady.java");
    let sign = keep.path().join("sign");
    output_of(Command::new("javac").arg("-d").arg(keep.path()).arg(source));
    let said = keep.path().join("said");
    let out = fs::File::create(&said).expect("a file");
    let mut java = Command::new("java");
    java.arg("-cp").arg(keep.path()).arg("Steady").arg(&sign).current_dir(keep.path());
    let mut java = java.stdin(Stdio::null()).stdout(out).spawn().expect("it starts");
    let lines = || fs::read_to_string(&said).expect("lines").lines().count();
    let pid = java.id();
    let mut goes_on = || {
        let before = lines();
        wait_for("more lines", || {
            (lines() > before + 5 || java.try_wait().expect("our child").is_some()).then_some(())
        });
    };
    goes_on();
    let switched = Switched::begin(Record::process(pid.into()), &["libjvm.so:*{>=256}"], 1000);
    goes_on();
    switched.running.signal(Signal::SIGINT);
    assert!(switched.running.wait().ends_with(0).view().len() > 100);
    goes_on();
    fs::write(&sign, "").expect("a file");
    assert!(java.wait().expect("our child").success());
    assert!(fs::read_to_string(&said).expect("lines").lines().all(|line| line == "20000 200"));
}
