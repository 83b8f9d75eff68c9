//! What a tree is made of: events, spans and calls, each with what was in it.

use crate::table::duration;
use mote_analysis::Call;
use std::io::Write;

/// Session and id of a span.
pub(crate) type Key = (usize, u64);

/// Something that happened in a thread: a line of its own, with what is below it.
#[derive(Debug)]
pub(crate) struct Item {
    pub(crate) tid: u32,
    /// When it began.
    pub(crate) time: i64,
    pub(crate) what: What,
}

#[derive(Debug)]
pub(crate) enum What {
    /// An event, as text.
    Event(Vec<u8>),
    Span(Box<Span>),
    Call(Box<Called>),
}

/// A span with what was in it.
#[derive(Debug)]
pub(crate) struct Span {
    /// Its name as escaped text.
    pub(crate) name: Vec<u8>,
    /// Time and thread as text, where it was made.
    pub(crate) place: Vec<u8>,
    pub(crate) tid: u32,
    pub(crate) since: i64,
    /// It began before the recording: duration and fields are not known.
    pub(crate) began_before: bool,
    pub(crate) parent: Option<Key>,
    pub(crate) fields: Vec<u8>,
    pub(crate) items: Vec<Item>,
    /// Items that were not kept.
    pub(crate) more: u64,
    /// It has something that is to be shown.
    pub(crate) is_chosen: bool,
    /// How many threads are in it, and since when there is one.
    pub(crate) inside: u32,
    pub(crate) entered: i64,
    pub(crate) busy: u64,
    pub(crate) end: Option<i64>,
}

/// A call of a function with what was in it.
#[derive(Debug)]
pub(crate) struct Called {
    pub(crate) call: Call,
    pub(crate) fields: Vec<u8>,
    pub(crate) items: Vec<Item>,
    /// Something that was in it has been printed already.
    pub(crate) is_cut: bool,
}

impl Item {
    /// Bytes that it takes without what is in it.
    pub(crate) fn bytes(&self) -> usize {
        match &self.what {
            What::Event(line) => size_of::<Item>() + line.capacity(),
            What::Span(span) => span.bytes(),
            What::Call(called) => called.bytes(),
        }
    }

    /// The call that it is, if it is one.
    fn call(&self) -> Option<&Call> {
        match &self.what {
            What::Call(called) => Some(&called.call),
            _ => None,
        }
    }
}

/// Puts an item among others by its time, behind those of the same.
pub(crate) fn put(items: &mut Vec<Item>, item: Item) {
    let place = items.partition_point(|other| other.time <= item.time);
    items.insert(place, item);
}

/// Puts a call among what threads have done, and what its own thread has done meanwhile into the call. Where it is only
/// to be shown if that is something, it may be left out: then `false` is returned.
pub(crate) fn put_call(items: &mut Vec<Item>, tid: u32, mut called: Called, is_shown: bool) -> bool {
    let (call, mut items) = (called.call, items);
    // Of calls that returned at the same moment, those that took longer are around it.
    let is_around = |item: &Item| item.call().is_some_and(|c| c.end == call.end && c.begin < call.begin);
    while let Some(last) = items.iter().rposition(|item| item.tid == tid)
        && items.get(last).is_some_and(is_around)
    {
        let Some(Item { what: What::Call(around), .. }) = items.get_mut(last) else { return false };
        items = &mut around.items;
    }
    let mut first = items.partition_point(|item| item.time < call.begin);
    // Durations are not exact: what overlaps is inside, too.
    let is_inside = |item: &Item| item.tid == tid && item.call().is_some_and(|c| call.holds(c.begin, c.end));
    while first.checked_sub(1).and_then(|before| items.get(before)).is_some_and(is_inside) {
        first -= 1;
    }
    let (inside, others): (Vec<Item>, Vec<Item>) = items.drain(first..).partition(|item| item.tid == tid);
    called.items = inside;
    let is_kept = is_shown || !called.items.is_empty();
    if is_kept {
        items.push(Item { tid, time: call.begin, what: What::Call(Box::new(called)) });
    }
    items.extend(others);
    is_kept
}

impl Span {
    /// Bytes that it takes without what is in it.
    pub(crate) fn bytes(&self) -> usize {
        size_of::<Item>() + size_of::<Span>() + self.name.len() + self.place.len() + self.fields.capacity()
    }

    /// `app:request 1.23ms, busy 301us { path = "/" }`
    pub(crate) fn line(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.name);
        let busy = duration(self.busy);
        let _ = match self.end {
            _ if self.began_before => write!(out, " began before the recording, busy {busy} since"),
            Some(end) => write!(out, " {}, busy {busy}", duration(end.abs_diff(self.since))),
            None => write!(out, " open at the end, busy {busy}"),
        };
        with_fields(out, &self.fields);
    }
}

impl Called {
    /// Bytes that it takes without what is in it.
    pub(crate) fn bytes(&self) -> usize {
        size_of::<Item>() + size_of::<Called>() + self.fields.capacity()
    }

    /// `db::open 1.23us { path = "/" }`; `name` is the function's, as escaped text.
    pub(crate) fn line(&self, out: &mut Vec<u8>, name: &[u8]) {
        out.extend_from_slice(name);
        let _ = write!(out, " {}", duration(self.call.duration()));
        with_fields(out, &self.fields);
    }
}

impl Drop for Called {
    /// Not by recursion: how deep calls are nested is the program's affair.
    fn drop(&mut self) {
        let mut waiting = std::mem::take(&mut self.items);
        while let Some(mut item) = waiting.pop() {
            match &mut item.what {
                What::Call(called) => waiting.append(&mut called.items),
                What::Span(span) => waiting.append(&mut span.items),
                What::Event(_) => {}
            }
        }
    }
}

fn with_fields(out: &mut Vec<u8>, fields: &[u8]) {
    if !fields.is_empty() && fields != b"{ }" {
        out.push(b' ');
        out.extend_from_slice(fields);
    }
    out.push(b'\n');
}
