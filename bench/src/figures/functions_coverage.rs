//! How many functions of a binary have a probe, shown by putting them there: a process of it runs with all of them.

use super::effort::Effort;
use super::figure::Figure;
use super::functions_recorded::{Recorder, probes, run_bare};
use super::kernel::mote;
use anyhow::Context;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Whose functions.
#[derive(Clone, Copy, Debug)]
enum Whose {
    /// The program's.
    Own,
    /// Those of a library that it has.
    Library(&'static str),
}

/// A binary by its name in the figures, a program with it, and how that is run.
type Binary = (&'static str, Whose, &'static str, &'static [&'static str]);
const BINARIES: [Binary; 8] = [
    ("libc", Whose::Library("libc.so.6"), "true", &[]),
    ("sqlite3", Whose::Own, "sqlite3", &["--version"]),
    ("libsqlite3", Whose::Library("libsqlite3.so.0"), "sqlite3", &["--version"]),
    ("python3.11", Whose::Own, "python3.11", &["-c", "pass"]),
    ("redis-server", Whose::Own, "redis-server", &["--version"]),
    ("cc1", Whose::Own, "cc1", &["--version"]),
    ("postgres", Whose::Own, "postgres", &["--version"]),
    ("mote", Whose::Own, "mote", &["--version"]),
];
/// With little effort only so many.
const FEW: usize = 3;

/// Looks at all binaries that are installed. Counting has no spread.
pub(super) fn run(recorder: &mut Recorder<'_>, effort: Effort) -> anyhow::Result<Vec<Figure>> {
    let measure = |binary: &Binary| {
        let case = format!("coverage/{}", binary.0);
        match covered(recorder, binary) {
            Ok(percent) => Figure::new(&case, "%", &[percent]),
            Err(why) => Figure::absent(&case, "%", &format!("{why:#}")),
        }
    };
    Ok(BINARIES.iter().take(effort.choose(FEW, BINARIES.len())).map(measure).collect())
}

fn covered(recorder: &mut Recorder<'_>, binary: &Binary) -> anyhow::Result<f64> {
    let (_, whose, program, words) = *binary;
    let program = find(program)?;
    let file = match whose {
        Whose::Own => program.clone(),
        Whose::Library(name) => library_of(&program, name)?,
    };
    let name = file.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let command: Vec<OsString> =
        [program.into_os_string()].into_iter().chain(words.iter().map(OsString::from)).collect();
    let bare = run_bare(&command)?;
    let recorded = recorder.run(&[&format!("{name}:*")], &command)?;
    recorded.is_like(&bare)?;
    let all = listed(recorder, &file)?;
    Ok(100.0 * probes(&recorded.said).unwrap_or(0) as f64 / all as f64)
}

/// The functions that `mote list --functions` finds in a file.
fn listed(recorder: &Recorder<'_>, file: &Path) -> anyhow::Result<u64> {
    let output = recorder.mote().args(["list", "--functions"]).arg(file).output()?;
    let text = String::from_utf8_lossy(&output.stdout);
    let count = text.lines().next().and_then(|line| line.rsplit_once(": ")?.1.split(' ').next());
    let count = count.and_then(|count| count.replace(',', "").parse().ok());
    count.with_context(|| format!("mote list --functions {}: no number of functions", file.display()))
}

/// A program by its name, as the file that is run: the compiler's own, mote beside us, or of the search path.
///
/// # Errors
/// It is not installed.
pub(super) fn find(name: &str) -> anyhow::Result<PathBuf> {
    if name == "mote" {
        return mote();
    }
    if name == "cc1" {
        let output =
            Command::new("cc").arg("-print-prog-name=cc1").output().context("cc is not installed")?;
        return Ok(PathBuf::from(String::from_utf8_lossy(&output.stdout).trim()).canonicalize()?);
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    // A script in its place would have the functions of a shell.
    let is_binary = |path: &PathBuf| std::fs::read(path).is_ok_and(|bytes| bytes.starts_with(b"\x7fELF"));
    let found = std::env::split_paths(&path).map(|folder| folder.join(name)).find(is_binary);
    Ok(found.with_context(|| format!("{name} is not installed"))?.canonicalize()?)
}

/// The file of a library that a program has.
fn library_of(program: &Path, name: &str) -> anyhow::Result<PathBuf> {
    let output = Command::new("ldd").arg(program).output().context("ldd is not installed")?;
    let text = String::from_utf8_lossy(&output.stdout);
    let line = text.lines().find_map(|line| line.trim().strip_prefix(name)?.strip_prefix(" => "));
    let path = line.and_then(|line| line.split(' ').next());
    Ok(Path::new(path.with_context(|| format!("{} has no {name}", program.display()))?).canonicalize()?)
}
