//! What a recording holds: programs, maps, rings, threads.

use super::place::Entry;
use super::probe_scope::ProbeScope;
use super::request::Refused;
use crate::attach::Link;
use crate::births::Born;
use crate::load::Program;
use crate::map::{Map, State};
use mote_generate::Plan;
use mote_ring::reader::Channel;
use std::sync::atomic::AtomicU32;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Programs and where they are attached.
#[derive(Debug, Default)]
pub(super) struct Attached {
    pub(super) links: Vec<Link>,
    pub(super) programs: Vec<Program>,
    pub(super) refused: Vec<Refused>,
    /// What forgets threads, when the thread table is kept.
    pub(super) forgets: Option<(Link, Program)>,
    /// Where programs of events are.
    pub(super) entries: Vec<Entry>,
    /// What programs missed that are not there any more.
    pub(super) missed: u64,
}

impl Attached {
    /// What ends with it.
    pub(super) fn links(&self) -> impl Iterator<Item = &Link> {
        self.links.iter().chain(self.entries.iter().flat_map(|entry| entry.links()))
    }
}

impl Drop for Attached {
    fn drop(&mut self) {
        let mut links = std::mem::take(&mut self.links);
        links.extend(self.entry_links());
        crate::attach::end(links);
    }
}

/// A recording of kernel events.
///
/// # Cost
/// Dropping it detaches everything: at once, but for trace events of tracefs, of which each takes the kernel some 50
/// ms; see [`Kernel::left_behind`].
#[derive(Debug)]
pub struct Kernel {
    pub(super) attached: Mutex<Attached>,
    /// Run in the recorder's own thread: tells its id and the time.
    pub(super) test_run: Program,
    pub(super) channel: Arc<Channel>,
    pub(super) rings: Map,
    pub(super) state: Arc<State>,
    /// Of the filters.
    pub(super) maps: Mutex<Vec<Arc<Map>>>,
    /// Where code is probed.
    pub(super) scope: ProbeScope,
    pub(super) plan: Plan,
    /// That of the newest programs.
    pub(super) generation: AtomicU32,
    pub(super) births: Mutex<Births>,
}

/// Threads with other ids than the recorder has for them, which the recorder has not fetched yet.
#[derive(Debug, Default)]
pub(super) struct Births {
    /// Found when a process was followed.
    pub(super) found: Vec<Born>,
    /// How many of the programs' were read.
    pub(super) read: u64,
}

impl Kernel {
    /// Programs, and where they are attached.
    pub(super) fn attached(&self) -> MutexGuard<'_, Attached> {
        self.attached.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
