//! `mote`: records, shows and sums up traces.
//!
//! This crate knows flags and words; what happens is in the other crates. `cmd/<verb>.rs` has a verb's flags, its help
//! and its `run`.
#![forbid(unsafe_code)]
// Both panic when the other end is closed: `out` and `say!` do not.
#![deny(clippy::print_stdout, clippy::print_stderr)]

/// Says something on standard error; where that is closed, nothing reads it.
macro_rules! say {
    ($($text:tt)*) => {{
        use std::io::Write;
        let _ = writeln!(std::io::stderr(), "mote: {}", format_args!($($text)*));
    }};
}

mod arch;
mod begun;
mod check;
mod cmd;
mod demo;
mod hardware;
mod help;
mod moment;
mod out;
mod own_recording;
mod rules;
mod running;
mod sampling;
mod units;

use clap::{FromArgMatches, Parser, Subcommand};
use std::process::ExitCode;

/// Low-impact tracing for Linux: record what programs do, look at it, sum it up.
#[derive(Debug, Parser)]
#[command(name = "mote", version, propagate_version = true, arg_required_else_help = true)]
#[command(after_help = "\
Exit status: 0 done, 1 nothing found, 2 failed.

mote VERB --help explains a verb, with examples.")]
struct Cli {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    Record(Box<cmd::record::Args>),
    View(cmd::view::Args),
    Report(cmd::report::Args),
    Export(cmd::export::Args),
    Latency(cmd::latency::Args),
    Functions(cmd::functions::Args),
    Profile(cmd::profile::Args),
    Fperf(cmd::fperf::Args),
    Pt(cmd::pt::Args),
    Coldpatch(cmd::coldpatch::Args),
    List(cmd::list::Args),
    Filter(cmd::filter::Args),
    Doctor(cmd::doctor::Args),
    Status(cmd::status::Args),
    Enable(cmd::enable::Args),
    Disable(cmd::disable::Args),
    Snapshot(cmd::snapshot::Args),
    Demo(cmd::demo::Args),
    #[command(name = "__doctor-emit", hide = true)]
    DoctorEmit(cmd::doctor::EmitArgs),
    #[command(name = "__demo-server", hide = true)]
    DemoServer(cmd::demo::LoadArgs),
    #[command(name = mote_daemon::HOLD, hide = true)]
    Hold(cmd::hold::Args),
    #[command(name = "__generate", hide = true)]
    Generate(cmd::generate::Args),
}

fn main() -> ExitCode {
    let matches = help::command::<Cli>().get_matches();
    let cli = Cli::from_arg_matches(&matches).unwrap_or_else(|why| why.exit());
    let done = match cli.verb {
        Verb::Record(args) => cmd::record::run(&args),
        Verb::View(args) => cmd::view::run(&args),
        Verb::Report(args) => cmd::report::run(&args),
        Verb::Export(args) => cmd::export::run(&args),
        Verb::Latency(args) => cmd::latency::run(&args),
        Verb::Functions(args) => cmd::functions::run(&args),
        Verb::Profile(args) => cmd::profile::run(&args),
        Verb::Fperf(args) => cmd::fperf::run(&args),
        Verb::Pt(args) => cmd::pt::run(&args),
        Verb::Coldpatch(args) => cmd::coldpatch::run(&args),
        Verb::List(args) => cmd::list::run(&args),
        Verb::Filter(args) => cmd::filter::run(&args),
        Verb::Doctor(args) => cmd::doctor::run(&args),
        Verb::Status(args) => cmd::status::run(&args),
        Verb::Enable(args) => cmd::enable::run(&args),
        Verb::Disable(args) => cmd::disable::run(&args),
        Verb::Snapshot(args) => cmd::snapshot::run(&args),
        Verb::Demo(args) => cmd::demo::run(&args),
        Verb::DoctorEmit(args) => cmd::doctor::emit(&args),
        Verb::DemoServer(args) => cmd::demo::serve(&args),
        Verb::Hold(args) => cmd::hold::run(&args),
        Verb::Generate(args) => cmd::generate::run(&args, help::command::<Cli>()),
    };
    done.unwrap_or_else(|error| {
        if out::is_closed(&error) {
            return ExitCode::SUCCESS;
        }
        say!("{error:#}");
        cmd::FAILED.into()
    })
}
