//! Rules on events of the kernel: filters and actions inside the generated programs.
//!
//! ```text
//! rules ─ decide(event) ─▶ program, or none ──▶ session::Filter
//!                 └▶ maps ─ create ──────────▶ session::Request::maps ◀─ aggregates, for people
//! ```
//! What rules count, each program adds to in the kernel; nothing of that goes through the rings. [`shared`] is the
//! memory that these programs have in common with the traced processes.

pub mod shared;

use crate::Error;
use crate::map::Map;
use mote_bpf::op::{self, Op};
use mote_bpf::{Insn, MapKind, MapShape, helper};
use mote_catalog::event::{Event, Type};
use mote_filter::ContextWord;
use mote_filter::maps::{Entry, Meaning, dropped_offset};
use mote_filter::{
    Aggregate, Compiled, Decision, Diagnostic, Kind, Maps, Missing, Rule, Session, SharedNames, Side, compile,
};
use mote_generate::{FILTER_WORDS_MAX, Filter, Outcome, names_threads};
use mote_layout::cooperation::{SLOTS, area_bytes};
use mote_layout::parse::parse;
use mote_layout::tracer;
use mote_sys::bpf::{Create, MMAPABLE, MapType};
use shared::Shared;
use std::sync::Arc;

/// What the rules of a recording on events of the kernel have become, and what they keep.
#[derive(Debug)]
pub struct Rules {
    maps: Maps,
    made: Vec<Arc<Map>>,
}

impl Rules {
    /// No event is known yet. `names` are the session's: which words of the shared memory have which name.
    pub fn new(names: SharedNames) -> Rules {
        Rules { maps: Maps::with_names(names), made: Vec::new() }
    }

    /// Decides what becomes of an event by those of the rules that are about it. Those that do not fit it, because it
    /// has another type of field by the name, are left out. With that, and with what else the author of the rules may
    /// want to know.
    ///
    /// # Errors
    /// When they are more than a program can hold.
    pub fn decide(
        &mut self,
        rules: &[Rule],
        event: &Event,
    ) -> Result<(Outcome, Vec<Diagnostic>), Diagnostic> {
        let mut warnings = Vec::new();
        match self.with_foreign(rules, event, &mut warnings) {
            Ok(outcome) => return Ok((outcome, warnings)),
            Err(problem) if problem.kind() == Kind::TooLarge => return Err(problem),
            Err(_) => {}
        }
        let mut fitting = Vec::new();
        for rule in rules {
            match self.outcome(std::slice::from_ref(rule), event, &mut Vec::new()) {
                Ok(_) => fitting.push(rule.clone()),
                Err(problem) => warnings.push(problem),
            }
        }
        let outcome = self.with_foreign(&fitting, event, &mut warnings)?;
        Ok((outcome, warnings))
    }

    /// The outcome by rules that fit; and, where it differs, that on an event which happens in another thread than the
    /// one that it is chosen for, whose contexts are absent.
    fn with_foreign(
        &mut self,
        rules: &[Rule],
        event: &Event,
        warnings: &mut Vec<Diagnostic>,
    ) -> Result<Outcome, Diagnostic> {
        let mut outcome = self.outcome(rules, event, warnings)?;
        if let Outcome::Filtered(filter) = &mut outcome
            && names_threads(event)
            && rules.iter().any(Rule::names_thread)
        {
            let left: Vec<Rule> = rules.iter().filter_map(Rule::without_thread).collect();
            filter.foreign = Some(Box::new(self.outcome(&left, event, &mut Vec::new())?));
        }
        Ok(outcome)
    }

    /// What becomes of `event` by all of `rules` together.
    fn outcome(
        &mut self,
        rules: &[Rule],
        event: &Event,
        warnings: &mut Vec<Diagnostic>,
    ) -> Result<Outcome, Diagnostic> {
        let text = event.description();
        // We have made it ourselves.
        let Ok(described) = parse(text.as_bytes()) else { return Ok(Outcome::Off) };
        // Nothing is emitted on this side.
        let mut session = Session { side: Side::Kernel, missing: Missing::Never, declare: &mut |_| Ok(0) };
        Ok(match compile(rules, &described, &mut session, &mut self.maps)? {
            Decision::Off => Outcome::Off,
            Decision::Record => Outcome::Recorded,
            Decision::Run(Compiled { insns, words, records, warnings: new, .. }) => {
                warnings.extend(new);
                Outcome::Filtered(Filter { insns, words, records, foreign: None })
            }
        })
    }

    /// The name of an event that programs have a number for.
    pub fn event(&self, number: u64) -> Option<&str> {
        self.maps.event(number)
    }

    /// The pattern of functions that programs have a number for.
    pub fn function_pattern(&self, number: u64) -> Option<&str> {
        self.maps.function_pattern(number)
    }

    /// The maps, for filters that were compiled elsewhere (objects of clang).
    pub fn maps_mut(&mut self) -> &mut Maps {
        &mut self.maps
    }

    /// A program that was compiled elsewhere as the filter of an event: its context is the words of all the event's
    /// fields, in order.
    ///
    /// # Errors
    /// Why it cannot run in the kernel.
    pub fn program(&self, insns: &[Insn], event: &Event) -> Result<Filter, String> {
        if let Some(id) = calls(insns).find(|id| *id >= USER_ONLY) {
            let known = tracer::HELPERS.iter().chain(helper::BUILTIN).find(|helper| helper.id == id);
            let name = known.map_or("a helper", |helper| helper.name);
            return Err(format!("it calls the helper {name} ({id}), which exists only in traced processes"));
        }
        let unmade = |entry: &&Entry| matches!(entry.shape.kind, MapKind::RingBuffer | MapKind::Programs);
        if let Some(entry) = self.maps.entries().iter().find(unmade) {
            return Err(format!("its map {} is of a kind that filters do not have there", entry.name));
        }
        let words: usize = event.fields.iter().map(|field| words_of(&field.ty)).sum();
        let words = (0..words.min(FILTER_WORDS_MAX)).map(|word| ContextWord::Field(word as u16)).collect();
        Ok(Filter { insns: insns.to_vec(), words, records: true, foreign: None })
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
                _ => Arc::new(make(entry)?),
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
        let Some((_, areas)) = entries.find(|(entry, _)| entry.meaning == Meaning::Areas) else {
            return Ok(());
        };
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
            .filter(|(_, (entry, _))| Aggregate::is_of(&entry.meaning))
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

/// Helpers from this number on are mote's own.
const USER_ONLY: u32 = 1000;

/// Numbers of the helpers that a program calls.
fn calls(insns: &[Insn]) -> impl Iterator<Item = u32> {
    (0..insns.len()).filter_map(|at| match op::decode(insns.get(at..)?) {
        Ok(Op::Call { helper }) => Some(helper),
        _ => None,
    })
}

/// How many words of a context a field has.
fn words_of(ty: &Type) -> usize {
    if matches!(ty, Type::Text | Type::FixedText(_) | Type::Sequence(..)) { 2 } else { 1 }
}

/// The 64-bit number at `at`; 0 when there is none.
fn word(bytes: &[u8], at: usize) -> u64 {
    bytes.get(at..at + 8).and_then(|word| word.try_into().ok()).map_or(0, u64::from_le_bytes)
}

fn make(entry: &Entry) -> Result<Map, Error> {
    let (name, shape) = (entry.name.as_str(), &entry.shape);
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
    let failed = |errno| Error::memory("a map of rules", bytes, errno);
    let map = Map::make(&create).map_err(failed)?;
    if !entry.initial.is_empty() {
        let mut value = entry.initial.clone();
        value.resize(value_bytes as usize, 0);
        map.update(&[0; 4], &value).map_err(failed)?;
    }
    Ok(map)
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
        // No program takes keys away; one that had gone would count as 0.
        let _ = map.lookup(&key, &mut value);
        pairs.push((key.clone(), value));
    }
    pairs
}

#[cfg(test)]
mod tests;
