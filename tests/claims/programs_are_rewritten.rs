//! `mote coldpatch --rewrite`: a program or library that knows nothing of probes gets placeholders, does what it did,
//! off and recorded, and its calls are counted as those of the program as it was.

use crate::support::command::{json, mote, printed, text};
use crate::support::compiled::compile;
use crate::support::counting::{Counts, counted_of, counting, numbers};
use crate::support::{Record, copy_program, has_tool, output_of, skip};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use tempfile::TempDir;

/// Rewrites a file as another one of the same name, and returns that with what was told of it.
fn rewritten(keep: &TempDir, file: &Path, words: &[&str]) -> (PathBuf, serde_json::Value) {
    let folder = tempfile::tempdir_in(keep.path()).expect("a directory").keep();
    let out = folder.join(file.file_name().expect("a name"));
    let words = [&["coldpatch", text(file), "-o", text(&out), "--format", "json"], words].concat();
    let told = json(&printed(mote(&words)));
    assert!(told["placeholders"]["rewritten"]["nops"].as_u64().is_some_and(|nops| nops > 0), "{told:#}");
    (out, told)
}

/// How a command is run: its words behind the program, its standard input, and what the dynamic linker is told.
#[derive(Clone, Copy, Default)]
struct Run<'r> {
    words: &'r [&'r str],
    input: Option<&'r Path>,
    linker: Option<(&'static str, &'r Path)>,
}

impl Run<'_> {
    fn with(self, command: &mut Command) -> &mut Command {
        let input =
            self.input.map_or_else(Stdio::null, |path| std::fs::File::open(path).expect("input").into());
        self.linker.map(|(variable, path)| command.env(variable, path));
        command.stdin(input)
    }

    fn alone(self, program: &Path) -> (Option<i32>, Vec<u8>) {
        let done = self.with(Command::new(program).args(self.words)).output().expect("it runs");
        (done.status.code(), done.stdout)
    }

    /// The same while calls are counted.
    fn counted(self, keep: &TempDir, program: &Path, pattern: &str) -> (Vec<u8>, Counts) {
        let dir = tempfile::tempdir_in(keep.path()).expect("a directory");
        let mut command = counting(&[pattern], &dir.path().join("trace"));
        let done = self.with(command.arg("--").arg(program).args(self.words)).output().expect("it runs");
        let said = String::from_utf8_lossy(&done.stderr);
        assert!(done.status.success(), "{said}");
        (done.stdout, counted_of(&said))
    }
}

/// Checks that a program does and counts the same before and after, and returns how many calls that were.
#[track_caller]
fn assert_the_same(keep: &TempDir, run: Run<'_>, before: &Path, after: &Path, pattern: &str) -> u64 {
    let alone = run.alone(before);
    assert_eq!(alone.0, Some(0), "{}", before.display());
    assert!(run.alone(after) == alone, "{}: another output, off", after.display());
    let (out, counts) = run.counted(keep, before, pattern);
    let (out_after, counts_after) = run.counted(keep, after, pattern);
    assert!(out == alone.1 && out_after == alone.1, "{}: another output, recorded", after.display());
    for (name, count) in &counts {
        assert_eq!(counts_after.get(name), Some(count), "{name} of {}", after.display());
    }
    counts.values().map(|(calls, _)| calls).sum()
}

#[test]
fn programs_that_break_tracers_do_what_they_did() {
    let keep = tempfile::tempdir().expect("a directory");
    let run = Run::default();
    for (source, words) in [
        ("odd_calls.cpp", &["-O1"][..]),
        ("odd_calls.cpp", &["-O2", "-fcf-protection", "-no-pie"]),
        ("thrown.cpp", &["-O2"]),
        ("thrown.cpp", &["-O0"]),
        ("values.cpp", &["-O2", "-g"]),
        ("values.c", &["-Os"]),
    ] {
        let before = compile(&keep, source, words);
        let (after, told) = rewritten(&keep, &before, &["--rewrite", "*", "--everywhere"]);
        let pattern = format!("{}:*", before.file_name().expect("a name").to_string_lossy());
        let calls = assert_the_same(&keep, run, &before, &after, &pattern);
        assert!(calls > 10, "{calls}");
        // Each function that has no placeholder has a reason.
        let refused = told["refused"].as_array().expect("a list");
        assert!(refused.iter().all(|one| one["why"].as_str().is_some_and(|why| !why.is_empty())), "{told:#}");
        // Recorded, with their durations.
        let trace = Record::program(&[&after]).with(&["-f", &pattern]).run().ends_with(0);
        assert_eq!(trace.out.as_bytes(), run.alone(&before).1, "{source}");
        assert!(trace.view().len() as u64 >= calls / 2, "{} of {calls}", trace.view().len());
    }
}

#[test]
fn counts_of_rewritten_programs_are_exact() {
    let keep = tempfile::tempdir().expect("a directory");
    let before = compile(&keep, "counted.c", &["-O2"]);
    let (after, _) = rewritten(&keep, &before, &["--rewrite", "*", "--everywhere"]);
    let line = keep.path().join("line");
    std::fs::write(&line, "\n").expect("a file");
    let dir = keep.path().join("trace");
    let mut command = counting(&["counted_c-O2:*"], &dir);
    let input = std::fs::File::open(&line).expect("input");
    let done = command.arg("--").arg(&after).stdin(input).output().expect("it runs");
    let said = String::from_utf8_lossy(&done.stderr);
    let (truth, counts) = (numbers(&said), counted_of(&said));
    assert!(truth.len() == 7 && truth["busy"] == 1_600_000, "{said}");
    for (name, calls) in &truth {
        assert_eq!(counts.get(name).map(|count| count.0), Some(*calls), "{name}: {said}");
    }
}

#[test]
fn a_stripped_program_is_listed_and_recorded_by_its_placeholders() {
    let keep = tempfile::tempdir().expect("a directory");
    let before = compile(&keep, "instrumented.c", &["-O2", "-g"]);
    let words = ["--rewrite", "inner", "--rewrite", "outer", "--everywhere", "--strip"];
    let (after, told) = rewritten(&keep, &before, &words);
    assert_eq!(told["placeholders"]["rewritten"]["nops"], 2, "{told:#}");
    let listed = json(&printed(mote(&["list", "--functions", text(&after), "--format", "json"])));
    let functions = listed["objects"][0]["functions"].as_array().expect("functions");
    let is_there = |name: &str| {
        functions
            .iter()
            .any(|one| one["name"] == name && one["entry"]["way"] == "placeholder" && one["line"] != 0)
    };
    assert!(is_there("inner") && is_there("outer") && !is_there("say"), "{functions:#?}");
    let trace = Record::program(&[&after]).with(&["-f", "inner", "-f", "say"]).run().ends_with(0);
    assert_eq!(trace.out, "5, hooks 0\n");
    let mut names: Vec<String> = trace.view().into_iter().map(|event| event.name).collect();
    names.sort();
    assert_eq!(names, ["f:inner", "f:inner", "f:say"]);
    // The bytes of the program are those of the file again when nothing is recorded, and the file is read-only there.
    let list = std::fs::read_to_string(format!("{}.probes", after.display())).expect("a list");
    let places = list.lines().map(json).filter(|line| line["kind"] == "rewritten").collect::<Vec<_>>();
    assert!(
        places.len() == 2 && places.iter().all(|one| one["entry"].is_u64() && one["at"].is_u64()),
        "{list}"
    );
}

#[test]
fn real_programs_do_and_count_the_same() {
    let keep = tempfile::tempdir().expect("a directory");
    let data = keep.path().join("data");
    std::fs::write(&data, std::fs::read("/proc/self/exe").expect("our own").get(..300_000).expect("long"))
        .expect("a file");
    let name = text(&data);
    for (tool, words) in
        [("bzip2", &["-k", "-c", name][..]), ("zstd", &["--single-thread", "-q", "-c", name])]
    {
        if !has_tool(tool) {
            continue;
        }
        let before = which(tool);
        let (after, _) = rewritten(&keep, &before, &["--rewrite", "*", "--everywhere"]);
        let run = Run { words, ..Run::default() };
        assert!(assert_the_same(&keep, run, &before, &after, &format!("{tool}:*")) > 5, "{tool}");
    }
}

/// SQL that sorts, groups, joins and formats.
const SQL: &str = "
create table t(a integer primary key, b text, c real);
with recursive n(i) as (select 1 union all select i + 1 from n where i < 3000)
  insert into t select i, 'row ' || i, i * 1.5 from n;
create index by_text on t(b);
select count(*), sum(c), max(b) from t where b like '%9%';
select substr(b, 1, 6), count(*) from t group by 1 order by 2 desc, 1 limit 5;
select x.a, y.b from t x join t y on x.a = y.a + 1 where y.b > 'row 29' order by 1 limit 5;
select json_group_array(a) from (select a from t order by c desc limit 5);
";

#[test]
fn libraries_are_rewritten_for_programs_that_are_not() {
    if !has_tool("sqlite3") {
        return;
    }
    let keep = tempfile::tempdir().expect("a directory");
    let (sqlite, input) = (which("sqlite3"), keep.path().join("sql"));
    std::fs::write(&input, SQL).expect("a file");
    let run = Run { words: &[":memory:"], input: Some(&input), linker: None };
    for (begin, pattern) in [("libsqlite3.so", "libsqlite3*:*"), ("libc.so", "libc.so*:*mem*")] {
        let Some(path) = library(&sqlite, begin) else { continue };
        let (after, _) = rewritten(&keep, &path, &["--rewrite", "*", "--everywhere"]);
        let with = Run { linker: after.parent().map(|folder| ("LD_LIBRARY_PATH", folder)), ..run };
        assert!(run.alone(&sqlite) == with.alone(&sqlite), "{begin}: another output");
        let (out, counts) = run.counted(&keep, &sqlite, pattern);
        let (out_with, counts_with) = with.counted(&keep, &sqlite, pattern);
        assert!(out == out_with, "{begin}: another output, recorded");
        if begin == "libsqlite3.so" {
            assert!(counts.len() > 300, "{}", counts.len());
            counts.iter().for_each(|(name, count)| assert_eq!(counts_with.get(name), Some(count), "{name}"));
        }
    }
}

#[test]
fn an_interpreters_library_is_rewritten() {
    if !has_tool("python3") {
        return;
    }
    let keep = tempfile::tempdir().expect("a directory");
    // Where the module is no file of its own, it is the interpreter's.
    let script = "import sys, zlib; print(sys.executable, getattr(zlib, '__file__', sys.executable))";
    let told = output_of(Command::new("python3").args(["-c", script]));
    let (python, module) = told.trim().split_once(' ').expect("two paths");
    let Some(path) = library(Path::new(module), "libz.so") else { return };
    let (after, _) = rewritten(&keep, &path, &["--rewrite", "*", "--everywhere"]);
    let script = "import zlib; t = bytes(range(256)) * 999; c = zlib.compress(t); \
                  print(len(c), zlib.decompress(c) == t)";
    // From the begin: the module that needs it is loaded later, and ends soon.
    let run = Run { words: &["-c", script], linker: Some(("LD_PRELOAD", &path)), ..Run::default() };
    let with = Run { linker: Some(("LD_PRELOAD", &after)), ..run };
    let python = Path::new(python);
    assert_eq!(with.alone(python), run.alone(python));
    let (out, counts) = run.counted(&keep, python, "libz*:*");
    let (out_with, counts_with) = with.counted(&keep, python, "libz*:*");
    assert_eq!(out, out_with);
    assert!(counts.len() > 10, "{counts:?}");
    counts.iter().for_each(|(name, count)| assert_eq!(counts_with.get(name), Some(count), "{name}"));
}

#[test]
fn only_functions_without_room_for_a_jump_are_rewritten() {
    let python = PathBuf::from("/usr/bin/python3.11");
    if !python.exists() {
        skip("there is no python3.11 of Debian (package python3.11)");
        return;
    }
    let keep = tempfile::tempdir().expect("a directory");
    let (after, told) = rewritten(&keep, &python, &["--rewrite", "*"]);
    let count = |told: &serde_json::Value| told.as_u64().expect("a number");
    let (done, unneeded) = (count(&told["placeholders"]["rewritten"]["nops"]), count(&told["unneeded"]));
    assert!(done > 0 && unneeded > 50 * done, "{told:#}");
    let ways = |file: &Path| {
        let listed = json(&printed(mote(&["list", "--functions", text(file), "--format", "json"])));
        let functions = listed["objects"][0]["functions"].as_array().expect("functions").clone();
        let ways = functions.iter().filter_map(|one| one["entry"]["way"].as_str().map(str::to_owned));
        let mut counts = std::collections::BTreeMap::<String, u64>::new();
        ways.for_each(|way| *counts.entry(way).or_default() += 1);
        counts
    };
    let (were, are) = (ways(&python), ways(&after));
    let traps = are.get("trap").copied().unwrap_or_default();
    assert!(were["trap"] >= done && traps <= were["trap"] - done, "{were:?} {are:?}");
    assert_eq!((are["placeholder"], are["jump"]), (done, were["jump"]), "{were:?} {are:?}");
    let script = "import json; t = {str(n): [n, n / 3] for n in range(99)}; \
                  print(json.dumps(t), sorted(json.loads(json.dumps(t))) == sorted(t))";
    let run = Run { words: &["-I", "-c", script], ..Run::default() };
    let alone = run.alone(&python);
    assert!(run.alone(&after) == alone, "another output, off");
    let ((out, counts), (out_after, counts_after)) =
        (run.counted(&keep, &python, "python3.11:*"), run.counted(&keep, &after, "python3.11:*"));
    assert!(out == alone.1 && out_after == alone.1, "another output, recorded");
    let called = (counts.len(), counts_after.len());
    assert!(called.1 >= called.0 && called.0 > 500, "{called:?} functions");
}

/// The library with this name that a file is linked with; says so when there is none.
fn library(file: &Path, begin: &str) -> Option<PathBuf> {
    let loaded = output_of(Command::new("ldd").arg(file));
    let line = loaded.lines().find(|line| line.trim_start().starts_with(begin));
    let path = line.and_then(|line| line.split_whitespace().find(|word| word.starts_with('/')));
    if path.is_none() {
        skip(format_args!("{} is not linked with {begin}", file.display()));
    }
    path.map(PathBuf::from)
}

#[test]
fn a_compiler_makes_the_same_of_a_file() {
    let keep = tempfile::tempdir().expect("a directory");
    let compiler = PathBuf::from(output_of(Command::new("gcc").arg("-print-prog-name=cc1")).trim());
    if !compiler.is_absolute() {
        skip("gcc has no cc1");
        return;
    }
    let (after, told) = rewritten(&keep, &compiler, &["--rewrite", "*", "--everywhere"]);
    let (done, refused) =
        (&told["placeholders"]["rewritten"]["nops"], told["refused"].as_array().expect("a list"));
    let done = usize::try_from(done.as_u64().expect("a number")).expect("small");
    println!("cc1: {done} functions rewritten, {} refused", refused.len());
    assert!(done > 20_000 && refused.len() * 200 < done, "{done} of cc1, {} refused", refused.len());
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("programs/c/values.c");
    let source = [text(&source), "-quiet", "-O2", "-imultiarch", "x86_64-linux-gnu", "-o", "/dev/stdout"];
    let run = Run { words: &source, ..Run::default() };
    let expected = run.alone(&compiler);
    assert_eq!(expected.0, Some(0));
    assert!(run.alone(&after) == expected, "another program, off");
    // What it counts depends on where things lie in memory.
    let (out, counts) = run.counted(&keep, &after, "cc1:*");
    assert!(out == expected.1, "another program, counted");
    assert!(counts.len() > 3000, "{} functions of cc1 were called", counts.len());
}

/// V8 maps the part of the file that has its builtins once more for each isolate, and runs them there.
#[test]
fn what_a_program_maps_once_more_stays_as_it_is() {
    if !has_tool("node") {
        return;
    }
    let keep = tempfile::tempdir().expect("a directory");
    let node = which("node");
    let (after, told) = rewritten(&keep, &node, &["--rewrite", "*", "--everywhere"]);
    let refused = told["refused"].as_array().expect("a list");
    println!("node: {} placeholders, {} refused", told["placeholders"]["rewritten"]["nops"], refused.len());
    let script = "const { Worker } = require('worker_threads'); \
        const sorted = [3, 1, 2].map((n) => n * 7).sort().join(); \
        console.log(sorted, 'a-b-c'.replace(/-(.)/g, '+$1'), JSON.stringify({ a: [1, { b: 2 }] })); \
        new Worker('console.log([1, 2].map(String).join())', { eval: true });";
    let run = Run { words: &["-e", script], ..Run::default() };
    let expected = run.alone(&node);
    assert_eq!(expected.0, Some(0));
    assert!(run.alone(&after) == expected, "another output");
}

#[test]
fn what_cannot_be_rewritten_is_refused_in_a_sentence() {
    let keep = tempfile::tempdir().expect("a directory");
    let before = compile(&keep, "instrumented.c", &["-O2"]);
    let (after, _) = rewritten(&keep, &before, &["--rewrite", "inner", "--everywhere"]);
    let fixed = compile(&keep, "instrumented.c", &["-O2", "-static"]);
    let cut = keep.path().join("cut");
    std::fs::write(&cut, &std::fs::read(&before).expect("it was built")[..5000]).expect("a file");
    // Without its list, it is the file that says so.
    let twice = keep.path().join("twice");
    copy_program(&after, &twice);
    for (file, pattern, status, says) in [
        (&after, "inner", 2, "has been prepared already"),
        (&twice, "outer", 2, "was rewritten already"),
        (&fixed, "inner", 2, "is static: its functions cannot be probed"),
        (&cut, "inner", 2, "is damaged"),
        (&before, "nothing", 1, "none is called so"),
        (&before, "inner(a: what)", 2, "is not a type"),
    ] {
        let out = keep.path().join("out");
        let done = mote(&["coldpatch", text(file), "--rewrite", pattern, "-o", text(&out)]);
        let said = String::from_utf8_lossy(&done.stderr);
        assert!(done.status.code() == Some(status) && said.contains(says), "{says}: {said}");
        assert!(!out.exists(), "{says}");
    }
}

/// A tool's file.
fn which(tool: &str) -> PathBuf {
    let path = output_of(Command::new("sh").args(["-c", &format!("command -v {tool}")]));
    std::fs::canonicalize(path.trim()).expect("it is there")
}
