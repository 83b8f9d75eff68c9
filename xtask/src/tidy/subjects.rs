//! Subjects of commits: at most 72 characters, as mail and `git log --oneline` show them.

use std::path::Path;
use std::process::Command;

/// When the last commit was written whose subject was too long once it had landed; later ones are looked at. A time,
/// because commits get other names where they are applied anew.
const SINCE: &str = "2026-11-26T16:49:51Z";
/// Most characters of a subject.
const LEN_MAX: usize = 72;

/// Names commits whose subject is too long, where this is a clone with a history.
pub(super) fn check(root: &Path, wrong: &mut Vec<String>) {
    let mut git = Command::new("git");
    let git = git.args(["log", &format!("--since={SINCE}"), "--format=%h %s"]).current_dir(root);
    let Ok(log) = git.output() else { return };
    // An archive has no history.
    if !log.status.success() && root.join(".git").exists() {
        wrong.push(format!("git log failed: {}", String::from_utf8_lossy(&log.stderr).trim()));
    }
    wrong.extend(too_long(&String::from_utf8_lossy(&log.stdout)));
}

fn too_long(log: &str) -> Vec<String> {
    let commits = log.lines().filter_map(|line| line.split_once(' '));
    let long = commits.filter(|(_, subject)| subject.chars().count() > LEN_MAX);
    long.map(|(commit, subject)| {
        let len = subject.chars().count();
        format!("commit {commit} has a subject of {len} characters; the most is {LEN_MAX}: {subject}")
    })
    .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_subjects_are_named() {
        let long = "x".repeat(LEN_MAX + 1);
        let wrong = too_long(&format!("abc short\ndef {long}\n123 {}", &long[1..]));
        assert_eq!(wrong.len(), 1);
        assert!(wrong[0].starts_with("commit def has a subject of 73"), "{wrong:?}");
    }
}
