//! How processes come to a recording: where they say hello, what the kernel knows of them, and the connection with
//! each.
//!
//! The command inherits a mailbox, other processes find a socket in the file system ([`listeners`]); running processes
//! are brought ([`attached`]), by other recordings too ([`awaited`]). Each user's hellos wait in a row of their own
//! ([`backlog`]), and each user has its share of the loop's time ([`turns`]). What a process says is the session's
//! (`mote_session`); what the kernel says of it is read here ([`principal`], [`sandbox`]).

pub(crate) mod attached;
pub(crate) mod awaited;
pub(crate) mod backlog;
pub(crate) mod connection;
pub(crate) mod listener;
pub(crate) mod listeners;
pub(crate) mod principal;
pub(crate) mod sandbox;
pub(crate) mod sockets;
pub(crate) mod turns;
