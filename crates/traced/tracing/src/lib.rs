//! Makes the events and spans of the [`tracing`](https://docs.rs/tracing) crate into mote events.
//!
//! One line in `main`:
//! ```
//! mote_tracing::init();
//! tracing::info!(user = "ann", bytes = 42, "logged in");
//! ```
//! Programs that have a subscriber already add a layer to it:
//! ```
//! use tracing_subscriber::prelude::*;
//! tracing_subscriber::registry().with(mote_tracing::layer()).init();
//! ```
//!
//! # What becomes of what
//! | tracing | mote |
//! |---|---|
//! | event of target `app::net` | `app.net:FILE_LINE`, or the event's `name:` |
//! | span `handle`: made, entered, left, closed | `app.net:handle_new`, `handle_enter`, `handle_exit`, `handle_close` |
//! | span `handle`: later values, follows | `handle_record`, `handle_follows` |
//! | `i64`, `u64`, `f64`, `bool`, text, bytes | fields of these types |
//! | `%display`, `?debug`, errors, the message, 128-bit integers | text |
//!
//! An event's first field is `span`, the span that it is in (0: none); a new span's are `span` and `parent`. Values
//! that a span does not have yet are not in `handle_new`, but come with `handle_record`.
//!
//! # Cost
//! Not recorded by `mote record`: that of a program without a subscriber; nothing is installed that looks at events.
//! Recorded: example `cost`. An event of a new kind of fields costs a conversation with the session once, some 100 us.
#![cfg_attr(
    not(test),
    deny(
        clippy::indexing_slicing,
        clippy::string_slice,
        clippy::unwrap_used,
        clippy::expect_used,
        clippy::get_unwrap,
        clippy::panic,
        clippy::unreachable,
        clippy::todo,
        clippy::unimplemented,
        clippy::disallowed_methods
    )
)]

mod callsite;
mod describe;
mod layer;
mod list;
mod off;
#[cfg(test)]
mod tests;
mod values;

pub use layer::Layer;

use tracing_core::dispatcher::{self, Dispatch};
use tracing_subscriber::layer::SubscriberExt;

/// Makes all events and spans of this program mote events, from now on. Call it first in `main`.
///
/// Returns false when the program has a global subscriber already: then nothing has changed, use [`layer`]. It installs
/// a subscriber also when the program is not recorded (one that refuses everything), so that a program that sets a
/// second one notices it always.
pub fn init() -> bool {
    let dispatch = match layer() {
        Some(layer) => Dispatch::new(tracing_subscriber::registry().with(layer)),
        None => Dispatch::new(off::Off),
    };
    let done = dispatcher::set_global_default(dispatch).is_ok();
    if !done {
        mote::event!(
            Warning,
            mote_tracing::not_installed,
            "the program has another global subscriber: use mote_tracing::layer()"
        );
    }
    done
}

/// A layer for a subscriber of your own; `None`, which as a layer costs nothing, when the program is not recorded.
///
/// It records whatever the other layers let pass: give filters to the layers that they are for (`with_filter`).
#[must_use]
pub fn layer() -> Option<Layer> {
    mote::is_traced().then(Layer::new)
}
