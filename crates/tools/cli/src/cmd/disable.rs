//! `mote disable`: takes rules out of a recording that runs.

use crate::{out, rules, running};
use mote_daemon::control::Request;
use std::path::PathBuf;
use std::process::ExitCode;

/// Record fewer events while a recording runs
///
/// Takes away all rules with this pattern, whether `mote record` or `mote enable` gave them. Where no rule has the
/// pattern, the events that match it are taken out of the other rules. Events that no rule records any more cost
/// nothing again.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  mote disable ./trace 'net:*'
  mote disable ./trace net:packet_in                these events of a recording with -e 'net:*'
  mote disable ./trace -k sched:sched_switch        kernel events
  mote disable ./trace -f 'parse_*'                 functions of a recording with -f

`mote status DIR` shows the rules of a recording.

Exit status: 0 done, 2 failed.")]
pub(crate) struct Args {
    /// The directory of the recording
    #[arg(value_name = "DIR")]
    recording: PathBuf,
    /// Patterns as they were given to record or enable, or patterns of some of their events
    #[arg(value_name = "PATTERN", required_unless_present_any = ["kernel", "function"])]
    patterns: Vec<String>,
    /// Functions, as record and enable take them; repeat for more
    #[arg(short, long, value_name = "PATTERN")]
    function: Vec<String>,
    /// Patterns of kernel events, separated by commas
    #[arg(short, long, value_name = "PATTERNS", value_delimiter = ',')]
    kernel: Vec<String>,
}

/// Runs the verb.
pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let mut patterns = args.patterns.clone();
    for function in &args.function {
        patterns.extend(rules::events_of(function).map_err(anyhow::Error::msg)?);
    }
    running::ask(&args.recording, &Request::Disable { patterns, kernel: args.kernel.clone() }, out::width())
}
