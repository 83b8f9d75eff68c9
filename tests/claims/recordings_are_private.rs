//! A recording is written where the person asked for it and nowhere else, and nobody else can read it, whatever the
//! umask.

use crate::support::{Record, Trace, has_tool, is_root, wait_for};
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown, lchown, symlink};
use std::path::Path;
use tempfile::TempDir;

/// Another user, who need not have a name.
const OTHER: u32 = 12345;

/// Events that are recorded, and counted, too.
const COUNTED: [&str; 4] = ["-e", "*", "--on", "e2e:count do record, count by $tid"];

/// A directory that everybody may write to, as `/tmp`.
fn open_to_all() -> TempDir {
    let directory = tempfile::tempdir().expect("a directory");
    fs::set_permissions(directory.path(), fs::Permissions::from_mode(0o1777)).expect("ours");
    directory
}

/// Asserts that nothing was recorded, that the command did not run, and that the message has all these words.
#[track_caller]
fn assert_refused(trace: &Trace, words: &[&str]) {
    assert_eq!((trace.status, trace.out.as_str()), (2, ""), "{}", trace.err);
    words.iter().for_each(|word| assert!(trace.err.contains(word), "no '{word}' in {}", trace.err));
}

/// Kind, mode and owner of everything below a directory, itself included.
fn all(path: &Path) -> Vec<(String, u32, u32)> {
    let mut found = Vec::new();
    let mut left = vec![path.to_owned()];
    while let Some(path) = left.pop() {
        let stat = fs::symlink_metadata(&path).expect("there");
        if stat.is_dir() {
            left.extend(fs::read_dir(&path).expect("a directory").map(|entry| entry.expect("read").path()));
        }
        found.push((path.display().to_string(), stat.mode(), stat.uid()));
    }
    found
}

/// Asserts that everything below a directory is a private file or directory of this user's.
#[track_caller]
fn assert_private(path: &Path, uid: u32) {
    let all = all(path);
    for (path, mode, owner) in &all {
        assert!([0o40700, 0o100600].contains(mode), "{path} has mode {mode:o}");
        assert_eq!(*owner, uid, "{path}");
    }
    assert!(all.len() > 3, "{all:?}");
}

#[test]
fn a_directory_of_another_user_is_refused() {
    if !is_root() {
        return;
    }
    let place = open_to_all();
    let theirs = place.path().join("theirs");
    fs::create_dir(&theirs).expect("a directory");
    chown(&theirs, Some(OTHER), None).expect("root may");
    let trace = Record::scene(&["count", "5"]).to(&theirs).run();
    assert_refused(&trace, &["belongs to another user (12345)", "-o"]);
    assert_eq!(fs::read_dir(&theirs).expect("it").count(), 0);
    assert_eq!(fs::metadata(&theirs).expect("it").uid(), OTHER);
}

#[test]
fn a_link_of_another_user_leads_nowhere() {
    if !is_root() {
        return;
    }
    let (place, target) = (open_to_all(), tempfile::tempdir().expect("a directory"));
    let link = place.path().join("link");
    symlink(target.path(), &link).expect("a link");
    lchown(&link, Some(OTHER), None).expect("root may");
    for output in [link.clone(), link.join("trace"), link.join("../link/trace")] {
        let trace = Record::scene(&["count", "5"]).to(&output).run();
        assert_refused(&trace, &["link is a symbolic link of another user (12345)", "-o"]);
        assert_eq!(fs::read_dir(target.path()).expect("it").count(), 0);
    }
    // One of our own is followed.
    lchown(&link, Some(0), None).expect("root may");
    let trace = Record::scene(&["count", "5"]).to(&link.join("deep/trace")).run().ends_with(0);
    assert_eq!(trace.events().len(), 5);
    assert_private(&target.path().join("deep/trace"), 0);
}

/// Who owns the directory above may give the recording's name to something else, at any moment. The recorder goes on in
/// the directory that it has made.
#[test]
fn a_recording_whose_name_is_taken_away_is_written_nowhere_else() {
    if !is_root() {
        return;
    }
    let (place, target) = (open_to_all(), tempfile::tempdir().expect("a directory"));
    fs::create_dir(target.path().join("mote")).expect("a directory");
    let victims = ["metadata", "cpu_0", "mote/journal.jsonl", "mote/metadata.new", "mote/aggregates.txt"];
    victims.iter().for_each(|name| fs::write(target.path().join(name), "data").expect("a file"));
    let running = Record::scene(&["counting"]).with(&COUNTED).to(&place.path().join("trace")).start();
    running.wait_until_recorded();
    let metadata = |path: &Path| {
        let stat = fs::metadata(path.join("metadata")).expect("there");
        (stat.ino(), stat.mtime(), stat.mtime_nsec())
    };
    let before = metadata(running.output());
    fs::rename(running.output(), place.path().join("moved")).expect("renamed");
    symlink(target.path(), running.output()).expect("a link");
    lchown(running.output(), Some(OTHER), None).expect("root may");
    // Clock samples have the metadata written anew, and the end writes what was counted.
    wait_for("new metadata", || (metadata(&place.path().join("moved")) != before).then_some(()));
    running.signal(nix::sys::signal::Signal::SIGTERM);
    let trace = running.wait().ends_with(128 + 15);
    let moved = format!("it is now {}", place.path().join("moved").display());
    assert!(trace.err.contains(&moved), "no '{moved}' in {}", trace.err);
    for name in victims {
        assert_eq!(fs::read_to_string(target.path().join(name)).expect("it"), "data", "{name}");
    }
    assert_private(&place.path().join("moved"), 0);
}

#[test]
fn no_other_user_can_read_a_recording_whatever_the_umask() {
    for umask in ["000", "022", "777"] {
        let set = format!("umask {umask}; exec \"$@\"");
        let place = tempfile::tempdir().expect("a directory");
        let output = place.path().join("above/trace");
        let record = Record::scene(&["count", "500"]).under(&["sh", "-c", &set, "sh"]).with(&COUNTED);
        record.to(&output).run().ends_with(0);
        assert_private(&output, nix::unistd::geteuid().as_raw());
    }
}

#[test]
fn an_ordinary_users_recording_is_private_too() {
    if !is_root() || !has_tool("setpriv") {
        return;
    }
    let place = open_to_all();
    let user = ["setpriv", "--reuid=12345", "--regid=12345", "--clear-groups", "--"];
    let output = place.path().join("above/trace");
    let record = Record::scene(&["count", "500"]).under(&user).with(&COUNTED);
    record.to(&output).run().ends_with(0);
    assert_private(&output, OTHER);
}
