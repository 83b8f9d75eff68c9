//! `mote pt vm`: machines, vCPUs and processes, from the packets of processors alone.

use crate::support::command::{data_of_page, json_lines, mote, number, printed, text};
use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};

/// Plays a schedule; returns the capture.
fn played(folder: &Path, script: &str) -> PathBuf {
    let (path, capture) = (folder.join("schedule.txt"), folder.join("capture"));
    fs::write(&path, script).expect("it is written");
    printed(mote(&["pt", "synth", "--vm", text(&path), "-o", text(&capture)]));
    capture
}

fn hex(value: &Value) -> u64 {
    let digits = value.as_str().and_then(|text| text.strip_prefix("0x")).expect("a hexadecimal number");
    u64::from_str_radix(digits, 16).expect("a hexadecimal number")
}

/// Where the packets tell the time, an interval is what was so then.
#[test]
fn every_interval_is_as_it_was() {
    for options in ["", "cyc\n", "mtc 0\npsb 512\n", "skew 1 5000000\n"] {
        let keep = tempfile::tempdir().expect("a directory");
        let script = format!("{options}random seed=11 cpus=2 machines=2 vcpus=3 length=20ms moves=2\n");
        let capture = played(keep.path(), &script);
        let truth = fs::read_to_string(capture.join("truth-vm.jsonl")).expect("the truth");
        let truth: Vec<Value> = json_lines(&truth).collect();
        let shown = printed(mote(&["pt", "vm", text(&capture), "--intervals", "--format", "json"]));
        let (mut compared, mut state) = (0, Vec::new());
        for found in json_lines(&shown).filter(|found| found["state"] != "unknown") {
            let (Some(_), Some(_)) = (found.get("begin"), found.get("end")) else { continue };
            // The changes are told at most a period of MTC too early: 8 ticks of the crystal clock, 100 of the counter.
            let (begin, end) = (hex(&found["begin"]) + 810, hex(&found["end"]));
            let same = |line: &&Value| {
                line["cpu"] == found["cpu"] && hex(&line["begin"]) < end && hex(&line["end"]) > begin
            };
            for line in truth.iter().filter(|line| begin < end && same(line)) {
                compared += 1;
                assert_eq!(found["state"], line["state"], "{found} {line}");
                let is_same =
                    |name: &str, other: &str| found.get(name).is_none_or(|value| *value == line[other]);
                let is_guest = found["state"] == "vm";
                let is_idle = found["state"] == "idle";
                assert!(
                    (is_idle || is_same("vm", "vm")) && (!is_guest || is_same("vcpu", "vcpu")),
                    "{found} {line}"
                );
                assert!(is_same("process", "cr3") && is_same("host", "cr3"), "{found} {line}");
            }
            state.push(found["state"].clone());
        }
        assert!(compared > 500, "{compared}");
        assert!(["vm", "vmm", "host", "idle"].iter().all(|one| state.iter().any(|state| state == one)));
    }
}

#[test]
fn names_and_sums_are_shown() {
    let keep = tempfile::tempdir().expect("a directory");
    let script = "vm web 0x10c2e4000\nvcpu web/0 0x1f3a6000\nvcpu web/1 0x1f3a7000\nprocess web/db 0x6a000 split\n\
                  host sshd 0x20a4000\ncpu 0\nrepeat 100\nvmm web/0 3us\nguest web/0 db 200us\nvmm web/0 2us\n\
                  vmm web/1 3us\nguest web/1 db 100us\nvmm web/1 2us\nhost sshd 40us\nidle 150us\nend\n";
    let capture = played(keep.path(), script);
    let names = keep.path().join("names.txt");
    fs::write(&names, "vmcs 0x1f3a6000 first\ncr3 0x10c2e4000 web\ncr3 0x10c2e4000:0x6a000 database\n")
        .expect("it is written");
    let shown = printed(mote(&["pt", "vm", text(&capture), "--names", text(&names)]));
    for part in ["machine 0x10c2e4000 web\n", "vCPU 0x1f3a6000 first ", "process 0x6a000 database "] {
        assert!(shown.contains(part), "{part}: {shown}");
    }
    let objects = printed(mote(&["pt", "vm", text(&capture), "--format", "json"]));
    let first = json_lines(&objects).find(|line| line["kind"] == "vcpu" && line["vcpu"] == "0x1f3a6000");
    let first = first.expect("the vCPU");
    let ns = number(&first["guest"]["ns"]);
    assert!(number(&first["exits"]) == 100 && ns.abs_diff(20_000_000) < 100_000, "{first}");
    // The page has the same, by processors and by machines.
    let page = keep.path().join("page.html");
    printed(mote(&["pt", "vm", text(&capture), "--names", text(&names), "--html", text(&page)]));
    let data = data_of_page(&page);
    let rows = |view: usize| data["views"][view]["tracks"].as_array().expect("rows");
    let names =
        |view| rows(view).iter().map(|row| row["name"].as_str().unwrap_or_default()).collect::<Vec<_>>();
    assert_eq!(names(0), ["cpu 0"]);
    let expect =
        ["machine 0x10c2e4000 web", "0x1f3a6000 first", "0x6a000 database", "0x1f3a7000", "0x6a000 database"];
    assert_eq!(names(1), expect);
    let intervals = rows(1)[2]["intervals"].as_array().expect("intervals");
    let sum: u64 = intervals.iter().map(|one| number(&one[1]) - number(&one[0])).sum();
    assert!(intervals.len() == 100 && sum.abs_diff(ns) < 1000, "{sum} of {ns}");
}

#[test]
fn what_is_missing_is_said() {
    let keep = tempfile::tempdir().expect("a directory");
    let script = "vm a 0x100000000\nvcpu a/0 0x200000000\nprocess a/p 0x10000\nhost h 0x300000000\n\
                  cpu 0\nrepeat 5\nhost h 5us\nvmm a/0 3us\nlose overflow\nguest a/0 p 90us\nvmm a/0 3us\nresume\nhost h 9us\nend\n";
    let capture = played(keep.path(), script);
    let shown = mote(&["pt", "vm", text(&capture)]);
    let said = String::from_utf8_lossy(&shown.stdout).into_owned();
    assert!(shown.status.code() == Some(2) && said.contains("packets lost 5 times"), "{said}");
    // No packets of time: counts, and no times.
    let folder = tempfile::tempdir().expect("a directory");
    let untimed = script.replace("lose overflow\n", "").replace("resume\n", "");
    let capture = played(folder.path(), &format!("tsc off\nmtc off\n{untimed}"));
    let objects = printed(mote(&["pt", "vm", text(&capture), "--format", "json"]));
    let vcpu = json_lines(&objects).find(|line| line["vcpu"] == "0x200000000").expect("a vCPU");
    assert!(vcpu["exits"] == 5 && vcpu["guest"]["intervals"] == 5 && vcpu["guest"]["ns"].is_null(), "{vcpu}");
    // Nothing of virtual machines.
    let folder = tempfile::tempdir().expect("a directory");
    let capture = played(folder.path(), "host h 0x1000\ncpu 0\nhost h 9us\n");
    let shown = mote(&["pt", "vm", text(&capture)]);
    assert_eq!(shown.status.code(), Some(1));
}

/// Bare packets tell what their MTC packets mean; clocks that differ are noticed; traces for others have each interval.
#[test]
fn bare_packets_are_enough() {
    let keep = tempfile::tempdir().expect("a directory");
    let script = "tsc 168/2\nskew 1 900000000000\nrandom seed=3 cpus=2 machines=1 vcpus=2 length=40ms\n";
    let capture = played(keep.path(), script);
    let bare = keep.path().join("bare");
    fs::create_dir(&bare).expect("a directory");
    let files = ["cpu0.pt", "cpu1.pt"].map(|name| {
        fs::copy(capture.join(name), bare.join(name)).expect("it is copied");
        bare.join(name)
    });
    let [first, second] = [&files[0], &files[1]].map(|path| text(path));
    let objects = |words: &[&str]| {
        let shown = printed(mote(&[&["pt", "vm"], words, &["--format", "json"]].concat()));
        json_lines(&shown).filter(|line| line["kind"] == "vcpu").collect::<Vec<_>>()
    };
    let hz = ["--tsc-hz", "2016000000"];
    for (bare, whole) in objects(&[&[first, second], &hz[..]].concat()).iter().zip(objects(&[text(&capture)]))
    {
        let [bare_ns, whole_ns] = [bare, &whole].map(|vcpu| vcpu["guest"]["ns"].as_u64().unwrap_or(0));
        assert!(bare["vcpu"] == whole["vcpu"] && bare["exits"] == whole["exits"], "{bare} {whole}");
        assert!(bare_ns.abs_diff(whole_ns) <= whole_ns / 1000, "{bare} {whole}");
    }
    let trace = keep.path().join("trace");
    let shown = printed(mote(&["pt", "vm", text(&capture), "-o", text(&trace)]));
    assert!(shown.contains("no time in common"), "{shown}");
    let intervals = printed(mote(&["pt", "vm", text(&capture), "--intervals", "--format", "json"]));
    let timed = json_lines(&intervals).filter(|line| line.get("begin").is_some()).count();
    let events = printed(mote(&["view", text(&trace)]));
    assert!(events.lines().count() == timed && timed > 500, "{} events of {timed}", events.lines().count());
}
