//! Calls of functions as begins and ends in the order of time: callers come after what they called.
//!
//! # Cost
//! Memory: some 150 bytes and the fields of each call whose caller has not returned; where there is no more room, it
//! has none.

use crate::tree::KEPT_MAX;
use crate::tree::items::{Called, Item, What, put_call};
use mote_analysis::Call;
use std::collections::HashMap;

/// Calls of threads, until it is known which were outermost.
#[derive(Debug, Default)]
pub(super) struct Held {
    /// By session and thread.
    threads: HashMap<(usize, u32), Vec<Item>>,
    kept: usize,
}

impl Held {
    /// Takes a call with its fields, in the notation of the format.
    pub(super) fn put(&mut self, thread: (usize, u32), call: Call, fields: Vec<u8>) {
        let called = Called { call, fields, items: Vec::new(), is_cut: false };
        self.kept += called.bytes();
        put_call(self.threads.entry(thread).or_default(), thread.1, called, true);
    }

    /// Whether there is no room for more.
    pub(super) fn is_full(&self) -> bool {
        self.kept > KEPT_MAX
    }

    /// Hands all out, by session and thread.
    pub(super) fn take(&mut self) -> Vec<((usize, u32), Item)> {
        self.kept = 0;
        let of = |(key, items): ((usize, u32), Vec<Item>)| items.into_iter().map(move |item| (key, item));
        let mut all: Vec<((usize, u32), Item)> = self.threads.drain().flat_map(of).collect();
        all.sort_by_key(|(thread, item)| (item.time, *thread));
        all
    }
}

/// What happens to a call.
#[derive(Clone, Copy, Debug)]
pub(super) enum Edge<'a> {
    /// It begins; at that time.
    Begin(&'a Called, i64),
    /// The one that began last, and has not ended, ends.
    End(i64),
}

/// Goes through a call and what was in it. Where durations are not exact, what was in it is cut at its ends.
pub(super) fn edges(outermost: Item, mut each: impl FnMut(Edge<'_>)) {
    let mut waiting = vec![Step::Begin(outermost, i64::MIN, i64::MAX)];
    while let Some(step) = waiting.pop() {
        match step {
            Step::End(time) => each(Edge::End(time)),
            Step::Begin(item, first, last) => {
                let What::Call(mut called) = item.what else { continue };
                let (begin, end) = (called.call.begin.clamp(first, last), called.call.end.clamp(first, last));
                each(Edge::Begin(&called, begin));
                waiting.push(Step::End(end));
                waiting.extend(called.items.drain(..).rev().map(|item| Step::Begin(item, begin, end)));
            }
        }
    }
}

enum Step {
    /// With the times that it has to lie between.
    Begin(Item, i64, i64),
    End(i64),
}
