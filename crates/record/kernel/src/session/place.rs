//! Places of programs: where each is attached, and the array with what takes its place ([`super::replace`]).

use super::state::{Attached, Kernel};
use crate::Error;
use crate::attach::{self, Link};
use crate::load::Program;
use crate::map::{Create, Map, MapType};
use mote_catalog::event::Hook;
use mote_generate::Access;
use mote_generate::Plan;
use mote_sys::bpf::link;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

/// Longer than any program runs.
const GRACE: Duration = Duration::from_millis(20);

/// Where programs are attached.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// At one hook. All system calls of one side have one.
    Hook(Hook, Access),
    /// At many places of a file; whether at the return.
    Probes(PathBuf, bool, Vec<link::Place>),
}

/// A place with its programs.
#[derive(Debug)]
pub(super) struct Entry {
    pub(super) place: Place,
    pub(super) links: Vec<Link>,
    /// What is attached.
    pub(super) program: Program,
    /// What has taken its place.
    newer: Option<Program>,
    array: Arc<Map>,
    /// The newest generation that has a program here.
    pub(super) generation: u32,
}

/// Where a program is going to be.
#[derive(Debug)]
pub(super) struct Next {
    place: Place,
    /// The entry that is there already.
    known: Option<usize>,
    /// The programs that take its place one day.
    pub(super) array: Arc<Map>,
}

impl Next {
    /// How the place's programs find their fields.
    pub(super) fn access(&self) -> Access {
        match &self.place {
            Place::Hook(_, access) => *access,
            Place::Probes(..) => Access::Probe,
        }
    }
}

impl Entry {
    /// How often its programs were due and did not run.
    pub(super) fn missed(&self) -> u64 {
        self.program.missed() + self.newer.as_ref().map_or(0, Program::missed)
    }

    /// What holds it in its place.
    pub(super) fn links(&self) -> impl Iterator<Item = &Link> {
        self.links.iter()
    }

    /// The file whose code is probed.
    pub(super) fn path(&self) -> Option<&Path> {
        match &self.place {
            Place::Hook(Hook::Uprobe { path, .. }, _) | Place::Probes(path, ..) => Some(path),
            Place::Hook(..) => None,
        }
    }

    pub(super) fn clear(&self, generation: u32) {
        // There may be none.
        let _ = self.array.delete(&slot(generation));
    }
}

/// The place of a generation in the array.
fn slot(generation: u32) -> [u8; 4] {
    (generation & 1).to_le_bytes()
}

impl Attached {
    /// Takes the links of all entries.
    pub(super) fn entry_links(&mut self) -> Vec<Link> {
        self.entries.drain(..).flat_map(|entry| entry.links).collect()
    }
}

impl Kernel {
    /// The plan of the programs that are being made.
    pub(super) fn plan(&self) -> Plan {
        Plan { generation: self.generation.load(Ordering::Relaxed), ..self.plan.clone() }
    }

    /// Maps of the filters.
    pub(super) fn maps(&self) -> Vec<Arc<Map>> {
        self.maps.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(super) fn set_maps(&self, maps: Vec<Arc<Map>>) -> Vec<Arc<Map>> {
        std::mem::replace(&mut *self.maps.lock().unwrap_or_else(PoisonError::into_inner), maps)
    }
}

/// Where a program that is about to be made will be.
///
/// # Errors
/// [`Error::Memory`].
pub(super) fn next(kernel: &Kernel, place: Place) -> Result<Next, Error> {
    let generation = kernel.generation.load(Ordering::Relaxed);
    let attached = kernel.attached();
    let is_free = |entry: &Entry| entry.place == place && entry.generation != generation;
    let known = attached.entries.iter().position(is_free);
    let array = match known.and_then(|at| attached.entries.get(at)) {
        Some(entry) => entry.array.clone(),
        None => Arc::new(array()?),
    };
    Ok(Next { place, known, array })
}

fn array() -> Result<Map, Error> {
    let create = Create {
        map_type: MapType::ProgramArray,
        key_bytes: 4,
        value_bytes: 4,
        entries: 2,
        flags: 0,
        inner: None,
        name: "mote_next",
    };
    Map::make(&create).map_err(|errno| Error::memory("a table of programs", 8, errno))
}

/// Puts a program, which was loaded with the array of `next`, where it belongs.
///
/// # Errors
/// Why it cannot be attached.
pub(super) fn put(
    kernel: &Kernel,
    next: Next,
    name: &str,
    program: Program,
    attach: impl FnOnce(&Program) -> Result<Vec<Link>, Error>,
) -> Result<(), Error> {
    let generation = kernel.generation.load(Ordering::Relaxed);
    let Next { place, known, array } = next;
    let mut attached = kernel.attached();
    let Some(entry) = known.and_then(|at| attached.entries.get_mut(at)) else {
        drop(attached);
        let links = attach(&program)?;
        let entry = Entry { place, links, program, newer: None, array, generation };
        kernel.attached().entries.push(entry);
        return Ok(());
    };
    let put = array.update(&slot(generation), &program.fd().raw().to_le_bytes());
    put.map_err(|errno| {
        Error::event(name, format!("its new program cannot take the place of the old one: {errno}"))
    })?;
    entry.generation = generation;
    let missed = entry.newer.replace(program).map_or(0, |old| old.missed());
    attached.missed += missed;
    Ok(())
}

/// Returns when the programs that were running have ended.
pub(super) fn grace() {
    if mote_sys::membarrier::global().is_err() {
        std::thread::sleep(GRACE);
    }
}

/// Detaches, without waiting for it: these programs do nothing any more.
pub(super) fn end(entries: Vec<Entry>) {
    if entries.is_empty() {
        return;
    }
    let links = entries.into_iter().flat_map(|entry| entry.links).collect();
    // Without a thread they end here and now.
    let _ = std::thread::Builder::new().name("mote-detach".to_owned()).spawn(move || attach::end(links));
}
