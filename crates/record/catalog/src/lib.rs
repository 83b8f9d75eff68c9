//! What events this kernel has: names, types, families.
//!
//! ```text
//! tracefs: formats ─┐
//! BTF: structures ──┼▶ Catalog ─ select(patterns) ─▶ Event
//! system calls ─────┘
//! ```
//! Names are LTTng's where lttng-modules has the event, and the kernel's own are understood as well. Of what happens
//! often the definition is written down (`hot`); everything else comes from tracefs as it is. Without BTF everything
//! does; without tracefs there are the events that are written down, and the system calls without the types of their
//! arguments.
#![forbid(unsafe_code)]

mod arch;
pub mod btf;
mod describe;
pub mod event;
mod family;
pub mod format;
mod hot;
mod labels;
mod names;
mod pattern;
mod print;
pub mod stack;
mod structure;
mod syscall;
pub mod tracefs;

use crate::event::{Event, Hook};
use btf::Btf;
pub use family::{FAMILIES, Family};
pub use pattern::Unmatched;
use std::collections::BTreeMap;
use syscall::Syscall;
use tracefs::Tracefs;

/// Systems of tracefs whose events are no tracepoints, or the same as events that are here already.
const NOT_HERE: [&str; 2] = ["ftrace", "syscalls"];

/// All events of a kernel, by name; their fields are read when they are selected.
#[derive(Debug)]
pub struct Catalog {
    tracefs: Option<Tracefs>,
    btf: Option<Btf>,
    entries: Vec<Entry>,
    notes: Vec<String>,
    durations: bool,
}

/// An event's names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The family.
    pub family: String,
    /// The system of tracefs.
    pub system: String,
    /// LTTng's name, which is the one in the trace.
    pub name: String,
    /// The kernel's name.
    pub kernel_name: String,
    kind: Kind,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Kind {
    Traced,
    Entry(Syscall),
    Exit(Syscall),
}

/// What has been selected.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Selection {
    /// The events, each once, by family and name.
    pub events: Vec<Event>,
    /// Which fit as well, but cannot be had, and why.
    pub left_out: Vec<String>,
}

/// A family, or a system that is in none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Group {
    /// Its name.
    pub name: String,
    /// What it is about; empty for systems that are in no family.
    pub about: &'static str,
    /// How many events.
    pub events: usize,
}

impl Catalog {
    /// What the running kernel has. What is missing is in [`Catalog::notes`].
    pub fn open() -> Catalog {
        let (mut missing, mut notes) = (Vec::new(), Vec::new());
        let tracefs = Tracefs::open().map_err(|why| missing.push(format!(
            "no tracefs ({why}): only the scheduler's and other frequent events, and system calls without the types \
             of their arguments"
        )));
        let btf = Btf::of_kernel().map_err(|why| missing.push(format!(
            "no BTF ({why}): all events are taken from tracefs, which costs more for each, and some have the kernel's \
             names and values instead of LTTng's"
        )));
        let mut catalog = Catalog::with(tracefs.ok(), btf.ok());
        notes.append(&mut missing);
        notes.append(&mut catalog.notes);
        Catalog { notes, ..catalog }
    }

    /// The events that these sources describe; without either, those that are written down here.
    pub fn with(tracefs: Option<Tracefs>, btf: Option<Btf>) -> Catalog {
        let (mut entries, mut notes) = (Vec::new(), Vec::new());
        let mut calls = syscall::all();
        match &tracefs {
            Some(tracefs) => match traced(tracefs) {
                Ok((found, traced_calls)) => {
                    entries = found;
                    if !traced_calls.is_empty() {
                        calls.retain(|call| traced_calls.binary_search(&call.name).is_ok());
                    }
                }
                Err(why) => notes.push(format!("the events of tracefs cannot be listed: {why}")),
            },
            None => entries.extend(hot::all().map(|(system, name)| entry(system, name))),
        }
        for call in calls {
            let system = syscall::FAMILY;
            let of = |way: &str, kernel: &str, kind| Entry {
                family: system.to_owned(),
                system: system.to_owned(),
                name: format!("syscall_{way}_{}", call.name),
                kernel_name: format!("{kernel}_{}", call.name),
                kind,
            };
            entries.push(of("entry", "sys_enter", Kind::Entry(call.clone())));
            entries.push(of("exit", "sys_exit", Kind::Exit(call.clone())));
        }
        entries.sort_by(|a, b| (&a.family, &a.name, &a.system).cmp(&(&b.family, &b.name, &b.system)));
        entries.dedup_by(|a, b| a.family == b.family && a.name == b.name);
        Catalog { tracefs, btf, entries, notes, durations: false }
    }

    /// The same, with the field `duration_ns` at the return of system calls.
    #[must_use]
    pub fn with_durations(self) -> Catalog {
        Catalog { durations: true, ..self }
    }

    /// What this kernel does not tell, or not to us, and what that costs.
    pub fn notes(&self) -> &[String] {
        &self.notes
    }

    /// The kernel's types; `None` when the kernel does not carry BTF.
    pub fn btf(&self) -> Option<&Btf> {
        self.btf.as_ref()
    }

    /// The names of all events, by family and name.
    pub fn entries(&self) -> &[Entry] {
        &self.entries
    }

    /// The families, then the systems that are in none, with how many events they have.
    pub fn groups(&self) -> Vec<Group> {
        let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
        for entry in &self.entries {
            *counts.entry(&entry.family).or_default() += 1;
        }
        let mut groups = Vec::new();
        for family in &FAMILIES {
            let events = counts.remove(family.name).unwrap_or(0);
            groups.push(Group { name: family.name.to_owned(), about: family.about, events });
        }
        let rest = counts.into_iter();
        groups.extend(rest.map(|(name, events)| Group { name: name.to_owned(), about: "", events }));
        groups
    }

    /// The events that fit one of these patterns.
    ///
    /// # Errors
    /// [`Unmatched`], when one of them fits none.
    pub fn select(&self, patterns: &[impl AsRef<str>]) -> Result<Selection, Unmatched> {
        let chosen = pattern::select(&self.entries, patterns)?;
        let mut selection = Selection::default();
        for entry in chosen {
            match self.event(entry) {
                Ok(event) => selection.events.push(event),
                Err(why) => selection.left_out.push(why.to_string()),
            }
        }
        Ok(selection)
    }

    /// The event of an entry.
    ///
    /// # Errors
    /// What is wrong with its format.
    pub fn event(&self, entry: &Entry) -> Result<Event, tracefs::Error> {
        match &entry.kind {
            Kind::Exit(call) => Ok(call.exit(self.durations)),
            Kind::Entry(call) => {
                let format =
                    self.tracefs.as_ref().map(|tracefs| tracefs.format("syscalls", &entry.kernel_name));
                Ok(call.entry(format.transpose()?.as_ref()))
            }
            Kind::Traced => {
                let btf = self.btf.as_ref();
                match btf.and_then(|btf| hot::event(btf, &entry.system, &entry.kernel_name)) {
                    Some(event) => Ok(event),
                    None => self.traced(entry),
                }
            }
        }
    }

    /// An event as tracefs tells it.
    fn traced(&self, entry: &Entry) -> Result<Event, tracefs::Error> {
        let Some(tracefs) = &self.tracefs else {
            return Err(tracefs::Error::None { event: format!("{}/{}", entry.system, entry.kernel_name) });
        };
        let format = tracefs.format(&entry.system, &entry.kernel_name)?;
        let mut fields: Vec<_> = format.fields.into_iter().map(|(field, _)| field).collect();
        for field in &mut fields {
            field.name = names::field(&entry.system, &field.name);
        }
        Ok(Event {
            provider: entry.family.clone(),
            name: entry.name.clone(),
            fields,
            hook: Hook::Tracepoint { path: format!("{}/{}", entry.system, entry.kernel_name), id: format.id },
        })
    }
}

fn entry(system: &str, name: &str) -> Entry {
    Entry {
        family: family::of(system, name).to_owned(),
        system: system.to_owned(),
        name: names::event(system, name),
        kernel_name: name.to_owned(),
        kind: Kind::Traced,
    }
}

/// The events of tracefs, and the names of the system calls that it has events of.
fn traced(tracefs: &Tracefs) -> std::io::Result<(Vec<Entry>, Vec<String>)> {
    let mut entries = Vec::new();
    for system in tracefs.systems()? {
        if !NOT_HERE.contains(&system.as_str()) {
            entries.extend(tracefs.events(&system)?.iter().map(|name| entry(&system, name)));
        }
    }
    let calls = tracefs.events("syscalls").unwrap_or_default();
    let calls = calls.iter().filter_map(|name| name.strip_prefix("sys_enter_").map(str::to_owned));
    Ok((entries, calls.collect()))
}

#[cfg(test)]
mod tests;
