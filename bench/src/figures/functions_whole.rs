//! What recording all functions does to real programs, and to what they print.
//!
//! Plans and probes come before the program's first instruction. So each program also runs with next to nothing to do:
//! `start` is what that takes more under the recorder, and `whole` compares what is left of both times without it.

use super::effort::Effort;
use super::figure::{Figure, Samples};
use super::functions_coverage::find;
use super::functions_recorded::{Recorder, run_bare};
use std::ffi::OsString;
use std::fmt::Write;
use std::path::Path;

const SQL: &str = "create table t(a,b);
with recursive c(x) as (select 1 union all select x+1 from c where x<20000) insert into t select x, x*7%1000 from c;
create index i on t(b);
select b, count(*), sum(a) from t group by b order by b;
";
const PYTHON: &str = "import collections, json, hashlib
def fib(n): return n if n < 2 else fib(n - 1) + fib(n - 2)
words = collections.Counter(str(n * n % 997) for n in range(20000))
print(fib(26), hashlib.sha256(json.dumps(words).encode()).hexdigest())
";
/// Megabytes that are compressed.
const INPUT_MB: usize = 4;
/// Functions of the C file.
const C_FUNCTIONS: usize = 120;

/// A program, whose functions are recorded, and its words; of these the last is a file of the work, or of nothing.
type Program = (&'static str, &'static str, &'static [&'static str], Work);
#[derive(Clone, Copy, Debug)]
enum Work {
    Sql,
    Bytes,
    Python,
    C,
}

const PROGRAMS: [Program; 5] = [
    ("sqlite3", "libsqlite3*:*", &[":memory:"], Work::Sql),
    ("bzip2", "*", &["-kc"], Work::Bytes),
    ("zstd", "*", &["-qc", "-15"], Work::Bytes),
    ("python3.11", "*", &[], Work::Python),
    ("cc1", "cc1:*", &["-quiet", "-O2", "-o", "-"], Work::C),
];

/// Measures the programs that are installed, in turns.
pub(super) fn run(recorder: &mut Recorder<'_>, effort: Effort) -> anyhow::Result<Vec<Figure>> {
    let mut figures = Vec::new();
    for program in PROGRAMS.iter().take(effort.choose(1, PROGRAMS.len())) {
        let case = format!("whole/{}", program.0);
        match of(recorder, program, effort.choose(1, 5)) {
            Ok(of_it) => figures.extend(of_it),
            Err(why) => figures.push(Figure::absent(&case, "x", &format!("{why:#}"))),
        }
    }
    Ok(figures)
}

fn of(recorder: &mut Recorder<'_>, program: &Program, rounds: usize) -> anyhow::Result<[Figure; 2]> {
    let (name, pattern, words, work) = *program;
    let found = find(name)?;
    let mut command = |text: &[u8]| -> anyhow::Result<Vec<OsString>> {
        let file = recorder.fresh("input").with_extension("c");
        std::fs::write(&file, text)?;
        let words = words.iter().map(OsString::from);
        let last = if let Work::Sql = work { read_of(&file) } else { file.into_os_string() };
        Ok([found.clone().into_os_string()].into_iter().chain(words).chain([last]).collect())
    };
    let (full, idle) = (command(&work.text())?, command(b"")?);
    let mut samples = Samples::default();
    for _ in 0..rounds {
        let bare = (run_bare(&full)?, run_bare(&idle)?);
        let recorded = (recorder.run(&[pattern], &full)?, recorder.run(&[pattern], &idle)?);
        recorded.0.is_like(&bare.0)?;
        recorded.1.is_like(&bare.1)?;
        samples.add("start", recorded.1.seconds - bare.1.seconds);
        let slowdown = (recorded.0.seconds - recorded.1.seconds) / (bare.0.seconds - bare.1.seconds);
        samples.add("whole", slowdown);
    }
    Ok([
        Figure::new(&format!("whole/{name}"), "x", samples.of("whole")),
        Figure::new(&format!("start/{name}"), "s", samples.of("start")),
    ])
}

/// sqlite3 takes a file by a command of its own.
fn read_of(file: &Path) -> OsString {
    let mut command = OsString::from(".read ");
    command.push(file);
    command
}

impl Work {
    fn text(self) -> Vec<u8> {
        match self {
            Work::Sql => SQL.into(),
            Work::Python => PYTHON.into(),
            Work::C => c_file().into_bytes(),
            Work::Bytes => bytes(),
        }
    }
}

/// Words that repeat, and do not: what compresses to about a half.
fn bytes() -> Vec<u8> {
    let mut state = 1_u64;
    let next = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        b'a' + (state >> 60) as u8
    };
    std::iter::repeat_with(next).take(INPUT_MB << 20).collect()
}

/// A C file that needs no header.
fn c_file() -> String {
    let mut text = String::new();
    for number in 0..C_FUNCTIONS {
        let done = writeln!(
            text,
            "double f{number}(double *x, int n, int k) {{ double s = 0; for (int i = 0; i < n; i++) switch ((i + k) % 5) \
             {{ case 0: s += x[i] * {number}; break; case 1: s -= x[i] / (k + 1); break; case 2: x[i] = s; break; \
             default: if (x[i] > s) return f{}(x, n - 1, k ^ i); }} return s; }}",
            number.saturating_sub(1)
        );
        debug_assert!(done.is_ok(), "writing to a string");
    }
    text
}
