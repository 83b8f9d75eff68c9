//! `mote pt export`: captures for other programs.

use super::shown;
use crate::out;
use mote_capture::Capture;
use mote_capture::perf::{Exported, code_beside, export};
use mote_words::counted_grouped;
use std::path::PathBuf;
use std::process::ExitCode;

/// Write a capture as a file of perf
///
/// perf decodes it to the same instructions, and so do other programs that read its files.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  mote pt export --perf cap                         writes perf.data
  mote pt export --perf -o app.data cap
  perf script -i app.data --itrace=i0ns -F tid,ip,sym

perf has all code from files: code that is of none (made at run time, or the kernel's for programs) is written to files
in a directory beside, FILE.code.

Exit status: 0 done, 1 there are no packets, 2 failed.")]
pub(super) struct Args {
    /// As perf.data
    #[arg(long, required = true)]
    perf: bool,

    /// The file to write
    #[arg(short, long, value_name = "FILE", default_value = "perf.data")]
    output: PathBuf,

    /// Directory of the capture
    #[arg(value_name = "DIR")]
    capture: PathBuf,
}

/// Runs the verb.
pub(super) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let capture = Capture::open(&args.capture)?;
    capture.problems().iter().for_each(|problem| say!("{problem}"));
    let code = code_beside(&args.output);
    let Exported { streams, bytes, files } = export(&capture, &args.output, &code)?;
    let beside = match files {
        0 => String::new(),
        files => format!(
            ", and code that is of no file in {} in {}",
            counted_grouped(files as u64, "file", "files"),
            code.display()
        ),
    };
    out::print(&format!(
        "{}, {} into {}{beside}\n",
        counted_grouped(streams as u64, "stream", "streams"),
        counted_grouped(bytes, "byte of packets", "bytes of packets"),
        args.output.display(),
    ))?;
    Ok(shown::status(bytes, 0))
}
