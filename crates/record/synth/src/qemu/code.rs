//! Code that is of no file.

/// Where code comes from that is of no file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Code {
    /// From what is executed, as the emulator translates it: all of it is known.
    Executed,
    /// From copies, as a recorder makes them (Sharma 2017, 7.4, algorithm 3): of pages when they become executable, and
    /// of those that stay writable when they are executed for the first time since they were written to.
    Copied,
}
