//! The end-to-end tests once more, as a user without rights: what root may, most users may not.

use crate::install;
use anyhow::{Context, bail};
use serde_json::Value;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Nobody's number, and not the overflow user's, who equals nobody.
const USER: u32 = 12345;

/// Claims that are the same for every user: they look at machine code, times, and sums; or that take minutes.
const SAME_FOR_ALL: [&str; 7] = [
    "a_recorder_that_is_killed_at_any_of_its_calls",
    "gaps_are_exact::",
    "loss_is_counted::",
    "nothing_aborts::",
    "off_costs_nothing::",
    "real_servers_are_understood::",
    "times_are_true::",
];

/// The tests as a command, and a directory for their files, which goes with it.
pub(crate) struct Tests {
    pub(crate) command: Command,
    _place: Place,
}

/// A directory of the user's.
struct Place(PathBuf);

impl Drop for Place {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// The tests, of which everything was built before. `Err` says why they cannot be run here, or need not.
pub(crate) fn tests(root: &Path) -> Result<Tests, String> {
    if !install::is_root() {
        return Err("the tests ran as a user without rights already".to_owned());
    }
    let program = built(root).map_err(|why| format!("{why:#}"))?;
    if let Some(closed) = program.ancestors().skip(1).find(|directory| !is_open(directory)) {
        return Err(format!("others may not enter {}", closed.display()));
    }
    let path = std::env::temp_dir().join(format!("mote-tests-{}", std::process::id()));
    let made = std::fs::create_dir(&path).and_then(|()| chown(&path, Some(USER), Some(USER)));
    made.map_err(|why| format!("cannot make {}: {why}", path.display()))?;
    let mut command = Command::new("setpriv");
    command.args([&format!("--reuid={USER}"), &format!("--regid={USER}"), "--clear-groups", "--"]);
    command.arg(program).args(SAME_FOR_ALL.iter().flat_map(|claims| ["--skip", claims]));
    command.current_dir(root.join("tests")).env_remove("XDG_RUNTIME_DIR");
    command.env("PATH", "/usr/local/bin:/usr/bin:/bin").env("HOME", &path).env("TMPDIR", &path);
    command.env("MOTE_TESTS_BUILT", "1");
    Ok(Tests { command, _place: Place(path) })
}

/// Whether everybody may go through a directory.
fn is_open(directory: &Path) -> bool {
    std::fs::metadata(directory).is_ok_and(|found| found.permissions().mode() & 0o001 != 0)
}

/// The program of the end-to-end tests.
fn built(root: &Path) -> anyhow::Result<PathBuf> {
    let mut command = crate::cargo();
    command.args(["test", "--release", "--no-run", "-p", "mote-tests", "--test", "claims"]);
    command.args(["--quiet", "--message-format", "json"]).current_dir(root).stdout(Stdio::piped());
    let mut child = command.spawn().context("cannot start cargo")?;
    let output = child.stdout.take().context("cargo without output")?;
    let mut found = None;
    for line in BufReader::new(output).lines() {
        let line = line.context("cannot read what cargo prints")?;
        let message: Value = serde_json::from_str(&line).unwrap_or_default();
        if message["target"]["name"] == "claims" {
            found = message["executable"].as_str().map(PathBuf::from).or(found);
        }
    }
    if !child.wait().context("cargo is lost")?.success() {
        bail!("the end-to-end tests cannot be built");
    }
    found.context("cargo has built no end-to-end tests")
}
