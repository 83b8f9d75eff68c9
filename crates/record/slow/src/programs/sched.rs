//! The programs at the scheduler's events: what a thread waits for, for how long, and who ended it.

use crate::offsets::{Offsets, Throttled};
use crate::places as at;
use crate::programs::code::{CONTROL, Code, GET_TASK_STACK, add_to};
use mote_bpf::helper::{GET_CURRENT_COMM, GET_SMP_PROCESSOR_ID, KTIME_GET_NS};
use mote_bpf::op::{Cond, Size};
use mote_bpf::{Insn, Reg};
use mote_builder::{BuildError, Label};
use mote_generate::state::Layout;
use mote_layout::cooperation as area;
use std::mem::offset_of;

/// On the stack: the time, and how long the thread was off its CPU, and without one of that.
const NOW: i16 = -8;
const OFF: i16 = -16;
const QUEUED: i16 = -24;

/// Task states, without what the scheduler notes beside them (`TASK_FREEZABLE` and the like).
const STATES: i32 = 0x80ff;

/// `TASK_DEAD`
const DEAD: i32 = 0x80;

/// Offset of a member of `State` in a slot.
macro_rules! state {
    ($member:ident) => {
        (area::STATE_AT + offset_of!(area::State, $member)) as i16
    };
}

/// `sched_switch(preempt, prev, next, prev_state)`
pub(crate) fn switch(offsets: &Offsets, layout: Layout) -> Result<Vec<Insn>, BuildError> {
    let mut code = Code::new(offsets, layout);
    let (next, out) = (code.b.label(), code.out);
    code.b.mov(Reg::R6, Reg::R1);
    code.b.load(Size::DW, Reg::R8, Reg::R6, 8);
    code.thread(next);
    leaves(&mut code, next);
    code.b.bind(next);
    code.b.load(Size::DW, Reg::R8, Reg::R6, 16);
    code.thread(out);
    comes(&mut code);
    code.end();
    code.finish()
}

/// The thread in `r8` is taken off its CPU.
fn leaves(code: &mut Code<'_>, next: Label) {
    let (first, known, runnable, publish) = (code.b.label(), code.b.label(), code.b.label(), code.b.label());
    let b = &mut code.b;
    b.call(KTIME_GET_NS);
    b.store(Size::DW, Reg::R9, at::OUT, Reg::R0);
    b.store(Size::DW, Reg::R9, at::WAKE, 0);
    b.load(Size::W, Reg::R1, Reg::R9, at::SWITCHES);
    b.mov(Reg::R2, Reg::R1);
    b.add(Reg::R1, 1);
    b.store(Size::W, Reg::R9, at::SWITCHES, Reg::R1);
    b.branch(Cond::Eq, Reg::R2, 0, first);
    b.jump(known);
    b.bind(first);
    b.store(Size::DW, Reg::R9, at::FIRST_OUT, Reg::R0);
    for word in [at::OFFCPU, at::RUNQUEUE, at::THROTTLED, at::LONGEST, at::RIVAL] {
        b.store(Size::DW, Reg::R9, word, 0);
    }
    b.store(Size::W, Reg::R9, at::STACK_BYTES, 0);
    b.bind(known);
    // State 0: it would have gone on.
    b.mov(Reg::R2, 0);
    b.load(Size::DW, Reg::R1, Reg::R6, 0);
    b.branch32(Cond::Ne, Reg::R1, 0, runnable);
    b.load(Size::DW, Reg::R2, Reg::R6, 24);
    b.and(Reg::R2, 0xffff);
    b.bind(runnable);
    b.store(Size::W, Reg::R9, at::STATE, Reg::R2);
    // It never comes back: its id, and with that its record, may be another thread's next.
    let lives = b.label();
    b.mov(Reg::R1, Reg::R2);
    b.and(Reg::R1, DEAD);
    b.branch(Cond::Eq, Reg::R1, 0, lives);
    b.store(Size::W, Reg::R9, at::TID, 0);
    b.jump(next);
    b.bind(lives);
    throttled(code, publish);
    code.b.bind(publish);
    code.b.store(Size::W, Reg::R9, at::FLAGS, Reg::R3);
    code.area(next);
    code.slot(next);
    left(code);
}

/// `r3` = flags of the thread that is taken off. Goes to `done` early when there is nothing to look at.
fn throttled(code: &mut Code<'_>, done: Label) {
    let b = &mut code.b;
    b.mov(Reg::R3, 0);
    match code.offsets.throttled {
        Throttled::Unknown => {}
        Throttled::Task(at) => {
            b.load(Size::B, Reg::R3, Reg::R8, at);
            b.and(Reg::R3, 1);
        }
        Throttled::Queue(queue, count) => {
            b.branch(Cond::Ne, Reg::R2, 0, done);
            b.load(Size::DW, Reg::R1, Reg::R8, queue);
            b.load(Size::W, Reg::R1, Reg::R1, count);
            b.branch32(Cond::Eq, Reg::R1, 0, done);
            b.mov(Reg::R3, at::IS_THROTTLED);
        }
    }
}
const _: () = assert!(at::IS_THROTTLED == 1);

/// Publishes in the slot `r0` that the thread was taken off.
fn left(code: &mut Code<'_>) {
    let waits = code.b.label();
    code.faults();
    let b = &mut code.b;
    b.store(Size::DW, Reg::R0, state!(faults), Reg::R1);
    b.mov(Reg::R1, 1);
    add_to(b, Reg::R0, state!(switches), Reg::R1, Reg::R2);
    b.load(Size::W, Reg::R2, Reg::R9, at::STATE);
    b.mov(Reg::R3, Reg::R2);
    b.and(Reg::R3, STATES);
    b.store(Size::DW, Reg::R0, state!(last_wait), Reg::R3);
    b.branch(Cond::Ne, Reg::R2, 0, waits);
    add_to(b, Reg::R0, state!(preemptions), Reg::R1, Reg::R2);
    b.bind(waits);
    b.load(Size::W, Reg::R2, Reg::R9, at::NUMBER);
    b.sub(Reg::R2, 1);
    b.store(Size::DW, Reg::R0, state!(last_wait_syscall), Reg::R2);
}

/// The thread in `r8` gets a CPU.
fn comes(code: &mut Code<'_>) {
    let out = code.out;
    let (sums, counted, outside) = (code.b.label(), code.b.label(), code.b.label());
    let (publish, longest) = (code.b.label(), code.b.label());
    let b = &mut code.b;
    b.call(KTIME_GET_NS);
    b.store(Size::DW, Reg::R10, NOW, Reg::R0);
    b.load(Size::DW, Reg::R1, Reg::R9, at::OUT);
    b.branch(Cond::Eq, Reg::R1, 0, out);
    b.store(Size::DW, Reg::R9, at::OUT, 0);
    b.mov(Reg::R2, Reg::R0);
    b.sub(Reg::R2, Reg::R1);
    b.store(Size::DW, Reg::R10, OFF, Reg::R2);
    // Without a CPU since it was taken off, or since it was woken.
    b.load(Size::W, Reg::R3, Reg::R9, at::STATE);
    b.branch(Cond::Eq, Reg::R3, 0, sums);
    b.mov(Reg::R2, 0);
    b.load(Size::DW, Reg::R3, Reg::R9, at::WAKE);
    b.branch(Cond::Lt, Reg::R3, Reg::R1, sums);
    b.mov(Reg::R2, Reg::R0);
    b.sub(Reg::R2, Reg::R3);
    b.bind(sums);
    b.store(Size::DW, Reg::R10, QUEUED, Reg::R2);
    b.load(Size::W, Reg::R1, Reg::R9, at::FLAGS);
    b.branch(Cond::Eq, Reg::R1, 0, counted);
    b.load(Size::DW, Reg::R1, Reg::R10, OFF);
    b.store(Size::DW, Reg::R9, at::LAST_THROTTLED, Reg::R1);
    b.store(Size::DW, Reg::R9, at::LAST_THROTTLED + 8, Reg::R0);
    b.bind(counted);
    b.load(Size::W, Reg::R1, Reg::R9, at::NUMBER);
    b.branch(Cond::Eq, Reg::R1, 0, outside);
    inside(code, longest, publish);
    let b = &mut code.b;
    b.bind(outside);
    b.store(Size::DW, Reg::R9, at::KNOWN, Reg::R0);
    code.known_faults();
    code.b.bind(publish);
    code.area(out);
    code.slot(out);
    came(code);
}

/// It was off its CPU in a system call: sums, and the longest wait.
fn inside(code: &mut Code<'_>, longest: Label, publish: Label) {
    let held = code.b.label();
    let b = &mut code.b;
    b.load(Size::DW, Reg::R1, Reg::R10, OFF);
    add_to(b, Reg::R9, at::OFFCPU, Reg::R1, Reg::R2);
    b.load(Size::DW, Reg::R2, Reg::R10, QUEUED);
    add_to(b, Reg::R9, at::RUNQUEUE, Reg::R2, Reg::R3);
    b.load(Size::W, Reg::R2, Reg::R9, at::FLAGS);
    b.branch(Cond::Eq, Reg::R2, 0, held);
    add_to(b, Reg::R9, at::THROTTLED, Reg::R1, Reg::R2);
    b.bind(held);
    rival(code);
    let b = &mut code.b;
    b.load(Size::DW, Reg::R1, Reg::R10, OFF);
    b.load(Size::DW, Reg::R2, Reg::R9, at::LONGEST);
    b.branch(Cond::Gt, Reg::R1, Reg::R2, longest);
    b.jump(publish);
    b.bind(longest);
    b.store(Size::DW, Reg::R9, at::LONGEST, Reg::R1);
    b.load(Size::DW, Reg::R2, Reg::R9, at::STATE);
    b.store(Size::DW, Reg::R9, at::LONGEST_STATE, Reg::R2);
    let woken = b.label();
    let named = b.label();
    b.load(Size::DW, Reg::R2, Reg::R9, at::WAKE);
    b.branch(Cond::Ne, Reg::R2, 0, woken);
    for word in (0..at::WAKER_BYTES).step_by(8) {
        b.store(Size::DW, Reg::R9, at::LONGEST_WAKER + word, 0);
    }
    b.jump(named);
    b.bind(woken);
    for word in (0..at::WAKER_BYTES).step_by(8) {
        b.load(Size::DW, Reg::R2, Reg::R9, at::WAKER + word);
        b.store(Size::DW, Reg::R9, at::LONGEST_WAKER + word, Reg::R2);
    }
    b.bind(named);
    b.store(Size::W, Reg::R9, at::STACK_BYTES, 0);
    b.map_value(Reg::R2, CONTROL, at::STACK_FROM);
    b.load(Size::DW, Reg::R2, Reg::R2, 0);
    b.branch(Cond::Lt, Reg::R1, Reg::R2, publish);
    b.mov(Reg::R1, Reg::R8);
    b.mov(Reg::R2, Reg::R9);
    b.add(Reg::R2, i32::from(at::STACK));
    b.mov(Reg::R3, at::STACK_MAX as i32);
    b.mov(Reg::R4, 0);
    b.call(GET_TASK_STACK);
    b.branch(Cond::SLt, Reg::R0, 0, publish);
    b.store(Size::W, Reg::R9, at::STACK_BYTES, Reg::R0);
    b.jump(publish);
}

/// Notes who runs until now, which is who had the CPU while this thread waited for one, if it never waited longer.
fn rival(code: &mut Code<'_>) {
    let b = &mut code.b;
    let end = b.label();
    b.load(Size::DW, Reg::R1, Reg::R10, QUEUED);
    b.load(Size::DW, Reg::R2, Reg::R9, at::RIVAL);
    b.branch(Cond::Le, Reg::R1, Reg::R2, end);
    b.map_value(Reg::R2, CONTROL, at::STACK_FROM);
    b.load(Size::DW, Reg::R2, Reg::R2, 0);
    b.branch(Cond::Lt, Reg::R1, Reg::R2, end);
    b.store(Size::DW, Reg::R9, at::RIVAL, Reg::R1);
    code.who(Reg::R9, at::RIVAL + 8);
    let b = &mut code.b;
    b.mov(Reg::R1, Reg::R9);
    b.add(Reg::R1, i32::from(at::RIVAL) + 16);
    b.mov(Reg::R2, 16);
    b.call(GET_CURRENT_COMM);
    b.bind(end);
}

/// Publishes in the slot `r0` that the thread has a CPU again.
fn came(code: &mut Code<'_>) {
    let free = code.b.label();
    let b = &mut code.b;
    b.mov(Reg::R6, Reg::R0);
    b.load(Size::DW, Reg::R1, Reg::R10, OFF);
    b.store(Size::DW, Reg::R6, state!(last_offcpu_ns), Reg::R1);
    add_to(b, Reg::R6, state!(offcpu_ns), Reg::R1, Reg::R2);
    b.load(Size::DW, Reg::R2, Reg::R10, QUEUED);
    b.store(Size::DW, Reg::R6, state!(last_runqueue_ns), Reg::R2);
    add_to(b, Reg::R6, state!(runqueue_ns), Reg::R2, Reg::R3);
    b.load(Size::W, Reg::R2, Reg::R9, at::FLAGS);
    b.branch(Cond::Eq, Reg::R2, 0, free);
    add_to(b, Reg::R6, state!(throttled_ns), Reg::R1, Reg::R2);
    b.mov(Reg::R1, 1);
    add_to(b, Reg::R6, state!(throttled), Reg::R1, Reg::R2);
    b.bind(free);
    b.load(Size::DW, Reg::R1, Reg::R10, NOW);
    b.store(Size::DW, Reg::R6, state!(running_since), Reg::R1);
    b.call(GET_SMP_PROCESSOR_ID);
    b.store(Size::DW, Reg::R6, state!(cpu), Reg::R0);
}

/// `sched_waking(task)`: by whom, and when.
pub(crate) fn waking(offsets: &Offsets, layout: Layout) -> Result<Vec<Insn>, BuildError> {
    let mut code = Code::new(offsets, layout);
    let out = code.out;
    let (fresh, interrupt) = (code.b.label(), code.b.label());
    code.b.mov(Reg::R6, Reg::R1);
    code.b.load(Size::DW, Reg::R8, Reg::R6, 0);
    code.thread(out);
    let b = &mut code.b;
    // Only the first one since it was taken off has ended the wait.
    b.load(Size::DW, Reg::R1, Reg::R9, at::WAKE);
    b.branch(Cond::Eq, Reg::R1, 0, fresh);
    b.jump(out);
    b.bind(fresh);
    b.call(KTIME_GET_NS);
    b.store(Size::DW, Reg::R9, at::WAKE, Reg::R0);
    b.store(Size::DW, Reg::R9, at::WAKER + 24, 0);
    code.in_interrupt(interrupt);
    code.who(Reg::R9, at::WAKER);
    let b = &mut code.b;
    b.mov(Reg::R1, Reg::R9);
    b.add(Reg::R1, i32::from(at::WAKER) + 8);
    b.mov(Reg::R2, 16);
    b.call(GET_CURRENT_COMM);
    b.store(Size::DW, Reg::R9, at::WAKER + 24, 0);
    // Was the waker itself held back meanwhile?
    b.load(Size::DW, Reg::R6, Reg::R9, at::OUT);
    b.store(Size::DW, Reg::R10, NOW, Reg::R9);
    code.current();
    code.thread(out);
    let b = &mut code.b;
    b.load(Size::DW, Reg::R2, Reg::R9, at::LAST_THROTTLED + 8);
    b.branch(Cond::Lt, Reg::R2, Reg::R6, out);
    b.load(Size::DW, Reg::R2, Reg::R9, at::LAST_THROTTLED);
    b.load(Size::DW, Reg::R1, Reg::R10, NOW);
    b.store(Size::DW, Reg::R1, at::WAKER + 24, Reg::R2);
    if code.offsets.preempt_count.is_some() {
        let b = &mut code.b;
        b.jump(out);
        b.bind(interrupt);
        b.store(Size::DW, Reg::R9, at::WAKER, 0);
        let [first, second] = at::INTERRUPT.map(u64::from_ne_bytes);
        b.constant(Reg::R1, first);
        b.store(Size::DW, Reg::R9, at::WAKER + 8, Reg::R1);
        b.store(Size::DW, Reg::R9, at::WAKER + 16, second as i32);
    }
    code.end();
    code.finish()
}
