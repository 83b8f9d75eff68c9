//! `mote pt synth --engine system`: a processor's packets, of programs and of the kernel, and what was executed, from
//! them.

use crate::support::command::{json, json_lines, mote, number, printed, text};
use crate::support::compiled::compile;
use crate::support::{has_tool, skip};
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A kernel for the guest: the one that `cargo xtask tools` has fetched, or one of this machine; `None`, said loudly,
/// where one cannot be run.
pub(crate) fn kernel() -> Option<PathBuf> {
    if !has_tool("qemu-system-x86_64") || !has_tool("cc") {
        skip(
            "mote pt synth --engine system: there is no qemu-system-x86_64 (package qemu-system-x86), or no C compiler",
        );
        return None;
    }
    let fetched = Path::new(env!("CARGO_MANIFEST_DIR")).join("../target/kernel/vmlinuz");
    let of_machine = fs::read_dir("/boot").into_iter().flatten().flatten().map(|entry| entry.path());
    let is_kernel = |path: &PathBuf| path.to_string_lossy().contains("vmlinuz") && path.is_file();
    let kernel = [fetched].into_iter().chain(of_machine).find(is_kernel);
    if kernel.is_none() {
        skip("there is no kernel for a guest: cargo xtask tools, or apt-get install linux-image-amd64");
    }
    kernel
}

#[test]
fn a_processor_is_followed_through_programs_and_the_kernel() {
    let Some(kernel) = kernel() else { return };
    let keep = tempfile::tempdir().expect("a directory");
    let capture = keep.path().join("capture");
    let program = compile(&keep, "system.c", &["-O1", "-static"]);
    let synth = ["pt", "synth", "--engine", "system", "--kernel", text(&kernel), "-o", text(&capture)];
    let run = mote(&[&synth[..], &["--cyc", "1", "--", text(&program)]].concat());
    assert_eq!(run.status.code(), Some(5), "{}", String::from_utf8_lossy(&run.stderr));
    let said = String::from_utf8(run.stdout).expect("text");
    let alarms: u64 = said.split(' ').next().and_then(|count| count.parse().ok()).expect(&said);
    assert_eq!(said, format!("{alarms} alarms, the other program has said 7\n"));

    // Instruction by instruction, as its packets say.
    let checked = printed(mote(&["pt", "check", text(&capture), "--format", "json"]));
    let checked: Vec<_> = json_lines(&checked).collect();
    assert_eq!(checked.len(), 1);
    assert_eq!((number(&checked[0]["cpu"]), &checked[0]["as_executed"]), (0, &true.into()), "{}", checked[0]);
    assert!(number(&checked[0]["instructions"]) > 1_000_000);
    assert!(number(&checked[0]["packets"]["PIP"]) > 10);

    // What the program does, and what the kernel does for it.
    let calls = printed(mote(&["pt", "calls", text(&capture), "--format", "json"]));
    let calls: BTreeMap<String, u64> = json_lines(&calls)
        .map(|function| {
            (function["function"].as_str().expect("a name").to_owned(), number(&function["calls"]))
        })
        .collect();
    let count = |name: &str| calls.get(name).copied().unwrap_or_default();
    for (name, expected) in [("calls", 1), ("faults", 2), ("other_program", 1), ("changing_code", 1)] {
        assert_eq!(count(name), expected, "{name}");
    }
    assert!(count("exc_page_fault") > 80, "{calls:?}");

    // What is entered by a jump (through a retpoline, for instance), or by the kernel's return, is no call.
    let entered = |name: &str| {
        let flow = printed(mote(&["pt", "flow", text(&capture), "-f", name, "--format", "json"]));
        json_lines(&flow).filter(|line| line["offset"] == 0).count() as u64
    };
    for (name, expected) in [("handler", alarms), ("__x64_sys_getpid", 10), ("__x64_sys_setitimer", 2)] {
        assert_eq!(entered(name), expected, "{name}");
    }
    assert!(alarms > 1 && entered("it_real_fn") >= alarms, "a timer's interrupts");
    assert!(entered("__switch_to") > 4);

    system_calls_are_those_of_the_program(&capture);

    // Code that a static key has patched was executed: it is noted, as the kernel's file has what was there before.
    let sideband = fs::read_to_string(capture.join("sideband.jsonl")).expect("notes");
    let patched = json_lines(&sideband).filter(|note| note["kind"] == "code" && note["pid"] == -1).count();
    assert!(patched > 4, "{patched} notes");
    assert!(sideband.contains(r#""kind":"exec""#) && sideband.contains(r#""kind":"switch""#));
}

/// What the kernel does in system calls, from inside: by paths, and between two instructions.
fn system_calls_are_those_of_the_program(capture: &Path) {
    let page = capture.join("page.html");
    let words = ["pt", "syscalls", text(capture), "--html", text(&page), "--format", "json"];
    let objects: Vec<Value> = json_lines(&printed(mote(&words))).collect();
    let calls = objects.iter().filter(|object| object["kind"] == "syscall");
    let by_name: BTreeMap<&str, &Value> =
        calls.map(|object| (object["name"].as_str().expect("a name"), object)).collect();
    for (name, expected) in [("getpid", 10), ("setitimer", 2), ("execve", 2)] {
        assert_eq!(by_name.get(name).map(|call| number(&call["calls"])), Some(expected), "{name}");
    }
    let getpid = &by_name["getpid"]["instructions"];
    let fewest = number(&getpid["min"]);
    assert!(fewest > 20 && by_name["getpid"]["p50_ns"][1].is_u64(), "{}", by_name["getpid"]);
    // A path has how often it was gone; all of them are the call's instructions.
    let ends = |object: &Value, name: &str| {
        let path = object["path"].as_array().cloned().unwrap_or_default();
        path.first().is_some_and(|first| first == "getpid") && path.last().is_some_and(|last| last == name)
    };
    let path = objects.iter().find(|object| ends(object, "__x64_sys_getpid_[k]")).expect("its path");
    assert_eq!(number(&path["calls"]), 10);
    let whole = objects.iter().find(|object| ends(object, "getpid")).expect("the whole");
    assert!(number(&whole["total"]) >= 10 * fewest && number(&whole["self"]) == 0, "{whole}");
    // From the instruction that enters the kernel to that which leaves it.
    let words = ["pt", "delta", text(capture), "syscall", "sysret", "--worst", "0", "--format", "json"];
    let first = printed(mote(&words)).lines().next().map(str::to_owned).expect("sums");
    let sums = json(&first)["sums"].clone();
    let least = by_name.values().map(|call| number(&call["instructions"]["min"])).min();
    assert_eq!(Some(number(&sums["instructions"]["min"])), least);
    let words =
        ["pt", "delta", text(capture), "superCLI | cli", "superSTI", "--worst", "1", "--format", "json"];
    let disabled: Vec<Value> = json_lines(&printed(mote(&words))).collect();
    assert!(number(&disabled[0]["sums"]["intervals"]) > 100, "{}", disabled[0]);
    let html = std::fs::read_to_string(&page).expect("a page");
    assert!(html.contains("\"type\":\"sunburst\"") && html.contains("__x64_sys_getpid"));
}

/// libipt's flow, compiled; `None`, said loudly, where there is no libipt.
fn libipt(folder: &Path) -> Option<PathBuf> {
    let reader = folder.join("libipt_flow");
    let source =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../crates/record/synth/tests/programs/libipt_flow.c");
    let built = Command::new("cc").args(["-O1", "-w", "-o"]).arg(&reader).arg(source).arg("-lipt").output();
    if built.is_ok_and(|built| built.status.success()) {
        return Some(reader);
    }
    skip("there is no libipt: apt-get install libipt-dev");
    None
}

/// The code of a capture, as words for libipt: of which address space, which bytes of which file, at which address.
/// `None` where the kernel has changed its own, which libipt has no versions for.
fn code_for_libipt(capture: &Path, folder: &Path) -> Option<Vec<String>> {
    let sideband = fs::read_to_string(capture.join("sideband.jsonl")).expect("notes");
    // The first code of a program may be noted one instruction before its address space.
    const SOON: u64 = 16;
    let spaces: Vec<Value> = json_lines(&sideband).filter(|note| note["kind"] == "address_space").collect();
    let mut words = Vec::new();
    for (index, note) in json_lines(&sideband).enumerate() {
        let pid = note["pid"].as_i64().unwrap_or(0);
        let text = |name: &str| note[name].as_str().expect("text").to_owned();
        let when = |note: &Value| note["instructions"].as_u64().unwrap_or(0);
        let is_its = |space: &&Value| space["pid"] == note["pid"] && when(space) <= when(&note) + SOON;
        let space = spaces.iter().rev().find(is_its).and_then(|space| space["cr3"].as_str());
        let space = space.map_or("cr3=any".to_owned(), |cr3| format!("cr3={cr3}"));
        let (path, offset, bytes) = match note["kind"].as_str() {
            Some("image") => (capture.join(text("path")), number(&note["offset"]), number(&note["bytes"])),
            Some("code") if pid == -1 => return None,
            Some("code") => {
                let path = folder.join(format!("{index}.code"));
                let code = text("code");
                let digits = |at: usize| code.get(2 * at..2 * at + 2);
                let byte = |digits| u8::from_str_radix(digits, 16).expect("hexadecimal");
                let code: Vec<u8> = (0..).map_while(digits).map(byte).collect();
                fs::write(&path, &code).expect("a file");
                (path, 0, code.len() as u64)
            }
            _ => continue,
        };
        words.extend([
            space,
            path.to_string_lossy().into_owned(),
            offset.to_string(),
            bytes.to_string(),
            text("start"),
        ]);
    }
    Some(words)
}

/// A second opinion: Intel's library, with an image for each CR3, goes through programs, the kernel and interrupts to
/// the same instructions.
///
/// Returns are not compressed here. libipt (2.0.5, and 2.2 the same) takes no call from its stack where a return has a
/// TIP, as each return through a retpoline has, and finds other callers for those behind it. By the manual (SDM
/// 33.4.2.2, "Indirect Transfer Compression for Returns": "for near RETs, pop"), by perf and by us it does: with
/// compression, it is perf that agrees.
#[test]
fn libipt_follows_a_processor_to_the_same_instructions() {
    let Some(kernel) = kernel() else { return };
    let keep = tempfile::tempdir().expect("a directory");
    let Some(reader) = libipt(keep.path()) else { return };
    let capture = keep.path().join("capture");
    let synth = ["pt", "synth", "--engine", "system", "--kernel", text(&kernel), "-o", text(&capture)];
    let more = ["--no-return-compression", "--cyc", "1", "--psb", "1024", "--", "/bin/true"];
    let run = mote(&[&synth[..], &more].concat());
    assert!(run.status.success(), "{}", String::from_utf8_lossy(&run.stderr));
    let Some(code) = code_for_libipt(&capture, keep.path()) else {
        return skip("the kernel has changed its code: libipt has no versions of it");
    };
    let found = Command::new(&reader).arg("insn").arg(capture.join("cpu0.pt")).args(code).output();
    let found = found.expect("it runs");
    assert_eq!(String::from_utf8_lossy(&found.stderr), "");
    let truth = fs::read_to_string(capture.join("truth.jsonl")).expect("a truth");
    let truth = json_lines(&truth).next().expect("a processor");
    let digest = u64::from_str_radix(truth["digest"].as_str().expect("text"), 16).expect("hexadecimal");
    let found = String::from_utf8(found.stdout).expect("text");
    let expected = format!("{} {digest} 0", number(&truth["instructions"]));
    assert_eq!(found.split_once(' ').map(|(_, found)| found.trim()), Some(&*expected));
}

#[test]
fn what_a_guest_cannot_have_is_said() {
    if kernel().is_none() {
        return;
    }
    let keep = tempfile::tempdir().expect("a directory");
    let program = keep.path().join("program");
    fs::write(&program, "text").expect("a file");
    for (words, why) in [
        (["--kernel", "/nowhere", "--", "true"].as_slice(), "read the kernel /nowhere"),
        (&["--kernel", text(&program), "--", "true"], "is no kernel that can be unpacked"),
        (&["--interrupt-every", "100", "--", "true"], "has interrupts of its own"),
    ] {
        let capture = keep.path().join("capture");
        let synth = ["pt", "synth", "--engine", "system", "-o", text(&capture)];
        let run = mote(&[&synth[..], words].concat());
        let said = String::from_utf8_lossy(&run.stderr).into_owned();
        assert!(run.status.code() == Some(2) && said.contains(why), "{said}");
        let _ = fs::remove_dir_all(capture);
    }
}

/// Several processors: each one's packets are followed, threads change places between them, and the kernel patches
/// itself on one while the other one executes what is patched.
#[test]
fn several_processors_are_followed() {
    let Some(kernel) = kernel() else { return };
    let keep = tempfile::tempdir().expect("a directory");
    let capture = keep.path().join("capture");
    let program = compile(&keep, "migrates.c", &["-O1", "-static"]);
    let synth = ["pt", "synth", "--engine", "system", "--kernel", text(&kernel), "-o", text(&capture)];
    let run = mote(&[&synth[..], &["--smp", "2", "--", text(&program)]].concat());
    assert_eq!(
        String::from_utf8_lossy(&run.stdout),
        "12 12 moves\n",
        "{}",
        String::from_utf8_lossy(&run.stderr)
    );

    let checked = printed(mote(&["pt", "check", text(&capture), "--format", "json"]));
    let checked: Vec<_> = json_lines(&checked).collect();
    let cpus: Vec<u64> = checked.iter().map(|stream| number(&stream["cpu"])).collect();
    assert_eq!(cpus, [0, 1]);
    for stream in &checked {
        assert!(stream["as_executed"] == true && number(&stream["instructions"]) > 100_000, "{stream}");
    }

    // Both threads were on both processors: each half of their rounds.
    let sideband = fs::read_to_string(capture.join("sideband.jsonl")).expect("notes");
    let mut places: BTreeMap<u64, BTreeMap<u64, u64>> = BTreeMap::new();
    let is_switch = |note: &serde_json::Value| note["kind"] == "switch";
    for note in json_lines(&sideband).filter(is_switch) {
        *places.entry(number(&note["tid"])).or_default().entry(number(&note["cpu"])).or_default() += 1;
    }
    assert!(places.values().filter(|cpus| cpus.len() == 2).count() >= 2, "{places:?}");
    let flow = ["pt", "flow", text(&capture), "-f", "here", "-f", "there", "--format", "json"];
    let mut entered: BTreeMap<(String, u64), u64> = BTreeMap::new();
    for line in json_lines(&printed(mote(&flow))).filter(|line| line["offset"] == 0) {
        let function = line["function"].as_str().expect("a name").to_owned();
        *entered.entry((function, number(&line["cpu"]))).or_default() += 1;
    }
    let expected = [(("here".to_owned(), 0), 12), (("there".to_owned(), 1), 12)];
    assert_eq!(entered, BTreeMap::from(expected));
}
