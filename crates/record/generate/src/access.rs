//! Where a program finds the fields of its event.

/// Where fields are found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// `r6` points to words with typed arguments.
    Typed,
    /// `r6` points to words; what they point to is read by copying.
    Raw,
    /// `r6` points to the trace event's record.
    Record,
    /// `r6` points to the interrupted registers; the program can be preempted.
    Probe,
    /// `r6` points to the words of a function of the kernel: arguments, result; the program can be preempted.
    Function,
    /// `r6` points to the registers of the process that makes the system call.
    TypedCall,
    /// `r6` is their address.
    RawCall,
}

impl Access {
    /// Whether another program can run on this CPU before one of this kind has ended, that does not end before it.
    pub(crate) fn is_preempted(self) -> bool {
        matches!(self, Access::Probe | Access::Function)
    }
}
