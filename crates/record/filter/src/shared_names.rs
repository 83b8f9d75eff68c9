//! Names of the words that a session shares: with its processes, their filters, and the programs of the kernel.

use mote_layout::cooperation::{
    FLAG_WORDS, SHARED_NAME_MAX, SHARED_NAME_WORDS, SHARED_WORDS, THREAD_NAME_WORDS, WORDS,
};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

/// Most names of a session: a process could ask for any number.
const NAMES_MAX: usize = 1024;

/// Which name has which words. Copies are of the same session: whatever hands out words there has one.
#[derive(Clone, Debug, Default)]
pub struct SharedNames(Arc<Mutex<Directory>>);

#[derive(Debug, Default)]
struct Directory {
    /// Flags of rules, by their slots.
    flags: Vec<String>,
    of_all: Range,
    of_threads: Range,
}

#[derive(Debug, Default)]
struct Range {
    places: HashMap<String, SharedPlace>,
    used: u32,
}

/// Place of a name's words among those that program and rules share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SharedPlace {
    /// Index of the first word.
    pub at: u32,
    /// Number of words.
    pub count: u32,
}

impl SharedNames {
    /// At least `count` words of this name: those that all share, or those that each thread has of its own. Names that
    /// are new get some more, because rules name words before the program says how many it wants. `None` when there are
    /// no more, or the name has fewer.
    pub fn place(&self, name: &str, each_thread: bool, count: u32) -> Option<SharedPlace> {
        let mut directory = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let Directory { of_all, of_threads, .. } = &mut *directory;
        if name.is_empty() || name.len() > SHARED_NAME_MAX || count == 0 {
            None
        } else if each_thread {
            of_threads.place(name, count, THREAD_NAME_WORDS, WORDS as u32)
        } else {
            of_all.place(name, count, SHARED_NAME_WORDS, SHARED_WORDS - FLAG_WORDS)
        }
    }

    /// The slot of a flag of rules among the last [`FLAG_WORDS`] words; `None` when there are more flags than that.
    pub fn flag(&self, name: &str) -> Option<usize> {
        let mut directory = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let known = directory.flags.iter().position(|flag| flag == name);
        known.or_else(|| {
            let slot = directory.flags.len();
            (slot < FLAG_WORDS as usize).then(|| {
                directory.flags.push(name.to_owned());
                slot
            })
        })
    }

    /// Flags of rules, by their slots.
    pub fn flags(&self) -> Vec<String> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).flags.clone()
    }

    /// The names of words that all share, and where they are.
    pub fn all(&self) -> Vec<(String, SharedPlace)> {
        let directory = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        directory.of_all.places.iter().map(|(name, place)| (name.clone(), *place)).collect()
    }
}

impl Range {
    fn place(&mut self, name: &str, count: u32, least: u32, most: u32) -> Option<SharedPlace> {
        if let Some(place) = self.places.get(name) {
            return (place.count >= count).then_some(*place);
        }
        let left = most - self.used;
        // The last ones get what is left.
        let count = count.max(least.min(left));
        if count > left || self.places.len() >= NAMES_MAX {
            return None;
        }
        let place = SharedPlace { at: self.used, count };
        self.used += count;
        self.places.insert(name.to_owned(), place);
        Some(place)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_lie_apart_and_have_bounds() {
        let names = SharedNames::default();
        let first = names.place("requests", false, 4).unwrap();
        let second = names.clone().place("answers", false, 10_000).unwrap();
        assert_eq!((first, second.at, second.count), (SharedPlace { at: 0, count: 512 }, 512, 10_000));
        assert_eq!(names.place("requests", false, 512), Some(first));
        assert_eq!(names.place("requests", false, 513), None);
        assert_eq!(names.place("requests", true, 3), Some(SharedPlace { at: 0, count: 8 }));
        assert_eq!(names.place("all", false, SHARED_WORDS), None);
        let rest = (0..).map_while(|at| names.place(&at.to_string(), false, 1)).last().unwrap();
        assert_eq!(rest.at + rest.count, SHARED_WORDS - FLAG_WORDS);
        assert_eq!((names.place("", false, 1), names.place(&"x".repeat(65), false, 1)), (None, None));
    }
}
