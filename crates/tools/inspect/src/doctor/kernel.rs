//! What the kernel lets us see of other processes and of itself. Nothing of it is needed to record events.

use super::facts::{Capability, has, line, number};
use super::finding::Finding;
use mote_catalog::btf::Btf;
use mote_catalog::tracefs::Tracefs;
use mote_sys::Errno;
use mote_sys::bpf::{self, ProgramType};
use mote_words::counted;
use std::path::Path;

/// Who may look into processes: for `mote list PID`.
pub(super) fn ptrace() -> Finding {
    const WHAT: &str = "ptrace scope";
    const FILE: &str = "/proc/sys/kernel/yama/ptrace_scope";
    const ADVICE: &str = "run mote list PID as root, or: sysctl kernel.yama.ptrace_scope=0";
    match number(FILE) {
        None => Finding::ok(WHAT, "not restricted (no Yama)"),
        Some(0) => Finding::ok(WHAT, "0: processes of the same user may be inspected"),
        Some(scope) if has(Capability::SysPtrace) && scope < 3 => {
            Finding::ok(WHAT, format!("{scope}, which does not restrict mote here (CAP_SYS_PTRACE)"))
        }
        Some(3) => Finding::warn(
            WHAT,
            "3: no process may be inspected, until the next boot",
            "boot with kernel.yama.ptrace_scope=1 or less",
        ),
        Some(scope) => Finding::warn(WHAT, format!("{scope}: only child processes may be inspected"), ADVICE),
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
            format!("only your own processes, in user mode (paranoid level {level}); {counters}"),
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
        None => "it is not known whether other users may load programs",
        Some(0) => "other users may load programs, too",
        Some(_) => "other users may not load programs",
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

/// The rights that recording kernel events needs.
pub(super) fn rights() -> Finding {
    const WHAT: &str = "kernel events";
    match mote_kernel::privilege::check() {
        None => Finding::ok(WHAT, "eBPF programs can be loaded and attached (CAP_BPF, CAP_PERFMON)"),
        Some(missing) => Finding::warn(
            WHAT,
            missing.to_string(),
            "run as root, or with these rights; everything but kernel events works without them",
        ),
    }
}

/// The place of the kernel's tracepoints: mounted somewhere, or for us alone.
pub(super) fn tracefs() -> Finding {
    const WHAT: &str = "tracefs";
    match Tracefs::open() {
        Ok(tracefs) => {
            let systems = tracefs.systems().map_or(0, |systems| systems.len());
            Finding::ok(
                WHAT,
                format!("readable, with events of {}", counted(systems, "subsystem", "subsystems")),
            )
        }
        Err(why) => Finding::warn(
            WHAT,
            format!("not readable: {why}"),
            "run as root, or: mount -t tracefs nodev /sys/kernel/tracing; until then kernel events are the scheduler's and system calls",
        ),
    }
}

/// The kernel's types: what makes events cheap.
pub(super) fn btf() -> Finding {
    const WHAT: &str = "BTF";
    match Btf::of_kernel() {
        Ok(_) => Finding::ok(WHAT, "the kernel describes its types"),
        Err(why) => Finding::warn(
            WHAT,
            format!("the kernel does not describe its types: {why}"),
            "use a kernel with CONFIG_DEBUG_INFO_BTF; until then kernel events cost more",
        ),
    }
}

/// Probes of the kernel at any instruction of a program.
pub(super) fn uprobes() -> Finding {
    const WHAT: &str = "uprobes";
    if line("/sys/bus/event_source/devices/uprobe/type").is_some() {
        return Finding::ok(WHAT, "the kernel has them");
    }
    Finding::warn(
        WHAT,
        "this kernel does not offer them",
        "to probe programs that carry no events use a kernel with CONFIG_UPROBE_EVENTS; mote's own events need none",
    )
}

/// Probes of the kernel's own functions.
pub(super) fn kprobes() -> Finding {
    const WHAT: &str = "kprobes";
    if line("/sys/bus/event_source/devices/kprobe/type").is_some() {
        return Finding::ok(WHAT, "the kernel has them");
    }
    Finding::warn(
        WHAT,
        "this kernel was built without them",
        "to probe functions of the kernel use one with CONFIG_KPROBES; its tracepoints and system calls need none",
    )
}

const fn yes(it_is: bool) -> &'static str {
    if it_is { "yes" } else { "no" }
}
