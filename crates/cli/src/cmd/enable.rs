//! `mote enable`: adds rules to a recording that runs.

use crate::running;
use mote_daemon::control::Request;
use std::path::PathBuf;
use std::process::ExitCode;

/// Record more events, or others, while a recording runs
///
/// A pattern that the recording has already gets the new filter instead of its old one.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  mote enable ./trace -e 'net:*'                                events that were not recorded so far
  mote enable ./trace -e 'net:*' --filter 'len > 1500'          only the large ones from now on
  mote enable ./trace --on 'net:packet if len > 9000 do snapshot'

DIR is the directory that a running `mote record` writes; `mote status DIR` shows what is recorded there.

Exit status: 0 done, 2 failed.")]
pub(crate) struct Args {
    /// The directory of the recording
    #[arg(value_name = "DIR")]
    recording: PathBuf,
    /// Events to record
    #[arg(short = 'e', long = "event", value_name = "PATTERN")]
    event: Vec<String>,
    /// Of these events, only those for which the expression holds
    #[arg(long, value_name = "EXPR", requires = "event")]
    filter: Option<String>,
    /// A rule: PATTERN [if EXPR] do ACTION, ...
    #[arg(long, value_name = "RULE")]
    on: Vec<String>,
}

/// Runs the verb.
pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let recorded = args.event.iter().map(|pattern| match &args.filter {
        Some(filter) => format!("{pattern} if {filter} do record"),
        None => format!("{pattern} do record"),
    });
    let rules: Vec<String> = recorded.chain(args.on.iter().cloned()).collect();
    anyhow::ensure!(!rules.is_empty(), "nothing to enable; give a pattern with -e, or a rule with --on");
    for rule in &rules {
        mote_filter::Rule::parse(rule).map_err(|why| anyhow::anyhow!("{}", why.render()))?;
    }
    running::ask(&args.recording, &Request::Enable { rules })
}
