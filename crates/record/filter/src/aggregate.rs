//! What programs kept, read back: copies of maps become tables, histograms and lists.

mod histogram;
mod json;
mod show;
mod sum;
mod table;
mod value;

pub use histogram::Histogram;
pub use sum::{Pair, Sum};
pub use table::{Row, Table};
pub use value::Value;

use crate::maps::{Entry, Maps, Meaning};

/// The content of a map, for people.
#[derive(Clone, Debug, PartialEq)]
pub struct Aggregate {
    /// The rule or the action that made it.
    pub name: String,
    /// What the map held, by the kind of the action.
    pub content: Content,
    /// Keys (or threads) that did not fit; never silent.
    pub dropped: u64,
}

/// What an action has aggregated, in the form in which it is shown.
#[derive(Clone, Debug, PartialEq)]
pub enum Content {
    /// Counts by key, the largest first; the last column is the count.
    Counts(Table),
    /// A histogram for each key, the largest count first.
    Histograms {
        /// What was measured.
        value: String,
        /// Names of the keys.
        keys: Vec<String>,
        /// One for each key.
        list: Vec<Histogram>,
    },
    /// The last events, oldest first.
    Last(Table),
    /// A flag.
    Flag(bool),
}

impl Aggregate {
    /// Whether a map of this meaning is shown to people: its pairs are worth a copy, and [`Aggregate::read`] makes
    /// something of them.
    pub fn is_of(meaning: &Meaning) -> bool {
        match meaning {
            Meaning::Count { .. } | Meaning::Histogram { .. } | Meaning::Last { .. } | Meaning::Flag => true,
            Meaning::State | Meaning::Constants | Meaning::Shared | Meaning::Areas | Meaning::Dropped => {
                false
            }
        }
    }

    /// Reads a map's content: all its pairs of key and value, copied, in any order, and how many keys did not fit.
    /// `None` for maps that are not shown ([`Aggregate::is_of`]). Pairs of other sizes than the map's are passed over:
    /// other processes write there.
    ///
    /// # Cost
    /// Sorts the pairs.
    pub fn read(entry: &Entry, maps: &Maps, pairs: &[(Vec<u8>, Vec<u8>)], dropped: u64) -> Option<Aggregate> {
        if !Aggregate::is_of(&entry.meaning) {
            return None;
        }
        let shape = entry.shape;
        let sound = |(key, value): &&(Vec<u8>, Vec<u8>)| {
            key.len() == shape.key_bytes as usize && value.len() == shape.value_bytes as usize
        };
        let pairs: Vec<(&[u8], &[u8])> =
            pairs.iter().filter(sound).map(|(key, value)| (&key[..], &value[..])).collect();
        let content = match &entry.meaning {
            Meaning::Count { keys } => Content::Counts(table::counts(keys, &pairs, maps)),
            Meaning::Histogram { value, keys } => Content::Histograms {
                value: value.name.clone(),
                keys: keys.iter().map(|key| key.name.clone()).collect(),
                list: histogram::read(value, keys, &pairs, maps),
            },
            Meaning::Last { fields } => Content::Last(table::last(fields, &pairs, maps)),
            Meaning::Flag => Content::Flag(pairs.iter().any(|(_, value)| value::word(value, 0) != 0)),
            _ => return None,
        };
        Some(Aggregate { name: entry.name.clone(), content, dropped })
    }

    /// A flag that is in shared memory.
    pub fn flag(name: String, set: bool) -> Aggregate {
        Aggregate { name, content: Content::Flag(set), dropped: 0 }
    }

    /// True when the action has met no event.
    pub fn is_empty(&self) -> bool {
        match &self.content {
            Content::Counts(table) | Content::Last(table) => table.rows.is_empty(),
            Content::Histograms { list, .. } => list.is_empty(),
            Content::Flag(_) => false,
        }
    }
}

#[cfg(test)]
mod tests;
