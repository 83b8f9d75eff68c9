//! Walks the records of a packet: counts them by event, and notices what cannot be.
//!
//! This is the check of everything that a traced process has put into a ring: nothing of it is trusted.

use crate::consumer::seen::Seen;
use mote_layout::parse::{Description, FieldType};
use mote_layout::record::{self, FIELDS_MAX, PREFIX_BYTES};
use mote_layout::stack;
use std::ops::Range;

/// How to step over one kind of field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    /// So many bytes.
    Fixed(usize),
    /// Up to and with the next NUL.
    Text,
    /// A 16-bit count of elements of so many bytes.
    Counted(usize),
    /// The process's stack: a count of words, and these.
    Stack,
}

/// How to step over the fields of one event; neighbours of fixed size are one step.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Steps(Vec<Step>);

impl Steps {
    /// The steps of an event.
    pub fn of(description: &Description<'_>) -> Steps {
        let mut steps = Vec::new();
        for field in description.fields() {
            let step = match field.ty {
                FieldType::Scalar(scalar)
                | FieldType::Enumeration(scalar, _)
                | FieldType::Flags(scalar, _)
                | FieldType::Labelled(scalar, _) => Step::Fixed(scalar.bytes()),
                FieldType::FixedText(len) => Step::Fixed(len),
                FieldType::Array(scalar, len) => Step::Fixed(scalar.bytes() * len),
                FieldType::Str => Step::Text,
                FieldType::Bytes => Step::Counted(1),
                FieldType::Sequence(scalar) if field.name == stack::USER && scalar.bytes() == 8 => {
                    Step::Stack
                }
                FieldType::Sequence(scalar) => Step::Counted(scalar.bytes()),
            };
            match (steps.last_mut(), step) {
                (Some(Step::Fixed(sum)), Step::Fixed(more)) => *sum += more,
                _ => steps.push(step),
            }
        }
        Steps(steps)
    }

    /// The same of events with the process's stack in front of their fields.
    pub(crate) fn behind_stack(mut self) -> Steps {
        self.0.insert(0, Step::Stack);
        self
    }

    /// Bytes that the fields take at the start of `bytes`, and where in there the process's stack is, if they have it;
    /// `None` when they do not end in there.
    pub(crate) fn over(&self, bytes: &[u8]) -> Option<(usize, Option<Range<usize>>)> {
        let (mut at, mut stack) = (0usize, None);
        for step in &self.0 {
            at += match step {
                Step::Fixed(len) => *len,
                Step::Text => bytes.get(at..)?.iter().position(|byte| *byte == 0)? + 1,
                Step::Counted(size) => 2 + size * count(bytes, at)?,
                Step::Stack => {
                    let len = 8 * count(bytes, at)?;
                    stack = Some(at + 2..at + 2 + len);
                    2 + len
                }
            };
        }
        (at <= bytes.len() && at <= FIELDS_MAX).then_some((at, stack))
    }
}

/// The 16-bit count of elements at `at`.
fn count(bytes: &[u8], at: usize) -> Option<usize> {
    let count = bytes.get(at..)?.first_chunk::<2>()?;
    Some(usize::from(u16::from_le_bytes(*count)))
}

/// What a walk found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Walk {
    /// Good records.
    pub records: u64,
    /// Bytes of them; less than was walked when the rest is damaged.
    pub good: usize,
    /// Time of the last good record, its low 48 bits.
    pub last_time: u64,
}

/// Walks `bytes`, whose records are of the times `between` (48 bits each), and counts in `counts` by event id.
///
/// Stops at the first record that cannot be: an unknown event, one that does not end in `bytes`, one that
/// is older than the one before, or one of a time to come.
pub fn walk(bytes: &[u8], between: (u64, u64), events: &[Steps], counts: &mut [u64]) -> Walk {
    walk_noting(bytes, between, events, counts, &mut Seen::default())
}

/// As [`walk`], and notes the threads that good records are of.
pub(crate) fn walk_noting(
    bytes: &[u8],
    between: (u64, u64),
    events: &[Steps],
    counts: &mut [u64],
    seen: &mut Seen,
) -> Walk {
    const HALF: u64 = 1 << (record::TIME_BITS - 1);
    const MASK: u64 = (1 << record::TIME_BITS) - 1;
    let (from, until) = between;
    let mut walk = Walk { records: 0, good: 0, last_time: from };
    while let Some(prefix) = bytes.get(walk.good..).and_then(|rest| rest.first_chunk::<PREFIX_BYTES>()) {
        let header = prefix.first_chunk::<8>().map_or(0, |header| u64::from_le_bytes(*header));
        let (id, time) = record::split(header);
        let Some(steps) = events.get(usize::from(id)) else { break };
        let Some((len, _)) = steps.over(&bytes[walk.good + PREFIX_BYTES..]) else { break };
        let before = |one: u64, other: u64| one.wrapping_sub(other) & MASK >= HALF;
        if before(time, walk.last_time) || before(until, time) {
            break;
        }
        seen.note(prefix.last_chunk::<4>().map_or(0, |thread| u32::from_le_bytes(*thread)));
        walk.last_time = time;
        walk.good += PREFIX_BYTES + len;
        walk.records += 1;
        if let Some(count) = counts.get_mut(usize::from(id)) {
            *count += 1;
        }
    }
    walk
}

#[cfg(test)]
mod tests {
    use super::*;
    use mote_layout::parse::parse;

    fn steps(fields: &str) -> Steps {
        let text = format!("mote1\np:e\n6 f.rs:1\n\n{fields}");
        Steps::of(&parse(text.as_bytes()).expect("well formed"))
    }

    fn record(id: u16, time: u64, fields: &[u8]) -> Vec<u8> {
        let mut bytes = record::header(time, id).to_le_bytes().to_vec();
        bytes.extend(7u32.to_le_bytes());
        bytes.extend(fields);
        bytes
    }

    #[test]
    fn good_records_are_counted_and_a_bad_one_ends_the_walk() {
        let events = [steps("a u32\nb u64\n"), steps("s str\nq u16[]\nx u8[3]\n")];
        let mut bytes = record(0, 10, &[0; 12]);
        bytes.extend(record(1, 11, b"hello\0\x02\0aabbxyz"));
        let good = bytes.len();
        let mut counts = [0; 2];
        let walked = walk(&bytes, (10, 20), &events, &mut counts);
        assert_eq!((walked.records, walked.good, walked.last_time), (2, good, 11));
        assert_eq!(counts, [1, 1]);
        for bad in
            [record(2, 12, &[]), record(0, 9, &[0; 12]), record(0, 21, &[0; 12]), record(0, 12, &[0; 11])]
        {
            let damaged = [bytes.clone(), bad].concat();
            assert_eq!(walk(&damaged, (10, 20), &events, &mut counts).good, good);
        }
        assert_eq!(walk(&bytes[..good - 1], (10, 20), &events, &mut counts).records, 1);
    }

    #[test]
    fn neighbours_of_fixed_size_are_one_step() {
        assert_eq!(steps("a u32\nb u64\nc u8[5]\n").0, [Step::Fixed(17)]);
        assert_eq!(steps("").0, []);
        assert_eq!(steps("a char[16]\nb flags u32 A=1\nc labelled i64 E=-1\n").0, [Step::Fixed(28)]);
    }

    #[test]
    fn any_bytes_are_walked_without_a_panic() {
        let events = [steps("a u32\ns str\nq u64[]\n")];
        let mut state = 1u64;
        for _ in 0..20_000 {
            let bytes: Vec<u8> = (0..64)
                .map(|at| {
                    state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
                    if at < 2 { 0 } else { (state >> 56) as u8 }
                })
                .collect();
            let walked = walk(&bytes, (0, 1 << 46), &events, &mut [0]);
            assert!(walked.good <= bytes.len());
        }
    }
}
