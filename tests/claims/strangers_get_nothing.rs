//! Another user gets nothing of a recording, and cannot disturb one: not by listening where recorders look for each
//! other, nor by what is planted in `/tmp`, nor at a recorder's sockets, nor through a mailbox that was meant for
//! somebody else, nor by being slow, or loud.

use crate::support::event::{assert_counts, named};
use crate::support::{
    Record, Running, copy_program, has_tool, is_root, output_of, programs, wait_for, wait_for_sleeps,
};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::fs::{self, File};
use std::os::unix::fs::{MetadataExt, PermissionsExt, lchown, symlink};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};

/// Users without rights: two of all claims, and one for each claim that fails when another one is that user, too, at
/// the same time.
const USER: u32 = 12345;
const OTHER: u32 = 12346;
const HOARDER: u32 = 12347;
const LITTERER: u32 = 12348;
const LIAR: u32 = 12349;
/// A process that cannot be: numbers end at 4194304 (proc_sys_kernel(5), `pid_max`).
const NOBODYS_PID: u32 = 999_999_999;

fn is_ready() -> bool {
    is_root() && has_tool("setpriv")
}

fn as_user(user: u32) -> Vec<String> {
    let ids = [format!("--reuid={user}"), format!("--regid={user}")];
    [&["setpriv".to_owned()], &ids[..], &["--clear-groups".to_owned(), "--".to_owned()]].concat()
}

/// A directory that everybody can look into.
fn place() -> tempfile::TempDir {
    let directory = tempfile::tempdir().expect("a directory");
    fs::set_permissions(directory.path(), PermissionsExt::from_mode(0o755)).expect("ours");
    directory
}

/// A scene that runs beside the recordings, as a user, and ends with the claim.
struct Beside {
    child: Child,
    out: PathBuf,
    _keep: tempfile::TempDir,
}

impl Beside {
    fn start(user: u32, scene: &[&str]) -> Beside {
        let keep = place();
        let out = keep.path().join("out");
        let words = as_user(user);
        let mut command = Command::new(&words[0]);
        command.args(&words[1..]).arg(programs::scenes()).args(scene).env_remove("MOTE_SESSION");
        let child = command.stdout(File::create(&out).expect("a file")).spawn().expect("it starts");
        Beside { child, out, _keep: keep }
    }

    fn said(&self, name: &str) -> Option<u64> {
        crate::support::record::value_of(&fs::read_to_string(&self.out).expect("ours"), name)
    }

    fn wait_for(&self, name: &str) -> u64 {
        wait_for(name, || self.said(name))
    }

    fn pid(&self) -> u64 {
        self.child.id().into()
    }
}

impl Drop for Beside {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Something in `/tmp` that goes with the claim.
struct Planted(PathBuf);

impl Planted {
    /// A name as recorders' directories have it, of a process `pid`.
    fn name(pid: u32) -> Planted {
        let unique = tempfile::Builder::new().tempfile().expect("a name");
        let unique = unique.path().file_name().expect("a name").to_string_lossy().replace('.', "");
        Planted(Path::new("/tmp").join(format!("mote-{pid}-{unique}")))
    }
}

impl Drop for Planted {
    fn drop(&mut self) {
        if fs::symlink_metadata(&self.0).is_ok_and(|found| found.is_dir()) {
            let _ = fs::remove_dir_all(&self.0);
        } else {
            let _ = fs::remove_file(&self.0);
        }
    }
}

/// A scene that says what came of it.
fn scene(words: &[&str]) -> String {
    output_of(Command::new(programs::scenes()).args(words).env_remove("MOTE_SESSION"))
}

/// The recorder's directory of sockets.
fn sockets(running: &Running) -> PathBuf {
    let control = running.output().join("mote/control");
    let socket = wait_for("its sockets", || fs::read_link(&control).ok());
    socket.parent().expect("a directory").to_owned()
}

fn finish(running: Running, status: i32) -> crate::support::Trace {
    running.signal(Signal::SIGINT);
    running.wait().ends_with(status)
}

#[test]
fn a_planted_socket_is_not_asked_for_processes_of_other_users() {
    if !is_ready() {
        return;
    }
    let planted = Planted::name(1);
    let liar = Beside::start(LIAR, &["liar", planted.0.to_str().expect("text")]);
    liar.wait_for("listening");
    for owner in [0, OTHER] {
        let target = Beside::start(owner, &["steady", "1", "1000"]);
        target.wait_for("started");
        let running = Record::process(target.pid()).with(&["-e", "e2e:steady"]).start();
        running.wait_until_recorded();
        let trace = finish(running, 0);
        assert!(!named(&trace.view(), "e2e:steady").is_empty());
        assert_eq!(liar.said("heard"), None, "it was asked for a process of user {owner}");
    }
}

#[test]
fn a_planted_socket_that_promises_a_process_is_reported() {
    if !is_ready() {
        return;
    }
    let planted = Planted::name(1);
    let liar = Beside::start(USER, &["liar", planted.0.to_str().expect("text")]);
    liar.wait_for("listening");
    let target = Beside::start(USER, &["steady", "1", "1000"]);
    target.wait_for("started");
    // It is the liar's own process: it may be asked for it, and gets the way in for this user's processes.
    let running = Record::process(target.pid()).with(&["-e", "e2e:steady"]).start();
    assert_eq!(liar.wait_for("mailboxes"), 1);
    sockets(&running);
    let trace = finish(running, 3);
    assert!(
        trace.problems().join("\n").contains("did not follow the request to join"),
        "{:?}",
        trace.problems()
    );
}

#[test]
fn nothing_of_others_is_removed_from_tmp() {
    if !is_ready() {
        return;
    }
    let victim = place();
    let victims = ["control", "session"].map(|name| victim.path().join(name));
    let _bound = victims.clone().map(|path| UnixListener::bind(path).expect("a socket"));
    let link = Planted::name(NOBODYS_PID);
    symlink(victim.path(), &link.0).expect("a link");
    lchown(&link.0, Some(LITTERER), Some(LITTERER)).expect("root");
    let theirs = Planted::name(NOBODYS_PID);
    let ours = Planted::name(NOBODYS_PID);
    let other = Planted::name(NOBODYS_PID);
    for (planted, owner, mode) in [(&theirs, LITTERER, 0o700), (&ours, 0, 0o700), (&other, 0, 0o777)] {
        // Elsewhere first: recorders of other claims look for what was left behind, too.
        let made = place();
        let directory = made.path().join("made");
        fs::create_dir(&directory).expect("a directory");
        for name in ["control", "session"] {
            drop(UnixListener::bind(directory.join(name)).expect("a socket"));
        }
        fs::set_permissions(&directory, PermissionsExt::from_mode(mode)).expect("ours");
        lchown(&directory, Some(owner), Some(owner)).expect("root");
        fs::rename(&directory, &planted.0).expect("in the same file system");
    }
    let filled = Planted::name(NOBODYS_PID);
    fs::create_dir(&filled.0).expect("a directory");
    fs::write(filled.0.join("session"), "no socket").expect("a file");
    Record::scene(&["count", "10"]).run().ends_with(0);
    assert!(victims.iter().all(|path| path.exists()), "what a link leads to");
    assert!(fs::symlink_metadata(&link.0).is_ok(), "the link");
    assert!(theirs.0.join("session").exists(), "another user's");
    assert!(other.0.join("session").exists(), "where others can write");
    assert!(filled.0.join("session").exists(), "what is no socket");
    assert!(!ours.0.exists(), "what a recorder of ours has left behind goes");
}

#[test]
fn sockets_are_for_their_user_only() {
    if !is_ready() {
        return;
    }
    let running = Record::scene(&["steady", "1", "1000"]).start();
    let pid = running.wait_for("pid");
    let directory = sockets(&running);
    assert_eq!(fs::metadata(&directory).expect("there").mode() & 0o7777, 0o700);
    let paths = ["session", "control"].map(|name| directory.join(name).to_str().expect("text").to_owned());
    let user = USER.to_string();
    let try_both = || {
        let said = scene(&["knock", &user, &paths[0]]) + &scene(&["ask-as", &user, &paths[1]]);
        assert_eq!(said.matches("answered 0").count(), 2, "{said}");
        said.matches("reached 1").count()
    };
    assert_eq!(try_both(), 0, "it cannot come to the sockets");
    // Should it come there, it is nobody to talk with.
    for path in directory.ancestors().take_while(|path| *path != Path::new("/tmp")) {
        fs::set_permissions(path, PermissionsExt::from_mode(0o755)).expect("ours");
    }
    paths.iter().for_each(|path| fs::set_permissions(path, PermissionsExt::from_mode(0o777)).expect("ours"));
    assert_eq!(try_both(), 2, "it has come there");
    let status =
        Command::new(programs::mote()).arg("status").arg(running.output()).output().expect("it runs");
    assert!(status.status.success(), "the owner is answered: {status:?}");
    kill(Pid::from_raw(pid as i32), Signal::SIGTERM).expect("it runs");
    let trace = running.wait().ends_with(3);
    let problems = trace.problems().join("\n");
    assert!(problems.contains(&format!("belongs to user {USER}")), "{problems}");
}

/// A recording that an ordinary user makes, with all that belongs to it in a directory of that user.
fn record_as(user: u32, place: &Path, record: Record) -> Record {
    fs::create_dir(place.join("own")).expect("a directory");
    fs::create_dir(place.join("own/run")).expect("a directory");
    for name in ["own", "own/run"] {
        lchown(place.join(name), Some(user), Some(user)).expect("root");
    }
    let words = as_user(user);
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let run = place.join("own/run");
    record.under(&words).to(&place.join("own/trace")).env("XDG_RUNTIME_DIR", run.to_str().expect("text"))
}

#[test]
fn a_mailbox_is_not_for_another_user() {
    if !is_ready() {
        return;
    }
    let keep = place();
    let running = record_as(USER, keep.path(), Record::scene(&["steady", "1", "1000"])).start();
    let pid = running.wait_for("pid");
    let said = scene(&["intrude", &OTHER.to_string(), &pid.to_string()]);
    assert!(said.contains("answered 0"), "{said}");
    // Nobody records root.
    let said = scene(&["intrude", "0", &pid.to_string()]);
    assert!(said.contains("answered 0"), "{said}");
    kill(Pid::from_raw(pid as i32), Signal::SIGTERM).expect("it runs");
    let trace = running.wait().ends_with(3);
    let problems = trace.problems().join("\n");
    for user in [OTHER, 0] {
        assert!(problems.contains(&format!("belongs to user {user}; only root can record")), "{problems}");
    }
    assert_eq!(trace.facts("process").len(), 1, "only its own");
}

#[test]
fn an_ordinary_user_records_as_before() {
    if !is_ready() {
        return;
    }
    let keep = place();
    let record = record_as(USER, keep.path(), Record::scene(&["family", programs::scenes()]));
    let running = record.start();
    let pid = running.wait_for("pid");
    running.wait_until_recorded();
    // Also a second recording of the same process, which the first one is asked for.
    let second = place();
    let joined = record_as(USER, second.path(), Record::process(pid))
        .env("XDG_RUNTIME_DIR", keep.path().join("own/run").to_str().expect("text"))
        .start();
    joined.wait_until_recorded();
    // And one of root's.
    let roots = Record::process(pid)
        .env("XDG_RUNTIME_DIR", keep.path().join("own/run").to_str().expect("text"))
        .start();
    roots.wait_until_recorded();
    // It emits between two sleeps.
    wait_for_sleeps(pid, 10);
    kill(Pid::from_raw(pid as i32), Signal::SIGTERM).expect("it runs");
    for running in [joined, roots, running] {
        let trace = running.wait().ends_with(0);
        assert_eq!(trace.lost_total(), 0);
        assert!(!named(&trace.view(), "e2e:round").is_empty());
    }
}

/// What recorders of root's have left where everybody can see it.
fn left_by(pid: Pid) -> usize {
    let entries = ["/run", "/tmp"].into_iter().flat_map(|base| fs::read_dir(base).expect("there"));
    let name = format!("mote-{pid}-");
    entries
        .filter(|entry| entry.as_ref().is_ok_and(|it| it.file_name().to_string_lossy().starts_with(&name)))
        .count()
}

#[test]
fn root_records_a_process_of_another_user() {
    if !is_ready() {
        return;
    }
    let target = Beside::start(USER, &["steady", "1", "1000"]);
    target.wait_for("started");
    let running = Record::process(target.pid()).with(&["-e", "e2e:steady"]).start();
    running.wait_until_recorded();
    let recorder = running.pid();
    assert_eq!(left_by(recorder), 1, "a way in for this user");
    let trace = finish(running, 0);
    assert_eq!(trace.lost_total(), 0);
    assert!(!named(&trace.view(), "e2e:steady").is_empty());
    assert_eq!(left_by(recorder), 0);
}

#[test]
fn in_a_user_namespace_only_users_with_a_number_there_are_believed() {
    if !is_ready() || !has_tool("unshare") {
        return;
    }
    let mapped = ["unshare", "--user", "--map-root-user", programs::scenes(), "count", "10"];
    let trace = Record::program(&mapped).run().ends_with(0);
    assert_counts(&named(&trace.view(), "e2e:count"), "seq", 10);
    let keep = place();
    let trace = record_as(USER, keep.path(), Record::program(&mapped)).run().ends_with(0);
    assert_counts(&named(&trace.view(), "e2e:count"), "seq", 10);
    // Everybody is the same there, and nobody is told from root.
    let trace = Record::program(&["unshare", "--user", programs::scenes(), "count", "10"]).run().ends_with(3);
    assert_eq!(trace.printed("emitted"), 10, "the program runs as without us");
    assert_eq!(named(&trace.view(), "e2e:count").len(), 0);
    assert!(trace.problems().join("\n").contains("does not trust this recorder"), "{:?}", trace.problems());
}

#[test]
fn a_loud_user_keeps_no_other_user_out() {
    if !is_ready() {
        return;
    }
    let trace = Record::scene(&["flood", &USER.to_string(), "30"]).with(&["-e", "e2e:count"]).run();
    assert!([0, 3].contains(&trace.status), "{}", trace.err);
    let events = trace.view();
    let counts = named(&events, "e2e:count");
    assert_eq!(counts.len(), 30 * 100, "{}", trace.err);
    assert_eq!(trace.lost_total(), 0);
}

#[test]
fn a_user_who_takes_all_descriptors_leaves_room_for_others() {
    if !is_ready() || !has_tool("prlimit") {
        return;
    }
    let scene = Record::scene(&["hoard", &HOARDER.to_string(), "100", "10"]).with(&["-e", "e2e:count"]);
    let trace = scene.under(&["prlimit", "--nofile=128:"]).run().ends_with(3);
    assert_eq!(named(&trace.view(), "e2e:count").len(), 10 * 100, "{}", trace.err);
    let problems = trace.problems().join("\n");
    assert!(problems.contains("the recorder's open files do not suffice for more"), "{problems}");
}

#[test]
fn silent_connections_are_reported_and_take_no_more_than_their_share() {
    if !is_ready() {
        return;
    }
    let running = Record::scene(&["family", programs::scenes()]).start();
    let pid = running.wait_for("pid");
    let path = sockets(&running).join("session");
    let silent = Beside::start(0, &["hush", path.to_str().expect("text"), "80"]);
    assert_eq!(silent.wait_for("connected"), 80, "nobody waits to be let in");
    running.wait_until_said("has too many connections (64) that have sent nothing");
    drop(silent);
    // Who comes then is let in again.
    let rounds = || running.said().0.lines().filter(|line| line.starts_with("round ")).count() as u64;
    let before = rounds();
    wait_for("more programs", || (rounds() > before + 10).then_some(()));
    kill(Pid::from_raw(pid as i32), Signal::SIGTERM).expect("it runs");
    let trace = running.wait().ends_with(3);
    let events = trace.view();
    let of_round =
        |round| named(&events, "e2e:forked").iter().filter(|event| event.number("who") == round).count();
    assert_eq!(of_round(before + 8), 10);
}

#[test]
fn slow_visitors_make_no_other_process_wait() {
    let running = Record::scene(&["family", programs::scenes()]).start();
    let pid = running.wait_for("pid");
    let control = sockets(&running).join("control");
    let visitors: Vec<Beside> = (0..5)
        .map(|_| {
            let keep = place();
            let out = keep.path().join("out");
            let mut command = Command::new(programs::scenes());
            command.arg("trickle").arg(&control).env_remove("MOTE_SESSION");
            let child = command.stdout(File::create(&out).expect("a file")).spawn().expect("it starts");
            Beside { child, out, _keep: keep }
        })
        .collect();
    for visitor in &visitors {
        visitor.wait_for("started");
    }
    // While they are in the middle of their requests, others are answered, and programs come and go.
    for _ in 0..3 {
        let mut status = Command::new(programs::mote());
        let said = output_of(status.arg("status").arg(running.output()));
        assert!(said.contains("recording for"), "{said}");
    }
    let rounds = || running.said().0.lines().filter(|line| line.starts_with("round ")).count();
    let before = rounds();
    wait_for("more programs", || (rounds() > before + 10).then_some(()));
    kill(Pid::from_raw(pid as i32), Signal::SIGTERM).expect("it runs");
    let trace = running.wait().ends_with(0);
    assert_eq!(trace.lost_total(), 0);
    let all = trace.view();
    let rounds = named(&all, "e2e:round").len();
    assert_eq!(named(&all, "e2e:forked").len(), 10 * rounds);
    assert_eq!(named(&all, "e2e:count").len(), 5 * rounds.div_ceil(2));
}

/// Kinds of messages of a process: its events, and that it does not want to be recorded (`mote_wire`).
const EVENTS: u64 = 4;
const DECLINED: u64 = 41;

#[test]
fn root_does_not_go_to_a_strangers_socket() {
    if !is_ready() {
        return;
    }
    let planted = Planted::name(1);
    let session = Beside::start(USER, &["false-session", planted.0.to_str().expect("text")]);
    session.wait_for("listening");
    let place = format!("{},-1,1,{}/session", mote_wire::VERSION, planted.0.display());
    let count = |user: u32, program: &Path| {
        let words = as_user(user);
        let mut command = Command::new(&words[0]);
        command.args(&words[1..]).arg(program).args(["count", "10"]).env("MOTE_SESSION", &place);
        assert_eq!(output_of(&mut command), "emitted 10\n");
    };
    count(0, Path::new(programs::scenes()));
    count(OTHER, Path::new(programs::scenes()));
    // Who runs with more rights than the one who has started it looks at no environment.
    let keep = self::place();
    let raised = keep.path().join("scenes");
    copy_program(programs::scenes(), &raised);
    fs::set_permissions(&raised, PermissionsExt::from_mode(0o4755)).expect("ours");
    count(USER, &raised);
    assert_eq!(session.said("visited"), None);
    // The session's own user does.
    count(USER, Path::new(programs::scenes()));
    session.wait_for("heard");
}

#[test]
fn root_does_not_believe_other_users_that_answer_in_its_mailbox() {
    if !is_root() {
        return;
    }
    for (user, is_believed) in [(USER, false), (0, true)] {
        let said = scene(&["false-mailbox", &user.to_string(), programs::scenes(), "count", "10"]);
        let value = |name| crate::support::record::value_of(&said, name);
        assert_eq!((value("status"), value("emitted")), (Some(0), Some(10)), "{said}");
        let answer = value("answered-with").expect("an answer, or none");
        assert_eq!(answer == DECLINED, !is_believed, "{said}");
        assert_ne!(answer, EVENTS, "{said}");
    }
}

#[test]
fn no_process_is_taken_for_one_of_another_user() {
    if !is_root() {
        return;
    }
    let trace = Record::scene(&["pretend", &USER.to_string()]).run().ends_with(3);
    assert_eq!(trace.printed("answered"), 0);
    assert!(trace.problems().join("\n").contains("it claims to be process"), "{:?}", trace.problems());
    assert_counts(&named(&trace.view(), "e2e:honest"), "seq", 10);
    assert!(trace.facts("process").iter().all(|process| process["comm"] != "pretender"));
}
