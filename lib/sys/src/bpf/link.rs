//! Attaching programs: the answered descriptor is the attachment, and closing it ends it.

use crate::Result;
use crate::fd::{self, Fd};
use crate::raw::syscall;
use core::ffi::CStr;

const BPF_RAW_TRACEPOINT_OPEN: usize = 17;
const BPF_LINK_CREATE: usize = 28;
const BPF_ITER_CREATE: usize = 33;
/// `BPF_TRACE_RAW_TP`: how programs of type `Tracing` are attached to tracepoints.
pub const TRACE_RAW_TP: u32 = 23;
/// `BPF_TRACE_FENTRY`: how programs of type `Tracing` are attached to the entries of the kernel's functions (Linux
/// 5.5).
pub const TRACE_FENTRY: u32 = 24;
/// `BPF_TRACE_FEXIT`: and to their returns.
pub const TRACE_FEXIT: u32 = 25;
/// `BPF_TRACE_ITER`: how programs of type `Tracing` are loaded that [`iterate`] runs.
pub const TRACE_ITER: u32 = 28;
/// `BPF_PERF_EVENT`
const PERF_EVENT: u32 = 41;
/// `BPF_TRACE_UPROBE_MULTI`: how programs are loaded that [`uprobes`] attaches.
pub const TRACE_UPROBE_MULTI: u32 = 48;
/// `BPF_F_UPROBE_MULTI_RETURN`
const RETURNS: u32 = 1;

/// The part of `union bpf_attr` for `BPF_RAW_TRACEPOINT_OPEN`.
#[repr(C)]
struct Open {
    name: u64,
    program: u32,
    padding: u32,
}

/// The part of `union bpf_attr` for `BPF_LINK_CREATE`.
#[repr(C)]
struct Create {
    program: u32,
    target: u32,
    attach_type: u32,
    flags: u32,
    cookie: u64,
}

/// The same for many probes of one file.
#[repr(C)]
struct CreateMany {
    program: u32,
    target: u32,
    attach_type: u32,
    flags: u32,
    path: u64,
    offsets: u64,
    counters: u64,
    cookies: u64,
    count: u32,
    probe_flags: u32,
    pid: u32,
    padding: u32,
}
const _: () = assert!(size_of::<CreateMany>() == 64);

/// A place in a file that is probed together with others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// Offset of the instruction in the file.
    pub offset: u64,
    /// Offset in the file of a 16-bit counter that is one higher while the probe is there; 0 for none.
    pub counter: u64,
    /// What the program can ask for when it runs there.
    pub cookie: u64,
}

/// Attaches a program of type `Kprobe`, loaded with [`TRACE_UPROBE_MULTI`], to many places of a file, of which `PLACES`
/// at most are taken (Linux 6.6). Returns also how many were taken. In one process only, if its id is given.
///
/// # Errors
/// `EINVAL` on an older kernel, `ENOENT` for the file, `ESRCH` for the process; as [`crate::perf::uprobe`] for any of
/// the places, and none is probed then.
pub fn uprobes<const PLACES: usize>(
    program: &Fd,
    path: &CStr,
    places: &[Place],
    returns: bool,
    process: Option<u32>,
) -> Result<(Fd, usize)> {
    let (mut offsets, mut counters, mut cookies) = ([0; PLACES], [0; PLACES], [0; PLACES]);
    let mut count = 0;
    let all = offsets.iter_mut().zip(&mut counters).zip(&mut cookies);
    for (((offset, counter), cookie), place) in all.zip(places) {
        (*offset, *counter, *cookie) = (place.offset, place.counter, place.cookie);
        count += 1;
    }
    let create = CreateMany {
        program: program.raw() as u32,
        target: 0,
        attach_type: TRACE_UPROBE_MULTI,
        flags: 0,
        path: path.as_ptr() as u64,
        offsets: offsets.as_ptr() as u64,
        counters: counters.as_ptr() as u64,
        cookies: cookies.as_ptr() as u64,
        count: count as u32,
        probe_flags: if returns { RETURNS } else { 0 },
        pid: process.unwrap_or(0),
        padding: 0,
    };
    let attribute = &raw const create as usize;
    // SAFETY: the kernel reads the attribute, the path, and `count` words of each array, which have `PLACES` of them;
    // all outlive the call. It writes nothing.
    let raw =
        unsafe { syscall(libc::SYS_bpf, [BPF_LINK_CREATE, attribute, size_of::<CreateMany>(), 0, 0, 0]) }?;
    Ok((Fd::from_raw(raw as i32), count))
}

/// Attaches a program to a tracepoint: one of type `RawTracepoint` by the tracepoint's name, one of type `Tracing` to
/// what its BTF id says, which may be a function, too. (`BPF_LINK_CREATE` does the same for those, from Linux 5.19 on.)
///
/// # Errors
/// `ENOENT` when there is no such tracepoint; `EPERM`; for functions `EBUSY` where nothing can be put, `ENOTSUPP` (524)
/// where the kernel has no such attachments at all or not for as many arguments, `E2BIG` where too many programs are.
pub fn raw_tracepoint(program: &Fd, name: Option<&CStr>) -> Result<Fd> {
    let open =
        Open { name: name.map_or(0, |name| name.as_ptr() as u64), program: program.raw() as u32, padding: 0 };
    let attribute = &raw const open as usize;
    // SAFETY: the kernel reads the attribute and the name, which outlive the call, and writes nothing.
    let raw =
        unsafe { syscall(libc::SYS_bpf, [BPF_RAW_TRACEPOINT_OPEN, attribute, size_of::<Open>(), 0, 0, 0]) }?;
    Ok(Fd::from_raw(raw as i32))
}

/// Attaches a program of type `Tracepoint` or `Kprobe` to an event of perf_event_open(2) (Linux 5.15). It can ask for
/// `cookie`.
///
/// # Errors
/// `EINVAL` when program and event do not fit; `EPERM`.
pub fn perf_event(program: &Fd, event: &Fd, cookie: u64) -> Result<Fd> {
    let create = Create {
        program: program.raw() as u32,
        target: event.raw() as u32,
        attach_type: PERF_EVENT,
        flags: 0,
        cookie,
    };
    let attribute = &raw const create as usize;
    // SAFETY: the kernel reads the attribute and writes nothing.
    let raw = unsafe { syscall(libc::SYS_bpf, [BPF_LINK_CREATE, attribute, size_of::<Create>(), 0, 0, 0]) }?;
    Ok(Fd::from_raw(raw as i32))
}

/// The part of `union bpf_attr` for `BPF_ITER_CREATE`.
#[repr(C)]
struct CreateIterator {
    link: u32,
    flags: u32,
}

/// Runs a program of type `Tracing`, loaded with [`TRACE_ITER`], for each object of the kernel that the iterator is
/// about, which its BTF id says (Linux 5.8). It is to print nothing.
///
/// # Errors
/// `EINVAL` when the program is for something else, or on an older kernel; `EPERM`.
pub fn iterate(program: &Fd) -> Result<()> {
    let create =
        Create { program: program.raw() as u32, target: 0, attach_type: TRACE_ITER, flags: 0, cookie: 0 };
    let attribute = &raw const create as usize;
    // SAFETY: the kernel reads the attribute and writes nothing.
    let raw = unsafe { syscall(libc::SYS_bpf, [BPF_LINK_CREATE, attribute, size_of::<Create>(), 0, 0, 0]) }?;
    let link = Fd::from_raw(raw as i32);
    let create = CreateIterator { link: link.raw() as u32, flags: 0 };
    let (attribute, bytes) = (&raw const create as usize, size_of::<CreateIterator>());
    // SAFETY: as above.
    let raw = unsafe { syscall(libc::SYS_bpf, [BPF_ITER_CREATE, attribute, bytes, 0, 0, 0]) }?;
    let iterator = Fd::from_raw(raw as i32);
    // A read goes on until there is something to answer: nothing is, and so it has seen all.
    while fd::read(&iterator, &mut [0; 64])? > 0 {}
    Ok(())
}
