//! LTTng-UST: a session of its own, with a daemon that is started where none runs.

use super::ready::Ready;
use super::recorded::{self, Recorded};
use super::run::{self, Ended, Lab};
use anyhow::{Context, ensure};
use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// How long the daemon has to start.
const PATIENCE: Duration = Duration::from_secs(10);
const LOOK: Duration = Duration::from_millis(50);
/// Buffers of a CPU: an emulated program is slow, but one that the machine has no time for may still lose events.
const BUFFERS: [&str; 2] = ["--subbuf-size=4M", "--num-subbuf=8"];

/// A session that records; it ends when this is dropped, with the daemon that was started for it.
struct Session {
    name: String,
    /// Where the daemon of a user has its sockets.
    home: PathBuf,
    trace: PathBuf,
    daemon: Option<Child>,
}

/// Starts a session with all events of programs switched on.
///
/// # Errors
/// LTTng does not do what it is asked for: in a sentence.
pub(super) fn ready(lab: &Lab) -> anyhow::Result<Box<dyn Ready>> {
    let name = format!("mote-impact-{}", std::process::id());
    let [home, trace] = ["lttng.home", "lttng.trace"].map(|name| lab.place(name));
    std::fs::create_dir(&home).context("cannot make a directory for lttng-sessiond")?;
    let mut session = Session { name, home, trace, daemon: None };
    session.find_daemon()?;
    let output = format!("--output={}", session.trace.display());
    let name = session.name.clone();
    session.lttng(&["create", &name, &output])?;
    session.lttng(&[&["enable-channel", "-u", "-s", &name][..], &BUFFERS, &["channel"]].concat())?;
    session.lttng(&["enable-event", "-u", "-s", &name, "-c", "channel", "-a"])?;
    session.lttng(&["start", &name])?;
    Ok(Box::new(session))
}

impl Session {
    /// Starts a daemon unless one answers.
    fn find_daemon(&mut self) -> anyhow::Result<()> {
        if self.lttng(&["list"]).is_ok() {
            return Ok(());
        }
        let mut command = Command::new("lttng-sessiond");
        let command = command.arg("--no-kernel").env("LTTNG_HOME", &self.home).process_group(0);
        let daemon = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn();
        self.daemon = Some(daemon.context("cannot start lttng-sessiond")?);
        let began = Instant::now();
        while self.lttng(&["list"]).is_err() {
            ensure!(began.elapsed() < PATIENCE, "lttng-sessiond does not answer");
            std::thread::sleep(LOOK);
        }
        Ok(())
    }

    fn lttng(&self, words: &[&str]) -> anyhow::Result<()> {
        let mut command = Command::new("lttng");
        let command = command.arg("--no-sessiond").args(words).env("LTTNG_HOME", &self.home);
        let output = command.output().context("cannot run lttng")?;
        let said = String::from_utf8_lossy(&output.stderr);
        let verb = words.first().unwrap_or(&"");
        ensure!(output.status.success(), "lttng {verb}: {}", said.lines().next().unwrap_or("it has failed"));
        Ok(())
    }
}

impl Ready for Session {
    fn words(&self, lab: &Lab, name: &str) -> Vec<OsString> {
        lab.emulated(name, lab.command())
    }

    /// The program waits until it is registered, however long that takes in an emulator.
    fn environment(&self) -> Vec<(&'static str, OsString)> {
        vec![("LTTNG_HOME", self.home.clone().into()), ("LTTNG_UST_REGISTER_TIMEOUT", "-1".into())]
    }

    fn is_inside(&self) -> bool {
        false
    }

    fn recorded(&mut self, _: &Lab, _: &Ended) -> anyhow::Result<Recorded> {
        self.lttng(&["stop", &self.name])?;
        self.lttng(&["destroy", &self.name])?;
        recorded::of_trace(&self.trace)
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        // One that was destroyed, or never made, is not there; then there is nothing to do.
        let _ = self.lttng(&["destroy", &self.name]);
        if let Some(daemon) = &mut self.daemon {
            // It ends its own children when it is asked to end.
            run::end(daemon);
        }
    }
}
