//! Runs `mote record`, and `mote latency`.

use super::{Trace, programs, wait_for};
use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// How long a recording may take before it is killed and the claim fails.
const PATIENCE: Duration = Duration::from_secs(300);

/// For env(1): signals as a terminal's program has them.
pub(crate) const DEFAULT_SIGNALS: &str = "--default-signal=INT,QUIT,HUP,TERM";

/// A recording to be made.
#[derive(Debug)]
pub(crate) struct Record {
    verb: &'static str,
    wrapper: Vec<OsString>,
    options: Vec<OsString>,
    variables: Vec<(OsString, OsString)>,
    command: Vec<OsString>,
    output: Option<PathBuf>,
    stdin: Option<Vec<u8>>,
}

fn words(of: &[impl AsRef<OsStr>]) -> Vec<OsString> {
    of.iter().map(|word| word.as_ref().to_owned()).collect()
}

impl Record {
    /// Of a program.
    pub(crate) fn program(command: &[impl AsRef<OsStr>]) -> Record {
        Record {
            verb: "record",
            wrapper: Vec::new(),
            options: Vec::new(),
            variables: Vec::new(),
            command: words(command),
            output: None,
            stdin: None,
        }
    }

    /// Without a command.
    pub(crate) fn nothing() -> Record {
        Record::program(&[] as &[&str])
    }

    /// By another verb, which has the same options.
    pub(crate) fn by(mut self, verb: &'static str) -> Record {
        self.verb = verb;
        self
    }

    /// Of a process that runs already.
    pub(crate) fn process(pid: u64) -> Record {
        Record::nothing().with(&["-p", &pid.to_string()])
    }

    /// Of a scene of `scenes`.
    pub(crate) fn scene(scene: &[&str]) -> Record {
        Record::program(&[&[programs::scenes()], scene].concat())
    }

    /// With options of `mote record`.
    pub(crate) fn with(mut self, options: &[&str]) -> Record {
        self.options.extend(words(options));
        self
    }

    /// With `mote` itself started by another program.
    pub(crate) fn under(mut self, wrapper: &[&str]) -> Record {
        self.wrapper = words(wrapper);
        self
    }

    /// With an environment variable.
    pub(crate) fn env(mut self, name: &str, value: &str) -> Record {
        self.variables.push((name.into(), value.into()));
        self
    }

    /// To this directory instead of a temporary one.
    pub(crate) fn to(mut self, output: &Path) -> Record {
        self.output = Some(output.to_owned());
        self
    }

    /// With this on standard input.
    pub(crate) fn input(mut self, bytes: &[u8]) -> Record {
        self.stdin = Some(bytes.to_vec());
        self
    }

    /// Starts it.
    pub(crate) fn start(self) -> Running {
        let keep = tempfile::Builder::new().prefix("mote-claim-").tempdir().expect("a temporary directory");
        let output = self.output.unwrap_or_else(|| keep.path().join("trace"));
        // Tests may have been started by a shell that ignores Ctrl-C for what runs behind it.
        let mut line: Vec<OsString> = vec!["env".into(), DEFAULT_SIGNALS.into()];
        line.extend(self.wrapper);
        line.extend([programs::mote().into(), self.verb.into(), "-o".into(), output.clone().into()]);
        line.extend(self.options);
        if !self.command.is_empty() {
            line.push("--".into());
            line.extend(self.command);
        }
        let mut command = Command::new(&line[0]);
        // Sockets go where the claim ends them, however the recorder ends.
        let sockets = keep.path().join("run");
        fs::create_dir(&sockets).expect("a directory");
        command.env("XDG_RUNTIME_DIR", sockets).envs(self.variables).env_remove("MOTE_SESSION");
        command.args(&line[1..]);
        let file = |name: &str| File::create(keep.path().join(name)).expect("a file");
        command.stdout(file("out")).stderr(file("err"));
        command.stdin(match &self.stdin {
            Some(bytes) => {
                fs::write(keep.path().join("in"), bytes).expect("a file");
                Stdio::from(File::open(keep.path().join("in")).expect("a file"))
            }
            None => Stdio::null(),
        });
        let child = command.spawn().unwrap_or_else(|why| panic!("{line:?}: {why}"));
        Running { child, output, keep, began: Instant::now() }
    }

    /// Starts it and waits for its end.
    pub(crate) fn run(self) -> Trace {
        self.start().wait()
    }
}

/// A recording that runs.
#[derive(Debug)]
pub(crate) struct Running {
    child: Child,
    output: PathBuf,
    keep: TempDir,
    /// When it was started.
    pub(crate) began: Instant,
}

impl Running {
    /// Process id of the recorder (or of what it runs under).
    pub(crate) fn pid(&self) -> nix::unistd::Pid {
        nix::unistd::Pid::from_raw(self.child.id() as i32)
    }

    /// Where the trace is written.
    pub(crate) fn output(&self) -> &Path {
        &self.output
    }

    /// What the program and the recorder have said on their standard output and error so far.
    pub(crate) fn said(&self) -> (String, String) {
        let read = |name: &str| {
            let bytes = fs::read(self.keep.path().join(name)).unwrap_or_default();
            String::from_utf8_lossy(&bytes).into_owned()
        };
        (read("out"), read("err"))
    }

    /// Waits until the program has printed a line `NAME VALUE`.
    pub(crate) fn wait_for(&self, name: &str) -> u64 {
        wait_for(name, || value_of(&self.said().0, name))
    }

    /// Waits until some events are on disk.
    pub(crate) fn wait_until_recorded(&self) {
        wait_for_streams(&self.output);
    }

    /// Waits until some of the kernel's events are on disk.
    pub(crate) fn wait_until_kernel_recorded(&self) {
        wait_for_streams(&self.output.join("kernel"));
    }

    /// What sessions have left where their sockets are.
    pub(crate) fn sockets(&self) -> usize {
        fs::read_dir(self.keep.path().join("run")).expect("a directory").count()
    }

    /// Waits until the recorder, or the program, has said this on its standard error.
    pub(crate) fn wait_until_said(&self, words: &str) {
        wait_for(words, || self.said().1.contains(words).then_some(()));
    }

    /// Sends the recorder a signal.
    pub(crate) fn signal(&self, signal: nix::sys::signal::Signal) {
        nix::sys::signal::kill(self.pid(), signal).expect("it runs");
    }

    /// True when the recorder has ended.
    pub(crate) fn has_ended(&mut self) -> bool {
        self.child.try_wait().expect("our child").is_some()
    }

    /// Waits for the recorder's end.
    pub(crate) fn wait(mut self) -> Trace {
        let status = loop {
            if let Some(status) = self.child.try_wait().expect("our child") {
                break status;
            }
            if self.began.elapsed() > PATIENCE {
                let _ = self.child.kill();
                panic!("the recording did not end in {PATIENCE:?}; it said {:?}", self.said());
            }
            std::thread::sleep(Duration::from_millis(2));
        };
        let (out, err) = self.said();
        let status = status.code().unwrap_or_else(|| 1000 + status.signal().unwrap_or(0));
        Trace { path: self.output, status, out, err, took: self.began.elapsed(), _keep: Some(self.keep) }
    }
}

/// Waits until a trace has streams.
fn wait_for_streams(trace: &Path) {
    let is_stream = |name: &str| name.starts_with("cpu_") || name.starts_with("shared_");
    wait_for("events on disk", || {
        let mut entries = fs::read_dir(trace).ok()?.filter_map(Result::ok);
        entries.any(|entry| is_stream(&entry.file_name().to_string_lossy())).then_some(())
    });
}

/// The value of the first line `NAME VALUE`.
pub(crate) fn value_of(text: &str, name: &str) -> Option<u64> {
    text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix([' ', '\t'])?.trim().parse().ok())
}

/// Waits until a thread, by its id as we see it, has slept so many times more.
pub(crate) fn wait_for_sleeps(tid: u64, more: u64) {
    let sleeps = || {
        let status = fs::read_to_string(format!("/proc/{tid}/status")).expect("it runs");
        value_of(&status, "voluntary_ctxt_switches:").expect("every thread has it")
    };
    let before = sleeps();
    wait_for("a program that goes on", || (sleeps() >= before + more).then_some(()));
}
