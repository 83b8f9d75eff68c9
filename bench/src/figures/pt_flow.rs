//! `pt`, its second half: how fast packets are followed through code, beside libipt, and how fast `mote pt synth` makes
//! them.
//!
//! The packets are those of real programs: `instructions/...` gives each instruction and makes the digest of all
//! addresses, which has to be libipt's; `calls/...` gives calls and returns with how many instructions each took, where
//! libipt gives blocks. Both begin with no code decoded, and decode it on the way.

use super::effort::Effort;
use super::figure::Figure;
use super::native;
use super::pt_time;
use super::session::Lab;
use super::stopwatch::{process_ns, thread_ns, wall_ns};
use anyhow::Context;
use mote_capture::{CallTable, Capture, Stream, What, summarize};
use mote_pt::digest::Digest;
use mote_pt::flow::calls::{Call, Calls};
use mote_pt::flow::{Event, Gap, Graph, Sink};
use mote_pt::insn::Block;
use mote_synth::trace::{Detail, Trace};
use mote_synth::{Files, Options, qemu};
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The program of the tests that ask libipt.
const SOURCE: &str = include_str!("../../../crates/record/synth/tests/programs/libipt_flow.c");
const LIBIPT: &str = "libipt";
const UNIT: &str = "1/s";

/// Measures each program, mote and libipt in turns.
pub(super) fn run(effort: Effort) -> anyhow::Result<Vec<Figure>> {
    if let Err(why) = qemu::check() {
        return Ok(["synth", "instructions/plain", "calls/plain", "instructions/cyc", "calls/cyc"]
            .map(|case| Figure::absent(case, UNIT, &why.to_string()))
            .into());
    }
    let mut lab = Lab::new()?;
    let peer = build(&lab);
    let (numbers, functions) = effort.choose((20_000, 1), (100_000, 10));
    let sum = format!("my %s; $s{{$_ % 977}} .= chr($_ % 256) for 1..{numbers}; exit(keys(%s) == 0)");
    let perl = ["perl", "-e", &sum].map(OsString::from);
    let plain = Options { mtc: None, tsc: false, ..Options::default() };
    let cyc = Options { cyc: Some(0), ..Options::default() };
    let compiler = compiler(&lab, functions)?;
    let mut figures = Vec::new();
    for (name, words, options) in [("plain", &perl[..], plain), ("cyc", &compiler[..], cyc)] {
        let (folder, rate) = make(&mut lab, words, options)?;
        if name == "plain" {
            figures.push(Figure::new("synth", UNIT, &[rate]));
        }
        let capture = Capture::open(&folder)?;
        let largest = capture.streams().max_by_key(|stream| stream.bytes.len());
        let stream = largest.context("the capture has no packets")?;
        let peer = peer.as_ref().map(PathBuf::as_path);
        figures.extend(measure(name, (&capture, stream, &folder), peer, effort.choose(3, 5))?);
        if name == "cyc" {
            figures.extend(pt_time::speed(name, &capture, stream, effort.choose(3, 5))?);
        }
        if name == "plain" {
            figures.extend(two_cores(&capture, stream, effort.choose(3, 7))?);
            figures.push(memory(&capture, stream, effort.choose(256 << 20, 4 << 30))?);
        }
    }
    Ok(figures)
}

/// The compiler proper, and what it compiles.
pub(super) fn compiler(lab: &Lab, functions: u32) -> anyhow::Result<Vec<OsString>> {
    let found = Command::new("gcc").arg("-print-prog-name=cc1").output().context("there is no gcc")?;
    let program = String::from_utf8_lossy(&found.stdout).trim().to_owned();
    let function = |n: u32| {
        format!(
            "int f{n}(int *v, int n) {{ int s = {n}; for (int i = 0; i < n; i++) s = v[i] % 7 ? s * 31 + v[i] : s ^ i; \
             return s; }}\n"
        )
    };
    let source = lab.path().join("source.c");
    std::fs::write(&source, (0..functions).map(function).collect::<String>())
        .context("cannot write a program")?;
    Ok(vec![program.into(), "-quiet".into(), "-O2".into(), source.into(), "-o".into(), "/dev/null".into()])
}

/// Makes a capture; instructions per second of wall time.
pub(super) fn make(lab: &mut Lab, words: &[OsString], options: Options) -> anyhow::Result<(PathBuf, f64)> {
    let folder = lab.fresh("capture");
    std::fs::create_dir(&folder).context("cannot make a directory")?;
    let mut trace = Trace::new(options, &folder, Detail::Digest, Files::new(&folder))?;
    let begin = wall_ns();
    let status = qemu::run(words, qemu::Code::Executed, &mut trace)?;
    let (written, _) = trace.finish()?;
    anyhow::ensure!(status == 0, "{} has ended with status {status}", words[0].display());
    Ok((folder, written.instructions as f64 / (wall_ns() - begin) as f64 * 1e9))
}

fn measure(
    name: &str,
    of: (&Capture, &Stream, &Path),
    peer: Result<&Path, &anyhow::Error>,
    rounds: usize,
) -> anyhow::Result<Vec<Figure>> {
    let mut figures = Vec::new();
    for (case, mode) in [("instructions", "insn"), ("calls", "block")] {
        let (mut ours, mut theirs) = (Vec::new(), Vec::new());
        for _ in 0..rounds {
            let (ns, count, digest) = follow(of, mode)?;
            ours.push(count as f64 / ns as f64 * 1e9);
            let Ok(peer) = peer else { continue };
            let (ns, theirs_count, theirs_digest) = libipt(peer, of, mode)?;
            let is_same = theirs_count == count && (mode != "insn" || theirs_digest == digest);
            anyhow::ensure!(is_same, "{name}, {case}: {count} instructions, and {theirs_count} of libipt");
            theirs.push(count as f64 / ns as f64 * 1e9);
        }
        let case = format!("{case}/{name}");
        figures.push(Figure::new(&case, UNIT, &ours));
        figures.push(match peer {
            Ok(_) => Figure::new(&case, UNIT, &theirs).of_peer(LIBIPT),
            Err(why) => Figure::absent(&case, UNIT, &format!("{why:#}")).of_peer(LIBIPT),
        });
    }
    Ok(figures)
}

/// The table of calls by one thread and by two, in turns: wall time and CPU time of one through that of two.
fn two_cores(capture: &Capture, stream: &Stream, rounds: usize) -> anyhow::Result<[Figure; 2]> {
    let code = capture.code(stream);
    let (mut wall, mut cpu) = (Vec::new(), Vec::new());
    for _ in 0..rounds {
        let mut took = Vec::new();
        let mut found = Vec::new();
        for threads in [1, 2] {
            let (wall, cpu) = (wall_ns(), process_ns());
            found.push(summarize(&stream.bytes, &code, threads, CallTable::default)?.functions());
            took.push(((wall_ns() - wall) as f64, (process_ns() - cpu) as f64));
        }
        anyhow::ensure!(
            found[0] == found[1] && !found[0].is_empty(),
            "two threads find other calls than one"
        );
        wall.push(took[0].0 / took[1].0);
        cpu.push(took[1].1 / took[0].1);
    }
    Ok([Figure::new("two_cores", "ratio", &wall), Figure::new("two_cores/cpu", "ratio", &cpu)])
}

/// MiB that the table of calls takes of a stream of so many bytes: this one, again and again.
fn memory(capture: &Capture, stream: &Stream, bytes: u64) -> anyhow::Result<Figure> {
    let code = capture.code(stream);
    let mut long = stream.bytes.clone();
    while long.len() < bytes {
        long.append(&stream.bytes);
    }
    let before = status_kib("VmRSS")?;
    // The peak begins anew (proc(5), clear_refs).
    std::fs::write("/proc/self/clear_refs", "5").context("cannot measure memory")?;
    summarize(&long, &code, mote_capture::threads(), CallTable::default)?;
    let kib = status_kib("VmHWM")?.saturating_sub(before);
    Ok(Figure::new("memory", "MiB", &[kib as f64 / 1024.0]))
}

/// A number of `/proc/self/status`, in KiB.
fn status_kib(name: &str) -> anyhow::Result<u64> {
    let status = std::fs::read_to_string("/proc/self/status").context("cannot measure memory")?;
    let line = status.lines().find_map(|line| line.strip_prefix(name));
    let number = line.and_then(|line| line.split_whitespace().nth(1)?.parse().ok());
    number.with_context(|| format!("the kernel does not tell {name}"))
}

/// What mote finds: nanoseconds of CPU time, instructions, digest.
fn follow((capture, stream, _): (&Capture, &Stream, &Path), mode: &str) -> anyhow::Result<(u64, u64, u64)> {
    let code = capture.code(stream);
    let begin = thread_ns();
    let found = if mode == "insn" {
        let mut found = Found::default();
        mote_capture::follow(&stream.bytes, &code, &mut found, |_| true)?;
        (found.0.count, found.0.value)
    } else {
        let mut ends = 0_u64;
        let mut calls = Calls::new(|call| ends += u64::from(matches!(call, Call::End { .. })));
        mote_capture::follow(&stream.bytes, &code, &mut calls, |_| true)?;
        let count = calls.instructions();
        anyhow::ensure!(ends > 0, "no call has ended");
        (count, 0)
    };
    Ok((thread_ns() - begin, found.0, found.1))
}

/// The digest of all instructions.
#[derive(Default)]
struct Found(Digest);

impl Sink for Found {
    const NEEDS_TIME: bool = false;

    #[inline]
    fn block(&mut self, block: &Block, graph: &Graph) {
        let mut address = block.start;
        for length in graph.lengths(block) {
            self.0.push(address);
            address = address.wrapping_add(u64::from(*length));
        }
    }

    fn event(&mut self, _: u64, _: Event) {}

    fn gap(&mut self, _: Gap) {}
}

/// What libipt finds: nanoseconds, instructions, digest.
fn libipt(
    program: &Path,
    (capture, stream, folder): (&Capture, &Stream, &Path),
    mode: &str,
) -> anyhow::Result<(u64, u64, u64)> {
    let mut command = Command::new(program);
    command.arg(mode).arg(folder.join(mote_capture::name_of(stream.of)));
    for note in capture.notes().iter().filter(|note| note.pid == stream.pid) {
        if let What::Image(image) = &note.what {
            let numbers = [image.offset, image.bytes, image.start].map(|number| number.to_string());
            command.arg(&image.path).args(numbers);
        }
    }
    let output = command.output().context("cannot run the program for libipt")?;
    let text = String::from_utf8_lossy(&output.stdout);
    let numbers: Vec<u64> = text.split_whitespace().filter_map(|number| number.parse().ok()).collect();
    let [ns, count, digest, _] = numbers[..] else {
        anyhow::bail!("the program for libipt has said '{text}'")
    };
    Ok((ns, count, digest))
}

fn build(lab: &Lab) -> anyhow::Result<PathBuf> {
    let (source, program) = (lab.path().join("libipt_flow.c"), lab.path().join("libipt-flow-c"));
    std::fs::write(&source, SOURCE).context("cannot write the program for libipt")?;
    native::compile(Command::new("cc").arg("-O2").arg("-o").arg(&program).arg(&source).arg("-lipt"))
        .context("libipt is not installed")?;
    Ok(program)
}
