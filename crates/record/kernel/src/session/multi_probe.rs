//! Probes of one file whose events have the same fields: one program, one attachment.
//!
//! Probes that are attached one by one also end one by one, and the kernel waits each time until no CPU can be in their
//! programs any more: a hundred of them take seconds.

use super::state::Kernel;
use super::{place, probe_scope};
use crate::Error;
use crate::attach;
use crate::load::{Kind, Program};
use mote_catalog::event::{Field, Hook};
use mote_generate::Chosen;
use mote_sys::bpf::link::Place;
use std::path::PathBuf;

/// Events that differ in their place only.
struct Group<'c> {
    path: &'c PathBuf,
    returns: bool,
    fields: &'c [Field],
    members: Vec<&'c Chosen>,
}

/// Attaches those of `events` that can be attached together; returns the others.
///
/// # Errors
/// [`Error::Privilege`].
pub(super) fn attach<'c>(kernel: &Kernel, events: Vec<&'c Chosen>) -> Result<Vec<&'c Chosen>, Error> {
    let mut groups: Vec<Group<'c>> = Vec::new();
    let mut rest = Vec::new();
    for one in events {
        let Hook::Uprobe { path, returns, .. } = &one.event.hook else {
            rest.push(one);
            continue;
        };
        let (returns, fields) = (*returns, one.event.fields.as_slice());
        let fits =
            |group: &&mut Group<'_>| group.path == path && group.returns == returns && group.fields == fields;
        if one.filter.is_some() || !kernel.scope.takes_groups(path) {
            rest.push(one);
        } else if let Some(group) = groups.iter_mut().find(fits) {
            group.members.push(one);
        } else {
            groups.push(Group { path, returns, fields, members: vec![one] });
        }
    }
    for group in groups {
        match group.attach(kernel) {
            Ok(true) => {}
            Err(why @ Error::Privilege(_)) => return Err(why),
            // An older kernel, or one of the places cannot be probed: each by itself tells which.
            Ok(false) | Err(_) => rest.extend(group.members),
        }
    }
    Ok(rest)
}

impl Group<'_> {
    fn attach(&self, kernel: &Kernel) -> Result<bool, Error> {
        let Some(first) = self.members.first() else { return Ok(false) };
        let name = &first.event.name;
        let generated = mote_generate::multi_probe::program(&kernel.plan(), &first.event)?;
        let places: Vec<Place> = self.members.iter().filter_map(|one| place(one)).collect();
        let next =
            place::next(kernel, place::Place::Probes(self.path.clone(), self.returns, places.clone()))?;
        let maps = [kernel.state.map(), &kernel.rings, &*next.array];
        let program = Program::load(name, Kind::Probes, &generated.insns, &maps)?;
        place::put(kernel, next, name, program, |program| {
            probe_scope::everywhere(kernel, self.path, |process| {
                attach::uprobes(program, name, self.path, &places, self.returns, process)
            })
        })?;
        Ok(true)
    }
}

fn place(chosen: &Chosen) -> Option<Place> {
    match chosen.event.hook {
        Hook::Uprobe { offset, semaphore, .. } => {
            Some(Place { offset, counter: semaphore, cookie: u64::from(chosen.id) })
        }
        _ => None,
    }
}
