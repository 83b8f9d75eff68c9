//! Events as text, JSON and CSV; stacks with names; reports as tables.
//!
//! A [`Format`] appends to a buffer; [`pump`] drives the timeline through a [`Selection`] into a format and the buffer
//! to a writer, in large pieces. Everything that is the same for all events of a class is rendered once, when the first
//! of them comes.
//!
//! # Cost
//! No allocation per event. Figures: bench `view`, cases `text` and `null`.
#![forbid(unsafe_code)]

mod call_stacks;
pub mod civil;
mod cost_paths;
mod csv;
mod digits;
mod escape;
mod export;
mod folded;
mod hotspots;
mod json;
mod known;
mod label;
mod null;
mod off_cpu;
pub mod page;
mod plan;
mod pump;
mod select;
mod spans;
mod stack;
mod stacked;
mod table;
mod text;
mod time;
mod top;
mod tree;

pub use cost_paths::CostPaths;
pub use csv::Csv;
pub use export::{Firefox, FlameGraph, Perfetto, flames};
pub use folded::Folded;
pub use hotspots::{Branch, Hotspot, Hotspots, Sampled};
pub use json::Json;
pub use null::Null;
pub use pump::{Outcome, pump};
pub use select::Selection;
pub use stack::{Stack, Stacks};
pub use stacked::Stacked;
pub use table::{CallCount, CallCountTable, CostTable, FunctionTable, table};
pub use text::Text;
pub use time::TimeStyle;
pub use top::TopStacks;
pub use tree::{KEPT_MAX, Tree};

use mote_timeline::{LossRecord, Record};

/// A way in which events are printed, given them one after the other.
pub trait Format {
    /// What stands before the first event.
    fn begin(&mut self, _out: &mut Vec<u8>) {}

    /// Appends an event, with a line end.
    fn event(&mut self, out: &mut Vec<u8>, record: &Record<'_>);

    /// Takes in an event that is not shown, for what it says of others, as in which span they happen. Appends what has
    /// become ready by it.
    fn unseen(&mut self, _out: &mut Vec<u8>, _record: &Record<'_>) {}

    /// Appends a loss, with a line end.
    fn loss(&mut self, out: &mut Vec<u8>, loss: &LossRecord<'_>);

    /// What stands behind the last event.
    fn end(&mut self, _out: &mut Vec<u8>) {}
}

/// Why packets of a trace are missing, in words; a flight recorder of mote leaves them out on purpose.
#[must_use]
pub const fn missing_packets(is_flight_recorder: bool) -> &'static str {
    if is_flight_recorder {
        "overwritten by the flight recorder, which keeps the newest events"
    } else {
        "lost by the tracer, or missing from its files"
    }
}
