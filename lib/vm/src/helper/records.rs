//! Helpers for ring buffers.

use super::maps::write;
use super::{errno, map_of, process};
use crate::entry::Returned;
use crate::map::ring::finished;
use mote_sync::atomic::{AtomicU64, Ordering};

/// `ringbuf_reserve`: the address of a record's bytes, or 0.
pub(super) unsafe extern "C" fn reserve(map: u64, size: u64, _: u64, _: u64, _: u64) -> u64 {
    // SAFETY: the verifier: a map.
    let map = unsafe { map_of(map) };
    let reserved = u32::try_from(size).ok().and_then(|size| map.ring()?.reserve(size, process::thread()));
    match reserved {
        Some(at) => map.memory.address(at),
        None => {
            map.count_dropped();
            0
        }
    }
}

/// `ringbuf_submit`
pub(super) unsafe extern "C" fn submit(record: u64, _: u64, _: u64, _: u64, _: u64) -> u64 {
    // SAFETY: the verifier: a record that `reserve` gave.
    unsafe { finish(record, false) }
}

/// `ringbuf_discard`
pub(super) unsafe extern "C" fn discard(record: u64, _: u64, _: u64, _: u64, _: u64) -> u64 {
    // SAFETY: the verifier: a record that `reserve` gave.
    unsafe { finish(record, true) }
}

/// Ends a record, unless its reader has given it up.
///
/// # Safety
/// `record` is an address that `reserve` gave, and the map's memory is still there.
unsafe fn finish(record: u64, discard: bool) -> u64 {
    let header = record.wrapping_sub(8) as *mut u64;
    // SAFETY: the header lies before the record, a word of the map's memory, accessed atomically by all.
    let header = unsafe { AtomicU64::from_ptr(header) };
    let was = header.load(Ordering::Relaxed);
    // Order A of `map::ring`: the record's bytes before this.
    let _ = header.compare_exchange(was, finished(was, discard), Ordering::Release, Ordering::Relaxed);
    0
}

/// `ringbuf_output`: 0, or negative.
pub(super) unsafe extern "C" fn output(map: u64, data: u64, size: u64, _: u64, _: u64) -> Returned {
    // SAFETY: the verifier: a map.
    let descriptor = unsafe { map_of(map) };
    let reserved =
        u32::try_from(size).ok().and_then(|size| descriptor.ring()?.reserve(size, process::thread()));
    let Some(at) = reserved else {
        descriptor.count_dropped();
        // As the kernel: EAGAIN.
        return Ok(errno(11)).into();
    };
    // SAFETY: the verifier: so many readable bytes.
    let copied = unsafe { write(descriptor.memory, at, data, size as usize) };
    // SAFETY: reserved above.
    unsafe { finish(descriptor.memory.address(at), copied.is_err()) };
    copied.map(|()| 0).into()
}
