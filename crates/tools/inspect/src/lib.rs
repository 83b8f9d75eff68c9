//! What a program carries, and what a machine offers: the library behind `mote list` and `mote doctor`.
//!
//! | module | job |
//! |---|---|
//! | [`event`] | an event that a program carries, its sites and their state |
//! | [`file`](mod@file) | the events of an ELF file |
//! | [`header`] | a C header with the contexts of events |
//! | [`linked`] | how many instructions an event takes, counted in the code of a file |
//! | [`process`] | the events of running processes, and whether they are on |
//! | [`target`] | what a person means: a command, a process or a file |
//! | [`doctor`] | checks of the machine, with advice |
//!
//! Nothing here changes a process that it looks at. World **O**.
#![forbid(unsafe_code)]

mod arch;
pub mod doctor;
pub mod error;
pub mod event;
pub mod file;
pub mod header;
pub mod linked;
pub mod process;
pub mod target;

pub use error::Error;
pub use event::{Carrier, Engine, Event, Field, Site, State};
