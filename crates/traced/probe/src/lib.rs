//! Typed static events that cost one NOP while they are off.
//!
//! ```
//! # let (n, p) = (1500, "tcp");
//! // The quick form: declared where it stands.
//! mote::event!(net::packet_in, len: u32 = n, proto: &str = p, "a packet has arrived");
//!
//! // Declared once, typed everywhere.
//! mote::tracepoint! {
//!     /// A request was answered.
//!     pub request_done in http(Debug) { status: u16, path: &str, nanos: u64 }
//! }
//! mote::emit!(request_done, 200, "/index.html", 1234);
//!
//! // Quick text.
//! mote::note!("{n} bytes by {p}");
//!
//! // The calls of a function: an event f:answer when it returns, with how long it took.
//! #[mote::probe(status: u16 = status)]
//! fn answer(status: u16) {}
//! ```
//! While an event is off its fields are not evaluated: the site is a 5-byte NOP. `mote record -- ./program` switches
//! it on. A program that is not recorded opens no socket, starts no thread and maps nothing.
//!
//! Fields are `u8`–`u64`, `i8`–`i64`, `usize`, `isize`, `bool`, `f32`, `f64`, `&str`, `&[u8]`, raw pointers, arrays
//! `[T; N]` and slices `&[T]` of numbers, and enums given labels by [`enumeration!`].
#![no_std]
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

mod arch;
mod call;
mod connect;
mod constructor;
mod cooperate;
mod emit;
mod enumeration;
mod event;
mod field;
mod fields;
mod join;
mod note;
mod packer;
mod switch;

pub use cooperate::{
    Scope, ShareError, SharedMap, Syscall, ThreadMap, ThreadState, ThresholdGuard, open_kernel,
    set_process_threshold, set_threshold, thread_state, thread_threshold, threshold,
};
pub use emit::{emit, record};
pub use field::{Element, Field, Packed};
pub use fields::Fields;
pub use mote_agent::{ChangeError, Connection, DynamicEvent, Event, announce, is_traced, wait_for_probes};
pub use mote_layout::Level;
pub use mote_macros::probe;
pub use packer::Packer;
pub use switch::{Switch, flip};

/// What the macros need; not for direct use.
#[doc(hidden)]
pub mod __private {
    pub use crate::arch::meet;
    pub use crate::call::Call;
    pub use crate::connect::connect;
    pub use crate::constructor::{CONSTRUCTOR, add_object, join, remove_object};
    pub use crate::emit::{emit_apart, emit_from, record_fragments, record_judged, record_packed};
    pub use crate::event::plain;
    pub use crate::note::note;
    pub use mote_agent::stack::Here;
    pub use mote_agent::{
        NewProbe, Probes, Switch as BareSwitch, connect as connect_bare, cooperate, flip as flip_bare, share,
        text_len,
    };
    pub use mote_layout::cooperation as layout;
    pub use mote_layout::describe::Spec;
    pub use mote_layout::types::{Integer, Scalar, Type};
}
