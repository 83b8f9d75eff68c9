//! Slow calls, as the recorder reads them from the slots that programs fill (`programs::record`).

use crate::places::{self as at, Slot};
use mote_builder::{Field, field};
use mote_layout::stack::COPY;
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
    /// The thread that woke it.
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
    /// What has set that threshold.
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
    /// The thread that had the CPU before it, of its longest wait for one.
    pub rival: Option<Rival>,
    /// What the path says that is one of its arguments, or the address of a socket (`struct sockaddr`); up to a NUL. Of
    /// a descriptor the number of its inode, 64 bits, and then the name of the file in its directory.
    pub name_bytes: Vec<u8>,
    /// The process's stack: a copy (`mote_layout::stack`), or addresses, the innermost first.
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
        let long = |at: Field<Slot, u64>| memory.load64(base + at.offset());
        let word = |at: Field<Slot, u32>| memory.load32(base + at.offset());
        if long(field!(Slot, sequence)) != number + 1 {
            return None;
        }
        let text = |at: Field<Slot, [u64; 2]>| text(at.elements().map(long));
        let addresses = |at: Field<Slot, [u64; at::STACK_MAX as usize / 8]>, bytes: u32| {
            let count = if bytes > at::STACK_MAX { 0 } else { bytes.div_ceil(8) as usize };
            at.elements().take(count).map(long).take_while(|at| *at != 0).collect::<Vec<u64>>()
        };
        let bytes = word(field!(Slot, user_bytes)) as usize;
        let count = if bytes > 8 * at::USER_WORDS { 0 } else { bytes / 8 };
        let mut user_stack: Vec<u64> = field!(Slot, user).elements().take(count).map(long).collect();
        if user_stack.first() != Some(&COPY) {
            user_stack.truncate(user_stack.iter().position(|at| *at == 0).unwrap_or(count));
        }
        let waker = Waker {
            tid: word(field!(Slot, longest.waker.tid)),
            pid: word(field!(Slot, longest.waker.pid)),
            throttled_ns: long(field!(Slot, longest.waker.throttled)),
            name: text(field!(Slot, longest.waker.name)),
        };
        let wait = Wait {
            ns: long(field!(Slot, longest.ns)),
            state: word(field!(Slot, longest.state)),
            throttled: word(field!(Slot, longest.flags)) & at::IS_THROTTLED != 0,
            waker: (!waker.name.is_empty()).then_some(waker),
            stack: addresses(field!(Slot, kernel), word(field!(Slot, kernel_bytes))),
        };
        let rival = Rival {
            ns: long(field!(Slot, rival.ns)),
            tid: word(field!(Slot, rival.tid)),
            name: text(field!(Slot, rival.name)),
        };
        let mut arguments = [0; 6];
        for (to, from) in arguments.iter_mut().zip(field!(Slot, arguments).elements()) {
            *to = long(from);
        }
        Some(Slow {
            time_ns: long(field!(Slot, time)),
            tid: word(field!(Slot, tid)),
            pid: word(field!(Slot, pid)),
            name: text(field!(Slot, comm)),
            number: word(field!(Slot, number)),
            result: long(field!(Slot, result)) as i64,
            arguments,
            duration_ns: long(field!(Slot, duration)),
            // What is known of its beginning is of the same tick.
            uncertain_ns: long(field!(Slot, uncertain)).min(tick_ns),
            threshold_ns: long(field!(Slot, threshold)),
            whose: match word(field!(Slot, whose)) {
                0 => Whose::Session,
                1 => Whose::Process,
                _ => Whose::Thread,
            },
            offcpu_ns: long(field!(Slot, sums.offcpu)),
            runqueue_ns: long(field!(Slot, sums.runqueue)),
            throttled_ns: long(field!(Slot, sums.throttled)),
            faults: long(field!(Slot, faults)),
            switches: word(field!(Slot, switches)),
            wait: (word(field!(Slot, switches)) > 0).then_some(wait),
            rival: (rival.ns > 0).then_some(rival),
            name_bytes: field!(Slot, name).elements().flat_map(|at| long(at).to_ne_bytes()).collect(),
            user_stack,
        })
    }
}

/// Sixteen bytes as a text, up to the NUL.
fn text(words: impl Iterator<Item = u64>) -> String {
    let bytes: Vec<u8> = words.flat_map(u64::to_ne_bytes).collect();
    let end = bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len());
    String::from_utf8_lossy(bytes.get(..end).unwrap_or_default()).into_owned()
}
