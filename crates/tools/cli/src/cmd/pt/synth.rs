//! `mote pt synth`: runs a program, and writes the packets that a processor would have written.

mod watched;

use super::filter::{self, Functions};
use super::output;
use super::shown::Format;
use anyhow::Context;
use clap::ValueEnum;
use mote_synth::system::{self, Guest};
use mote_synth::trace::{Detail, Trace, Written};
use mote_synth::{Clock, Files, Filter, Options, qemu, step, vm};
use mote_words::counted_grouped;
use std::ffi::OsString;
use std::fs;
use std::ops::{Range, RangeInclusive};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use watched::Watched;

/// Run a program, and write the packets that a CPU with Intel PT would have written
///
/// The packets of each thread, what is to be known beside them, and what was really executed go to a directory, for the
/// other verbs. Only the program's own code is traced, not the kernel's; with `--engine system` a kernel's, too.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  mote pt synth -o cap -- ./app input
  mote pt synth --engine step -- ./small        instruction by instruction, the reference
  mote pt synth --cyc 1 --psb 4096 -- ./app     with cycles, and readers' begins twice as far apart
  mote pt synth --engine system -- ./app        the processor, with its kernel
  mote pt synth --jit -- node app.js            code that it makes is known by copies of its pages
  mote pt synth --functions 'parse_*' -- ./app  these functions only, as by address filters
  mote pt synth --vm schedule.txt -o cap        for mote pt vm: by a schedule

Engines: qemu runs under qemu-user (Debian's qemu-user and gcc are needed), 50 million instructions a second and more;
step is ptrace(2), some 10,000 a second, and exact about what the processor itself does.
system runs a kernel and the program under qemu-system (Debian's qemu-system-x86, gcc, linux-image-amd64), some
200 million a second after some seconds in which the kernel starts. The guest has only the files that the program is
seen to need: its libraries, files that its words name, and those of --file. It has no standard input.

A schedule, with as many machines, vCPUs, processes and steps as it takes (docs/virtual-machines.md has all of them):
  vm web 0x10c2e4000
  vcpu web/0 0x1f3a6000
  process web/postgres 0x6a000
  host sshd 0x20a4000
  cpu 0
  repeat 100
    vmm web/0 3us
    guest web/0 postgres 250us
    vmm web/0 2us
    host sshd 20us
    idle 50us
  end

Exit status: that of the program; 128 and the signal's number if one has ended it; 2 failed.")]
pub(super) struct Args {
    /// Directory to write to [default: NAME-DATE-TIME]
    #[arg(short, long, value_name = "DIR")]
    output: Option<PathBuf>,

    /// What runs the program
    #[arg(long, value_name = "ENGINE", default_value = "qemu")]
    engine: Engine,

    /// Nanoseconds that an instruction takes on the simulated clock
    #[arg(long, value_name = "NS", default_value = "1")]
    tick: f64,

    /// A time packet (MTC) each 2^N ticks of the crystal clock
    #[arg(long, value_name = "N", default_value = "3", value_parser = clap::value_parser!(u8).range(0..=15))]
    mtc: u8,

    /// No MTC packets
    #[arg(long)]
    no_mtc: bool,

    /// No TSC packets, nor MTC, which need them: instructions have no times
    #[arg(long)]
    no_tsc: bool,

    /// Packets with cycles (CYC), at least so many cycles apart
    #[arg(long, value_name = "CYCLES")]
    cyc: Option<u64>,

    /// Bytes between the places where readers may begin (PSB)
    #[arg(long, value_name = "BYTES", default_value = "2048")]
    psb: u64,

    /// Returns are not compressed: each has an address
    #[arg(long)]
    no_return_compression: bool,

    /// Up to 47 branches in a packet (TNT-64)
    #[arg(long)]
    long_tnt: bool,

    /// Addresses that branches lead to wait until a packet of branches is full (deferred TIPs)
    #[arg(long)]
    deferred_tips: bool,

    /// What PTWRITE writes, by --engine step, also where this CPU has no such instruction
    #[arg(long)]
    ptwrite: bool,

    /// Each PTWRITE with its address (FUPonPTW)
    #[arg(long, requires = "ptwrite")]
    fup_on_ptwrite: bool,

    /// The internal buffer is full while these instructions of a thread are executed (OVF): FROM-TO, commas between
    #[arg(long, value_name = "RANGES", value_delimiter = ',', value_parser = range)]
    overflow: Vec<Range<u64>>,

    /// The same for the memory that packets go to: nothing is said, and tracing begins anew
    #[arg(long, value_name = "RANGES", value_delimiter = ',', value_parser = range)]
    truncate: Vec<Range<u64>>,

    /// An interrupt each so many instructions
    #[arg(long, value_name = "INSTRUCTIONS")]
    interrupt_every: Option<u64>,

    /// Note code that the program makes at run time as `mote pt record --jit` copies it, not as it is executed
    #[arg(long)]
    jit: bool,

    /// Trace only these functions: NAME or FILE:NAME, with * and ?, commas between; repeat for more
    #[arg(short, long, value_name = "PATTERN")]
    functions: Vec<String>,

    /// Trace only there: filter 0xOFFSET/SIZE @ FILE or filter FUNCTION @ FILE; stop ... ends tracing
    #[arg(long, value_name = "FILTER")]
    filter: Option<String>,

    /// The kernel of --engine system [default: the newest in /boot]
    #[arg(long, value_name = "FILE")]
    kernel: Option<PathBuf>,

    /// How many processors the guest of --engine system has; they take turns
    #[arg(long, value_name = "CPUS", default_value = "1", value_parser = clap::value_parser!(u32).range(CPUS))]
    smp: u32,

    /// More words for its command line
    #[arg(
        long,
        value_name = "WORDS",
        default_value = "",
        hide_default_value = true,
        allow_hyphen_values = true
    )]
    append: String,

    /// A file or folder that the program of --engine system needs; repeat for more
    #[arg(long, value_name = "PATH")]
    file: Vec<PathBuf>,

    /// Write each run of instructions that was executed, too, 12 bytes for each
    #[arg(long)]
    runs: bool,

    /// What to say at the end: a sentence, or one JSON object
    #[arg(long, value_name = "FORMAT", default_value = "text")]
    format: Format,

    /// Play a schedule of virtual machines instead of running a program
    #[arg(long, value_name = "SCRIPT", conflicts_with = "command")]
    vm: Option<PathBuf>,

    /// The program and its arguments
    #[arg(last = true, required_unless_present = "vm", value_name = "CMD")]
    command: Vec<OsString>,
}

/// Processors of a guest.
const CPUS: RangeInclusive<i64> = 1..=system::CPUS_MAX as i64;

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Engine {
    /// qemu-user with a plugin.
    Qemu,
    /// Single steps by ptrace(2).
    Step,
    /// qemu-system with a plugin, and a kernel.
    System,
}

/// Instructions by their numbers: `3000-5000`, the first one and the one behind the last.
fn range(text: &str) -> Result<Range<u64>, String> {
    let numbers: Option<(u64, u64)> = text
        .split_once('-')
        .and_then(|(from, to)| Some((from.trim().parse().ok()?, to.trim().parse().ok()?)));
    let (from, to) = numbers.ok_or("give numbers of instructions, as in 3000-5000")?;
    if from >= to {
        return Err("no instruction is in it: give the smaller number first, as in 3000-5000".to_owned());
    }
    Ok(from..to)
}

impl Args {
    fn code(&self) -> qemu::Code {
        if self.jit { qemu::Code::Copied } else { qemu::Code::Executed }
    }

    fn options(&self) -> anyhow::Result<Options> {
        anyhow::ensure!(
            (0.001..=1e6).contains(&self.tick),
            "--tick {} is not between 0.001 and 1,000,000 ns",
            self.tick
        );
        Ok(Options {
            return_compression: !self.no_return_compression,
            long_tnt: self.long_tnt,
            deferred_tips: self.deferred_tips,
            ptwrite: self.ptwrite,
            ptwrite_fup: self.fup_on_ptwrite,
            overflows: self.overflow.clone(),
            truncations: self.truncate.clone(),
            tsc: !self.no_tsc,
            mtc: Some(self.mtc).filter(|_| !self.no_mtc && !self.no_tsc),
            cyc: self.cyc,
            psb_bytes: self.psb,
            kernel: self.engine == Engine::System,
            interrupt_every: self.interrupt_every,
            clock: Clock { tick_ps: (self.tick * 1000.0) as u64, ..Clock::default() },
            ..Options::default()
        })
    }
}

/// Runs the verb.
pub(super) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    if let Some(script) = &args.vm {
        return play(args, script);
    }
    let options = args.options()?;
    options.check().map_err(anyhow::Error::msg)?;
    anyhow::ensure!(
        !args.jit || args.engine == Engine::Qemu,
        "--jit is of --engine qemu: the others note code as it is executed"
    );
    let guest = |folder| Guest {
        kernel: args.kernel.clone(),
        append: args.append.clone(),
        files: args.file.clone(),
        folder,
        cpus: args.smp,
    };
    match args.engine {
        Engine::Qemu => qemu::check()?,
        Engine::System => system::check(&guest(PathBuf::new()))?,
        Engine::Step => {}
    }
    let filter = args.filter.as_deref().map(filter::parse).transpose()?;
    let functions = Functions::named(&args.functions)?;
    let folder = output::of_capture(args.output.as_deref(), &args.command)?;
    let mut addresses = Filter::new(filter::places(filter.as_ref()));
    if !functions.is_empty() {
        // The file with a guest's kernel is in the capture.
        let (functions, folder) = (functions.clone(), folder.clone());
        addresses = addresses.with_parts(Box::new(move |path| functions.parts(&folder.join(path))));
    }
    let detail = if args.runs { Detail::Runs } else { Detail::Digest };
    let mut trace = Trace::new(options, &folder, detail, Files::new(&folder))?.with_filter(addresses);
    let mut watched = Watched::new(&mut trace, args.engine != Engine::System);
    let status = match args.engine {
        Engine::Qemu => qemu::run(&args.command, args.code(), &mut watched)?,
        Engine::Step => step::run(&args.command, &mut watched)?,
        Engine::System => system::run(&args.command, &guest(folder.clone()), &mut watched)?,
    };
    let was_stopped = watched.was_stopped();
    drop(watched);
    let (written, _) = trace.finish()?;
    if was_stopped {
        say!("the program was ended before its time; what it has executed is in the capture");
    }
    say(args, &folder.display().to_string(), &written, status);
    if let Some(why) = functions.why_none() {
        say!("{why}");
    }
    Ok(ExitCode::from(if status < 0 { 128_i32.saturating_sub(status) } else { status } as u8))
}

/// Plays a schedule of virtual machines.
fn play(args: &Args, path: &Path) -> anyhow::Result<ExitCode> {
    let text = fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
    let script: vm::Script = text.parse().with_context(|| path.display().to_string())?;
    let played = vm::play(&script).with_context(|| path.display().to_string())?;
    let name = path.file_stem().unwrap_or_default().to_owned();
    let folder = output::of_capture(args.output.as_deref(), &[name])?;
    vm::write(&script, &played, &folder)?;
    let bytes: u64 = played.streams.iter().map(|stream| stream.len() as u64).sum();
    let (folder, cpus, intervals) =
        (folder.display(), played.streams.len() as u64, played.truth.len() as u64);
    if args.format == Format::Json {
        let folder = folder.to_string();
        say!(
            "{}",
            serde_json::json!({ "output": folder, "cpus": cpus, "intervals": intervals, "bytes": bytes })
        );
    } else {
        say!(
            "{} of {}, {} into {folder}",
            counted_grouped(intervals, "interval", "intervals"),
            counted_grouped(cpus, "processor", "processors"),
            counted_grouped(bytes, "byte of packets", "bytes of packets"),
        );
    }
    Ok(ExitCode::SUCCESS)
}

/// Standard output is the program's.
fn say(args: &Args, folder: &str, written: &Written, status: i32) {
    let Written { threads, instructions, bytes } = *written;
    if args.format == Format::Json {
        let line = serde_json::json!({
            "output": folder, "threads": threads, "instructions": instructions, "bytes": bytes, "status": status,
        });
        say!("{line}");
        return;
    }
    say!(
        "{} of {} in {}, {} into {folder}",
        counted_grouped(instructions, "instruction", "instructions"),
        args.command.first().map_or_else(String::new, |word| word.to_string_lossy().into_owned()),
        if args.engine == Engine::System {
            counted_grouped(threads, "processor", "processors")
        } else {
            counted_grouped(threads, "thread", "threads")
        },
        counted_grouped(bytes, "byte of packets", "bytes of packets"),
    );
}
