//! The plan of probes in functions of a running process: from functions to the bytes that the library there carries
//! out (`mote_layout::functions`).
//!
//! ```text
//! Request ─ arch::Entry ─▶ candidates: what is moved, where a jump may lead ─ Memory ─▶ places ─ bytes ─▶ plan
//!                                                              Space ─ what is free in the process ┘
//! ```
//! For each function the cheapest candidate is taken for which the process has free memory: a jump in the place of the
//! first instruction, one whose last bytes are those of the code behind it (instruction punning: Chamith et al., PLDI
//! 2017), one in the place of several instructions, whose bytes are breakpoints where these began (E9Patch: Duck et
//! al., PLDI 2020, has a like use of fixed bytes), and at last a breakpoint. Nothing is changed in the process.
//!
//! # Limits
//! A probe lies where the function begins: a loop back to there counts as a call. Code that was moved has no frame to
//! unwind by; calls in it return to where they did, so that exceptions find theirs. Shadow stacks do not know of these
//! calls: a process that has them is refused.
#![forbid(unsafe_code)]

mod arch;
mod bytes;
mod calls;
mod choose;
mod counters;
mod known;
mod left_alone;
mod memory;
mod passed;
mod space;
mod values;

pub use calls::{CallsAre, Counting};
pub use choose::{Asked, Choice, CountedFunctions, Meant, Needs, Nothing, Wanted, choose};
pub use counters::{Counted, Sampling, USUAL_BUDGET, counters, usual_counters};
pub use known::Known;
pub use space::Space;

use arch::{Candidate, Entry};
use memory::{Memory, Pages};
use mote_functions::{Function, Way};
use mote_layout::functions::{Counts, Guard, JUMP_BYTES, Kind, Probe, Scope, Value};

/// A function that is to have a probe.
#[derive(Clone, Debug)]
pub struct Request<'a> {
    /// The description of its event (`mote_layout::describe`), without a NUL.
    pub event: String,
    /// What the event has, if that is more than a duration: as the description says, in its order.
    pub values: Vec<Value>,
    /// Which of its calls are wanted.
    pub scope: Scope,
    /// Where it begins in the process, or where its placeholder is ([`Function::probed_at`]).
    pub address: u64,
    /// What its file says of it.
    pub function: &'a Function,
    /// Code of the file from there on: 32 bytes, or up to the end of the section.
    pub code: &'a [u8],
    /// The same bytes of the process, where they were read: the function is refused when these that matter differ.
    pub current: Option<&'a [u8]>,
}

/// A plan, and what became of each request.
#[derive(Clone, Debug, Default)]
pub struct Planned {
    /// For `mote_layout::functions::Plan`.
    pub bytes: Vec<u8>,
    /// Requests that have a probe, by number, and how it is reached; in the order of the plan.
    pub done: Vec<(usize, By)>,
    /// Requests that have no probe, by number, and the reasons.
    pub refused: Vec<(usize, Refusal)>,
    /// Where calls are counted.
    pub counts: Option<Counts>,
}

/// How a thread comes to a probe.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum By {
    /// A jump in the place of the first instruction.
    Jump,
    /// A jump that ends with bytes of the instructions behind the first one.
    Punned,
    /// A jump in the place of several instructions.
    Window,
    /// A breakpoint.
    Trap,
}

/// Why a function has no probe.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
pub enum Refusal {
    /// As the analysis says, or because there are no bytes.
    #[error("its first instruction cannot be decoded")]
    Undecodable,
    /// It only works where it is.
    #[error("its first instruction cannot be moved")]
    Immovable,
    /// Another tool has changed it, or it is another file.
    #[error("its code in the process is not that of the file")]
    Changed,
    /// Everything within 2 GiB is taken.
    #[error("there is no free memory near it")]
    NoMemory,
    /// The same function twice, or another one that begins in its first bytes.
    #[error("another probe lies there")]
    Overlaps,
    /// Jumps were asked for, and none fits, or has memory where it would lead.
    #[error("there is only room for a breakpoint, which could kill a thread that blocks SIGTRAP")]
    NoJump,
    /// All descriptions together have more than 16 MiB.
    #[error("the descriptions of all events have more than 16 MiB")]
    Texts,
}

/// Plans probes in these functions; those that no jump can reach get a breakpoint.
///
/// What is taken for them is no longer free in `space`. `tick` is a tick's nanoseconds on the time-stamp
/// counter, in units of 2^-32. The same arguments give the same plan.
///
/// # Cost
/// Some 10 µs for each function.
#[must_use]
pub fn plan(requests: &[Request<'_>], space: &mut Space, tick: u64) -> Planned {
    plan_with(bytes::Parts::default(), true, requests, space, tick)
}

/// As [`plan`], by jumps only; `calls` says what becomes of the calls, and `asked` of those that are sampled when a
/// rule asks for that. Where they are counted the plan has `number`; `callers` is the number of those callers that have
/// to be around some calls, 0 where there are none, and `known` is where some have to return to.
#[must_use]
pub fn plan_jumps(
    requests: &[Request<'_>],
    space: &mut Space,
    tick: u64,
    (calls, asked, number): (&CallsAre, Option<&Sampling>, u64),
    (callers, known): (u64, Known),
) -> Planned {
    let mut parts = bytes::Parts { callers, known, ..bytes::Parts::default() };
    let sampling = if let CallsAre::Sampled(sampling) = calls { Some(sampling) } else { asked };
    if let Some(sampling) = sampling {
        parts.counters = sampling.counters.iter().map(|counted| counted.counter).collect();
        parts.budget = sampling.budget;
    }
    // For all functions that are asked for: those that are refused leave words free.
    if let CallsAre::Counted(counting) = calls {
        parts.counts = Counts::new(number, counting.cpus, requests.len() * counting.words());
    }
    plan_with(parts, false, requests, space, tick)
}

fn plan_with(
    parts: bytes::Parts,
    breakpoints: bool,
    requests: &[Request<'_>],
    space: &mut Space,
    tick: u64,
) -> Planned {
    let mut order: Vec<usize> = (0..requests.len()).collect();
    order.sort_by_key(|index| requests.get(*index).map(|request| request.address));
    let mut ordered: Vec<_> =
        order.iter().filter_map(|index| Some((*index, requests.get(*index)?))).collect();
    let (mut done, mut refused) = (Vec::new(), Vec::new());
    ordered.dedup_by(|(index, request), (_, before)| {
        let is_twice = request.address == before.address;
        refused.extend(is_twice.then_some((*index, Refusal::Overlaps)));
        is_twice
    });
    let memory = Memory::new(space);
    let mut planner = Planner { memory, parts, taken: 0, breakpoints };
    for (at, &(index, request)) in ordered.iter().enumerate() {
        let next = ordered.get(at + 1).map_or(u64::MAX, |(_, next)| next.address);
        match planner.place(request, next) {
            Ok(by) => done.push((index, by)),
            Err(why) => refused.push((index, why)),
        }
    }
    let memories = planner.memory.into_parts();
    let counts = planner.parts.counts;
    Planned { bytes: planner.parts.to_bytes(&memories, tick), done, refused, counts }
}

/// Most bytes of all descriptions.
const TEXTS_MAX: usize = 1 << 24;
/// From as many pages on, what shares its page with others comes first: 4 MiB.
const PAGES_MANY: usize = 1 << 10;
/// From as many pages on, nothing else takes new ones: a process may have 65,530 mappings (`vm.max_map_count`).
const PAGES_MAX: usize = 1 << 15;
/// A jump that may lead to as many places shares its page with others.
const PLACES_MANY: u64 = 1 << 16;

struct Planner<'s> {
    memory: Memory<'s>,
    parts: bytes::Parts,
    /// The last probe's bytes end here.
    taken: u64,
    /// Whether functions that no jump can reach get a breakpoint.
    breakpoints: bool,
}

impl Planner<'_> {
    /// Places a function's probe; the next one's function begins at `next`.
    fn place(&mut self, request: &Request<'_>, next: u64) -> Result<By, Refusal> {
        if request.function.way == Way::Unknown {
            return Err(Refusal::Undecodable);
        }
        if request.address >= space::HIGHEST {
            return Err(Refusal::NoMemory);
        }
        if self.parts.texts.len() + request.event.len() >= TEXTS_MAX {
            return Err(Refusal::Texts);
        }
        let entry = Entry::read(request)?;
        if entry.address < self.taken {
            return Err(Refusal::Overlaps);
        }
        let mut candidates = entry.candidates();
        if next < entry.address + JUMP_BYTES as u64 {
            candidates.retain(|candidate| candidate.by == By::Trap);
        }
        if !self.breakpoints {
            candidates.retain(|candidate| candidate.by != By::Trap);
        }
        let (candidate, placed) = self.first_place(&entry, &candidates).map_err(|why| match why {
            Refusal::NoMemory if !self.breakpoints => Refusal::NoJump,
            why => why,
        })?;
        self.add(request, &entry, candidate, &placed);
        Ok(candidate.by)
    }

    /// The first candidate for which there is memory, and where. When many pages are taken, those that need no new one
    /// come first.
    fn first_place<'c>(
        &mut self,
        entry: &Entry,
        candidates: &'c [Candidate],
    ) -> Result<(&'c Candidate, Placed), Refusal> {
        let taken = self.memory.pages();
        let each = |pages| candidates.iter().map(move |candidate| (candidate, pages));
        let is_jump = |(one, _): &(&Candidate, _)| one.by != By::Trap;
        let is_shared = |(one, _): &(&Candidate, _)| one.reach.count() >= PLACES_MANY;
        let mut passes: Vec<_> = Vec::new();
        if taken >= PAGES_MANY {
            passes.extend(each(Pages::Taken).filter(is_jump));
            passes.extend(each(Pages::Free).filter(is_jump).filter(is_shared));
        }
        passes.extend(each(Pages::Any).filter(|one| taken < PAGES_MAX || is_shared(one)));
        for (candidate, pages) in passes {
            if let Some(placed) = self.try_place(entry, candidate, pages) {
                return Ok((candidate, placed));
            }
        }
        let is_movable = entry.copy(1, entry.address).is_some();
        Err(if is_movable { Refusal::NoMemory } else { Refusal::Immovable })
    }

    /// Finds and takes memory for one candidate.
    fn try_place(&mut self, entry: &Entry, candidate: &Candidate, pages: Pages) -> Option<Placed> {
        let moved = candidate.moved;
        let len = entry.body(moved, arch::some_place(entry.address))?.bytes.len();
        // The body itself is where the jump leads.
        if let Some(reach) = candidate.reach.to_body()
            && let Some(at) = self.memory.find(&reach, len, pages)
            && let Some(body) = entry.body(moved, at).filter(|body| body.bytes.len() <= len)
        {
            self.memory.put(at, &body.bytes);
            return Some(Placed { target: at + arch::BODY_AT, at, offsets: body.offsets });
        }
        if candidate.by == By::Trap {
            return None;
        }
        // A jump to the body is: the body lies in the same page, or where most others are.
        let target = self.memory.find(&candidate.reach, arch::STUB_BYTES, pages)?;
        self.memory.put(target, &[0; arch::STUB_BYTES]);
        let any = arch::Reach::any(entry.address).to_body()?;
        for at in [self.memory.find_beside(target, &any, len), self.memory.find(&any, len, Pages::Any)] {
            let Some(at) = at else { continue };
            let Some(body) = entry.body(moved, at).filter(|body| body.bytes.len() <= len) else { continue };
            self.memory.put(at, &body.bytes);
            self.memory.write(target, &arch::stub(at + arch::BODY_AT));
            return Some(Placed { target, at, offsets: body.offsets });
        }
        None
    }

    /// Adds a probe that was placed to the plan.
    fn add(&mut self, request: &Request<'_>, entry: &Entry, candidate: &Candidate, placed: &Placed) {
        let body = placed.at + arch::BODY_AT;
        let kind = if candidate.by == By::Trap { Kind::Trap } else { Kind::Jump };
        let new = match kind {
            Kind::Jump => arch::jump(entry.address, placed.target),
            Kind::Trap => arch::trap(entry.old),
        };
        let changed = if kind == Kind::Trap { 1 } else { JUMP_BYTES as u64 };
        self.taken = entry.address + changed;
        let guards = entry.boundaries(candidate);
        self.parts.guards.extend(guards.iter().map(|(distance, number)| Guard {
            address: entry.address + distance,
            copy: placed.at + placed.offsets.get(*number).copied().unwrap_or_default(),
        }));
        self.parts.probes.push(Probe {
            address: entry.address,
            body,
            target: placed.target,
            copy: body + entry.copy_at(),
            text: self.parts.texts.len() as u32,
            values: (self.parts.values.len() as u32, request.values.len() as u32),
            guards: guards.iter().fold(0, |bits, (distance, _)| bits | 1 << distance),
            kind,
            scope: request.scope,
            old: entry.old,
            new,
        });
        self.parts.texts.extend_from_slice(request.event.as_bytes());
        self.parts.texts.push(0);
        self.parts.values.extend_from_slice(&request.values);
    }
}

/// Where a probe's code is.
struct Placed {
    target: u64,
    /// Where its cells are, with the body behind them.
    at: u64,
    /// Of the instructions' copies from there.
    offsets: Vec<u64>,
}
