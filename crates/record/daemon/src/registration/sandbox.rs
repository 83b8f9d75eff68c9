//! Processes that sandbox themselves in: a seccomp filter that all threads of a process get, the agent's among them
//! (`SECCOMP_FILTER_FLAG_TSYNC`).
//!
//! Such a filter may kill the process for whatever its agent would do if we spoke to it. The agent makes no system call
//! while nobody speaks to it; so before each message that would wake it up we look, from outside, whether its thread is
//! in another filter than it was when the process came. Then we are silent from that on: the process goes on to record
//! by the rules that it has, until it ends.
//!
//! Here is also what an agent that sleeps cannot see by itself: that it is the only one left of its process, and that
//! threads whose events have no clock are not in strict seccomp, so that they may ask the kernel for the time.

use mote_sys::fd::Fd;
use mote_sys::socket::{self, Wait};
use mote_wire::How;
use std::cell::Cell;
use std::fs;
use std::time::{Duration, Instant};

/// What agents' threads call themselves.
const AGENT: &str = "mote-agent";
/// How often each process is looked at, and how many in one round of the loop.
pub(crate) const LOOK_EVERY: Duration = Duration::from_millis(200);
pub(crate) const LOOKS: usize = 64;

/// Mode of seccomp, and number of filters, of a thread.
type State = (u32, u32);

/// What is known of a process's agent.
#[derive(Debug, Default)]
pub(crate) struct Sandbox {
    /// As it was when the process came.
    before: Option<State>,
    /// The agent's thread.
    thread: Cell<Option<i32>>,
    /// It listens: no thread of the program waits for our answer.
    listens: bool,
    locked: Cell<bool>,
    pub(crate) is_reported: bool,
    /// It was told that it may make system calls for the time.
    pub(crate) may_call: bool,
    pub(crate) looked: Option<Instant>,
    /// A socket of the process that keeps what is sent to it.
    keeper: Option<Fd>,
}

impl Sandbox {
    /// A process has come: its first thread makes the agent's, which is in the same filters.
    pub(crate) fn begin(&mut self, pid: i32, how: How) {
        let thread = if how == How::Attach { find_agent(pid) } else { Some(pid) };
        self.before = thread.and_then(|thread| state(pid, thread));
        self.listens = how.is_child() || how == How::Attach;
    }

    /// The process has given us a socket that keeps what is sent to it.
    pub(crate) fn keep_by(&mut self, keeper: Option<Fd>) {
        self.keeper = keeper.filter(|keeper| socket::is_messages(keeper.raw()));
    }

    /// Leaves our end of its link with the process, which has locked itself in: it would wake up when we close it.
    pub(crate) fn leave_behind(&mut self, link: i32) {
        if let Some(keeper) = self.keeper.take() {
            let _ = socket::send(keeper.raw(), &[0], &[link], Wait::No);
        }
    }

    /// The conversation with the program is over.
    pub(crate) fn listens(&mut self) {
        self.listens = true;
    }

    /// Whether a message would kill the process. What cannot be seen is taken for open.
    pub(crate) fn is_locked(&self, pid: i32) -> bool {
        if self.listens && pid > 0 && !self.locked.get() {
            if self.thread.get().is_none() {
                self.thread.set(find_agent(pid));
            }
            let now = self.thread.get().and_then(|thread| state(pid, thread));
            self.locked.set(now.is_some() && self.before.is_some() && now != self.before);
        }
        self.locked.get()
    }

    /// Whether no thread of the process is in another filter than it was when it came, nor in strict seccomp.
    pub(crate) fn is_free(&self, pid: i32) -> bool {
        let Ok(tasks) = fs::read_dir(format!("/proc/{pid}/task")) else { return false };
        let ids = tasks.flatten().filter_map(|task| task.file_name().to_str()?.parse().ok());
        // One that has ended meanwhile makes no calls.
        self.before.is_some() && ids.filter_map(|tid| state(pid, tid)).all(|now| Some(now) == self.before)
    }
}

/// What `/proc` says of a thread.
fn state(pid: i32, tid: i32) -> Option<State> {
    let status = fs::read_to_string(format!("/proc/{pid}/task/{tid}/status")).ok()?;
    let value = |name: &str| status.lines().find_map(|line| line.strip_prefix(name))?.trim().parse().ok();
    // The number of filters is there since Linux 5.9.
    Some((value("Seccomp:")?, value("Seccomp_filters:").unwrap_or(0)))
}

fn find_agent(pid: i32) -> Option<i32> {
    let tasks = fs::read_dir(format!("/proc/{pid}/task")).ok()?;
    let is_agent = |task: &fs::DirEntry| {
        fs::read_to_string(task.path().join("comm")).is_ok_and(|comm| comm.trim_end() == AGENT)
    };
    tasks.flatten().find(is_agent).and_then(|task| task.file_name().to_str()?.parse().ok())
}

/// Threads of a process whose main thread has ended, which counts as one; `None` for others, and those that cannot be
/// seen.
pub(crate) fn threads_without_main(pid: i32) -> Option<u32> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The state is the first field behind the name, the number of threads the 18th (proc_pid_stat(5)).
    let mut fields = stat.rsplit_once(')')?.1.split_ascii_whitespace();
    fields.next().filter(|state| *state == "Z").and_then(|_| fields.nth(16)?.parse().ok())
}
