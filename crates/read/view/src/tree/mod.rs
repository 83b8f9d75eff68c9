//! Spans and calls of functions as trees: each with its duration, and in it the spans, calls and events that it had.
//!
//! ```text
//! [15:34:12.123456789] server/4711        app:request 1.23ms, busy 301us { path = "/", status = 200 }
//!   +1.20us   app:accepted: { port = 80 }
//!   +3.41us   app:parse 12.0us { length = 3 }
//!   +9.02us     app:token: { kind = 1 }
//!   +20.1us   db::open 1.00ms { ret = 3 }
//! ```
//! A tree of a span is printed when the outermost span has ended; times in it count from its beginning. Events of which
//! it is not told in which span they are, the kernel's too, belong to the span that their thread was in. Where not all
//! events are shown, spans and calls are that have one of those that are.
//!
//! A call is known when it returns, and what is in it from its times: of its thread, what came behind its beginning.
//! That it has no caller is known at the end only: where a recording has calls, what is in no span is printed then, or
//! when there is no more room for it.
//!
//! # Cost
//! Memory: what open spans and calls without a caller hold, [`KEPT_MAX`] bytes at most. Of spans, what does not fit is
//! counted, at the span that it was in; calls are printed.

pub(crate) mod items;
mod print;

use crate::{Format, Text, TimeStyle, escape};
use items::{Called, Item, Key, Span, What, put, put_call};
use mote_analysis::{Call, CallClasses, Choice, SpanClasses, SpanRole, thread_of};
use mote_timeline::{LossRecord, Record, Trace};
use print::Printer;
use std::collections::HashMap;

/// Most bytes that are kept of open spans, and of calls.
pub const KEPT_MAX: usize = 256 << 20;
/// Most spans that a thread is in at a time.
const STACK_MAX: usize = 4096;

/// What a thread has done that is in no span.
#[derive(Debug)]
struct Thread {
    /// Its name and id as text.
    label: Vec<u8>,
    /// Of the clock of its last event.
    epoch: i64,
    items: Vec<Item>,
    /// What began until then has been printed already.
    printed: i64,
}

impl Thread {
    fn new() -> Thread {
        Thread { label: Vec::new(), epoch: 0, items: Vec::new(), printed: i64::MIN }
    }
}

/// Trees of spans and calls, for people.
#[derive(Debug)]
pub struct Tree<'t> {
    text: Text<'t>,
    spans: SpanClasses,
    calls: CallClasses,
    choice: Choice,
    /// Nothing else is shown.
    calls_only: bool,
    printer: Printer,
    open: HashMap<Key, Span>,
    /// Spans that a thread is in, by session and thread.
    stacks: HashMap<(usize, u32), Vec<u64>>,
    /// By session and thread.
    threads: HashMap<(usize, u32), Thread>,
    kept: usize,
    limit: usize,
    last: i64,
    /// What is in no span is kept, because calls may come to be around it.
    holds: bool,
}

impl<'t> Tree<'t> {
    /// Prints the spans and calls of `trace`; the beginnings of trees in `style`.
    #[must_use]
    pub fn new(trace: &'t Trace, style: TimeStyle, colour: bool) -> Tree<'t> {
        let calls = CallClasses::new(trace);
        let holds = calls.functions() > 0;
        Tree {
            text: Text::new(trace, style, colour).without_spans(),
            spans: SpanClasses::new(trace),
            choice: Choice::default(),
            calls_only: false,
            printer: Printer::new(&calls),
            calls,
            open: HashMap::new(),
            stacks: HashMap::new(),
            threads: HashMap::new(),
            kept: 0,
            limit: KEPT_MAX,
            last: i64::MIN,
            holds,
        }
    }

    /// The same of calls alone that `choice` takes, each tree so many calls deep.
    #[must_use]
    pub fn of_calls(mut self, choice: Choice, depth: usize) -> Tree<'t> {
        self.printer.depth = depth.saturating_sub(1);
        Tree { choice, calls_only: true, ..self }
    }

    /// The same with other room for open spans and calls, in bytes.
    #[must_use]
    pub fn with_room(self, limit: usize) -> Tree<'t> {
        Tree { limit, ..self }
    }

    /// The open span, made here if its beginning is not in the recording.
    fn at(&mut self, record: &Record<'_>, key: Key, kind: usize, is_new: bool) -> Option<&mut Span> {
        if !self.open.contains_key(&key) {
            let mut span = Span {
                name: Vec::new(),
                place: Vec::new(),
                tid: record.tid().unwrap_or(0),
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
            escape::escaped(&mut span.name, self.spans.name(kind).as_bytes());
            self.text.place(&mut span.place, record);
            if is_new {
                span.parent = SpanClasses::parent(record).map(|parent| (key.0, parent));
                self.text.payload(&mut span.fields, record);
            }
            let bytes = span.bytes();
            if self.kept + bytes > self.limit {
                let around = span.parent.and_then(|parent| self.open.get_mut(&parent))?;
                around.more += 1;
                return None;
            }
            self.kept += bytes;
            self.open.insert(key, span);
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
        let Some(span) = self.at(record, key, kind, matches!(role, SpanRole::New(_))) else { return };
        span.is_chosen |= is_shown;
        match role {
            SpanRole::Enter(_) => self.enter(record, key),
            SpanRole::Exit(_) => self.exit(record, key),
            SpanRole::Close(_) => self.close(out, record, key),
            SpanRole::More(_) if is_shown => self.inside(out, record, SpanRole::Inside),
            _ => {}
        }
    }

    fn enter(&mut self, record: &Record<'_>, key: Key) {
        let Some(span) = self.open.get_mut(&key) else { return };
        if span.inside == 0 {
            span.entered = record.time();
        }
        span.inside += 1;
        if let Some(tid) = record.tid() {
            let stack = self.stacks.entry((key.0, tid)).or_default();
            if stack.len() < STACK_MAX {
                stack.push(key.1);
            }
        }
    }

    fn exit(&mut self, record: &Record<'_>, key: Key) {
        let Some(span) = self.open.get_mut(&key) else { return };
        if span.inside > 0 {
            span.inside -= 1;
            if span.inside == 0 {
                span.busy += record.time().abs_diff(span.entered);
            }
        }
        if let Some(stack) = record.tid().and_then(|tid| self.stacks.get_mut(&(key.0, tid)))
            && let Some(place) = stack.iter().rposition(|id| *id == key.1)
        {
            stack.remove(place);
        }
    }

    /// Ends a span: it goes into the one around it, or among what its thread has done.
    fn close(&mut self, out: &mut Vec<u8>, record: &Record<'_>, key: Key) {
        let Some(mut span) = self.open.remove(&key) else { return };
        span.end = Some(record.time());
        if span.is_chosen {
            self.ended(out, key.0, span);
        } else {
            self.kept = self.kept.saturating_sub(span.bytes());
        }
    }

    /// A span that has ended, or is open at the end, and is shown.
    fn ended(&mut self, out: &mut Vec<u8>, session: usize, span: Span) {
        let parent = span.parent;
        let item = Item { tid: span.tid, time: span.since, what: What::Span(Box::new(span)) };
        match parent.and_then(|parent| self.open.get_mut(&parent)) {
            Some(around) => {
                around.is_chosen = true;
                put(&mut around.items, item);
            }
            None => self.outermost(out, (session, item.tid), item),
        }
    }

    /// An event: it goes into its span, or among what its thread has done.
    fn inside(&mut self, out: &mut Vec<u8>, record: &Record<'_>, role: SpanRole) {
        self.last = record.time();
        let span_id =
            if role == SpanRole::Inside { SpanClasses::span(record) } else { self.innermost(record) };
        let (session, tid) = thread_of(record);
        let mut line = Vec::new();
        let Some(span) = span_id.and_then(|id| self.open.get_mut(&(session, id))) else {
            if self.holds {
                self.text.what(&mut line, record);
                self.make_room(out, size_of::<Item>() + line.capacity());
                let item = Item { tid, time: record.time(), what: What::Event(line) };
                self.kept += item.bytes();
                return put(&mut self.thread(record).items, item);
            }
            self.text.place(out, record);
            out.push(b' ');
            self.text.what(out, record);
            return out.push(b'\n');
        };
        self.text.what(&mut line, record);
        let item = Item { tid, time: record.time(), what: What::Event(line) };
        span.is_chosen = true;
        if self.kept + item.bytes() <= self.limit {
            self.kept += item.bytes();
            put(&mut span.items, item);
        } else {
            span.more += 1;
        }
    }

    /// A call: it takes what its thread has done since it began, and goes into the span that the thread is in, or among
    /// what the thread has done.
    fn call(&mut self, out: &mut Vec<u8>, record: &Record<'_>, call: Call, is_shown: bool) {
        if !self.choice.takes(record, &call) || !self.choice.is_long_enough(&call) {
            return;
        }
        self.last = record.time();
        let mut called = Called { call, fields: Vec::new(), items: Vec::new(), is_cut: false };
        self.text.payload(&mut called.fields, record);
        let (bytes, tid) = (called.bytes(), record.tid().unwrap_or(0));
        let id = self.innermost(record).map(|id| (record.origin().session(), id));
        let is_kept = if let Some(span) = id.and_then(|key| self.open.get_mut(&key)) {
            if self.kept + bytes > self.limit {
                span.more += 1;
                return;
            }
            let is_kept = put_call(&mut span.items, tid, called, is_shown);
            span.is_chosen |= is_kept;
            is_kept
        } else {
            self.make_room(out, bytes);
            let thread = self.thread(record);
            called.is_cut = call.begin <= thread.printed;
            put_call(&mut thread.items, tid, called, is_shown)
        };
        if is_kept {
            self.kept += bytes;
        }
    }

    /// What the event's thread has done.
    fn thread(&mut self, record: &Record<'_>) -> &mut Thread {
        let thread = self.threads.entry(thread_of(record)).or_insert_with(Thread::new);
        thread.epoch = record.time().saturating_sub(record.monotonic());
        thread.label.clear();
        self.text.thread(&mut thread.label, record);
        thread
    }

    /// The span that the event's thread is in.
    fn innermost(&self, record: &Record<'_>) -> Option<u64> {
        self.stacks.get(&(record.origin().session(), record.tid()?))?.last().copied()
    }

    /// Something that is in no span.
    fn outermost(&mut self, out: &mut Vec<u8>, thread: (usize, u32), item: Item) {
        if self.holds {
            put(&mut self.threads.entry(thread).or_insert_with(Thread::new).items, item);
        } else {
            self.print(out, thread, item);
        }
    }

    /// Prints what threads have done first where there is no room for so many bytes more: the last may be in a call
    /// that has not returned.
    fn make_room(&mut self, out: &mut Vec<u8>, bytes: usize) {
        while self.kept + bytes > self.limit && self.print_some(out, |items| items.div_ceil(2)) {}
    }

    /// Prints so many of what each thread has done, in the order of time. Returns whether there was something.
    fn print_some(&mut self, out: &mut Vec<u8>, count: impl Fn(usize) -> usize) -> bool {
        let mut some: Vec<((usize, u32), Item)> = Vec::new();
        for (key, thread) in &mut self.threads {
            let first = thread.items.drain(..count(thread.items.len()));
            some.extend(first.map(|item| (*key, item)));
        }
        some.sort_by_key(|(thread, item)| (item.time, *thread));
        let is_something = !some.is_empty();
        some.into_iter().for_each(|(thread, item)| self.print(out, thread, item));
        is_something
    }

    /// Prints a tree, and forgets it.
    fn print(&mut self, out: &mut Vec<u8>, thread: (usize, u32), item: Item) {
        if let What::Span(span) = &item.what {
            out.extend_from_slice(&span.place);
        } else if let Some(thread) = self.threads.get_mut(&thread) {
            thread.printed = item.time;
            self.text.place_of(out, item.time, thread.epoch, &thread.label);
        }
        out.push(b' ');
        self.kept = self.kept.saturating_sub(self.printer.print(out, item));
    }
}

impl Format for Tree<'_> {
    fn event(&mut self, out: &mut Vec<u8>, record: &Record<'_>) {
        if let Some(call) = self.calls.call(record) {
            return self.call(out, record, call, true);
        }
        match self.spans.role(record) {
            _ if self.calls_only => {}
            role @ (SpanRole::None | SpanRole::Inside) => self.inside(out, record, role),
            role => self.follow(out, record, role, true),
        }
    }

    fn unseen(&mut self, out: &mut Vec<u8>, record: &Record<'_>) {
        if self.calls_only {
            return;
        }
        if let Some(call) = self.calls.call(record) {
            return self.call(out, record, call, false);
        }
        let role = self.spans.role(record);
        if !matches!(role, SpanRole::None | SpanRole::Inside) {
            self.follow(out, record, role, false);
        }
    }

    fn loss(&mut self, out: &mut Vec<u8>, loss: &LossRecord<'_>) {
        self.text.loss(out, loss);
    }

    fn end(&mut self, out: &mut Vec<u8>) {
        self.holds = true;
        let mut open: Vec<(i64, Key)> = self.open.iter().map(|(key, span)| (span.since, *key)).collect();
        // Inner ones first, so that each finds the one around it still there.
        open.sort_unstable();
        for (_, key) in open.into_iter().rev() {
            let Some(mut span) = self.open.remove(&key).filter(|span| span.is_chosen) else { continue };
            if span.inside > 0 {
                span.busy += self.last.abs_diff(span.entered);
            }
            self.ended(out, key.0, span);
        }
        self.print_some(out, |items| items);
    }
}
