//! `mote pt flow`: instructions, as they were executed.

use super::shown::{self, Format};
use super::times::{self, At, Times};
use crate::out;
use iced_x86::{Decoder, DecoderOptions, Formatter, IntelFormatter};
use mote_capture::{Code, Place, follow_timed};
use mote_pattern::Glob;
use mote_pt::flow::{Event, Gap, Graph};
use mote_pt::image::Space;
use mote_pt::insn::{Block, Mode};
use mote_pt::packet::Packet;
use mote_pt::time::{Moment, Span, TimedSink};
use serde_json::json;
use std::collections::HashMap;
use std::io::{self, BufWriter, Write};
use std::process::ExitCode;
use std::rc::Rc;

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

/// Runs the verb.
pub(super) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let functions: Vec<Glob> = args.function.iter().map(|pattern| Glob::new(pattern)).collect();
    let (mut shown, mut gaps) = (0, 0);
    let limit = args.limit.unwrap_or(u64::MAX);
    args.input.with_streams(|capture, stream, code| {
        let processor = capture.processor();
        let times = Times::new(processor);
        anyhow::ensure!(
            times.are_known || (args.from, args.to) == (None, None),
            "there are no times in {}: it was recorded without TSC packets; leave --from and --to out",
            args.input.capture.display()
        );
        let mut printer = Printer {
            to: BufWriter::new(out::lock()),
            code,
            space: Space::default(),
            tid: stream.tid(),
            cpu: stream.cpu(),
            functions: &functions,
            format: args.format,
            formatter: IntelFormatter::new(),
            times,
            range: (args.from, args.to),
            first: None,
            now: Span::UNKNOWN,
            is_over: false,
            number: 0,
            at: args.at,
            known: HashMap::new(),
            left: limit - shown,
            shown: 0,
            gaps: 0,
            failed: None,
        };
        let goes_on =
            |printer: &Printer<'_, _>| printer.left > 0 && !printer.is_over && printer.failed.is_none();
        follow_timed(&stream.bytes, code, &capture.clocks(stream), &mut printer, goes_on)?;
        (shown, gaps) = (shown + printer.shown, gaps + printer.gaps);
        printer.finish().map_err(anyhow::Error::from)
    })?;
    Ok(shown::status(shown, gaps))
}

/// Prints what is meant.
struct Printer<'c, W> {
    to: W,
    code: &'c Code,
    /// Where instructions are of.
    space: Space,
    tid: i32,
    cpu: Option<u32>,
    functions: &'c [Glob],
    format: Format,
    formatter: IntelFormatter,
    times: Times,
    range: (Option<At>, Option<At>),
    /// The stream's first time.
    first: Option<u64>,
    /// When what is printed was, in ns.
    now: Span,
    /// It was behind what is meant.
    is_over: bool,
    /// How many instructions were executed, and before how many nothing is meant.
    number: u64,
    at: u64,
    /// Where instructions are.
    known: HashMap<(Space, u64), Option<Rc<Place>>>,
    left: u64,
    shown: u64,
    gaps: u64,
    failed: Option<io::Error>,
}

impl<W: Write> Printer<'_, W> {
    fn finish(mut self) -> io::Result<()> {
        self.failed.take().map_or_else(|| self.to.flush(), Err)
    }

    fn note(&mut self, done: io::Result<()>) {
        self.failed = self.failed.take().or(done.err());
    }

    /// Whether a place is in one of the functions that are meant.
    fn is_meant(&self, place: Option<&Place>) -> bool {
        let name = place.map_or("", |place| &place.function);
        self.functions.is_empty() || self.functions.iter().any(|glob| glob.matches(name))
    }

    /// Takes the time of what comes next. Returns whether that is meant.
    fn is_then(&mut self, ticks: Span) -> bool {
        self.now = self.times.ns(ticks);
        let Span { low, high } = self.now;
        self.first = self.first.or(low);
        let [from, to] = [self.range.0, self.range.1].map(|at| at.and_then(|at| at.resolve(self.first)));
        self.is_over = to.zip(low).is_some_and(|(to, low)| low > to);
        !self.is_over && from.zip(high).is_none_or(|(from, high)| high >= from)
    }

    /// The column with the time, if there are times.
    fn column(&self) -> String {
        if self.times.are_known { format!("{:<20}  ", times::text(self.now)) } else { String::new() }
    }

    fn instruction(&mut self, address: u64, length: u8, block: &Block) -> io::Result<()> {
        let code = self.code;
        if self.left == 0 {
            return Ok(());
        }
        let at = (self.space, address);
        let place = self.known.entry(at).or_insert_with(|| code.place(at.0, address).map(Rc::new)).clone();
        if !self.is_meant(place.as_deref()) {
            return Ok(());
        }
        (self.left, self.shown) = (self.left - 1, self.shown + 1);
        let bytes =
            code.bytes(self.space, address).and_then(|bytes| bytes.get(..length.into())).unwrap_or_default();
        let text = self.words(address, bytes, block.mode);
        let at = place
            .as_ref()
            .map_or_else(String::new, |place| format!("{}+{:#x}", place.function, place.offset));
        match self.format {
            Format::Text => {
                let time = self.column();
                writeln!(self.to, "{time}{address:#014x}  {at:<32} {text}")
            }
            Format::Json => {
                let line = json!({
                    "tid": self.tid,
                    "cpu": self.cpu,
                    "time": times::object(self.now),
                    "address": format!("{address:#x}"),
                    "function": place.as_ref().map(|place| &place.function),
                    "offset": place.as_ref().map(|place| place.offset),
                    "file": place.as_ref().map(|place| place.file.to_string_lossy()),
                    "instruction": text,
                });
                writeln!(self.to, "{line}")
            }
        }
    }

    fn words(&mut self, address: u64, bytes: &[u8], mode: Mode) -> String {
        let instruction = Decoder::with_ip(mode.bits(), bytes, address, DecoderOptions::NONE).decode();
        let mut text = String::new();
        self.formatter.format(&instruction, &mut text);
        text
    }

    fn between(&mut self, kind: &str, text: &str) -> io::Result<()> {
        if self.left == 0 || self.number < self.at || !self.functions.is_empty() {
            return Ok(());
        }
        match self.format {
            Format::Text => {
                let time = self.column();
                writeln!(self.to, "{time}  -- {text}")
            }
            Format::Json => {
                let line =
                    json!({ "tid": self.tid, "cpu": self.cpu, "time": times::object(self.now), kind: text });
                writeln!(self.to, "{line}")
            }
        }
    }
}

impl<W: Write> TimedSink for Printer<'_, W> {
    fn block(&mut self, block: &Block, graph: &Graph, moment: &Moment) {
        let mut address = block.start;
        let mut is_meant = self.is_then(moment.span());
        let first = self.number;
        self.number += u64::from(block.instructions);
        if self.number <= self.at {
            return;
        }
        for (at, length) in (1..).zip(graph.lengths(block)) {
            if at == block.instructions && moment.last() != moment.span() {
                is_meant = self.is_then(moment.last());
            }
            if !is_meant || first + u64::from(at) <= self.at {
                address = address.wrapping_add(u64::from(*length));
                continue;
            }
            let done = self.instruction(address, *length, block);
            self.note(done);
            address = address.wrapping_add(u64::from(*length));
        }
    }

    fn event(&mut self, _: u64, event: Event, moment: &Moment) {
        let Some(text) = said(&event).filter(|_| self.is_then(moment.span())) else { return };
        let done = self.between("event", &text);
        self.note(done);
    }

    fn gap(&mut self, gap: Gap, moment: &Moment) {
        self.gaps += 1;
        if !self.is_then(moment.span()) {
            return;
        }
        let done = self.between("gap", &gap.to_string());
        self.note(done);
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
        Event::AddressSpace { cr3, .. } => format!("address space {cr3:#x}"),
        Event::Vmcs(base) => format!("VMCS {base:#x}"),
        Event::Mode { mode, .. } => format!("{}-bit code", mode.bits()),
        Event::Stopped => "tracing is stopped by a region".to_owned(),
        Event::Packet { packet: Packet::Ptw { value, .. }, .. } => format!("ptwrite {value:#x}"),
        _ => return None,
    })
}
