//! Has a process that is in no recording join ours: stops one of its threads, sends it through the function that mote has put into the program
//! for this, and puts it back to where it was (ptrace(2)).
//!
//! The thread is one that sleeps in a system call in which programs wait: it holds no lock of the C library there. The call is begun again
//! after that, as after a stop. It takes as long as the conversation with our own event loop, so this runs on a thread of ours.

use mote_symbol::collect;
use nix::errno::Errno;
use nix::sys::ptrace;
use nix::sys::signal::Signal;
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::Pid;
use object::{Object, ObjectSection, ObjectSegment};
use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::time::{Duration, Instant};

/// Section that says where the function is.
const SECTION: &str = "mote_join";
/// The function ends with a breakpoint within so many bytes.
const FUNCTION_BYTES: u64 = 512;
/// How long a thread that waits is looked for.
const PATIENCE: Duration = Duration::from_secs(5);
/// How long a thread may take to stop: one that waits for a disk does not.
const STOPPING: Duration = Duration::from_secs(5);
/// How often it is looked whether it has.
const LOOK: Duration = Duration::from_micros(200);
/// What compilers may use below the stack pointer.
const RED_ZONE: u64 = 128;

/// System calls in which programs wait: read, poll, select, pause, nanosleep, recvfrom, recvmsg, accept, wait4, futex, clock_nanosleep, epoll_wait, waitid, pselect6, ppoll,
/// epoll_pwait, accept4, recvmmsg, rt_sigsuspend, rt_sigtimedwait.
const WAITS: [i64; 20] = [
    libc::SYS_read,
    libc::SYS_poll,
    libc::SYS_select,
    libc::SYS_pause,
    libc::SYS_nanosleep,
    libc::SYS_recvfrom,
    libc::SYS_recvmsg,
    libc::SYS_accept,
    libc::SYS_wait4,
    libc::SYS_futex,
    libc::SYS_clock_nanosleep,
    libc::SYS_epoll_wait,
    libc::SYS_waitid,
    libc::SYS_pselect6,
    libc::SYS_ppoll,
    libc::SYS_epoll_pwait,
    libc::SYS_accept4,
    libc::SYS_recvmmsg,
    libc::SYS_rt_sigsuspend,
    libc::SYS_rt_sigtimedwait,
];

/// Addresses of the functions, one for each object that has a copy of mote.
pub(crate) fn entries(pid: i32) -> Vec<u64> {
    let Ok(memory) = File::open(format!("/proc/{pid}/mem")) else { return Vec::new() };
    let maps = collect::maps(pid.unsigned_abs());
    let entry = |map: &mote_journal::Map| {
        let bytes = fs::read(format!("/proc/{pid}/map_files/{:x}-{:x}", map.start, map.end))
            .or_else(|_| fs::read(&map.path))
            .ok()?;
        let elf = object::File::parse(&*bytes).ok()?;
        let section = elf.section_by_name(SECTION)?.address();
        let loaded = elf.segments().find(|segment| {
            let (offset, size) = segment.file_range();
            // Two segments may have parts of the same page.
            let is_code =
                matches!(segment.flags(), object::SegmentFlags::Elf { p_flags, .. } if p_flags.0 & object::elf::PF_X.0 != 0);
            is_code && (offset & !0xfff..offset + size).contains(&map.offset)
        })?;
        let place = map.start.wrapping_sub(map.offset).wrapping_add(loaded.file_range().0);
        let at = place.wrapping_sub(loaded.address()).wrapping_add(section);
        let mut distance = [0; 4];
        memory.read_exact_at(&mut distance, at).ok()?;
        Some(at.wrapping_add(i64::from(i32::from_le_bytes(distance)) as u64))
    };
    let mut all: Vec<u64> = maps.iter().filter_map(entry).collect();
    all.sort_unstable();
    all.dedup();
    all
}

/// Why a process is not to be sent anywhere, if so.
pub(crate) fn objection(pid: i32) -> Option<&'static str> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let field = |name: &str| status.lines().find_map(|line| Some(line.strip_prefix(name)?.trim()));
    if field("Seccomp:").is_some_and(|mode| mode != "0") {
        return Some("it has locked itself in (seccomp), and could be killed for joining");
    }
    field("TracerPid:").filter(|tracer| *tracer != "0").map(|_| "a debugger is attached to it")
}

/// Sends a thread of the process through each of the functions.
///
/// # Errors
/// What went wrong, for a person; the process is as it was.
pub(crate) fn join(pid: i32, entries: &[u64], place: &str) -> Result<(), String> {
    let said = |what: &'static str| move |why: Errno| format!("{what}: {}{}", why.desc(), hint(why));
    let until = Instant::now() + PATIENCE;
    loop {
        for tid in threads(pid) {
            let thread = Pid::from_raw(tid);
            if !waits(pid, tid) {
                continue;
            }
            ptrace::seize(thread, ptrace::Options::empty()).map_err(said("it cannot be stopped"))?;
            let done = Stopped::stop(thread).and_then(|mut stopped| stopped.join(pid, entries, place));
            match done {
                Ok(Some(answers)) => return answered(&answers),
                // It has gone on meanwhile.
                Ok(None) | Err(Errno::ESRCH) => {}
                Err(why) => return Err(said("it cannot be sent to where it joins")(why)),
            }
        }
        if Instant::now() > until {
            return Err("none of its threads ever waits in a system call".to_owned());
        }
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Threads of the process, its first one in front: that one has the largest stack.
fn threads(pid: i32) -> Vec<i32> {
    let entries = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    let mut all: Vec<i32> = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect();
    all.sort_unstable_by_key(|tid| (*tid != pid, *tid));
    all
}

/// Whether the thread waits in one of the calls.
fn waits(pid: i32, tid: i32) -> bool {
    let text = fs::read_to_string(format!("/proc/{pid}/task/{tid}/syscall")).unwrap_or_default();
    text.split(' ')
        .next()
        .and_then(|number| number.parse().ok())
        .is_some_and(|number| WAITS.contains(&number))
}

fn answered(answers: &[i64]) -> Result<(), String> {
    match answers.iter().find(|answer| **answer < 0) {
        // One copy of mote that has joined is what was asked for.
        Some(_) if answers.contains(&0) => Ok(()),
        Some(error) if *error == -i64::from(libc::EBUSY) => Err(
            "another recording has it, which is not found from here: run this one with its XDG_RUNTIME_DIR"
                .to_owned(),
        ),
        Some(error) => Err(format!("it did not join: {}", mote_sys::Errno(-*error as i32))),
        None => Ok(()),
    }
}

fn hint(why: Errno) -> &'static str {
    match why {
        Errno::ETIMEDOUT => "; its thread does not stop: it may wait for a disk (`ps -o stat,wchan`)",
        Errno::EPERM => "; recording somebody else's process needs root, or kernel.yama.ptrace_scope=0",
        _ => "",
    }
}

/// A thread that we have stopped; it goes on, where it was, when this is dropped.
struct Stopped {
    thread: Pid,
    registers: libc::user_regs_struct,
}

impl Stopped {
    fn stop(thread: Pid) -> Result<Stopped, Errno> {
        let stopped = ptrace::interrupt(thread)
            .and_then(|()| wait_until(thread, Instant::now() + STOPPING))
            .and_then(|_| ptrace::getregs(thread));
        match stopped {
            Ok(registers) => Ok(Stopped { thread, registers }),
            Err(why) => {
                // Of one that has not stopped the kernel lets go when our own thread ends, which is next.
                let _ = ptrace::detach(thread, None);
                Err(why)
            }
        }
    }

    /// Sends it through the functions; `None` when it does not wait any more.
    fn join(&mut self, pid: i32, entries: &[u64], place: &str) -> Result<Option<Vec<i64>>, Errno> {
        let before = self.registers;
        // It was in the middle of a call, which is to be begun again.
        let waits = WAITS.contains(&(before.orig_rax as i64)) && (-516..=-512).contains(&(before.rax as i64));
        if !waits {
            return Ok(None);
        }
        let text = [place.as_bytes(), &[0]].concat();
        let at = (before.rsp - RED_ZONE - text.len() as u64) & !15;
        let memory = fs::OpenOptions::new().write(true).open(format!("/proc/{pid}/mem"));
        memory.and_then(|memory| memory.write_all_at(&text, at)).map_err(|_| Errno::EFAULT)?;
        let mut answers = Vec::new();
        for entry in entries {
            let registers =
                libc::user_regs_struct { rip: *entry, rsp: at, rdi: at, orig_rax: u64::MAX, ..before };
            ptrace::setregs(self.thread, registers)?;
            answers.push(self.run(*entry)?);
        }
        Ok(Some(answers))
    }

    /// Lets it run until the breakpoint at the function's end. There is no giving up before: behind the breakpoint is nothing, and only we can put the thread back
    /// to where it was. What it does there has bounds of its own: each step waits two seconds for the session at most (`mote_agent`).
    fn run(&self, entry: u64) -> Result<i64, Errno> {
        let mut signal = None;
        loop {
            ptrace::cont(self.thread, signal.take())?;
            match wait(self.thread)? {
                WaitStatus::Stopped(_, stopped) => {
                    let now = ptrace::getregs(self.thread)?;
                    let inside = (entry..entry + FUNCTION_BYTES).contains(&now.rip);
                    match stopped {
                        Signal::SIGTRAP if inside => return Ok(now.rax as i64),
                        // It has no XSAVE.
                        Signal::SIGILL if inside => return Err(Errno::ENOSYS),
                        // Its own affair.
                        other => signal = Some(other),
                    }
                }
                WaitStatus::Exited(..) | WaitStatus::Signaled(..) => return Err(Errno::ESRCH),
                _ => {}
            }
        }
    }
}

impl Drop for Stopped {
    fn drop(&mut self) {
        let _ = ptrace::setregs(self.thread, self.registers);
        let _ = ptrace::detach(self.thread, None);
    }
}

/// As [`wait`], but not for ever: `ETIMEDOUT`.
fn wait_until(thread: Pid, until: Instant) -> Result<WaitStatus, Errno> {
    loop {
        match waitpid(thread, Some(WaitPidFlag::__WALL | WaitPidFlag::WNOHANG)) {
            Ok(WaitStatus::StillAlive) if Instant::now() > until => return Err(Errno::ETIMEDOUT),
            Ok(WaitStatus::StillAlive) => std::thread::sleep(LOOK),
            Err(Errno::EINTR) => {}
            waited => return waited,
        }
    }
}

fn wait(thread: Pid) -> Result<WaitStatus, Errno> {
    loop {
        match waitpid(thread, Some(WaitPidFlag::__WALL)) {
            Err(Errno::EINTR) => {}
            waited => return waited,
        }
    }
}
