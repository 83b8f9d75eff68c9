//! What is read: the packets of each processor, and what is known of its clocks.

use super::hosts::Host;
use anyhow::ensure;
use mote_capture::{Bytes, Capture, Of, Part, Processor, of_name, perf};
use mote_hardware::vm::{Machine, Rates, infer};
use mote_pt::errata::{Cpu, Errata};
use std::path::{Path, PathBuf};

/// Bytes that are read of a processor at once.
const PART: usize = 1 << 20;
/// Bytes that tell what MTC packets mean.
const INFERRED: usize = 16 << 20;

/// What is to be read, and what is known of it.
#[derive(Debug, clap::Args)]
pub(super) struct Source {
    /// Directories of captures, files of perf with Intel PT, or files with the packets of a processor
    #[arg(required = true, value_name = "DIR|FILE")]
    captures: Vec<PathBuf>,

    /// An MTC packet has bits N to N+7 of the crystal clock (MTCFreq) [default: by the packets]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u8).range(0..=15))]
    mtc: Option<u8>,

    /// Ticks of the time-stamp counter by those of the crystal clock (CPUID 15H) [default: by the packets]
    #[arg(long, value_name = "A/B", value_parser = ratio)]
    tsc_per_art: Option<(u32, u32)>,

    /// The time-stamp counter, in Hz, where the capture does not say it
    #[arg(long, value_name = "HZ", value_parser = clap::value_parser!(u64).range(1..))]
    tsc_hz: Option<u64>,

    /// The processor, as in 6/85/4, for its errata, where the capture does not say it
    #[arg(long, value_name = "FAMILY/MODEL")]
    processor: Option<Cpu>,
}

impl Source {
    /// What is read, for people.
    pub(super) fn shown(&self) -> String {
        let all: Vec<String> = self.captures.iter().map(|path| path.display().to_string()).collect();
        all.join(", ")
    }
}

/// The packets of a processor.
pub(super) struct Input {
    /// Its number; or the place of its file among the others.
    pub(super) cpu: u32,
    /// Where it is from, if there are several of that number.
    pub(super) from: Option<String>,
    bytes: Bytes,
    /// Which of the machines it is of whose threads are known.
    pub(super) host: Option<usize>,
    /// Its clocks, as far as MTC packets need them.
    pub(super) rates: Option<Rates>,
    /// Its time-stamp counter, in Hz.
    pub(super) tsc_hz: Option<u64>,
}

impl Input {
    /// Who reads its packets.
    pub(super) fn machine(&self) -> Machine {
        Machine::new(self.rates).with_errata(self.bytes.errata())
    }

    /// Gives one part after the other, each with its offset.
    pub(super) fn parts(&self) -> impl FnMut() -> anyhow::Result<Option<(u64, Vec<u8>)>> {
        let mut parts = self.bytes.parts_of_all();
        move || {
            let part = parts.next_part()?;
            Ok(part.map(|Part { offset, mut bytes, own, .. }| {
                bytes.truncate(own);
                (offset, bytes)
            }))
        }
    }
}

/// The processors of all captures, and the machines of which more is known.
///
/// # Errors
/// There are none, or they cannot be read.
pub(super) fn inputs(source: &Source) -> anyhow::Result<(Vec<Input>, Vec<Host>)> {
    let (mut all, mut hosts) = (Vec::new(), Vec::new());
    for path in &source.captures {
        let from = (source.captures.len() > 1).then(|| path.display().to_string());
        let add =
            |(cpu, bytes): (u32, Bytes), processor: &Processor| input(source, &from, (cpu, bytes), processor);
        if path.is_dir() || perf::is_one(path) {
            let capture = Capture::open(path)?;
            let of_cpus = capture.streams().filter_map(|stream| Some((stream.cpu()?, stream.bytes.clone())));
            let before = all.len();
            let host = Host::of(path, &capture);
            let number = host.is_some().then_some(hosts.len());
            hosts.extend(host);
            all.extend(of_cpus.map(|stream| Input { host: number, ..add(stream, capture.processor()) }));
            ensure!(
                all.len() > before,
                "{} has packets of threads only; virtual machines are seen in those of processors",
                path.display()
            );
        } else {
            let bytes = Bytes::of_packets(path)?;
            let beside = path.parent().and_then(|folder| Capture::open(folder).ok());
            let processor = beside.map_or_else(Processor::default, |capture| capture.processor().clone());
            all.push(add((number(path).unwrap_or(all.len() as u32), bytes), &processor));
        }
    }
    let mut numbers: Vec<u32> = all.iter().map(|input| input.cpu).collect();
    numbers.sort_unstable();
    if numbers.is_sorted_by(|one, next| one < next) {
        all.iter_mut().for_each(|input| input.from = None);
    }
    Ok((all, hosts))
}

fn input(source: &Source, from: &Option<String>, (cpu, bytes): (u32, Bytes), processor: &Processor) -> Input {
    let tsc_per_art = source.tsc_per_art.unwrap_or(processor.tsc_per_art);
    let tsc_hz = source.tsc_hz.or_else(|| Processor { tsc_per_art, ..processor.clone() }.hz());
    let mtc = source.mtc.or(processor.mtc);
    let rates = mtc.filter(|_| tsc_per_art.0 > 0 && tsc_per_art.1 > 0);
    let known = rates.map(|mtc| Rates { mtc, tsc_per_art, tsc_hz });
    let rates = known.or_else(|| Some(Rates { tsc_hz, ..inferred(&bytes)? }));
    let errata = source.processor.map_or_else(|| processor.errata(), Errata::of);
    let bytes = bytes.in_parts_of(PART).with_errata(errata);
    Input { cpu, from: from.clone(), bytes, host: None, rates, tsc_hz }
}

/// What MTC packets mean, by themselves.
fn inferred(bytes: &Bytes) -> Option<Rates> {
    let mut first = Vec::new();
    bytes.read(0, INFERRED, &mut first).ok()?;
    infer(&first)
}

/// The processor that a file is named after.
fn number(path: &Path) -> Option<u32> {
    match of_name(path.file_name()?.to_str()?)? {
        Of::Cpu(cpu) => Some(cpu),
        Of::Thread(_) => None,
    }
}

/// A ratio, `168/2`.
///
/// # Errors
/// For a person.
fn ratio(text: &str) -> Result<(u32, u32), String> {
    let both = text.split_once('/').and_then(|(a, b)| Some((a.parse().ok()?, b.parse().ok()?)));
    both.filter(|(a, b)| *a > 0 && *b > 0).ok_or_else(|| "give two numbers, as in 168/2".to_owned())
}

/// Says what is missing of the clocks, for a person.
pub(super) fn missing(inputs: &[Input]) -> Vec<&'static str> {
    let mut missing = Vec::new();
    if inputs.iter().any(|input| input.rates.is_none()) {
        missing.push(
            "times are those of TSC packets only: what MTC packets mean is not known (--mtc, --tsc-per-art)",
        );
    }
    if inputs.iter().any(|input| input.tsc_hz.is_none()) {
        missing.push("times are in ticks of the time-stamp counter: how fast it is, is not known (--tsc-hz)");
    }
    missing
}
