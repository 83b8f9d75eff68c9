//! Events in the formats of other viewers: Perfetto, the Firefox Profiler, flame graphs.
//!
//! Each is a [`Format`](crate::Format) as text and JSON are, so [`pump`](crate::pump) drives it. What an event means
//! for a viewer (a call begins, a span ends, a CPU is given to another thread) is found out once for each class
//! (`roles`).

mod calls;
mod firefox;
mod flame;
mod perfetto;
mod proto;
mod roles;

pub use firefox::Firefox;
pub use flame::{FlameGraph, flames};
pub use perfetto::Perfetto;
