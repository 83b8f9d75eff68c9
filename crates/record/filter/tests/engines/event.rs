//! Events of random fields, with random values.

use crate::random::Random;
use mote_filter::interpret::Word;
use mote_layout::parse::{Description, FieldType, parse};
use mote_layout::types::Scalar;
use std::fmt::Write;

/// An event.
pub(crate) struct Event {
    text: Vec<u8>,
}

impl Event {
    pub(crate) fn random(random: &mut Random, types: &[&str]) -> Event {
        let mut text = "mote1\nnet:in\n6 f:1\n\n".to_owned();
        for at in 0..=random.below(7) {
            let _ = writeln!(text, "f{at} {}", random.pick(types));
        }
        Event { text: text.into_bytes() }
    }

    pub(crate) fn text(&self) -> &[u8] {
        &self.text
    }

    pub(crate) fn description(&self) -> Description<'_> {
        parse(&self.text).expect("well formed")
    }

    /// Values for all the fields.
    pub(crate) fn words(&self, random: &mut Random) -> Vec<Word> {
        let mut words = Vec::new();
        for field in self.description().fields() {
            match field.ty {
                FieldType::Scalar(scalar)
                | FieldType::Enumeration(scalar, _)
                | FieldType::Flags(scalar, _)
                | FieldType::Labelled(scalar, _) => {
                    words.push(Word::Number(scalar_word(scalar, random)));
                }
                FieldType::Str => words.extend([Word::Bytes(random.text(40)), Word::End]),
                FieldType::FixedText(bytes) => {
                    words.extend([Word::Bytes(random.text(bytes as u64)), Word::End])
                }
                FieldType::Bytes => words.extend([Word::Bytes(random.text(20)), Word::End]),
                FieldType::Sequence(scalar) => {
                    let count = random.below(5) as usize;
                    words.extend([Word::Bytes(elements(scalar, count, random)), Word::End]);
                }
                FieldType::Array(scalar, count) => words.push(Word::Bytes(elements(scalar, count, random))),
            }
        }
        words
    }
}

fn scalar_word(scalar: Scalar, random: &mut Random) -> u64 {
    let unused = 64 - 8 * scalar.bytes() as u32;
    match scalar {
        Scalar::Integer(integer) if integer.signed => ((random.number() << unused) as i64 >> unused) as u64,
        Scalar::Integer(_) => random.number() << unused >> unused,
        Scalar::Bool => random.below(2),
        Scalar::F32 => f64::from(random.float() as f32).to_bits(),
        Scalar::F64 => random.float().to_bits(),
    }
}

fn elements(scalar: Scalar, count: usize, random: &mut Random) -> Vec<u8> {
    let mut bytes = Vec::new();
    for _ in 0..count {
        let word = match scalar {
            Scalar::F32 => u64::from((random.float() as f32).to_bits()),
            Scalar::F64 => random.float().to_bits(),
            _ => random.number(),
        };
        bytes.extend_from_slice(&word.to_le_bytes()[..scalar.bytes()]);
    }
    bytes
}
