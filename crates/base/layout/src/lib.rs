//! The one definition that writers and readers of a trace share: field types, the description of an
//! event as text, the records of the site section, the record header and the packet header.
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
#![forbid(unsafe_code)]

mod arch;
pub mod context;
pub mod cooperation;
pub mod describe;
pub mod errors;
pub mod functions;
pub mod join;
pub mod level;
pub mod packet;
pub mod packet_requests;
pub mod parse;
pub mod record;
pub mod retired;
pub mod site;
pub mod stack;
pub mod stubs;
pub mod syscalls;
pub mod tracer;
pub mod types;

pub use level::Level;
