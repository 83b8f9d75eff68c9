//! `mote pt impact`: what tracers add to a program is what the emulator has counted.

use crate::kernels_are_followed::kernel;
use crate::support::command::{data_of_page, json_lines, mote, named, number, printed, text};
use crate::support::compiled::{can_synthesize, compile};
use crate::support::{has_tool, output_of, programs, skip};
use serde_json::Value;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;
use tempfile::TempDir;

/// Events of a run, and what the tracer of `impact.c` adds for each: a call and 5 instructions.
const EVENTS: u64 = 3000;
const EACH: f64 = 6.0;

/// The program, and the words that run it under the tracer of its own, and that say how many events there were.
fn made_up(keep: &TempDir) -> Option<(PathBuf, [String; 2])> {
    if !can_synthesize() {
        return None;
    }
    let program = compile(keep, "impact.c", &["-O1"]);
    let library = compile(keep, "impact.c", &["-O1", "-DTRACER", "-shared", "-fPIC"]);
    let count = keep.path().join("count");
    let wrap = format!("env LD_PRELOAD={} COUNT_FILE={}", text(&library), text(&count));
    Some((program, [wrap, format!("cat {}", text(&count))]))
}

fn objects(words: &[&str]) -> Vec<Value> {
    json_lines(&printed(mote(&[&["pt", "impact", "--format", "json"], words].concat()))).collect()
}

fn kind<'v>(objects: &'v [Value], kind: &str) -> Vec<&'v Value> {
    objects.iter().filter(|object| object["kind"] == kind).collect()
}

/// The tracer of this name, which must have been measured.
#[track_caller]
fn tracer<'v>(objects: &'v [Value], name: &str) -> &'v Value {
    let found = objects.iter().find(|object| object["kind"] == "tracer" && object["name"] == name);
    let found = found.unwrap_or_else(|| panic!("no {name} in {objects:?}"));
    assert!(found["why"].is_null(), "{found}");
    found
}

/// What the emulator's plugin has counted of all threads of a capture, whatever packets say.
fn executed(capture: &Path) -> u64 {
    let truth = fs::read_to_string(capture.join("truth.jsonl")).expect("the truth");
    json_lines(&truth).map(|line| number(&line["instructions"])).sum()
}

#[test]
fn a_made_up_tracer_adds_what_it_is_made_of() {
    let keep = tempfile::tempdir().expect("a directory");
    let Some((program, [wrap, count])) = made_up(&keep) else { return };
    let (output, page) = (keep.path().join("runs"), keep.path().join("page.html"));
    let events = EVENTS.to_string();
    let words = ["--wrap", &wrap, "--count", &count, "-o", text(&output), "--html", text(&page)];
    let objects = objects(&[&words[..], &["--", text(&program), &events]].concat());
    let own = tracer(&objects, "own");
    assert_eq!((number(&own["events"]), own["for_each"].as_f64()), (EVENTS, Some(EACH)), "{own}");
    assert_eq!(number(&own["of_events"]), EVENTS * 6);
    // What is once is beside it: the loop of the library's constructor, for instance.
    assert!(number(&own["beside"]) > 300_000 && number(&own["status"]) == 0, "{own}");

    // All instructions are those that the plugin has counted; those of the shell and env are others'.
    let bare = kind(&objects, "bare")[0];
    assert_eq!(number(&bare["instructions"]), executed(&output.join("bare")), "{bare}");
    assert_eq!(number(&bare["again"]), executed(&output.join("bare-again")));
    let traced = number(&own["instructions"]);
    assert_eq!(traced + number(&own["others"]), executed(&output.join("own")), "{own}");
    assert!(number(&own["others"]) > 10_000);
    assert_eq!(number(&own["more"]), traced - number(&bare["instructions"]));

    // On these paths.
    let paths = kind(&objects, "path").into_iter().filter(|path| path["of_events"] == true);
    let ends: Vec<(&str, u64, u64)> = paths
        .map(|path| {
            let name = path["path"].as_array().and_then(|path| path.last()).and_then(Value::as_str);
            let of = |side: usize| number(&path["instructions"][side]);
            (name.expect("a name"), of(0), of(1))
        })
        .collect();
    let expected = [("on_event", 0, 5 * EVENTS), ("work", 4 * EVENTS, 5 * EVENTS)];
    assert_eq!(ends, expected);

    let data = data_of_page(&page);
    let views = data["views"].as_array().expect("views");
    let types: Vec<&str> = views.iter().filter_map(|view| view["type"].as_str()).collect();
    assert_eq!(types, ["table", "sunburst", "table", "sunburst"]);
    assert_eq!(views[0]["rows"][0][2].as_f64(), Some(EACH));
    // The captures are those of any other verb.
    let [bare, own] = ["bare", "own"].map(|name| output.join(name));
    printed(mote(&["pt", "diff", text(&bare), text(&own)]));
}

#[test]
fn motes_own_events_have_their_impact() {
    if !can_synthesize() {
        return;
    }
    let events = EVENTS.to_string();
    let objects = objects(&["--tracer", "mote", "--", programs::scenes(), "count", &events]);
    let mote = tracer(&objects, "mote");
    assert_eq!((number(&mote["events"]), number(&mote["lost"])), (EVENTS, 0), "{mote}");
    let each = mote["for_each"].as_f64().expect("a number");
    // There are no restartable sequences under qemu-user: what they take is counted in the linked code.
    let linked = number(&mote["linked"]["e2e:count"]) as f64;
    assert!((30.0..100.0).contains(&linked) && (linked..1000.0).contains(&each), "{mote}");
}

/// `two_ints.c` under a tracer: it has recorded each of the events, and executes more for them.
fn check_two_ints(name: &str, program: &Path) {
    let objects = objects(&["--tracer", name, "--", text(program), &EVENTS.to_string()]);
    let one = tracer(&objects, name);
    let each = one["for_each"].as_f64().expect("a number");
    let events = one["by_event"].as_object().expect("events").iter();
    let of_program = events.filter(|(name, _)| ["event", "bench:two_ints"].contains(&name.as_str()));
    let recorded: Vec<u64> = of_program.map(|(_, count)| number(count)).collect();
    assert_eq!((recorded, number(&one["lost"])), (vec![EVENTS], 0), "{one}");
    assert!((10.0..2000.0).contains(&each), "{one}");
    // In the function that each event is in, and what that calls.
    let of_events = kind(&objects, "path").into_iter().filter(|path| path["of_events"] == true);
    let is_in = |path: &&Value| path["path"].as_array().is_some_and(|path| path.contains(&"event".into()));
    let more: u64 = of_events.filter(is_in).map(|path| number(&path["instructions"][1])).sum();
    assert!(more as f64 > 0.9 * each * EVENTS as f64, "{more} of {each} each");
}

#[test]
fn calls_that_uftrace_records_have_their_impact() {
    let keep = tempfile::tempdir().expect("a directory");
    if can_synthesize() && has_tool("uftrace") {
        check_two_ints("uftrace", &compile(&keep, "two_ints.c", &["-O1", "-finstrument-functions"]));
    }
}

#[test]
fn events_of_lttng_have_their_impact_and_no_daemon_stays() {
    let keep = tempfile::tempdir().expect("a directory");
    if !can_synthesize() || !has_tool("lttng-sessiond") {
        return;
    }
    let words = ["-fsyntax-only", "-include", "lttng/tracepoint.h", "-x", "c", "/dev/null"];
    if !Command::new("cc").args(words).output().is_ok_and(|run| run.status.success()) {
        skip("there is no liblttng-ust-dev");
        return;
    }
    let here = format!("-I{}/programs/c", env!("CARGO_MANIFEST_DIR"));
    let words = ["-O1", "-DLTTNG", &here, "-Wl,--no-as-needed", "-llttng-ust"];
    let program = compile(&keep, "two_ints.c", &words);
    let daemons = || output_of(Command::new("sh").args(["-c", "pgrep -c lttng-sessiond || true"]));
    let before = daemons();
    check_two_ints("lttng-ust", &program);
    assert_eq!(daemons(), before);
}

/// With a kernel: what a tracer makes it do for each system call, and restartable sequences.
#[test]
fn tracers_that_need_a_kernel_have_their_impact() {
    let keep = tempfile::tempdir().expect("a directory");
    let Some(kernel) = kernel() else { return };
    if has_tool("strace") {
        let program = compile(&keep, "two_ints.c", &["-O1", "-static", "-DCALLS"]);
        let words = ["--engine", "system", "--kernel", text(&kernel), "--tracer", "strace", "--"];
        let objects = objects(&[&words[..], &[text(&program), "200"]].concat());
        let strace = tracer(&objects, "strace");
        assert_eq!(number(&strace["by_event"]["getppid"]), 200, "{strace}");
        let is_of_ptrace = |path: &&Value| path["path"].to_string().contains("ptrace_notify_[k]");
        let paths = kind(&objects, "path").into_iter().filter(|path| path["of_events"] == true);
        let stops: u64 = paths.filter(is_of_ptrace).map(|path| number(&path["instructions"][1])).sum();
        // Twice for each call, the thread waits for strace.
        assert!(stops > 200 * 1000, "{strace}");
    }
    let events = EVENTS.to_string();
    let words = ["--engine", "system", "--kernel", text(&kernel), "--tracer", "mote"];
    let objects = objects(&[&words[..], &["--", programs::scenes(), "count", &events]].concat());
    let mote = tracer(&objects, "mote");
    let [each, user] = ["for_each", "for_each_user"].map(|name| mote[name].as_f64().expect("a number"));
    assert_eq!(number(&mote["events"]), EVENTS, "{mote}");
    // By a restartable sequence; the kernel maps pages of the ring, which are new.
    assert!((20.0..100.0).contains(&user) && user < each, "{mote}");
}

#[test]
fn a_tracer_that_is_not_there_is_a_sentence() {
    let keep = tempfile::tempdir().expect("a directory");
    let Some((program, [wrap, count])) = made_up(&keep) else { return };
    // Nothing but what the emulator needs.
    let path = keep.path().join("path");
    fs::create_dir(&path).expect("a directory");
    for name in ["qemu-x86_64", "cc", "as", "ld", "env", "cat"] {
        let real = output_of(Command::new("sh").args(["-c", &format!("command -v {name}")]));
        symlink(real.trim(), path.join(name)).expect("a link");
    }
    let run = |words: &[&str]| {
        let mut command = Command::new(programs::mote());
        let command = command.args(["pt", "impact", "--format", "json"]).args(words).env("PATH", &path);
        command.args(["--", text(&program), "50"]).output().expect("mote runs")
    };
    let output = run(&["--tracer", "uftrace", "--tracer", "lttng-ust"]);
    assert_eq!(output.status.code(), Some(1), "{}", String::from_utf8_lossy(&output.stderr));
    let printed_text = String::from_utf8(output.stdout).expect("UTF-8");
    let objects: Vec<Value> = json_lines(&printed_text).collect();
    let all = Value::from(kind(&objects, "tracer").into_iter().cloned().collect::<Vec<_>>());
    assert_eq!(named(&all, "uftrace")["why"], "there is no uftrace: apt-get install uftrace");
    assert_eq!(named(&all, "lttng-ust")["why"], "there is no lttng: apt-get install lttng-tools");
    // Beside one that is there, it is no failure. One that has recorded nothing is a sentence, too.
    let output = run(&["--tracer", "uftrace", "--wrap", &wrap, "--count", &count]);
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    for (wrap, count, part) in [
        (&*wrap, "echo 0", "has recorded no event"),
        (&*wrap, "echo many", "--count printed no number: many"),
        ("false", "echo 7", "has not started the program"),
    ] {
        let output = run(&["--wrap", wrap, "--count", count]);
        let said = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.code() == Some(1) && said.contains(part), "{said}");
    }
}

#[test]
fn what_cannot_be_measured_is_said() {
    if !can_synthesize() {
        return;
    }
    for (words, part) in [
        (&["--tracer", "dtrace", "--", "true"][..], "there is no tracer dtrace: give one of mote, "),
        (&["--tracer", "strace", "--", "true"], "strace is measured with --engine system"),
        (&["--", "/nowhere/app"], "there is no program /nowhere/app"),
        (&["--wrap", "env", "--", "true"], "--count"),
    ] {
        let run = mote(&[&["pt", "impact"], words].concat());
        let said = String::from_utf8_lossy(&run.stderr).into_owned();
        assert!(run.status.code() == Some(2) && said.contains(part), "{words:?}: {said}");
    }
}
