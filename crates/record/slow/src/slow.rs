//! Slow calls, as the recorder reads them from the slots that programs fill (`programs::record`).

use crate::places::{self as at, slot};
use mote_sys::bpf::mapped::Mapped;

/// Whose threshold a call has reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Whose {
    /// The session's.
    Session,
    /// The process has set it.
    Process,
    /// The thread has set it for itself.
    Thread,
}

/// A thread that woke another one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Waker {
    /// Its id, as the recorder sees it; 0 for an interrupt, whose name is `interrupt`.
    pub tid: u32,
    /// Its process.
    pub pid: u32,
    /// Its name.
    pub name: String,
    /// For how long its cgroup held it back while the other one waited, in nanoseconds; known when it is traced.
    pub throttled_ns: u64,
}

/// The longest wait of a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wait {
    /// Nanoseconds off the CPU.
    pub ns: u64,
    /// The kernel's task state: 0 it would have gone on, 1 interruptible, 2 uninterruptible, and others of `__state`.
    pub state: u32,
    /// Whether its cgroup's bandwidth held it back.
    pub throttled: bool,
    /// Who woke it.
    pub waker: Option<Waker>,
    /// Where it waited in the kernel, the innermost first; empty when the wait was short.
    pub stack: Vec<u64>,
}

/// The thread that ran on a CPU until another one got it, which had waited for one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rival {
    /// Its id, as the recorder sees it; 0 for the CPU's idle task.
    pub tid: u32,
    /// Its name.
    pub name: String,
    /// How long the other one had waited.
    pub ns: u64,
}

/// A call that took longer than it may.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Slow {
    /// When it returned (CLOCK_MONOTONIC).
    pub time_ns: u64,
    /// The thread, as the recorder sees it.
    pub tid: u32,
    /// Its process.
    pub pid: u32,
    /// Its name.
    pub name: String,
    /// Number of the system call.
    pub number: u32,
    /// What it returned.
    pub result: i64,
    /// Its arguments.
    pub arguments: [u64; 6],
    /// How long it took, at most.
    pub duration_ns: u64,
    /// It may have been shorter by as much.
    pub uncertain_ns: u64,
    /// The threshold that it reached.
    pub threshold_ns: u64,
    /// Whose.
    pub whose: Whose,
    /// Nanoseconds off the CPU.
    pub offcpu_ns: u64,
    /// Of these, nanoseconds runnable without a CPU.
    pub runqueue_ns: u64,
    /// Of these, nanoseconds held back by its cgroup.
    pub throttled_ns: u64,
    /// Page faults.
    pub faults: u64,
    /// How often it was taken off its CPU.
    pub switches: u32,
    /// The longest wait, if there was one.
    pub wait: Option<Wait>,
    /// Who had the CPU before it, of its longest wait for one.
    pub rival: Option<Rival>,
    /// What the path says that is one of its arguments, or the address of a socket (`struct sockaddr`); up to a NUL. Of a descriptor the number of
    /// its inode, 64 bits, and then the name of the file in its directory.
    pub name_bytes: Vec<u8>,
    /// The process's stack, the innermost first.
    pub user_stack: Vec<u64>,
}

/// What most of the time went into.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Cause {
    /// It waited for something: a device, another thread.
    Waited,
    /// It could have run and had no CPU.
    Runqueue,
    /// Its cgroup held it back.
    Throttled,
    /// It ran.
    Running,
}

impl Slow {
    /// What took the largest part of it.
    pub fn cause(&self) -> Cause {
        let throttled = self.throttled_ns;
        let queue = self.runqueue_ns.saturating_sub(throttled);
        let waited = self.offcpu_ns.saturating_sub(self.runqueue_ns.max(throttled));
        let ran = self.duration_ns.saturating_sub(self.offcpu_ns);
        let parts = [
            (ran, Cause::Running),
            (queue, Cause::Runqueue),
            (throttled, Cause::Throttled),
            (waited, Cause::Waited),
        ];
        parts.into_iter().max_by_key(|(ns, _)| *ns).map_or(Cause::Running, |(_, cause)| cause)
    }

    /// Reads the slot of claim `number`; `None` while it is being written.
    pub(crate) fn read(memory: &Mapped, number: u64, tick_ns: u64) -> Option<Slow> {
        let base = (at::SLOTS_AT + ((number as u32 & (at::SLOTS - 1)) << at::SLOT_BITS)) as usize;
        let long = |offset: i16| memory.load64(base + offset as usize);
        let word = |offset: i16| memory.load32(base + offset as usize);
        if long(slot::SEQUENCE) != number + 1 {
            return None;
        }
        let text = |offset: i16| text(long(offset), long(offset + 8));
        let addresses = |offset: i16, bytes: u32| {
            let bytes = if bytes > at::STACK_MAX { 0 } else { bytes as i16 };
            (0..bytes).step_by(8).map(|at| long(offset + at)).take_while(|at| *at != 0).collect::<Vec<u64>>()
        };
        let (tid, pid) = (word(slot::LONGEST + 16), word(slot::LONGEST + 20));
        let name = text(slot::LONGEST + 24);
        let waker = Waker { tid, pid, throttled_ns: long(slot::LONGEST + 40), name };
        let wait = Wait {
            ns: long(slot::LONGEST),
            state: word(slot::LONGEST + 8),
            throttled: word(slot::LONGEST + 12) & at::IS_THROTTLED as u32 != 0,
            waker: (!waker.name.is_empty()).then_some(waker),
            stack: addresses(slot::KERNEL, word(slot::KERNEL_BYTES)),
        };
        let rival = Rival { ns: long(slot::RIVAL), tid: word(slot::RIVAL + 8), name: text(slot::RIVAL + 16) };
        Some(Slow {
            time_ns: long(slot::TIME),
            tid: word(slot::TID),
            pid: word(slot::PID),
            name: text(slot::COMM),
            number: word(slot::NUMBER),
            result: long(slot::RESULT) as i64,
            arguments: [0, 1, 2, 3, 4, 5].map(|number| long(slot::ARGUMENTS + 8 * number)),
            duration_ns: long(slot::DURATION),
            // What is known of its beginning is of the same tick.
            uncertain_ns: long(slot::UNCERTAIN).min(tick_ns),
            threshold_ns: long(slot::THRESHOLD),
            whose: match word(slot::WHOSE) {
                0 => Whose::Session,
                1 => Whose::Process,
                _ => Whose::Thread,
            },
            offcpu_ns: long(slot::OFFCPU),
            runqueue_ns: long(slot::RUNQUEUE),
            throttled_ns: long(slot::THROTTLED),
            faults: long(slot::FAULTS),
            switches: word(slot::SWITCHES),
            wait: (word(slot::SWITCHES) > 0).then_some(wait),
            rival: (rival.ns > 0).then_some(rival),
            name_bytes: (0..at::NAME_MAX as i16)
                .step_by(8)
                .flat_map(|at| long(slot::NAME + at).to_ne_bytes())
                .collect(),
            user_stack: addresses(slot::USER, word(slot::USER_BYTES)),
        })
    }
}

/// Sixteen bytes as a text, up to the NUL.
fn text(first: u64, second: u64) -> String {
    let bytes = [first.to_ne_bytes(), second.to_ne_bytes()].concat();
    let end = bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len());
    String::from_utf8_lossy(bytes.get(..end).unwrap_or_default()).into_owned()
}
