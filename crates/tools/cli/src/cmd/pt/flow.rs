//! `mote pt flow`: instructions, as they were executed.
//!
//! One thread follows packets and chooses what is meant ([`Chooser`]); what that is as text, which takes longest, is
//! made by several (`pool`), and written in its order. Only for a number of instructions (`-n`) the choice depends on
//! the text before, and one thread does all.

mod lines;
mod pool;

use super::shown::{self, Format};
use super::times::{At, Times};
use lines::{Chunk, Item, Look, Printed};
use mote_capture::{follow_timed, threads};
use mote_pattern::Glob;
use mote_pt::flow::{Event, Gap, Graph};
use mote_pt::image::Space;
use mote_pt::insn::Block;
use mote_pt::packet::Packet;
use mote_pt::time::{Moment, Span, TimedSink};
use std::process::ExitCode;

/// Print the instructions that were executed
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  mote pt flow cap -n 100
  mote pt flow cap --function 'parse_*'
  mote pt flow cap --tid 4711 --format json | jq -r .function | uniq -c
  mote pt flow cap --from +1.5ms --to +1.6ms
  mote pt flow cap --tid 4711 --at 25034 -n 93
  mote pt flow perf.data                     of perf record -e intel_pt//u
  mote pt flow raw.pt --image 0x400000:code.bin --image ./app
                                             packets and code that come from elsewhere

A line: time, address, function+offset, instruction. Between them: where tracing began and ended (system calls),
interrupts and signals, and where code is missing, with the packet's offset and why.

Times are in seconds of the kernel's monotonic clock, or since the processor's counter was 0, with their bounds:
1.000000123+40 is 123 to 163 ns behind 1 s; ? is a bound that no packet gives. JSON: [at least, at most] in ns.

Exit status: 0 done, 1 no instruction is meant, 2 failed, or code is missing.")]
pub(super) struct Args {
    #[command(flatten)]
    input: shown::Input,

    /// Only functions whose name matches PATTERN (* any text, ? any character); repeat for more
    #[arg(short, long, value_name = "PATTERN")]
    function: Vec<String>,

    /// Only what may have been executed from this TIME on: seconds as they are shown, or +TIME (ns, us, ms, s) after
    /// the thread's first
    #[arg(long, value_name = "TIME", value_parser = At::parse)]
    from: Option<At>,

    /// Only what may have been executed until this TIME; as --from
    #[arg(long, value_name = "TIME", value_parser = At::parse)]
    to: Option<At>,

    /// Begin with this instruction of each thread, counted from 0, as `mote pt delta` says it
    #[arg(long, value_name = "NUMBER", default_value_t = 0, hide_default_value = true)]
    at: u64,

    /// Stop after this many instructions
    #[arg(short = 'n', long, value_name = "NUMBER")]
    limit: Option<u64>,

    /// What to print: lines for people, or JSON objects
    #[arg(long, value_name = "FORMAT", default_value = "text")]
    format: Format,
}

/// Instructions that are made text at once.
const CHUNK: usize = 1 << 14;

/// Runs the verb.
pub(super) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let functions: Vec<Glob> = args.function.iter().map(|pattern| Glob::new(pattern)).collect();
    let mut printed = Printed::default();
    args.input.with_streams(|capture, stream, code| {
        let times = Times::new(capture.processor());
        anyhow::ensure!(
            times.are_known || (args.from, args.to) == (None, None),
            "there are no times in {}: it was recorded without TSC packets; leave --from and --to out",
            args.input.capture.display()
        );
        let look = Look {
            code,
            tid: stream.tid(),
            cpu: stream.cpu(),
            functions: &functions,
            format: args.format,
            times,
        };
        let left = args.limit.map(|limit| limit - printed.instructions);
        let clocks = capture.clocks(stream);
        let more = pool::print(&look, left, threads(), |to| {
            // With a limit, whether there is more to choose is known behind each block.
            let chunk = if left.is_some() { 1 } else { CHUNK };
            let mut chooser = Chooser::new(args, times, chunk, to);
            follow_timed(&stream.bytes, code, &clocks, &mut chooser, Chooser::goes_on)?;
            chooser.hand_on();
            Ok(())
        })?;
        printed.add(more);
        Ok(())
    })?;
    Ok(shown::status(printed.instructions, printed.gaps))
}

/// Chooses what is meant, by time and number.
struct Chooser<'c> {
    /// Gets chunks; says whether it wants more.
    to: &'c mut dyn FnMut(Chunk) -> bool,
    chunk: Chunk,
    chunk_max: usize,
    times: Times,
    range: (Option<At>, Option<At>),
    /// Before how many instructions nothing is meant.
    at: u64,
    /// How many were executed.
    number: u64,
    has_functions: bool,
    /// The stream's first time.
    first: Option<u64>,
    /// When what is chosen was, in ns.
    now: Span,
    space: Space,
    /// It was behind what is meant, or nobody wants more.
    is_over: bool,
}

impl<'c> Chooser<'c> {
    fn new(args: &Args, times: Times, chunk_max: usize, to: &'c mut dyn FnMut(Chunk) -> bool) -> Chooser<'c> {
        Chooser {
            to,
            chunk: Chunk::default(),
            chunk_max,
            times,
            range: (args.from, args.to),
            at: args.at,
            number: 0,
            has_functions: !args.function.is_empty(),
            first: None,
            now: Span::UNKNOWN,
            space: Space::default(),
            is_over: false,
        }
    }

    fn goes_on(&self) -> bool {
        !self.is_over
    }

    /// Takes the time of what comes next. Returns whether that is meant.
    fn is_then(&mut self, ticks: Span) -> bool {
        self.now = self.times.ns(ticks);
        let Span { low, high } = self.now;
        self.first = self.first.or(low);
        let [from, to] = [self.range.0, self.range.1].map(|at| at.and_then(|at| at.resolve(self.first)));
        self.is_over |= to.zip(low).is_some_and(|(to, low)| low > to);
        !self.is_over && from.zip(high).is_none_or(|(from, high)| high >= from)
    }

    fn between(&mut self, kind: &'static str, text: String) {
        if self.number >= self.at && !self.has_functions {
            self.chunk.items.push(Item::Between { kind, text, when: self.now });
        }
    }

    /// Chooses those of a block's instructions that have these lengths, of which the first one is at an address.
    fn choose(&mut self, block: &Block, address: u64, lengths: &[u8]) {
        if !lengths.is_empty() {
            let (mode, space, when) = (block.mode, self.space, self.now);
            self.chunk.lengths.extend_from_slice(lengths);
            self.chunk.items.push(Item::Code { address, instructions: lengths.len(), mode, space, when });
        }
    }

    fn hand_on(&mut self) {
        let chunk = std::mem::take(&mut self.chunk);
        if !chunk.items.is_empty() {
            self.is_over |= !(self.to)(chunk);
        }
    }
}

impl TimedSink for Chooser<'_> {
    fn block(&mut self, block: &Block, graph: &Graph, moment: &Moment) {
        let is_meant = self.is_then(moment.span());
        let first = self.number;
        self.number += u64::from(block.instructions);
        if self.number <= self.at {
            return;
        }
        let lengths = graph.lengths(block);
        let (before, lengths) = lengths.split_at((self.at.saturating_sub(first) as usize).min(lengths.len()));
        let length = |lengths: &[u8]| lengths.iter().copied().map(u64::from).sum::<u64>();
        let address = block.start.wrapping_add(length(before));
        // The last one may have a time of its own.
        let count = lengths.len().saturating_sub(usize::from(moment.last() != moment.span()));
        let (lengths, last) = lengths.split_at(count);
        if is_meant {
            self.choose(block, address, lengths);
        }
        if !last.is_empty() && self.is_then(moment.last()) {
            self.choose(block, address.wrapping_add(length(lengths)), last);
        }
        if self.chunk.lengths.len() >= self.chunk_max {
            self.hand_on();
        }
    }

    fn event(&mut self, _: u64, event: Event, moment: &Moment) {
        if let Some(text) = said(&event).filter(|_| self.is_then(moment.span())) {
            self.between("event", text);
        }
    }

    fn gap(&mut self, gap: Gap, moment: &Moment) {
        self.chunk.gaps += 1;
        if self.is_then(moment.span()) {
            self.between("gap", gap.to_string());
        }
    }

    fn space(&mut self, space: Space) {
        self.space = space;
    }
}

/// What is said of an event; nothing of time and other packets that say nothing about the flow.
fn said(event: &Event) -> Option<String> {
    let at = |address: &Option<u64>| address.map_or_else(String::new, |address| format!(" at {address:#x}"));
    Some(match event {
        Event::Enabled { address, .. } => format!("tracing begins at {address:#x}"),
        Event::Disabled { from, to: Some(to) } => format!("tracing ends{}, on the way to {to:#x}", at(from)),
        Event::Disabled { from, to: None } => format!("tracing ends{}", at(from)),
        Event::AsyncBranch { from, to } => format!("interrupt or exception at {from:#x}, on to {to:#x}"),
        Event::Overflow => "the processor has lost packets".to_owned(),
        Event::Transaction { state, address } => {
            format!("transaction {state:?}{}", at(address)).to_lowercase()
        }
        Event::AddressSpace { cr3, is_guest: false } => format!("address space {cr3:#x}"),
        Event::AddressSpace { cr3, is_guest: true } => format!("address space {cr3:#x} of a virtual machine"),
        Event::Vmcs(base) => format!("VMCS {base:#x}"),
        Event::Mode { mode, .. } => format!("{}-bit code", mode.bits()),
        Event::Stopped => "tracing is stopped by a region".to_owned(),
        Event::Cut => "what follows was recorded later: packets between are not there".to_owned(),
        Event::Packet { packet: Packet::Ptw { value, .. }, .. } => format!("ptwrite {value:#x}"),
        _ => return None,
    })
}
