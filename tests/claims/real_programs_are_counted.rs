//! Real programs under `mote functions --count`: each function has been called as often as in an emulator that knows
//! each instruction. Three emulated runs say which counts are the program's own, and not of where things lie in memory.
//! Those that take minutes are run by `cargo xtask soak --only real-programs`.

use crate::real_programs_are_followed::{is_long, query, script_of_lua};
use crate::support::command::{json, number, text};
use crate::support::compiled::can_synthesize;
use crate::support::emulated::{Emulated, File, Setting};
use crate::support::{has_tool, output_of, skip};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::Command;
use tempfile::TempDir;

/// A program's words, and its environment: of so many bytes.
fn setting(words: &[&str], padding: usize, more: (&'static str, String)) -> Setting {
    let environment = vec![
        ("PATH", std::env::var("PATH").expect("a path")),
        ("PADDING", "x".repeat(padding)),
        ("PYTHONHASHSEED", "0".to_owned()),
        more,
    ];
    Setting { words: words.iter().map(ToString::to_string).collect(), environment }
}

/// The same, emulated: libraries lie below a stack of so many pages.
fn emulated(words: &[&str], padding: usize, pages: usize) -> Setting {
    setting(words, padding, ("QEMU_STACK_SIZE", (pages * 4096).to_string()))
}

/// Functions of one name, which `mote functions` may tell apart in ways of its own.
#[derive(Debug, Default)]
struct Named {
    functions: usize,
    probes: usize,
    /// How often they were entered in emulated runs.
    entries: Vec<u64>,
    /// How often they were called, by `mote functions --count`, in others.
    calls: Vec<u64>,
}

/// The number that all runs have.
fn common(runs: &[u64]) -> Option<u64> {
    let first = *runs.first()?;
    runs.iter().all(|run| *run == first).then_some(first)
}

impl Named {
    fn was_called(&self) -> bool {
        self.entries.iter().chain(&self.calls).any(|run| *run > 0)
    }

    /// Runs of one kind differ.
    fn is_by_chance(&self) -> bool {
        common(&self.entries).is_none() || common(&self.calls).is_none()
    }

    /// Whether runs under mote are as near to emulated ones as chance would have it: these differ, too; or by `more`.
    fn is_near(&self, more: u64) -> bool {
        let least = |runs: &[u64]| runs.iter().min().copied().unwrap_or(0);
        let most = |runs: &[u64]| runs.iter().max().copied().unwrap_or(0);
        let spread = |runs: &[u64]| most(runs) - least(runs);
        let chance = 4 * spread(&self.entries).max(spread(&self.calls)) + most(&self.entries) / 50 + more;
        least(&self.calls) + chance >= least(&self.entries)
            && most(&self.calls) <= most(&self.entries) + chance
    }
}

type All = BTreeMap<String, Named>;

/// The functions of a file, and how often they were entered in emulated runs.
fn all_of(file: &File, runs: &[BTreeMap<u64, u64>]) -> All {
    let mut all = All::new();
    for (address, name) in &file.functions {
        let named = all.entry(name.clone()).or_default();
        named.functions += 1;
        named.entries.resize(runs.len(), 0);
        for (sum, run) in named.entries.iter_mut().zip(runs) {
            *sum += run.get(address).copied().unwrap_or(0);
        }
    }
    all
}

/// Adds which functions have probes, and how often they were called in the run `number`, by `mote functions --count`.
fn count(keep: &TempDir, setting: &Setting, file: &File, run: usize, all: &mut All) {
    let (trace, pattern) = (keep.path().join("trace"), format!("{}:*", file.name()));
    let said = setting.run(&["functions", "--count", "--format", "json", &pattern, "-o", text(&trace)]);
    let (begin, end) = (said.find("\n{").expect("JSON"), said.rfind('}').expect("JSON"));
    let mut named = |name: &str, change: &mut dyn FnMut(&mut Named)| {
        let name = name.split('@').next().expect("a name");
        change(all.get_mut(name).unwrap_or_else(|| panic!("no {name}")));
    };
    let metadata = std::fs::read(trace.join("metadata")).expect("metadata");
    let metadata = String::from_utf8_lossy(&metadata);
    let events: BTreeSet<&str> =
        metadata.split("name = \"f:").skip(1).filter_map(|rest| rest.split('"').next()).collect();
    for event in events.iter().filter(|_| run == 0) {
        named(event, &mut |named| named.probes += 1);
    }
    for function in json(&said[begin..=end])["functions"].as_array().expect("functions") {
        let calls = number(&function["calls"]);
        named(function["name"].as_str().expect("a name"), &mut |named| named.calls[run] += calls);
    }
    std::fs::remove_dir_all(&trace).expect("it was there");
}

/// Sizes of environments, and pages of stacks: what lies behind these lies elsewhere in pages of any size.
const EMULATED: [(usize, usize); 3] = [(0, 2051), (3000, 6146), (1111, 16389)];
const UNDER_MOTE: [usize; 3] = [5, 700, 2050];

/// Functions of which the number of calls is not the program's own alone.
#[derive(Clone, Copy, Debug)]
struct Exceptions {
    /// How many of a thousand differ between runs of one kind, at most.
    by_chance: usize,
    /// The program goes by numbers of its own that are random: what runs of one kind have in common may be chance, too.
    is_random: bool,
    /// Those that depend on what the program sees of mote.
    seen: &'static [&'static str],
}

/// Compares the counts of functions, in the files with these names, with what emulated runs of the program say: those
/// of which all runs of each kind have one number are as many. Returns how many functions these are.
#[track_caller]
fn check(words: &[&str], files: &[&str], but: Exceptions) -> usize {
    let keep = tempfile::tempdir().expect("a directory");
    let runs: Vec<Emulated> = EMULATED
        .into_iter()
        .map(|(padding, stack)| Emulated::run(&emulated(words, padding, stack), keep.path()))
        .collect();
    let check = |file: &&str| check_file(&keep, words, &runs, &runs[0].file(file), but);
    files.iter().map(check).sum()
}

#[track_caller]
fn check_file(keep: &TempDir, words: &[&str], runs: &[Emulated], file: &File, but: Exceptions) -> usize {
    let entries: Vec<_> = runs.iter().map(|run| run.entries(file)).collect();
    let mut all = all_of(file, &entries);
    all.values_mut().for_each(|named| named.calls.resize(UNDER_MOTE.len(), 0));
    for (run, padding) in UNDER_MOTE.into_iter().enumerate() {
        // As many variables as for the emulator: mote adds one.
        let setting = setting(words, padding, ("PYTHONHASHSEED", "0".to_owned()));
        count(keep, &setting, file, run, &mut all);
    }
    all.retain(|_, named| named.was_called());
    let (probed, others): (All, All) =
        all.into_iter().partition(|(_, named)| named.probes == named.functions);
    // Three runs of a kind may have the same by chance, and the others something else.
    let more = if but.is_random { 10 } else { 0 };
    let is_by_chance = |named: &Named| {
        named.is_by_chance() || but.is_random && named.entries != named.calls && named.is_near(more)
    };
    let (by_chance, same): (All, All) = probed.into_iter().partition(|(_, named)| is_by_chance(named));
    let calls: u64 = same.values().filter_map(|named| named.calls.first()).sum();
    let name = file.name();
    println!(
        "counted in {name}: {calls} calls of {} functions; by chance {by_chance:?}; {} have no probe",
        same.len(),
        others.len()
    );
    let wrong: Vec<_> = same
        .iter()
        .filter(|(name, named)| named.entries != named.calls && !but.seen.contains(&name.as_str()))
        .collect();
    assert!(wrong.is_empty(), "{name}: {wrong:?}");
    let far: Vec<_> = by_chance.iter().filter(|(_, named)| !named.is_near(more)).collect();
    assert!(far.is_empty(), "{name}: {far:?}");
    assert!(by_chance.len() * 1000 <= but.by_chance * same.len(), "{name}: {by_chance:?}");
    same.len()
}

const EXACT: Exceptions = Exceptions { by_chance: 10, is_random: false, seen: &[] };

#[test]
fn calls_in_sqlite() {
    if !can_synthesize() || !has_tool("sqlite3") {
        return;
    }
    let query = query(if is_long() { 5000 } else { 100 });
    let same = check(&["/usr/bin/sqlite3", ":memory:", &query], &["sqlite3", "libsqlite3"], EXACT);
    assert!(same > 300, "{same}");
}

#[test]
fn calls_in_lua() {
    if !can_synthesize() || !has_tool("lua5.4") {
        return;
    }
    let script = script_of_lua(if is_long() { 2000 } else { 20 });
    // By chance: its strings' hashes begin with the time and addresses, so other keys collide in each run.
    let same = check(&["/usr/bin/lua5.4", "-e", &script], &["lua5.4"], EXACT);
    assert!(same > 100, "{same}");
}

#[test]
fn calls_in_luajit() {
    if !can_synthesize() || !has_tool("luajit") {
        return;
    }
    let script = script_of_lua(if is_long() { 2000 } else { 20 });
    // The interpreter: code that it makes calls by itself. Its tables go by a random number.
    let same = check(
        &["/usr/bin/luajit", "-joff", "-e", &script],
        &["luajit"],
        Exceptions { by_chance: 150, is_random: true, ..EXACT },
    );
    assert!(same > 100, "{same}");
}

const PYTHON: &str = "
import json
class Node:
    def __init__(self, n): self.n, self.next = n, Node(n - 1) if n else None
def numbers(n): yield from (i * i % 7 for i in range(n))
def fails(n):
    if not n: raise ValueError({'code': 7})
    return fails(n - 1)
total = 0
for i in range(ROUNDS):
    try: fails(i % 20)
    except ValueError as why: total += why.args[0]['code']
    total += sum(numbers(50)) + Node(30).n + len(json.dumps({str(k): [k, k / 3] for k in range(20)}))
print(total)
";

#[test]
fn calls_in_python() {
    let found = Command::new("python3").args(["-c", "import json, sys; print(sys.executable)"]).output();
    let Some(found) = found.ok().filter(|found| found.status.success()) else {
        skip("there is no python3");
        return;
    };
    if !can_synthesize() {
        return;
    }
    let python = String::from_utf8(found.stdout).expect("UTF-8");
    let program = std::fs::canonicalize(python.trim()).expect("a program");
    let script = PYTHON.replace("ROUNDS", if is_long() { "300" } else { "10" });
    let words = [text(&program), "-S", "-E", "-c", &script];
    // At its end it looks whose handlers of signals are its own: the library has two.
    let but = Exceptions { by_chance: 20, seen: &["PyObject_RichCompareBool"], ..EXACT };
    let is_apart = output_of(Command::new("ldd").arg(&program)).contains("libpython3");
    let same = check(&words, &[if is_apart { "libpython3" } else { "python3" }], but);
    assert!(same > 1000, "{same}");
}

/// The C compiler proper.
#[test]
fn calls_in_a_compiler() {
    if !can_synthesize() {
        return;
    }
    let found = output_of(Command::new("gcc").arg("-print-prog-name=cc1"));
    let keep = tempfile::tempdir().expect("a directory");
    let source = keep.path().join("source.i");
    if is_long() {
        let from = Path::new(env!("CARGO_MANIFEST_DIR")).join("../crates/record/synth/src/qemu/plugin.c");
        output_of(Command::new("gcc").args(["-E", "-o"]).arg(&source).arg(from));
    } else {
        let twice = "int twice(int n) { int s = 0; for (int i = 0; i < n; i++) s += 2; return s; }";
        std::fs::write(&source, twice).expect("a file");
    }
    let words = [found.trim(), text(&source), "-quiet", "-O2", "-o", "/dev/null"];
    let same = check(&words, &["cc1"], EXACT);
    assert!(same > 1000, "{same}");
}
