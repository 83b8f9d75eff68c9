//! Which events there are, their ids, and which are wanted.

use mote_layout::parse::{self, Description};
use mote_layout::record::ID_MAX;
use mote_pattern::{Pattern, near};
use mote_wire::ID_ON;
use std::collections::HashMap;

/// Bytes of descriptions that a session takes; a hostile process must not fill our memory.
const DESCRIPTIONS_MAX: usize = 64 << 20;

/// The events of a session. The same description gets the same id, whoever brings it.
#[derive(Debug, Default)]
pub(crate) struct Events {
    texts: Vec<Vec<u8>>,
    ids: HashMap<Vec<u8>, u32>,
    bytes: usize,
    include: Vec<(String, Pattern)>,
    exclude: Vec<(String, Pattern)>,
}

/// What became of an announced event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Announced {
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
    /// No events yet; those that match `include` (all, when empty) and not `exclude` are wanted.
    pub(crate) fn new(include: &[String], exclude: &[String]) -> Events {
        let patterns =
            |texts: &[String]| texts.iter().map(|text| (text.clone(), Pattern::new(text))).collect();
        Events { include: patterns(include), exclude: patterns(exclude), ..Events::default() }
    }

    /// Takes in a description.
    pub(crate) fn announce(&mut self, text: &[u8]) -> Announced {
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

    /// The word of `Message::Ids` for an event.
    pub(crate) fn word(&self, id: u32) -> u32 {
        let wanted = self.description(id).is_some_and(|event| self.is_wanted(&event));
        id | if wanted { ID_ON } else { 0 }
    }

    fn is_wanted(&self, event: &Description<'_>) -> bool {
        let hit = |(_, pattern): &(String, Pattern)| pattern.matches(event.provider, event.name);
        (self.include.is_empty() || self.include.iter().any(hit)) && !self.exclude.iter().any(hit)
    }

    /// The description of an event.
    pub(crate) fn description(&self, id: u32) -> Option<Description<'_>> {
        parse::parse(self.texts.get(id as usize)?).ok()
    }

    /// All events.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (u32, Description<'_>)> + Clone {
        self.texts.iter().enumerate().filter_map(|(id, text)| Some((id as u32, parse::parse(text).ok()?)))
    }

    /// The patterns that match no event so far, each with the near names that there are.
    pub(crate) fn unmatched(&self) -> Vec<(String, Vec<String>)> {
        let names: Vec<String> = self.iter().map(|(_, e)| format!("{}:{}", e.provider, e.name)).collect();
        let misses = self.include.iter().chain(&self.exclude).filter(|(_, pattern)| {
            !self.iter().any(|(_, event)| pattern.matches(event.provider, event.name))
        });
        misses
            .map(|(text, _)| {
                let near = near(text, names.iter().map(String::as_str));
                (text.clone(), near.into_iter().map(str::to_owned).collect())
            })
            .collect()
    }
}
