//! What the kernel lets us see of other processes and of itself. Nothing of it is needed to record events.

use super::Finding;
use super::facts::{Capability, has, line, number};
use mote_sys::Errno;
use mote_sys::bpf::{self, ProgramType};
use std::io::ErrorKind;
use std::path::Path;

/// Who may look into processes: for `mote list PID`.
pub(super) fn ptrace() -> Finding {
    const WHAT: &str = "ptrace scope";
    const FILE: &str = "/proc/sys/kernel/yama/ptrace_scope";
    const ADVICE: &str = "run mote list PID as root, or: sysctl kernel.yama.ptrace_scope=0";
    match number(FILE) {
        None => Finding::ok(WHAT, "not restricted (no Yama)"),
        Some(0) => Finding::ok(WHAT, "0: processes of the same user"),
        Some(scope) if has(Capability::SysPtrace) && scope < 3 => {
            Finding::ok(WHAT, format!("{scope}, which does not bind us (CAP_SYS_PTRACE)"))
        }
        Some(3) => Finding::warn(
            WHAT,
            "3: nobody, until the next boot",
            "boot with kernel.yama.ptrace_scope=1 or less",
        ),
        Some(scope) => Finding::warn(WHAT, format!("{scope}: only own children"), ADVICE),
    }
}

/// Hardware counters and the kernel's samples.
pub(super) fn perf() -> Finding {
    const WHAT: &str = "perf events";
    const FILE: &str = "/proc/sys/kernel/perf_event_paranoid";
    const ADVICE: &str = "for kernel events run as root, or: sysctl kernel.perf_event_paranoid=1";
    let Some(level) = number(FILE) else {
        return Finding::warn(
            WHAT,
            format!("no {FILE}"),
            "use a kernel with CONFIG_PERF_EVENTS for counters and samples",
        );
    };
    let counters = if Path::new("/sys/bus/event_source/devices/cpu").exists() {
        "hardware counters"
    } else {
        "no hardware counters (virtual machine)"
    };
    if level <= 1 || has(Capability::Perfmon) || has(Capability::SysAdmin) {
        Finding::ok(WHAT, format!("allowed (paranoid level {level}); {counters}"))
    } else {
        Finding::warn(
            WHAT,
            format!("own processes in user mode only (paranoid level {level}); {counters}"),
            ADVICE,
        )
    }
}

/// Loading a program of two instructions into the kernel.
pub(super) fn bpf() -> Finding {
    const WHAT: &str = "eBPF";
    // `r0 = 0; exit`.
    const PROGRAM: [u64; 2] = [0xb7, 0x95];
    let unprivileged = match number("/proc/sys/kernel/unprivileged_bpf_disabled") {
        None => "unknown for users",
        Some(0) => "also for users",
        Some(_) => "not for users",
    };
    match bpf::load(ProgramType::SocketFilter, &PROGRAM) {
        Ok(_) => Finding::ok(WHAT, format!("a program was loaded; {unprivileged}")),
        Err(Errno(libc::EPERM)) => Finding::warn(
            WHAT,
            format!("not allowed to load programs (CAP_BPF: {}); {unprivileged}", yes(has(Capability::Bpf))),
            "for kernel events run as root or with CAP_BPF and CAP_PERFMON",
        ),
        Err(errno) => Finding::warn(
            WHAT,
            format!("a program was refused: {errno}"),
            "for kernel events use a kernel with CONFIG_BPF_SYSCALL, and allow bpf(2) in the sandbox",
        ),
    }
}

/// The place of the kernel's tracepoints.
pub(super) fn tracefs() -> Finding {
    const WHAT: &str = "tracefs";
    match root() {
        Ok(root) => Finding::ok(WHAT, format!("readable at {root}")),
        Err(ErrorKind::PermissionDenied) => Finding::warn(
            WHAT,
            "mounted, but not readable",
            "for kernel events run as root, or remount it with gid= of your group",
        ),
        Err(_) => Finding::warn(
            WHAT,
            "not mounted",
            "for kernel events: mount -t tracefs nodev /sys/kernel/tracing (as root; needs CONFIG_FTRACE)",
        ),
    }
}

/// Probes of the kernel at any instruction of a program.
pub(super) fn uprobes() -> Finding {
    const WHAT: &str = "uprobes";
    let by_perf = line("/sys/bus/event_source/devices/uprobe/type").is_some();
    let by_tracefs = root().is_ok_and(|root| Path::new(root).join("uprobe_events").exists());
    match (by_perf, by_tracefs) {
        (true, _) => Finding::ok(WHAT, "the kernel has them"),
        (false, true) => Finding::ok(WHAT, "the kernel has them, through tracefs only"),
        (false, false) => Finding::warn(
            WHAT,
            "not seen",
            "to probe programs that carry no events use a kernel with CONFIG_UPROBE_EVENTS; mote's own events need none",
        ),
    }
}

/// Where tracefs is mounted and readable.
fn root() -> Result<&'static str, ErrorKind> {
    let mut why = ErrorKind::NotFound;
    for root in ["/sys/kernel/tracing", "/sys/kernel/debug/tracing"] {
        match std::fs::read_dir(Path::new(root).join("events")) {
            Ok(_) => return Ok(root),
            Err(error) if error.kind() == ErrorKind::PermissionDenied => why = ErrorKind::PermissionDenied,
            Err(_) => {}
        }
    }
    Err(why)
}

const fn yes(it_is: bool) -> &'static str {
    if it_is { "yes" } else { "no" }
}
