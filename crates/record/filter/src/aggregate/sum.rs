//! What several maps hold together: those of processes that share no memory with one another.

use super::Aggregate;
use super::value::word;
use crate::maps::{Entry, Maps, Meaning};
use std::collections::BTreeMap;

/// Copies of maps of one kind, added up. Of [`Meaning::Last`] those stay that were last in all of them.
#[derive(Clone, Debug, Default)]
pub struct Sum {
    pairs: BTreeMap<Vec<u8>, Vec<u8>>,
    dropped: u64,
}

/// A key and its value.
pub type Pair = (Vec<u8>, Vec<u8>);

impl Sum {
    /// Adds another map of `entry`'s kind: all its pairs, and how many keys did not fit there. Those that do not fit
    /// here did not, either.
    ///
    /// # Cost
    /// A search for each pair.
    pub fn add(&mut self, entry: &Entry, pairs: Vec<Pair>, dropped: u64) {
        self.dropped = self.dropped.saturating_add(dropped);
        match entry.meaning {
            Meaning::Last { .. } => self.add_last(pairs),
            _ => pairs.into_iter().for_each(|pair| self.add_words(entry.shape.entries as usize, pair)),
        }
    }

    /// Adds another's values word by word; a flag is one that is set anywhere.
    fn add_words(&mut self, most: usize, (key, value): Pair) {
        if let Some(known) = self.pairs.get_mut(&key) {
            for (known, more) in known.chunks_exact_mut(8).zip(value.chunks_exact(8)) {
                let sum = word(known, 0).saturating_add(word(more, 0));
                known.copy_from_slice(&sum.to_le_bytes());
            }
        } else if self.pairs.len() < most {
            self.pairs.insert(key, value);
        } else {
            self.dropped = self.dropped.saturating_add(1);
        }
    }

    /// Merges another's last events into those that are here, by time, and numbers them as if they had come to one map.
    fn add_last(&mut self, pairs: Vec<Pair>) {
        let is_counter = |key: &[u8]| key.iter().all(|byte| *byte == 0);
        let counter = |pairs: &BTreeMap<Vec<u8>, Vec<u8>>| {
            pairs.iter().find(|(key, _)| is_counter(key)).map_or(0, |(_, value)| word(value, 0))
        };
        let more: BTreeMap<Vec<u8>, Vec<u8>> = pairs.into_iter().collect();
        let total = match (counter(&self.pairs), counter(&more)) {
            (_, 0) => return,
            (0, _) => {
                self.pairs = more;
                return;
            }
            (here, there) => here.saturating_add(there),
        };
        let places: Vec<Vec<u8>> = self.pairs.keys().filter(|key| !is_counter(key)).cloned().collect();
        let both = std::mem::take(&mut self.pairs).into_iter().chain(more);
        let (counters, mut events): (Vec<Pair>, Vec<Pair>) = both.partition(|(key, _)| is_counter(key));
        events.retain(|(_, value)| word(value, 0) > 0);
        // Behind its number an event begins with its time.
        events.sort_by_key(|(_, value)| word(value, 8));
        let newest = events.len().saturating_sub(places.len());
        let first = total.saturating_sub((events.len() - newest) as u64);
        let numbered = (first + 1..).zip(events.into_iter().skip(newest));
        self.pairs = std::iter::zip(places, numbered)
            .map(|(place, (number, (_, value)))| (place, with_word(value, number)))
            .collect();
        self.pairs.extend(counters.into_iter().next().map(|(key, value)| (key, with_word(value, total))));
    }

    /// For people; `None` of a map that means nothing to them.
    pub fn read(&self, entry: &Entry, maps: &Maps) -> Option<Aggregate> {
        let pairs: Vec<Pair> = self.pairs.iter().map(|(key, value)| (key.clone(), value.clone())).collect();
        Aggregate::read(entry, maps, &pairs, self.dropped)
    }
}

/// A value whose first word is another one.
fn with_word(mut value: Vec<u8>, first: u64) -> Vec<u8> {
    if let Some(place) = value.first_chunk_mut() {
        *place = first.to_le_bytes();
    }
    value
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::aggregate::Content;
    use crate::maps::{Key, KeyType};

    fn key(name: &str, offset: u32) -> Key {
        Key { name: name.to_owned(), ty: KeyType::Unsigned, offset }
    }

    fn pair(key: u64, words: &[u64]) -> Pair {
        (key.to_le_bytes().to_vec(), words.iter().flat_map(|word| word.to_le_bytes()).collect())
    }

    fn rows(content: Content) -> Vec<(Vec<String>, u64)> {
        let (Content::Counts(table) | Content::Last(table)) = content else { panic!("{content:?}") };
        let text = |row: &super::super::Row| row.values.iter().map(ToString::to_string).collect();
        table.rows.iter().map(|row| (text(row), row.count)).collect()
    }

    #[test]
    fn counts_are_added_by_key() {
        let (maps, entry) = (Maps::new(), Entry::count("calls", vec![key("size", 0)]));
        let mut sum = Sum::default();
        sum.add(&entry, vec![pair(7, &[2]), pair(8, &[1])], 3);
        sum.add(&entry, vec![pair(9, &[u64::MAX]), pair(7, &[40])], 1);
        sum.add(&entry, vec![pair(9, &[1])], 0);
        let read = sum.read(&entry, &maps).expect("counts");
        assert_eq!(read.dropped, 4);
        let row = |key: &str, count| (vec![key.to_owned()], count);
        assert_eq!(rows(read.content), [row("9", u64::MAX), row("7", 42), row("8", 1)]);
    }

    #[test]
    fn what_does_not_fit_is_counted() {
        let entry = Entry::count("calls", vec![key("size", 0)]);
        let mut sum = Sum::default();
        let many = u64::from(entry.shape.entries);
        sum.add(&entry, (0..many).map(|key| pair(key, &[1])).collect(), 0);
        sum.add(&entry, vec![pair(many, &[1]), pair(0, &[1])], 0);
        let read = sum.read(&entry, &Maps::new()).expect("counts");
        assert_eq!((read.dropped, rows(read.content)[0].1), (1, 2));
    }

    #[test]
    fn the_last_events_of_all_are_those_that_were_last() {
        let entry = Entry::last("recent", 3, vec![key("time", 0), key("thread", 8)]);
        // A place of the array: number, time, thread.
        let place = |index: u32, words: &[u64]| {
            let value = words.iter().flat_map(|word| word.to_le_bytes()).collect();
            (index.to_le_bytes().to_vec(), value)
        };
        let one = vec![
            place(0, &[5, 0, 0]),
            place(1, &[4, 400, 1]),
            place(2, &[5, 600, 1]),
            place(3, &[3, 200, 1]),
        ];
        let other =
            vec![place(0, &[2, 0, 0]), place(1, &[1, 500, 2]), place(2, &[2, 700, 2]), place(3, &[0; 3])];
        let expect = [("500", "2", 5), ("600", "1", 6), ("700", "2", 7)];
        for (first, second) in [(one.clone(), other.clone()), (other, one)] {
            let mut sum = Sum::default();
            sum.add(&entry, first, 0);
            sum.add(&entry, second, 0);
            sum.add(&entry, vec![place(0, &[0; 3])], 0);
            let read = rows(sum.read(&entry, &Maps::new()).expect("events").content);
            let expect =
                expect.map(|(time, thread, number)| (vec![time.to_owned(), thread.to_owned()], number));
            assert_eq!(read, expect);
        }
    }
}
