//! `mote demo`: records a program that comes with mote, and shows what can be seen.

use crate::demo::slowest::Slowest;
use crate::demo::{self, Load};
use crate::out;
use crate::units;
use anyhow::Context;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, ExitStatus};
use std::time::Duration;

/// Record a small web server under load, and look at the trace
///
/// The server is a part of mote. It has a few threads, and clients that ask it for documents, digests and searches over
/// the loopback interface; all of it carries mote events. It is recorded as `mote record` records any program, and
/// where that is allowed (root, or CAP_BPF and CAP_PERFMON) the kernel's scheduler and system calls with it; then the
/// first events, a report, and what happened during the slowest request are shown.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  mote demo                         record into ./mote-demo
  mote demo -o /tmp/d               record into /tmp/d
  mote demo --requests 100000 --seconds 30

The program is in crates/tools/cli/src/demo of mote's source: its events are declared in events.rs.

Exit status: 0 done, 2 failed, 3 events were lost.")]
pub(crate) struct Args {
    /// Directory to make for the trace [default: ./mote-demo, with a number when that exists]
    #[arg(short, long, value_name = "DIR")]
    output: Option<PathBuf>,

    #[command(flatten)]
    load: LoadArgs,
}

/// How much the demo does.
#[derive(Debug, clap::Args)]
pub(crate) struct LoadArgs {
    /// Requests to make
    #[arg(long, value_name = "NUMBER", default_value_t = 4000)]
    requests: u64,

    /// Stop earlier after this time, in seconds, or with a unit (500ms)
    #[arg(long, value_name = "TIME", default_value = "2s", value_parser = seconds)]
    seconds: u64,
}

/// A time in nanoseconds; a number without a unit is of seconds.
fn seconds(text: &str) -> Result<u64, String> {
    let plain = text.ends_with(|c: char| c.is_ascii_digit());
    if plain { units::time(&format!("{text}s")) } else { units::time(text) }
}

/// Events of the trace that are shown.
const LINES: &str = "10";
/// Of the slowest request.
const SLOWEST_LINES: &str = "24";
/// What is recorded of the kernel.
const KERNEL: &str = "sched,syscalls";

/// Records, shows, reports.
pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let mote = std::env::current_exe().context("cannot find the path of the program mote")?;
    let dir = output(args.output.as_deref())?;
    let mut status = record(&mote, &dir, &args.load, mote_kernel::privilege::check().is_none())?;
    if status.code() == Some(super::FAILED.into()) && !dir.exists() {
        say!("kernel events cannot be recorded here; recording the demo without them");
        status = record(&mote, &dir, &args.load, false)?;
    }
    if !status.success() && status.code() != Some(super::record::LOSSY.into()) {
        anyhow::bail!(
            "the demo was not recorded: `mote record` ended with {status}, see above; run `mote doctor`, too"
        );
    }
    out::print(&format!("\nThe first events (mote view {} --limit {LINES}):\n\n", dir.display()))?;
    show(Command::new(&mote).arg("view").arg(&dir).args(["--limit", LINES]))?;
    out::print(&format!("\nThe report (mote report {}):\n\n", dir.display()))?;
    show(Command::new(&mote).arg("report").arg(&dir))?;
    show_slowest(&mote, &dir)?;
    out::print(&hints(&dir, &mote))?;
    Ok(status.code().and_then(|code| u8::try_from(code).ok()).unwrap_or(super::FAILED).into())
}

/// Records the server under load, with the kernel's side of it or without.
fn record(mote: &Path, dir: &Path, load: &LoadArgs, kernel: bool) -> anyhow::Result<ExitStatus> {
    let mut record = Command::new(mote);
    record.args(["record", "-o"]).arg(dir);
    if kernel {
        record.args(["-e", "*", "-k", KERNEL]);
    }
    let (requests, seconds) = (load.requests.to_string(), format!("{}ns", load.seconds));
    record.arg("--").arg(mote).args([SERVER_VERB, "--requests", &requests, "--seconds", &seconds]);
    record.status().context("cannot run mote record")
}

/// What the thread that answered the slowest request did meanwhile, on both sides.
fn show_slowest(mote: &Path, dir: &Path) -> anyhow::Result<()> {
    let Some(slowest) = Slowest::of(dir)? else { return Ok(()) };
    let arguments = slowest.arguments();
    out::print(&format!(
        "\nThe slowest request took {}. What its thread did meanwhile (mote view {} {}):\n\n",
        mote_analysis::latency::time(slowest.nanos()),
        dir.display(),
        arguments.join(" ")
    ))?;
    show(Command::new(mote).arg("view").arg(dir).args(arguments).args(["--limit", SLOWEST_LINES]))
}

/// Runs a verb that shows something.
fn show(command: &mut Command) -> anyhow::Result<()> {
    let status = command.status().context("cannot run mote")?;
    anyhow::ensure!(status.success(), "the trace was recorded, but cannot be shown: {status}");
    Ok(())
}

/// The directory for the trace: what was asked for, or a name that is free.
fn output(asked: Option<&Path>) -> anyhow::Result<PathBuf> {
    match asked {
        Some(dir) if dir.exists() => anyhow::bail!("{} exists already; give another directory with -o", dir.display()),
        Some(dir) => Ok(dir.to_owned()),
        None => std::iter::once("mote-demo".to_owned())
            .chain((2..1000).map(|number| format!("mote-demo-{number}")))
            .map(PathBuf::from)
            .find(|dir| !dir.exists())
            .context("there are a thousand directories mote-demo-NUMBER here; remove some, or give another directory with -o"),
    }
}

/// How to look further.
fn hints(dir: &Path, mote: &Path) -> String {
    let (dir, mote) = (dir.display(), mote.display());
    let rows = [
        (format!("mote view {dir} --event http:request_slow"), "the slow requests"),
        (format!("mote view {dir} --provider pool --time delta"), "how requests queue for the threads"),
        (format!("mote view {dir} --format json | jq .fields"), "the fields, for programs"),
        (format!("mote list {mote}"), "the events that the demo carries"),
        ("mote record -- ./your-program".to_owned(), "record a program of your own"),
    ];
    let width = rows.iter().map(|(command, _)| command.chars().count()).max().unwrap_or(0);
    let rows: String = rows.iter().map(|(command, why)| format!("  {command:<width$}  {why}\n")).collect();
    format!("\nTo look further:\n{rows}")
}

/// The verb that is recorded.
const SERVER_VERB: &str = "__demo-server";

/// Runs the recorded program.
pub(crate) fn serve(args: &LoadArgs) -> anyhow::Result<ExitCode> {
    let load = Load { requests: args.requests, limit: Duration::from_nanos(args.seconds) };
    out::print(&format!("{}\n", demo::run(load)?))?;
    Ok(ExitCode::SUCCESS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_that_exists_is_not_taken() {
        let dir = tempfile::tempdir().expect("a directory");
        let error = output(Some(dir.path())).expect_err("exists").to_string();
        assert!(error.contains("exists already; give another"), "{error}");
        assert_eq!(output(Some(&dir.path().join("new"))).ok(), Some(dir.path().join("new")));
    }

    #[test]
    fn times_without_a_unit_are_seconds() {
        assert_eq!(seconds("2"), Ok(2_000_000_000));
        assert_eq!(seconds("1.5"), Ok(1_500_000_000));
        assert_eq!(seconds("5ms"), Ok(5_000_000));
        assert!(seconds("x").is_err());
    }
}
