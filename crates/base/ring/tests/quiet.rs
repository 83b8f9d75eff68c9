//! A record disturbs nothing: no allocation, no system call, `errno` as it was. By every path through both writers.

#[path = "support/child.rs"]
#[allow(dead_code, missing_docs, unreachable_pub)]
mod child;
mod common;

use common::{Kind, Lab, kinds, small};
use mote_loss::Cause;
use mote_ring::atomic_writer::AtomicWriter;
use mote_ring::rseq_writer::RseqWriter;
use mote_ring::writer::{Payload, Write};
use mote_ring::{Clock, Fragment, Geometry, Mode, Outcome, Record};
use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

struct Counting;

static ALLOCATIONS: AtomicU64 = AtomicU64::new(0);

// SAFETY: hands everything on to the system's allocator.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.fetch_add(1, Relaxed);
        // SAFETY: the caller's promise.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: the caller's promise.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// What came of some records: written, lost as ring full, too big, busy, torn, and not served.
type Count = [u64; 6];

/// Writes small records, large ones, and ones that are too big, over many sub-buffers.
fn write_all(lab: &Lab) -> Count {
    static BYTES: [u64; 9000] = [7; 9000];
    let from = BYTES.as_ptr().cast::<u8>();
    let mut count = Count::default();
    for number in 0..2000u32 {
        let len = number as usize * 37 % 4000;
        let half = Fragment { from, len: len / 2 };
        let (list, huge) = ([half, half], [Fragment { from, len: 70_000 }]);
        let payload = match number % 50 {
            0..30 => Payload::Words { from, len },
            30..49 => Payload::Fragments { list: &list, len: len / 2 * 2 },
            _ => Payload::Fragments { list: &huge, len: 70_000 },
        };
        let record = Record { tag: 1, thread: 1, payload };
        let outcome = match lab.kind {
            // SAFETY: the payload is of `BYTES`.
            Kind::Rseq => unsafe { RseqWriter.write(&lab.writer, record) },
            // SAFETY: the payload is of `BYTES`.
            Kind::Atomic => unsafe { AtomicWriter.write(&lab.writer, record) },
        };
        count[match outcome {
            Outcome::Written => 0,
            Outcome::Lost(cause) => 1 + cause as usize,
            Outcome::NotHere => 5,
        }] += 1;
    }
    count
}

/// Every path: written, full, too big, not here, and with a sub-buffer that is never finished, busy.
fn labs() -> Vec<(Lab, [bool; 6])> {
    let mut labs = Vec::new();
    for kind in kinds() {
        for clock in [Clock::Tsc, Clock::Monotonic] {
            let discard = Geometry { clock, ..small(Mode::Discard) };
            let overwrite = Geometry { clock, ..small(Mode::Overwrite) };
            labs.push((Lab::new(kind, discard), [true, true, true, false, false, false]));
            labs.push((Lab::new(kind, overwrite), [true, false, true, false, false, false]));
            if kind == Kind::Atomic {
                let torn = Lab::new(kind, overwrite);
                torn.scribble(0, 100);
                labs.push((torn, [true, false, true, true, false, false]));
            } else {
                let nowhere = Lab::new(kind, Geometry { cpus: 0, ..discard });
                labs.push((nowhere, [false, false, true, false, false, true]));
            }
        }
    }
    labs
}

#[test]
fn no_record_allocates_or_touches_errno() {
    child::passes(|| {
        assert_eq!(Cause::Busy as usize, 2);
        for (lab, expect) in labs() {
            // SAFETY: the address of the thread's own `errno`.
            let errno = unsafe { libc::__errno_location() };
            // SAFETY: as above.
            unsafe { errno.write(0x5a5a) };
            let before = ALLOCATIONS.load(Relaxed);
            let count = write_all(&lab);
            let after = ALLOCATIONS.load(Relaxed);
            // SAFETY: as above.
            let errno = unsafe { errno.read() };
            assert_eq!(after - before, 0, "allocations, {count:?}");
            assert_eq!(errno, 0x5a5a, "errno, {count:?}");
            assert_eq!(
                count.map(|some| some > 0),
                expect,
                "{:?} {:?} {count:?}",
                lab.kind,
                lab.channel.geometry()
            );
        }
    });
}

/// Kills this process at its next system call, if it is not exit(2). (The strict mode of seccomp will not do: it
/// forbids RDTSC.)
fn forbid_system_calls() -> bool {
    let step = |code: u32, jt, jf, k| libc::sock_filter { code: code as u16, jt, jf, k };
    let mut steps = [
        step(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0, 0, 0),
        step(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, 0, 1, libc::SYS_exit as u32),
        step(libc::BPF_RET | libc::BPF_K, 0, 0, libc::SECCOMP_RET_ALLOW),
        step(libc::BPF_RET | libc::BPF_K, 0, 0, libc::SECCOMP_RET_KILL_PROCESS),
    ];
    let program = libc::sock_fprog { len: steps.len() as u16, filter: steps.as_mut_ptr() };
    // SAFETY: no memory involved.
    let no_more = unsafe { libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) };
    // SAFETY: `program` and its steps outlive the call.
    let set = unsafe { libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &raw const program) };
    no_more == 0 && set == 0
}

/// With all system calls forbidden by seccomp, records are written as before.
#[test]
fn no_record_makes_a_system_call() {
    let pid = child::start(|| {
        let labs = labs();
        let mut written = 0;
        let forbidden = forbid_system_calls();
        if forbidden {
            labs.iter().for_each(|(lab, _)| written += write_all(lab)[0]);
        }
        let status = if forbidden { i32::from(written == 0) } else { 77 };
        // SAFETY: ends the process.
        unsafe { libc::syscall(libc::SYS_exit, status) };
    });
    match child::wait(pid) {
        77 => mote_skip::skip("seccomp's filters are not to be had"),
        end => assert_eq!(end, 0, "status, or 1000 and the signal (1031: there was a system call)"),
    }
}
