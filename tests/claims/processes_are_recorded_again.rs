//! A process that is recorded again and again: each recording has all functions, and leaves nothing behind that the
//! next one could not use.

use crate::support::asked::Asked;
use crate::support::compiled::{changed_text, compile};
use crate::support::counting::numbers;
use crate::support::programs;
use crate::support::switched::{FLAGS, PROGRAM};
use std::collections::HashMap;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

/// Ways to record functions: each has code of its own.
const WAYS: [&[&str]; 5] = [
    &["functions", "--count"],
    &["functions", "--count", "--under-way"],
    &["record", "--mode", "overwrite", "--buffers", "64k", "-f"],
    &["functions", "--min", "1ms", "--count"],
    &["fperf", "-F"],
];

/// Records functions of a process in this way; returns how many have had probes, `None` when none had, and what was
/// said.
fn record(way: &[&str], patterns: &[&str], pid: u32, dir: &Path) -> (Option<usize>, String) {
    let mut command = Command::new(programs::mote());
    command.args(way).args(&patterns[..1]);
    for pattern in &patterns[1..] {
        command.args(way.last().filter(|last| ["-f", "-F"].contains(last))).arg(pattern);
    }
    command.args(["-p", &pid.to_string(), "--duration", "150ms", "-o"]).arg(dir);
    let output = command.stdin(Stdio::null()).output().expect("it runs");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    let probes = said.split_once("probes in ").map_or("", |(_, rest)| rest);
    let number: String = probes.chars().take_while(|c| c.is_ascii_digit() || *c == ',').collect();
    let number = number.replace(',', "").parse().ok();
    fs::remove_dir_all(dir).expect("a recording");
    (number, said)
}

/// Bytes of memory that are the process's alone.
fn private(pid: u32) -> usize {
    let sums = fs::read_to_string(format!("/proc/{pid}/smaps_rollup")).expect("it runs");
    let line = sums.lines().find_map(|line| line.strip_prefix("Anonymous:")).expect("a line");
    let number = line.trim().strip_suffix(" kB").expect("a unit").parse::<usize>();
    number.expect("a number") << 10
}

/// How many pieces of code without a file a process has.
fn pieces(pid: u32) -> usize {
    let maps = fs::read_to_string(format!("/proc/{pid}/maps")).expect("it runs");
    let is_one = |line: &&str| line.contains(" r-xp 00000000 00:00 0") && !line.contains('[');
    maps.lines().filter(is_one).count()
}

#[test]
fn each_recording_has_all_functions_and_none_stays_in_memory() {
    let keep = tempfile::tempdir().expect("a directory");
    let mut asked = Asked::start(&compile(&keep, "asked.c", &["-O2"]));
    assert_eq!(asked.ask("threads"), "threads");
    let mut first: HashMap<usize, (usize, usize)> = HashMap::new();
    let mut memory = Vec::new();
    for round in 0..3 * WAYS.len() {
        let way = round % WAYS.len();
        let (probes, said) =
            record(WAYS[way], &["asked*:*", "libc.so.6:*"], asked.pid(), &keep.path().join("trace"));
        let probes = probes.unwrap_or_else(|| panic!("{said}"));
        assert_eq!(changed_text(asked.pid()), Some(Vec::new()), "all code is as in the files");
        let code = pieces(asked.pid());
        let (probes_first, code_first) = *first.entry(way).or_insert((probes, code));
        // Libraries and stacks that have come since take some places.
        assert!(probes > 3000 && probes + probes_first / 100 >= probes_first, "{probes_first}; {said}");
        assert!(code <= code_first + code_first / 5, "{way}: {code_first} pieces of code, and now {code}");
        assert_eq!(asked.ask("call"), "call");
        memory.push(private(asked.pid()));
    }
    // What a recording has put there goes when the second one behind it comes. Of one it would be more than this.
    let (before, now) = (memory[2 * WAYS.len() - 1], memory[3 * WAYS.len() - 1]);
    assert!(now < before + (1 << 20), "{memory:?}");
}

/// Exceptions, longjmp, handlers, and threads that block all signals: while code comes and goes.
#[test]
fn programs_that_do_odd_things_go_on() {
    let keep = tempfile::tempdir().expect("a directory");
    let program = compile(&keep, PROGRAM, &FLAGS);
    let child = Command::new(&program).arg("12").stdout(Stdio::piped()).spawn().expect("it starts");
    let mut recordings = 0;
    while fs::read_to_string(format!("/proc/{}/stat", child.id())).is_ok_and(|stat| !stat.contains(") Z "))
        && recordings < 24
    {
        let way = WAYS[recordings % WAYS.len()];
        let (probes, said) =
            record(way, &["switched*:t*", "switched*:w*"], child.id(), &keep.path().join("trace"));
        assert!(probes.is_some_and(|probes| probes > 20) || said.contains("it has ended"), "{said}");
        recordings += 1;
    }
    let output = child.wait_with_output().expect("it ends");
    assert!(output.status.success(), "{}", output.status);
    let truth = numbers(&String::from_utf8_lossy(&output.stdout));
    assert_eq!(truth.get("wrong"), Some(&0), "{truth:?}");
    assert!(recordings > 3 && truth["w0"] > 1000, "{recordings} recordings: {truth:?}");
}
