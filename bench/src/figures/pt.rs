//! `pt`: how fast packets of Intel PT are read, beside the packet decoder of Intel's libipt.
//!
//! Both make the same checksum of the offset, the kind and the values of every packet. `packets/...` is mote's decoder
//! where a loop is given packets (`Iterator::fold`), `next/...` where a loop asks for one after the other (`for`).

use super::effort::Effort;
use super::figure::Figure;
use super::pt_streams::{self, Stream};
use super::session::Lab;
use super::{native, pt_flow, pt_time, stopwatch::thread_ns};
use anyhow::Context;
use mote_pt::packet::ip::Ip;
use mote_pt::packet::{Decoder, Item, Packet};
use std::path::{Path, PathBuf};
use std::process::Command;

const SOURCE: &str = include_str!("programs/ipt.c");
const LIBIPT: &str = "libipt";
const UNIT: &str = "bytes/s";

/// Measures each stream, mote and libipt in turns.
pub(super) fn run(effort: Effort) -> anyhow::Result<Vec<Figure>> {
    let lab = Lab::new()?;
    let (size, rounds) = effort.choose((4 << 20, 5), (16 << 20, 9));
    let peer = build(&lab);
    let mut figures = Vec::new();
    for (name, stream) in Stream::ALL {
        let bytes = pt_streams::make(stream, size)?;
        let path = lab.path().join(name);
        std::fs::write(&path, &bytes).context("cannot write a stream of packets")?;
        let peer = peer.as_ref().map(|program| (program.as_path(), path.as_path()));
        figures.extend(measure(name, &bytes, peer, rounds)?);
    }
    figures.extend(pt_flow::run(effort)?);
    figures.extend(pt_time::run(effort)?);
    Ok(figures)
}

fn measure(
    name: &str,
    bytes: &[u8],
    peer: Result<(&Path, &Path), &anyhow::Error>,
    rounds: usize,
) -> anyhow::Result<Vec<Figure>> {
    let mut rates = [Vec::new(), Vec::new(), Vec::new()];
    for round in 0..=rounds {
        let mut passes = vec![ours(bytes, folded), ours(bytes, one_by_one)];
        if let Ok((program, path)) = peer {
            passes.push(theirs(program, path)?);
        }
        let sum = passes[0].1;
        anyhow::ensure!(passes.iter().all(|pass| pass.1 == sum), "{name}: the checksums differ: {passes:?}");
        if round > 0 {
            let rate = |pass: &(u64, Sum)| bytes.len() as f64 / pass.0.max(1) as f64 * 1e9;
            rates.iter_mut().zip(&passes).for_each(|(rates, pass)| rates.push(rate(pass)));
        }
    }
    let [packets, next, theirs] = rates;
    let (case, next_case) = (format!("packets/{name}"), format!("next/{name}"));
    let theirs = match peer {
        Ok(_) => Figure::new(&case, UNIT, &theirs),
        Err(why) => Figure::absent(&case, UNIT, &format!("{why:#}")),
    };
    Ok(vec![Figure::new(&case, UNIT, &packets), theirs.of_peer(LIBIPT), Figure::new(&next_case, UNIT, &next)])
}

/// The checksum of all packets, and how many there are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Sum {
    sum: u64,
    count: u64,
}

/// A pass over a stream: nanoseconds, and what was read.
fn ours(bytes: &[u8], pass: fn(&[u8]) -> Sum) -> (u64, Sum) {
    let begin = thread_ns();
    let sum = pass(bytes);
    (thread_ns() - begin, sum)
}

#[inline(never)]
fn folded(bytes: &[u8]) -> Sum {
    Decoder::new(bytes, 0).fold(Sum::default(), Sum::with)
}

#[inline(never)]
fn one_by_one(bytes: &[u8]) -> Sum {
    let mut sum = Sum::default();
    for item in Decoder::new(bytes, 0) {
        sum = sum.with(item);
    }
    sum
}

impl Sum {
    #[inline(always)]
    fn with(self, item: Item) -> Sum {
        let (kind, payload) = item.what.as_ref().map_or((0, 0), digest);
        let packet = payload.wrapping_add(kind << 48).wrapping_add(item.offset << 20);
        Sum { sum: self.sum.rotate_left(5) ^ packet, count: self.count + 1 }
    }
}

/// What `programs/ipt.c` makes of the same packet.
#[inline(always)]
fn digest(packet: &Packet) -> (u64, u64) {
    let with_ip = |kind, ip: Ip| (kind + 32 * ip.compression as u64, ip.bits);
    match *packet {
        Packet::Pad => (1, 0),
        Packet::Psb => (2, 0),
        Packet::PsbEnd => (3, 0),
        Packet::Fup(ip) => with_ip(4, ip),
        Packet::Tip(ip) => with_ip(5, ip),
        Packet::TipPge(ip) => with_ip(6, ip),
        Packet::TipPgd(ip) => with_ip(7, ip),
        Packet::Tnt(tnt) => (8 + u64::from(tnt.is_long), tnt.bits ^ u64::from(tnt.count) << 56),
        Packet::ModeExec { is_64_bit, is_32_bit, .. } => {
            (10, u64::from(is_64_bit) | u64::from(is_32_bit) << 1)
        }
        Packet::Pip { cr3, is_guest } => (11, cr3 | u64::from(is_guest)),
        Packet::Cbr(ratio) => (12, ratio.into()),
        Packet::Tsc(tsc) => (13, tsc),
        Packet::Tma { ctc, fast } => (14, u64::from(ctc) | u64::from(fast) << 16),
        Packet::Mtc(ctc) => (15, ctc.into()),
        Packet::Cyc(cycles) => (16, cycles),
        _ => (17, 0),
    }
}

/// A pass of libipt's.
fn theirs(program: &Path, stream: &Path) -> anyhow::Result<(u64, Sum)> {
    let output = Command::new(program).arg(stream).output().context("cannot run the program for libipt")?;
    anyhow::ensure!(output.status.success(), "the program for libipt has failed");
    let text = String::from_utf8_lossy(&output.stdout);
    let numbers: Vec<u64> = text.split_whitespace().filter_map(|number| number.parse().ok()).collect();
    let [ns, sum, count] = numbers[..] else { anyhow::bail!("the program for libipt has said '{text}'") };
    Ok((ns, Sum { sum, count }))
}

fn build(lab: &Lab) -> anyhow::Result<PathBuf> {
    let (source, program) = (lab.path().join("ipt.c"), lab.path().join("ipt-c"));
    std::fs::write(&source, SOURCE).context("cannot write the program for libipt")?;
    native::compile(Command::new("cc").arg("-o").arg(&program).arg(&source).arg("-lipt"))
        .context("libipt is not installed")?;
    Ok(program)
}
