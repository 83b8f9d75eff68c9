//! Spans as trees: each with its duration, and in it the spans and events that it had, whatever thread they were on.
//!
//! ```text
//! [15:34:12.123456789] server/4711        app:request 1.23ms, busy 301us { path = "/", status = 200 }
//!   +1.20us   app:accepted: { port = 80 }
//!   +3.41us   app:parse 12.0us { length = 3 }
//!   +9.02us     app:token: { kind = 1 }
//! ```
//! A tree is printed when its outermost span has ended; times in it count from its beginning. Events of which it is not
//! told in which span they are, the kernel's too, belong to the span that their thread was in. Where not all events are
//! shown, spans are that have one of those that are.
//!
//! # Cost
//! Memory: what open spans hold, [`KEPT_MAX`] bytes at most. What does not fit is counted, at the span that it was in.

use crate::table::duration;
use crate::{Format, Text, TimeStyle, escape};
use mote_analysis::{SpanClasses, SpanRole};
use mote_timeline::{LossRecord, Record, Trace};
use std::collections::HashMap;
use std::io::Write;

/// Most bytes that are kept of open spans.
pub const KEPT_MAX: usize = 256 << 20;
/// What a line takes beside its text.
const LINE_BYTES: usize = size_of::<Item>();
/// Deepest indentation.
const DEPTH_MAX: usize = 64;

/// Session and id of a span.
type Key = (usize, u64);

/// A span with what was in it.
#[derive(Debug)]
struct Node {
    /// Its name as escaped text.
    name: Vec<u8>,
    /// Time and thread as text, where it was made.
    place: Vec<u8>,
    since: i64,
    /// It began before the recording: duration and fields are not known.
    began_before: bool,
    parent: Option<Key>,
    fields: Vec<u8>,
    items: Vec<Item>,
    /// Items that were not kept.
    more: u64,
    /// It has something that is to be shown.
    is_chosen: bool,
    inside: u32,
    entered: i64,
    busy: u64,
    end: Option<i64>,
}

/// A line below a span.
#[derive(Debug)]
enum Item {
    Event(i64, Vec<u8>),
    Span(Box<Node>),
}

impl Item {
    fn time(&self) -> i64 {
        match self {
            Item::Event(time, _) => *time,
            Item::Span(node) => node.since,
        }
    }
}

/// Trees of spans, for people.
#[derive(Debug)]
pub struct Tree<'t> {
    text: Text<'t>,
    classes: SpanClasses,
    open: HashMap<Key, Node>,
    /// Spans that a thread is in, by session and thread.
    stacks: HashMap<(usize, u32), Vec<u64>>,
    kept: usize,
    limit: usize,
    last: i64,
}

impl<'t> Tree<'t> {
    /// Prints the spans of `trace`; the beginnings of trees in `style`.
    #[must_use]
    pub fn new(trace: &'t Trace, style: TimeStyle, colour: bool) -> Tree<'t> {
        let text = Text::new(trace, style, colour).without_spans();
        let classes = SpanClasses::new(trace);
        let (open, stacks) = (HashMap::new(), HashMap::new());
        Tree { text, classes, open, stacks, kept: 0, limit: KEPT_MAX, last: i64::MIN }
    }

    /// The same with other room for open spans, in bytes.
    #[must_use]
    pub fn with_room(self, limit: usize) -> Tree<'t> {
        Tree { limit, ..self }
    }

    /// The open span, made here if its beginning is not in the recording.
    fn at(&mut self, record: &Record<'_>, key: Key, kind: usize, is_new: bool) -> Option<&mut Node> {
        if !self.open.contains_key(&key) {
            let mut node = Node {
                name: Vec::new(),
                place: Vec::new(),
                since: record.time(),
                began_before: !is_new,
                parent: None,
                fields: Vec::new(),
                items: Vec::new(),
                more: 0,
                is_chosen: false,
                inside: 0,
                entered: 0,
                busy: 0,
                end: None,
            };
            escape::escaped(&mut node.name, self.classes.name(kind).as_bytes());
            self.text.place(&mut node.place, record);
            if is_new {
                node.parent = SpanClasses::parent(record).map(|parent| (key.0, parent));
                self.text.payload(&mut node.fields, record);
            }
            let bytes = node.bytes();
            if self.kept + bytes > self.limit {
                let around = node.parent.and_then(|parent| self.open.get_mut(&parent))?;
                around.more += 1;
                return None;
            }
            self.kept += bytes;
            self.open.insert(key, node);
        }
        self.open.get_mut(&key)
    }

    /// Follows what an event says of its span; it is shown itself, or not.
    fn follow(&mut self, out: &mut Vec<u8>, record: &Record<'_>, role: SpanRole, is_shown: bool) {
        self.last = record.time();
        let (SpanRole::New(kind)
        | SpanRole::Enter(kind)
        | SpanRole::Exit(kind)
        | SpanRole::Close(kind)
        | SpanRole::More(kind)) = role
        else {
            return;
        };
        let Some(id) = SpanClasses::span(record) else {
            return if is_shown {
                self.inside(out, record, role)
            };
        };
        let key = (record.origin().session(), id);
        let Some(node) = self.at(record, key, kind, matches!(role, SpanRole::New(_))) else { return };
        node.is_chosen |= is_shown;
        match role {
            SpanRole::Enter(_) => self.enter(record, key),
            SpanRole::Exit(_) => self.exit(record, key),
            SpanRole::Close(_) => self.close(out, record, key),
            SpanRole::More(_) if is_shown => self.inside(out, record, SpanRole::Inside),
            _ => {}
        }
    }

    fn enter(&mut self, record: &Record<'_>, key: Key) {
        let Some(node) = self.open.get_mut(&key) else { return };
        if node.inside == 0 {
            node.entered = record.time();
        }
        node.inside += 1;
        if let Some(tid) = record.tid() {
            let stack = self.stacks.entry((key.0, tid)).or_default();
            if stack.len() < 4096 {
                stack.push(key.1);
            }
        }
    }

    fn exit(&mut self, record: &Record<'_>, key: Key) {
        let Some(node) = self.open.get_mut(&key) else { return };
        if node.inside > 0 {
            node.inside -= 1;
            if node.inside == 0 {
                node.busy += record.time().abs_diff(node.entered);
            }
        }
        if let Some(stack) = record.tid().and_then(|tid| self.stacks.get_mut(&(key.0, tid)))
            && let Some(place) = stack.iter().rposition(|id| *id == key.1)
        {
            stack.remove(place);
        }
    }

    /// Ends a span: it goes into the one around it, or is printed.
    fn close(&mut self, out: &mut Vec<u8>, record: &Record<'_>, key: Key) {
        let Some(mut node) = self.open.remove(&key) else { return };
        node.end = Some(record.time());
        if !node.is_chosen {
            self.kept = self.kept.saturating_sub(node.bytes());
            return;
        }
        match node.parent.and_then(|parent| self.open.get_mut(&parent)) {
            Some(around) => around.add(node),
            None => self.print(out, node),
        }
    }

    /// An event: it goes into its span, or is printed.
    fn inside(&mut self, out: &mut Vec<u8>, record: &Record<'_>, role: SpanRole) {
        self.last = record.time();
        let session = record.origin().session();
        let told = if role == SpanRole::Inside { SpanClasses::span(record) } else { self.innermost(record) };
        let key = told.map(|id| (session, id)).filter(|key| self.open.contains_key(key));
        let mut line = Vec::new();
        let Some(key) = key else {
            self.text.place(&mut line, record);
            line.push(b' ');
            self.text.what(&mut line, record);
            line.push(b'\n');
            return out.extend_from_slice(&line);
        };
        self.text.what(&mut line, record);
        let fits = self.kept + line.len() + LINE_BYTES <= self.limit;
        let Some(node) = self.open.get_mut(&key) else { return };
        node.is_chosen = true;
        if fits {
            self.kept += line.len() + LINE_BYTES;
            node.items.push(Item::Event(record.time(), line));
        } else {
            node.more += 1;
        }
    }

    /// The span that the event's thread is in.
    fn innermost(&self, record: &Record<'_>) -> Option<u64> {
        self.stacks.get(&(record.origin().session(), record.tid()?))?.last().copied()
    }

    /// Prints a tree, and forgets it.
    fn print(&mut self, out: &mut Vec<u8>, node: Node) {
        out.extend_from_slice(&node.place);
        out.push(b' ');
        let since = node.since;
        // Not by recursion: how deep spans are nested is the program's affair.
        let mut waiting: Vec<(usize, Item)> = vec![(0, Item::Span(Box::new(node)))];
        while let Some((depth, item)) = waiting.pop() {
            if depth > 0 {
                let offset = duration(item.time().abs_diff(since));
                let _ = write!(out, "  +{offset:<8}{:1$}", "", 2 * depth.min(DEPTH_MAX) - 1);
            }
            match item {
                Item::Event(_, line) => {
                    self.kept = self.kept.saturating_sub(line.len() + LINE_BYTES);
                    out.extend_from_slice(&line);
                    out.push(b'\n');
                }
                Item::Span(mut node) => {
                    self.kept = self.kept.saturating_sub(node.bytes());
                    node.line(out);
                    if node.more > 0 {
                        let indent = 2 * depth.min(DEPTH_MAX) + 12;
                        let _ = writeln!(
                            out,
                            "{:indent$}*** {} more: too many to keep in memory ***",
                            "", node.more
                        );
                    }
                    node.items.sort_by_key(Item::time);
                    waiting.extend(node.items.drain(..).rev().map(|item| (depth + 1, item)));
                }
            }
        }
    }
}

impl Node {
    /// Takes in a span that was in it.
    fn add(&mut self, inner: Node) {
        self.is_chosen = true;
        self.items.push(Item::Span(Box::new(inner)));
    }

    /// Bytes that it takes without what is in it.
    fn bytes(&self) -> usize {
        size_of::<Node>() + LINE_BYTES + self.name.len() + self.place.len() + self.fields.capacity()
    }

    /// `app:request 1.23ms, busy 301us { path = "/" }`
    fn line(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.name);
        let busy = duration(self.busy);
        let _ = match self.end {
            _ if self.began_before => write!(out, " began before the recording, busy {busy} since"),
            Some(end) => write!(out, " {}, busy {busy}", duration(end.abs_diff(self.since))),
            None => write!(out, " open at the end, busy {busy}"),
        };
        if !self.fields.is_empty() && self.fields != b"{ }" {
            out.push(b' ');
            out.extend_from_slice(&self.fields);
        }
        out.push(b'\n');
    }
}

impl Format for Tree<'_> {
    fn event(&mut self, out: &mut Vec<u8>, record: &Record<'_>) {
        match self.classes.role(record) {
            role @ (SpanRole::None | SpanRole::Inside) => self.inside(out, record, role),
            role => self.follow(out, record, role, true),
        }
    }

    fn unseen(&mut self, out: &mut Vec<u8>, record: &Record<'_>) {
        let role = self.classes.role(record);
        if !matches!(role, SpanRole::None | SpanRole::Inside) {
            self.follow(out, record, role, false);
        }
    }

    fn loss(&mut self, out: &mut Vec<u8>, loss: &LossRecord<'_>) {
        self.text.loss(out, loss);
    }

    fn end(&mut self, out: &mut Vec<u8>) {
        let mut open: Vec<(Key, Node)> = self.open.drain().collect();
        // Inner ones first, so that each finds the one around it still there.
        open.sort_by_key(|(key, node)| (node.since, *key));
        let mut rest: HashMap<Key, Node> = HashMap::new();
        let mut order: Vec<Key> = Vec::with_capacity(open.len());
        for (key, mut node) in open {
            if node.inside > 0 {
                node.busy += self.last.abs_diff(node.entered);
            }
            order.push(key);
            rest.insert(key, node);
        }
        let mut outermost = Vec::new();
        for key in order.into_iter().rev() {
            let Some(node) = rest.remove(&key) else { continue };
            if !node.is_chosen {
                continue;
            }
            match node.parent.and_then(|parent| rest.get_mut(&parent)) {
                Some(around) => around.add(node),
                None => outermost.push(node),
            }
        }
        outermost.into_iter().rev().for_each(|node| self.print(out, node));
    }
}
