//! The programs at the entry and at the return of every system call.

use super::code::{CONTROL, Code, HISTOGRAM, Thread};
use super::record;
use crate::places::{BUCKETS, CALLS, COUNTS_BYTES, CREDITS, Control, DURATION_BITS, Record, SAMPLE};
use mote_bpf::Insn;
use mote_bpf::helper::{GET_SMP_PROCESSOR_ID, JIFFIES64, KTIME_GET_NS};
use mote_builder::{Build, BuildError, Expr, Field, Label, Local, Place, Pointer, Value, field, map_value};
use mote_generate::namespace::Task;
use mote_generate::threads::Entry;
use mote_layout::cooperation::{self as area, Header, Slot};

/// What the program at `sys_enter` is given.
#[repr(C)]
struct Enter {
    registers: u64,
    number: u64,
}

/// What the program at `sys_exit` is given.
#[repr(C)]
pub(crate) struct Exit {
    pub(crate) registers: u64,
    pub(crate) result: u64,
}

/// What is known of a call that returns, in the frame.
#[derive(Clone, Copy)]
pub(crate) struct Call {
    pub(crate) number: Local<u64>,
    pub(crate) duration: Local<u64>,
    pub(crate) threshold: Local<u64>,
    pub(crate) uncertain: Local<u64>,
    /// See [`crate::places::Slot::whose`].
    pub(crate) whose: Local<u64>,
}

/// At the entry: which call, in which tick, and at what time if that is to be known.
pub(crate) fn enter(mut code: Code<'_>) -> Result<Vec<Insn>, BuildError> {
    let out = code.out;
    let arguments = code.context::<Enter>();
    let arguments = code.keep(arguments).to::<Enter>();
    let task = code.current();
    let thread = code.thread(&task, out);
    code.own_abi(&task);
    let number = code.get(arguments.at(field!(Enter, number)));
    code.jump_if(number.ge(CALLS), out);
    code.put(thread.record.at(field!(Record, number)), number + 1);
    code.put(thread.record.at(field!(Record, switches)), 0);
    code.block(|code, timed| {
        when(code, &arguments, &thread, timed);
        let now = code.invoke(KTIME_GET_NS, ());
        begins(code, &thread.record, &now);
    });
    code.known_faults(&task, &thread.record);
    code.end();
    code.finish()
}

/// The call begins at this time.
fn begins(code: &mut Code<'_>, record: &Pointer<Record>, now: &Value) {
    code.put(record.at(field!(Record, entry)), now);
    code.put(record.at(field!(Record, known)), now);
}

/// Decides whether the entry is timed: goes on if so, to `timed` after it was, and else to the program's end.
fn when(code: &mut Code<'_>, arguments: &Pointer<Enter>, thread: &Thread, timed: Label) {
    let record = &thread.record;
    let tick = code.invoke(JIFFIES64, ());
    let before = code.get(record.at(field!(Record, tick)));
    code.put(record.at(field!(Record, tick)), &tick);
    let is_another = before.ne(tick).of_32_bits();
    code.either(
        is_another,
        |code| code.put(record.at(field!(Record, weight)), 1),
        |code| {
            let counter = code.get(record.at(field!(Record, counter)));
            code.when(counter.eq(0), |code| {
                sampled(code, record);
                code.jump(timed);
            });
            code.put(record.at(field!(Record, counter)), counter - 1);
            code.put(record.at(field!(Record, weight)), 0);
            let credit = code.get(record.at(field!(Record, credit)));
            code.either(
                credit.ne(0),
                |code| code.put(record.at(field!(Record, credit)), &credit - 1),
                |code| asked(code, arguments, thread),
            );
        },
    );
}

/// The call is one of those that stand for all in the histogram.
fn sampled(code: &mut Code<'_>, record: &Pointer<Record>) {
    code.put(record.at(field!(Record, weight)), SAMPLE);
    let now = code.invoke(KTIME_GET_NS, ());
    // The next one is as many calls away at the average, but not in step with what the program does.
    let next = ((&now & (SAMPLE / 2 - 1)) << 1) + SAMPLE / 2;
    code.put(record.at(field!(Record, counter)), next);
    begins(code, record, &now);
}

/// Goes on when the call is to be timed exactly, and else to the program's end: its threshold is below two ticks (a
/// time before it in the same tick would say of many fast calls that they may have been slow), or its process has
/// asked.
fn asked(code: &mut Code<'_>, arguments: &Pointer<Enter>, thread: &Thread) {
    let out = code.out;
    code.block(|code, exact| {
        let number = code.get(arguments.at(field!(Enter, number)));
        code.jump_if(number.ge(CALLS), out);
        let ticks = of_call(field!(Control, ticks), number);
        code.jump_if(ticks.slt(0), exact);
        code.block(|code, inexact| {
            let area = code.find_area(&thread.entry, inexact);
            code.jump_if(area.at(field!(Header, asked)).ne(0), exact);
        });
        code.put(thread.record.at(field!(Record, entry)), 0);
        code.jump(out);
    });
}

/// What a table of the session has for the call.
fn of_call<T: mote_builder::Scalar>(
    table: Field<Control, [T; CALLS as usize]>,
    number: impl Into<Expr>,
) -> Place<T> {
    let bits = T::SIZE.bytes().trailing_zeros();
    (map_value(CONTROL, table.offset() as u32) + (number.into() << bits)).place()
}

/// At the return: counts the call, and has it recorded when it was too long.
pub(crate) fn exit(mut code: Code<'_>) -> Result<Vec<Insn>, BuildError> {
    let (out, tally) = (code.out, code.label());
    let call = Call {
        number: code.local(),
        duration: code.local(),
        threshold: code.local(),
        uncertain: code.local(),
        whose: code.local(),
    };
    let arguments = code.context::<Exit>();
    let arguments = code.keep(arguments).to::<Exit>();
    let task = code.current();
    let Thread { entry, record } = code.thread(&task, out);
    counted(&mut code, &record, call);
    code.block(|code, slow| {
        code.when(record.at(field!(Record, entry)).eq(0), |code| {
            perhaps(code, &task, &record, call, slow);
        });
        measured(code, &task, entry, &record, call);
        let duration = code.get(call.duration);
        code.jump_if(duration.ge(call.threshold), slow);
        code.known_faults(&task, &record);
        let weight = code.get(record.at(field!(Record, weight)));
        code.jump_if(weight.eq(0), out);
        let _done = code.invoke_function(tally, (call.number, call.duration, weight));
        code.jump(out);
    });
    let _done = code.invoke_function(tally, (call.number, call.duration, 1));
    record::record(&mut code, &arguments, &task, &record, call);
    code.end();
    tally_function(&mut code, tally);
    code.finish()
}

/// Takes the number of the call off the record, and counts it.
fn counted(code: &mut Code<'_>, record: &Pointer<Record>, call: Call) {
    let (out, cpus) = (code.out, code.cpus());
    let number = code.get(record.at(field!(Record, number)));
    code.jump_if(number.eq(0), out);
    code.put(record.at(field!(Record, number)), 0);
    code.set(&number, &number - 1);
    code.jump_if(number.ge(CALLS), out);
    code.put(call.number, number);
    let cpu = code.invoke(GET_SMP_PROCESSOR_ID, ());
    code.jump_if(cpu.ge(cpus), out);
    let of_cpu = cpu * COUNTS_BYTES + (Expr::from(call.number) << 3);
    let counts = field!(Control, counts).offset() as u32;
    code.increase((map_value(CONTROL, counts) + of_cpu).place::<u64>(), 1);
}

/// The call was timed at its entry: works out how long it took, and the threshold that it has to reach.
fn measured(
    code: &mut Code<'_>,
    task: &Pointer<Task>,
    entry: Pointer<Entry>,
    record: &Pointer<Record>,
    call: Call,
) {
    let now = code.invoke(KTIME_GET_NS, ());
    code.put(record.at(field!(Record, known)), &now);
    code.put(call.duration, now - record.at(field!(Record, entry)));
    code.put(call.uncertain, 0);
    code.block(|code, own| {
        code.block(|code, session| {
            code.jump_if(entry.at(field!(Entry, index)).eq(0), session);
            let area = code.area(entry, session);
            published(code, task, area, record, call, session);
            code.jump(own);
        });
        code.put(call.whose, 0);
        code.put(call.threshold, of_call(field!(Control, thresholds), call.number));
    });
}

/// The call was not timed at its entry: it is recorded when it cannot be said that it was short enough. Goes to `slow`,
/// or to the program's end.
fn perhaps(code: &mut Code<'_>, task: &Pointer<Task>, record: &Pointer<Record>, call: Call, slow: Label) {
    let out = code.out;
    let tick = code.invoke(JIFFIES64, ());
    let passed = code.get((tick - record.at(field!(Record, tick))).low());
    code.jump_if(passed.sle(of_call(field!(Control, ticks), call.number)), out);
    let now = code.invoke(KTIME_GET_NS, ());
    let known = code.get(record.at(field!(Record, known)));
    code.put(record.at(field!(Record, known)), &now);
    let most = code.get(now - &known);
    let threshold = code.get(of_call(field!(Control, thresholds), call.number));
    code.when(most.lt(&threshold), |code| {
        code.known_faults(task, record);
        code.jump(out);
    });
    code.put(record.at(field!(Record, credit)), CREDITS);
    code.put(call.duration, &most);
    code.put(call.threshold, threshold);
    code.put(call.whose, 0);
    // It began before it was first taken off its CPU, if it was.
    code.when(record.at(field!(Record, switches)).ne(0), |code| {
        code.set(&most, record.at(field!(Record, first_out)) - known);
    });
    code.put(call.uncertain, most);
    code.jump(slow);
}

/// Publishes the call in the area of the process, and takes the threshold of thread or process. Goes to `session`
/// without one.
fn published(
    code: &mut Code<'_>,
    task: &Pointer<Task>,
    area: Pointer<Header>,
    record: &Pointer<Record>,
    call: Call,
    session: Label,
) {
    code.jump_if(area.at(field!(Header, asked)).eq(0), session);
    let threshold = code.scratch();
    code.block(|code, found| {
        code.block(|code, process| {
            let slot = code.slot(&area, record, task, process);
            let number = code.get(call.number);
            code.put(slot.at(field!(Slot, state.last_syscall)), &number);
            code.put(slot.at(field!(Slot, state.last_syscall_ns)), call.duration);
            code.increase(slot.at(field!(Slot, state.syscalls)), 1);
            let faults = code.faults(task);
            code.put(slot.at(field!(Slot, state.faults)), faults);
            code.put(call.whose, 2);
            code.set(&threshold, slot.element(field!(Slot, thresholds), number));
            code.jump_if(threshold.ne(0), found);
        });
        code.put(call.whose, 1);
        code.set(&threshold, area.element(field!(Header, thresholds), call.number));
        code.jump_if(threshold.eq(0), session);
    });
    code.either(
        threshold.eq(-1).of_32_bits(),
        |code| code.put(call.threshold, -1),
        |code| code.put(call.threshold, &threshold << area::THRESHOLD_UNIT_NS.trailing_zeros()),
    );
}
const _: () = assert!(area::NEVER == u32::MAX && area::THRESHOLD_UNIT_NS.is_power_of_two());

/// Function: counts a call of this number and duration, which stands for `weight`, in the histogram.
fn tally_function(code: &mut Code<'_>, tally: Label) {
    code.function(tally, |code, [number, duration, weight]| {
        code.block(|code, end| {
            code.jump_if(number.ge(CALLS), end);
            code.when((&duration >> DURATION_BITS).ne(0), |code| {
                code.set(&duration, (1u64 << DURATION_BITS) - 1);
            });
            let bucket = mote_builder::bucket(code, duration);
            code.jump_if(bucket.ge(BUCKETS), end);
            let word = (number * BUCKETS + bucket) << 2;
            code.add_atomically((map_value(HISTOGRAM, 0) + word).place::<u32>(), &weight);
        });
        code.exit_with(0);
    });
}
