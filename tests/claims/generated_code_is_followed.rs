//! Code that programs make at run time is followed by copies of its pages (`mote pt synth --jit`), instruction by
//! instruction; and is not without them.

use crate::support::command::{json, json_lines, mote, number, text};
use crate::support::compiled::{can_synthesize, compile};
use crate::support::{has_tool, output_of};
use serde_json::Value;
use std::fs;
use std::path::Path;
use std::process::Command;

/// What `mote pt check` says of each thread of a capture.
fn threads(capture: &Path) -> Vec<Value> {
    let check = mote(&["pt", "check", text(capture), "--format", "json"]);
    json_lines(&String::from_utf8(check.stdout).expect("UTF-8")).collect()
}

fn is_whole(thread: &Value) -> bool {
    thread["gap_count"] == 0 && thread["as_executed"] == true
}

/// Runs a program whose code is copied: all of its threads are followed as they were executed, and some of them are not
/// once the copies are taken away. Returns how many copies there were.
#[track_caller]
fn check(name: &str, words: &[&str], output: Option<&str>) -> usize {
    let keep = tempfile::tempdir().expect("a directory");
    let capture = keep.path().join("capture");
    let synth = ["pt", "synth", "--jit", "--format", "json", "-o", text(&capture), "--"];
    let run = mote(&[&synth, words].concat());
    let said = String::from_utf8_lossy(&run.stderr).into_owned();
    let last = said.lines().last().and_then(|line| line.strip_prefix("mote: ")).expect(&said);
    assert_eq!(json(last)["status"], 0, "{name}: {said}");
    if let Some(output) = output {
        assert_eq!(String::from_utf8_lossy(&run.stdout), output, "{name}: {said}");
    }
    let with = threads(&capture);
    for thread in &with {
        assert!(is_whole(thread), "{name}: {thread}");
    }
    let sideband = capture.join("sideband.jsonl");
    let lines = fs::read_to_string(&sideband).expect("a sideband");
    let (copies, others): (Vec<&str>, Vec<&str>) =
        lines.lines().partition(|line| json(line)["kind"] == "code");
    fs::write(&sideband, others.join("\n") + "\n").expect("it is written");
    let without = threads(&capture);
    assert!(without.iter().any(|thread| !is_whole(thread)), "{name}: {without:?}");
    let instructions = |all: &[Value]| all.iter().map(|one| number(&one["instructions"])).sum::<u64>();
    println!(
        "generated code of {name}: {} instructions of {} threads as executed, by {} copies; {} without them",
        instructions(&with),
        with.len(),
        copies.len(),
        instructions(&without)
    );
    copies.len()
}

/// The ways in which compilers make code: pages that are made writable and executable by turns, that are both, that are
/// moved; the program's own code; an instruction that changes the next one but one; several threads; a child.
#[test]
fn small_programs_that_make_code() {
    if !can_synthesize() {
        return;
    }
    let keep = tempfile::tempdir().expect("a directory");
    let program = compile(&keep, "generated.c", &["-O1"]);
    for (way, copies) in [
        ("protect", 100),
        ("open", 100),
        ("moved", 100),
        ("own", 100),
        ("self", 99),
        ("threads", 400),
        ("forked", 100),
    ] {
        let words = [text(&program), way, "100"];
        let alone = output_of(Command::new(&program).args(&words[1..]));
        let made = check(way, &words, Some(&alone));
        assert!(made >= copies, "{way}: {made} copies");
    }
}

/// A thousand versions of one page.
#[test]
fn a_thousand_versions_of_a_page() {
    if !can_synthesize() {
        return;
    }
    let keep = tempfile::tempdir().expect("a directory");
    let program = compile(&keep, "generated.c", &["-O1"]);
    assert!(check("protect", &[text(&program), "protect", "1000"], None) >= 1000);
}

const LUA: &str = "
local sum = 0
local function step(i, kind)
  if kind == 1 then return i % 7 elseif kind == 2 then return i * 0.5 else return #tostring(i) end
end
for round = 1, 30 do
  for i = 1, 300 do sum = sum + step(i, round % 3) end
  local words = {}
  for i = 1, 100 do words[i] = string.format('%03d', (i * 7919) % 1000) end
  table.sort(words)
  sum = sum + tonumber(words[50])
end
print(sum)
";

#[test]
fn a_script_of_luajit() {
    if !can_synthesize() || !has_tool("luajit") {
        return;
    }
    let words = ["luajit", "-e", LUA];
    let alone = output_of(Command::new("luajit").args(&words[1..]));
    check("luajit", &words, Some(&alone));
}

const CLASS: &str = "
public class Made {
  static long step(int i, int kind) {
    return kind == 1 ? i % 7 : kind == 2 ? i / 2 : Integer.toString(i).length();
  }
  public static void main(String[] words) {
    long sum = 0;
    for (int round = 0; round < 60; round++)
      for (int i = 0; i < 2000; i++) sum += step(i, round % 3);
    System.out.println(sum);
  }
}
";

/// An interpreter whose templates are made at run time, and two compilers, in threads of their own; pages stay writable
/// and executable.
#[test]
fn a_class_of_java() {
    if !can_synthesize() || !has_tool("java") || !has_tool("javac") {
        return;
    }
    let keep = tempfile::tempdir().expect("a directory");
    let source = keep.path().join("Made.java");
    fs::write(&source, CLASS).expect("it is written");
    output_of(Command::new("javac").arg(&source));
    let words = ["java", "-cp", text(keep.path()), "Made"];
    let alone = output_of(Command::new("java").args(&words[1..]));
    assert!(check("java", &words, Some(&alone)) > 100);
}

const SCRIPT: &str = "
function step(i, kind) { return kind == 1 ? i % 7 : kind == 2 ? i * 0.5 : String(i).length }
let sum = 0;
for (let round = 0; round < 60; round++)
  for (let i = 0; i < 2000; i++) sum += step(i, round % 3);
console.log(sum);
";

#[test]
fn a_script_of_node() {
    if !can_synthesize() || !has_tool("node") {
        return;
    }
    let words = ["node", "-e", SCRIPT];
    let alone = output_of(Command::new("node").args(&words[1..]));
    check("node", &words, Some(&alone));
}
