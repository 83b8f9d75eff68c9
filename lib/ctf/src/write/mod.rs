//! Metadata from the model, in both versions.
//!
//! CTF 2 says everything that the model holds. For CTF 1.8, `lower` first replaces what it lacks (truth
//! values, blobs, optionals, plain integers as selectors) by what it has, without a change to the layout of
//! the data; `tsdl` then only prints. Mirrors [`crate::read`].

pub mod encode;
mod json;
mod lower;
pub mod plain;
mod tsdl;

use crate::model::TraceClass;
use thiserror::Error;

/// What CTF 1.8 cannot say.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum WriteError {
    /// A kind of field that CTF 1.8 lacks.
    #[error("CTF 1.8 has no {0}; write CTF 2")]
    NotInCtf1(&'static str),
}

/// The metadata of a CTF 1.8 trace, as plain text.
///
/// Member names of contexts and payloads get an underscore in front, as LTTng writes them, so that none is
/// a keyword. Truth values become enumerations of `false` and `true`, blobs arrays of bytes in base 16,
/// optionals variants.
///
/// # Errors
/// Field classes that CTF 1.8 cannot express: variable-length integers, UTF-16 and UTF-32 texts, minimum
/// alignments of arrays.
pub fn tsdl(trace: &TraceClass) -> Result<String, WriteError> {
    let lowered = lower::lower(trace)?;
    Ok(tsdl::print(&lowered))
}

/// The events of a CTF 1.8 trace alone: what stands behind the metadata of the same trace without events, and behind
/// other events of it. So a trace that gets more events need not be printed anew.
///
/// The fields of an event must not refer to others than its own.
///
/// # Errors
/// As [`tsdl`].
pub fn tsdl_events(trace: &TraceClass) -> Result<String, WriteError> {
    let lowered = lower::lower(trace)?;
    Ok(tsdl::print_events(&lowered))
}

/// The same of a CTF 2 trace.
#[must_use]
pub fn json_events(trace: &TraceClass) -> String {
    json::print_events(trace)
}

/// The metadata of a CTF 2 trace: a sequence of JSON fragments, one a line, each after a record separator
/// (RFC 7464).
#[must_use]
pub fn json(trace: &TraceClass) -> String {
    json::print(trace)
}
