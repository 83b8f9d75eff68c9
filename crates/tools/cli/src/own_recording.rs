//! The recording that a verb makes which shows one: where it is not given any.

use crate::begun::{Begun, ReadyArgs};
use crate::out::Place;
use crate::{cmd, units};
use anyhow::Context;
use mote_daemon::options::{CallsAre, Mode, Streams, User};
use mote_daemon::{Buffers, Ctf, Options, Progress, Recorded, Watch};
use mote_words::COLUMNS;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

/// What is recorded, and where to.
#[derive(Debug, clap::Args)]
pub(crate) struct RecordArgs {
    /// Record this running process, and what it starts from now on; separate several by commas
    #[arg(short = 'p', long = "pid", value_name = "PID", value_delimiter = ',', conflicts_with = "input")]
    #[arg(value_parser = clap::value_parser!(i32).range(1..))]
    pid: Vec<i32>,
    /// Directory to make for the recording [default: ./NAME-DATE-TIME]
    #[arg(short, long, value_name = "DIR", conflicts_with = "input")]
    output: Option<PathBuf>,
    /// Stop recording after this time; the command goes on
    #[arg(long, value_name = "TIME", value_parser = units::time, conflicts_with = "input")]
    duration: Option<u64>,
    /// As root: give the recording to this user when it has ended [default: the user who called sudo, if all recorded
    /// processes are theirs]
    #[arg(long, value_name = "USER", value_parser = cmd::owner, conflicts_with = "input")]
    owner: Option<User>,
    #[command(flatten)]
    ready: ReadyArgs,
    /// The command and its arguments; with -p, recording stops when this command ends
    #[arg(last = true, value_name = "CMD", conflicts_with = "input")]
    command: Vec<OsString>,
}

impl RecordArgs {
    /// Where tables go.
    pub(crate) fn place(&self) -> Place {
        Place::beside(&self.command)
    }

    /// Whether it says of what: a command, or processes.
    pub(crate) fn has_subject(&self) -> bool {
        !(self.command.is_empty() && self.pid.is_empty())
    }

    /// What is to be recorded, but for the events: these are none.
    ///
    /// # Errors
    /// For a person: there is no name left for it.
    pub(crate) fn options(&self) -> anyhow::Result<Options> {
        Ok(Options {
            rules: Vec::new(),
            functions: Vec::new(),
            under: Vec::new(),
            probe_lists: Vec::new(),
            calls: CallsAre::Recorded,
            sampling: None,
            output: match &self.output {
                Some(path) => path.clone(),
                None => cmd::record::default_output(&self.command)
                    .context("cannot choose a name for the recording; give one with -o")?,
            },
            streams: Streams::Files,
            objects: Vec::new(),
            keeps_on_fault: false,
            interval: None,
            columns: self.place().width().unwrap_or(COLUMNS),
            exclude: Vec::new(),
            buffers: Buffers::default_for(mote_daemon::options::cpus()),
            mode: Mode::Discard,
            ctf: Ctf::V1_8,
            duration: self.duration.map(Duration::from_nanos),
            clock: None,
            stack: 0,
            kernel: None,
            profile: None,
            hardware: None,
            owner: self.owner,
            attach: self.pid.clone(),
            command: self.command.clone(),
        })
    }
}

/// Records until the command ends, or the process, or with Ctrl-C. `what` is recorded, in words.
///
/// # Errors
/// For a person.
pub(crate) fn record(args: &RecordArgs, options: &Options, what: &'static str) -> anyhow::Result<Recorded> {
    let begun = Begun::new(&args.ready, &args.command, &args.pid)?;
    let mut screen = Screen { begun, what, place: args.place() };
    Ok(mote_daemon::record(options, &mut screen)?)
}

/// The exit status that a recording asks for: as of `mote record`.
pub(crate) fn status(recorded: &Recorded) -> Option<ExitCode> {
    match recorded.summary.status {
        Some(0) | None if cmd::record::is_lossy(recorded) || !recorded.problems.is_empty() => {
            Some(cmd::record::LOSSY.into())
        }
        Some(0) | None => None,
        Some(status) => Some((status as u8).into()),
    }
}

/// The messages, on stderr.
struct Screen<'a> {
    begun: Begun<'a>,
    what: &'static str,
    place: Place,
}

impl Watch for Screen<'_> {
    fn begun(&mut self, directory: &Path) {
        if let Err(why) = self.begun.tell(directory) {
            say!("{why}");
        }
        say!("recording {} of {} into {}", self.what, self.begun.subject(), directory.display());
    }

    fn progress(&mut self, _: &Progress) {}

    fn aggregates(&mut self, text: &str) {
        self.place.show(&format!("{text}\n"));
    }

    fn say(&mut self, text: &str) {
        say!("{text}");
    }
}
