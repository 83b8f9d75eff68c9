//! Slow system calls in a recording (`latency:syscall_slow`): what took so long, in words.

use mote_ctf::Value;
use mote_timeline::Record;
use mote_words::counted;
use serde::Serialize;

/// Name of the event in the kernel's trace.
pub const SLOW: &str = "syscall_slow";

/// A system call that took longer than it may. The names of the fields are those of the JSON and do not change.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct SlowCall {
    /// When it returned, nanoseconds since 1970-01-01 UTC.
    pub time_ns: i64,
    /// Thread id, in the recorder's PID namespace.
    pub tid: u32,
    /// Process id, in the recorder's PID namespace.
    pub pid: u32,
    /// Name of the thread, at most 15 bytes.
    pub comm: String,
    /// Name of the system call, for instance `openat`.
    pub syscall: String,
    /// What it was about: the file or the socket behind its descriptor, its path, its lock; empty when not known.
    pub file: String,
    /// What it returned; an error below 0.
    pub ret: i64,
    /// How long it took at most.
    pub duration_ns: u64,
    /// It may have been shorter by as much.
    pub uncertain_ns: u64,
    /// The threshold that it reached.
    pub threshold_ns: u64,
    /// To whom the threshold belongs: `session`, `process` or `thread`.
    pub threshold_of: String,
    /// What took most of it: `waited`, `runqueue`, `throttled`, `running`.
    pub cause: String,
    /// Nanoseconds off the CPU, from its entry to its return.
    pub offcpu_ns: u64,
    /// Of that, runnable without a CPU.
    pub runqueue_ns: u64,
    /// Of that, held back by its cgroup.
    pub throttled_ns: u64,
    /// Page faults of the thread meanwhile.
    pub faults: u64,
    /// How often it was taken off its CPU.
    pub switches: u32,
    /// Nanoseconds of the longest wait.
    pub wait_ns: u64,
    /// Its state, a letter as of ps(1); empty when it did not wait.
    pub wait_state: String,
    /// The thread that woke it; 0 when none is known. As a signed number it is negative for one that the recorder's pid
    /// namespace does not have.
    pub waker_tid: u32,
    /// Name of the thread that woke it; empty when none is known.
    pub waker_comm: String,
    /// For how long the waker's cgroup had held it back meanwhile.
    pub waker_throttled_ns: u64,
    /// The thread that ran on the CPU that it got after its longest wait for one, as `waker_tid`; 0 for the idle task.
    pub rival_tid: u32,
    /// Its name; empty when it did not wait for a CPU.
    pub rival_comm: String,
    /// How long that wait was.
    pub rival_wait_ns: u64,
}

impl SlowCall {
    /// The slow call that an event is; `None` for other events.
    pub fn of(record: &Record<'_>) -> Option<SlowCall> {
        if record.name() != SLOW {
            return None;
        }
        let payload = record.event()?.payload();
        let number = |name: &str| payload.integer(name).unwrap_or(0);
        let text = |name: &str| match payload.value(name) {
            Some(Value::Str(bytes)) => String::from_utf8_lossy(bytes).into_owned(),
            _ => String::new(),
        };
        Some(SlowCall {
            time_ns: record.time(),
            tid: record.tid().unwrap_or(0),
            pid: number("pid") as u32,
            comm: text("comm"),
            syscall: text("syscall"),
            file: text("file"),
            ret: number("ret") as i64,
            duration_ns: number("duration") as u64,
            uncertain_ns: number("uncertain") as u64,
            threshold_ns: number("threshold") as u64,
            threshold_of: text("threshold_of"),
            cause: text("cause"),
            offcpu_ns: number("offcpu") as u64,
            runqueue_ns: number("runqueue") as u64,
            throttled_ns: number("throttled") as u64,
            faults: number("faults") as u64,
            switches: number("switches") as u32,
            wait_ns: number("wait") as u64,
            wait_state: text("wait_state"),
            waker_tid: number("waker_tid") as u32,
            waker_comm: text("waker_comm"),
            waker_throttled_ns: number("waker_throttled") as u64,
            rival_tid: number("rival_tid") as u32,
            rival_comm: text("rival_comm"),
            rival_wait_ns: number("rival_wait") as u64,
        })
    }

    /// What took so long, in words. `functions` are those of the kernel's stack of the longest wait, the innermost
    /// first.
    pub fn words(&self, functions: &[&str]) -> String {
        let worth = |ns: u64| ns > self.duration_ns / 10;
        let mut words = match self.cause.as_str() {
            "throttled" => format!("held back {} by its cgroup's CPU bandwidth", time(self.throttled_ns)),
            "runqueue" => {
                format!("was ready to run, but waited {} for a CPU{}", time(self.queued()), self.rival())
            }
            "waited" => self.waited(functions),
            _ if self.offcpu_ns == 0 => "ran on the CPU all the time".to_owned(),
            _ => format!("ran on the CPU, except for {}", time(self.offcpu_ns)),
        };
        if self.cause != "waited" && worth(self.waited_ns()) {
            words.push_str(&format!("; {}", self.waited(functions)));
        }
        if self.cause != "runqueue" && worth(self.queued()) {
            words.push_str(&format!("; waited {} for a CPU{}", time(self.queued()), self.rival()));
        }
        if self.cause != "throttled" && worth(self.throttled_ns) {
            words.push_str(&format!("; held back by its cgroup {}", time(self.throttled_ns)));
        }
        // What it ran of a time that is not certain is not known.
        let ran = self.duration_ns.saturating_sub(self.uncertain_ns).saturating_sub(self.offcpu_ns);
        if self.cause != "running" && worth(ran) {
            words.push_str(&format!("; ran {}", time(ran)));
        }
        if self.faults > 0 && (self.cause == "running" || worth(self.faults.saturating_mul(FAULT_NS))) {
            words.push_str(&format!("; {}", counted(self.faults, "page fault", "page faults")));
        }
        words
    }

    /// Without a CPU for want of one.
    fn queued(&self) -> u64 {
        self.runqueue_ns.saturating_sub(self.throttled_ns)
    }

    /// Off the CPU for something else.
    fn waited_ns(&self) -> u64 {
        self.offcpu_ns.saturating_sub(self.runqueue_ns.max(self.throttled_ns))
    }

    /// The thread that had the CPU.
    fn rival(&self) -> String {
        match (self.rival_tid, self.rival_comm.as_str()) {
            (_, "") | (0, _) => String::new(),
            (tid, name) => format!(", on which {name} ({}) ran", tid.cast_signed()),
        }
    }

    fn waited(&self, functions: &[&str]) -> String {
        let mut words = format!("waited {} off CPU in state {}", time(self.waited_ns()), self.wait_state);
        if let Some(what) = what(functions) {
            words.push_str(&format!(", {what}"));
        }
        if let Some(place) = place(functions) {
            words.push_str(&format!(" in {place}"));
        }
        if self.switches > 1 && self.wait_ns < self.offcpu_ns / 10 * 9 {
            words.push_str(&format!(" ({} times, {} at most)", self.switches, time(self.wait_ns)));
        }
        // What devices and timers end is ended in an interrupt, whoever was interrupted.
        let by_interrupt = matches!(what(functions), Some(BLOCK | SLEEP));
        if self.waker_tid == 0 {
            words.push_str(if self.waker_comm.is_empty() { "" } else { "; woken by an interrupt" });
        } else if !by_interrupt || self.waker_throttled_ns > 0 {
            words.push_str(&format!("; woken by {} ({})", self.waker_comm, self.waker_tid.cast_signed()));
        }
        if self.waker_tid != 0 && self.waker_throttled_ns > 0 {
            words
                .push_str(&format!(", which its cgroup had held back for {}", time(self.waker_throttled_ns)));
        }
        words
    }

    /// What it returned, with the name of an error: `-2 (ENOENT)`.
    pub fn result(&self) -> String {
        let number = self.ret.checked_neg().and_then(|number| u16::try_from(number).ok());
        let name = number.and_then(mote_layout::errors::name);
        name.map_or_else(|| self.ret.to_string(), |name| format!("{} ({name})", self.ret))
    }
}

/// A page fault that reads nothing costs about as much; fewer than make a tenth of a call are not worth a word.
const FAULT_NS: u64 = 1_000;
const BLOCK: &str = "block I/O";
const SLEEP: &str = "as long as it asked for";

/// What functions of the kernel wait for: the first line that fits counts.
const WHAT: &[(&[&str], &str)] = &[
    (
        &["blk_throtl", "throtl_", "rq_qos_wait", "wbt_wait", "blkcg_maybe_throttle"],
        "block I/O held back by a limit",
    ),
    (&["balance_dirty_pages"], "writers are held back until dirty pages are on the device"),
    (
        &["shrink_", "try_to_free_pages", "mem_cgroup_handle_over_high", "do_try_to_free"],
        "memory is reclaimed",
    ),
    (
        &[
            "jbd2_",
            "io_schedule",
            "blk_mq_",
            "submit_bio",
            "folio_wait",
            "wait_on_page",
            "__wait_on_buffer",
            "bit_wait_io",
        ],
        BLOCK,
    ),
    (&["pipe_read", "anon_pipe_read"], "for a writer of a pipe"),
    (&["pipe_write", "anon_pipe_write"], "for a reader of a pipe"),
    (&["futex_"], "for a futex"),
    (&["ep_poll", "do_epoll_wait", "do_poll", "do_sys_poll", "do_select"], "for descriptors"),
    (&["unix_stream", "unix_dgram", "sk_wait_data", "tcp_", "inet_", "__skb_wait"], "for a socket"),
    (&["n_tty_read", "tty_"], "for a terminal"),
    (&["hrtimer_nanosleep", "do_nanosleep"], SLEEP),
    (&["do_wait", "kernel_wait4", "kernel_waitid"], "for a child"),
    (&["flock_", "posix_lock", "fcntl_setlk"], "for a lock of a file"),
    (&["rwsem_", "down_read", "down_write", "mutex_lock", "__mutex", "rt_mutex"], "for a lock of the kernel"),
];

fn what(functions: &[&str]) -> Option<&'static str> {
    let has =
        |starts: &[&str]| functions.iter().any(|name| starts.iter().any(|start| name.starts_with(start)));
    WHAT.iter().find(|(starts, _)| has(starts)).map(|(_, what)| *what)
}

/// The function that tells most: one of a file system or a protocol, else the first that is not the scheduler's.
fn place<'f>(functions: &[&'f str]) -> Option<&'f str> {
    const PARTS: &[&str] = &[
        "ext4_",
        "xfs_",
        "btrfs_",
        "f2fs_",
        "nfs",
        "fuse_",
        "overlay",
        "ovl_",
        "tcp_",
        "unix_",
        "pipe_",
        "anon_pipe_",
    ];
    const SCHEDULER: &[&str] = &[
        "__schedule",
        "schedule",
        "io_schedule",
        "preempt_schedule",
        "bit_wait",
        "__wait_on_bit",
        "out_of_line_wait",
    ];
    let starts = |name: &str, with: &[&str]| with.iter().any(|start| name.starts_with(start));
    let telling = functions.iter().rfind(|name| starts(name, PARTS));
    telling.or_else(|| functions.iter().find(|name| !starts(name, SCHEDULER))).copied()
}

/// Nanoseconds with a unit, three digits.
pub fn time(ns: u64) -> String {
    let (value, unit) = match ns {
        0..1_000 => return format!("{ns} ns"),
        1_000..1_000_000 => (ns as f64 / 1e3, "us"),
        1_000_000..1_000_000_000 => (ns as f64 / 1e6, "ms"),
        _ => (ns as f64 / 1e9, "s"),
    };
    let digits = if value < 9.995 {
        2
    } else if value < 99.95 {
        1
    } else {
        0
    };
    format!("{value:.digits$} {unit}")
}

/// The worst calls of a recording, of each system call at most a few.
#[derive(Clone, Debug)]
pub struct Worst<T> {
    most: usize,
    of_each: usize,
    calls: Vec<(SlowCall, T)>,
}

impl<T> Worst<T> {
    /// At most so many, and so many of one system call.
    pub fn new(most: usize, of_each: usize) -> Worst<T> {
        Worst { most, of_each, calls: Vec::new() }
    }

    /// Takes a call, if it is one of the worst so far; `more` is asked only then.
    pub fn add(&mut self, call: SlowCall, more: impl FnOnce() -> T) {
        let place = self.calls.partition_point(|(other, _)| other.duration_ns >= call.duration_ns);
        let before = self.calls.iter().take(place).filter(|(other, _)| other.syscall == call.syscall).count();
        if place >= self.most || before >= self.of_each {
            return;
        }
        let (name, each) = (call.syscall.clone(), self.of_each);
        self.calls.insert(place, (call, more()));
        let of_it = self.calls.iter().enumerate().filter(|(_, (other, _))| other.syscall == name);
        if let Some((over, _)) = of_it.map(|(at, _)| (at, ())).nth(each) {
            self.calls.remove(over);
        }
        self.calls.truncate(self.most);
    }

    /// The calls that were slowest, the worst one first.
    pub fn calls(&self) -> &[(SlowCall, T)] {
        &self.calls
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(syscall: &str, duration_ns: u64) -> SlowCall {
        SlowCall { syscall: syscall.to_owned(), duration_ns, ..SlowCall::default() }
    }

    #[test]
    fn causes_are_told_in_words() {
        let ms = 1_000_000;
        let waits = SlowCall {
            cause: "waited".into(),
            offcpu_ns: 212 * ms,
            wait_state: "D".into(),
            waker_tid: 7,
            waker_comm: "kworker".into(),
            ..call("fsync", 213 * ms)
        };
        let stack =
            ["__schedule", "io_schedule", "folio_wait_bit", "ext4_sync_file", "do_fsync", "do_syscall_64"];
        let words = "waited 212 ms off CPU in state D, block I/O in ext4_sync_file";
        assert_eq!(waits.words(&stack), words);
        let held = SlowCall { waker_throttled_ns: 80 * ms, ..waits.clone() };
        assert!(held.words(&[]).ends_with("(7), which its cgroup had held back for 80.0 ms"));
        let queued = SlowCall {
            cause: "runqueue".into(),
            runqueue_ns: 30 * ms,
            offcpu_ns: 30 * ms,
            ..call("write", 31 * ms)
        };
        assert_eq!(queued.words(&[]), "was ready to run, but waited 30.0 ms for a CPU");
        let mixed = SlowCall {
            offcpu_ns: 40 * ms,
            runqueue_ns: 22 * ms,
            wait_ns: 20 * ms,
            wait_state: "D".into(),
            switches: 3,
            rival_tid: 9,
            rival_comm: "cc1".into(),
            faults: 2,
            ..SlowCall { duration_ns: 50 * ms, ..queued.clone() }
        };
        let words = "was ready to run, but waited 22.0 ms for a CPU, on which cc1 (9) ran; waited 18.0 ms off CPU in \
            state D, block I/O in ext4_sync_file (3 times, 20.0 ms at most); ran 10.0 ms";
        assert_eq!(mixed.words(&stack), words);
        assert_eq!(
            (SlowCall { ret: -2, ..mixed.clone() }.result(), mixed.result()),
            ("-2 (ENOENT)".into(), "0".into())
        );
        let ran = SlowCall { cause: "running".into(), ..call("munmap", 31 * ms) };
        assert_eq!(ran.words(&[]), "ran on the CPU all the time");
    }

    #[test]
    fn the_worst_are_kept_and_not_only_of_one_call() {
        let mut worst = Worst::new(4, 2);
        for (name, ns) in
            [("read", 5), ("read", 9), ("read", 7), ("write", 1), ("fsync", 6), ("read", 2), ("open", 3)]
        {
            worst.add(call(name, ns), || ());
        }
        let kept: Vec<(&str, u64)> =
            worst.calls().iter().map(|(call, ())| (&call.syscall[..], call.duration_ns)).collect();
        assert_eq!(kept, [("read", 9), ("read", 7), ("fsync", 6), ("open", 3)]);
    }

    #[test]
    fn times_have_three_digits() {
        let times = [5, 999, 1_500, 12_345, 212_000_000, 9_999_000_000].map(time);
        assert_eq!(times, ["5 ns", "999 ns", "1.50 us", "12.3 us", "212 ms", "10.0 s"]);
    }
}
