//! Other programs in the place of those that run, in one step.
//!
//! ```text
//! hook ─▶ program of generation 1 ── the word says 1 ─▶ records
//!                  └ it says n ─▶ entry n & 1 of its array ─▶ program of generation n
//! ```
//! At each place one program is attached, and stays so while its place is wanted. New ones are put into its array; then
//! the word [`mote_generate::state::ENABLED`] is set to their generation. Each event meets one attached program, which
//! looks at the word once: so it is recorded by the rules before or by those after, and never by both or none. Places
//! that are new are attached with programs of the new generation, which do nothing before the word says so; places that
//! are not wanted any more are detached when it has said so.
//!
//! One exception: where a place changes hands (a probe that was one of a group, a set of system calls that is parted
//! otherwise) two programs look at the word one after the other, and an event of that very moment may be recorded
//! twice, or not.
//!
//! # Cost
//! A tail call for each event, after the first change; before it none.

use super::add;
use super::place::{Entry, end, grace};
use super::state::Kernel;
use crate::Error;
use crate::map::Map;
use mote_generate::Chosen;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// See [`Kernel::replace`].
pub(super) fn replace(kernel: &Kernel, events: &[Chosen], maps: Vec<Arc<Map>>) -> Result<(), Error> {
    let before = kernel.generation.load(Ordering::Relaxed);
    let old_maps = kernel.set_maps(maps);
    let (known, refused) = {
        let mut attached = kernel.attached();
        (attached.entries.len(), std::mem::take(&mut attached.refused))
    };
    kernel.generation.store(before + 1, Ordering::Relaxed);
    let made = add::events(kernel, events);
    let mut attached = kernel.attached();
    let new = |id: u16| !refused.iter().any(|old| old.id == id);
    let made = made.and_then(|()| match attached.refused.iter().position(|one| new(one.id)) {
        Some(at) => Err(attached.refused.swap_remove(at).why),
        None => Ok(()),
    });
    if let Err(why) = made {
        kernel.generation.store(before, Ordering::Relaxed);
        kernel.set_maps(old_maps);
        attached.refused = refused;
        let unwanted = attached.entries.split_off(known);
        for entry in attached.entries.iter_mut().filter(|entry| entry.generation != before) {
            entry.clear(before + 1);
            entry.generation = before;
        }
        drop(attached);
        end(unwanted);
        return Err(why);
    }
    if kernel.state.is_enabled() {
        kernel.state.enable(before + 1);
    }
    drop(attached);
    grace();
    let mut attached = kernel.attached();
    let entries = std::mem::take(&mut attached.entries);
    let (wanted, unwanted): (Vec<Entry>, Vec<Entry>) =
        entries.into_iter().partition(|entry| entry.generation == before + 1);
    attached.missed += unwanted.iter().map(Entry::missed).sum::<u64>();
    wanted.iter().for_each(|entry| entry.clear(before));
    attached.entries = wanted;
    drop(attached);
    end(unwanted);
    Ok(())
}
