//! Plans that no session wants any more are taken away: else a process that is recorded again and again would have ever
//! more of them, and ever fewer places for the next one's code.
//!
//! # Parties
//! The loader, one recorder's at a time, on a thread of ours (`load`). Handlers of breakpoints, which only read.
//! Threads of the program, which may be in the code of a function that is off by now, or in a call of it: none comes to
//! either any more.
//!
//! # Who may take it away
//! Where the program's threads are the process cannot say; the recorder can, which stops each of them for a moment. So
//! that the code of a plan that it has not asked about is left alone, it names the number by which it has asked.
//!
//! # Steps
//! ```text
//! live ─ RETIRE: off for good ─▶ retired ─ each thread was elsewhere; RELEASE: code unmapped ─▶ released
//! released ─ RELEASE: no slot has a call ─▶ quiet ─ the next RELEASE: memory unmapped ─▶ gone
//! ```
//! A thread that is elsewhere has the record of a function in a slot only. Where no slot has one, a thread may still
//! have it whose call has just ended: it was elsewhere again by the next recorder's look.

use crate::load::{self, Loaded};
use crate::{budget, callers, known, nearby, stack};
use core::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use mote_agent::Function;
use mote_layout::functions::{JUMP_BYTES, Plan};
use mote_layout::retired::{RELEASE, RETIRE, RETIRED_AT};
use mote_sys::fd::{self, Fd};
use mote_sys::raw::syscall;
use mote_sys::{Errno, Result, mem};

/// What has become of a plan's code.
pub(crate) struct State(AtomicU8);

/// Its functions may be on.
const LIVE: u8 = 0;
/// They are off for good.
const RETIRED: u8 = 1;
/// Its code is not there any more.
const RELEASED: u8 = 2;
/// No call of them is under way.
const QUIET: u8 = 3;
/// Nothing of it is there any more.
const GONE: u8 = 4;

impl State {
    pub(crate) const fn new() -> State {
        State(AtomicU8::new(LIVE))
    }

    /// Whether its code is not there any more.
    pub(crate) fn is_released(&self) -> bool {
        self.0.load(Ordering::Acquire) >= RELEASED
    }

    fn is(&self, state: u8) -> bool {
        self.0.load(Ordering::Acquire) == state
    }

    fn set(&self, state: u8) {
        self.0.store(state, Ordering::Release);
    }
}

/// The number by which plans were given up for the last time.
static NUMBER: AtomicU64 = AtomicU64::new(0);

/// Pieces of code that are written at a time.
const AT_ONCE: usize = 64;

/// Does what the file asks for, if that is no plan; returns how many pieces of code it was about.
///
/// # Errors
/// As `load`.
///
/// # Safety
/// `plan-true`.
pub(crate) unsafe fn asked(file: &Fd) -> Result<Option<usize>> {
    let mut words = [0; 2 * 8];
    let read = fd::read_at(file, &mut words, 0)?;
    let [what, number] = [0, 8].map(|at| words.get(at..).and_then(<[u8]>::first_chunk::<8>));
    let [what, number] = [what, number].map(|word| word.map_or(0, |word| u64::from_le_bytes(*word)));
    match what {
        RETIRE if read == words.len() => retire(file, number).map(Some),
        // SAFETY: the caller's promise.
        RELEASE if read == words.len() => unsafe { release(number) }.map(Some),
        _ => Ok(None),
    }
}

/// Gives up all plans, and says where their code is.
fn retire(file: &Fd, number: u64) -> Result<usize> {
    if !mote_agent::retire_functions(is_off) {
        return Err(Errno(libc::EBUSY));
    }
    budget::end();
    load::all().filter(|loaded| loaded.state.is(LIVE)).for_each(|loaded| loaded.state.set(RETIRED));
    NUMBER.store(number, Ordering::Relaxed);
    let (begin, bytes) = stack::area();
    let (mut pairs, mut at) = ([[0_u64; 2]; AT_ONCE], RETIRED_AT as u64);
    let code = retired().flat_map(|loaded| loaded.plan.memories());
    let code = code.map(|memory| [memory.address, memory.address + memory.len]);
    // They lead to code only.
    let copies = nearby::copies().filter(|_| retired().next().is_some());
    let mut all = [[begin as u64, (begin + bytes) as u64], stack::tops()]
        .into_iter()
        .chain(copies.map(|[begin, end]| [begin as u64, end as u64]))
        .chain(code);
    let mut count = 0;
    loop {
        let len = pairs.iter_mut().zip(&mut all).map(|(to, pair)| *to = pair).count();
        let pairs = pairs.get(..len).unwrap_or_default();
        if pairs.is_empty() {
            // Without the first two.
            return Ok(count - 2);
        }
        let mut bytes = [[0; 16]; AT_ONCE];
        for (to, [begin, end]) in bytes.iter_mut().zip(pairs) {
            let word = |at: u64| at.to_le_bytes();
            to.iter_mut().zip(word(*begin).into_iter().chain(word(*end))).for_each(|(to, byte)| *to = byte);
        }
        let bytes = bytes.get(..len).unwrap_or_default().as_flattened();
        fd::write_at(file, bytes, at)?;
        (count, at) = (count + len, at + bytes.len() as u64);
    }
}

fn retired() -> impl Iterator<Item = &'static Loaded> {
    load::all().filter(|loaded| loaded.state.is(RETIRED))
}

/// Whether no jump to its probe is at the place of a function: also not below a breakpoint of the kernel's. It may not
/// be there any more.
fn is_off(function: &Function) -> bool {
    let mut there = [0; JUMP_BYTES];
    let read = mem::read_own([(function.address, JUMP_BYTES)], &mut there);
    let place = &function.place;
    read < JUMP_BYTES || there == place.off || there.get(1..) != place.on.get(1..)
}

/// Unmaps the code of plans that were given up by this number, and the memory of those whose code has gone before.
/// Returns how many pieces of code it was.
///
/// # Safety
/// Since they were given up each thread was once neither in code of ours nor about to come back to it.
unsafe fn release(number: u64) -> Result<usize> {
    if number == 0 || NUMBER.swap(0, Ordering::Relaxed) != number {
        return Err(Errno(libc::ESTALE));
    }
    let mut count = 0;
    // A function of theirs may count in what came with a later plan.
    let counts = load::all().any(|loaded| loaded.state.is(RELEASED) && loaded.plan.counts.is_some());
    let are_forgotten = budget::forget();
    for loaded in load::all() {
        let Loaded { plan, state, memory, .. } = loaded;
        if state.is(QUIET) && !(counts && plan.counts.is_some()) {
            state.set(GONE);
            let callers = plan.callers;
            memory.iter().for_each(|range| unmap(range.start, range.end - range.start));
            if !load::all().any(|other| !other.state.is(GONE) && other.plan.callers == callers) {
                callers::forget(callers);
            }
        }
        if state.is(RETIRED) {
            // Before anything else may come to lie there.
            state.set(RELEASED);
            known::forget(plan);
            for memory in plan.memories() {
                unmap(memory.address as usize, memory.len as usize);
                count += 1;
            }
        }
        let [_, records, _] = memory;
        // Functions that were sampled are in lists until they are forgotten.
        if state.is(RELEASED) && (are_forgotten || !is_sampled(plan)) && !stack::has_call_of(records) {
            state.set(QUIET);
        }
    }
    Ok(count)
}

fn is_sampled(plan: &Plan<'_>) -> bool {
    plan.budget != 0 || plan.counters().next().is_some()
}

fn unmap(at: usize, len: usize) {
    if len > 0 {
        // SAFETY: of a plan's own memory, to which nothing leads any more (`release`).
        let _ = unsafe { syscall(libc::SYS_munmap, [at, len, 0, 0, 0, 0]) };
    }
}
