//! How much of a stream could be read and followed.

use crate::code::Code;
use crate::error::Error;
use crate::follow::{Summary, follow, summarize};
use crate::stream::{Bytes, Part};
use crate::truth::{Against, Truth};
use mote_pt::digest::Digest;
use mote_pt::flow::{Event, Gap, Graph, Sink};
use mote_pt::insn::Block;
use mote_pt::packet::Packet;
use std::collections::BTreeMap;

/// Gaps that are kept one by one.
const GAPS_MAX: usize = 1000;

/// What was found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Found {
    /// Bytes of the stream.
    pub bytes: u64,
    /// How many packets of each name; a run of padding is one.
    pub packets: BTreeMap<&'static str, u64>,
    /// Bytes that are no packets.
    pub damaged: u64,
    /// Bytes of packets that were cut off where the processor's memory was stopped.
    pub cut_off: u64,
    /// Instructions that were followed, and the digest of their addresses.
    pub instructions: Digest,
    /// How often the processor has lost packets.
    pub overflows: u64,
    /// The first gaps.
    pub gaps: Vec<Gap>,
    /// How many there are.
    pub gap_count: u64,
    /// How many of these are in virtual machines.
    pub guest_gaps: u64,
    /// How often code has changed at a time that is not known ([`Code::uncertain`]).
    pub uncertain: u64,
    /// Between which instructions what was followed differs first from what was executed; where that is known.
    pub differs: Option<Option<(u64, u64)>>,
}

/// Reads and follows a stream. Where the truth is known, what was followed is compared with it.
///
/// # Errors
/// The stream cannot be read.
pub fn check(bytes: &Bytes, code: &Code, truth: Option<&Truth>, threads: usize) -> Result<Found, Error> {
    let found = summarize(bytes, code, threads, Found::default)?;
    let found = Found { uncertain: code.uncertain().len() as u64, ..found };
    let Some(truth) = truth else { return Ok(found) };
    // Where they differ only a reader knows that begins with the first instruction.
    let differs = if truth.is(&found.instructions) { None } else { difference(bytes, code, truth)? };
    Ok(Found { differs: Some(differs), ..found })
}

fn difference(bytes: &Bytes, code: &Code, truth: &Truth) -> Result<Option<(u64, u64)>, Error> {
    let mut against = Against::new(truth);
    follow(bytes, code, &mut against, |against| !against.has_differed())?;
    Ok(against.finish())
}

impl Sink for Found {
    const NEEDS_TIME: bool = false;

    fn block(&mut self, block: &Block, graph: &Graph) {
        let mut address = block.start;
        for length in graph.lengths(block) {
            self.instructions.push(address);
            address = address.wrapping_add(u64::from(*length));
        }
    }

    fn event(&mut self, _: u64, event: Event) {
        self.overflows += u64::from(event == Event::Overflow);
    }

    fn gap(&mut self, gap: Gap) {
        self.gap_count += 1;
        self.guest_gaps += u64::from(gap.is_guest);
        if self.gaps.len() < GAPS_MAX {
            self.gaps.push(gap);
        }
    }
}

impl Summary for Found {
    fn begin(&mut self, part: &Part) {
        self.bytes += (part.own + part.cut_off) as u64;
        self.cut_off += part.cut_off as u64;
        for item in part.items() {
            match item.what {
                Ok(packet) => *self.packets.entry(Packet::name(&packet)).or_default() += 1,
                Err(_) => self.damaged += item.length as u64,
            }
        }
    }

    fn end(&mut self, _: Option<u64>) {}

    fn append(&mut self, next: Found) {
        self.bytes += next.bytes;
        for (name, count) in next.packets {
            *self.packets.entry(name).or_default() += count;
        }
        self.damaged += next.damaged;
        self.cut_off += next.cut_off;
        self.instructions.append(&next.instructions);
        self.overflows += next.overflows;
        self.gap_count += next.gap_count;
        self.guest_gaps += next.guest_gaps;
        let room = GAPS_MAX - self.gaps.len();
        self.gaps.extend(next.gaps.into_iter().take(room));
    }
}
