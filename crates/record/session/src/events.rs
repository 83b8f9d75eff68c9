//! The event descriptions of a session, and the ids that they have.

use mote_layout::parse::{self, Description};
use mote_layout::record::ID_MAX;
use mote_pattern::{Pattern, similar};
use std::collections::{HashMap, HashSet};

/// Bytes of descriptions that a session takes; a hostile process must not fill our memory.
const DESCRIPTIONS_MAX: usize = 64 << 20;

/// The events of a session. The same description gets the same id, whichever process announces it.
#[derive(Debug, Default)]
pub struct Events {
    texts: Vec<Vec<u8>>,
    ids: HashMap<Vec<u8>, u32>,
    bytes: usize,
    /// Those that rules emit, not programs.
    emitted: HashSet<u32>,
}

/// The outcome of announcing an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Announced {
    /// It was not known before.
    New(u32),
    /// It has this id.
    Known(u32),
    /// Its description is malformed.
    Malformed(parse::Error),
    /// There are too many events.
    TooMany,
}

impl Events {
    /// Takes in a description.
    pub fn announce(&mut self, text: &[u8]) -> Announced {
        if let Err(error) = parse::parse(text) {
            return Announced::Malformed(error);
        }
        if let Some(id) = self.ids.get(text) {
            return Announced::Known(*id);
        }
        let id = self.texts.len() as u32;
        if id >= ID_MAX || self.bytes + text.len() > DESCRIPTIONS_MAX {
            return Announced::TooMany;
        }
        self.bytes += text.len();
        self.texts.push(text.to_vec());
        self.ids.insert(text.to_vec(), id);
        Announced::New(id)
    }

    /// The id of an event that is known.
    pub fn id_of(&self, text: &[u8]) -> Option<u32> {
        self.ids.get(text).copied()
    }

    /// How many there are; ids are below this.
    pub fn len(&self) -> u32 {
        self.texts.len() as u32
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.texts.is_empty()
    }

    /// Notes that rules emit an event.
    pub fn note_emitted(&mut self, id: u32) {
        self.emitted.insert(id);
    }

    /// Whether rules emit it.
    pub fn is_emitted(&self, id: u32) -> bool {
        self.emitted.contains(&id)
    }

    /// The description of an event as text.
    pub fn text(&self, id: u32) -> Option<&[u8]> {
        self.texts.get(id as usize).map(Vec::as_slice)
    }

    /// The description of an event.
    pub fn description(&self, id: u32) -> Option<Description<'_>> {
        parse::parse(self.texts.get(id as usize)?).ok()
    }

    /// All events.
    pub fn iter(&self) -> impl Iterator<Item = (u32, Description<'_>)> + Clone {
        self.from(0)
    }

    /// Those from an id on.
    pub fn from(&self, first: u32) -> impl Iterator<Item = (u32, Description<'_>)> + Clone {
        let texts = self.texts.iter().enumerate().skip(first as usize);
        texts.filter_map(|(id, text)| Some((id as u32, parse::parse(text).ok()?)))
    }

    /// Those of the patterns that match no event so far, each with the near names that there are.
    pub fn unmatched<'p>(&self, patterns: impl Iterator<Item = &'p str>) -> Vec<(&'p str, Vec<String>)> {
        let names: Vec<String> = self.iter().map(|(_, e)| format!("{}:{}", e.provider, e.name)).collect();
        let misses = patterns.filter(|text| {
            let pattern = Pattern::new(text);
            !self.iter().any(|(_, event)| pattern.matches(event.provider, event.name))
        });
        let similar =
            |text| similar(text, names.iter().map(String::as_str)).into_iter().map(str::to_owned).collect();
        misses.map(|text| (text, similar(text))).collect()
    }
}
