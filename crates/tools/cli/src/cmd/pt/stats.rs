//! `mote pt stats`: what a capture costs, and how fine its times are.

use super::shown::{self, Format};
use super::times::Times;
use crate::out;
use mote_capture::{Stats, Stream};
use mote_words::{counted_grouped, grouped};
use serde_json::json;
use std::fmt::Write;
use std::process::ExitCode;

/// Show how many bytes a capture has for its instructions, of which packets, and how fine its times are
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  mote pt stats cap
  mote pt stats cap --format json | jq .factor

A packet of time (TSC, MTC, CYC) is so many instructions and nanoseconds behind the one before, in the median. The
factor is the product of both; that of several captures scaled to 0 (finest) to 100 is the temporal resolution factor
(TRF) of Sharma 2017, section 5.5.2.

Exit status: 0 done, 1 no instruction could be followed, 2 failed.")]
pub(super) struct Args {
    #[command(flatten)]
    input: shown::Input,

    /// What to print: lines for people, or a JSON object for each thread
    #[arg(long, value_name = "FORMAT", default_value = "text")]
    format: Format,
}

/// Runs the verb.
pub(super) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let mut instructions = 0;
    args.input.with_streams(|capture, stream, code| {
        let processor = capture.processor();
        let stats = Stats::of(&stream.bytes, code, &capture.clocks(stream))?;
        let times = Times::new(processor);
        instructions += stats.instructions;
        out::print(&match args.format {
            Format::Text => text(stream, &stats, &times),
            Format::Json => format!("{}\n", object(stream, &stats, &times)),
        })
    })?;
    Ok(shown::status(instructions, 0))
}

fn text(stream: &Stream, stats: &Stats, times: &Times) -> String {
    let mut text = format!("{} {}\n", stream.of, stream.name);
    let mut line = |name: &str, value: String| {
        let _ = writeln!(text, "  {name:<14} {value}");
    };
    line("instructions", grouped(stats.instructions));
    let density = stats.density().map_or(String::new(), |of| format!(", {of:.1} for 1,000 instructions"));
    line("packets", format!("{}{density}", counted_grouped(stats.bytes, "byte", "bytes")));
    let mut kinds: Vec<_> = stats.kinds.iter().collect();
    kinds.sort_by_key(|(name, kind)| (u64::MAX - kind.bytes, **name));
    for (name, kind) in kinds {
        let part = 100.0 * kind.bytes as f64 / stats.bytes.max(1) as f64;
        let packets = counted_grouped(kind.packets, "packet", "packets");
        line(&format!("  {name}"), format!("{part:>5.1} % in {packets}"));
    }
    let resolution = match (stats.resolution.instructions(), times.resolution(&stats.resolution)) {
        (Some(instructions), Some((ns, factor))) => {
            let instructions = counted_grouped(instructions, "instruction", "instructions");
            format!("{instructions} and {} ns between two packets of time, factor {factor:.0}", grouped(ns))
        }
        _ => "not known: there are no packets of time".to_owned(),
    };
    line("resolution", resolution);
    text
}

fn object(stream: &Stream, stats: &Stats, times: &Times) -> serde_json::Value {
    let kinds = stats
        .kinds
        .iter()
        .map(|(name, kind)| ((*name).to_owned(), json!({ "packets": kind.packets, "bytes": kind.bytes })));
    let resolution = times.resolution(&stats.resolution);
    json!({
        "tid": stream.tid(),
        "cpu": stream.cpu(),
        "instructions": stats.instructions,
        "bytes": stats.bytes,
        "bytes_per_1000_instructions": stats.density(),
        "packets": kinds.collect::<serde_json::Map<_, _>>(),
        "median_instructions": stats.resolution.instructions(),
        "median_ns": resolution.map(|(ns, _)| ns),
        "factor": resolution.map(|(_, factor)| factor),
    })
}
