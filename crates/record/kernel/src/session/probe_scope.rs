//! In which processes code is probed.
//!
//! A probe is a breakpoint in the pages of a file: each process that maps the file runs into it and pays a trap, also
//! when its events are not wanted. So where others than the chosen processes map the file, it is probed in the chosen
//! ones only. What these fork is probed as soon as the recorder has heard of it ([`Kernel::probe_process`]): a moment
//! late, because the kernel has no attachment that children inherit. (A link of many probes is for the threads of one
//! process, and the event of perf_event_open(2) that a child inherits does not have the program.) Where no other
//! process maps the file, it is probed in all processes: that costs no other one anything, and children are probed at
//! once.

use super::place::{Entry, Place};
use super::state::Kernel;
use crate::Error;
use crate::attach::{self, Link};
use crate::load::Program;
use mote_catalog::event::Hook;
use mote_probes::pinned;
use mote_symbol::collect;
use mote_symbol::mapped::Mapped;
use mote_sys::Errno;
use mote_words::counted;
use std::collections::{HashMap, HashSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

/// The chosen processes.
#[derive(Debug, Default)]
pub(super) struct ProbeScope {
    /// Empty: each process that maps a file is probed.
    pids: Vec<u32>,
    /// How many others map a file; looked up once.
    others: Mutex<HashMap<PathBuf, usize>>,
}

impl ProbeScope {
    pub(super) fn new(pids: &[u32]) -> ProbeScope {
        ProbeScope { pids: pids.to_vec(), others: Mutex::default() }
    }

    /// Where `path` is to be probed: `None` for all processes.
    fn processes(&self, path: &Path) -> Vec<Option<u32>> {
        if self.pids.is_empty() || self.others(path) == 0 {
            return vec![None];
        }
        self.pids.iter().copied().map(Some).collect()
    }

    fn others(&self, path: &Path) -> usize {
        let mut known = self.others.lock().unwrap_or_else(PoisonError::into_inner);
        *known.entry(path.to_owned()).or_insert_with(|| others(path, &self.pids))
    }

    /// Whether probes of `path` can be attached together.
    pub(super) fn takes_groups(&self, path: &Path) -> bool {
        self.processes(path) == [None] || knows_processes()
    }

    /// What the user should know of it.
    pub(super) fn notes(&self) -> Vec<String> {
        let known = self.others.lock().unwrap_or_else(PoisonError::into_inner);
        let shared = known.iter().filter(|(_, others)| **others > 0);
        let note = |(path, others): (&PathBuf, &usize)| {
            let others = counted(*others, "other process uses", "other processes use");
            format!(
                "{others} {}: only the chosen processes are probed, and their children from a moment after the fork on",
                path.display()
            )
        };
        let mut notes: Vec<String> = shared.map(note).collect();
        notes.sort();
        notes
    }
}

/// Whether a link of many probes is for all threads of its process: since Linux 6.10 (before, only for the one thread
/// with its id).
fn knows_processes() -> bool {
    let release = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    release_of(&release) >= (6, 10)
}

fn release_of(text: &str) -> (u32, u32) {
    let mut numbers =
        text.split(|letter: char| !letter.is_ascii_digit()).map(|word| word.parse().unwrap_or(0));
    (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0))
}

/// How many processes map the file, beside these and their descendants.
fn others(path: &Path, pids: &[u32]) -> usize {
    let all: Vec<u32> = collect::processes().collect();
    let parents: HashMap<u32, u32> = all.iter().filter_map(|pid| Some((*pid, parent(*pid)?))).collect();
    let chosen: HashSet<u32> = pids.iter().copied().chain([std::process::id()]).collect();
    let is_chosen = |pid: &u32| {
        let mut line =
            std::iter::successors(Some(*pid), |pid| parents.get(pid).copied()).take(parents.len() + 1);
        line.any(|pid| chosen.contains(&pid))
    };
    let pinned = pinned::id(path);
    let is_it = |mapped: &Mapped| match pinned {
        Some(id) => mapped.file == Some(id),
        None => Path::new(&mapped.map.path) == path,
    };
    let maps = |pid: &u32| mote_symbol::mapped::code(*pid).iter().any(is_it);
    all.iter().filter(|pid| !is_chosen(pid) && maps(pid)).count()
}

fn parent(pid: u32) -> Option<u32> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // Behind the name, which may hold anything: state, parent.
    stat.rsplit_once(')')?.1.split_ascii_whitespace().nth(1)?.parse().ok()
}

/// Attaches in each process where it is wanted. Those that are gone are passed over.
///
/// # Errors
/// As `attach`.
pub(super) fn everywhere(
    kernel: &Kernel,
    path: &Path,
    attach: impl Fn(Option<u32>) -> Result<Vec<Link>, Error>,
) -> Result<Vec<Link>, Error> {
    let mut links = Vec::new();
    for process in kernel.scope.processes(path) {
        match attach(process) {
            Ok(some) => links.extend(some),
            Err(Error::Attach { errno: Errno(libc::ESRCH), .. }) if process.is_some() => {}
            Err(why) => return Err(why),
        }
    }
    Ok(links)
}

/// See [`Kernel::probe_process`].
pub(super) fn add(kernel: &Kernel, pid: u32) -> Result<bool, Error> {
    let mut attached = kernel.attached();
    let is_gone =
        |link: &Link| link.process().is_some_and(|pid| !Path::new(&format!("/proc/{pid}")).exists());
    let (mut gone, mut some) = (Vec::new(), false);
    for entry in &mut attached.entries {
        let Some(path) =
            entry.path().filter(|path| kernel.scope.processes(path) != [None]).map(Path::to_owned)
        else {
            continue;
        };
        gone.extend(entry.links.extract_if(.., |link| is_gone(link)));
        match attach_in(entry, &path, pid) {
            Ok(links) => entry.links.extend(links),
            Err(Error::Attach { errno: Errno(libc::ESRCH), .. }) => continue,
            Err(why) => return Err(why),
        }
        some = true;
    }
    drop(attached);
    if !gone.is_empty() {
        // Without a thread they end here and now.
        let _ = std::thread::Builder::new().name("mote-detach".to_owned()).spawn(move || attach::end(gone));
    }
    Ok(some)
}

fn attach_in(entry: &Entry, path: &Path, pid: u32) -> Result<Vec<Link>, Error> {
    let name = path.to_string_lossy();
    let program: &Program = &entry.program;
    match &entry.place {
        Place::Hook(hook @ Hook::Uprobe { .. }, _) => {
            Ok(vec![attach::perf(program, &name, hook, Some(pid))?])
        }
        Place::Hook(..) => Ok(Vec::new()),
        Place::Probes(path, returns, places) => {
            attach::uprobes(program, &name, path, places, *returns, Some(pid))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn releases() {
        assert_eq!(release_of("6.18.44-fc-v595\n"), (6, 18));
        assert!(release_of("6.9.0") < (6, 10) && release_of("") < (6, 10));
    }

    #[test]
    fn descendants_are_no_others() {
        let own = std::env::temp_dir().join(format!("mote-probe-scope-{}", std::process::id()));
        fs::copy("/bin/sleep", &own).expect("every machine has it");
        let path = fs::canonicalize(&own).expect("it is there");
        let until = |done: &dyn Fn() -> bool| {
            while !done() {
                std::thread::sleep(std::time::Duration::from_millis(2));
            }
        };
        let mut child = std::process::Command::new(&path).arg("60").spawn().expect("a program");
        let exe = format!("/proc/{}/exe", child.id());
        until(&|| fs::read_link(&exe).is_ok_and(|exe| exe == path));
        assert_eq!(others(&path, &[]), 0, "a child of this process");
        // The shell ends, and init becomes its child's parent.
        let script = format!("{} 600 > /dev/null 2>&1 & echo $!", path.display());
        let left = std::process::Command::new("sh").args(["-c", &script]).output().expect("a shell");
        until(&|| others(&path, &[]) == 1);
        let pid = String::from_utf8(left.stdout).expect("a number");
        let killed =
            std::process::Command::new("kill").arg(pid.trim()).status().expect("every machine has it");
        assert!(killed.success());
        until(&|| others(&path, &[]) == 0);
        child.kill().expect("it runs");
        child.wait().expect("it ends");
        fs::remove_file(&own).expect("it is there");
    }
}
