//! `mote record -f`: functions of programs that know nothing of mote have probes, whatever their calls do; the programs
//! do what they did, and are as they were afterwards.

use crate::support::command::{mote, printed, text};
use crate::support::compiled::{Steady, compile};
use crate::support::{Record, Trace, copy_program, has_tool, kernel, output_of, programs, wait_for};
use iced_x86::{Decoder, DecoderOptions, FlowControl, InstructionInfoFactory};
use nix::sys::signal::Signal;
use object::{Object, ObjectSection, ObjectSymbol};
use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;
use tempfile::TempDir;

/// How often each function was called.
fn calls(trace: &Trace) -> BTreeMap<String, u64> {
    let mut calls = BTreeMap::new();
    for event in trace.view() {
        let name = event.name.strip_prefix("f:").expect("only functions");
        *calls.entry(name.to_owned()).or_default() += 1;
    }
    calls
}

#[test]
fn odd_calls_are_all_there_and_go_on_as_before() {
    let keep = tempfile::tempdir().expect("a directory");
    let truth =
        compile(&keep, "odd_calls.cpp", &["-O0", "-DTRUTH", "-finstrument-functions", "-rdynamic", "-ldl"]);
    let told = Command::new(truth).output().expect("it runs");
    let expected = String::from_utf8(told.stdout).expect("text");
    let counted = String::from_utf8(told.stderr).expect("text");
    let counted = counted.lines().map(|line| {
        let (name, count) = line.split_once(' ').expect("a name and a number");
        (name.to_owned(), count.parse::<u64>().expect("a number"))
    });
    let mut counted: BTreeMap<String, u64> = counted.collect();
    // Of these calls, a thread's and a context's end never comes, nor is it noticed: the thread is gone with them.
    for name in ["sleeper", "leaver", "leaves", "their_way", "our_way", "gives_way"] {
        counted.remove(name);
    }
    assert!(counted.len() > 15, "{counted:?}");
    for level in ["-O0", "-O1", "-O2"] {
        let program = compile(&keep, "odd_calls.cpp", &[level]);
        let bare = output_of(&mut Command::new(&program));
        assert_eq!(bare, expected, "{level}");
        let file = program.file_name().expect("a name").to_string_lossy().into_owned();
        let trace = Record::program(&[&program]).with(&["-f", &format!("{file}:*")]).run().ends_with(0);
        assert_eq!(trace.out, expected, "{level}");
        let mut called = calls(&trace);
        // The child of fork has done some, too: 4 frames of thrower, and 101 of deep.
        for (name, more) in [("catcher", 1), ("again", 1), ("thrower", 4), ("deep", 101)] {
            let calls = called.get_mut(name).unwrap_or_else(|| panic!("no {name} with {level}"));
            *calls -= more;
        }
        for (name, count) in &counted {
            // A jump in the place of a call is one all the same.
            assert_eq!(called.get(name), Some(count), "{name} with {level}");
        }
        assert_eq!(trace.lost_total(), 0);
    }
}

#[test]
fn odd_calls_go_on_as_before_with_all_functions_of_all_libraries() {
    let keep = tempfile::tempdir().expect("a directory");
    let program = compile(&keep, "odd_calls.cpp", &["-O2"]);
    let bare = output_of(&mut Command::new(&program));
    let trace =
        Record::program(&[&program]).with(&["-f", "*", "--mode", "overwrite", "--buffers", "1M"]).run();
    assert_eq!(trace.out, bare, "{}", trace.err);
    assert!(trace.err.contains("without: "), "{}", trace.err);
}

#[test]
fn calls_of_a_running_process_are_recorded_and_nothing_is_left() {
    let keep = tempfile::tempdir().expect("a directory");
    let steady = Steady::start(&keep, &[]);
    let before = steady.changed_text();
    assert_eq!(before, Vec::<String>::new());
    for _ in 0..2 {
        let running = Record::process(steady.pid().into())
            .with(&["-f", "outer", "-f", "inner", "--mode", "overwrite"])
            .start();
        running.wait_until_said("probes in 2 functions");
        steady.goes_on();
        running.signal(Signal::SIGINT);
        let trace = running.wait().ends_with(0);
        let calls = calls(&trace);
        let (outer, inner) = (calls["outer"], calls["inner"]);
        // Three in each; the last ones may have been cut off.
        assert!(outer > 10 && (3 * outer).abs_diff(inner) < 100, "{outer} outer, {inner} inner");
        assert_eq!(steady.changed_text(), Vec::<String>::new(), "all code is as in the files");
        steady.goes_on();
    }
}

#[test]
fn more_functions_are_switched_on_and_off_while_it_runs() {
    let keep = tempfile::tempdir().expect("a directory");
    let steady = Steady::start(&keep, &[]);
    let running = Record::process(steady.pid().into()).with(&["-f", "outer", "--mode", "overwrite"]).start();
    running.wait_until_said("probes in 1 function");
    let mote = |words: &[&str]| {
        let (verb, rest) = words.split_first().expect("a verb");
        mote(&[&[*verb, text(running.output())], rest].concat())
    };
    let enabled = mote(&["enable", "-f", "inner(x: i32)", "--filter", "x % 2 == 1"]);
    assert!(enabled.status.success(), "{}", String::from_utf8_lossy(&enabled.stderr));
    wait_for("the second probe", || {
        (running.said().1.matches("probes in 1 function").count() == 2).then_some(())
    });
    steady.goes_on();
    // Off again, while the recording goes on.
    for pattern in ["f:inner", "f:inner@*", "f:outer", "f:outer@*"] {
        let disabled = mote(&["disable", pattern]);
        assert!(disabled.status.success(), "{}", String::from_utf8_lossy(&disabled.stderr));
    }
    wait_for("the functions' own bytes", || steady.changed_text().is_empty().then_some(()));
    steady.goes_on();
    // Again and again: they have their probes, and nothing more is put into the process.
    let maps = || fs::read_to_string(format!("/proc/{}/maps", steady.pid())).expect("maps").lines().count();
    let before = maps();
    for _ in 0..8 {
        let enabled = mote(&["enable", "-f", "outer"]);
        assert!(enabled.status.success(), "{}", String::from_utf8_lossy(&enabled.stderr));
        wait_for("the jump", || (!steady.changed_text().is_empty()).then_some(()));
        assert!(mote(&["disable", "f:outer", "f:outer@*"]).status.success());
        wait_for("the function's own bytes", || steady.changed_text().is_empty().then_some(()));
    }
    assert_eq!(maps(), before);
    assert_eq!(running.said().1.matches("probes in 1 function").count(), 2);
    steady.goes_on();
    let wrong = mote(&["enable", "-f", "inner(x: no_type)"]);
    assert_eq!(wrong.status.code(), Some(2), "{}", String::from_utf8_lossy(&wrong.stderr));
    running.signal(Signal::SIGINT);
    let trace = running.wait().ends_with(0);
    let events = trace.view();
    let inner: Vec<u64> =
        events.iter().filter(|event| event.name == "f:inner").map(|event| event.number("x")).collect();
    assert!(inner.len() > 10 && inner.iter().all(|x| x % 2 == 1), "{} calls", inner.len());
    assert!(calls(&trace)["outer"] > 10);
}

#[test]
fn functions_of_a_command_that_carries_nothing_are_switched_on_later() {
    let keep = tempfile::tempdir().expect("a directory");
    let program = compile(&keep, "steady.c", &["-O2"]);
    let running = Record::program(&[&program]).start();
    running.wait_until_said("recording");
    let enabled =
        Command::new(programs::mote()).arg("enable").arg(running.output()).args(["-f", "inner"]).output();
    assert!(enabled.expect("it runs").status.success());
    running.wait_until_said("probes in 1 function");
    std::thread::sleep(Duration::from_millis(200));
    running.signal(Signal::SIGINT);
    assert!(calls(&running.wait())["inner"] > 10);
}

#[test]
fn functions_of_libraries_that_are_loaded_later_have_probes_too() {
    let keep = tempfile::tempdir().expect("a directory");
    let program = compile(&keep, "loads_late.c", &["-O2", "-ldl", "-pthread"]);
    let library = compile(&keep, "late.c", &["-O2", "-shared", "-fPIC"]);
    let file = library.file_name().expect("a name").to_str().expect("text");
    // By a name that the program has, too; and by a file that is not there yet.
    for patterns in [["-f", "*_work"].as_slice(), &["-f", "near_work", "-f", &format!("{file}:late*")]] {
        let sign = keep.path().join("sign");
        let words = [program.as_path(), &library, &sign];
        let running = Record::program(&words).with(patterns).start();
        running.wait_until_said("probes in 1 function of process");
        fs::write(&sign, "").expect("a file");
        running.wait_until_said("probes in 1 function of what process");
        std::thread::sleep(Duration::from_millis(200));
        running.signal(Signal::SIGINT);
        let trace = running.wait();
        let called = calls(&trace);
        assert!(called["near_work"] > 100 && called["late_work"] > 100, "{called:?}");
        assert_eq!(trace.err.contains("no such file is loaded yet"), patterns.len() > 2, "{}", trace.err);
        fs::remove_file(&sign).expect("it was there");
    }
}

#[test]
fn a_program_that_has_nothing_before_it_loads_a_library_gets_probes_then() {
    let keep = tempfile::tempdir().expect("a directory");
    let program = compile(&keep, "loads_late.c", &["-O2", "-ldl", "-pthread"]);
    let library = compile(&keep, "late.c", &["-O2", "-shared", "-fPIC"]);
    let file = library.file_name().expect("a name").to_str().expect("text");
    let sign = keep.path().join("sign");
    let [program, library] = [&program, &library].map(|path| path.to_str().expect("text"));
    let shell = format!("sleep 10 & ls; exec {program} {library} {} threads", sign.display());
    let direct = [program, library, sign.to_str().expect("text")];
    for (words, pattern) in [
        (direct.as_slice(), format!("{file}:late*")),
        (&direct, "late_work".to_owned()),
        (&["sh", "-c", &shell], format!("{file}:*_work")),
    ] {
        let running = Record::program(words).with(&["-f", &pattern]).start();
        running.wait_until_said("recording");
        // As long as it has been looked at for what it loads.
        std::thread::sleep(Duration::from_millis(200));
        fs::write(&sign, "").expect("a file");
        running.wait_until_said("probes in 1 function of what process");
        std::thread::sleep(Duration::from_millis(200));
        running.signal(Signal::SIGINT);
        let trace = running.wait();
        assert!(calls(&trace)["late_work"] > 100, "{pattern}: {}", trace.err);
        fs::remove_file(&sign).expect("it was there");
    }
}

#[test]
fn threads_that_block_all_signals_are_no_obstacle() {
    let keep = tempfile::tempdir().expect("a directory");
    let steady = Steady::start(&keep, &["block"]);
    let running = Record::process(steady.pid().into()).with(&["-f", "outer", "--mode", "overwrite"]).start();
    running.wait_until_said("probes in 1 function");
    steady.goes_on();
    running.signal(Signal::SIGINT);
    let trace = running.wait().ends_with(0);
    assert!(calls(&trace)["outer"] > 10);
    assert_eq!(steady.changed_text(), Vec::<String>::new());
}

#[test]
fn short_calls_are_dropped_in_the_process() {
    let keep = tempfile::tempdir().expect("a directory");
    let program = compile(&keep, "steady.c", &["-O2"]);
    let trace = Record::program(&[program.as_os_str(), "slow".as_ref()])
        .with(&["-f", "s*", "--filter", "duration >= 5ms"])
        .run()
        .ends_with(0);
    assert_eq!(calls(&trace), BTreeMap::from([("slow".to_owned(), 3)]));
}

#[test]
fn calls_are_recorded_beside_slow_ones_of_the_kernel() {
    if !kernel::is_there() {
        return;
    }
    let keep = tempfile::tempdir().expect("a directory");
    let steady = Steady::start(&keep, &[]);
    let (trace, pid) = (keep.path().join("trace"), steady.pid().to_string());
    let watched = mote(&["latency", "--duration", "2s", "-f", "outer", "-o", text(&trace), "-p", &pid]);
    let said = String::from_utf8_lossy(&watched.stderr).into_owned();
    // 1: no call was slow.
    assert!(matches!(watched.status.code(), Some(0 | 1)), "{said}");
    assert!(said.contains("probes in 1 function"), "{said}");
    let events = printed(mote(&["view", text(&trace)]));
    assert!(events.matches("f:outer").count() > 10, "{said}");
    // Of the whole system no process could be meant.
    let nowhere = mote(&["record", "-a", "-k", "sched", "-f", "outer", "-o", text(&keep.path().join("no"))]);
    let said = String::from_utf8_lossy(&nowhere.stderr).into_owned();
    assert_eq!(nowhere.status.code(), Some(2), "{said}");
    assert!(said.contains("processes of -p; give one of them"), "{said}");
}

#[test]
fn what_cannot_be_probed_is_said() {
    let keep = tempfile::tempdir().expect("a directory");
    let program = compile(&keep, "steady.c", &["-O2"]);
    let slow = |pattern: &str, words: &[&str]| {
        let command = [&[program.to_str().expect("text")], words].concat();
        Record::program(&command).with(&["-f", pattern]).run()
    };
    let trace = slow("slov", &["slow"]);
    let said = trace.err.clone();
    assert!(said.contains("no function of it is called `slov`; similar names: slow"), "{said}");
    assert_eq!(trace.ends_with(3).out, "slow\n", "the program runs");
    let trace = slow("libc.so.6:vfork", &["slow"]);
    let said = "none of the functions that are meant can have a probe: 1: they return in ways of their own";
    assert!(trace.err.contains(said), "{}", trace.err);

    let fixed = compile(&keep, "steady.c", &["-O2", "-static"]);
    let trace = Record::program(&[fixed.as_os_str(), "slow".as_ref()]).with(&["-f", "slow"]).run();
    assert!(trace.err.contains("its C library has no `dlopen`"), "{}", trace.err);
    assert_eq!(trace.out, "slow\n");
}

/// A library from another version does not know what it is given.
#[test]
fn a_library_of_another_version_is_named_as_the_cause() {
    let keep = tempfile::tempdir().expect("a directory");
    let program = compile(&keep, "steady.c", &["-O2"]);
    let own = fs::read(programs::library().join("libmote.so")).expect("it is built");
    let magic = u64::to_le_bytes(mote_layout::functions::MAGIC);
    let changed: Vec<u8> = replaced(&own, &magic, &u64::to_le_bytes(mote_layout::functions::MAGIC + 1));
    let other = keep.path().join("libmote.so");
    fs::write(&other, changed).expect("a file");
    let record = Record::program(&[program.as_os_str(), "slow".as_ref()]).with(&["-f", "slow"]);
    let trace = record.env("MOTE_LIBRARY", text(&other)).run();
    assert!(trace.err.contains("is the libmote.so beside mote of another version?"), "{}", trace.err);
    assert_eq!(trace.out, "slow\n");
}

fn replaced(bytes: &[u8], old: &[u8], new: &[u8]) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    let places: Vec<usize> =
        (0..bytes.len() - old.len()).filter(|at| bytes[*at..].starts_with(old)).collect();
    assert!(!places.is_empty());
    places.into_iter().for_each(|at| bytes[at..at + new.len()].copy_from_slice(new));
    bytes
}

/// A script that starts a program in several ways.
fn script(keep: &TempDir, lines: &str) -> PathBuf {
    let (text, script) = (keep.path().join("text"), keep.path().join("script"));
    fs::write(&text, format!("#!/bin/sh\n{lines}\n")).expect("a file");
    fs::set_permissions(&text, fs::Permissions::from_mode(0o755)).expect("it is ours");
    copy_program(&text, &script);
    script
}

#[test]
fn programs_that_the_command_starts_are_probed() {
    let keep = tempfile::tempdir().expect("a directory");
    let program = compile(&keep, "steady.c", &["-O2"]);
    let name = program.to_str().expect("text");
    let lines = format!(
        "(sleep 0.05; exec {name} slow) & {name} slow; sh -c '{name} slow; true'; env {name} slow | cat\n\
         wait; trap 'echo trapped' USR1; kill -USR1 $$; sleep 0.01; kill -9 $(sh -c 'echo $PPID') "
    );
    let script = script(&keep, &lines);
    let trace = Record::program(&[&script]).with(&["-f", "slow", "-f", "no_such"]).run().ends_with(128 + 9);
    assert_eq!(trace.out, "slow\nslow\nslow\nslow\ntrapped\n");
    assert_eq!(calls(&trace), BTreeMap::from([("slow".to_owned(), 4 * 6)]));
    assert_eq!(trace.err.matches("probes in 1 function of process").count(), 4, "{}", trace.err);
    // Nothing in any of them.
    let trace = Record::program(&[&script]).with(&["-f", "no_such"]).run();
    assert!(trace.err.contains("no function of it is called `no_such`"), "{}", trace.err);
    assert!(trace.err.contains("programs that it has started"), "{}", trace.err);
}

#[test]
fn a_recorder_that_dies_lets_what_it_follows_go_on() {
    let keep = tempfile::tempdir().expect("a directory");
    let (begun, done) = (keep.path().join("begun"), keep.path().join("done"));
    let (begin, end) = (begun.display(), done.display());
    let lines = format!("echo > {begin}; sleep 0.2; sleep 0.2; sh -c 'sleep 0.2; echo done > {end}'");
    let running = Record::program(&[&script(&keep, &lines)]).with(&["-f", "no_such"]).start();
    wait_for("the script's begin", || begun.exists().then_some(()));
    running.signal(Signal::SIGKILL);
    wait_for("the script's end", || done.exists().then_some(()));
    running.wait();
}

#[test]
fn real_programs_do_the_same_with_all_functions_on() {
    let keep = tempfile::tempdir().expect("a directory");
    let input = keep.path().join("input.c");
    let body: String = (0..300)
        .map(|n| {
            format!("int f{n}(int x) {{ int s = 0; for (int i = 0; i < x; i++) s += i * {n}; return s; }}\n")
        })
        .collect();
    fs::write(&input, body).expect("a file");
    let compiler = output_of(Command::new("gcc").arg("-print-prog-name=cc1")).trim().to_owned();
    let sql = "create table t(a,b); with recursive c(x) as (select 1 union all select x+1 from c where x<2000) \
               insert into t select x,x*2 from c; select count(*), sum(b), max(hex(a)) from t;";
    let input = input.to_str().expect("text");
    let programs: [(&str, &[&str], &str); 4] = [
        ("sqlite3", &["sqlite3", ":memory:", sql], "libsqlite3*:*"),
        ("sqlite3", &["sqlite3", ":memory:", sql], "libc.so.6:*"),
        ("bzip2", &["bzip2", "-9", "--stdout", input], "libbz2*:*"),
        ("gcc", &[&compiler, "-quiet", "-O2", input, "-o", "/dev/stdout"], "cc1:*"),
    ];
    for (tool, command, pattern) in programs {
        if !has_tool(tool) {
            continue;
        }
        let bare = Command::new(command[0]).args(&command[1..]).output().expect("it runs");
        let trace =
            Record::program(command).with(&["-f", pattern, "--mode", "overwrite", "--buffers", "1M"]).run();
        let trace = trace.ends_with(0);
        assert_eq!(trace.out.as_bytes(), String::from_utf8_lossy(&bare.stdout).as_bytes(), "{command:?}");
        assert!(trace.view().len() > 100, "{command:?}");
    }
}

/// What is called for a call that has returned, on the short way: the code around it keeps general registers only.
#[test]
fn the_short_way_touches_no_vector_register() {
    let bytes = fs::read(programs::library().join("libmote.so")).expect("the library");
    let elf = object::File::parse(&*bytes).expect("an ELF file");
    let is_it =
        |symbol: &object::Symbol<'_, '_>| symbol.name().is_ok_and(|name| name.contains("5calls6record1"));
    let symbol = elf.symbols().find(is_it).expect("it is not stripped");
    let text = elf.section_by_name(".text").expect("code");
    let code = text.data_range(symbol.address(), symbol.size()).expect("readable").expect("in .text");
    let mut decoder = Decoder::with_ip(64, code, symbol.address(), DecoderOptions::NONE);
    let mut infos = InstructionInfoFactory::new();
    let mut seen = 0;
    for instruction in &mut decoder {
        assert!(!instruction.is_invalid());
        let used = infos.info(&instruction).used_registers();
        assert!(used.iter().all(|used| !used.register().is_vector_register()), "{instruction:?}");
        assert!(!matches!(instruction.flow_control(), FlowControl::Call | FlowControl::IndirectCall));
        seen += 1;
    }
    assert!(seen > 20, "{seen}");
}
