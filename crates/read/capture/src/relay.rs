//! Calls with their times, by several threads, with the same result as by one.
//!
//! Some threads follow parts of a stream through code, and write down what decides calls and times: which branches call
//! and return, and where packets of time stand. One thread reads that in its order, as if it came from the flow itself.

use crate::code::Code;
use crate::error::Error;
use crate::follow::{Before, Following, GRAPH_BYTES, Joint, THREADS_MAX, follow_timed, with_times};
use crate::stream::{Bytes, Part};
use mote_pt::flow::{Block, Event, Gap, Graph, Sink};
use mote_pt::image::Space;
use mote_pt::insn::Class;
use mote_pt::packet::Packet;
use mote_pt::time::{Clocks, TimedSink};
use std::collections::VecDeque;
use std::sync::mpsc::{Receiver, SyncSender, channel, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

/// How much is written down before it is handed on, and how often that may wait: some MiB for each part.
const CHUNK: usize = 1 << 14;
const CHUNKS_MAX: usize = 4;
/// Most instructions that are written down as one block.
const RUN_MAX: u32 = 1 << 30;

/// Follows a stream as [`follow_timed`] does, by several threads, for sinks that want calls only: blocks without a call
/// or a return between are joined to one, and packets that tell no time are left out. One thread does all where
/// code changes at a count of instructions, and where it is known which thread runs when (of a processor's stream):
/// that is told in the order of the stream.
///
/// # Cost
/// Of each block that calls or returns, and of each packet of time, some 50 bytes for a while.
///
/// # Errors
/// The stream cannot be read.
pub fn follow_calls<S: TimedSink>(
    bytes: &Bytes,
    code: &Code,
    clocks: &Clocks,
    threads: usize,
    sink: &mut S,
) -> Result<(), Error> {
    let threads = threads.min(THREADS_MAX);
    // Which part has the thread's so manieth instruction is only known behind the parts before it. Who runs is told by
    // the flow, and not written down.
    if threads < 2 || code.changes_by_count() || !code.runs().is_empty() {
        return follow_timed(bytes, code, clocks, sink, |_| true);
    }
    let (to, work) = channel();
    let work = Mutex::new(work);
    thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| write_down(&work, code, GRAPH_BYTES / threads));
        }
        let mut parts = bytes.parts();
        let mut reader = Reader { clocks, sink, floor: None, before: Before::default() };
        let mut under_way = VecDeque::new();
        let done = loop {
            let next = if under_way.len() > threads { Ok(None) } else { parts.next_part() };
            match next {
                Ok(Some(part)) => {
                    let (part, (sender, receiver)) = (Arc::new(part), sync_channel(CHUNKS_MAX));
                    under_way.push_back((part.clone(), receiver));
                    let _ = to.send((part, sender));
                }
                Ok(None) => match under_way.pop_front() {
                    Some((part, receiver)) => reader.part(&part, &receiver),
                    None => break Ok(()),
                },
                Err(why) => break Err(why),
            }
        };
        // Threads that wait for work, or to be read, end.
        drop((to, under_way));
        done
    })
}

/// Something that a flow says.
enum Said {
    Block(Block),
    Event(u64, Event),
    Gap(Gap),
    Space(Space),
    /// The part has ended, and leads on to an address.
    End(Option<u64>),
}

type Work = (Arc<Part>, SyncSender<Vec<Said>>);

/// Follows part after part.
fn write_down(work: &Mutex<Receiver<Work>>, code: &Code, graph_bytes: usize) {
    let mut graph = Graph::new(graph_bytes);
    loop {
        let next = work.lock().unwrap_or_else(PoisonError::into_inner).recv();
        let Ok((part, to)) = next else { return };
        let mut writer = Writer { to, said: Vec::new(), run: None, is_behind_time: true, is_unread: false };
        let mut following = Following::new(code, 0, &mut writer);
        let (decoded, place) = following.part(&part, graph, |writer| !writer.is_unread);
        graph = decoded;
        writer.push(Said::End(place));
        writer.hand_on();
    }
}

/// Writes down what decides calls and times.
struct Writer {
    to: SyncSender<Vec<Said>>,
    said: Vec<Said>,
    /// Blocks that are joined.
    run: Option<Block>,
    /// A packet of time came, and no branch behind it yet: what is executed is told apart.
    is_behind_time: bool,
    /// Nobody reads it any more.
    is_unread: bool,
}

impl Writer {
    fn push(&mut self, said: Said) {
        if let Some(run) = self.run.take() {
            self.said.push(Said::Block(run));
        }
        self.said.push(said);
        if self.said.len() >= CHUNK {
            self.hand_on();
        }
    }

    fn hand_on(&mut self) {
        let said = std::mem::take(&mut self.said);
        self.is_unread |= self.to.send(said).is_err();
    }
}

impl Sink for Writer {
    #[inline]
    fn block(&mut self, block: &Block, _: &Graph) {
        if self.is_behind_time {
            // Where a packet says where it has led to, the packet of time before it was of it at the latest.
            self.is_behind_time = !block.class.has_packet();
            return self.push(Said::Block(*block));
        }
        let mut run = *block;
        if let Some(before) = self.run.take() {
            run.start = before.start;
            run.instructions += before.instructions;
        }
        if may_call(block.class) || run.instructions > RUN_MAX {
            self.push(Said::Block(run));
        } else {
            self.run = Some(run);
        }
    }

    fn event(&mut self, offset: u64, event: Event) {
        match event {
            Event::Packet { packet: Packet::Tsc(_) | Packet::Mtc(_) | Packet::Cyc(_), .. } => {
                self.is_behind_time = true;
            }
            Event::Packet { .. } => return,
            _ => {}
        }
        self.push(Said::Event(offset, event));
    }

    fn gap(&mut self, gap: Gap) {
        self.push(Said::Gap(gap));
    }

    fn space(&mut self, space: Space) {
        self.push(Said::Space(space));
    }
}

/// Whether it may be a call or a return, as those who look for calls see it.
fn may_call(class: Class) -> bool {
    matches!(class, Class::Call | Class::IndirectCall | Class::Return | Class::Far)
}

/// Reads what was written down.
struct Reader<'r, S> {
    clocks: &'r Clocks,
    sink: &'r mut S,
    floor: Option<u64>,
    before: Before,
}

impl<S: TimedSink> Reader<'_, S> {
    /// All of a part.
    fn part(&mut self, part: &Part, said: &Receiver<Vec<Said>>) {
        let mut timed = with_times(&mut *self.sink, part, self.clocks, self.floor);
        let mut joint = Joint { sink: &mut timed, before: std::mem::take(&mut self.before) };
        let graph = Graph::new(0);
        let mut end = None;
        for said in said.iter().flatten() {
            match said {
                Said::Block(block) => joint.block(&block, &graph),
                Said::Event(offset, event) => joint.event(offset, event),
                Said::Gap(gap) => joint.gap(gap),
                Said::Space(space) => joint.space(space),
                Said::End(place) => end = place,
            }
        }
        self.before = Before { place: end, ..joint.before };
        self.floor = timed.floor();
    }
}
