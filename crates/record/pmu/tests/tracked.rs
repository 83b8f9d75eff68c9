//! Code in memory that stays writable and executable, or is mapped twice, of a process that does what it is told: each
//! version is known from its first write on, and the process is left as it was, whatever becomes of it or the recorder.

mod support;

use mote_capture::{Note, What};
use mote_sys::mem::{PAGE_BYTES, sealed_memfd};
use std::fs;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::path::PathBuf;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};
use support::{now, recorded};

/// What the process, and a recorder of its own, are told to be by the environment.
const ROLE: &str = "MOTE_TEST_ROLE";
/// What lines of the process begin with: those of the test's own frame do not.
const SAYS: &str = "says ";
/// How long something may take on a machine that has more to do.
const LONG: Duration = Duration::from_secs(60);

/// Maps a page, anywhere or there.
fn map(at: usize, protection: i32, flags: i32, fd: i32) -> *mut u8 {
    let flags = flags | if at == 0 { 0 } else { libc::MAP_FIXED };
    // SAFETY: anywhere, or in the place of a page that nobody uses meanwhile.
    let base = unsafe { libc::mmap(at as *mut libc::c_void, PAGE_BYTES, protection, flags, fd, 0) };
    assert_ne!(base, libc::MAP_FAILED, "{}", io::Error::last_os_error());
    base.cast()
}

const OPEN: i32 = libc::PROT_READ | libc::PROT_WRITE | libc::PROT_EXEC;
const ANYWHERE: i32 = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;

/// Writes a version: mov eax, version; ret.
fn write_version(page: *mut u8, version: u8) {
    for (at, byte) in [0xb8, version, 0, 0, 0, 0xc3].into_iter().enumerate() {
        // SAFETY: the first bytes of a page of ours that is writable.
        unsafe { page.wrapping_add(at).write_volatile(byte) };
    }
}

/// The process: nothing, where it is not told to be.
#[test]
fn the_process() {
    if std::env::var(ROLE).as_deref() != Ok("process") {
        return;
    }
    let open = map(0, OPEN, ANYWHERE, -1);
    let memory = sealed_memfd(c"code", PAGE_BYTES as u64).expect("memory");
    let written = map(0, libc::PROT_READ | libc::PROT_WRITE, libc::MAP_SHARED, memory.raw());
    let executed = map(0, libc::PROT_READ | libc::PROT_EXEC, libc::MAP_SHARED, memory.raw());
    let pages = [open, written];
    pages.iter().for_each(|page| write_version(*page, 1));
    println!("\n{SAYS}{} {}", open as u64, executed as u64);
    for line in io::stdin().lines().map_while(Result::ok) {
        let before = now();
        match line.split_once(' ').unwrap_or((&line, "")) {
            ("write", version) => {
                pages.iter().for_each(|page| write_version(*page, version.parse().expect("a number")));
            }
            ("exec", _) => {
                let why = std::os::unix::process::CommandExt::exec(Command::new("/bin/sleep").arg("1000"));
                panic!("{why}");
            }
            ("map", _) => {
                map(open as usize, OPEN, ANYWHERE, -1);
            }
            ("fork", _) => {
                // SAFETY: the child writes to its memory, and ends.
                let child = unsafe { libc::fork() };
                if child == 0 {
                    pages.iter().for_each(|page| write_version(*page, 77));
                    // SAFETY: ends it.
                    unsafe { libc::_exit(0) };
                }
                let mut status = -1;
                // SAFETY: writes the status.
                unsafe { libc::waitpid(child, &raw mut status, 0) };
                assert_eq!(status, 0);
            }
            other => panic!("{other:?}"),
        }
        println!("\n{SAYS}{before} {}", now());
    }
}

/// The process, as who tells it has it.
struct Process {
    child: Child,
    tell: ChildStdin,
    hear: BufReader<ChildStdout>,
    /// Where its code is executed.
    pages: [u64; 2],
}

impl Process {
    fn start() -> Process {
        let mut child = own("the_process", "process");
        let mut child = child.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("ourselves");
        let tell = child.stdin.take().expect("a pipe");
        let hear = BufReader::new(child.stdout.take().expect("a pipe"));
        let mut process = Process { child, tell, hear, pages: [0; 2] };
        process.pages = process.hear();
        process
    }

    fn pid(&self) -> i32 {
        self.child.id().cast_signed()
    }

    /// Two numbers that it says.
    fn hear(&mut self) -> [u64; 2] {
        let mut lines = self.hear.by_ref().lines();
        let words = lines.find_map(|line| line.expect("a line").strip_prefix(SAYS).map(str::to_owned));
        let words = words.expect("it has ended");
        let (first, second) = words.split_once(' ').expect("two");
        [first, second].map(|word| word.parse().expect("a number"))
    }

    /// Has it do something; returns when it began and had done it.
    fn tell(&mut self, what: &str) -> [u64; 2] {
        writeln!(self.tell, "{what}").expect("it listens");
        self.hear()
    }

    /// Whether any of its memory is watched (`uw`, proc_pid_smaps(5)).
    fn is_watched(&self) -> bool {
        let maps = fs::read_to_string(format!("/proc/{}/smaps", self.pid())).expect("it is there");
        let mut flags = maps.lines().filter_map(|line| line.strip_prefix("VmFlags:"));
        flags.any(|flags| flags.split_ascii_whitespace().any(|flag| flag == "uw"))
    }

    fn descriptors(&self) -> usize {
        fs::read_dir(format!("/proc/{}/fd", self.pid())).expect("it is there").count()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// This test program, for one of its parts.
fn own(part: &str, role: &str) -> Command {
    let mut own = Command::new(std::env::current_exe().expect("ourselves"));
    own.args(["--exact", part, "--nocapture"]).env(ROLE, role);
    own
}

/// What the process was told, and when it began and had done it.
type Told = (&'static str, [u64; 2]);

/// What the process is told, one after the other, while it is recorded.
struct Script<'s> {
    process: &'s mut Process,
    left: std::slice::Iter<'s, &'static str>,
    /// What was told, and when.
    told: Vec<Told>,
    capture: PathBuf,
    until: Instant,
}

impl Script<'_> {
    fn notes(&self) -> Vec<Note> {
        let text = fs::read_to_string(self.capture.join("sideband.jsonl")).unwrap_or_default();
        text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
    }

    /// Whether all that was told has been seen, and pages are tracked.
    fn is_seen(&self) -> bool {
        let notes = self.notes();
        self.process.is_watched()
            && self.told.last().is_none_or(|(_, [begun, _])| {
                let pid = self.process.pid();
                self.process.pages.iter().all(|page| {
                    codes(&notes, pid, *page).any(|(_, since)| since.is_some_and(|since| since >= *begun))
                })
            })
    }

    /// Goes on; `false` when all is done.
    fn go_on(&mut self) -> bool {
        if Instant::now() > self.until {
            panic!("{:?} is not seen: {:?}", self.told, self.notes());
        }
        if !self.is_seen() {
            return true;
        }
        let Some(next) = self.left.next().copied() else { return false };
        let when = self.process.tell(next);
        // What has no new code in both pages is not waited for.
        if next.starts_with("write") {
            self.told.push((next, when));
        }
        true
    }
}

/// The notes of code of a process at the begin of a page: what it is, and since when.
fn codes(notes: &[Note], pid: i32, page: u64) -> impl Iterator<Item = (u8, Option<u64>)> {
    notes.iter().filter_map(move |note| match &note.what {
        What::Code { start, code, since } if note.pid == pid => {
            let version = (page + 1).checked_sub(*start).and_then(|at| code.get(at as usize));
            Some((*version?, *since))
        }
        _ => None,
    })
}

/// Whether this kernel can track pages; says it as a skip where it cannot.
fn can_track() -> bool {
    let tracker = mote_sys::uffd::make();
    let can = tracker.is_ok_and(|tracker| mote_sys::uffd::prepare(&tracker).is_ok());
    if !can {
        mote_skip::skip("userfaultfd(2) with write-protection that the kernel lifts itself is of Linux 6.7");
    }
    can
}

/// Records the process while it is told these; returns what was told and the notes.
fn told(process: &mut Process, script: &[&'static str]) -> Option<(Vec<Told>, Vec<Note>)> {
    let folder = tempfile::tempdir().expect("a directory");
    let (pid, descriptors) = (process.pid(), process.descriptors());
    let mut script = Script {
        process,
        left: script.iter(),
        told: Vec::new(),
        capture: folder.path().join("capture"),
        until: Instant::now() + LONG,
    };
    let recorded = recorded(folder.path(), pid, || script.go_on())?;
    assert_eq!(recorded.missing, [""; 0]);
    // A program that another test starts at this moment has the recorder's descriptors until it runs.
    while script.process.is_watched() {
        assert!(Instant::now() < script.until, "it is left as it was");
        std::thread::sleep(Duration::from_millis(1));
    }
    assert_eq!(script.process.descriptors(), descriptors);
    let notes = script.notes();
    Some((script.told, notes))
}

#[test]
fn each_version_counts_from_its_first_write_on() {
    if !can_track() {
        return;
    }
    let mut process = Process::start();
    let script = ["write 2", "write 3", "write 4", "write 5", "write 6"];
    let Some((told, notes)) = told(&mut process, &script) else { return };
    for page in process.pages {
        let seen: Vec<_> = codes(&notes, process.pid(), page).collect();
        for (version, (_, [before, behind])) in (2..).zip(&told) {
            let since = seen.iter().find(|(of, _)| *of == version).and_then(|(_, since)| *since);
            // A program noted it, or else the look before is all that is known.
            assert!(
                since.is_some_and(|since| (*before..=*behind).contains(&since)),
                "{page:#x}: {told:?} {seen:?}"
            );
        }
        assert_eq!(seen.len(), 6, "each is noted once: {seen:?}");
    }
    // It goes on.
    process.tell("write 7");
}

#[test]
fn a_process_that_forks_or_maps_anew_is_followed_on() {
    if !can_track() {
        return;
    }
    let mut process = Process::start();
    let script = ["write 2", "fork", "write 3", "map", "write 4", "fork", "write 5"];
    let Some((told, notes)) = told(&mut process, &script) else { return };
    for page in process.pages {
        let seen: Vec<_> = codes(&notes, process.pid(), page).collect();
        for version in 2..=5 {
            assert!(seen.iter().any(|(of, _)| *of == version), "{page:#x}: {told:?} {seen:?}");
        }
    }
}

#[test]
fn a_process_that_ends_or_becomes_another_program_holds_nothing_up() {
    if !can_track() {
        return;
    }
    for is_killed in [true, false] {
        let folder = tempfile::tempdir().expect("a directory");
        let mut process = Process::start();
        let (pid, until) = (process.pid(), Instant::now() + LONG);
        let mut left = 20;
        let goes_on = || {
            assert!(Instant::now() < until, "it is not watched");
            if left == 20 && process.is_watched() {
                left = 19;
                if is_killed {
                    process.child.kill().expect("it runs");
                } else {
                    writeln!(process.tell, "exec").expect("it listens");
                }
            } else if left < 20 {
                left -= 1;
            }
            left > 0
        };
        let Some(recorded) = recorded(folder.path(), pid, goes_on) else { return };
        assert_eq!(recorded.missing, [""; 0]);
        let is_there = process.child.try_wait().expect("a child").is_none();
        assert_eq!(is_there, !is_killed);
    }
}

/// A recorder of its own, which is killed: nothing, where it is not told to be.
#[test]
fn the_recorder() {
    let Ok(role) = std::env::var(ROLE) else { return };
    let Some(pid) = role.strip_prefix("recorder ") else { return };
    let folder = tempfile::tempdir().expect("a directory");
    recorded(folder.path(), pid.parse().expect("a number"), || true);
}

#[test]
fn a_recorder_that_is_killed_leaves_the_process_as_it_was() {
    if !can_track() {
        return;
    }
    let folder = tempfile::tempdir().expect("a directory");
    let mut process = Process::start();
    let descriptors = process.descriptors();
    // Where code cannot be copied there is nothing to be killed.
    if recorded(folder.path(), std::process::id().cast_signed(), || false).is_none() {
        return;
    }
    for wait in [None, Some(0), Some(3), Some(9)] {
        let mut recorder = own("the_recorder", &format!("recorder {}", process.pid()));
        let mut recorder = recorder.stdout(Stdio::null()).spawn().expect("ourselves");
        let until = Instant::now() + LONG;
        // When it has it, or at any moment: also while a thread of the process is on its way.
        while !process.is_watched() && wait.is_none() {
            assert!(Instant::now() < until, "it is not watched");
            process.tell("write 2");
        }
        std::thread::sleep(Duration::from_millis(wait.unwrap_or(0) * 10));
        recorder.kill().expect("it runs");
        recorder.wait().expect("it has ended");
        assert!(!process.is_watched());
        for version in 3..20 {
            process.tell(&format!("write {version}"));
        }
        process.tell("fork");
        while process.descriptors() != descriptors {
            assert!(Instant::now() < until, "a descriptor stays");
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}
