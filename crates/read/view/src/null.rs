//! No output: what remains is the cost of decoding and merging.

use crate::Format;
use mote_timeline::{LossRecord, Record};

/// Prints nothing. Events are decoded with all their fields all the same.
#[derive(Debug, Default)]
pub struct Null;

impl Format for Null {
    #[inline]
    fn event(&mut self, _out: &mut Vec<u8>, _record: &Record<'_>) {}

    fn loss(&mut self, _out: &mut Vec<u8>, _loss: &LossRecord<'_>) {}
}
