//! Why an event was lost.

/// The causes by which lost events are counted, everywhere: in rings, packet headers, summaries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(usize)]
pub enum Cause {
    /// Discard mode, and the consumer was behind.
    RingFull = 0,
    /// The event is larger than 64 KiB or than a sub-buffer.
    TooBig = 1,
    /// Atomic writer: the sub-buffer still held an event that another thread had not finished.
    Busy = 2,
    /// Atomic writer: written whole, but next to an event whose writer was killed halfway.
    Torn = 3,
}

impl Cause {
    /// All causes, in the order of their numbers.
    pub const ALL: [Cause; 4] = [Cause::RingFull, Cause::TooBig, Cause::Busy, Cause::Torn];

    /// Name in packet headers, summaries and JSON.
    pub const fn name(self) -> &'static str {
        match self {
            Cause::RingFull => "ring_full",
            Cause::TooBig => "too_big",
            Cause::Busy => "busy",
            Cause::Torn => "torn",
        }
    }

    /// What it means and what to do about it, for a person.
    pub const fn advice(self) -> &'static str {
        match self {
            Cause::RingFull => {
                "the consumer was behind: give larger --buffers, or choose fewer events with -e"
            }
            Cause::TooBig => {
                "an event was larger than 64 KiB or than a sub-buffer: give larger --buffers or record less of it"
            }
            Cause::Busy => "a thread stopped in the middle of an event: happens without rseq only",
            Cause::Torn => "a process was killed in the middle of an event: happens without rseq only",
        }
    }
}

/// Lost events by cause.
pub type Lost = [u64; Cause::ALL.len()];
