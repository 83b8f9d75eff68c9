//! `mote enable`: adds rules to a recording that runs.

use crate::rules::Rules;
use crate::{out, running};
use mote_daemon::control::{Given, Request};
use mote_filter::Rule;
use std::path::PathBuf;
use std::process::ExitCode;

/// Record more events, or others, while a recording runs
///
/// A pattern that the recording has already gets the new filter instead of its old one: each event is recorded by the
/// old rules or by the new ones, and none is lost meanwhile.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  mote enable ./trace -e 'net:*'                           events that were not recorded so far
  mote enable ./trace -e 'net:*' --filter 'len > 1500'     only the large ones from now on
  mote enable ./trace --on 'net:packet if len > 9000 do snapshot'
  mote enable ./trace -f 'parse_*' --filter 'duration > 1ms'  functions of the recorded processes
  mote enable ./trace -k block                             kernel events, if it has some (-k)
  mote enable ./trace -k 'syscalls:*open*' --filter 'ret < 0'
  mote enable ./trace -k sched --count 'by prev_comm'

The flags mean what they mean for `mote record`. DIR is the directory that a running `mote record` writes; `mote status
DIR` shows what is recorded there.

Exit status: 0 done, 2 failed.")]
pub(crate) struct Args {
    /// The directory of the recording
    #[arg(value_name = "DIR")]
    recording: PathBuf,
    #[command(flatten)]
    rules: Rules,
}

/// Runs the verb.
pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    anyhow::ensure!(
        args.rules.objects.is_empty(),
        "--filter-file cannot be added to a running recording; give it to `mote record`"
    );
    let given = |rules: &[Rule]| rules.iter().map(Given::of).collect::<Vec<_>>();
    let rules = if args.rules.is_default { Vec::new() } else { given(&args.rules.rules) };
    let (kernel, functions) = (given(&args.rules.kernel), args.rules.functions.clone());
    let under = args.rules.under.clone();
    anyhow::ensure!(
        !rules.is_empty() || !kernel.is_empty(),
        "nothing to enable; give a pattern with -e, -f or -k, or a rule with --on"
    );
    running::ask(&args.recording, &Request::Enable { rules, kernel, functions, under }, out::width())
}
