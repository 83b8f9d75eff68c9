//! `mote doctor`: checks what works here, and proves that an event arrives.

use crate::{cmd, out};
use anyhow::Context;
use clap::ValueEnum;
use mote_inspect::doctor::{self, EMITTED, Finding, Verdict};
use mote_pmu::device::FOLDER;
use mote_pmu::{Command, Kept, Linux, Options, Settings, Targets};
use mote_words::{counted, wrapped};
use serde_json::json;
use std::ffi::OsString;
use std::io::{self, IsTerminal, Write};
use std::path::Path;
use std::process::ExitCode;

/// Check what works on this machine, and prove that an event arrives
///
/// Looks at everything that recording needs or can use, says what does not work and what to do about it, and at last
/// records a program for real and reads back what it has emitted, and what the kernel has told of it.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  mote doctor                  the table
  mote doctor --format json    for programs, and for reports of problems
  mote doctor --pt             Intel PT: what there is; record, decode, compare with perf

A line has ok, warn (recording works, but something is slower or missing) or FAIL; what was checked; what was found; and
below, what to do about it.

With --pt, what fails is packed into one file, which is named: it has the packets of a shell that counts, and the names
of the files that it has mapped.

Exit status: 0 recording works, 2 it does not; with --pt, recording of Intel PT.")]
pub(crate) struct Args {
    /// Look at Intel PT alone: record some work, decode it, compare with perf
    #[arg(long)]
    pt: bool,

    /// What to print: a table for people, or one JSON object
    #[arg(long, value_name = "FORMAT", default_value = "text")]
    format: Format,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Format {
    Text,
    Json,
}

/// Checks; see the help for the exit status.
pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    if args.pt {
        return pt(args);
    }
    let mote = std::env::current_exe().context("cannot find the path of the program mote")?;
    let mut findings = doctor::machine(Path::new("."));
    findings.push(doctor::proof(&mote, EMIT_VERB));
    findings.push(doctor::kernel_proof(&mote, EMIT_VERB));
    let works = shown(args, &findings)?;
    Ok(if works { ExitCode::SUCCESS } else { cmd::FAILED.into() })
}

/// Prints what was found; whether nothing has failed.
fn shown(args: &Args, findings: &[Finding]) -> anyhow::Result<bool> {
    let works = findings.iter().all(|finding| finding.verdict != Verdict::Fail);
    let subject = if args.pt { "recording Intel PT" } else { "recording" };
    let colour =
        io::stdout().is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
    let written = match args.format {
        Format::Text => print(out::lock(), (subject, findings), colour, out::width().unwrap_or(usize::MAX)),
        Format::Json => print_json(out::lock(), findings, works),
    };
    written.context("cannot write the findings to standard output")?;
    Ok(works)
}

/// Name of the file with what has failed.
const PACKED: &str = "mote-doctor-pt.tar.gz";

/// Intel PT alone.
fn pt(args: &Args) -> anyhow::Result<ExitCode> {
    let (device, mut findings) = doctor::pt(Path::new(FOLDER));
    let Some(device) = device else {
        shown(args, &findings)?;
        return Ok(cmd::FAILED.into());
    };
    let folder = tempfile::tempdir().context("cannot make a directory for the proof")?;
    let words = doctor::PT_WORK.map(OsString::from);
    let mut command = Command::stopped(&words).context("cannot run /bin/sh")?;
    let options = Options {
        settings: Settings::default(),
        targets: Targets::Command(command.pid()),
        cpus: crate::hardware::cpus(None)?,
        memory: 4 << 20,
        kept: Kept::All,
        filter: None,
        jit: false,
    };
    let pid = command.pid();
    let goes_on = |_: &Linux| command.status().is_none();
    findings.extend(doctor::pt_proof(
        (Linux, &device, &options),
        folder.path(),
        || Command::go(pid),
        goes_on,
    ));
    let packed = doctor::pt_pack(folder.path(), &findings, Path::new(PACKED)).map_err(anyhow::Error::msg)?;
    let works = shown(args, &findings)?;
    if let Some(path) = packed {
        say!("what has failed is in {}: please send it to mote's issues", path.display());
    }
    Ok(if works { ExitCode::SUCCESS } else { cmd::FAILED.into() })
}

/// Columns of a verdict.
const VERDICT: usize = 4;

fn print(
    mut out: impl Write,
    (subject, findings): (&str, &[Finding]),
    colour: bool,
    width: usize,
) -> io::Result<()> {
    let name = findings.iter().map(|finding| finding.what.chars().count()).max().unwrap_or(0);
    let indent = VERDICT + 2 + name + 2;
    for finding in findings {
        let (on, off) = if colour { (colour_of(finding.verdict), "\x1b[0m") } else { ("", "") };
        let verdict = finding.verdict.name();
        // Escape sequences have no width.
        let line = format!("{verdict:<VERDICT$}  {:<name$}  {}", finding.what, finding.found);
        let line = wrapped(&line, width, indent);
        writeln!(out, "{on}{verdict}{off}{}", line.strip_prefix(verdict).unwrap_or(&line))?;
        if !finding.advice.is_empty() {
            writeln!(out, "{}", wrapped(&format!("{:indent$}-> {}", "", finding.advice), width, indent + 3))?;
        }
    }
    let count = |verdict| findings.iter().filter(|finding| finding.verdict == verdict).count() as u64;
    let warnings = count(Verdict::Warn);
    match count(Verdict::Fail) {
        0 if warnings == 0 => writeln!(out, "\n{subject} works"),
        0 => {
            writeln!(out, "\n{subject} works; {} be better", counted(warnings, "check could", "checks could"))
        }
        failed => {
            writeln!(out, "\n{subject} does not work: {} failed", counted(failed, "check", "checks"))
        }
    }?;
    out.flush()
}

const fn colour_of(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Ok => "\x1b[32m",
        Verdict::Warn => "\x1b[33m",
        Verdict::Fail => "\x1b[31m",
    }
}

fn print_json(mut out: impl Write, findings: &[Finding], works: bool) -> io::Result<()> {
    let checks: Vec<_> = findings
        .iter()
        .map(|finding| {
            json!({
                "what": finding.what,
                "verdict": finding.verdict.name().to_lowercase(),
                "found": finding.found,
                "advice": finding.advice,
            })
        })
        .collect();
    let all = json!({ "version": env!("CARGO_PKG_VERSION"), "works": works, "checks": checks });
    writeln!(out, "{all:#}")?;
    out.flush()
}

/// The verb that emits the proof's events.
const EMIT_VERB: &str = "__doctor-emit";

/// Emit events for the proof of `mote doctor`
#[derive(Debug, clap::Args)]
pub(crate) struct EmitArgs {
    /// How many
    #[arg(default_value_t = EMITTED)]
    count: u64,
}

/// Emits them: `doctor::PROOF_EVENT`.
pub(crate) fn emit(args: &EmitArgs) -> anyhow::Result<ExitCode> {
    for number in 0..args.count {
        mote::event!(doctor::proof, number: u64 = number, "for mote doctor");
    }
    Ok(ExitCode::SUCCESS)
}
