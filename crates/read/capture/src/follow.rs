//! Streams through code, part by part: in their order, or several parts at once.
//!
//! A part begins at a PSB, which says all that the flow needs to know, and ends with the PSB+ of the next one, which
//! says where the last packets lead to. So parts are followed one by one, and the results are the same wherever that
//! happens; only memory of the code that was decoded goes on to the next part.

use crate::code::{Code, Now};
use crate::error::Error;
use crate::moment::{Moment, Reached};
use crate::pace;
use crate::stream::{Bytes, Part, Parts};
use crate::versions::Versions;
use mote_pt::flow::{Event, Flow, Gap, Graph, Progress, Sink, Start};
use mote_pt::image::Space;
use mote_pt::insn::{Block, INSTRUCTIONS_MAX};
use mote_pt::packet::{Decoder, Item, Packet};
use mote_pt::time::{Clocks, Point, Points, Timed, TimedSink};
use std::collections::BTreeMap;
use std::iter::Peekable;
use std::slice;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;

/// Memory for decoded code, of all threads together.
pub(crate) const GRAPH_BYTES: usize = 128 << 20;
/// Most threads.
pub(crate) const THREADS_MAX: usize = 8;
/// How many parts may wait for one before them, for each thread.
const AHEAD_MAX: usize = 4;

/// Blocks that are followed before it is looked whether code changes; and so many instructions before it does, one by
/// one.
const BLOCKS_MAX: usize = Flow::<Decoder<'_>, Code>::BLOCKS_MAX;
const SOON_MAX: u64 = (BLOCKS_MAX * INSTRUCTIONS_MAX) as u64;

/// Follows a stream through its code; gives all that comes to `sink`, as long as `goes_on` says so.
///
/// # Errors
/// The stream cannot be read.
pub fn follow<S: Sink>(
    bytes: &Bytes,
    code: &Code,
    sink: &mut S,
    goes_on: impl Fn(&S) -> bool,
) -> Result<(), Error> {
    let (mut parts, mut walk) = (bytes.parts(), Walk::new(code));
    while let Some(part) = parts.next_part()? {
        walk.part(&part, sink, &goes_on);
        if !goes_on(sink) {
            break;
        }
    }
    Ok(())
}

/// The same, with times: whatever comes is given to `sink` between its bounds, in ticks of the time stamp counter.
///
/// # Cost
/// Packets are read twice; and an addition or two for each block.
///
/// # Errors
/// The stream cannot be read.
pub fn follow_timed<S: TimedSink>(
    bytes: &Bytes,
    code: &Code,
    clocks: &Clocks,
    sink: &mut S,
    goes_on: impl Fn(&S) -> bool,
) -> Result<(), Error> {
    follow_parts(bytes, code, clocks, sink, |_, _| {}, goes_on)
}

/// The same; `each` gets each part before it is followed.
pub(crate) fn follow_parts<S: TimedSink>(
    bytes: &Bytes,
    code: &Code,
    clocks: &Clocks,
    sink: &mut S,
    each: impl Fn(&mut S, &Part),
    goes_on: impl Fn(&S) -> bool,
) -> Result<(), Error> {
    let (mut parts, mut walk) = (bytes.parts(), Walk::new(code));
    let mut floor = None;
    while let Some(part) = parts.next_part()? {
        each(sink, &part);
        floor = {
            let mut timed = with_times(&mut *sink, &part, clocks, floor);
            walk.part(&part, &mut timed, |timed| goes_on(timed.sink()));
            timed.floor()
        };
        if !goes_on(sink) {
            break;
        }
    }
    Ok(())
}

/// A sink for a part's flow, which gives all of it to `sink` with its times; `floor` is the last lower bound of the
/// parts before.
pub(crate) fn with_times<S: TimedSink>(
    sink: S,
    part: &Part,
    clocks: &Clocks,
    floor: Option<u64>,
) -> Timed<S, impl Iterator<Item = Point>> {
    // Behind the part's packets is the next one's PSB+, whose TSC bounds the last ones.
    let items = part.packets().map(|item| (item.offset, item.what));
    let points = Points::new(items, Clocks { begin: floor.unwrap_or(clocks.begin), ..clocks.clone() });
    Timed::new(sink, points).resumed(floor)
}

/// Follows the parts of a stream in their order.
struct Walk<'c> {
    code: &'c Code,
    graph: Graph,
    count: u64,
    before: Before,
}

impl<'c> Walk<'c> {
    fn new(code: &'c Code) -> Walk<'c> {
        Walk { code, graph: Graph::new(GRAPH_BYTES), count: 0, before: Before::default() }
    }

    /// Follows the next part, as long as `goes_on` says so.
    fn part<S: Sink>(&mut self, part: &Part, sink: &mut S, goes_on: impl Fn(&S) -> bool) {
        let mut joint = Joint { sink, before: std::mem::take(&mut self.before) };
        let mut following = Following::new(self.code, self.count, &mut joint);
        let graph = std::mem::replace(&mut self.graph, Graph::new(0));
        let (graph, place) = following.part(part, graph, |joint| goes_on(joint.sink));
        (self.graph, self.count) = (graph, following.instructions);
        self.before = Before { place, ..joint.before };
    }
}

/// What parts of a stream say together: of each part for itself, and then joined in their order.
pub trait Summary: Sink + Send {
    /// The part is about to be followed.
    fn begin(&mut self, part: &Part);

    /// It was, and that is the address of the next instruction, where it is known.
    fn end(&mut self, place: Option<u64>);

    /// Adds what the next part says.
    fn append(&mut self, next: Self);
}

/// Follows a stream through its code, by several threads where there are several processors; gives what the parts say
/// together.
///
/// # Errors
/// The stream cannot be read.
pub fn summarize<S: Summary>(
    bytes: &Bytes,
    code: &Code,
    threads: usize,
    make: impl Fn() -> S + Sync,
) -> Result<S, Error> {
    // Which part has the thread's so manieth instruction is only known behind the parts before it.
    let threads = if code.changes_by_count() { 1 } else { threads.clamp(1, THREADS_MAX) };
    let work =
        Work { code, threads, queue: Mutex::new(Queue::new(bytes.parts(), &make)), joined: Condvar::new() };
    if threads == 1 {
        work.run(&make);
    } else {
        thread::scope(|scope| {
            (0..threads).for_each(|_| drop(scope.spawn(|| work.run(&make))));
        });
    }
    let queue = work.queue.into_inner().unwrap_or_else(PoisonError::into_inner);
    queue.failed.map_or(Ok(queue.sum), Err)
}

/// How many threads [`summarize`] is best given here.
#[must_use]
pub fn threads() -> usize {
    thread::available_parallelism().map_or(1, usize::from)
}

/// What the threads of a summary share.
struct Work<'w, S> {
    code: &'w Code,
    threads: usize,
    queue: Mutex<Queue<'w, S>>,
    joined: Condvar,
}

struct Queue<'w, S> {
    parts: Parts<'w>,
    /// How many parts were joined.
    next: usize,
    sum: S,
    /// Parts behind one that is not done.
    waiting: BTreeMap<usize, S>,
    failed: Option<Error>,
}

impl<'w, S: Summary> Queue<'w, S> {
    fn new(parts: Parts<'w>, make: impl Fn() -> S) -> Self {
        Queue { parts, next: 0, sum: make(), waiting: BTreeMap::new(), failed: None }
    }

    fn put(&mut self, index: usize, summary: S) {
        self.waiting.insert(index, summary);
        while let Some(next) = self.waiting.remove(&self.next) {
            self.sum.append(next);
            self.next += 1;
        }
    }
}

impl<'w, S: Summary> Work<'w, S> {
    /// Takes part after part.
    fn run(&self, make: impl Fn() -> S) {
        let mut graph = Graph::new(GRAPH_BYTES / self.threads);
        let mut count = 0;
        while let Some(part) = self.next() {
            let mut summary = make();
            summary.begin(&part);
            let mut following = Following::new(self.code, count, &mut summary);
            let (decoded, place) = following.part(&part, graph, |_| true);
            (graph, count) = (decoded, following.instructions);
            summary.end(place);
            self.lock().put(part.index, summary);
            self.joined.notify_all();
        }
    }

    fn next(&self) -> Option<Part> {
        let mut queue = self.lock();
        let is_far_ahead = |queue: &Queue<'_, S>| queue.waiting.len() > AHEAD_MAX * self.threads;
        while is_far_ahead(&queue) {
            queue = self.joined.wait(queue).unwrap_or_else(PoisonError::into_inner);
        }
        let part = if queue.failed.is_none() { queue.parts.next_part() } else { Ok(None) };
        part.unwrap_or_else(|why| {
            queue.failed = Some(why);
            None
        })
    }

    fn lock(&self) -> MutexGuard<'_, Queue<'w, S>> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Follows a part through code as it changes.
pub(crate) struct Following<'f, S> {
    code: &'f Code,
    sink: &'f mut S,
    /// Events of packets behind the part are told by the next one.
    end: u64,
    /// Such an event was that code goes on, which it does not by itself then.
    is_cut: bool,
    /// How many instructions were executed since the stream's begin.
    instructions: u64,
    /// How far time has come.
    reached: Reached,
    /// Where the part tells times, if anything counts by time.
    points: Option<pace::Points>,
    /// The versions of a process whose address space was entered, until these count.
    entered: Option<&'f Versions>,
    /// Packets are of a virtual machine.
    is_guest: bool,
    /// Which thread runs next, where the stream is a processor's.
    runs: Peekable<slice::Iter<'f, (Moment, i32)>>,
}

impl<'f, S: Sink> Following<'f, S> {
    pub(crate) fn new(code: &'f Code, instructions: u64, sink: &'f mut S) -> Following<'f, S> {
        Following {
            code,
            sink,
            end: u64::MAX,
            is_cut: false,
            instructions,
            reached: Reached::default(),
            points: None,
            entered: None,
            is_guest: false,
            runs: code.runs().iter().peekable(),
        }
    }

    /// Says which thread runs, if that has changed.
    fn look_who_runs(&mut self) {
        let (instructions, reached) = (self.instructions, self.reached);
        let mut last = None;
        while let Some((_, tid)) = self.runs.next_if(|(from, _)| from.is_reached(instructions, reached)) {
            last = Some(*tid);
        }
        last.into_iter().for_each(|tid| self.sink.thread(tid));
    }

    /// Follows a part, as long as `goes_on` says so; gives the decoded code back, and the address where the next part
    /// goes on, if this one leads there.
    pub(crate) fn part(
        &mut self,
        part: &Part,
        graph: Graph,
        goes_on: impl Fn(&S) -> bool,
    ) -> (Graph, Option<u64>) {
        self.end = part.end();
        if part.is_new {
            self.sink.event(part.offset, Event::Cut);
        }
        self.points = self.code.clocks().map(|clocks| pace::Points::of(part.packets(), clocks));
        let items = part.packets().filter(is_said::<S>);
        let packets = items.map(|item| (item.offset, item.what));
        let now = Now::new(self.code);
        let tracing = self.code.tracing();
        let flow = Flow::new(packets, &now).with_graph(graph).with_errata(part.errata);
        let flow = flow.with_filter(tracing.filter.iter().cloned());
        let mut flow = if tracing.is_without_branches { flow.without_branches() } else { flow };
        let mut versions = self.code.versions().iter().peekable();
        let mut guests = self.code.guests().iter().peekable();
        loop {
            self.look_who_runs();
            if let Some(entered) = self.entered.take() {
                versions = entered.iter().peekable();
            }
            let (instructions, reached) = (self.instructions, self.reached);
            if let Some(space) = last_reached(&mut versions, instructions, reached) {
                now.change(space);
                if !self.is_guest {
                    flow.change_space(space, self);
                }
            }
            if let Some(space) = last_reached(&mut guests, instructions, reached) {
                now.change_guest(space);
                if self.is_guest {
                    flow.change_space(space, self);
                }
            }
            let next = versions.peek().map_or(u64::MAX, |(from, _)| from.instructions());
            let next = next.min(self.runs.peek().map_or(u64::MAX, |(from, _)| from.instructions()));
            let is_soon = next.saturating_sub(instructions) <= SOON_MAX;
            flow.set_blocks_max(if is_soon { 1 } else { BLOCKS_MAX });
            if flow.advance(self) == Progress::End || !goes_on(self.sink) {
                let place = flow.place().filter(|_| !self.is_cut);
                return (flow.into_graph(), place);
            }
        }
    }
}

/// The last of the versions that count by now, of those that did not before.
fn last_reached<'v>(
    versions: &mut Peekable<impl Iterator<Item = &'v (Moment, Space)>>,
    instructions: u64,
    reached: Reached,
) -> Option<Space> {
    let mut last = None;
    while let Some((_, space)) = versions.next_if(|(from, _)| from.is_reached(instructions, reached)) {
        last = Some(*space);
    }
    last
}

/// How far time had come at an event. Where tracing begins, a program comes back from the kernel: what that has mapped
/// was before the next packet of time, whatever the last one said.
fn reached_at(points: &mut pace::Points, offset: u64, event: &Event) -> Reached {
    let [last, next] = points.around(offset);
    match event {
        Event::Packet { packet: Packet::Tsc(tsc), .. } => Reached { time: Some(*tsc), next: None },
        // Behind the last one, all that is known: more than any recording takes, and less than half of 56 bits.
        Event::Enabled { by: Start::Pge, .. } => {
            Reached { time: last, next: next.or(Some(last.unwrap_or(0).wrapping_add(1 << 54))) }
        }
        _ => Reached { time: last, next: None },
    }
}

/// Padding says nothing, and CYC only to sinks that need time.
#[inline]
fn is_said<S: Sink>(item: &Item) -> bool {
    !matches!(item.what, Ok(Packet::Pad)) && (S::NEEDS_TIME || !matches!(item.what, Ok(Packet::Cyc(_))))
}

impl<S: Sink> Sink for Following<'_, S> {
    const NEEDS_TIME: bool = S::NEEDS_TIME;

    #[inline(always)]
    fn block(&mut self, block: &Block, graph: &Graph) {
        self.instructions += u64::from(block.instructions);
        self.sink.block(block, graph);
    }

    #[inline]
    fn event(&mut self, offset: u64, event: Event) {
        if let Some(points) = &mut self.points {
            self.reached = reached_at(points, offset, &event);
        }
        self.look_who_runs();
        if let Event::AddressSpace { is_guest, .. } = event {
            self.is_guest = is_guest;
        }
        if let Event::AddressSpace { cr3, is_guest: false } = event {
            let (instructions, reached) = (self.instructions, self.reached);
            let entered = self.code.entered(cr3, |from| from.is_reached(instructions, reached));
            self.entered = entered.or(self.entered);
        }
        if offset < self.end {
            self.sink.event(offset, event);
        } else {
            self.is_cut |= matches!(event, Event::Enabled { .. });
        }
    }

    fn gap(&mut self, gap: Gap) {
        self.sink.gap(gap);
    }

    fn space(&mut self, space: Space) {
        self.sink.space(space);
    }
}

/// A sink for parts in their order: what a part begins with is not said again, where the one before has led to it.
pub(crate) struct Joint<'s, S> {
    pub(crate) sink: &'s mut S,
    pub(crate) before: Before,
}

/// What is known at the end of a part.
#[derive(Default)]
pub(crate) struct Before {
    /// The next instruction.
    pub(crate) place: Option<u64>,
    pub(crate) mode: Option<Event>,
    pub(crate) paging: Option<Event>,
    pub(crate) vmcs: Option<Event>,
}

impl<S: Sink> Sink for Joint<'_, S> {
    const NEEDS_TIME: bool = S::NEEDS_TIME;

    #[inline(always)]
    fn block(&mut self, block: &Block, graph: &Graph) {
        self.sink.block(block, graph);
    }

    #[inline]
    fn event(&mut self, offset: u64, event: Event) {
        if let Event::Packet { .. } = event {
            return self.sink.event(offset, event);
        }
        let Before { place, mode, paging, vmcs } = &mut self.before;
        let is_new = match event {
            Event::Enabled { address, by: Start::Psb } => place.take() != Some(address),
            Event::Mode { .. } => mode.replace(event) != Some(event),
            Event::AddressSpace { .. } => paging.replace(event) != Some(event),
            Event::Vmcs(_) => vmcs.replace(event) != Some(event),
            Event::Cut => {
                *place = None;
                true
            }
            _ => true,
        };
        if is_new {
            self.sink.event(offset, event);
        }
    }

    fn gap(&mut self, gap: Gap) {
        self.sink.gap(gap);
    }

    fn space(&mut self, space: Space) {
        self.sink.space(space);
    }

    fn thread(&mut self, tid: i32) {
        self.sink.thread(tid);
    }
}
