//! `mote pt dump`: packets, as they are.

use super::shown::{self, Format};
use crate::out;
use mote_capture::{Bytes, Of, Stream, perf};
use mote_pt::packet::print::Value;
use mote_pt::packet::{Item, Packet};
use serde_json::{Map, json};
use std::io::{BufWriter, Write};
use std::process::ExitCode;

/// Print the packets of a capture, or of a file with nothing but packets
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  mote pt dump cap | less
  mote pt dump cap --tid 4711 --format json | jq 'select(.packet == \"TIP\")'
  mote pt dump stream.pt          one processor's packets, as bytes
  mote pt dump perf.data          of perf record -e intel_pt//u

A line: offset, packet, what it says. Bytes that are no packets are a line, too; reading goes on at the next PSB.

Exit status: 0 done, 1 there are no packets, 2 failed, or some bytes are no packets.")]
pub(super) struct Args {
    #[command(flatten)]
    input: shown::Input,

    /// Without padding
    #[arg(long)]
    no_pad: bool,

    /// What to print: lines for people, or a JSON object for each packet
    #[arg(long, value_name = "FORMAT", default_value = "text")]
    format: Format,
}

/// Runs the verb.
pub(super) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let mut to = BufWriter::new(out::lock());
    let (mut packets, mut damaged) = (0_u64, 0_u64);
    for (of, bytes) in streams(args)? {
        if let (Some(of), Format::Text) = (of, args.format) {
            writeln!(to, "{of}:")?;
        }
        let mut parts = bytes.parts_of_all();
        while let Some(part) = parts.next_part()? {
            let items = part.items();
            for item in items.filter(|item| !args.no_pad || item.what != Ok(Packet::Pad)) {
                match item.what {
                    Ok(_) => packets += 1,
                    Err(_) => damaged += 1,
                }
                match args.format {
                    Format::Text => text(&mut to, &item)?,
                    Format::Json => writeln!(to, "{}", object(of, &item))?,
                }
            }
        }
    }
    to.flush()?;
    Ok(shown::status(packets, damaged))
}

/// What to read; whose packets it is, where that is known.
fn streams(args: &Args) -> anyhow::Result<Vec<(Option<Of>, Bytes)>> {
    let capture = args.input.open()?;
    let is_known = args.input.capture.is_dir() || perf::is_one(&args.input.capture);
    let streams = capture.chosen(&args.input.tid, &args.input.cpu)?;
    let stream = |stream: &&Stream| (Some(stream.of).filter(|_| is_known), stream.bytes.clone());
    Ok(streams.iter().map(stream).collect())
}

fn text(to: &mut impl Write, item: &Item) -> anyhow::Result<()> {
    match item.what {
        Ok(packet) if packet != Packet::Pad => {
            writeln!(to, "{:08x}  {:<44} {}", item.offset, packet.to_string(), packet.meaning())?;
        }
        _ => writeln!(to, "{item}")?,
    }
    Ok(())
}

fn object(of: Option<Of>, item: &Item) -> serde_json::Value {
    let mut object = Map::new();
    match of {
        Some(Of::Thread(tid)) => drop(object.insert("tid".to_owned(), json!(tid))),
        Some(Of::Cpu(cpu)) => drop(object.insert("cpu".to_owned(), json!(cpu))),
        None => {}
    }
    object.insert("offset".to_owned(), json!(item.offset));
    object.insert("bytes".to_owned(), json!(item.length));
    match item.what {
        Ok(packet) => {
            object.insert("packet".to_owned(), json!(packet.name()));
            object.extend(packet.fields().map(|(name, value)| (name.to_owned(), number(value))));
        }
        Err(damage) => drop(object.insert("damage".to_owned(), json!(damage.to_string()))),
    }
    object.into()
}

/// Numbers that may have more than 53 bits are texts, as people read them.
fn number(value: Value) -> serde_json::Value {
    match value {
        Value::Count(count) => json!(count),
        Value::Flag => json!(true),
        other => json!(other.to_string()),
    }
}
