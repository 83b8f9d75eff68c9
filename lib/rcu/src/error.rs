//! Why a thread could not be registered.

use core::fmt;
use mote_sys::Errno;

/// Why a thread could not be registered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum RegisterError {
    /// The thread is registered already: one [`Thread`](crate::Thread) of a flavour each.
    Already,
    /// No memory, more than 16,384 threads, or a child of vfork, which shares our memory.
    NoRoom,
    /// The program handles this signal itself.
    SignalTaken(i32),
    /// The kernel does not let us handle the signal.
    Signal(Errno),
}

impl fmt::Display for RegisterError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RegisterError::Already => f.write_str("thread is registered already"),
            RegisterError::NoRoom => f.write_str("thread cannot be registered: no room for another reader"),
            RegisterError::SignalTaken(signal) => {
                write!(
                    f,
                    "signal {signal} has a handler of the program; choose another for the signal flavour"
                )
            }
            RegisterError::Signal(errno) => write!(f, "cannot handle the signal flavour's signal: {errno}"),
        }
    }
}

impl core::error::Error for RegisterError {}
