//! Attaching programs to where events happen.

use crate::Error;
use crate::load::{Kind, Program};
use crate::privilege;
use mote_builder::{Build, Builder};
use mote_catalog::btf::Btf;
use mote_catalog::event::Hook;
use mote_probes::{KernelTypes, pinned};
use mote_sys::Errno;
use mote_sys::bpf::link::{self, Place};
use mote_sys::fd::Fd;
use mote_sys::perf::{self, Kprobe, Uprobe};
use std::ffi::CString;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::OnceLock;

/// What uprobes answer for an instruction that they cannot run elsewhere (`include/linux/errno.h`; no program should
/// see it, says the kernel).
const ENOTSUPP: i32 = 524;
/// The kernel's number for probes of programs.
const UPROBE_UNIT: &str = "/sys/bus/event_source/devices/uprobe/type";
/// The kernel's number for probes of itself.
const KPROBE_UNIT: &str = "/sys/bus/event_source/devices/kprobe/type";

/// An attachment; it ends when this is dropped.
///
/// # Cost
/// For a trace event the kernel waits several times until no CPU uses it any more, some 50 ms; see [`end`]. Tracepoints
/// are detached at once.
#[derive(Debug)]
pub struct Link {
    link: Fd,
    /// How the kernel ends it.
    ending: Ending,
    /// What it is attached to, where that is a descriptor of its own.
    event: Option<Fd>,
    /// In which process only.
    process: Option<u32>,
}

impl Link {
    /// The process in which it is, when that is one only.
    pub(crate) fn process(&self) -> Option<u32> {
        self.process
    }
}

/// What the kernel does at the end of an attachment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ending {
    /// Nothing that takes time.
    AtOnce,
    /// It waits until no CPU can be in the program.
    Waits,
    /// It waits, with a lock around that.
    InTurn,
}

/// Attachments that end at a time.
const ENDINGS: usize = 64;
/// More of those that end one after the other are left to a child.
const IN_TURN_MAX: usize = 8;

/// How many of these attachments end one after the other, when that is left to a child; else 0.
pub(crate) fn left_behind<'l>(links: impl IntoIterator<Item = &'l Link>) -> usize {
    let count = links.into_iter().filter(|link| link.ending == Ending::InTurn).count();
    if count > IN_TURN_MAX { count } else { 0 }
}

/// Ends attachments. The kernel waits at the end of most until no CPU can be in their programs any more: these waits go
/// on side by side. Those of trace events have a lock around them: a thousand take a minute, in which a child of this
/// process ends, and this one goes on.
pub(crate) fn end(links: Vec<Link>) {
    if left_behind(&links) > 0 {
        let (in_turn, others): (Vec<Link>, Vec<Link>) =
            links.into_iter().partition(|link| link.ending == Ending::InTurn);
        let fds = in_turn.iter().flat_map(|link| [Some(&link.link), link.event.as_ref()]);
        let mut numbers: Vec<i32> = fds.flatten().map(Fd::raw).collect();
        numbers.sort_unstable();
        // Without a child they end here.
        let _ = mote_sys::process::leave_to_child(&numbers);
        drop(in_turn);
        return end(others);
    }
    let mut waiting: Vec<Link> = links.into_iter().filter(|link| link.ending != Ending::AtOnce).collect();
    let each = waiting.len().div_ceil(ENDINGS);
    std::thread::scope(|scope| {
        while !waiting.is_empty() {
            let part = waiting.split_off(waiting.len().saturating_sub(each));
            // Without a thread the part is dropped at once.
            let _ = std::thread::Builder::new().spawn_scoped(scope, move || drop(part));
        }
    });
}

/// Attaches to a tracepoint by its name, or by the BTF type that the program was loaded for. `event` is for the error.
///
/// # Errors
/// [`Error::Privilege`], [`Error::Attach`].
pub fn tracepoint(program: &Program, event: &str, name: Option<&str>) -> Result<Link, Error> {
    let name = name.map(|name| CString::new(name).map_err(|_| failed(event, Errno(libc::EINVAL))));
    let name = name.transpose()?;
    let link = link::raw_tracepoint(program.fd(), name.as_deref()).map_err(|errno| failed(event, errno))?;
    Ok(Link { link, ending: Ending::AtOnce, event: None, process: None })
}

/// The entry or the return of the function for which the program was loaded.
pub(crate) fn function(program: &Program, event: &str) -> Result<Link, Error> {
    let refused = |errno: Errno| {
        let hint = match errno.0 {
            libc::EBUSY => "the kernel has no place for programs there (notrace), or something else is there",
            ENOTSUPP => {
                "no programs are attached to functions on this kernel and CPU, or not to those of more than 6 \
                 arguments (before Linux 6.6); `kprobe:` needs neither"
            }
            libc::E2BIG => "the function has 38 programs attached already, the most that are possible",
            _ => return failed(event, errno),
        };
        Error::Attach { event: event.to_owned(), errno, hint }
    };
    let link = link::raw_tracepoint(program.fd(), None).map_err(refused)?;
    Ok(Link { link, ending: Ending::Waits, event: None, process: None })
}

/// The kernel's types, for probes of its functions.
pub fn types(btf: &Btf) -> KernelTypes<'_> {
    KernelTypes { btf, try_function }
}

/// A function of the kernel that is there to be probed by tests, and for nothing else (net/bpf/test_run.c).
const UNCALLED: &str = "bpf_fentry_test1";

/// Whether programs can be attached to functions: one that does nothing is attached to a function that is never called.
/// Where a right is missing nothing is tried.
///
/// # Errors
/// The kernel's answer.
///
/// # Cost
/// The first time the kernel waits some milliseconds at the end; what it has answered once stays so.
pub fn try_function(btf: &Btf) -> Result<(), Errno> {
    static ANSWER: OnceLock<Result<(), Errno>> = OnceLock::new();
    match btf.function(UNCALLED).filter(|_| privilege::check().is_none()) {
        Some(btf_id) => *ANSWER.get_or_init(|| try_once(btf_id)),
        None => Ok(()),
    }
}

fn try_once(btf_id: u32) -> Result<(), Errno> {
    let mut b = Builder::new();
    b.exit_with(0);
    let insns = b.finish().map_err(|_| Errno(libc::EINVAL))?;
    let tried = Program::load(UNCALLED, Kind::Function { btf_id, returns: false }, &insns, &[])
        .and_then(|program| function(&program, UNCALLED));
    match tried {
        Err(Error::Attach { errno, .. } | Error::Verifier { errno, .. }) if errno.0 != libc::E2BIG => {
            Err(errno)
        }
        _ => Ok(()),
    }
}

/// What a hook that is no tracepoint says; a probe of a program in this process only, if one is given.
pub(crate) fn perf(program: &Program, event: &str, hook: &Hook, process: Option<u32>) -> Result<Link, Error> {
    let fail = |errno| failed(event, errno);
    let source = match hook {
        Hook::Tracepoint { id, .. } => perf::tracepoint(*id).map_err(fail)?,
        Hook::Uprobe { path, offset, semaphore, returns } => {
            uprobe(path, *offset, *semaphore, *returns, process).map_err(fail)?
        }
        Hook::Kprobe { function, offset, returns } => kprobe(function, *offset, *returns).map_err(fail)?,
        _ => return Err(Error::event(event, "it is not attached by perf_event_open(2)")),
    };
    let link = link::perf_event(program.fd(), &source, 0).map_err(fail)?;
    let ending = if matches!(hook, Hook::Tracepoint { .. }) { Ending::InTurn } else { Ending::Waits };
    Ok(Link { link, ending, event: Some(source), process })
}

fn uprobe(path: &Path, offset: u64, counter: u64, returns: bool, process: Option<u32>) -> Result<Fd, Errno> {
    let unit = unit(UPROBE_UNIT)?;
    let path = pinned::opened(path);
    let path = CString::new(path.as_os_str().as_bytes()).map_err(|_| Errno(libc::EINVAL))?;
    perf::uprobe(&Uprobe { unit, path: &path, offset, counter, returns, process })
}

fn kprobe(function: &str, offset: u64, returns: bool) -> Result<Fd, Errno> {
    let unit = unit(KPROBE_UNIT)?;
    let function = CString::new(function).map_err(|_| Errno(libc::EINVAL))?;
    perf::kprobe(&Kprobe { unit, function: &function, offset, returns })
}

/// Most probes of one link.
const PLACES_MAX: usize = 256;

/// Many places of one file, in one process or in all; each program run finds the place's cookie.
pub(crate) fn uprobes(
    program: &Program,
    event: &str,
    path: &Path,
    mut places: &[Place],
    returns: bool,
    process: Option<u32>,
) -> Result<Vec<Link>, Error> {
    let path = pinned::opened(path);
    let path = CString::new(path.as_os_str().as_bytes()).map_err(|_| failed(event, Errno(libc::EINVAL)))?;
    let mut links = Vec::new();
    while !places.is_empty() {
        let (link, taken) = link::uprobes::<PLACES_MAX>(program.fd(), &path, places, returns, process)
            .map_err(|errno| failed(event, errno))?;
        links.push(Link { link, ending: Ending::Waits, event: None, process });
        places = places.get(taken..).unwrap_or_default();
    }
    Ok(links)
}

fn unit(file: &str) -> Result<u32, Errno> {
    let unit = std::fs::read_to_string(file).ok().and_then(|text| text.trim().parse().ok());
    unit.ok_or(Errno(libc::ENOSYS))
}

fn failed(event: &str, errno: Errno) -> Error {
    if let Some(missing) = privilege::of(errno, "attach programs to kernel events") {
        return Error::Privilege(missing);
    }
    let hint = match errno.0 {
        libc::ESRCH => "the process has ended",
        libc::ENOENT => "this kernel has no such event, or the file is not there",
        libc::ENOSYS => "this kernel has no such probes (CONFIG_UPROBE_EVENTS, CONFIG_KPROBE_EVENTS)",
        libc::EMFILE => "raise the limit of open files (ulimit -n)",
        libc::EINVAL => {
            "no instruction begins there, the kernel forbids a probe there, or the kernel is older than 5.15"
        }
        ENOTSUPP => "the kernel cannot put a probe on the instruction that is there",
        _ => "see `mote doctor`",
    };
    Error::Attach { event: event.to_owned(), errno, hint }
}
