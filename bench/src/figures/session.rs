//! Runs a workload under the recorder and gives back what it measured.

use super::figure::Samples;
use anyhow::Context;
use mote_daemon::options::{self, CallsAre, Mode, Streams};
use mote_daemon::{Buffers, Ctf, KernelOptions, Options, Progress, Recorded, Watch};
use mote_filter::Rule;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use tempfile::TempDir;

/// A directory for the recordings and programs of one benchmark, removed at its end.
pub(crate) struct Lab {
    dir: TempDir,
    count: u32,
}

/// Provider of the events that workloads emit.
const PROVIDER: &str = "bench:*";

/// A flight recorder of 4 sub-buffers of 1 MiB a CPU: what the peer is measured with.
pub(crate) fn flight_buffers() -> Buffers {
    Buffers { sub_bits: 20, count_bits: 2 }
}

/// The buffers that `mote record` takes when it is not told.
pub(crate) fn default_buffers() -> Buffers {
    Buffers::default_for(options::cpus())
}

impl Lab {
    /// An empty one, where temporary files go.
    pub(crate) fn new() -> anyhow::Result<Lab> {
        let dir = tempfile::Builder::new().prefix("mote-bench-").tempdir();
        Ok(Lab { dir: dir.context("cannot make a temporary directory; set TMPDIR")?, count: 0 })
    }

    /// Path of the directory, which is removed with this.
    pub(crate) fn path(&self) -> &Path {
        self.dir.path()
    }

    /// A path in it that nobody uses.
    pub(crate) fn fresh(&mut self, kind: &str) -> PathBuf {
        self.count += 1;
        self.dir.path().join(format!("{kind}-{}", self.count))
    }

    /// Records `command`, which writes its figures to the file that is its last argument. Returns the recording,
    /// whose directory stays, and the figures.
    ///
    /// # Errors
    /// The recording failed, or the command did.
    pub(crate) fn record(
        &mut self,
        buffers: (Mode, Buffers),
        command: Vec<OsString>,
    ) -> anyhow::Result<(Recorded, String)> {
        self.record_by(vec![Rule::record(PROVIDER)], buffers, command)
    }

    /// As [`Lab::record`], by these rules.
    ///
    /// # Errors
    /// As [`Lab::record`].
    pub(crate) fn record_by(
        &mut self,
        rules: Vec<Rule>,
        (mode, buffers): (Mode, Buffers),
        command: Vec<OsString>,
    ) -> anyhow::Result<(Recorded, String)> {
        self.record_both(rules, None, (mode, buffers), command)
    }

    /// Runs a workload under a flight recorder that goes by these rules, and has the kernel's side on for it.
    ///
    /// # Errors
    /// As [`Lab::fly_by`]; the kernel's side is not to be had.
    pub(crate) fn fly_with_kernel(
        &mut self,
        rules: Vec<Rule>,
        command: Vec<OsString>,
    ) -> anyhow::Result<String> {
        let kernel = KernelOptions {
            rules: vec![Rule::record("sched:sched_process_exit")],
            all: false,
            buffers: flight_buffers(),
            stacks: Default::default(),
            latency: None,
        };
        let (recorded, text) =
            self.record_both(rules, Some(kernel), (Mode::Overwrite, flight_buffers()), command)?;
        std::fs::remove_dir_all(&recorded.directory).context("cannot remove a recording")?;
        Ok(text)
    }

    fn record_both(
        &mut self,
        rules: Vec<Rule>,
        kernel: Option<KernelOptions>,
        (mode, buffers): (Mode, Buffers),
        mut command: Vec<OsString>,
    ) -> anyhow::Result<(Recorded, String)> {
        let result = self.fresh("result");
        command.push(result.clone().into());
        let name = command.iter().map(|word| word.to_string_lossy()).collect::<Vec<_>>().join(" ");
        let options = Options {
            output: self.fresh("trace"),
            streams: Streams::Files,
            rules,
            objects: Vec::new(),
            keeps_on_fault: false,
            interval: None,
            columns: 100,
            exclude: Vec::new(),
            buffers,
            mode,
            ctf: Ctf::V1_8,
            duration: None,
            clock: None,
            stack: 0,
            kernel,
            profile: None,
            hardware: None,
            owner: None,
            attach: Vec::new(),
            functions: Vec::new(),
            under: Vec::new(),
            probe_lists: Vec::new(),
            calls: CallsAre::Recorded,
            sampling: None,
            command,
        };
        let recorded = mote_daemon::record(&options, &mut Quiet)?;
        anyhow::ensure!(recorded.summary.status == Some(0), "'{name}' has failed: {:?}", recorded.problems);
        let text =
            std::fs::read_to_string(&result).with_context(|| format!("'{name}' has left no figures"))?;
        Ok((recorded, text))
    }

    /// As [`Lab::record`] with a flight recorder, whose trace nobody needs.
    ///
    /// # Errors
    /// As [`Lab::record`].
    pub(crate) fn fly(&mut self, command: Vec<OsString>) -> anyhow::Result<String> {
        let (recorded, text) = self.record((Mode::Overwrite, flight_buffers()), command)?;
        anyhow::ensure!(recorded.summary.total() > 0, "no event was recorded: {:?}", recorded.problems);
        std::fs::remove_dir_all(&recorded.directory).context("cannot remove a recording")?;
        Ok(text)
    }

    /// Runs a workload under a flight recorder that goes by these rules, whatever comes of them.
    ///
    /// # Errors
    /// As [`Lab::record`]; the recorder has seen a problem, such as a filter that was refused.
    pub(crate) fn fly_by(&mut self, rules: Vec<Rule>, command: Vec<OsString>) -> anyhow::Result<String> {
        let (recorded, text) = self.record_by(rules, (Mode::Overwrite, flight_buffers()), command)?;
        anyhow::ensure!(recorded.problems.is_empty(), "the recorder says: {:?}", recorded.problems);
        std::fs::remove_dir_all(&recorded.directory).context("cannot remove a recording")?;
        Ok(text)
    }

    /// As [`Lab::fly`], with the figures added to `samples` under new names.
    ///
    /// # Errors
    /// As [`Lab::record`].
    pub(crate) fn fly_into(
        &mut self,
        samples: &mut Samples,
        command: Vec<OsString>,
        rename: impl Fn(&str) -> Option<String>,
    ) -> anyhow::Result<()> {
        samples.read(&self.fly(command)?, rename)
    }
}

/// This program, to be run as a workload: `mote-bench work KIND NUMBER... RESULT`; the result is added later.
pub(crate) fn workload(kind: &str, numbers: &[u64]) -> anyhow::Result<Vec<OsString>> {
    let own = std::env::current_exe().context("cannot find the path of this program")?;
    let mut command = vec![own.into(), "work".into(), kind.into()];
    command.extend(numbers.iter().map(|number| number.to_string().into()));
    Ok(command)
}

/// The directory in which this program lies, with what was built beside it.
pub(crate) fn built() -> anyhow::Result<PathBuf> {
    let own = std::env::current_exe().context("cannot find the path of this program")?;
    Ok(own.parent().map(Path::to_owned).unwrap_or_default())
}

struct Quiet;

impl Watch for Quiet {
    fn progress(&mut self, _: &Progress) {}
    fn aggregates(&mut self, _: &str) {}
    fn say(&mut self, _: &str) {}
}
