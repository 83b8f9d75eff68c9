//! Makes the events and spans of the [`tracing`](https://docs.rs/tracing) crate into mote events.
//!
//! One line in `main` of a program that has no subscriber:
//! ```
//! mote_tracing::init();
//! tracing::info!(user = "ann", bytes = 42, "logged in");
//! ```
//! One that sets a subscriber, of `tracing-subscriber` 0.3, adds a layer to it:
//! ```
//! use tracing_subscriber::prelude::*;
//! tracing_subscriber::registry().with(mote_tracing::layer()).init();
//! ```
//! Where both are done, or the program sets a subscriber after [`init`], the program's subscriber stays and `init`
//! gives way: the trace says so with `mote_tracing:gave_way`.
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
//! An event's first field is `span`, the span that it is in (0: none); a new span's are `span` and `parent`. Ids of
//! spans are unique in a recording, over threads and processes, so a task that goes from thread to thread can be
//! followed. Values that a span does not have yet are not in `handle_new`, but come with `handle_record`. `mote report`
//! sums spans up, `mote view --tree` shows each with what was in it.
//!
//! # Cost
//! Not recorded by `mote record`: nothing; no subscriber is made.
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
mod entered;
mod ids;
mod init;
mod layer;
mod list;
#[cfg(test)]
mod tests;
mod values;

/// The examples of the project's first page.
#[cfg(doctest)]
#[doc = include_str!("../../../../README.md")]
struct Readme;

pub use init::{init, install};
pub use layer::Layer;

/// A layer for a subscriber of your own; `None`, which as a layer costs nothing, when the program is not recorded.
///
/// It records whatever the other layers let pass: give filters to the layers that they are for (`with_filter`).
#[must_use]
pub fn layer() -> Option<Layer> {
    // By this site `mote list` knows that the program makes events at run time.
    mote::event!(mote_tracing::layer_made, "the program has made a layer that records events and spans");
    mote::is_traced().then(Layer::new)
}
