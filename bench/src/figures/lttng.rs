//! LTTng-UST in the same run: a flight recorder with the same buffers, the same two events from C.

use super::figure::Samples;
use super::native;
use super::session::Lab;
use anyhow::Context;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

const PROBE: &str = include_str!("programs/lttng_probe.h");
const SOURCE: &str = include_str!("programs/lttng.c");
/// How long its daemon has to start.
const PATIENCE: Duration = Duration::from_secs(10);

/// A running session of LTTng's, ended when dropped.
pub(super) struct Peer {
    session: String,
    home: PathBuf,
    program: PathBuf,
    result: PathBuf,
    /// The daemon, if we had to start one.
    daemon: Option<Child>,
}

impl Peer {
    /// Builds the program and starts a session.
    ///
    /// # Errors
    /// LTTng or its headers are not installed, or it does not work.
    pub(super) fn start(lab: &Lab) -> anyhow::Result<Peer> {
        Peer::filtered(lab, &[("two_ints", None), ("nine_strings", None)])
    }

    /// As [`Peer::start`], with these of the program's events on, and a filter for each that has one.
    ///
    /// # Errors
    /// As [`Peer::start`]; LTTng does not take a filter.
    pub(super) fn filtered(lab: &Lab, events: &[(&str, Option<&str>)]) -> anyhow::Result<Peer> {
        static STARTED: AtomicU32 = AtomicU32::new(0);
        let home = lab.path().to_owned();
        let program = build(&home)?;
        let number = STARTED.fetch_add(1, Ordering::Relaxed);
        let mut peer = Peer {
            session: format!("mote-bench-{}-{number}", std::process::id()),
            result: home.join("lttng-result"),
            home,
            program,
            daemon: None,
        };
        peer.daemon()?;
        let session = peer.session.clone();
        peer.lttng(&["create", &session, "--snapshot"])?;
        let channel =
            ["enable-channel", "-u", "--overwrite", "--subbuf-size=1M", "--num-subbuf=4", "-s", &session];
        peer.lttng(&[&channel[..], &["ch"]].concat())?;
        for (event, filter) in events {
            let event = format!("bench:{event}");
            let on = ["enable-event", "-u", "-s", &session, "-c", "ch", &event];
            let filter: Vec<&str> = filter.iter().flat_map(|filter| ["--filter", filter]).collect();
            peer.lttng(&[&on[..], &filter].concat())?;
        }
        peer.lttng(&["start", &session])?;
        Ok(peer)
    }

    /// Runs the program once; adds `lttng/two_ints` and `lttng/nine_strings`, in nanoseconds.
    ///
    /// # Errors
    /// It has failed.
    pub(super) fn measure(&mut self, samples: &mut Samples, events: u64, rounds: u64) -> anyhow::Result<()> {
        let mut command = Command::new(&self.program);
        let command = command.args([events.to_string(), rounds.to_string()]).arg(&self.result);
        // The program waits until it is registered with the daemon, however long that takes.
        let status = command.env("LTTNG_HOME", &self.home).env("LTTNG_UST_REGISTER_TIMEOUT", "-1").status();
        anyhow::ensure!(
            status.context("cannot run the program for lttng")?.success(),
            "the program for lttng has failed"
        );
        let text =
            std::fs::read_to_string(&self.result).context("the program for lttng has left no figures")?;
        samples.read(&text, |case| Some(format!("lttng/{case}")))
    }

    /// Starts a daemon unless one answers.
    fn daemon(&mut self) -> anyhow::Result<()> {
        if self.lttng(&["list"]).is_ok() {
            return Ok(());
        }
        let mut command = Command::new("lttng-sessiond");
        let command = command.arg("--no-kernel").env("LTTNG_HOME", &self.home);
        let daemon = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn();
        self.daemon = Some(daemon.context("lttng-sessiond is not installed")?);
        let began = Instant::now();
        while self.lttng(&["list"]).is_err() {
            anyhow::ensure!(began.elapsed() < PATIENCE, "lttng-sessiond does not answer");
            std::thread::sleep(Duration::from_millis(50));
        }
        Ok(())
    }

    fn lttng(&self, args: &[&str]) -> anyhow::Result<()> {
        let mut command = Command::new("lttng");
        let command = command.arg("--no-sessiond").args(args).env("LTTNG_HOME", &self.home);
        let output = command.output().context("lttng is not installed")?;
        anyhow::ensure!(output.status.success(), "lttng {} has failed", args.first().unwrap_or(&""));
        Ok(())
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        // A session that was never made cannot be destroyed; then there is nothing to do.
        let _ = self.lttng(&["destroy", &self.session]);
        if let Some(daemon) = &mut self.daemon {
            // It ends its own children when it is asked to end.
            let _ = kill(Pid::from_raw(daemon.id() as i32), Signal::SIGTERM);
            let _ = daemon.wait();
        }
    }
}

fn build(home: &Path) -> anyhow::Result<PathBuf> {
    let built = home.join("lttng-c");
    if built.exists() {
        return Ok(built);
    }
    let write = |name: &str, text: &str| {
        let path = home.join(name);
        std::fs::write(&path, text).map(|()| path).context("cannot write the program for lttng")
    };
    write("lttng_probe.h", PROBE)?;
    let (source, program) = (write("lttng.c", SOURCE)?, built);
    native::compile(
        Command::new("cc").arg("-I").arg(home).arg("-o").arg(&program).arg(&source).arg("-llttng-ust"),
    )
    .context("lttng-ust is not installed")?;
    Ok(program)
}
