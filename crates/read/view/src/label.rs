//! The thread of an event as text: `name/tid`, cached.

use crate::{digits, escape};
use mote_timeline::Record;

/// Entries of the cache; threads whose ids are equal modulo this share one.
const PLACES: usize = 256;

/// Threads as text.
#[derive(Debug)]
pub(crate) struct Labels {
    places: Vec<Place>,
    /// Labels are filled up to so many characters.
    width: usize,
}

/// The label of a thread.
#[derive(Debug, Default)]
struct Place {
    /// Trace and thread.
    key: Option<(usize, u32)>,
    /// When its name ends to be valid, in nanoseconds since 1970.
    until: i64,
    /// The name that the label was made of, if it came with the event.
    procname: Vec<u8>,
    text: Vec<u8>,
}

impl Labels {
    pub(crate) fn new(width: usize) -> Labels {
        Labels { places: (0..PLACES).map(|_| Place::default()).collect(), width }
    }

    /// The label of the event's thread.
    #[inline]
    pub(crate) fn of(&mut self, record: &Record<'_>) -> &[u8] {
        let tid = record.tid();
        let key = tid.map(|tid| (record.origin_index(), tid));
        let place = &mut self.places[tid.unwrap_or(0) as usize % PLACES];
        let fresh = key.is_some() && place.key == key && record.time() < place.until;
        if !fresh || (record.has_procname() && record.procname() != Some(&place.procname)) {
            place.key = key;
            place.render(record, tid, self.width);
        }
        &place.text
    }
}

impl Place {
    #[cold]
    fn render(&mut self, record: &Record<'_>, tid: Option<u32>, width: usize) {
        self.procname.clear();
        self.text.clear();
        self.until = i64::MAX;
        if let Some(name) = record.procname() {
            self.procname.extend_from_slice(name);
            escape::escaped(&mut self.text, name);
        } else if let Some((named, until)) = record.named() {
            escape::escaped(&mut self.text, named.name.as_bytes());
            self.until = until;
        }
        if let Some(tid) = tid {
            if !self.text.is_empty() {
                self.text.push(b'/');
            }
            digits::decimal(&mut self.text, tid);
        }
        if self.text.is_empty() {
            self.text.push(b'-');
        }
        while self.text.len() < width {
            self.text.push(b' ');
        }
    }
}
