//! `mote pt check`: how much of a capture can be followed.

use super::shown::{self, Format};
use crate::{cmd, out};
use mote_capture::{Found, Of, Stream, check, threads};
use mote_words::{counted_grouped, grouped};
use serde_json::json;
use std::fmt::Write;
use std::process::ExitCode;

/// Say how much of a capture was decoded, and where code is missing
///
/// Where it is known what was really executed (`mote pt synth`), this is compared, too.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Exit status: 0 all was followed (and is what was executed, where that is known), 2 failed, or something is missing.")]
pub(super) struct Args {
    #[command(flatten)]
    input: shown::Input,

    /// What to print: lines for people, or a JSON object for each thread
    #[arg(long, value_name = "FORMAT", default_value = "text")]
    format: Format,
}

/// Gaps that are printed for each thread.
const GAPS_MAX: usize = 20;

/// Runs the verb.
pub(super) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let (mut is_good, mut truths) = (true, None);
    args.input.with_streams(|capture, stream, code| {
        let truths = match &mut truths {
            Some(truths) => truths,
            None => truths.insert(capture.truth()?),
        };
        let found = check(&stream.bytes, code, truths.get(&stream.of), threads())?;
        is_good &= found.gap_count == 0 && found.damaged == 0 && found.differs.flatten().is_none();
        out::print(&match args.format {
            Format::Text => text(stream, &found, &capture.processor().filter),
            Format::Json => format!("{}\n", object(stream, &found, &capture.processor().filter)),
        })
    })?;
    Ok(if is_good { ExitCode::SUCCESS } else { cmd::FAILED.into() })
}

fn text(stream: &Stream, found: &Found, filter: &str) -> String {
    let mut text = match stream.of {
        Of::Thread(_) => format!("{} ({}) of process {}\n", stream.of, stream.name, stream.pid),
        Of::Cpu(_) => format!("{}\n", stream.of),
    };
    let packets: u64 = found.packets.values().sum();
    let kinds: Vec<String> =
        found.packets.iter().map(|(name, count)| format!("{} {name}", grouped(*count))).collect();
    let mut line = |name: &str, value: String| {
        let _ = writeln!(text, "  {name:<14} {value}");
    };
    line("packets", format!("{} in {}", grouped(packets), counted_grouped(found.bytes, "byte", "bytes")));
    line("", kinds.join(", "));
    line("instructions", grouped(found.instructions.count));
    if !filter.is_empty() {
        line("only", filter.to_owned());
    }
    if found.damaged > 0 {
        line("damaged", counted_grouped(found.damaged, "byte", "bytes"));
    }
    if found.cut_off > 0 {
        let bytes = counted_grouped(found.cut_off, "byte", "bytes");
        line("ends", format!("in the middle of a packet ({bytes} of it), where its memory was stopped"));
    }
    if found.overflows > 0 {
        line("lost packets", counted_grouped(found.overflows, "time", "times"));
    }
    line(
        "gaps",
        match (found.gap_count, found.guest_gaps) {
            (0, _) => "none".to_owned(),
            (all, 0) => grouped(all),
            (all, guest) => format!("{}, {} of them in virtual machines", grouped(all), grouped(guest)),
        },
    );
    for gap in found.gaps.iter().take(GAPS_MAX) {
        line("", gap.to_string());
    }
    if found.gap_count > GAPS_MAX as u64 {
        line("", format!("and {} more", grouped(found.gap_count - GAPS_MAX as u64)));
    }
    if found.uncertain > 0 {
        let times = counted_grouped(found.uncertain, "time", "times");
        line(
            "in doubt",
            format!("{times} code has changed between two looks at it: which version was executed"),
        );
    }
    match found.differs {
        None => {}
        Some(None) => line("as executed", "yes, instruction by instruction".to_owned()),
        Some(Some((from, to))) => {
            line(
                "as executed",
                format!("no: it differs between instructions {} and {}", grouped(from), grouped(to)),
            );
        }
    }
    text
}

fn object(stream: &Stream, found: &Found, filter: &str) -> serde_json::Value {
    let gaps: Vec<_> = found
        .gaps
        .iter()
        .map(|gap| json!({ "offset": gap.offset, "cause": gap.cause.to_string(), "is_guest": gap.is_guest }))
        .collect();
    json!({
        "tid": stream.tid(),
        "cpu": stream.cpu(),
        "pid": stream.pid,
        "thread": stream.name,
        "bytes": found.bytes,
        "packets": found.packets,
        "damaged": found.damaged,
        "cut_off": found.cut_off,
        "overflows": found.overflows,
        "instructions": found.instructions.count,
        "gap_count": found.gap_count,
        "guest_gaps": found.guest_gaps,
        "filter": filter,
        "gaps": gaps,
        "in_doubt": found.uncertain,
        "as_executed": found.differs.map(|differs| differs.is_none()),
    })
}
