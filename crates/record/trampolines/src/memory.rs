//! Pages that are taken in the process, and the places in them.

use crate::arch::{PAGE, Reach, STUB_BYTES};
use crate::bytes::Piece;
use crate::space::{Choice, Ranges, Space};
use std::collections::BTreeMap;
use std::ops::Range;

/// Where to look for a place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Pages {
    /// In pages that were taken already, near to where the search begins.
    Taken,
    /// In pages that are free, and will not be the heap's.
    Free,
    /// In all of them, in this order, then in all that were taken, and at last where the heap may grow.
    Any,
}

/// So many free ranges are looked at before a search ends: what is full is not gone through again for each function.
const STEPS_MAX: usize = 256;
/// Pages that are taken are used so far behind where a search begins: what is called together should lie together.
const NEIGHBOURHOOD: u64 = 16 << 20;
/// Shorter rests of pages are given up.
const REST_MIN: u64 = STUB_BYTES as u64;
/// Each search begins where the last one like it found a place, when it is for so many places.
const CURSOR_MIN: u64 = 1 << 12;

/// Memory that the plan takes.
#[derive(Debug)]
pub(crate) struct Memory<'s> {
    space: &'s mut Space,
    pages: BTreeMap<u64, Vec<u8>>,
    /// Free bytes of pages.
    rests: Ranges,
    /// By begin of the search and kind of place.
    cursors: BTreeMap<(u64, u64), u64>,
}

impl<'s> Memory<'s> {
    pub(crate) fn new(space: &'s mut Space) -> Memory<'s> {
        let (pages, rests, cursors) = Default::default();
        Memory { space, pages, rests, cursors }
    }

    /// How many pages are taken.
    pub(crate) fn pages(&self) -> usize {
        self.pages.len()
    }

    /// A place of `len` bytes within reach.
    pub(crate) fn find(&mut self, reach: &Reach, len: usize, pages: Pages) -> Option<u64> {
        let (home, len) = (reach.home()?, len as u64);
        let key = (home, reach.class() << 8 | len.min(32));
        let from = self.cursors.get(&key).copied().unwrap_or(home);
        let neighbourhood = home.saturating_add(NEIGHBOURHOOD);
        // Near home; then anywhere.
        let taken = (None, from, neighbourhood);
        let free = [(Some(Choice::Free), from, u64::MAX), (Some(Choice::Free), 0, u64::MAX)];
        let rest =
            [(None, 0, u64::MAX), (Some(Choice::Spare), from, u64::MAX), (Some(Choice::Spare), 0, u64::MAX)];
        let all: Vec<_> = match pages {
            Pages::Taken => vec![taken],
            Pages::Free => free.to_vec(),
            Pages::Any => [&[taken][..], &free, &rest].concat(),
        };
        let found = all.into_iter().find_map(|(choice, from, end)| {
            self.search(reach, from, len, choice).filter(|found| *found < end)
        })?;
        if reach.count() >= CURSOR_MIN {
            self.cursors.insert(key, found);
        }
        Some(found)
    }

    /// A place in the page of `at`, which is taken.
    pub(crate) fn find_beside(&self, at: u64, reach: &Reach, len: usize) -> Option<u64> {
        let page = at / PAGE * PAGE;
        self.search(reach, page, len as u64, None).filter(|found| found + len as u64 <= page + PAGE)
    }

    /// Takes a place that was found, and writes there.
    pub(crate) fn put(&mut self, at: u64, bytes: &[u8]) {
        let end = at + bytes.len() as u64;
        for page in (at / PAGE..end.div_ceil(PAGE)).map(|number| number * PAGE) {
            self.pages.entry(page).or_insert_with(|| {
                self.space.take(page..page + PAGE);
                self.rests.add(page..page + PAGE);
                vec![0; PAGE as usize]
            });
        }
        self.rests.take(&(at..end));
        let before = at.checked_sub(1).and_then(|last| self.rests.around(last));
        for rest in [before, self.rests.around(end)].into_iter().flatten() {
            if rest.end - rest.start < REST_MIN {
                self.rests.take(&rest);
            }
        }
        self.write(at, bytes);
    }

    /// Writes to a place that was taken.
    pub(crate) fn write(&mut self, at: u64, bytes: &[u8]) {
        for (address, byte) in (at..).zip(bytes) {
            let page = self.pages.get_mut(&(address / PAGE * PAGE));
            if let Some(place) = page.and_then(|page| page.get_mut((address % PAGE) as usize)) {
                *place = *byte;
            }
        }
    }

    /// Pages that lie behind one another as one, by address.
    pub(crate) fn into_parts(self) -> Vec<Piece> {
        let mut pieces: Vec<Piece> = Vec::new();
        for (address, bytes) in self.pages {
            match pieces.last_mut() {
                Some((start, len, before)) if *start + *len == address => {
                    *len += PAGE;
                    before.extend_from_slice(&bytes);
                }
                _ => pieces.push((address, PAGE, bytes)),
            }
        }
        for (_, _, bytes) in &mut pieces {
            bytes.truncate(bytes.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1));
        }
        pieces
    }

    /// The first place from `from` on: in rests of pages, or in free ones.
    fn search(&self, reach: &Reach, from: u64, len: u64, choice: Option<Choice>) -> Option<u64> {
        let mut at = from;
        for _ in 0..STEPS_MAX {
            let place = reach.next(at)?;
            let range = match choice {
                None => self.rests.next(place)?,
                Some(choice) if self.is_free(place, len, choice) => return Some(place),
                Some(choice) => self.space.next(place, choice)?,
            };
            at = match range {
                Range { start, .. } if start > place => start,
                Range { end, .. } if place + len > end => end,
                _ => return Some(place),
            };
        }
        None
    }

    /// Whether all of it is free or a rest of a page.
    fn is_free(&self, place: u64, len: u64, choice: Choice) -> bool {
        let (mut at, end) = (place, place + len);
        while at < end {
            let free = self.space.next(at, choice).filter(|range| range.start <= at);
            match free.or_else(|| self.rests.around(at)) {
                Some(range) => at = range.end,
                None => return false,
            }
        }
        true
    }
}
