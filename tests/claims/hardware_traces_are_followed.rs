//! `mote pt`: packets as a processor with Intel PT would write them, and what was executed, from them.

use crate::support::command::{json, json_lines, mote, number, printed, text};
use crate::support::compiled::{can_synthesize, compile};
use crate::support::{has_tool, output_of};
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::Command;

/// What `mote pt check` says of each thread; all has to be as it was executed.
fn checked(capture: &Path) -> Vec<Value> {
    let threads: Vec<Value> =
        json_lines(&printed(mote(&["pt", "check", text(capture), "--format", "json"]))).collect();
    for thread in &threads {
        let is_whole = thread["gap_count"] == 0 && thread["damaged"] == 0 && thread["as_executed"] == true;
        assert!(is_whole, "{thread}");
    }
    threads
}

/// Exceptions, longjmp, signals, threads, contexts, fork: each thread is followed instruction by instruction, and the
/// calls are those that the program counts itself.
#[test]
fn odd_programs_are_followed_instruction_by_instruction() {
    if !can_synthesize() {
        return;
    }
    let keep = tempfile::tempdir().expect("a directory");
    let flags = ["-O0", "-DTRUTH", "-finstrument-functions", "-rdynamic", "-ldl"];
    let truth = Command::new(compile(&keep, "odd_calls.cpp", &flags)).output().expect("it runs");
    let program = compile(&keep, "odd_calls.cpp", &["-O0"]);
    // What qemu-user makes of it: version 7.2 fails at its last lines, where it forks.
    let bare = Command::new("qemu-x86_64").arg(&program).output().expect("it runs");
    let capture = keep.path().join("capture");
    let run = mote(&["pt", "synth", "-o", text(&capture), "--", text(&program)]);
    assert_eq!(run.stdout, bare.stdout, "it does what it does");
    let signal = bare.status.signal().map(|signal| 128 + signal);
    assert_eq!(run.status.code(), bare.status.code().or(signal), "{}", String::from_utf8_lossy(&run.stderr));
    assert!(checked(&capture).len() > 5, "its threads");

    let calls = printed(mote(&["pt", "calls", text(&capture), "--format", "json"]));
    let mut called: BTreeMap<String, u64> = BTreeMap::new();
    for function in json_lines(&calls) {
        let name = function["function"].as_str().expect("a name");
        let bare = name.split('(').next().unwrap_or(name).to_owned();
        *called.entry(bare).or_default() += number(&function["calls"]);
    }
    // The child of fork has done some, too: 4 frames of thrower, and 101 of deep.
    let by_child = BTreeMap::from([("catcher", 1), ("again", 1), ("thrower", 4), ("deep", 101)]);
    let counted = String::from_utf8(truth.stderr).expect("text");
    let mut compared = 0;
    for line in counted.lines() {
        let (name, count) = line.split_once(' ').expect("a name and a number");
        // Calls that end with their thread or context have no end to be counted by.
        if ["sleeper", "leaver", "leaves", "their_way", "our_way"].contains(&name) {
            continue;
        }
        let (count, found): (u64, u64) =
            (count.parse().expect("a number"), called.get(name).copied().unwrap_or(0));
        let more = by_child.get(name).copied().unwrap_or(0);
        assert!(found == count || found == count + more, "{name}: {found} of {count}");
        compared += 1;
    }
    assert!(compared > 15, "{compared}");
}

/// Whatever a processor may have: the same instructions.
#[test]
fn processors_of_all_kinds_say_the_same() {
    if !can_synthesize() {
        return;
    }
    let keep = tempfile::tempdir().expect("a directory");
    for (number, words) in [
        ["--no-return-compression"].as_slice(),
        &["--long-tnt", "--psb", "512"],
        &["--cyc", "1", "--mtc", "0"],
        &["--no-mtc", "--interrupt-every", "10007"],
    ]
    .iter()
    .enumerate()
    {
        let capture = keep.path().join(number.to_string());
        let synth = ["pt", "synth", "-o", text(&capture)];
        printed(mote(&[&synth[..], words, &["--", "true"]].concat()));
        checked(&capture);
    }
    // Instruction by instruction, where it is short enough.
    let capture = keep.path().join("step");
    printed(mote(&["pt", "synth", "--engine", "step", "-o", text(&capture), "--", "true"]));
    checked(&capture);
}

#[test]
fn a_script_and_what_it_starts_are_followed_through_exec() {
    if !can_synthesize() {
        return;
    }
    let keep = tempfile::tempdir().expect("a directory");
    let capture = keep.path().join("capture");
    let words =
        ["pt", "synth", "-o", text(&capture), "--", "sh", "-c", "true; /bin/echo one; exec /bin/echo two"];
    assert_eq!(printed(mote(&words)), "one\ntwo\n");
    let threads = checked(&capture);
    let names: Vec<&str> = threads.iter().map(|thread| thread["thread"].as_str().expect("a name")).collect();
    assert!(names.iter().filter(|name| **name == "echo").count() == 2, "{names:?}");
}

/// What is damaged or missing is said, with its place, and the rest is there.
#[test]
fn what_is_missing_is_said() {
    if !can_synthesize() {
        return;
    }
    let keep = tempfile::tempdir().expect("a directory");
    let capture = keep.path().join("capture");
    let program = compile(&keep, "hot.c", &["-O2"]);
    printed(mote(&["pt", "synth", "-o", text(&capture), "--psb", "256", "--", "true"]));
    let tid = checked(&capture)[0]["tid"].to_string();
    let packets = capture.join(format!("{tid}.pt"));
    let mut bytes = fs::read(&packets).expect("packets");
    // The first byte of a packet: within one it could be any payload.
    let dump = printed(mote(&["pt", "dump", text(&packets), "--format", "json"]));
    let middle = json_lines(&dump).map(|packet| number(&packet["offset"]) as usize);
    let middle = middle.filter(|offset| *offset >= bytes.len() / 2).min().expect("packets");
    bytes[middle..middle + 3].copy_from_slice(&[0x02, 0xff, 0xff]);
    fs::write(&packets, &bytes).expect("packets");
    let damaged = mote(&["pt", "check", text(&capture), "--format", "json"]);
    assert_eq!(damaged.status.code(), Some(2));
    let found = json(String::from_utf8_lossy(&damaged.stdout).lines().next().expect("a thread"));
    assert_eq!(found["as_executed"], false, "{found}");
    let gaps = found["gaps"].as_array().expect("a list");
    assert!(gaps.iter().any(|gap| number(&gap["offset"]).abs_diff(middle as u64) < 512), "{found}");
    // The part before and behind is still there.
    let dump = mote(&["pt", "dump", text(&packets)]);
    assert_eq!(dump.status.code(), Some(2), "damage is among them");
    assert!(String::from_utf8_lossy(&dump.stdout).contains("decoding goes on at the next PSB"));

    for (words, why) in [
        (["pt", "flow", text(keep.path())], "is no capture of Intel PT"),
        (["pt", "dump", text(&program)], "has no PSB packet"),
    ] {
        let refused = mote(&words);
        assert_eq!(refused.status.code(), Some(2));
        assert!(String::from_utf8_lossy(&refused.stderr).contains(why), "{refused:?}");
    }
    let none = mote(&["pt", "flow", text(&capture), "--tid", "1"]);
    assert!(
        String::from_utf8_lossy(&none.stderr).contains(&format!("it has those of thread {tid}")),
        "{none:?}"
    );
}

/// The instructions are those of the program's file, as objdump shows them.
#[test]
fn instructions_are_those_of_the_file() {
    if !can_synthesize() || !has_tool("objdump") {
        return;
    }
    let keep = tempfile::tempdir().expect("a directory");
    let program = compile(&keep, "steady.c", &["-O2"]);
    let capture = keep.path().join("capture");
    printed(mote(&["pt", "synth", "-o", text(&capture), "--", text(&program), "slow"]));
    let flow = printed(mote(&["pt", "flow", text(&capture), "-f", "swift", "--format", "json"]));
    let shown: Vec<Value> = json_lines(&flow).collect();
    let listing = output_of(Command::new("objdump").args(["-d", "--disassemble=swift", text(&program)]));
    let lines = listing.lines().filter(|line| line.starts_with("    ") && line.contains(":\t"));
    let of_file: Vec<u64> =
        lines.filter_map(|line| u64::from_str_radix(line.trim().split(':').next()?, 16).ok()).collect();
    let first = of_file.first().expect("instructions");
    let offsets: Vec<u64> = of_file.iter().map(|address| address - first).collect();
    let found: Vec<u64> = shown.iter().map(|line| number(&line["offset"])).collect();
    // Six calls, each from its first instruction to its return.
    let taken = found.len() / 6;
    assert_eq!(found.len(), 6 * taken, "{found:?}");
    assert!(taken > 2 && found.chunks(taken).all(|call| call == &offsets[..taken]), "{found:?} {offsets:?}");
    assert!(shown.iter().all(|line| line["function"] == "swift"), "{shown:?}");
}

/// How often each line was executed, beside gcov's instrumented program.
#[test]
fn lines_are_those_that_gcov_counts() {
    if !can_synthesize() || !has_tool("gcov") {
        return;
    }
    let keep = tempfile::tempdir().expect("a directory");
    let source = "\
static int collatz(long n) {
    int steps = 0;
    while (n != 1) {
        if (n % 2)
            n = 3 * n + 1;
        else
            n /= 2;
        steps++;
    }
    return steps;
}
static int never(int n) {
    return n;
}
int main(int argc, char **argv) {
    int most = 0;
    for (long n = 1; n < 1000; n++) {
        int steps = collatz(n);
        if (steps > most)
            most = steps;
    }
    if (argc > 5)
        never(argc);
    return most;
}
";
    let file = keep.path().join("lines.c");
    fs::write(&file, source).expect("a file");
    let build = |flag: &str, name: &str| {
        let status =
            Command::new("cc").current_dir(keep.path()).args(["-O0", flag, "-o", name, "lines.c"]).status();
        assert!(status.is_ok_and(|status| status.success()), "it compiles");
        keep.path().join(name)
    };
    let counted = Command::new(build("--coverage", "counted")).current_dir(keep.path()).status();
    assert_eq!(counted.expect("it runs").code(), Some(178));
    let gcov = Command::new("gcov").current_dir(keep.path()).args(["--stdout", "counted-lines.c"]).output();
    let gcov = String::from_utf8(gcov.expect("it runs").stdout).expect("text");
    let theirs = |line: &str| -> Option<(u64, u64)> {
        let mut words = line.splitn(3, ':').map(str::trim);
        let (times, line) = (words.next()?, words.next()?.parse().ok()?);
        let times = if times.starts_with('#') { 0 } else { times.parse().ok()? };
        Some((line, times))
    };
    let theirs: BTreeMap<u64, u64> = gcov.lines().filter_map(theirs).collect();
    assert_eq!(theirs.len(), 19, "{gcov}");

    let (program, capture) = (build("-g", "plain"), keep.path().join("capture"));
    let run = mote(&["pt", "synth", "-o", text(&capture), "--", text(&program)]);
    assert_eq!(run.status.code(), Some(178), "{run:?}");
    let lines = |more: &[&str]| printed(mote(&[&["pt", "lines", text(&capture)], more].concat()));
    let objects: Vec<Value> = json_lines(&lines(&["--format", "json"])).collect();
    let [object] = &objects[..] else { panic!("one file has lines: {objects:?}") };
    let each = object["lines"].as_array().expect("lines").iter();
    let ours: BTreeMap<u64, u64> = each.map(|line| (number(&line["line"]), number(&line["times"]))).collect();
    assert_eq!(object["executed"], ours.values().filter(|times| **times > 0).count());
    let of_both = theirs.iter().filter(|(line, _)| ours.contains_key(line)).count();
    assert_eq!(of_both, theirs.len(), "{ours:?} {theirs:?}");
    theirs.iter().for_each(|(line, times)| assert_eq!(ours[line], *times, "line {line}"));
    assert!(lines(&["--source", "*lines.c"]).contains("59,431      8          steps++;"));
    assert!(lines(&["--format", "lcov"]).contains("DA:13,0\n"));
}

/// Times have bounds, which are true: on the simulated clock an instruction takes a known time, and so does each call.
/// Filters by time show the part that they say.
#[test]
fn times_are_shown_with_their_bounds() {
    if !can_synthesize() {
        return;
    }
    let keep = tempfile::tempdir().expect("a directory");
    let program = compile(&keep, "steady.c", &["-O2"]);
    let capture = keep.path().join("capture");
    let words = ["--cyc", "0", "--tick", "2", "--", text(&program), "slow"];
    printed(mote(&[&["pt", "synth", "-o", text(&capture)], &words[..]].concat()));
    let bounds = |line: &Value, name: &str| -> [u64; 2] { [0, 1].map(|at| number(&line[name][at])) };

    // An instruction takes 2 ns, and so does each call by its instructions.
    let calls = printed(mote(&["pt", "calls", text(&capture), "--graph", "--format", "json"]));
    let swift: Vec<Value> = json_lines(&calls).filter(|call| call["function"] == "swift").collect();
    assert_eq!(swift.len(), 6);
    for call in &swift {
        let ([least, most], instructions) = (bounds(call, "time"), number(&call["instructions"]));
        assert!((least..=most).contains(&(2 * instructions)) && most - least < 200, "{call}");
    }
    let table = printed(mote(&["pt", "calls", text(&capture), "--format", "json"]));
    let sum = json_lines(&table).find(|function| function["function"] == "swift").expect("swift");
    let [least, most] = bounds(&sum, "self_time");
    assert!((least..=most).contains(&(2 * number(&sum["self"]))), "{sum}");
    let bare = printed(mote(&["pt", "calls", text(&capture), "--format", "json", "--no-time"]));
    assert!(json_lines(&bare).all(|function| function["time"].is_null() && number(&function["calls"]) > 0));

    // What is executed from the first call on to the second.
    let flow = |more: &[&str]| {
        let words = ["pt", "flow", text(&capture), "--format", "json"];
        json_lines(&printed(mote(&[&words[..], more].concat()))).collect::<Vec<Value>>()
    };
    let of_swift = flow(&["-f", "swift"]);
    let lows: Vec<u64> = of_swift.iter().map(|line| bounds(line, "time")[0]).collect();
    assert!(lows.is_sorted(), "{lows:?}");
    let [from, to] = [0, 1].map(|call| bounds(&swift[call], "begin"));
    let seconds = |ns: u64| format!("{}.{:09}", ns / 1_000_000_000, ns % 1_000_000_000);
    let part = flow(&["-f", "swift", "--from", &seconds(from[0]), "--to", &seconds(to[0] - 1)]);
    let taken = of_swift.len() / 6;
    assert!((taken..3 * taken).contains(&part.len()), "{} of {}", part.len(), of_swift.len());
    let bounds_of = |line: &Value| bounds(line, "time");
    assert!(part.iter().map(bounds_of).all(|[low, high]| high >= from[0] && low < to[0]));

    // How fine times are: between two CYC.
    let stats = json(printed(mote(&["pt", "stats", text(&capture), "--format", "json"])).trim());
    let (instructions, ns) = (number(&stats["median_instructions"]), number(&stats["median_ns"]));
    assert!(ns.abs_diff(2 * instructions) <= 2 && instructions < 100, "{stats}");
    assert!(number(&stats["packets"]["CYC"]["packets"]) > 100, "{stats}");

    // Without packets of time there is none, and a filter says so.
    let bare = keep.path().join("bare");
    printed(mote(&["pt", "synth", "-o", text(&bare), "--no-tsc", "--no-mtc", "--", "true"]));
    let first = printed(mote(&["pt", "flow", text(&bare), "-n", "1", "--format", "json"]));
    assert!(json_lines(&first).all(|line| line["time"] == serde_json::json!([null, null])), "{first}");
    let refused = mote(&["pt", "flow", text(&bare), "--from", "+1ms"]);
    assert_eq!(refused.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&refused.stderr).contains("there are no times"), "{refused:?}");
}

/// Calls are a recording like one of function probes, also within one of events, on its clock.
#[test]
fn calls_are_events_of_a_recording() {
    if !can_synthesize() {
        return;
    }
    let keep = tempfile::tempdir().expect("a directory");
    let [capture, alone, events] = ["capture", "alone", "events"].map(|name| keep.path().join(name));
    let program = compile(&keep, "odd_calls.cpp", &["-O0"]);
    mote(&["pt", "synth", "-o", text(&capture), "--", text(&program)]);
    let said = mote(&["pt", "calls", text(&capture), "-o", text(&alone)]);
    assert!(said.status.success() && said.stdout.is_empty(), "{said:?}");

    let mut called: BTreeMap<String, u64> = BTreeMap::new();
    for function in
        json_lines(&printed(mote(&["pt", "calls", text(&capture), "--no-time", "--format", "json"])))
    {
        called.insert(function["function"].as_str().expect("a name").to_owned(), number(&function["calls"]));
    }
    let table = json(&printed(mote(&["functions", "-i", text(&alone), "--format", "json"])));
    let rows = table["functions"].as_array().expect("a list").iter();
    let shown: BTreeMap<String, u64> =
        rows.map(|row| (row["name"].as_str().expect("a name").to_owned(), number(&row["calls"]))).collect();
    assert_eq!(shown, called);
    let all = called.values().sum::<u64>();
    // What was executed is its maker's affair.
    let mode = |folder: &Path| fs::metadata(folder).expect("it is there").permissions().mode() & 0o777;
    assert_eq!([&capture, &alone].map(|folder| mode(folder)), [0o700; 2]);
    let lines = printed(mote(&["view", text(&alone), "--format", "json"]));
    let calls: Vec<Value> = json_lines(&lines).collect();
    assert_eq!(calls.len() as u64, all);
    // MTC comes each 333 ns, and an instruction takes one; but for calls that end where tracing does.
    let is_bounded = |call: &&Value| call["fields"]["error"].as_u64().is_some_and(|error| error < 2000);
    assert!(calls.iter().filter(is_bounded).count() * 100 > calls.len() * 95, "{calls:?}");
    if has_tool("babeltrace2") {
        let theirs = Command::new("babeltrace2").arg(&alone).output().expect("it runs");
        assert_eq!(theirs.stdout.iter().filter(|byte| **byte == b'\n').count() as u64, all, "{theirs:?}");
    }
    let folded = printed(mote(&["export", text(&alone), "--to", "folded"]));
    assert!(folded.lines().any(|line| line.contains(";worker;step")), "{folded}");

    let everyday = crate::support::programs::everyday();
    let record = mote(&["record", "-o", text(&events), "--clock", "tsc", "-e", "*", "--", everyday]);
    assert!(record.status.success(), "{record:?}");
    let within = events.join("calls");
    let words = ["pt", "calls", text(&capture), "-o", text(&within), "--clock-of", text(&events)];
    assert!(mote(&words).status.success());
    let both = printed(mote(&["view", text(&events), "--format", "json"]));
    let is_call = |line: &Value| line["event"].as_str().is_some_and(|name| name.starts_with("f:"));
    let (calls, others): (Vec<Value>, Vec<Value>) = json_lines(&both).partition(is_call);
    assert_eq!((calls.len() as u64, others.len()), (all, 600));
    // The clock began when the machine did, or later; the capture has made its own up.
    let times: Vec<u64> = calls.iter().map(|call| number(&call["time"])).collect();
    assert!(times.is_sorted() && times[0] > 1_600_000_000_000_000_000, "{}", times[0]);

    let again = mote(&["pt", "calls", text(&capture), "-o", text(&alone)]);
    assert!(again.status.code() == Some(2) && again.stdout.is_empty(), "{again:?}");
    let timeless = keep.path().join("timeless");
    mote(&["pt", "synth", "--no-tsc", "-o", text(&timeless), "--", "true"]);
    let refused = mote(&["pt", "calls", text(&timeless), "-o", text(&keep.path().join("none"))]);
    assert!(String::from_utf8_lossy(&refused.stderr).contains("has no times"), "{refused:?}");
}

/// The instructions of each thread, in order, as `mote pt flow` has them.
fn flowed(capture: &Path) -> BTreeMap<u64, Vec<u64>> {
    let mut threads: BTreeMap<u64, Vec<u64>> = BTreeMap::new();
    for line in json_lines(&printed(mote(&["pt", "flow", text(capture), "--format", "json"]))) {
        if let Some(address) = line["address"].as_str() {
            let address = u64::from_str_radix(&address[2..], 16).expect("an address");
            threads.entry(number(&line["tid"])).or_default().push(address);
        }
    }
    threads
}

/// The same, as perf decodes a file.
fn as_perf_has_them(file: &Path) -> BTreeMap<u64, Vec<u64>> {
    let mut perf = Command::new("perf");
    perf.args(["script", "--itrace=i0nse", "-F", "tid,ip", "-i"]).arg(file);
    let done = perf.output().expect("perf");
    let said = String::from_utf8_lossy(&done.stderr);
    assert!(done.status.success() && !said.contains("error"), "{said}");
    let mut threads: BTreeMap<u64, Vec<u64>> = BTreeMap::new();
    for line in String::from_utf8_lossy(&done.stdout).lines() {
        let mut words = line.split_whitespace();
        let (Some(tid), Some(ip)) = (words.next(), words.next()) else { continue };
        let ip = u64::from_str_radix(ip, 16).expect("an address");
        threads.entry(tid.parse().expect("a thread")).or_default().push(ip);
    }
    threads
}

/// Threads, fork and exec: perf finds the same instructions in what is exported, and so do we, when we read it back,
/// and when perf has written it to a pipe.
#[test]
fn perf_decodes_what_is_exported_to_the_same_instructions() {
    if !can_synthesize() || !has_tool("perf") {
        return;
    }
    let keep = tempfile::tempdir().expect("a directory");
    let script = ["sh", "-c", "/bin/true; exec /bin/true"];
    let program = compile(&keep, "hot.c", &["-O1", "-static"]);
    for (name, words, synth) in
        [("script", script.as_slice(), ["--cyc", "1"]), ("threads", &[text(&program), "1"], ["--mtc", "0"])]
    {
        let capture = keep.path().join(name);
        printed(mote(&[&["pt", "synth", "-o", text(&capture)], synth.as_slice(), &["--"], words].concat()));
        let file = keep.path().join(format!("{name}.data"));
        printed(mote(&["pt", "export", "--perf", "-o", text(&file), text(&capture)]));
        let ours = flowed(&capture);
        let theirs = as_perf_has_them(&file);
        assert!(ours.len() > 1, "several threads");
        for (tid, instructions) in &ours {
            let theirs = theirs.get(tid).map_or(&[][..], Vec::as_slice);
            let same = instructions.iter().zip(theirs).take_while(|(our, their)| our == their).count();
            let lens = (instructions.len(), theirs.len());
            assert!(same == lens.0 && lens.0 == lens.1, "{name}: thread {tid}: {same} of {lens:?}");
        }
        assert_eq!(flowed(&file), ours, "{name}: read back");
        let piped = keep.path().join(format!("{name}.pipe"));
        let to = fs::File::create(&piped).expect("a file");
        let inject = Command::new("perf").args(["inject", "-o", "-", "-i"]).arg(&file).stdout(to).status();
        assert!(inject.is_ok_and(|done| done.success()));
        assert_eq!(flowed(&piped), ours, "{name}: from a pipe");
    }
}

/// Code that is not traced has called it: it counts all the same, as often as where everything is traced.
#[test]
fn functions_that_are_entered_from_outside_are_called() {
    if !can_synthesize() {
        return;
    }
    let keep = tempfile::tempdir().expect("a directory");
    let program = compile(&keep, "hot.c", &["-O1"]);
    for (name, words) in [("all", [].as_slice()), ("some", &["-f", "spin"])] {
        let capture = keep.path().join(name);
        let run = [text(&program), "10"];
        printed(mote(&[&["pt", "synth", "-o", text(&capture)], words, &["--"], &run].concat()));
        for options in [[].as_slice(), &["--no-time"]] {
            let calls =
                printed(mote(&[&["pt", "calls", text(&capture), "--format", "json"], options].concat()));
            let spin = json_lines(&calls).find(|function| function["function"] == "spin");
            let spin = spin.expect("it was called");
            // Two threads, each a hundred times by two functions; 30 and 10 turns.
            assert_eq!(number(&spin["calls"]), 400, "{name} {options:?}");
            assert_eq!(spin["total"], spin["self"], "{name} {options:?}");
        }
    }
}

/// What is printed is the same whether one processor does it or several, and also when only its begin is wanted.
#[test]
fn several_processors_print_what_one_does() {
    if !can_synthesize() {
        return;
    }
    let keep = tempfile::tempdir().expect("a directory");
    let capture = keep.path().join("capture");
    let program = compile(&keep, "hot.c", &["-O1", "-static"]);
    printed(mote(&["pt", "synth", "-o", text(&capture), "--", text(&program), "20"]));
    let by_one = |words: &[&str]| {
        let mut command = Command::new("taskset");
        command.args(["-c", "0"]).arg(crate::support::programs::mote()).args(words);
        printed(command.output().expect("taskset"))
    };
    for options in
        [[].as_slice(), &["--format", "json"], &["-f", "spin"], &["--at", "5000"], &["--to", "+20us"]]
    {
        let words = [&["pt", "flow", text(&capture)], options].concat();
        let (one, all) = (by_one(&words), printed(mote(&words)));
        assert!(one == all && one.lines().count() > 1000, "{options:?}: {} lines", one.lines().count());
    }
    let all = printed(mote(&["pt", "flow", text(&capture)]));
    let some = printed(mote(&["pt", "flow", text(&capture), "-n", "5000"]));
    assert!(all.starts_with(&some) && some.lines().count() >= 5000);
}

/// Files of perf and raw packets are opened where captures are; what is none of it is refused with the reason.
#[test]
fn files_of_others_are_opened() {
    if !can_synthesize() {
        return;
    }
    let keep = tempfile::tempdir().expect("a directory");
    let capture = keep.path().join("capture");
    let program = compile(&keep, "hot.c", &["-O1", "-static"]);
    printed(mote(&["pt", "synth", "-o", text(&capture), "--", text(&program), "1"]));
    let tid = checked(&capture)[0]["tid"].to_string();
    let packets = capture.join(format!("{tid}.pt"));
    let raw = printed(mote(&["pt", "calls", "--no-time", text(&packets), "--image", text(&program)]));
    let whole = printed(mote(&["pt", "calls", "--no-time", text(&capture), "--tid", &tid]));
    assert_eq!(raw, whole, "the same calls, without what is beside");
    let without = mote(&["pt", "check", text(&packets)]);
    assert_eq!(without.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&without.stderr).contains("--image"), "it says what is missing");

    let refused = |words: &[&str], expect: &str| {
        let done = mote(words);
        let said = String::from_utf8_lossy(&done.stderr).into_owned();
        assert!(done.status.code() == Some(2) && said.contains(expect), "{said}");
    };
    refused(&["pt", "flow", text(&program)], "no PSB packet");
    refused(&["pt", "flow", text(&capture), "--image", text(&program)], "--image is for files");
    let cut = keep.path().join("cut.data");
    fs::write(&cut, b"PERFILE2").expect("a file");
    refused(&["pt", "flow", text(&cut)], "the file is cut");
    if has_tool("perf") {
        let other = keep.path().join("other.data");
        let perf =
            Command::new("perf").args(["record", "-e", "cpu-clock", "-o"]).arg(&other).arg("true").output();
        assert!(perf.is_ok_and(|done| done.status.success()));
        refused(&["pt", "flow", text(&other)], "it has no Intel PT");
    }
}

/// Where there is no Intel PT, one sentence says what has it, and what else can be done.
#[test]
fn a_machine_without_intel_pt_is_told() {
    if Path::new("/sys/bus/event_source/devices/intel_pt").exists() {
        // It is recorded: what was executed is followed without a gap.
        let doctor = mote(&["doctor", "--pt"]);
        assert!(doctor.status.success(), "{}", String::from_utf8_lossy(&doctor.stdout));
        return;
    }
    let keep = tempfile::tempdir().expect("a directory");
    let output = keep.path().join("capture");
    let refused = mote(&["pt", "record", "-o", text(&output), "--", "true"]);
    let said = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert_eq!((refused.status.code(), said.lines().count()), (Some(2), 1), "{said}");
    assert!(said.contains("Broadwell") && said.contains("mote pt synth"), "{said}");
    assert!(!output.exists(), "nothing was made");
    let doctor = mote(&["doctor", "--pt"]);
    let said = String::from_utf8_lossy(&doctor.stdout).into_owned();
    assert_eq!(doctor.status.code(), Some(2));
    assert!(said.contains("FAIL") && said.contains("Broadwell"), "{said}");
}

/// Where qemu-user is not installed, it is said how it comes to be there, and nothing is made.
#[test]
fn a_machine_without_qemu_is_told() {
    let keep = tempfile::tempdir().expect("a directory");
    let capture = keep.path().join("capture");
    for (engine, package) in [("qemu", "apt-get install qemu-user"), ("system", "apt-get install")] {
        let mut synth = Command::new(crate::support::programs::mote());
        synth.args(["pt", "synth", "--engine", engine, "-o", text(&capture), "--", "true"]);
        let refused = synth.env("PATH", keep.path()).output().expect("it runs");
        let said = String::from_utf8_lossy(&refused.stderr).into_owned();
        assert_eq!((refused.status.code(), said.lines().count()), (Some(2), 1), "{said}");
        assert!(said.contains(package) && !capture.exists(), "{said}");
    }
}

/// Who does not want to wait for a program ends it, and has a capture of what it has done: while it computes, and while
/// it sleeps.
#[test]
fn a_run_that_is_ended_leaves_a_capture() {
    if !can_synthesize() {
        return;
    }
    let keep = tempfile::tempdir().expect("a directory");
    for (engine, words) in
        [("qemu", ["sh", "-c", "while :; do :; done"]), ("step", ["sh", "-c", "exec sleep 1000"])]
    {
        let capture = keep.path().join(engine);
        let mut synth = Command::new(crate::support::programs::mote());
        synth.args(["pt", "synth", "--engine", engine, "-o", text(&capture), "--"]).args(words);
        let mut run = synth.stderr(std::process::Stdio::piped()).spawn().expect("it runs");
        crate::support::wait_for("packets", || {
            let entries = fs::read_dir(&capture).into_iter().flatten().flatten();
            entries
                .into_iter()
                .any(|entry| entry.path().extension().is_some_and(|kind| kind == "pt"))
                .then_some(())
        });
        output_of(Command::new("kill").args(["-INT", &run.id().to_string()]));
        let mut said = String::new();
        let stderr = run.stderr.as_mut().expect("it is piped");
        std::io::Read::read_to_string(stderr, &mut said).expect("text");
        assert_eq!(run.wait().expect("it ends").code(), Some(128 + 9), "{said}");
        assert!(said.contains("was ended before its time"), "{said}");
        assert!(checked(&capture).iter().any(|thread| number(&thread["instructions"]) > 0), "{engine}");
    }
}

/// Functions only, as by address filters, whichever engine: what is followed is what was executed there, and nothing
/// else.
#[test]
fn functions_can_be_traced_alone() {
    if !can_synthesize() {
        return;
    }
    let keep = tempfile::tempdir().expect("a directory");
    let program = compile(&keep, "steady.c", &["-O1", "-static"]);
    let words = ["--", text(&program), "slow"];
    let mut counted = Vec::new();
    for (name, more) in [
        ("qemu", ["-f", "swift"].as_slice()),
        ("step", &["-f", "steady*:swift", "--engine", "step"]),
        ("place", &["--filter", &format!("filter swift @ {}", text(&program))]),
    ] {
        let capture = keep.path().join(name);
        printed(mote(&[&["pt", "synth", "-o", text(&capture)], more, &words[..]].concat()));
        let threads = checked(&capture);
        let flow = printed(mote(&["pt", "flow", text(&capture), "--format", "json"]));
        let lines: Vec<Value> = json_lines(&flow).filter(|line| line["function"].is_string()).collect();
        assert!(lines.iter().all(|line| line["function"] == "swift"), "{name}");
        assert_eq!(lines.iter().filter(|line| line["offset"] == 0).count(), 6, "{name}");
        counted.push(threads.iter().map(|thread| number(&thread["instructions"])).sum::<u64>());
    }
    assert!(counted.iter().all(|count| *count == counted[0] && *count > 0), "{counted:?}");
    let none =
        mote(&[&["pt", "synth", "-f", "swiff", "-o", text(&keep.path().join("none"))], &words[..]].concat());
    let said = String::from_utf8_lossy(&none.stderr).into_owned();
    assert!(said.contains("nothing was traced") && said.contains("similar names: swift"), "{said}");
}
