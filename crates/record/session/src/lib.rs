//! A recording as a state machine: what has happened goes in, what is to be done comes out.
//!
//! ```text
//!  sockets, signals, clock,        Input             Session              Action        sockets, rings,
//!  requests, consumer      ──────────────────▶  processes, rings,  ──────────────────▶  files, consumer,
//!                                               events, rules                           answers
//!                          ◀───────────────────────────────────────────────────────────
//!                                what came of an action is an input again
//! ```
//!
//! The session opens nothing, makes nothing, reads no clock and waits for nothing: `mote-daemon`'s event loop does that
//! for it. So all of its behaviour can be tested by sequences of inputs (`tests/model`), and several sessions can live
//! in one event loop.
//!
//! | module | job |
//! |---|---|
//! | `input`, `action` | what happens, and what is to be done |
//! | `session` | the parts of the state, and which one an input is for |
//! | `admission` | processes come: rights, rings, the journal |
//! | `conversation` | what processes say |
//! | `publish` | new events: decided, written down, then their ids are told |
//! | `requests` | what persons ask: other rules, snapshots, figures, another recorder's invitations |
//! | `peers`, `peer`, `quota`, `trust` | the connections; one of them; how many each user may have; which ones are let in |
//! | `known` | the processes and threads that were seen, as the journal has them |
//! | `groups` | which processes share rings, and how large these are |
//! | `selection` | which events are recorded: the next two together |
//! | `events`, `rules`, `objects`, `filters` | event descriptions and ids; the rules and what they make of each event |
//! | `layout`, `memory` | where the maps of filters lie; the words that all processes share |
//! | `unpublished` | events that no process knows the id of yet |
//! | `waiting`, `invitations` | requests that are not answered yet; what other recordings have asked of processes |
//! | `problems` | what is reported, and within which bounds |
//! | `ending`, `over` | when a recording is over: signals, the command, processes that are left |
//! | `stage`, `farewell` | what the end waits for, one after the other; what is done then |
#![forbid(unsafe_code)]

mod action;
mod admission;
mod conversation;
pub mod ending;
pub mod events;
mod farewell;
pub mod filters;
pub mod groups;
mod input;
mod invitations;
mod known;
pub mod layout;
pub mod memory;
pub mod objects;
mod over;
mod peer;
mod peers;
mod problems;
mod publish;
mod quota;
mod requests;
pub mod rules;
mod selection;
mod session;
mod settings;
mod stage;
pub mod trust;
mod unpublished;
mod waiting;

pub use action::{Action, KernelChange, Letter};
pub use ending::{Command, Outlook, Signal};
pub use groups::{Change, GroupId, Make, Principal};
pub use input::{Input, MailboxId, Receipt, Request, SendError, Ticket};
pub use peer::{Peer, PeerId, Seen, Way};
pub use problems::{Kind, Problems};
pub use session::{Now, Session};
pub use settings::{NEEDS_KERNEL, NO_EVENT, NO_PACKETS, NO_PROFILE, NO_SNAPSHOTS, Settings};
pub use stage::{Left, Stage};
