//! The programs at the entry and at the return of every system call.

use crate::places as at;
use crate::programs::code::{CONTROL, Code, HISTOGRAM, JIFFIES64};
use crate::programs::record;
use mote_bpf::helper::{GET_SMP_PROCESSOR_ID, KTIME_GET_NS};
use mote_bpf::op::{AtomicOp, Cond, Size};
use mote_bpf::{Insn, Reg};
use mote_builder::{BuildError, Builder, Label};
use mote_generate::threads;
use mote_layout::cooperation as area;
use std::mem::offset_of;

/// What the return program keeps on its stack.
pub(crate) mod stack {
    pub(crate) const NUMBER: i16 = -8;
    pub(crate) const DURATION: i16 = -16;
    pub(crate) const THRESHOLD: i16 = -24;
    pub(crate) const UNCERTAIN: i16 = -32;
    pub(crate) const WHOSE: i16 = -40;
}

/// Of an area: whether its process looks at what is published, or has set thresholds.
const ASKED: i16 = offset_of!(area::Header, asked) as i16;

/// At the entry: which call, in which tick, and at what time if that is to be known.
pub(crate) fn enter(mut code: Code<'_>) -> Result<Vec<Insn>, BuildError> {
    let out = code.out;
    code.b.mov(Reg::R6, Reg::R1);
    code.current();
    code.thread(out);
    code.own_abi();
    let b = &mut code.b;
    b.load(Size::DW, Reg::R1, Reg::R6, 8);
    b.branch(Cond::Ge, Reg::R1, at::CALLS as i32, out);
    b.add(Reg::R1, 1);
    b.store(Size::W, Reg::R9, at::NUMBER, Reg::R1);
    b.store(Size::W, Reg::R9, at::SWITCHES, 0);
    when(&mut code);
    code.end();
    code.finish()
}

/// Decides whether the entry is timed, and does it.
fn when(code: &mut Code<'_>) {
    let out = code.out;
    let b = &mut code.b;
    let [changed, sampled, credit, inexact, exact, timed] = [(); 6].map(|()| b.label());
    b.call(JIFFIES64);
    b.load(Size::W, Reg::R1, Reg::R9, at::TICK);
    b.store(Size::W, Reg::R9, at::TICK, Reg::R0);
    b.branch32(Cond::Ne, Reg::R1, Reg::R0, changed);
    b.load(Size::W, Reg::R2, Reg::R9, at::COUNTER);
    b.branch(Cond::Eq, Reg::R2, 0, sampled);
    b.sub(Reg::R2, 1);
    b.store(Size::W, Reg::R9, at::COUNTER, Reg::R2);
    b.store(Size::W, Reg::R9, at::WEIGHT, 0);
    b.load(Size::W, Reg::R1, Reg::R9, at::CREDIT);
    b.branch(Cond::Ne, Reg::R1, 0, credit);
    timed_always(code, exact);
    code.find_area(inexact);
    let b = &mut code.b;
    b.load(Size::W, Reg::R1, Reg::R0, ASKED);
    b.branch(Cond::Ne, Reg::R1, 0, exact);
    b.bind(inexact);
    b.store(Size::DW, Reg::R9, at::ENTRY, 0);
    b.jump(out);
    b.bind(credit);
    b.sub(Reg::R1, 1);
    b.store(Size::W, Reg::R9, at::CREDIT, Reg::R1);
    b.jump(exact);
    b.bind(sampled);
    b.store(Size::W, Reg::R9, at::WEIGHT, at::SAMPLE as i32);
    b.call(KTIME_GET_NS);
    // The next one is as many calls away at the average, but not in step with what the program does.
    b.mov(Reg::R1, Reg::R0);
    b.and(Reg::R1, at::SAMPLE as i32 / 2 - 1);
    b.lsh(Reg::R1, 1);
    b.add(Reg::R1, at::SAMPLE as i32 / 2);
    b.store(Size::W, Reg::R9, at::COUNTER, Reg::R1);
    b.jump(timed);
    b.bind(changed);
    b.store(Size::W, Reg::R9, at::WEIGHT, 1);
    b.bind(exact);
    b.call(KTIME_GET_NS);
    b.bind(timed);
    b.store(Size::DW, Reg::R9, at::ENTRY, Reg::R0);
    b.store(Size::DW, Reg::R9, at::KNOWN, Reg::R0);
    code.known_faults();
}

/// Goes to `exact` when the threshold of the call is below two ticks: a time before it in the same tick would say of many fast calls that they may have been
/// slow.
fn timed_always(code: &mut Code<'_>, exact: Label) {
    let out = code.out;
    let b = &mut code.b;
    b.load(Size::DW, Reg::R1, Reg::R6, 8);
    b.branch(Cond::Ge, Reg::R1, at::CALLS as i32, out);
    b.lsh(Reg::R1, 3);
    b.map_value(Reg::R2, CONTROL, at::TICKS);
    b.add(Reg::R2, Reg::R1);
    b.load(Size::DW, Reg::R1, Reg::R2, 0);
    b.branch(Cond::SLt, Reg::R1, 0, exact);
}

/// At the return: counts the call, and has it recorded when it was too long.
pub(crate) fn exit(mut code: Code<'_>) -> Result<Vec<Insn>, BuildError> {
    let out = code.out;
    let [inexact, slow, tally, own, areas] = [(); 5].map(|()| code.b.label());
    code.b.mov(Reg::R6, Reg::R1);
    code.current();
    code.thread(out);
    counted(&mut code);
    let b = &mut code.b;
    b.load(Size::DW, Reg::R2, Reg::R9, at::ENTRY);
    b.branch(Cond::Eq, Reg::R2, 0, inexact);
    b.call(KTIME_GET_NS);
    b.load(Size::DW, Reg::R2, Reg::R9, at::ENTRY);
    b.store(Size::DW, Reg::R9, at::KNOWN, Reg::R0);
    b.sub(Reg::R0, Reg::R2);
    b.store(Size::DW, Reg::R10, stack::DURATION, Reg::R0);
    b.store(Size::DW, Reg::R10, stack::UNCERTAIN, 0);
    b.load(Size::W, Reg::R1, Reg::R7, threads::INDEX);
    b.branch(Cond::Ne, Reg::R1, 0, areas);
    let compare = b.here();
    b.store(Size::DW, Reg::R10, stack::WHOSE, 0);
    session(b, CONTROL, at::THRESHOLDS);
    b.bind(own);
    b.store(Size::DW, Reg::R10, stack::THRESHOLD, Reg::R4);
    b.load(Size::DW, Reg::R3, Reg::R10, stack::DURATION);
    b.branch(Cond::Ge, Reg::R3, Reg::R4, slow);
    code.known_faults();
    let b = &mut code.b;
    b.load(Size::W, Reg::R3, Reg::R9, at::WEIGHT);
    b.branch(Cond::Eq, Reg::R3, 0, out);
    b.load(Size::DW, Reg::R1, Reg::R10, stack::NUMBER);
    b.load(Size::DW, Reg::R2, Reg::R10, stack::DURATION);
    b.call_local(tally);
    b.jump(out);
    b.bind(inexact);
    perhaps(&mut code, slow);
    code.b.bind(areas);
    published(&mut code, compare, own);
    let b = &mut code.b;
    b.bind(slow);
    b.load(Size::DW, Reg::R1, Reg::R10, stack::NUMBER);
    b.load(Size::DW, Reg::R2, Reg::R10, stack::DURATION);
    b.mov(Reg::R3, 1);
    b.call_local(tally);
    record::record(&mut code);
    code.end();
    tally_function(&mut code.b, tally);
    code.finish()
}

/// Takes the number of the call off the record, and counts it.
fn counted(code: &mut Code<'_>) {
    let (out, cpus) = (code.out, code.cpus());
    let b = &mut code.b;
    b.load(Size::W, Reg::R1, Reg::R9, at::NUMBER);
    b.branch(Cond::Eq, Reg::R1, 0, out);
    b.store(Size::W, Reg::R9, at::NUMBER, 0);
    b.sub(Reg::R1, 1);
    b.branch(Cond::Ge, Reg::R1, at::CALLS as i32, out);
    b.store(Size::DW, Reg::R10, stack::NUMBER, Reg::R1);
    b.call(GET_SMP_PROCESSOR_ID);
    b.branch(Cond::Ge, Reg::R0, cpus as i32, out);
    b.mul(Reg::R0, at::COUNTS_BYTES as i32);
    b.load(Size::DW, Reg::R1, Reg::R10, stack::NUMBER);
    b.lsh(Reg::R1, 3);
    b.map_value(Reg::R2, CONTROL, at::COUNTS);
    b.add(Reg::R2, Reg::R0);
    b.add(Reg::R2, Reg::R1);
    b.load(Size::DW, Reg::R1, Reg::R2, 0);
    b.add(Reg::R1, 1);
    b.store(Size::DW, Reg::R2, 0, Reg::R1);
}

/// `r4` = what a table of the session has for the call.
fn session(b: &mut Builder, map: u32, table: u32) {
    b.load(Size::DW, Reg::R1, Reg::R10, stack::NUMBER);
    b.lsh(Reg::R1, 3);
    b.map_value(Reg::R2, map, table);
    b.add(Reg::R2, Reg::R1);
    b.load(Size::DW, Reg::R4, Reg::R2, 0);
}

/// The call was not timed at its entry: it is recorded when it cannot be said that it was short enough.
fn perhaps(code: &mut Code<'_>, slow: Label) {
    let out = code.out;
    let (long, never_out) = (code.b.label(), code.b.label());
    let b = &mut code.b;
    b.call(JIFFIES64);
    b.load(Size::W, Reg::R3, Reg::R9, at::TICK);
    b.sub32(Reg::R0, Reg::R3);
    session(b, CONTROL, at::TICKS);
    b.branch(Cond::SLe, Reg::R0, Reg::R4, out);
    b.call(KTIME_GET_NS);
    b.load(Size::DW, Reg::R3, Reg::R9, at::KNOWN);
    b.store(Size::DW, Reg::R9, at::KNOWN, Reg::R0);
    b.sub(Reg::R0, Reg::R3);
    session(b, CONTROL, at::THRESHOLDS);
    b.branch(Cond::Ge, Reg::R0, Reg::R4, long);
    code.known_faults();
    let b = &mut code.b;
    b.jump(out);
    b.bind(long);
    b.store(Size::W, Reg::R9, at::CREDIT, at::CREDITS);
    b.store(Size::DW, Reg::R10, stack::DURATION, Reg::R0);
    b.store(Size::DW, Reg::R10, stack::THRESHOLD, Reg::R4);
    b.store(Size::DW, Reg::R10, stack::WHOSE, 0);
    // It began before it was first taken off its CPU, if it was.
    b.load(Size::W, Reg::R1, Reg::R9, at::SWITCHES);
    b.branch(Cond::Eq, Reg::R1, 0, never_out);
    b.load(Size::DW, Reg::R0, Reg::R9, at::FIRST_OUT);
    b.sub(Reg::R0, Reg::R3);
    b.bind(never_out);
    b.store(Size::DW, Reg::R10, stack::UNCERTAIN, Reg::R0);
    b.jump(slow);
}

/// The thread's process has an area: publishes the call there, and takes the threshold of thread or process.
/// Goes on at `session` without one, at `own` with one in `r4`.
fn published(code: &mut Code<'_>, session: Label, own: Label) {
    let (process, never, found) = (code.b.label(), code.b.label(), code.b.label());
    code.area(session);
    code.b.load(Size::W, Reg::R1, Reg::R7, ASKED);
    code.b.branch(Cond::Eq, Reg::R1, 0, session);
    code.slot(process);
    let b = &mut code.b;
    let state = |field: usize| (area::STATE_AT + field) as i16;
    b.load(Size::DW, Reg::R1, Reg::R10, stack::NUMBER);
    b.load(Size::DW, Reg::R2, Reg::R10, stack::DURATION);
    b.store(Size::DW, Reg::R0, state(offset_of!(area::State, last_syscall)), Reg::R1);
    b.store(Size::DW, Reg::R0, state(offset_of!(area::State, last_syscall_ns)), Reg::R2);
    b.mov(Reg::R3, 1);
    crate::programs::code::add_to(b, Reg::R0, state(offset_of!(area::State, syscalls)), Reg::R3, Reg::R4);
    b.lsh(Reg::R1, 2);
    b.mov(Reg::R3, Reg::R0);
    b.add(Reg::R3, Reg::R1);
    b.load(Size::W, Reg::R4, Reg::R3, offset_of!(area::Slot, thresholds) as i16);
    b.store(Size::DW, Reg::R10, stack::WHOSE, 2);
    code.faults();
    let b = &mut code.b;
    b.store(Size::DW, Reg::R0, state(offset_of!(area::State, faults)), Reg::R1);
    b.branch(Cond::Ne, Reg::R4, 0, found);
    b.bind(process);
    b.load(Size::DW, Reg::R1, Reg::R10, stack::NUMBER);
    b.lsh(Reg::R1, 2);
    b.mov(Reg::R3, Reg::R7);
    b.add(Reg::R3, Reg::R1);
    b.load(Size::W, Reg::R4, Reg::R3, offset_of!(area::Header, thresholds) as i16);
    b.store(Size::DW, Reg::R10, stack::WHOSE, 1);
    b.branch(Cond::Eq, Reg::R4, 0, session);
    b.bind(found);
    b.branch32(Cond::Eq, Reg::R4, -1, never);
    b.lsh(Reg::R4, area::THRESHOLD_UNIT_NS.trailing_zeros() as i32);
    b.jump(own);
    b.bind(never);
    b.mov(Reg::R4, -1);
    b.jump(own);
}
const _: () = assert!(area::NEVER == u32::MAX && area::THRESHOLD_UNIT_NS.is_power_of_two());

/// Counts a call of number `r1` and duration `r2`, standing for `r3`, in the histogram.
fn tally_function(b: &mut Builder, tally: Label) {
    let (short, large, end) = (b.label(), b.label(), b.label());
    b.bind(tally);
    b.branch(Cond::Ge, Reg::R1, at::CALLS as i32, end);
    b.mov(Reg::R4, Reg::R2);
    b.rsh(Reg::R4, at::DURATION_BITS as i32);
    b.branch(Cond::Eq, Reg::R4, 0, large);
    b.constant(Reg::R2, (1 << at::DURATION_BITS) - 1);
    b.bind(large);
    b.mov(Reg::R4, Reg::R2);
    b.branch(Cond::Lt, Reg::R2, 8, short);
    // r4 = log2(r2), by halves.
    b.mov(Reg::R5, Reg::R2);
    b.mov(Reg::R4, 0);
    for half in [32, 16, 8, 4, 2, 1] {
        let zero = b.label();
        b.mov(Reg::R0, Reg::R5);
        b.rsh(Reg::R0, half);
        b.branch(Cond::Eq, Reg::R0, 0, zero);
        b.mov(Reg::R5, Reg::R0);
        b.add(Reg::R4, half);
        b.bind(zero);
    }
    b.sub(Reg::R4, 3);
    b.and(Reg::R4, 63);
    b.rsh(Reg::R2, Reg::R4);
    b.and(Reg::R2, 7);
    b.add(Reg::R4, 1);
    b.lsh(Reg::R4, 3);
    b.add(Reg::R4, Reg::R2);
    b.bind(short);
    b.branch(Cond::Ge, Reg::R4, at::BUCKETS as i32, end);
    b.mul(Reg::R1, at::BUCKETS as i32);
    b.add(Reg::R1, Reg::R4);
    b.lsh(Reg::R1, 2);
    b.map_value(Reg::R0, HISTOGRAM, 0);
    b.add(Reg::R0, Reg::R1);
    b.atomic(AtomicOp::Add, Size::W, Reg::R0, 0, Reg::R3);
    b.bind(end);
    b.mov(Reg::R0, 0);
    b.exit();
}
