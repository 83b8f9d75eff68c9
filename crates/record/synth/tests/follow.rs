//! From a program to packets, and back: what readers of packets find is what was executed. Ours are the packet decoder
//! and the flow of `mote-pt`; libipt's is asked, too, where it is installed.

mod support;

use mote_capture::{Bytes, CallTable, Capture, TimedCallTable};
use mote_pt::flow::calls::Call;
use mote_pt::flow::{Event, Flow, Gap, Sink};
use mote_pt::image::{Memory, Space};
use mote_pt::insn::{Block, Graph};
use mote_pt::packet::Packet;
use mote_pt::packet::decode::Decoder;
use mote_pt::time::Span;
use mote_pt::time::calls::TimedCalls;
use mote_synth::trace::{Detail, Trace};
use mote_synth::{Clock, Digest, Files, Filter, Options, Place, qemu, step};
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use support::Program;
use tempfile::TempDir;

/// What was executed, as the flow says.
#[derive(Default)]
struct Found {
    digest: Digest,
    gaps: Vec<Gap>,
    overflows: usize,
}

impl Sink for Found {
    fn block(&mut self, block: &Block, graph: &Graph) {
        let mut ip = block.start;
        for length in graph.lengths(block) {
            self.digest.push(ip);
            ip += u64::from(*length);
        }
    }

    fn event(&mut self, _: u64, event: Event) {
        self.overflows += usize::from(event == Event::Overflow);
    }

    fn gap(&mut self, gap: Gap) {
        self.gaps.push(gap);
    }
}

struct Traced {
    folder: TempDir,
    truth: Vec<Value>,
    sideband: Vec<Value>,
}

/// Traces a program under qemu; `None`, said loudly, where that is not to be had.
fn traced(program: &Program, options: &Options) -> Option<Traced> {
    filtered(program, options, Filter::default())
}

/// The same, of what a filter lets pass.
fn filtered(program: &Program, options: &Options, filter: Filter) -> Option<Traced> {
    if let Err(why) = qemu::check() {
        mote_skip::skip(why);
        return None;
    }
    let folder = tempfile::tempdir().expect("a directory");
    let files = Files::new(folder.path());
    let trace = Trace::new(options.clone(), folder.path(), Detail::Digest, files).expect("files");
    let mut trace = trace.with_filter(filter);
    qemu::run(&program.words(), qemu::Code::Executed, &mut trace).expect("a run");
    trace.finish().expect("written");
    let lines = |name| -> Vec<Value> {
        let text = std::fs::read_to_string(folder.path().join(name)).expect(name);
        text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect()
    };
    let (truth, sideband) = (lines("truth.jsonl"), lines("sideband.jsonl"));
    Some(Traced { folder, truth, sideband })
}

impl Traced {
    /// The code of a thread's process: begin, file, offset, bytes.
    fn images(&self, tid: &Value) -> Vec<(u64, PathBuf, u64, u64)> {
        let pid = &self.sideband.iter().find(|line| line["tid"] == *tid).expect("a thread")["pid"];
        let of_process = self.sideband.iter().filter(|line| line["pid"] == *pid && line["kind"] == "image");
        let image = |line: &Value| {
            let start = line["start"].as_str().and_then(|text| text.strip_prefix("0x")).expect("an address");
            let number = |name: &str| line[name].as_u64().expect("a number");
            let path = line["path"].as_str().expect("a path").into();
            (u64::from_str_radix(start, 16).expect("an address"), path, number("offset"), number("bytes"))
        };
        of_process.map(image).collect()
    }

    fn packets(&self, tid: &Value) -> PathBuf {
        self.folder.path().join(format!("{tid}.pt"))
    }

    /// What our own flow finds of a thread.
    fn found(&self, tid: &Value) -> Found {
        let mut memory = Memory::new();
        for (start, path, offset, bytes) in self.images(tid) {
            let file = std::fs::read(path).expect("an image");
            let end = file.len().min((offset + bytes) as usize);
            memory.add(Space::ANY, start, file[offset as usize..end].to_vec()).expect("no overlap");
        }
        let bytes = std::fs::read(self.packets(tid)).expect("packets");
        let mut found = Found::default();
        let packets = Decoder::new(&bytes, 0).map(|item| (item.offset, item.what));
        Flow::new(packets, memory).run(&mut found);
        found
    }

    /// Instructions, digest and overflows that libipt's flow finds of a thread, without an error.
    fn foreign(&self, reader: &Path, tid: &Value) -> [u64; 3] {
        let mut command = Command::new(reader);
        command.arg("insn").arg(self.packets(tid));
        for (start, path, offset, bytes) in self.images(tid) {
            command.arg(path).args([offset, bytes, start].map(|number| number.to_string()));
        }
        let output = command.output().expect("it runs");
        assert_eq!(String::from_utf8_lossy(&output.stderr), "");
        let text = String::from_utf8(output.stdout).expect("text");
        let numbers: Vec<u64> = text.split_whitespace().map(|word| word.parse().expect("a number")).collect();
        let [_, found @ ..]: [u64; 4] = numbers.try_into().expect("four numbers");
        found
    }
}

/// libipt's flow, compiled; `None`, said loudly, where there is no libipt.
fn foreign_reader(folder: &Path) -> Option<PathBuf> {
    let reader = folder.join("libipt_flow");
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs/libipt_flow.c");
    let status = Command::new("cc").args(["-O1", "-w", "-o"]).arg(&reader).arg(source).arg("-lipt").output();
    if status.is_ok_and(|output| output.status.success()) {
        return Some(reader);
    }
    mote_skip::skip("there is no libipt (apt-get install libipt-dev)");
    None
}

#[track_caller]
fn check(name: &str, options: &Options) {
    let Some(program) = Program::compile(name) else { return };
    let Some(traced) = traced(&program, options) else { return };
    // Where packets just end, libipt goes on at the second PSB behind, not at the first.
    check_traced(&traced, name, options, options.truncations.is_empty());
}

/// `has_second`: libipt is asked, too.
#[track_caller]
fn check_traced(traced: &Traced, name: &str, options: &Options, has_second: bool) {
    let reader = if has_second { foreign_reader(traced.folder.path()) } else { None };
    for line in &traced.truth {
        let found = traced.found(&line["tid"]);
        let count = line["instructions"].as_u64().expect("a number");
        // Where memory was full, a reader knows nothing of it before it is switched on again.
        assert!(found.gaps.len() <= options.truncations.len(), "{name} {options:?} {:?}", found.gaps);
        assert_eq!(found.digest.count, count, "{name} {options:?}");
        assert_eq!(line["digest"], format!("{:016x}", found.digest.value), "{name} {options:?}");
        let expected = [count, found.digest.value, found.overflows as u64];
        if let Some(reader) = &reader {
            assert_eq!(traced.foreign(reader, &line["tid"]), expected, "{name} {options:?}");
        }
    }
}

/// Processors that differ.
fn processors() -> BTreeMap<&'static str, Options> {
    let plain = Options::default;
    let slow = Clock { tick_ps: 100_000, ..Clock::default() };
    BTreeMap::from([
        ("plain", plain()),
        ("no compression", Options { return_compression: false, ..plain() }),
        ("long", Options { long_tnt: true, deferred_tips: true, ..plain() }),
        ("cycles", Options { cyc: Some(0), psb_bytes: 256, ..plain() }),
        ("interrupts", Options { interrupt_every: Some(777), clock: slow, ..plain() }),
        ("overflows", Options { overflows: vec![3000..5000, 20_000..20_001], psb_bytes: 512, ..plain() }),
    ])
}

#[test]
fn loops_and_calls() {
    processors().values().for_each(|options| check("loops", options));
}

#[test]
fn handlers_and_faults() {
    processors().values().for_each(|options| check("signals", options));
}

#[test]
fn threads_and_children() {
    processors().values().for_each(|options| check("threads", options));
}

/// Memory is full twice, and tracing begins anew.
#[test]
fn packets_that_just_end() {
    let truncations = vec![4001..4002, 9000..15_000];
    check("loops", &Options { truncations, cyc: Some(9), ..Options::default() });
}

/// Some functions of a program only, or up to one of them.
#[test]
fn functions_that_filters_let_pass() {
    for (name, function, stops) in [
        ("loops", "main", false),
        ("loops", "square", true),
        ("signals", "counts", false),
        ("threads", "work", true),
    ] {
        let Some(program) = Program::compile(name) else { return };
        let options = &processors()["cycles"];
        let filter = Filter::new(vec![program.part(function, stops)]);
        let Some(traced) = filtered(&program, options, filter) else { return };
        check_traced(&traced, name, options, true);
        assert!(traced.truth.iter().any(|line| line["instructions"].as_u64() > Some(0)), "{name}");
    }
}

/// Every other quarter of a page of the code, wherever instructions are: branches of all kinds lead out and in, and
/// code leads straight over the borders. libipt does not know that a conditional branch may lead out (the manual's case
/// 7e, TIP.PGD without an address), and finds another branch for that packet; perf knows it, as we do.
#[test]
fn pieces_that_filters_let_pass() {
    for (name, processor) in [("loops", "interrupts"), ("loops", "long"), ("signals", "overflows")] {
        let Some(program) = Program::compile(name) else { return };
        let pieces = program.code().step_by(0x400).filter(|at| at & 0x400 == 0).map(|at| at..at + 0x400);
        let place = |at| Place { stops: false, file: Some(program.path.clone()), at };
        let options = &processors()[processor];
        let Some(traced) = filtered(&program, options, Filter::new(pieces.map(place).collect())) else {
            return;
        };
        check_traced(&traced, name, options, false);
        assert!(traced.truth.iter().any(|line| line["instructions"].as_u64() > Some(3000)), "{name}");
    }
}

/// What PTWRITE writes, of registers and memory, with and without its address; it is executed step by step.
#[test]
fn data_is_told_where_it_is_written() {
    let Some(program) = Program::compile("ptwrite") else { return };
    for ptwrite_fup in [false, true] {
        let folder = tempfile::tempdir().expect("a directory");
        let options = Options { ptwrite: true, ptwrite_fup, ..Options::default() };
        let files = Files::new(folder.path());
        let mut trace = Trace::new(options, folder.path(), Detail::Digest, files).expect("files");
        assert_eq!(step::run(&program.words(), &mut trace).expect("a run"), 0);
        trace.finish().expect("written");
        let capture = Capture::open(folder.path()).expect("a capture");
        let stream = capture.streams().next().expect("a thread");
        let (code, truth) = (capture.code(stream), capture.truth().expect("a truth"));
        let found =
            mote_capture::check(&stream.bytes, &code, truth.get(&stream.of), 1).expect("it can be read");
        assert!(found.gaps.is_empty() && found.differs == Some(None), "{found:?}");
        let mut said = Said::default();
        mote_capture::follow(&stream.bytes, &code, &mut said, |_| true).expect("it can be read");
        let data = said.events.iter().filter_map(|(.., event)| match event {
            Event::Packet { packet: Packet::Ptw { value, is_wide, has_fup }, address } => {
                assert_eq!((*has_fup, address.is_some()), (ptwrite_fup, true));
                Some((*value, *is_wide))
            }
            _ => None,
        });
        let numbers = [0x1122_3344_5566_7788, 2, 3, 4];
        let each = (0..5).flat_map(|i| {
            [(i | i << 40, true), (i, false), (numbers[i as usize % 4], true), (0x5566_7788, false)]
        });
        assert_eq!(data.collect::<Vec<_>>(), each.chain([(77, false)]).collect::<Vec<_>>());
    }
}

/// All that a flow says, but where one block ends and the next one begins.
#[derive(Default, PartialEq)]
struct Said {
    digest: Digest,
    events: Vec<(u64, u64, Event)>,
    gaps: Vec<Gap>,
}

impl Sink for Said {
    fn block(&mut self, block: &Block, graph: &Graph) {
        let mut ip = block.start;
        for length in graph.lengths(block) {
            self.digest.push(ip);
            ip += u64::from(*length);
        }
    }

    fn event(&mut self, offset: u64, event: Event) {
        // Packets of PSB+ come before or behind the last instructions that lead there.
        let count = if matches!(event, Event::Packet { .. }) { 0 } else { self.digest.count };
        self.events.push((count, offset, event));
    }

    fn gap(&mut self, gap: Gap) {
        self.gaps.push(gap);
    }
}

fn count(bytes: &Bytes) -> usize {
    let mut parts = bytes.parts();
    std::iter::from_fn(|| parts.next_part().expect("it can be read")).count()
}

/// A stream says the same, however it is cut into parts, and whoever follows them.
fn check_parts(name: &str, options: &Options) {
    let Some(program) = Program::compile(name) else { return };
    let Some(traced) = traced(&program, options) else { return };
    let capture = Capture::open(traced.folder.path()).expect("a capture");
    for stream in capture.streams() {
        let code = capture.code(stream);
        let truth = capture.truth().expect("a truth").remove(&stream.of);
        let of = |bytes, threads| {
            let stream = stream.bytes.clone().in_parts_of(bytes);
            let mut said = Said::default();
            mote_capture::follow(&stream, &code, &mut said, |_| true).expect("it can be read");
            let found = mote_capture::check(&stream, &code, truth.as_ref(), threads).expect("it can be read");
            let calls = mote_capture::summarize(&stream, &code, threads, CallTable::default);
            (said, found, calls.expect("it can be read").functions(), count(&stream))
        };
        let clocks = capture.clocks(stream);
        let timed = |bytes, threads| {
            let stream = stream.bytes.clone().in_parts_of(bytes);
            let mut said = Vec::new();
            let mut calls = TimedCalls::new(|call: Call, when: Span| said.push((call, when)));
            let done = mote_capture::follow_calls(&stream, &code, &clocks, threads, &mut calls);
            done.expect("it can be read");
            drop(calls);
            let mut table = TimedCallTable::default();
            let done = mote_capture::follow_calls(&stream, &code, &clocks, threads, &mut table);
            done.expect("it can be read");
            (said, table.functions())
        };
        for bytes in [3000, usize::MAX] {
            let one = timed(bytes, 1);
            assert!(one.0.len() > 2, "{name} {options:?}");
            assert!(timed(bytes, 3) == one, "{name} {options:?}: calls with times by 3 threads");
        }
        let (said, found, calls, one) = of(usize::MAX, 1);
        assert_eq!(one, 1);
        for (bytes, threads) in [(1, 1), (1, 3), (3000, 2)] {
            let (said_in_parts, found_in_parts, calls_of_parts, parts) = of(bytes, threads);
            assert!(parts > 1 || stream.bytes.len() < 5000, "{name} has {parts} parts");
            let differs = said.events.iter().zip(&said_in_parts.events).find(|(one, other)| one != other);
            assert_eq!(differs, None, "{name} {options:?}");
            assert!(said_in_parts == said, "{name} {options:?}");
            assert_eq!(found_in_parts, found, "{name} {options:?}");
            assert!(calls_of_parts == calls, "{name} {options:?}");
        }
        assert!(found.differs != Some(Some((0, 0))) && !calls.is_empty());
    }
}

#[test]
fn parts_say_what_the_whole_says() {
    for (name, options) in processors() {
        if name != "plain" {
            let options = Options { psb_bytes: 256, ..options };
            check_parts("loops", &options);
            check_parts("threads", &options);
        }
    }
}
