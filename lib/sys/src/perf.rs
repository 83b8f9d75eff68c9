//! perf_event_open(2), as far as programs are attached to its events.

use crate::Result;
use crate::fd::Fd;
use crate::raw::syscall;
use core::ffi::CStr;

/// `PERF_TYPE_TRACEPOINT`
const TRACEPOINT: u32 = 2;
const PERF_FLAG_FD_CLOEXEC: usize = 8;
/// `disabled`: the event itself counts nothing; the program is run all the same.
const DISABLED: u64 = 1;

/// `struct perf_event_attr` up to `aux_watermark` (version 5, 112 bytes).
#[repr(C)]
#[derive(Default)]
struct Attribute {
    kind: u32,
    size: u32,
    config: u64,
    sample_period: u64,
    sample_type: u64,
    read_format: u64,
    flags: u64,
    wakeup_events: u32,
    breakpoint_type: u32,
    config1: u64,
    config2: u64,
    branch_sample_type: u64,
    registers_user: u64,
    stack_user: u32,
    clock: i32,
    registers_interrupt: u64,
    aux_watermark: u32,
    max_stack: u16,
    reserved: u16,
}
const _: () = assert!(size_of::<Attribute>() == 112);

/// Opens the trace event of this number (`id` in tracefs), so that a program can be attached to it. The program is run
/// on all CPUs.
///
/// # Errors
/// `ENOENT` or `EINVAL` when there is no such event; `EACCES`, `EPERM` without `CAP_PERFMON`.
pub fn tracepoint(id: u64) -> Result<Fd> {
    open(&Attribute { kind: TRACEPOINT, config: id, flags: DISABLED, ..Attribute::default() }, None)
}

/// Where a program's code is probed.
#[derive(Clone, Copy, Debug)]
pub struct Uprobe<'a> {
    /// Number of the kernel's uprobe unit: `/sys/bus/event_source/devices/uprobe/type`.
    pub unit: u32,
    /// The file with the code: a program or a library.
    pub path: &'a CStr,
    /// Offset of the instruction in the file.
    pub offset: u64,
    /// Offset in the file of a 16-bit counter that is one higher while the probe is there; 0 for none.
    pub counter: u64,
    /// At the return of the function that begins there.
    pub returns: bool,
    /// The process by its id; `None`: every process that runs the file.
    pub process: Option<u32>,
}

/// Opens a probe of a program's code, so that a program can be attached to it.
///
/// # Errors
/// `ENOENT` for the file, `EINVAL` for a place that is not an instruction, `ENOTSUPP` (524) for one that cannot be
/// probed; `EPERM`.
pub fn uprobe(probe: &Uprobe<'_>) -> Result<Fd> {
    let attribute = Attribute {
        kind: probe.unit,
        config: u64::from(probe.returns) | probe.counter << 32,
        flags: DISABLED,
        config1: probe.path.as_ptr() as u64,
        config2: probe.offset,
        ..Attribute::default()
    };
    open(&attribute, probe.process)
}

/// Where the kernel's code is probed.
#[derive(Clone, Copy, Debug)]
pub struct Kprobe<'a> {
    /// Number of the kernel's kprobe unit: `/sys/bus/event_source/devices/kprobe/type`.
    pub unit: u32,
    /// Name of the function in /proc/kallsyms.
    pub function: &'a CStr,
    /// Offset of the instruction in it.
    pub offset: u64,
    /// At the return of the function, where `offset` has to be 0.
    pub returns: bool,
}

/// Opens a probe of the kernel's code, so that a program can be attached to it.
///
/// # Errors
/// `ENOENT` when there is no such function, `EINVAL` for one that cannot be probed; `EPERM`.
pub fn kprobe(probe: &Kprobe<'_>) -> Result<Fd> {
    let attribute = Attribute {
        kind: probe.unit,
        config: u64::from(probe.returns),
        flags: DISABLED,
        config1: probe.function.as_ptr() as u64,
        config2: probe.offset,
        ..Attribute::default()
    };
    open(&attribute, None)
}

/// On CPU 0 for all processes, or for one on all CPUs.
fn open(attribute: &Attribute, process: Option<u32>) -> Result<Fd> {
    let size = size_of::<Attribute>() as u32;
    let attribute = Attribute { size, ..*attribute };
    let (pid, cpu) = process.map_or((-1, 0), |pid| (pid as isize, -1isize));
    let at = &raw const attribute as usize;
    let arguments = [at, pid as usize, cpu as usize, usize::MAX, PERF_FLAG_FD_CLOEXEC, 0];
    // SAFETY: the kernel reads the attribute and, for a probe, the path or name, which outlive the call, and writes
    // nothing.
    let raw = unsafe { syscall(libc::SYS_perf_event_open, arguments) }?;
    Ok(Fd::from_raw(raw as i32))
}
