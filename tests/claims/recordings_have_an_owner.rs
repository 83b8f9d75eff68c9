//! What `sudo mote record` has made can be read by whoever has called sudo, unless it holds what is not theirs;
//! `--owner` decides otherwise.

use crate::support::{Record, Trace, has_tool, is_root, kernel, output_of, programs, wait_for};
use nix::sys::signal::Signal;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::{Child, Command};

/// Who calls sudo, and somebody else.
const CALLER: u32 = 12345;
const OTHER: u32 = 65534;

/// A program as a user.
fn as_user(user: u32) -> Vec<String> {
    let ids = [format!("--reuid={user}"), format!("--regid={user}")];
    let mut words = vec!["setpriv".to_owned()];
    words.extend(ids);
    words.extend(["--clear-groups".to_owned(), "--".to_owned()]);
    words
}

/// As sudo has it.
fn sudo(record: Record) -> Record {
    record.env("SUDO_UID", &CALLER.to_string()).env("SUDO_GID", &CALLER.to_string())
}

/// A scene that is recorded as a user's.
fn scene_of(user: u32) -> Record {
    let mut words = as_user(user);
    words.extend([programs::scenes(), "count", "50"].map(str::to_owned));
    Record::program(&words)
}

/// A directory where everybody may come to.
fn place() -> tempfile::TempDir {
    let directory = tempfile::tempdir().expect("a directory");
    fs::set_permissions(directory.path(), std::os::unix::fs::PermissionsExt::from_mode(0o755)).expect("ours");
    directory
}

/// The owners of everything below a directory, itself included, each once.
fn owners(path: &Path) -> Vec<(u32, u32)> {
    let mut found = Vec::new();
    let mut left = vec![path.to_owned()];
    while let Some(path) = left.pop() {
        let stat = fs::symlink_metadata(&path).expect("there");
        assert_eq!(stat.mode() & 0o77, 0, "{}", path.display());
        if stat.is_dir() {
            left.extend(fs::read_dir(&path).expect("a directory").map(|entry| entry.expect("read").path()));
        }
        found.push((stat.uid(), stat.gid()));
    }
    found.sort_unstable();
    found.dedup();
    found
}

#[track_caller]
fn assert_given(trace: &Trace) {
    assert_eq!(owners(&trace.path), [(CALLER, CALLER)], "{}", trace.err);
    assert!(trace.err.contains("the recording now belongs to"), "{}", trace.err);
}

#[track_caller]
fn assert_kept(trace: &Trace, why: &str) {
    assert_eq!(owners(&trace.path), [(0, 0)], "{}", trace.err);
    assert!(trace.err.contains("the recording stays root's"), "{}", trace.err);
    assert!(trace.err.contains(why) && trace.err.contains("--owner"), "no '{why}' in {}", trace.err);
}

fn is_ready() -> bool {
    is_root() && has_tool("setpriv")
}

#[test]
fn the_caller_of_sudo_can_read_the_recording() {
    if !is_ready() {
        return;
    }
    let place = place();
    let output = place.path().join("made/too/trace");
    let trace = sudo(Record::scene(&["count", "50"]).to(&output)).run().ends_with(0);
    assert_given(&trace);
    let words = as_user(CALLER);
    let mut view = Command::new(&words[0]);
    view.args(&words[1..]).arg(programs::mote()).args(["view", "--event", "e2e:count"]).arg(&output);
    assert_eq!(output_of(&mut view).lines().count(), 50);
    // Somebody else cannot.
    let words = as_user(OTHER);
    let mut view = Command::new(&words[0]);
    let view =
        view.args(&words[1..]).arg(programs::mote()).arg("view").arg(&output).output().expect("it runs");
    assert_eq!((view.status.code(), view.stdout.len()), (Some(2), 0), "{view:?}");
}

#[test]
fn the_caller_of_sudo_gets_no_recording_with_processes_of_other_users() {
    if !is_ready() {
        return;
    }
    assert_given(&sudo(scene_of(CALLER)).run().ends_with(0));
    assert_kept(&sudo(scene_of(OTHER)).run().ends_with(0), "65534");
    // Nobody has called sudo.
    let trace = scene_of(OTHER).run().ends_with(0);
    assert_eq!(owners(&trace.path), [(0, 0)]);
    assert!(!trace.err.contains("belongs") && !trace.err.contains("stays"), "{}", trace.err);
}

#[test]
fn the_option_owner_decides_whose_a_recording_is() {
    if !is_ready() {
        return;
    }
    let owner = CALLER.to_string();
    let given = scene_of(OTHER).with(&["--owner", &owner]).run().ends_with(0);
    // What group an unnamed user has is not known.
    assert_eq!(owners(&given.path), [(CALLER, 0)], "{}", given.err);
    let kept = sudo(Record::scene(&["count", "5"])).with(&["--owner", "root"]).run().ends_with(0);
    assert_eq!(owners(&kept.path), [(0, 0)], "{}", kept.err);
    let nobody = Record::scene(&["count", "5"]).with(&["--owner", "no-such-user"]).run();
    assert!(nobody.status == 2 && nobody.err.contains("'no-such-user'"), "{}", nobody.err);
    let words = as_user(CALLER);
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let refused = Record::scene(&["count", "5"]).under(&words).with(&["--owner", "root"]).run();
    assert!(refused.status == 2 && refused.err.contains("only root can"), "{}", refused.err);
}

#[test]
fn snapshots_belong_to_the_owner_of_their_recording() {
    if !is_ready() {
        return;
    }
    let place = place();
    let record = Record::scene(&["counting"]).with(&["--mode", "overwrite", "--buffers", "8M"]);
    let running = sudo(record.to(&place.path().join("trace"))).start();
    running.wait_for("pid");
    running.signal(Signal::SIGUSR2);
    running.wait_until_said("snapshot written");
    let snapshot = place.path().join("trace.snapshot-1");
    assert_eq!(owners(&snapshot), [(0, 0)], "as long as it is recorded");
    running.signal(Signal::SIGTERM);
    assert_given(&running.wait());
    assert_eq!(owners(&snapshot), [(CALLER, CALLER)]);
}

/// A process of a user's, for the life of the value.
struct Sleeper(Child);

impl Sleeper {
    fn of(user: u32) -> Sleeper {
        let words = as_user(user);
        let child =
            Command::new(&words[0]).args(&words[1..]).args(["sleep", "1000"]).spawn().expect("it runs");
        let sleeper = Sleeper(child);
        let name = format!("/proc/{}/comm", sleeper.0.id());
        wait_for("sleep", || (fs::read_to_string(&name).ok()?.trim() == "sleep").then_some(()));
        sleeper
    }

    fn kernel_events(&self) -> Trace {
        let pid = self.0.id().to_string();
        sudo(Record::nothing()).with(&["-k", "sched", "-p", &pid, "--duration", "300ms"]).run()
    }
}

impl Drop for Sleeper {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn kernel_events_of_others_are_not_given() {
    if !is_ready() || !kernel::is_there() {
        return;
    }
    assert_given(&Sleeper::of(CALLER).kernel_events());
    assert_kept(&Sleeper::of(OTHER).kernel_events(), "65534");
    assert_kept(&Sleeper::of(0).kernel_events(), "uid 0");
    let everybody = ["-k", "sched", "-a", "--duration", "100ms"];
    assert_kept(&sudo(Record::nothing()).with(&everybody).run(), "of all processes");
    // The command's are theirs, which sudo has started for them.
    // Where a process of another user hands its CPU over to the command, an event is of that process, and the recording
    // stays root's: others do on a busy machine, but not always.
    let is_given = || {
        let trace = sudo(Record::scene(&["count", "50"])).with(&["-k", "sched"]).run();
        let is_given = owners(&trace.path) == [(CALLER, CALLER)];
        assert!(is_given || trace.err.contains("which belongs to another user"), "{}", trace.err);
        is_given
    };
    assert!((0..20).any(|_| is_given()), "it is given");
    assert_kept(&sudo(scene_of(OTHER)).with(&["-k", "sched,syscalls"]).run(), "65534");
}
