//! Real programs under `mote pt synth`: what is followed from their packets is what they have executed, instruction by
//! instruction, and they do what they do without it. Those that take minutes are run by `cargo xtask soak --only
//! real-programs` (`MOTE_REAL_PROGRAMS=all`).

use crate::support::command::{json, json_lines, mote, number, printed, text};
use crate::support::compiled::{can_synthesize, compile, has_rustc};
use crate::support::{has_tool, output_of, skip};
use std::path::Path;
use std::process::Command;
use std::time::Instant;
use tempfile::TempDir;

/// Whether those that take minutes are to be run.
pub(crate) fn is_long() -> bool {
    std::env::var_os("MOTE_REAL_PROGRAMS").is_some()
}

/// Runs a program, and follows its packets; says how many instructions those were. `output` is what it prints.
#[track_caller]
fn check(keep: &TempDir, name: &str, more: &[&str], words: &[&str], output: Option<&str>) -> u64 {
    let capture = keep.path().join(format!("capture-{name}"));
    let began = Instant::now();
    let synth = ["pt", "synth", "--format", "json", "-o", text(&capture)];
    let run = mote(&[&synth[..], more, &["--"], words].concat());
    let said = String::from_utf8_lossy(&run.stderr).into_owned();
    let last = said.lines().last().and_then(|line| line.strip_prefix("mote: ")).expect(&said);
    assert_eq!(json(last)["status"], 0, "{name}: {said}");
    if let Some(output) = output {
        assert_eq!(String::from_utf8_lossy(&run.stdout), output, "{name}: {said}");
    }
    let (synth, began) = (began.elapsed(), Instant::now());
    let check = mote(&["pt", "check", text(&capture), "--format", "json"]);
    let threads = json_lines(&printed(check)).collect::<Vec<_>>();
    let mut instructions = 0;
    for thread in &threads {
        assert!(thread["gap_count"] == 0 && thread["as_executed"] == true, "{name}: {thread}");
        instructions += number(&thread["instructions"]);
    }
    assert_eq!(number(&json(last)["instructions"]), instructions, "{name}");
    println!(
        "real program {name}: {instructions} instructions of {} threads as executed; {:.1} s to run, {:.1} s to follow",
        threads.len(),
        synth.as_secs_f64(),
        began.elapsed().as_secs_f64()
    );
    std::fs::remove_dir_all(&capture).expect("it was there");
    instructions
}

/// The program does the same without us.
fn alone(words: &[&str]) -> String {
    output_of(Command::new(words[0]).args(&words[1..]))
}

#[test]
fn panics_of_rust_that_are_caught() {
    if !can_synthesize() || !has_rustc() {
        return;
    }
    let keep = tempfile::tempdir().expect("a directory");
    let program = compile(&keep, "caught.rs", &["-O"]);
    let output = alone(&[text(&program)]);
    assert!(output.starts_with("25 caught, "), "{output}");
    check(&keep, "rust", &[], &[text(&program)], Some(&output));
}

#[test]
fn exceptions_of_cpp() {
    if !can_synthesize() {
        return;
    }
    let keep = tempfile::tempdir().expect("a directory");
    let program = compile(&keep, "thrown.cpp", &["-O2"]);
    let output = alone(&[text(&program)]);
    check(&keep, "cpp", &["--long-tnt"], &[text(&program)], Some(&output));
}

/// Panics that are recovered, faults that become panics, goroutines on several threads, stacks that are copied when
/// they grow.
#[test]
fn panics_and_goroutines_of_go() {
    if !can_synthesize() || !has_tool("go") {
        return;
    }
    let keep = tempfile::tempdir().expect("a directory");
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("programs/go/panics.go");
    let program = keep.path().join("panics");
    let mut go = Command::new("go");
    go.args(["build", "-o"]).arg(&program).arg(source).env("GOCACHE", keep.path().join("cache"));
    output_of(go.env("GOFLAGS", "-mod=mod").env("GO111MODULE", "off").env("GOPATH", keep.path()));
    let output = alone(&[text(&program)]);
    assert!(output.starts_with("6 kinds, "), "{output}");
    check(&keep, "go", &[], &[text(&program)], Some(&output));
}

const LUA: &str = "
local function fails(n) if n == 0 then error({code = 7}) end; return fails(n - 1) + 1 end
local caught, sum = 0, 0
for round = 1, ROUNDS do
  local ok, why = pcall(fails, round % 50)
  caught = caught + (ok and 0 or why.code)
  local numbers = {}
  for i = 1, 200 do numbers[i] = (i * 7919) % 1009 end
  table.sort(numbers)
  sum = sum + numbers[100] + #string.rep('ab', round):gsub('a', '%0%0')
end
local produce = coroutine.wrap(function() for i = 1, 100 do coroutine.yield(i) end end)
for i = 1, 100 do sum = sum + produce() end
print(caught, sum)
";

/// A script of so many rounds.
pub(crate) fn script_of_lua(rounds: u32) -> String {
    LUA.replace("ROUNDS", &rounds.to_string())
}

#[test]
fn a_script_of_lua() {
    let Some(lua) = ["lua5.4", "lua5.3", "lua"].into_iter().find(|name| crate::support::is_there(name))
    else {
        skip("there is no lua (package lua5.4)");
        return;
    };
    if !can_synthesize() {
        return;
    }
    let keep = tempfile::tempdir().expect("a directory");
    let script = script_of_lua(if is_long() { 20_000 } else { 20 });
    let words = [lua, "-e", &script];
    check(&keep, "lua", &[], &words, Some(&alone(&words)));
}

/// Statements for SQLite about a table of so many rows.
pub(crate) fn query(rows: u32) -> String {
    format!(
        "create table t(id integer primary key, word text, number real);
         with recursive n(i) as (select 1 union all select i + 1 from n where i < {rows})
           insert into t select i, printf('%x', i * 7919), i * 0.5 from n;
         create index by_word on t(word);
         begin; update t set number = number + 1 where word like 'a%'; rollback;
         select count(*), sum(number), max(word) from t where word > '5' group by substr(word, 1, 1);"
    )
}

#[test]
fn queries_of_sqlite() {
    if !can_synthesize() || !has_tool("sqlite3") {
        return;
    }
    let keep = tempfile::tempdir().expect("a directory");
    let query = query(if is_long() { 50_000 } else { 100 });
    let words = ["sqlite3", ":memory:", &query];
    check(&keep, "sqlite3", &[], &words, Some(&alone(&words)));
}

/// Of its own tests those that use much of the interpreter: exceptions, generators, threads, and code in C.
#[test]
fn tests_of_python() {
    const TESTS: [&str; 6] =
        ["test_exceptions", "test_generators", "test_thread", "test_json", "test_dict", "test_struct"];
    if !is_long() || !can_synthesize() {
        return;
    }
    if !Command::new("python3")
        .args(["-c", "import test.test_json"])
        .output()
        .is_ok_and(|done| done.status.success())
    {
        skip("there is no python3 with its own tests (package libpython3-testsuite)");
        return;
    }
    let keep = tempfile::tempdir().expect("a directory");
    check(&keep, "python3", &[], &[&["python3", "-m", "test"][..], &TESTS].concat(), None);
}

/// The C compiler proper, on a source of ours with all the headers that it needs.
#[test]
fn a_compiler() {
    if !is_long() || !can_synthesize() {
        return;
    }
    let found = output_of(Command::new("gcc").arg("-print-prog-name=cc1"));
    let keep = tempfile::tempdir().expect("a directory");
    let from = Path::new(env!("CARGO_MANIFEST_DIR")).join("../crates/record/synth/src/qemu/plugin.c");
    let source = keep.path().join("source.i");
    output_of(Command::new("gcc").args(["-E", "-o"]).arg(&source).arg(from));
    // As much work as a file gives: -O3 alone is 700 million instructions.
    let work = ["-quiet", "-O3", "-g", "-fsanitize=address,undefined", "-o", "/dev/null"];
    let words = [&[found.trim(), text(&source)][..], &work].concat();
    let instructions = check(&keep, "cc1", &["--psb", "1048576"], &words, None);
    assert!(instructions > 1_000_000_000, "{instructions}");
}
