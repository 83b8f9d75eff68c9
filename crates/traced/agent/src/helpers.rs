//! What a traced process gives to filters beside the helpers of every environment (`mote_layout::tracer::HELPERS`).
//!
//! They run on probes: no allocation, no waiting, and no system call but for a thread's first event. What they are
//! given the verifier has checked: pointers are to so many bytes. Programs run inside of read sections. Helpers that
//! are about the program's session exist once for each: they hand its number on, and are nothing else, because there
//! are many of them.

use crate::cooperate::{self, Scope};
use crate::speculation::by_key;
use crate::{channel, shared, speculation};
use core::cell::UnsafeCell;
use core::sync::atomic::{AtomicU32, Ordering};
use mote_layout::cooperation::threshold_word;
use mote_layout::record::ID_MAX;
use mote_layout::tracer;
use mote_ring::Record;
use mote_ring::writer::Payload;
use mote_sys::raw::syscall;
use mote_vm::{FaultingFn, HelperFn, Returned};
use mote_wire::{SESSIONS_MAX, filter_counters};

/// What the programs of one session call, by number, as `mote_vm::Setup` takes it.
#[derive(Debug)]
pub(crate) struct Helpers {
    pub(crate) plain: [(u32, HelperFn); 14],
    /// Those that read memory which may not be there.
    pub(crate) faulting: [(u32, FaultingFn); 1],
}

const fn helpers<const SESSION: usize>() -> Helpers {
    Helpers {
        plain: [
            (tracer::GET_EXECUTABLE, get_executable),
            (tracer::SPECULATE, speculate::<SESSION>),
            (tracer::COMMIT, commit::<SESSION>),
            (tracer::DISCARD, discard::<SESSION>),
            (tracer::SPECULATED, speculated::<SESSION>),
            (tracer::SNAPSHOT, snapshot::<SESSION>),
            (tracer::SNAPSHOT_PACKETS, snapshot_packets::<SESSION>),
            (tracer::SET_THRESHOLD, set_threshold),
            (tracer::OPEN_KERNEL, open_kernel),
            (tracer::SPECULATE_BY, speculate_by::<SESSION>),
            (tracer::COMMIT_BY, commit_by::<SESSION>),
            (tracer::DISCARD_BY, discard_by::<SESSION>),
            (tracer::SPECULATED_BY, speculated_by::<SESSION>),
            (tracer::SPECULATION, speculation_verdict::<SESSION>),
        ],
        faulting: [(tracer::EMIT, emit::<SESSION>)],
    }
}

static ALL: [Helpers; SESSIONS_MAX] = [
    helpers::<0>(),
    helpers::<1>(),
    helpers::<2>(),
    helpers::<3>(),
    helpers::<4>(),
    helpers::<5>(),
    helpers::<6>(),
    helpers::<7>(),
];

/// What the programs of a session call.
pub(crate) fn of(session: usize) -> Option<&'static Helpers> {
    ALL.get(session)
}

/// Most bytes of an event that a filter emits.
const EMIT_MAX: usize = 256;
const PATH_MAX: usize = 4096;

const fn error(number: i32) -> u64 {
    -number as i64 as u64
}

/// Path of the program, read once.
struct Path(UnsafeCell<[u8; PATH_MAX]>);
// SAFETY: written by `note_executable`, with the control path held, before `LEN` is set; read only after.
unsafe impl Sync for Path {}
static PATH: Path = Path(UnsafeCell::new([0; PATH_MAX]));
static LEN: AtomicU32 = AtomicU32::new(0);

/// Reads the program's path from `/proc/self/exe`, once. To be called with the control path held, before a filter runs.
pub(crate) fn note_executable() {
    if LEN.load(Ordering::Relaxed) != 0 {
        return;
    }
    let link = c"/proc/self/exe";
    let into = PATH.0.get().cast::<u8>();
    let arguments = [libc::AT_FDCWD as usize, link.as_ptr() as usize, into as usize, PATH_MAX - 1, 0, 0];
    // SAFETY: readlinkat writes at most `PATH_MAX - 1` bytes to the array, which no thread reads yet.
    let read = unsafe { syscall(libc::SYS_readlinkat, arguments) };
    LEN.store(read.unwrap_or(0) as u32, Ordering::Release);
}

/// The program's path without a NUL; empty when `/proc` is not there.
fn executable() -> &'static [u8] {
    let len = LEN.load(Ordering::Acquire) as usize;
    // SAFETY: written before `LEN` was set, never after.
    unsafe { core::slice::from_raw_parts(PATH.0.get().cast::<u8>(), len.min(PATH_MAX)) }
}

unsafe extern "C" fn get_executable(to: u64, size: u64, _: u64, _: u64, _: u64) -> u64 {
    let path = executable();
    // The verifier asks for at least one byte.
    let len = path.len().min((size as usize).saturating_sub(1));
    let to: *mut u8 = core::ptr::with_exposed_provenance_mut(to as usize);
    // SAFETY: the verifier: `size` writable bytes at `to`, which are the program's own.
    unsafe { to.copy_from_nonoverlapping(path.as_ptr(), len) };
    // All of them count as written.
    // SAFETY: as above.
    unsafe { to.wrapping_add(len).write_bytes(0, size as usize - len) };
    len as u64
}

unsafe extern "C" fn emit<const SESSION: usize>(id: u64, data: u64, size: u64, _: u64, _: u64) -> Returned {
    // SAFETY: as there.
    unsafe { emit_to(SESSION, id, data, size as usize) }
}

/// Records an event of `len` bytes at `data`, if they can be read.
///
/// # Safety
/// The caller is a program that was verified.
#[inline(never)]
unsafe fn emit_to(session: usize, id: u64, data: u64, len: usize) -> Returned {
    if id >= u64::from(ID_MAX) || len > EMIT_MAX {
        return Ok(error(libc::EINVAL)).into();
    }
    let Some(channel) = channel::of(session) else { return Ok(error(libc::ENODEV)).into() };
    // Whole words are read from here.
    let mut words = [0u64; EMIT_MAX / 8];
    // SAFETY: `words` is ours, and has room for `EMIT_MAX` bytes.
    if let Err(fault) = unsafe { mote_vm::copy(words.as_mut_ptr().cast(), data, len) } {
        return Err(fault).into();
    }
    let payload = Payload::Words { from: words.as_ptr().cast(), len };
    let record = Record { tag: id as u16, thread: channel::this_thread(), payload };
    // SAFETY: `words` has whole words.
    unsafe { speculation::write(channel, record) };
    Ok(0).into()
}

unsafe extern "C" fn speculate<const SESSION: usize>(_: u64, _: u64, _: u64, _: u64, _: u64) -> u64 {
    if speculation::begin(SESSION) { 0 } else { error(libc::ENOSPC) }
}

unsafe extern "C" fn commit<const SESSION: usize>(_: u64, _: u64, _: u64, _: u64, _: u64) -> u64 {
    u64::from(speculation::commit(SESSION))
}

unsafe extern "C" fn discard<const SESSION: usize>(_: u64, _: u64, _: u64, _: u64, _: u64) -> u64 {
    u64::from(speculation::discard(SESSION))
}

unsafe extern "C" fn speculated<const SESSION: usize>(_: u64, _: u64, _: u64, _: u64, _: u64) -> u64 {
    speculation::elapsed(SESSION).unwrap_or(u64::MAX)
}

unsafe extern "C" fn speculate_by<const SESSION: usize>(
    kind: u64,
    value: u64,
    _: u64,
    _: u64,
    _: u64,
) -> u64 {
    if by_key::begin(SESSION, kind, value) { 0 } else { error(libc::ENOSPC) }
}

unsafe extern "C" fn commit_by<const SESSION: usize>(kind: u64, value: u64, _: u64, _: u64, _: u64) -> u64 {
    u64::from(by_key::commit(SESSION, kind, value))
}

unsafe extern "C" fn discard_by<const SESSION: usize>(kind: u64, value: u64, _: u64, _: u64, _: u64) -> u64 {
    u64::from(by_key::discard(SESSION, kind, value))
}

unsafe extern "C" fn speculated_by<const SESSION: usize>(
    kind: u64,
    value: u64,
    _: u64,
    _: u64,
    _: u64,
) -> u64 {
    by_key::elapsed(SESSION, kind, value).unwrap_or(u64::MAX)
}

unsafe extern "C" fn speculation_verdict<const SESSION: usize>(
    kind: u64,
    value: u64,
    how: u64,
    parent: u64,
    _: u64,
) -> u64 {
    by_key::verdict(SESSION, kind, value, how, parent)
}

unsafe extern "C" fn snapshot<const SESSION: usize>(_: u64, _: u64, _: u64, _: u64, _: u64) -> u64 {
    if shared::count(SESSION, filter_counters::SNAPSHOTS) { 0 } else { error(libc::ENODEV) }
}

unsafe extern "C" fn snapshot_packets<const SESSION: usize>(
    duration: u64,
    event: u64,
    time: u64,
    cpu: u64,
    thread: u64,
) -> u64 {
    let wanted = shared::Wanted { duration, event, time, cpu, thread };
    if shared::request_packets(SESSION, &wanted) { 0 } else { error(libc::ENODEV) }
}

/// `set_threshold(syscall, ns)`
unsafe extern "C" fn set_threshold(syscall: u64, ns: u64, _: u64, _: u64, _: u64) -> u64 {
    let syscall = u32::try_from(syscall).unwrap_or(u32::MAX);
    if cooperate::set_threshold(syscall, threshold_word(ns)) { 0 } else { error(libc::ENODEV) }
}

/// `open_kernel(ns, scope)`
unsafe extern "C" fn open_kernel(ns: u64, scope: u64, _: u64, _: u64, _: u64) -> u64 {
    let scope = match scope {
        0 => Scope::Thread,
        1 => Scope::System,
        2 => Scope::Process,
        _ => return error(libc::EINVAL),
    };
    if cooperate::open_window(scope, ns) { 0 } else { error(libc::ENODEV) }
}
