//! `mote pt impact`: what tracers add to a program, in instructions for each event.

mod engine;
mod guest;
mod json;
mod lttng;
mod measured;
mod page;
mod ready;
mod recorded;
mod run;
mod text;
mod tracer;

use super::output;
use super::shown::Format;
use crate::{cmd, out};
use engine::Engine;
use measured::{Found, Outcome, Row};
use mote_synth::system::{self, Guest};
use mote_synth::{Error, qemu};
use ready::Ready;
use run::Lab;
use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;
use tracer::{Own, TRACERS, Tracer};

/// Show what tracers add to a program: instructions for each event, and on which path
///
/// The program runs bare and under each tracer, in an emulator that counts each instruction (`mote pt synth`). What a
/// traced run has more on paths that are gone for each event is divided by how many events the tracer has recorded.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  mote pt impact -- ./app 10000                      each tracer that is installed
  mote pt impact --tracer mote --tracer uftrace -- ./app
  mote pt impact --engine system -- ./app            with a kernel: tracers of system calls, too
  mote pt impact --wrap 'env LD_PRELOAD=./mine.so' --count 'cat count' -- ./app
  mote pt impact -o both -- ./app; mote pt diff both/bare both/mote

Tracers of --engine qemu (Debian's qemu-user and gcc are needed):
  mote       mote record: events of programs that have them
  lttng-ust  events of programs with LTTng-UST (lttng-tools); its daemon is started, unless one runs
  uftrace    calls of functions in programs built with -pg or -finstrument-functions (uftrace)
Tracers of --engine system (qemu-system-x86, gcc, linux-image-amd64):
  mote       as above, with what only a kernel has: restartable sequences
  strace     system calls, by ptrace(2)
  perf       perf trace: system calls, by the kernel's trace points (linux-perf)
  mote-k     mote record -k syscalls

Columns: `for each` is what was executed more on paths that are gone for each event, divided by the events; `beside` is
what else the program executed more, however many events there are: to find the tracer, to map buffers, in threads of
the tracer's; `others` is what processes of the tracer's executed in the emulator. A program should record some
thousand events, so that no path beside them is gone as often.

Only CMD itself counts, with its threads, not the programs that it starts.

Exit status: 0 at least one tracer was measured, 1 none was, 2 failed.")]
pub(super) struct Args {
    /// Measure this tracer only; repeat for more [default: all of the engine's]
    #[arg(long, value_name = "NAME")]
    tracer: Vec<String>,

    /// Measure a tracer of your own, too: words for a shell that start a command, which is put behind them
    #[arg(long, value_name = "WORDS", requires = "count")]
    wrap: Option<String>,

    /// A command for a shell that prints how many events that one has recorded
    #[arg(long, value_name = "COMMAND", requires = "wrap")]
    count: Option<String>,

    /// What runs the program
    #[arg(long, value_name = "ENGINE", default_value = "qemu")]
    engine: Engine,

    /// The kernel of --engine system [default: the newest in /boot]
    #[arg(long, value_name = "FILE")]
    kernel: Option<PathBuf>,

    /// A file or folder that the program or a tracer of --engine system needs; repeat for more
    #[arg(long, value_name = "PATH")]
    file: Vec<PathBuf>,

    /// Directory for the captures of all runs, and what tracers have recorded [default: they are not kept]
    #[arg(short, long, value_name = "DIR")]
    output: Option<PathBuf>,

    /// Show so many paths of each tracer
    #[arg(short = 'n', long, value_name = "NUMBER", default_value_t = 8)]
    limit: usize,

    /// Write a page with pictures into FILE, too
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,

    /// What to print: for people, or JSON objects
    #[arg(long, value_name = "FORMAT", default_value = "text")]
    format: Format,

    /// The program and its arguments
    #[arg(last = true, required = true, value_name = "CMD")]
    command: Vec<OsString>,
}

/// The name of a tracer of the caller's.
const OWN: &str = "own";

/// Runs the verb.
pub(super) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let tracers = chosen(args)?;
    check(args)?;
    let temporary = args.output.is_none().then(tempfile::tempdir).transpose()?;
    let folder = match (&args.output, &temporary) {
        (Some(folder), _) => {
            output::make(folder)?;
            std::path::absolute(folder)?
        }
        (None, Some(temporary)) => temporary.path().to_owned(),
        (None, None) => PathBuf::new(),
    };
    let lab = Lab::new(&folder, words_of_engine(args), &args.command)?;
    let found = measure(args, &lab, &tracers)?;
    out::print(&match args.format {
        Format::Text => text::page(&found),
        Format::Json => json::objects(&found).iter().map(|object| format!("{object}\n")).collect(),
    })?;
    if let Some(path) = &args.html {
        output::page(path, &page::page(&found))?;
    }
    let is_measured = |row: &Row| matches!(row.outcome, Outcome::Measured(_));
    Ok(if found.rows.iter().any(is_measured) { ExitCode::SUCCESS } else { cmd::NOTHING.into() })
}

/// The tracers that are asked for.
fn chosen(args: &Args) -> anyhow::Result<Vec<Tracer>> {
    let of_engine: Vec<Tracer> = TRACERS.into_iter().filter(|one| one.engine == args.engine).collect();
    if args.tracer.is_empty() {
        return Ok(if args.wrap.is_some() { Vec::new() } else { of_engine });
    }
    let find = |name: &String| {
        let names = || of_engine.iter().map(|one| one.name).collect::<Vec<_>>().join(", ");
        let found = of_engine.iter().find(|one| one.name == name).copied();
        found.ok_or_else(|| match TRACERS.iter().find(|one| one.name == name) {
            Some(other) => anyhow::anyhow!("{name} is measured with --engine {}", other.engine.name()),
            None => anyhow::anyhow!("there is no tracer {name}: give one of {}", names()),
        })
    };
    args.tracer.iter().map(find).collect()
}

/// Whether the emulator is there.
fn check(args: &Args) -> Result<(), Error> {
    match args.engine {
        Engine::Qemu => qemu::check(),
        Engine::System => system::check(&Guest { kernel: args.kernel.clone(), ..Guest::default() }),
    }
}

/// What `mote pt synth` is asked for in each run: no times, which nothing here needs.
fn words_of_engine(args: &Args) -> Vec<OsString> {
    let mut words: Vec<OsString> = vec!["--engine".into(), args.engine.name().into(), "--no-tsc".into()];
    let kernel = args.kernel.iter().map(|path| ("--kernel", path));
    for (flag, path) in kernel.chain(args.file.iter().map(|path| ("--file", path))) {
        words.extend([flag.into(), path.into()]);
    }
    words
}

/// Runs the program bare, twice, and under each tracer.
fn measure(args: &Args, lab: &Lab, tracers: &[Tracer]) -> anyhow::Result<Found> {
    let bare = measured::bare(lab, "bare")?;
    let again = measured::bare(lab, "bare-again")?.total();
    let mut rows = Vec::new();
    for tracer in tracers {
        let outcome = measured::traced(lab, tracer.name, tracer.ready(lab), &bare)?;
        rows.push(Row { name: tracer.name.to_owned(), outcome });
    }
    if let Some((wrap, count)) = args.wrap.as_ref().zip(args.count.as_ref()) {
        let own: Box<dyn Ready + '_> = Box::new(Own { wrap, count });
        rows.push(Row { name: OWN.to_owned(), outcome: measured::traced(lab, OWN, Ok(own), &bare)? });
    }
    let command = args.command.iter().map(|word| word.to_string_lossy()).collect::<Vec<_>>().join(" ");
    Ok(Found { command, bare, again, rows, limit: args.limit })
}
