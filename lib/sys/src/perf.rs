//! perf_event_open(2), as far as programs are attached to its events, threads are sampled, and the kernel tells what
//! processes map.

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

/// `PERF_TYPE_HARDWARE`, `PERF_TYPE_SOFTWARE`.
const HARDWARE: u32 = 0;
const SOFTWARE: u32 = 1;
/// `PERF_COUNT_HW_CPU_CYCLES`, `PERF_COUNT_SW_CPU_CLOCK`, `PERF_COUNT_SW_CONTEXT_SWITCHES`, `PERF_COUNT_SW_DUMMY`.
const CPU_CYCLES: u64 = 0;
const CPU_CLOCK: u64 = 0;
const CONTEXT_SWITCHES: u64 = 3;
const DUMMY: u64 = 9;
/// `PERF_COUNT_SW_BPF_OUTPUT`
const OUTPUT: u64 = 10;
/// `PERF_SAMPLE_TID`, `PERF_SAMPLE_TIME`, `PERF_SAMPLE_CALLCHAIN`, `PERF_SAMPLE_REGS_USER`, `PERF_SAMPLE_STACK_USER`.
const SAMPLED: u64 = 1 << 1 | TIME | 1 << 5;
const TIME: u64 = 1 << 2;
const SAMPLED_STACK: u64 = 1 << 12 | 1 << 13;
/// mmap, comm, task, sample_id_all, mmap2, comm_exec, use_clockid, build_id (Linux 5.12).
const SIDE_BAND: u64 = 1 << 8 | 1 << 9 | 1 << 13 | 1 << 18 | 1 << 23 | 1 << 24 | 1 << 25 | 1 << 34;
/// `PERF_SAMPLE_TID`, `PERF_SAMPLE_TIME`, `PERF_SAMPLE_RAW`.
const GIVEN_OUT: u64 = 1 << 1 | TIME | 1 << 10;
/// sample_id_all, use_clockid.
const GIVING_OUT: u64 = 1 << 18 | 1 << 25;
/// inherit, freq.
const SAMPLING: u64 = SIDE_BAND | 1 << 1 | 1 << 10;
/// inherit, sample_id_all, use_clockid, context_switch.
const SWITCHING: u64 = 1 << 1 | 1 << 18 | 1 << 25 | 1 << 26;
/// exclude_kernel and exclude_hv; exclude_idle; enable_on_exec; exclude_callchain_user.
const WITHOUT_KERNEL: u64 = 1 << 5 | 1 << 6;
const WITHOUT_IDLE: u64 = 1 << 7;
const ENABLE_ON_EXEC: u64 = 1 << 12;
const WITHOUT_USER_CHAIN: u64 = 1 << 22;
/// `PERF_FORMAT_LOST`
const FORMAT_LOST: u64 = 1 << 4;
/// `PERF_FORMAT_TOTAL_TIME_ENABLED`, `PERF_FORMAT_TOTAL_TIME_RUNNING`; `PERF_FORMAT_GROUP`.
const FORMAT_TIMES: u64 = 1 | 2;
const FORMAT_GROUP: u64 = 1 << 3;
/// `PERF_EVENT_IOC_ENABLE`, `PERF_EVENT_IOC_DISABLE`, `PERF_EVENT_IOC_SET_OUTPUT`, `PERF_EVENT_IOC_ID`.
const ENABLE: usize = 0x2400;
const DISABLE: usize = 0x2401;
const SET_OUTPUT: usize = 0x2405;
const ID: usize = 0x8008_2407;
/// `PERF_EVENT_IOC_SET_BPF`
const SET_BPF: usize = 0x4004_2408;
/// `PERF_EVENT_IOC_SET_FILTER`
const SET_FILTER: usize = 0x4008_2406;

/// How threads are sampled. Records have, behind their header: process and thread, the time by `CLOCK_MONOTONIC`, the
/// call chain; where the stack is copied the registers that unwinding needs, and the copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sampling {
    /// By cycles of the processor, where it counts them; else by the time on a CPU.
    pub cycles: bool,
    /// Samples in a second of that.
    pub frequency: u64,
    /// Not by time, but when a thread leaves its CPU.
    pub switches: bool,
    /// Also in the kernel.
    pub kernel: bool,
    /// Also CPUs that have nothing to do, where it is by time.
    pub idle: bool,
    /// Bytes that are copied of the process's stack, a multiple of 8; 0: its call chain is followed by frame pointers.
    pub stack: u32,
    /// From the moment on when the thread, or one that it starts, runs another program.
    pub on_exec: bool,
    /// [`lost`] can tell how many records there was no room for (Linux 6.0).
    pub counts_lost: bool,
}

/// Opens an event that samples a thread, and those that it starts from now on, on one CPU. 0: the calling thread; -1:
/// all threads. It is off.
///
/// With `switches` it is each moment when the thread leaves the CPU, whatever the frequency; and records tell when it
/// comes back (`PERF_RECORD_SWITCH`).
///
/// # Errors
/// `ENOENT` where there are no such cycles; `ENODEV`: there is no such CPU; `ESRCH`: there is no such thread; `EACCES`,
/// `EPERM` without `CAP_PERFMON`, where `kernel.perf_event_paranoid` asks for it; `EMFILE`; `EINVAL` before Linux 5.12,
/// and where records are counted before 6.0.
pub fn sample(how: &Sampling, thread: i32, cpu: u32) -> Result<Fd> {
    let flag = |on: bool, flag: u64| if on { flag } else { 0 };
    let has_stack = how.stack > 0;
    let (kind, config, sample_period) = match (how.switches, how.cycles) {
        (true, _) => (SOFTWARE, CONTEXT_SWITCHES, 1),
        (false, true) => (HARDWARE, CPU_CYCLES, how.frequency),
        (false, false) => (SOFTWARE, CPU_CLOCK, how.frequency),
    };
    let attribute = Attribute {
        kind,
        config,
        sample_period,
        sample_type: SAMPLED | flag(has_stack, SAMPLED_STACK),
        flags: DISABLED
            | if how.switches { SWITCHING } else { SAMPLING }
            | flag(!how.kernel, WITHOUT_KERNEL)
            | flag(!how.idle && !how.cycles, WITHOUT_IDLE)
            | flag(how.on_exec, ENABLE_ON_EXEC)
            | flag(has_stack, WITHOUT_USER_CHAIN),
        read_format: flag(how.counts_lost, FORMAT_LOST),
        registers_user: flag(has_stack, crate::arch::SAMPLED_REGISTERS),
        stack_user: how.stack,
        clock: libc::CLOCK_MONOTONIC,
        ..Attribute::default()
    };
    open_at(&attribute, thread as isize, cpu as isize)
}

/// Opens the side band of one CPU: an event without samples, whose records say what all processes map, what they run
/// and which children they fork. Times are of `CLOCK_MONOTONIC`.
///
/// # Errors
/// `EACCES`, `EPERM` without `CAP_PERFMON`; `ENODEV` for a CPU that is not there; `EINVAL` before Linux 5.12.
pub fn side_band(cpu: u32) -> Result<Fd> {
    let attribute = Attribute {
        kind: SOFTWARE,
        config: DUMMY,
        sample_type: TIME,
        flags: SIDE_BAND,
        clock: libc::CLOCK_MONOTONIC,
        ..Attribute::default()
    };
    open_at(&attribute, -1, cpu as isize)
}

/// Opens the event of what programs give out on one CPU (`perf_event_output`), which is on. Its records have, behind
/// their header: process and thread, the time by `CLOCK_MONOTONIC`, how many bytes they are, and these.
///
/// # Errors
/// `EACCES`, `EPERM` without `CAP_PERFMON`; `ENODEV` for a CPU that is not there.
pub fn output(cpu: u32) -> Result<Fd> {
    let attribute = Attribute {
        kind: SOFTWARE,
        config: OUTPUT,
        sample_period: 1,
        sample_type: GIVEN_OUT,
        flags: GIVING_OUT,
        clock: libc::CLOCK_MONOTONIC,
        ..Attribute::default()
    };
    open_at(&attribute, -1, cpu as isize)
}

/// Longest `struct perf_event_attr` that [`open_attribute`] takes: that of Linux 6.1 and later.
pub const ATTRIBUTE_MAX: usize = 136;

/// Opens the event of an attribute that is given as its bytes (`struct perf_event_attr`, with its size in it), of one
/// thread or process (0: the calling thread, -1: all) on one CPU (-1: any).
///
/// # Errors
/// As perf_event_open(2); `E2BIG` for more than [`ATTRIBUTE_MAX`] bytes.
pub fn open_attribute(attribute: &[u8], thread: i32, cpu: i32) -> Result<Fd> {
    let mut copy = [0u8; ATTRIBUTE_MAX];
    let room = copy.get_mut(..attribute.len()).ok_or(crate::Errno(libc::E2BIG))?;
    room.iter_mut().zip(attribute).for_each(|(to, from)| *to = *from);
    let at = copy.as_mut_ptr() as usize;
    let arguments = [at, thread as usize, cpu as usize, usize::MAX, PERF_FLAG_FD_CLOEXEC, 0];
    // SAFETY: the kernel reads the attribute, and what it may point to (a path or a name: it looks whether it can be
    // read), and writes at most the size in it: to `copy`, which outlives the call.
    let raw = unsafe { syscall(libc::SYS_perf_event_open, arguments) }?;
    Ok(Fd::from_raw(raw as i32))
}

/// Sets the address filter of an event.
///
/// # Errors
/// `EOPNOTSUPP` where the event has none, or has not so many or such ranges; `EINVAL` for what is no filter; `ENOENT`
/// where a file is not there.
pub fn set_filter(event: &Fd, filter: &CStr) -> Result<()> {
    let arguments = [event.raw() as usize, SET_FILTER, filter.as_ptr() as usize, 0, 0, 0];
    // SAFETY: the kernel reads a text that ends with a NUL, and outlives the call.
    unsafe { syscall(libc::SYS_ioctl, arguments) }.map(drop)
}

/// Where an event is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// Wherever the thread is.
    All,
    /// Outside of the kernel.
    User,
}

/// Opens an event that counts for the calling thread, from now on; beside `leader`, if that is given, so that both
/// count at the same times. `kind` and `config` as in perf_event_open(2).
///
/// # Errors
/// `ENOENT`, `EOPNOTSUPP` where nothing counts that; `EINVAL` for no event; `EACCES`, `EPERM` without `CAP_PERFMON`,
/// where `kernel.perf_event_paranoid` asks for it; `EMFILE`.
pub fn count(kind: u32, config: u64, scope: Scope, leader: Option<i32>) -> Result<Fd> {
    let attribute = Attribute {
        kind,
        config,
        read_format: FORMAT_TIMES | FORMAT_GROUP,
        flags: if scope == Scope::User { WITHOUT_KERNEL } else { 0 },
        ..Attribute::default()
    };
    open_in(&attribute, 0, -1, leader)
}

/// The number of an event, by which nothing else can be taken for it.
///
/// # Errors
/// `ENOTTY` for what is no such event; `EBADF`.
pub fn id(event: i32) -> Result<u64> {
    let mut id = 0u64;
    let arguments = [event as usize, ID, &raw mut id as usize, 0, 0, 0];
    // SAFETY: the kernel writes a number of 8 bytes.
    unsafe { syscall(libc::SYS_ioctl, arguments) }?;
    Ok(id)
}

/// Reads what an event opened by [`count`] and those beside it have counted: how many they are, for how many
/// nanoseconds they were to count and did, and then their counts.
///
/// # Errors
/// As read(2); `ENOSPC` where there are more of them.
pub fn read_counts(leader: i32, into: &mut [u64]) -> Result<()> {
    let arguments = [leader as usize, into.as_mut_ptr() as usize, size_of_val(into), 0, 0, 0];
    // SAFETY: the kernel writes to `into`, as many bytes as there are at most.
    unsafe { syscall(libc::SYS_read, arguments) }.map(drop)
}

/// How many records of an event, and of those that threads have inherited of it, there was no room for since it was
/// opened; where it [counts them](Sampling::counts_lost).
///
/// # Errors
/// As read(2).
pub fn lost(event: &Fd) -> Result<u64> {
    let mut words = [0u64; 2];
    let arguments = [event.raw() as usize, words.as_mut_ptr() as usize, size_of_val(&words), 0, 0, 0];
    // SAFETY: the kernel writes to `words`, as many bytes as there are at most.
    unsafe { syscall(libc::SYS_read, arguments) }?;
    Ok(words[1])
}

/// Runs a program of type `PerfEvent` at each sample of an event, and of those that threads inherit of it from now on:
/// there is no sample where it returns 0.
///
/// # Errors
/// `EEXIST` where there is one; `EINVAL` where they do not fit; `EPERM`.
pub fn set_program(event: &Fd, program: &Fd) -> Result<()> {
    control(event, SET_BPF, program.raw() as usize)
}

/// Switches an event on.
///
/// # Errors
/// As ioctl(2).
pub fn enable(event: &Fd) -> Result<()> {
    control(event, ENABLE, 0)
}

/// Switches an event off.
///
/// # Errors
/// As ioctl(2).
pub fn disable(event: &Fd) -> Result<()> {
    control(event, DISABLE, 0)
}

/// Sends the records of an event to the memory of another one of the same CPU.
///
/// # Errors
/// As ioctl(2).
pub fn send_to(event: &Fd, other: &Fd) -> Result<()> {
    control(event, SET_OUTPUT, other.raw() as usize)
}

fn control(event: &Fd, what: usize, argument: usize) -> Result<()> {
    // SAFETY: these requests touch no memory of ours.
    unsafe { syscall(libc::SYS_ioctl, [event.raw() as usize, what, argument, 0, 0, 0]) }.map(drop)
}

/// On CPU 0 for all processes, or for one on all CPUs.
fn open(attribute: &Attribute, process: Option<u32>) -> Result<Fd> {
    let (pid, cpu) = process.map_or((-1, 0), |pid| (pid as isize, -1isize));
    open_at(attribute, pid, cpu)
}

fn open_at(attribute: &Attribute, pid: isize, cpu: isize) -> Result<Fd> {
    open_in(attribute, pid, cpu, None)
}

/// In the group of `leader`.
fn open_in(attribute: &Attribute, pid: isize, cpu: isize, leader: Option<i32>) -> Result<Fd> {
    let group = leader.map_or(usize::MAX, |leader| leader as usize);
    let size = size_of::<Attribute>() as u32;
    let attribute = Attribute { size, ..*attribute };
    let at = &raw const attribute as usize;
    let arguments = [at, pid as usize, cpu as usize, group, PERF_FLAG_FD_CLOEXEC, 0];
    // SAFETY: the kernel reads the attribute and, for a probe, the path or name, which outlive the call, and writes
    // nothing.
    let raw = unsafe { syscall(libc::SYS_perf_event_open, arguments) }?;
    Ok(Fd::from_raw(raw as i32))
}
