//! Functions that a traced process gives to filters, beside those of every environment ([`mote_bpf::helper`]): their
//! numbers, from [`mote_bpf::helper::OWN`] on, and what the verifier knows of them.

use mote_bpf::helper::Arg::{Number, Readable, Size, SizeOrZero, Writable};
use mote_bpf::helper::{Helper, Returns};

/// `get_executable(buffer, size)`: path of the program, NUL-terminated, cut if need be; returns its bytes.
pub const GET_EXECUTABLE: u32 = 1100;
/// `emit(id, data, size)`: records an event of the session of its own, fields packed as in a record.
pub const EMIT: u32 = 1101;
/// `speculate()`: from now on this thread's records are kept aside, until `commit` or `discard`. 0, or negative when
/// there is no space for one more speculation, which is counted.
pub const SPECULATE: u32 = 1102;
/// `commit()`: what was kept aside is recorded, this event (if it is recorded) included.
pub const COMMIT: u32 = 1103;
/// `discard()`: what was kept aside is forgotten.
pub const DISCARD: u32 = 1104;
/// `speculated()`: nanoseconds since this thread's `speculate`, or `u64::MAX` when it has none open.
pub const SPECULATED: u32 = 1105;
/// `snapshot()`: asks the session to write down what its flight recorder holds.
pub const SNAPSHOT: u32 = 1106;

/// `set_threshold(syscall, ns)`: from which duration on this system call of this thread is recorded ([`u64::MAX`]:
/// never). 0; or negative: there is no such system call, or no program to look at it, or the thread has no slot. The
/// paper's `bpf_set_threshold` (Sharma & Dagenais 2016, 5.3).
pub const SET_THRESHOLD: u32 = 1107;
/// `open_kernel(ns, scope)`: the kernel's events of this thread (scope 0), of the system (1), of the process (2) are
/// wanted from now on, for so long. 0, or negative when there is no recorder to ask.
pub const OPEN_KERNEL: u32 = 1108;

/// `speculate_by(kind, value)`: from now on the records of this key are kept aside in all threads of the process, until
/// `commit_by` or `discard_by`; what was kept of it before is forgotten. Kinds are the session's, below [`KINDS_MAX`].
/// 0, or negative when there is no room, which is counted; the records are recorded at once then.
pub const SPECULATE_BY: u32 = 1109;
/// `commit_by(kind, value)`: what was kept aside of the key is recorded. 1, or 0 when nothing was.
pub const COMMIT_BY: u32 = 1110;
/// `discard_by(kind, value)`: what was kept aside of the key is forgotten. 1, or 0 when nothing was.
pub const DISCARD_BY: u32 = 1111;
/// `speculated_by(kind, value)`: nanoseconds since the key's `speculate_by`, or `u64::MAX` when it has none open.
pub const SPECULATED_BY: u32 = 1112;
/// `speculation(kind, value, how, parent)`: what a program returns for an event of the key that is recorded, when its
/// records are kept aside; else 0. `how`: [`SPECULATION_LOOK`], [`SPECULATION_JOIN`] or [`SPECULATION_LEAVE`].
pub const SPECULATION: u32 = 1113;
/// Kinds of keys are below this.
pub const KINDS_MAX: u32 = 256;
/// For [`SPECULATION`]: look for the key.
pub const SPECULATION_LOOK: u32 = 0;
/// For [`SPECULATION`]: where the key has none open and the parent has, the key belongs to that from now on.
pub const SPECULATION_JOIN: u32 = 1;
/// For [`SPECULATION`]: look for the key; if it has joined another one, it does not belong to that any more after this
/// event.
pub const SPECULATION_LEAVE: u32 = 2;

/// `snapshot_packets(ns, event, time, cpu, thread)`: asks for the packets of the hardware trace of that CPU of so many
/// nanoseconds before that time (CLOCK_MONOTONIC), for this event of this thread (process id << 32 | thread id). 0, or
/// negative when there is no recorder to ask, or a request of that CPU waits already, which is counted.
pub const SNAPSHOT_PACKETS: u32 = 1114;

/// The helpers that a traced process gives to filters beside those of every environment.
pub const HELPERS: &[Helper] = &[
    Helper::new(GET_EXECUTABLE, "get_executable", &[Writable, Size], Returns::Number),
    Helper::new(EMIT, "emit", &[Number, Readable, SizeOrZero], Returns::Number),
    Helper::new(SPECULATE, "speculate", &[], Returns::Number),
    Helper::new(COMMIT, "commit", &[], Returns::Number),
    Helper::new(DISCARD, "discard", &[], Returns::Number),
    Helper::new(SPECULATED, "speculated", &[], Returns::Number),
    Helper::new(SNAPSHOT, "snapshot", &[], Returns::Number),
    Helper::new(SET_THRESHOLD, "set_threshold", &[Number, Number], Returns::Number),
    Helper::new(OPEN_KERNEL, "open_kernel", &[Number, Number], Returns::Number),
    Helper::new(SPECULATE_BY, "speculate_by", &[Number, Number], Returns::Number),
    Helper::new(COMMIT_BY, "commit_by", &[Number, Number], Returns::UpTo(1)),
    Helper::new(DISCARD_BY, "discard_by", &[Number, Number], Returns::UpTo(1)),
    Helper::new(SPECULATED_BY, "speculated_by", &[Number, Number], Returns::Number),
    Helper::new(SNAPSHOT_PACKETS, "snapshot_packets", &[Number; 5], Returns::Number),
    Helper::new(SPECULATION, "speculation", &[Number, Number, Number, Number], Returns::Number),
];

#[cfg(test)]
mod tests {
    use super::*;
    use mote_bpf::helper::{BUILTIN, OWN};

    #[test]
    fn every_helper_has_a_number_and_a_name_of_its_own() {
        for (at, one) in HELPERS.iter().enumerate() {
            let others = HELPERS[..at].iter().chain(BUILTIN);
            let mut same = others.filter(|other| other.id == one.id || other.name == one.name);
            assert!(one.id >= OWN && same.next().is_none(), "{}", one.name);
        }
    }
}
