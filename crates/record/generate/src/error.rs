//! Why no program can be made.

/// Why no program can be made.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The kernel does not describe its types.
    #[error(
        "cannot follow processes in the kernel: {0}; record the events of all processes with -a, or use a kernel with BTF"
    )]
    Types(String),
    /// No program can be made for the event.
    #[error("cannot record {event}: {why}")]
    Event {
        /// The name of the event.
        event: String,
        /// Why.
        why: String,
    },
}

impl Error {
    /// That no program can be made for `event`.
    pub fn event(event: &str, why: impl Into<String>) -> Error {
        Error::Event { event: event.to_owned(), why: why.into() }
    }
}
