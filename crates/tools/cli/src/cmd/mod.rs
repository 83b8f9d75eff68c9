//! The verbs, one file each, and what they share.

pub(crate) mod coldpatch;
pub(crate) mod demo;
pub(crate) mod disable;
pub(crate) mod doctor;
pub(crate) mod enable;
pub(crate) mod export;
pub(crate) mod filter;
pub(crate) mod fperf;
pub(crate) mod functions;
pub(crate) mod generate;
pub(crate) mod hold;
pub(crate) mod latency;
pub(crate) mod list;
pub(crate) mod profile;
pub(crate) mod pt;
pub(crate) mod record;
pub(crate) mod report;
pub(crate) mod snapshot;
pub(crate) mod status;
pub(crate) mod view;

use anyhow::Context;
use mote_daemon::options::User;
use mote_timeline::{Problems, Trace};
use mote_view::Stacks;
use mote_words::counted;
use serde_json::Value;
use std::path::Path;

/// Exit status: nothing was found.
pub(crate) const NOTHING: u8 = 1;
/// Exit status: it failed, or a part of it.
pub(crate) const FAILED: u8 = 2;

/// The user that a recording is to be given to.
///
/// # Errors
/// For a person: there is no such user, or only root can do that.
pub(crate) fn owner(text: &str) -> Result<User, String> {
    let user = User::find(text)?;
    if user.may_be_given_to() {
        return Ok(user);
    }
    Err("only root can give a recording to another user; run without --owner".to_owned())
}

/// The stacks of a recording in `dir`; binaries are looked for below `root`.
pub(crate) fn stacks(trace: &Trace, dir: &Path, root: Option<&Path>) -> anyhow::Result<Stacks> {
    let mut options = mote_symbol::Options { root: root.map(Path::to_owned), ..Default::default() };
    if let Some(root) = root {
        options.debug.dirs.insert(0, root.join("usr/lib/debug"));
    }
    Stacks::new(trace, dir, &options)
        .with_context(|| format!("cannot read the symbols kept in {}", dir.display()))
}

/// What filters have counted in a recording, a list; null when they were not asked to.
pub(crate) fn aggregates(dir: &Path) -> Value {
    let [_, file] = mote_journal::AGGREGATES;
    let text = std::fs::read_to_string(dir.join(mote_journal::DIRECTORY).join(file)).unwrap_or_default();
    serde_json::from_str::<Value>(&text).map_or(Value::Null, |mut all| all["aggregates"].take())
}

/// How many levels of a tree are shown, by `--depth`: all of them without.
pub(crate) fn levels(depth: Option<u32>) -> usize {
    depth.and_then(|depth| usize::try_from(depth).ok()).unwrap_or(usize::MAX)
}

/// Says on stderr what was wrong or odd about a recording; returns whether something could not be read.
pub(crate) fn tell(problems: &[&Problems]) -> bool {
    for problem in problems.iter().flat_map(|problems| problems.list()) {
        say!("{problem}");
    }
    let more: u64 = problems.iter().map(|problems| problems.more()).sum();
    if more > 0 {
        say!("and {}", counted(more, "more problem", "more problems"));
    }
    problems.iter().any(|problems| problems.is_broken())
}
