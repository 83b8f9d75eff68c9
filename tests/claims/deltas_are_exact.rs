//! `mote pt delta`, `mote pt syscalls` and `mote pt diff`: what they say of a program is what it has executed.

use crate::support::command::{data_of_page, json, json_lines, mote, number, printed, text};
use crate::support::compiled::{can_synthesize, compile};
use iced_x86::{Decoder, DecoderOptions, Instruction, Mnemonic};
use object::{Object, ObjectSegment};
use serde_json::Value;
use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};
use tempfile::TempDir;

/// A program with known sections, and its capture; `None`, said loudly, where none can be made.
fn captured(keep: &TempDir, words: &[&str]) -> Option<(PathBuf, PathBuf)> {
    if !can_synthesize() {
        return None;
    }
    let program = compile(keep, "deltas.c", &[&["-O1", "-static", "-no-pie"], words].concat());
    let capture = keep.path().join(format!("capture{}", words.concat()));
    printed(mote(&["pt", "synth", "--runs", "--cyc", "1", "-o", text(&capture), "--", text(&program)]));
    Some((program, capture))
}

/// Every instruction that was executed, by what the emulator has said, not by packets: address and instruction.
fn executed(program: &Path, capture: &Path) -> Vec<Instruction> {
    let bytes = fs::read(program).expect("a program");
    let file = object::File::parse(&*bytes).expect("an ELF file");
    let mut known: HashMap<u64, Instruction> = HashMap::new();
    let mut decoded = |address: u64| {
        *known.entry(address).or_insert_with(|| {
            let segments = file.segments();
            let holds = |one: &object::Segment<'_, '_>| {
                (one.address()..one.address() + one.size()).contains(&address)
            };
            let segment = segments.into_iter().find(holds).expect("code of the program");
            let code = &segment.data().expect("bytes")[(address - segment.address()) as usize..];
            Decoder::with_ip(64, code, address, DecoderOptions::NONE).decode()
        })
    };
    let runs = fs::read_dir(capture).expect("a capture").map(|entry| entry.expect("an entry").path());
    let runs = runs.filter(|path| path.extension().is_some_and(|end| end == "runs"));
    let runs = fs::read(runs.last().expect("runs of instructions")).expect("runs");
    let mut all = Vec::new();
    for run in runs.chunks_exact(12) {
        let mut address = u64::from_le_bytes(run[..8].try_into().expect("8 bytes"));
        for _ in 0..u32::from_le_bytes(run[8..].try_into().expect("4 bytes")) {
            let insn = decoded(address);
            all.push(insn);
            address = insn.next_ip();
        }
    }
    all
}

/// How many instructions lie between the first one that begins an interval and the next one that ends it.
fn pairs(
    executed: &[Instruction],
    begins: impl Fn(&Instruction) -> bool,
    ends: impl Fn(&Instruction) -> bool,
) -> Vec<u64> {
    let (mut found, mut open) = (Vec::new(), None::<u64>);
    for (at, insn) in (0..).zip(executed) {
        if let Some(begin) = open.filter(|_| ends(insn)) {
            found.push(at - begin);
            open = None;
        }
        if begins(insn) && open.is_none() {
            open = Some(at);
        }
    }
    found
}

/// How long runs are, with at most so many other instructions between.
fn runs(executed: &[Instruction], is: impl Fn(&Instruction) -> bool, between: u64) -> Vec<u64> {
    let mut found: Vec<(u64, u64)> = Vec::new();
    for (at, _) in (0_u64..).zip(executed).filter(|(_, insn)| is(insn)) {
        match found.last_mut().filter(|(_, last)| at - *last <= between + 1) {
            Some((_, last)) => *last = at,
            None => found.push((at, at)),
        }
    }
    found.into_iter().map(|(first, last)| last - first + 1).collect()
}

fn delta(capture: &Path, words: &[&str]) -> Vec<Value> {
    let words = [&["pt", "delta", text(capture)], words, &["--format", "json"]].concat();
    json_lines(&printed(mote(&words))).collect()
}

/// The sums are those of these intervals.
fn check(objects: &[Value], expect: &[u64]) {
    let sums = &objects[0]["sums"];
    assert_eq!(number(&sums["intervals"]), expect.len() as u64, "{}", objects[0]);
    let instructions = &sums["instructions"];
    let (min, max) = (expect.iter().min().expect("some"), expect.iter().max().expect("some"));
    assert_eq!([number(&instructions["min"]), number(&instructions["max"])], [*min, *max]);
    let between = objects.iter().filter(|object| object["kind"] == "between");
    let sum: u64 = between.map(|object| number(&object["instructions"])).sum();
    assert_eq!(sum, expect.iter().sum::<u64>());
    // Each value below 32 has a bucket of its own.
    for bucket in instructions["buckets"].as_array().expect("buckets") {
        let [first, last, count] = [0, 1, 2].map(|at| number(&bucket[at]));
        let is_in = expect.iter().filter(|value| (first..=last).contains(value)).count() as u64;
        assert_eq!(is_in, count, "{bucket}");
    }
}

#[test]
fn instructions_between_pairs_are_those_that_were_executed() {
    let keep = tempfile::tempdir().expect("a directory");
    let Some((program, capture)) = captured(&keep, &[]) else { return };
    let executed = executed(&program, &capture);
    let is = |mnemonic: Mnemonic| move |insn: &Instruction| insn.mnemonic() == mnemonic;
    let by_truth = pairs(&executed, is(Mnemonic::Lfence), is(Mnemonic::Sfence));
    let sections: Vec<u64> = by_truth.iter().copied().filter(|count| count % 2 == 1).collect();
    assert!((1..=30).chain([5000]).all(|turns| sections.contains(&(2 * turns + 1))), "{by_truth:?}");
    check(&delta(&capture, &["lfence", "sfence"]), &by_truth);
    check(&delta(&capture, &["call", "ret"]), &pairs(&executed, is(Mnemonic::Call), is(Mnemonic::Ret)));
    let is_mov = |insn: &Instruction| format!("{:?}", insn.mnemonic()).starts_with("Mov");
    check(&delta(&capture, &["mov*", "ret"]), &pairs(&executed, is_mov, is(Mnemonic::Ret)));

    // Of one pattern alone.
    let relaxed = runs(&executed, is(Mnemonic::Pause), 2);
    assert!(relaxed.len() >= 12 && relaxed.contains(&34), "{relaxed:?}");
    check(&delta(&capture, &["pause+2"]), &relaxed);
    let locked = executed.iter().filter(|insn| insn.has_lock_prefix()).count();
    let counted = delta(&capture, &["locked"]);
    assert!(locked >= 17 && number(&counted[0]["found"]["from"]) == locked as u64, "{}", counted[0]);
    let of_locked = counted.iter().find(|object| object["kind"] == "between" && object["from"] == "locked");
    assert_eq!(number(&of_locked.expect("the function")["intervals"]), 17);
    let restored = delta(&capture, &["pushf ...1 popf@flags"]);
    assert_eq!(number(&restored[0]["found"]["from"]), 7);
}

#[test]
fn the_worst_have_their_place() {
    let keep = tempfile::tempdir().expect("a directory");
    let Some((_, capture)) = captured(&keep, &[]) else { return };
    let objects = delta(&capture, &["lfence@section", "sfence@section", "--worst", "2"]);
    let worst: Vec<&Value> = objects.iter().filter(|object| object["kind"] == "worst").collect();
    assert_eq!((worst.len(), number(&worst[0]["instructions"])), (2, 10_001));
    let stack: Vec<&str> =
        worst[0]["stack"].as_array().expect("a stack").iter().filter_map(Value::as_str).collect();
    assert!(stack.ends_with(&["main", "section"]), "{stack:?}");
    // The command shows it, from the first to the last instruction.
    let command = worst[0]["command"].as_str().expect("a command");
    let words: Vec<&str> = command.split(' ').skip(1).chain(["--format", "json"]).collect();
    let shown = printed(mote(&words));
    let lines: Vec<Value> = json_lines(&shown).filter(|line| !line["instruction"].is_null()).collect();
    assert_eq!(lines.len(), 10_002);
    let ends = [&lines[0], &lines[10_001]];
    assert_eq!(ends.map(|line| line["instruction"].as_str()), [Some("lfence"), Some("sfence")]);
    // It took as long as the times of these two say.
    let bound = |line: &Value, at: usize| number(&line["time"][at]);
    let ns = [number(&worst[0]["ns"][0]), number(&worst[0]["ns"][1])];
    let expect = [bound(ends[1], 0).saturating_sub(bound(ends[0], 1)), bound(ends[1], 1) - bound(ends[0], 0)];
    assert!(
        ns[0] > 0 && ns[0] <= ns[1] && (0..2).all(|at| ns[at].abs_diff(expect[at]) <= 1),
        "{ns:?} {expect:?}"
    );
}

#[test]
fn without_packets_of_time_there_are_counts_and_no_times() {
    let keep = tempfile::tempdir().expect("a directory");
    let Some((program, _)) = captured(&keep, &[]) else { return };
    let capture = keep.path().join("untimed");
    printed(mote(&["pt", "synth", "--no-mtc", "--no-tsc", "-o", text(&capture), "--", text(&program)]));
    let objects = delta(&capture, &["lfence@section", "sfence@section"]);
    let sums = &objects[0]["sums"];
    assert_eq!((number(&sums["intervals"]), number(&sums["instructions"]["max"])), (31, 10_001));
    assert!(sums["at_least_ns"].is_null() && sums["at_most_ns"].is_null(), "{sums}");
    assert_eq!(sums["median_ns"], serde_json::json!([null, null]));
    let shown = printed(mote(&["pt", "delta", text(&capture), "lfence@section", "sfence@section"]));
    assert!(!shown.contains(" ns") && !shown.contains("at most"), "{shown}");
}

#[test]
fn patterns_that_are_nowhere_have_near_ones() {
    let keep = tempfile::tempdir().expect("a directory");
    let Some((_, capture)) = captured(&keep, &[]) else { return };
    for (words, status, part) in [
        (&["cli", "sti"][..], 1, "no code of the kernel"),
        (&["lfenc", "sfence"], 2, "did you mean lfence"),
        (&["@sektion", "sfence"], 1, "near are section"),
        (&["pushf ...0 popf"], 1, "not as near"),
        (&["nop", "foo("], 2, "column 4"),
    ] {
        let run = mote(&[&["pt", "delta", text(&capture)], words].concat());
        let said = String::from_utf8_lossy(&run.stderr).into_owned();
        assert!(run.status.code() == Some(status) && said.contains(part), "{words:?}: {said}");
    }
    let file = keep.path().join("patterns");
    fs::write(&file, "fence = lfence/sfence\nround = fence ...2 fence\n").expect("a file");
    let words = ["pt", "delta", text(&capture), "round@", "--patterns", text(&file)];
    assert_eq!(mote(&words).status.code(), Some(2));
    let words = ["pt", "delta", text(&capture), "round", "--patterns", text(&file), "--format", "json"];
    let first = json(printed(mote(&words)).lines().next().expect("an object"));
    assert!(number(&first["found"]["from"]) >= 1, "{first}");
}

#[test]
fn pages_have_what_is_printed() {
    let keep = tempfile::tempdir().expect("a directory");
    let Some((_, capture)) = captured(&keep, &[]) else { return };
    let page = keep.path().join("page.html");
    let words = ["lfence@section", "sfence@section", "--html", text(&page)];
    let objects = delta(&capture, &words);
    let data = data_of_page(&page);
    let views = data["views"].as_array().expect("views");
    let types: Vec<&str> = views.iter().filter_map(|view| view["type"].as_str()).collect();
    assert_eq!(types, ["numbers", "histogram", "histogram", "table", "table"]);
    assert_eq!(views[1]["series"][0]["buckets"], objects[0]["sums"]["instructions"]["buckets"]);
    assert_eq!(views[2]["series"][1]["buckets"], objects[0]["sums"]["at_most_ns"]["buckets"]);
    assert_eq!(views[3]["rows"].as_array().map(Vec::len), Some(5));
}

/// The parts of a sunburst that differ from another one, by name, and how.
fn changes(root: &Value) -> Vec<(String, String)> {
    let (mut waiting, mut found) = (vec![root], Vec::new());
    while let Some(slice) = waiting.pop() {
        waiting.extend(slice["parts"].as_array().into_iter().flatten());
        let change = slice["change"].as_str().map(str::to_owned);
        found.extend(change.map(|change| (slice["name"].as_str().unwrap_or_default().to_owned(), change)));
    }
    found.sort();
    found
}

/// Two builds, one of which calls a function of 4 instructions, 7 times.
#[test]
fn what_one_build_has_alone_is_found() {
    let keep = tempfile::tempdir().expect("a directory");
    let (Some((_, plain)), Some((_, extra))) = (captured(&keep, &["-DPLAIN"]), captured(&keep, &["-DEXTRA"]))
    else {
        return;
    };
    let words = ["pt", "diff", text(&plain), text(&extra), "--format", "json"];
    let objects: Vec<Value> = json_lines(&printed(mote(&words))).collect();
    let paths: Vec<&Value> = objects.iter().filter(|object| object["kind"] == "path").collect();
    let name =
        |path: &Value| path["path"].as_array().and_then(|path| path.last().cloned()).unwrap_or_default();
    let alone: Vec<&&Value> = paths.iter().filter(|path| !path["only"].is_null()).collect();
    assert_eq!(alone.len(), 1, "{alone:?}");
    assert_eq!((&alone[0]["only"], name(alone[0])), (&"B".into(), "extra".into()));
    assert_eq!(
        (&alone[0]["calls"], &alone[0]["instructions"]),
        (&serde_json::json!([null, 7]), &serde_json::json!([0, 28]))
    );
    let page = keep.path().join("diff.html");
    printed(mote(&["pt", "diff", text(&plain), text(&extra), "--html", text(&page)]));
    let data = data_of_page(&page);
    assert_eq!(data["views"][0]["rows"].as_array().map(Vec::len), Some(paths.len()));
    // All instructions are in a sunburst, in their parts.
    let mut waiting = vec![&data["views"][2]["root"]];
    let mut sum = 0;
    while let Some(slice) = waiting.pop() {
        sum += number(&slice["own"]);
        waiting.extend(slice["parts"].as_array().into_iter().flatten());
    }
    assert_eq!(sum, number(&objects[0]["instructions"][1]));
    // What differs is marked on its side.
    assert_eq!(changes(&data["views"][1]["root"]), [("worker".to_owned(), "less".to_owned())]);
    let marked = [("extra".to_owned(), "alone".to_owned()), ("worker".to_owned(), "more".to_owned())];
    assert_eq!(changes(&data["views"][2]["root"]), marked);
    // What calls it has the calls more, and nothing else differs.
    let others: Vec<Value> =
        paths.iter().filter(|path| path["only"].is_null()).map(|path| name(path)).collect();
    assert_eq!(others, ["worker"], "{paths:?}");
    // The same program is the same.
    assert_eq!(mote(&["pt", "diff", text(&plain), text(&plain)]).status.code(), Some(1));
    let why = mote(&["pt", "diff", text(&plain), text(&extra), "--syscalls"]);
    let said = String::from_utf8_lossy(&why.stderr).into_owned();
    assert!(why.status.code() == Some(2) && said.contains("kernel side"), "{said}");
    let calls = mote(&["pt", "syscalls", text(&plain)]);
    let said = String::from_utf8_lossy(&calls.stderr).into_owned();
    assert!(calls.status.code() == Some(1) && said.contains("no code of the kernel"), "{said}");
}
