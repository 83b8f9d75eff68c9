//! Rules on events of the kernel: filters and actions inside the generated programs.
//!
//! ```text
//! rules ─ decide(event) ─▶ program, or none ──▶ session::Filter
//!                 └▶ maps ─ create ──────────▶ session::Request::maps ◀─ aggregates, for people
//! ```
//! What rules count, each program adds to in the kernel; nothing of that goes through the rings. [`shared`] is the memory that
//! these programs have in common with the traced processes.

pub mod shared;

use crate::event::Event;
use crate::session::{Error, Filter, Map};
use mote_bpf::{MapKind, MapShape};
use mote_filter::maps::{Meaning, dropped_offset};
use mote_filter::{
    Aggregate, Compiled, Decision, Diagnostic, Maps, Missing, Rule, Session, SharedNames, Side, compile,
};
use mote_layout::cooperation::{SLOTS, area_bytes};
use mote_layout::parse::parse;
use mote_sys::bpf::{Create, MMAPABLE, MapType};
use shared::Shared;
use std::sync::Arc;

/// What the rules of a recording on events of the kernel have become, and what they keep.
#[derive(Debug)]
pub struct Rules {
    maps: Maps,
    made: Vec<Arc<Map>>,
}

/// What becomes of an event.
#[derive(Clone, Debug)]
pub enum Fate {
    /// No rule is about it.
    Off,
    /// It is always recorded.
    Recorded,
    /// The filter decides, and does what else there is to do. With what the author of the rules may want to know.
    Filtered(Filter, Vec<Diagnostic>),
}

impl Rules {
    /// No event is known yet. `names` says who has which words of the memory that is shared: the session's.
    pub fn new(names: SharedNames) -> Rules {
        Rules { maps: Maps::with_names(names), made: Vec::new() }
    }

    /// Decides what becomes of an event by those of the rules that are about it.
    ///
    /// # Errors
    /// What is wrong with a rule, or that it needs more than the kernel's side can do.
    pub fn decide(&mut self, rules: &[Rule], event: &Event) -> Result<Fate, Diagnostic> {
        let text = event.description();
        let described = match parse(text.as_bytes()) {
            Ok(described) => described,
            // A description that we have made ourselves: there is nothing to filter in it.
            Err(_) => return Ok(Fate::Off),
        };
        // Nothing is emitted on this side.
        let mut session = Session { side: Side::Kernel, missing: Missing::Never, declare: &mut |_| Ok(0) };
        Ok(match compile(rules, &described, &mut session, &mut self.maps)? {
            Decision::Off => Fate::Off,
            Decision::Record => Fate::Recorded,
            Decision::Run(Compiled { insns, words, records, warnings, .. }) => {
                Fate::Filtered(Filter { insns, words, records }, warnings)
            }
        })
    }

    /// Whether the filters so far use the memory that is shared.
    pub fn uses_shared(&self) -> bool {
        self.maps.entries().iter().any(|entry| entry.meaning == Meaning::Shared)
    }

    /// Makes the maps of all filters so far, in the order in which instructions number them.
    ///
    /// # Errors
    /// [`Error::Memory`].
    pub fn create(&mut self, shared: &Shared) -> Result<Vec<Arc<Map>>, Error> {
        for entry in self.maps.entries().iter().skip(self.made.len()) {
            self.made.push(match entry.meaning {
                Meaning::Shared => shared.map().clone(),
                Meaning::Areas => Arc::new(areas(&entry.shape)?),
                _ => Arc::new(make(&entry.name, &entry.shape)?),
            });
        }
        Ok(self.made.clone())
    }

    /// Tells programs of the area of a process, whose threads have this index in the thread table.
    ///
    /// # Errors
    /// [`Error::Memory`].
    pub fn set_area(&self, index: u32, area: &Map) -> Result<(), Error> {
        let mut entries = self.maps.entries().iter().zip(&self.made);
        let Some((_, areas)) = entries.find(|(entry, _)| entry.meaning == Meaning::Areas) else { return Ok(()) };
        let failed = |errno| Error::memory("an area of a process", area_bytes(SLOTS) as u64, errno);
        areas.update(&index.to_le_bytes(), &area.raw().to_le_bytes()).map_err(failed)
    }

    /// What is counted so far.
    ///
    /// # Cost
    /// Two system calls for each key.
    pub fn aggregates(&self) -> Vec<Aggregate> {
        let dropped = self.dropped();
        let entries = self.maps.entries().iter().zip(&self.made).enumerate();
        entries
            .filter(|(_, (entry, _))| {
                matches!(entry.meaning, Meaning::Count { .. } | Meaning::Histogram { .. } | Meaning::Last { .. })
            })
            .filter_map(|(at, (entry, map))| {
                let dropped = word(&dropped, dropped_offset(at as u32) as usize);
                Aggregate::read(entry, &self.maps, &pairs(&entry.shape, map), dropped)
            })
            .collect()
    }

    /// The counters of what did not fit; empty when nothing could be too much.
    fn dropped(&self) -> Vec<u8> {
        let mut entries = self.maps.entries().iter().zip(&self.made);
        let found = entries.find(|(entry, _)| entry.meaning == Meaning::Dropped);
        found.map_or(Vec::new(), |(entry, map)| {
            let mut value = vec![0; entry.shape.value_bytes as usize];
            if map.lookup(&[0; 4], &mut value).is_ok() { value } else { Vec::new() }
        })
    }
}

/// The 64-bit number at `at`; 0 when there is none.
fn word(bytes: &[u8], at: usize) -> u64 {
    bytes.get(at..at + 8).and_then(|word| word.try_into().ok()).map_or(0, u64::from_le_bytes)
}

fn make(name: &str, shape: &MapShape) -> Result<Map, Error> {
    let map_type = match shape.kind {
        MapKind::Hash => MapType::Hash,
        MapKind::LruHash => MapType::LruHash,
        MapKind::PerCpuArray => MapType::PerCpuArray,
        MapKind::Array | MapKind::RingBuffer | MapKind::Programs => MapType::Array,
    };
    let flags = if map_type == MapType::Array && shape.entries == 1 { MMAPABLE } else { 0 };
    let MapShape { key_bytes, value_bytes, entries, .. } = *shape;
    let create = Create { map_type, key_bytes, value_bytes, entries, flags, inner: None, name };
    let bytes = u64::from(entries) * u64::from(key_bytes + value_bytes);
    Map::make(&create).map_err(|errno| Error::memory("a map of rules", bytes, errno))
}

/// The areas of processes, none of them there.
fn areas(shape: &MapShape) -> Result<Map, Error> {
    let bytes = area_bytes(SLOTS) as u32;
    let failed = |errno| Error::memory("the table of areas", u64::from(shape.entries) * 8, errno);
    let array = Create {
        map_type: MapType::Array,
        key_bytes: 4,
        value_bytes: bytes,
        entries: 1,
        flags: MMAPABLE,
        inner: None,
        name: "area",
    };
    let like = Map::make(&array).map_err(failed)?;
    let table = Create {
        map_type: MapType::ArrayOfMaps,
        value_bytes: 4,
        entries: shape.entries,
        flags: 0,
        inner: Some(&like),
        name: "areas",
        ..array
    };
    Map::make(&table).map_err(failed)
}

/// Copies of a map's keys and values. Programs go on meanwhile: what comes while this reads may or may not be there.
fn pairs(shape: &MapShape, map: &Map) -> Vec<(Vec<u8>, Vec<u8>)> {
    let mut pairs: Vec<(Vec<u8>, Vec<u8>)> = Vec::new();
    let mut key = vec![0; shape.key_bytes as usize];
    while pairs.len() < shape.entries as usize {
        let before = pairs.last().map(|(key, _)| key.as_slice());
        if map.next_key(before, &mut key).is_err() {
            break;
        }
        let mut value = vec![0; shape.value_bytes as usize];
        // Nobody takes keys away; if somebody did, it would count as 0.
        let _ = map.lookup(&key, &mut value);
        pairs.push((key.clone(), value));
    }
    pairs
}

#[cfg(test)]
mod tests;
