//! What the documents for users of other tracers tell them to type works: all flags exist, and each command ends well.

use crate::support::{kernel, programs, skip, wait_for};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use tempfile::TempDir;

/// Instead of seconds.
const SHORT: &str = "--duration 300ms";
/// What mote says where a kernel is built without something; the command was understood.
const LACKING: [&str; 2] = ["this kernel has no kprobes", "this kernel has no fentry"];
/// So many seconds a command may take.
const PATIENCE: &str = "120";

#[test]
fn of_the_page_for_users_of_lttng() {
    let page = Page::read("from-lttng.md");
    assert!(page.commands.len() > 18, "{:?}", page.commands);
    Place::new().try_all(&page);
}

#[test]
fn of_the_page_for_users_of_bpftrace() {
    let page = Page::read("from-bpftrace.md");
    assert!(page.commands.len() > 18, "{:?}", page.commands);
    Place::new().try_all(&page);
}

#[test]
fn and_what_does_not_exist_is_noticed() {
    let place = Place::new();
    for wrong in
        ["mote record --no-such-flag -- ./app", "mote report t --sort", "mote list -e", "mote trace ./app"]
    {
        let output = place.run(&runnable(wrong, place.pid()));
        assert_eq!(output.status.code(), Some(2), "{wrong}: {output:?}");
    }
    assert!(!place.has_flag("--no-such-flag"));
}

/// What a page tells to type.
struct Page {
    /// Of the right column of its table: commands, or flags alone. Of its text: commands that are more than a verb.
    commands: Vec<String>,
    /// Flags and verbs that its text names.
    words: Vec<String>,
}

impl Page {
    fn read(name: &str) -> Page {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs").join(name);
        let text = fs::read_to_string(path).expect("a page");
        let (rows, prose): (Vec<&str>, Vec<&str>) = text.lines().partition(|line| line.starts_with('|'));
        let cells = rows.iter().map(|row| row.replace(r"\|", "\0"));
        let cells = cells.filter_map(|row| row.split('|').nth(2).map(|cell| cell.replace('\0', "|")));
        let mut commands: Vec<String> = cells.flat_map(|cell| code(&cell)).collect();
        let mut words = Vec::new();
        for span in code(&prose.join("\n")) {
            match span.contains("mote ") && span.split_whitespace().count() > 2 {
                true => commands.push(span),
                false => words.push(span),
            }
        }
        words.retain(|word| word.starts_with('-') || word.starts_with("mote "));
        Page { commands, words }
    }
}

/// The pieces of a text that stand between backticks.
fn code(text: &str) -> Vec<String> {
    text.split('`').skip(1).step_by(2).map(|span| span.replace('\n', " ")).collect()
}

/// A command as a test can run it: short, and of what there is here.
fn runnable(command: &str, pid: u32) -> String {
    let mut line = match command {
        flags if flags.starts_with('-') => format!("mote record -a {flags}"),
        _ => command.to_owned(),
    };
    let rest = if line.contains("-- ./app") || line.contains("-p 4711") { "-e 'net:*'" } else { "-- ./app" };
    for (from, to) in [
        // What follows is not ours.
        (" | flamegraph.pl", ""),
        ("--duration 10s", SHORT),
        ("--duration 5s", SHORT),
        ("usdt:postgres:", "usdt:./app:"),
        ("~/lttng-traces/auto-...", "trace"),
        ("...", rest),
        ("4711", &pid.to_string()),
    ] {
        line = line.replace(from, to);
    }
    if line.contains(" --interval") && !line.contains(" -k") {
        line += " -k sched:sched_switch --count 'by prev_comm'";
    }
    if line.contains("mote record ") && !line.contains(" -- ") && !line.contains("--duration") {
        line = line.replacen("mote record ", &format!("mote record {SHORT} "), 1);
    }
    line
}

/// A directory with the program, a recording of it and, below, one that goes on.
struct Place {
    dir: TempDir,
    running: Vec<Child>,
}

impl Place {
    fn new() -> Place {
        let dir = tempfile::Builder::new().prefix("mote-claim-").tempdir().expect("a directory");
        let mut place = Place { dir, running: Vec::new() };
        fs::create_dir_all(place.path("running")).expect("a directory");
        for directory in ["app", "running/app"] {
            std::os::unix::fs::symlink(programs::everyday(), place.path(directory)).expect("a link");
        }
        let flight = "exec mote record --mode overwrite -o trace -- ./app forever";
        place.running.push(place.shell("running", flight).stderr(Stdio::null()).spawn().expect("a shell"));
        place.running.push(place.shell("", "exec ./app forever").spawn().expect("a shell"));
        wait_for("a recording that runs", || place.run("mote status trace").status.success().then_some(()));
        for recording in ["t", "trace"] {
            assert!(place.run(&format!("mote record -o {recording} -- ./app")).status.success());
        }
        place
    }

    fn path(&self, below: &str) -> PathBuf {
        self.dir.path().join(below)
    }

    /// The process that the pages call 4711.
    fn pid(&self) -> u32 {
        self.running[1].id()
    }

    fn shell(&self, directory: &str, line: &str) -> Command {
        let mut command = Command::new("sh");
        command.args(["-c", line]).current_dir(self.path(directory));
        let path = std::env::var("PATH").unwrap_or_default();
        let mote = programs::mote().parent().expect("a directory").display();
        command.env("PATH", format!("{mote}:{path}")).env_remove("MOTE_SESSION");
        command.env("XDG_RUNTIME_DIR", self.dir.path()).stdin(Stdio::null());
        command
    }

    /// Runs a line where what it is about is.
    fn run(&self, line: &str) -> Output {
        let is_about_running = ["status", "enable", "disable", "snapshot"]
            .iter()
            .any(|verb| line.contains(&format!("mote {verb} ")));
        if line.contains("mote record ") {
            for name in ["t", "trace"].iter().filter(|name| line.contains(&format!("-o {name} "))) {
                let _ = fs::remove_dir_all(self.path(name));
            }
        }
        let directory = if is_about_running { "running" } else { "" };
        self.shell(directory, "exec timeout \"$0\" sh -c \"$1\"")
            .args([PATIENCE, line])
            .output()
            .expect("a shell")
    }

    /// Whether a verb that records or shows has a flag.
    fn has_flag(&self, flag: &str) -> bool {
        ["record", "view", "report"].iter().any(|verb| {
            let help = self.run(&format!("mote {verb} --help")).stdout;
            let help = String::from_utf8_lossy(&help).into_owned();
            help.split([' ', ',', '\n', '=', '[']).any(|word| word == flag)
        })
    }

    fn try_all(&self, page: &Page) {
        let with_kernel = kernel::is_there();
        for command in &page.commands {
            let line = runnable(command, self.pid());
            let is_kernel = [" -k", " -a"].iter().any(|flag| line.contains(flag));
            if command.starts_with("babeltrace2 ") || is_kernel && !with_kernel {
                continue;
            }
            assert!(command.starts_with('-') || command.contains("mote "), "cannot be tried: {command}");
            // Of a whole system under load an event may be lost to an interrupt within interrupts, which is said.
            let is_lossy = |output: &Output| output.status.code() == Some(3);
            let output = (0..3).map(|_| self.run(&line)).find(|output| !is_lossy(output));
            let output = output.unwrap_or_else(|| panic!("{command} has lost events three times"));
            let said = String::from_utf8_lossy(&output.stderr);
            if LACKING.iter().any(|what| said.contains(what)) {
                skip(format_args!("{command}: {}", said.trim_end()));
                continue;
            }
            assert!(output.status.success(), "{command}, tried as {line}: {}\n{said}", output.status);
        }
        for word in &page.words {
            match word.strip_prefix("mote ") {
                Some(verb) => {
                    assert!(self.run(&format!("mote {verb} --help")).status.success(), "{word}");
                }
                None => {
                    let flag = word.split_whitespace().next().expect("a word");
                    assert!(self.has_flag(flag), "{word}");
                }
            }
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        for child in &mut self.running {
            let _ = nix::sys::signal::kill(
                nix::unistd::Pid::from_raw(child.id() as i32),
                nix::sys::signal::Signal::SIGTERM,
            );
            let _ = child.wait();
        }
    }
}
