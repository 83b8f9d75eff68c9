//! Names of values that are plain integers in the metadata, because existing analyses expect integers there
//! (lttng-modules has them so).

use mote_ctf::model::EventClass;
use mote_layout::Level;

/// Whose values they are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Names {
    /// What a system call returns.
    Errors,
    /// What a system call returns that gives out memory.
    Addresses,
    /// Descriptors of directories, or the working directory.
    Directories,
    /// Who may do what with a file.
    Modes,
    /// What a thread is that leaves the CPU.
    States,
    /// Kinds of soft interrupts.
    SoftInterrupts,
    /// What a request to a disk is, as bits.
    Requests,
}

/// As the kernel reports them (`include/linux/sched.h`, TASK_REPORT); 0x100 means preempted.
const STATES: [(i64, &str); 10] = [
    (0, "running"),
    (1, "interruptible"),
    (2, "uninterruptible"),
    (4, "stopped"),
    (8, "traced"),
    (0x10, "dead"),
    (0x20, "zombie"),
    (0x40, "parked"),
    (0x80, "idle"),
    (0x100, "preempted"),
];
const SOFT_INTERRUPTS: [&str; 10] =
    ["HI", "TIMER", "NET_TX", "NET_RX", "BLOCK", "IRQ_POLL", "TASKLET", "SCHED", "HRTIMER", "RCU"];

const REQUESTS: [&str; 11] =
    ["WRITE", "DISCARD", "READ", "RAHEAD", "BARRIER", "SYNC", "META", "SECURE", "FLUSH", "FUA", "PREFLUSH"];

/// Calls that return an address.
const GIVE_MEMORY: [&str; 4] =
    ["syscall_exit_mmap", "syscall_exit_mremap", "syscall_exit_brk", "syscall_exit_shmat"];
/// Of fcntl.h.
const AT_FDCWD: i64 = -100;

/// The level of events of a class, if they have one that is known.
pub(crate) fn level(class: &EventClass) -> Option<Level> {
    Level::from_number(u8::try_from(class.log_level?.0).ok()?)
}

/// Whether a member of an event of mote's own says by 0 that its value is not known: how long a system call took whose
/// beginning was not seen. (A call takes longer than no time at all.)
pub(crate) fn is_absent_at_0(event: &str, member: &str) -> bool {
    member.trim_start_matches('_') == "duration_ns" && event.starts_with("syscall_exit_")
}

impl Names {
    /// Those of a member of an event, if it is one that is known.
    pub(crate) fn of(event: &str, member: &str) -> Option<Names> {
        let event = event.split_once(':').map_or(event, |(_, name)| name);
        match member.trim_start_matches('_') {
            "ret" if GIVE_MEMORY.contains(&event) => Some(Names::Addresses),
            "ret" if event.starts_with("syscall_exit_") => Some(Names::Errors),
            "dfd" | "olddfd" | "newdfd" if event.starts_with("syscall_entry_") => Some(Names::Directories),
            "mode" if event.starts_with("syscall_entry_") => Some(Names::Modes),
            "prev_state" if event == "sched_switch" => Some(Names::States),
            "rwbs" if event.starts_with("block_") => Some(Names::Requests),
            "vec" if event.starts_with("irq_softirq_") => Some(Names::SoftInterrupts),
            _ => None,
        }
    }

    /// Appends ` (ENOENT)` or ` (WRITE|SYNC)` to the number that `out` has from `start` on.
    pub(crate) fn append(self, out: &mut Vec<u8>, start: usize) {
        let number = out.get(start..).and_then(|digits| std::str::from_utf8(digits).ok()?.parse().ok());
        let Some(number) = number else { return };
        if let Some(form) = self.form(number) {
            out.extend_from_slice(format!(" ({form})").as_bytes());
            return;
        }
        let digits = out.len();
        for name in self.bits(number).chain(self.name(number)) {
            out.extend_from_slice(if out.len() == digits { b" (" } else { b"|" });
            out.extend_from_slice(name.as_bytes());
        }
        if out.len() > digits {
            out.push(b')');
        }
    }

    /// The number as it is written where it is no plain one.
    fn form(self, value: i64) -> Option<String> {
        match self {
            Names::Addresses if value >= 4096 => Some(format!("{value:#x}")),
            Names::Modes if value != 0 => Some(format!("0{value:o}")),
            _ => None,
        }
    }

    fn bits(self, value: i64) -> impl Iterator<Item = &'static str> {
        let names: &[&str] = if self == Names::Requests { &REQUESTS } else { &[] };
        names.iter().enumerate().filter(move |(bit, _)| value >> bit & 1 == 1).map(|(_, name)| *name)
    }

    fn name(self, value: i64) -> Option<&'static str> {
        match self {
            Names::Errors | Names::Addresses => {
                mote_layout::errors::name(u16::try_from(value.checked_neg()?).ok()?)
            }
            Names::States => STATES.iter().find(|(known, _)| *known == value).map(|(_, name)| *name),
            Names::SoftInterrupts => SOFT_INTERRUPTS.get(usize::try_from(value).ok()?).copied(),
            Names::Directories => (value == AT_FDCWD).then_some("AT_FDCWD"),
            Names::Requests | Names::Modes => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_get_their_names() {
        let shown = |event: &str, member: &str, digits: &str| {
            let mut out = digits.as_bytes().to_vec();
            if let Some(names) = Names::of(event, member) {
                names.append(&mut out, 0);
            }
            String::from_utf8(out).expect("text")
        };
        assert_eq!(shown("syscall_exit_openat", "ret", "-2"), "-2 (ENOENT)");
        assert_eq!(shown("syscall_exit_openat", "_ret", "3"), "3");
        assert_eq!(shown("syscall_exit_mmap", "ret", "4096"), "4096 (0x1000)");
        assert_eq!(shown("syscall_exit_mmap", "ret", "-12"), "-12 (ENOMEM)");
        assert_eq!(shown("syscall_entry_openat", "dfd", "-100"), "-100 (AT_FDCWD)");
        assert_eq!(shown("syscall_entry_openat", "dfd", "3"), "3");
        assert_eq!(shown("syscall_entry_openat", "mode", "420"), "420 (0644)");
        assert_eq!(shown("syscall_entry_openat", "mode", "0"), "0");
        assert_eq!(shown("kernel:sched_switch", "prev_state", "1"), "1 (interruptible)");
        assert_eq!(shown("irq_softirq_entry", "vec", "3"), "3 (NET_RX)");
        assert_eq!(shown("block_rq_issue", "rwbs", "33"), "33 (WRITE|SYNC)");
        assert_eq!(shown("block_rq_issue", "rwbs", "0"), "0");
        assert_eq!(shown("irq_softirq_entry", "vec", "-3"), "-3");
        assert_eq!(shown("net:packet", "ret", "-2"), "-2");
        assert_eq!(shown("syscall_exit_openat", "ret", "-9223372036854775808"), "-9223372036854775808");
    }
}
