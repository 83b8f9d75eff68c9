//! Helpers that say which thread this is, where it runs, and what time it is. None of them can fault.

use core::sync::atomic::{AtomicU32, Ordering};
use mote_bpf::helper::bucket;
use mote_sync::{rseq, thread as word};
use mote_sys::raw::syscall;
use mote_sys::{process, tsc};

/// The process's id; 0 when it was not noted.
static PID: AtomicU32 = AtomicU32::new(0);

/// Notes the process's id, which `get_current_pid_tgid` returns from then on, so that it need not ask the kernel; 0
/// makes it unknown again. To be called again after fork.
///
/// The thread's id is that of [`mote_sync::thread::id`], when that is known.
pub fn note_process(pid: u32) {
    PID.store(pid, Ordering::Relaxed);
}

/// The thread's id.
#[inline]
pub(super) fn thread() -> u32 {
    match word::id() {
        0 => process::tid() as u32,
        id => id,
    }
}

/// The CPU that we are on, or were a moment ago.
#[inline]
pub(super) fn cpu() -> u32 {
    rseq::cpu_hint().unwrap_or_else(ask_cpu)
}

#[cold]
fn ask_cpu() -> u32 {
    let mut cpu = 0u32;
    // SAFETY: getcpu writes the word at its first argument, and nothing at null ones.
    let _ = unsafe { syscall(libc::SYS_getcpu, [&raw mut cpu as usize, 0, 0, 0, 0, 0]) };
    cpu
}

pub(super) unsafe extern "C" fn ktime_get_ns(_: u64, _: u64, _: u64, _: u64, _: u64) -> u64 {
    // 0 where the thread has no clock: its event is lost then, whatever the program says.
    tsc::monotonic().unwrap_or(0)
}

/// Of the time-stamp counter and the thread, mixed: no state, so nothing that threads or forked children share.
pub(super) unsafe extern "C" fn get_prandom_u32(_: u64, _: u64, _: u64, _: u64, _: u64) -> u64 {
    let seed = tsc::read().unwrap_or(0) ^ (word::pointer() as u64).rotate_left(32);
    mix(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15)) >> 32
}

pub(super) unsafe extern "C" fn get_smp_processor_id(_: u64, _: u64, _: u64, _: u64, _: u64) -> u64 {
    u64::from(cpu() & 0xffff)
}

pub(super) unsafe extern "C" fn get_current_pid_tgid(_: u64, _: u64, _: u64, _: u64, _: u64) -> u64 {
    let pid = match PID.load(Ordering::Relaxed) {
        0 => process::pid() as u32,
        pid => pid,
    };
    u64::from(pid) << 32 | u64::from(thread())
}

/// `get_current_comm(buffer, size)`: 0.
pub(super) unsafe extern "C" fn get_current_comm(buffer: u64, size: u64, _: u64, _: u64, _: u64) -> u64 {
    let name = process::comm();
    let (buffer, size) = (buffer as *mut u8, size as usize);
    let len = name.len().min(size);
    // SAFETY: the verifier: so many writable bytes, of which no thread has a reference.
    unsafe { buffer.write_bytes(0, size) };
    // SAFETY: as above, and `name` is on our stack.
    unsafe { buffer.copy_from_nonoverlapping(name.as_ptr(), len) };
    if let Some(last) = size.checked_sub(1).filter(|last| *last < name.len()) {
        // SAFETY: the last of them: a name that was cut ends here.
        unsafe { buffer.wrapping_add(last).write(0) };
    }
    0
}

pub(super) unsafe extern "C" fn log_linear(value: u64, _: u64, _: u64, _: u64, _: u64) -> u64 {
    u64::from(bucket(value))
}

/// The final mix of MurmurHash3 (Appleby, public domain): each bit of the input changes half of the output's.
pub(super) fn mix(mut x: u64) -> u64 {
    x = (x ^ x >> 33).wrapping_mul(0xff51_afd7_ed55_8ccd);
    x = (x ^ x >> 33).wrapping_mul(0xc4ce_b9fe_1a85_ec53);
    x ^ x >> 33
}
