//! Files of perf as captures: `perf record -e intel_pt//u`, read in place.
//!
//! ```text
//! perf.data ─ mote_perfdata ─┬─ records ─ by time ─ Notes ─▶ notes
//!                            └─ AUXTRACE ─ where they lie ─▶ streams
//! ```
//! The other way it is [`export`]. The same [`Notes`] make the side band of what `mote pt record` records.

mod export;
mod found;
mod guests;
mod notes;
mod open;
mod streams;

pub use export::{Exported, code_beside, export};
pub use notes::Notes;
pub(crate) use open::open;
pub use open::{is_one, processor};
