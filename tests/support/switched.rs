//! Functions that are switched on and off under threads, handlers of signals, exceptions and threads that block all
//! signals: for a test, and for `mote-bench torture functions`.
//!
//! The program (`tests/programs/c/switched.cpp`) has two families of functions. Calls of those that begin with `w` are
//! counted from its begin to its end: exactly as many as the program has counted itself. Those that begin with `t` are
//! switched on by one recording after the other, some of them and for a moment, to be counted or recorded: never more
//! than there were. What calls return the program looks at, and its code has to be that of the file whenever nothing is
//! switched on but `w`.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// The program's text; it is compiled with [`FLAGS`].
pub(crate) const PROGRAM: &str = "switched.cpp";
/// So that each call is one, and no function a loop.
pub(crate) const FLAGS: [&str; 3] = ["-O1", "-fno-optimize-sibling-calls", "-w"];

/// What came of it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Verdict {
    /// How often something was wrong.
    pub(crate) violations: u64,
    /// Calls that were compared.
    pub(crate) calls: u64,
    /// Recordings that have switched functions.
    pub(crate) switched: u64,
    /// What was wrong.
    pub(crate) messages: Vec<String>,
}

impl Verdict {
    fn wrong(&mut self, what: String) {
        self.violations += 1;
        self.messages.push(what);
    }
}

/// Where things are.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Places<'p> {
    /// The program `mote`.
    pub(crate) mote: &'p Path,
    /// The compiled program.
    pub(crate) program: &'p Path,
    /// A directory for recordings.
    pub(crate) folder: &'p Path,
    /// Its calls are only counted, and not their returns: it can load no library.
    pub(crate) is_static: bool,
}

/// Runs the program for so many seconds, with `returns` counted, too, or not.
///
/// # Errors
/// Something cannot be started.
pub(crate) fn run(places: Places<'_>, seconds: f64, returns: bool) -> std::io::Result<Verdict> {
    let mut verdict = Verdict::default();
    let trace = fresh(places.folder);
    let mut command = Command::new(places.mote);
    command.args(["functions", "--count", "--format", "json"]).args(returns.then_some("--under-way"));
    command.arg(format!("{}:w*", name_of(places.program))).arg("-o").arg(&trace);
    command.arg("--").arg(places.program).arg(seconds.to_string()).stdin(Stdio::null());
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
    let counted = switch(places, &child, Duration::from_secs_f64(seconds), &mut verdict);
    let Output { status, stdout, stderr } = child.wait_with_output()?;
    let _ = std::fs::remove_dir_all(&trace);
    let said = String::from_utf8_lossy(&stderr);
    if !status.success() {
        verdict.wrong(format!("the program, or its recorder, has ended with {status}: {said}"));
        return Ok(verdict);
    }
    let truth = numbers(&String::from_utf8_lossy(&stdout));
    verdict.violations += truth.get("wrong").copied().unwrap_or(1);
    let json = said.find("\n{").and_then(|begin| said.get(begin..=said.rfind('}')?));
    let counts = of_json(json.unwrap_or_default());
    for (name, calls) in &truth {
        match (name.starts_with('w') && name != "wrong", name.starts_with('t')) {
            (true, _) if counts.get(name) != Some(&(*calls, 0)) => {
                verdict.wrong(format!(
                    "{name}: {calls} calls, and counted (not returned): {:?}",
                    counts.get(name)
                ));
            }
            (_, true) if counted.get(name).is_some_and(|counted| counted > calls) => {
                verdict
                    .wrong(format!("{name}: {calls} calls, and more were counted: {:?}", counted.get(name)));
            }
            _ => {}
        }
        verdict.calls += calls;
    }
    Ok(verdict)
}

/// Switches functions on and off for so long; returns how many calls were counted.
fn switch(
    places: Places<'_>,
    child: &Child,
    length: Duration,
    verdict: &mut Verdict,
) -> BTreeMap<String, u64> {
    let end = Instant::now() + length.saturating_sub(Duration::from_millis(500));
    let mut counted = BTreeMap::new();
    let mut random = Random::new();
    let Some(pid) = child_of(child.id(), &name_of(places.program)) else {
        verdict.wrong("the program does not begin".to_owned());
        return counted;
    };
    while Instant::now() < end {
        let trace = fresh(places.folder);
        let mut command = Command::new(places.mote);
        let (is_counted, words) = random.way(places.is_static);
        command.args(words).arg("-o").arg(&trace);
        for pattern in random.patterns() {
            command.args((!is_counted).then_some("-f")).arg(format!("{}:{pattern}", name_of(places.program)));
        }
        let ms = 10 + random.below(150);
        command.args(["-p", &pid.to_string(), "--duration", &format!("{ms}ms")]);
        let Ok(output) = command.stdin(Stdio::null()).output() else { continue };
        let _ = std::fs::remove_dir_all(&trace);
        let said = String::from_utf8_lossy(&output.stderr);
        // It may be over meanwhile.
        let is_there = Path::new(&format!("/proc/{pid}")).exists() && Instant::now() < end;
        if is_there && !matches!(output.status.code(), Some(0 | 1)) {
            verdict.wrong(format!("a recording has ended with {}: {said}", output.status));
        }
        verdict.switched += 1;
        for (name, (calls, _)) in of_json(&String::from_utf8_lossy(&output.stdout)) {
            *counted.entry(name).or_default() += calls;
        }
    }
    counted
}

/// The process of this name that another one has started, once it is there.
pub(crate) fn child_of(parent: u32, name: &str) -> Option<u32> {
    let until = Instant::now() + Duration::from_secs(10);
    while Instant::now() < until {
        let path = format!("/proc/{parent}/task/{parent}/children");
        let children = std::fs::read_to_string(path).unwrap_or_default();
        let is_it = |pid: &&str| {
            let exe = std::fs::read_link(format!("/proc/{pid}/exe")).unwrap_or_default();
            name_of(&exe) == name
        };
        if let Some(pid) = children.split_whitespace().find(is_it) {
            return pid.parse().ok();
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    None
}

fn name_of(program: &Path) -> String {
    program.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

/// A path that does not exist yet.
fn fresh(folder: &Path) -> std::path::PathBuf {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    folder.join(format!("trace{}", now.as_nanos()))
}

/// Lines of a name and a number.
fn numbers(text: &str) -> BTreeMap<String, u64> {
    let one = |line: &str| {
        let (name, count) = line.split_once(' ')?;
        Some((name.to_owned(), count.parse().ok()?))
    };
    text.lines().filter_map(one).collect()
}

/// Calls by function, and how many are under way.
fn of_json(text: &str) -> BTreeMap<String, (u64, u64)> {
    let all: serde_json::Value = serde_json::from_str(text).unwrap_or_default();
    let one = |function: &serde_json::Value| {
        let under_way = function["under_way"].as_u64().unwrap_or(0);
        Some((function["name"].as_str()?.to_owned(), (function["calls"].as_u64()?, under_way)))
    };
    all["functions"].as_array().into_iter().flatten().filter_map(one).collect()
}

/// Numbers that are not foreseen (xorshift; Marsaglia 2003).
struct Random(u64);

impl Random {
    fn new() -> Random {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Random(now.as_nanos() as u64 | 1)
    }

    fn below(&mut self, end: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % end
    }

    /// The begin of a command, and whether it counts.
    fn way(&mut self, is_static: bool) -> (bool, &'static [&'static str]) {
        match self.below(3) {
            _ if is_static => (true, &["functions", "--count", "--format", "json"]),
            0 => (true, &["functions", "--count", "--format", "json"]),
            1 => (true, &["functions", "--count", "--under-way", "--format", "json"]),
            _ => (false, &["record", "--mode", "overwrite", "--buffers", "64k", "-q"]),
        }
    }

    /// Some of the functions.
    fn patterns(&mut self) -> Vec<String> {
        const NAMES: [&str; 5] = ["deep", "throws", "jumps", "handles", "round"];
        (0..=self.below(5))
            .map(|_| match self.below(15) {
                digit @ 0..10 => format!("t{digit}"),
                other => format!("t{}", NAMES[other as usize - 10]),
            })
            .collect()
    }
}
