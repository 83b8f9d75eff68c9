//! The programs at the scheduler's events: what a thread waits for, for how long, and which thread ended it.

use super::code::{CONTROL, Code, Thread};
use crate::offsets::{Offsets, Throttled};
use crate::places::{Control, INTERRUPT, IS_THROTTLED, Record, STACK_MAX, Wait, Waker};
use mote_bpf::Insn;
use mote_bpf::helper::{GET_CURRENT_COMM, GET_SMP_PROCESSOR_ID, GET_TASK_STACK, KTIME_GET_NS};
use mote_bpf::op::Size;
use mote_builder::{Build, BuildError, Label, Local, Memory, Place, Pointer, Value, field, map_value};
use mote_generate::namespace::Task;
use mote_generate::state::Layout;
use mote_layout::cooperation::Slot;
use std::mem::offset_of;

/// Task states, without what the scheduler notes beside them (`TASK_FREEZABLE` and the like).
const STATES: u32 = 0x80ff;

/// `TASK_DEAD`
const DEAD: u32 = 0x80;

/// What the program at `sched_switch` is given.
#[repr(C)]
struct Switch {
    preempt: u64,
    prev: *const Task,
    next: *const Task,
    prev_state: u64,
}

/// What the program at `sched_waking` is given.
#[repr(C)]
struct Waking {
    task: *const Task,
}

/// The last time off the CPU.
#[derive(Clone, Copy)]
struct Away {
    /// Until when.
    now: Local<u64>,
    /// How long.
    off: Local<u64>,
    /// Of it, how long without a CPU.
    queued: Local<u64>,
}

/// `sched_switch(preempt, prev, next, prev_state)`
pub(crate) fn switch(offsets: &Offsets, layout: Layout) -> Result<Vec<Insn>, BuildError> {
    let mut code = Code::new(offsets, layout);
    let out = code.out;
    let arguments = code.context::<Switch>();
    let arguments = code.keep(arguments).to::<Switch>();
    code.block(|code, next| {
        let task = code.keep(arguments.at(field!(Switch, prev))).to::<Task>();
        let thread = code.thread(&task, next);
        leaves(code, &arguments, &task, thread, next);
    });
    let task = code.keep(arguments.at(field!(Switch, next))).to::<Task>();
    drop(arguments);
    let thread = code.thread(&task, out);
    comes(&mut code, &task, thread);
    code.end();
    code.finish()
}

/// A thread is taken off its CPU.
fn leaves(
    code: &mut Code<'_>,
    arguments: &Pointer<Switch>,
    task: &Pointer<Task>,
    thread: Thread,
    next: Label,
) {
    let Thread { entry, record } = thread;
    let now = code.invoke(KTIME_GET_NS, ());
    code.put(record.at(field!(Record, out)), &now);
    code.put(record.at(field!(Record, wake)), 0);
    let switches = code.get(record.at(field!(Record, switches)));
    code.put(record.at(field!(Record, switches)), &switches + 1);
    code.when(switches.eq(0), |code| {
        code.put(record.at(field!(Record, first_out)), &now);
        code.clear(&record, offset_of!(Record, sums)..offset_of!(Record, out));
        code.put(record.at(field!(Record, longest.ns)), 0);
        code.put(record.at(field!(Record, rival.ns)), 0);
        code.put(record.at(field!(Record, stack_bytes)), 0);
    });
    // State 0: it would have gone on.
    let state = code.get(0);
    code.when(arguments.at(field!(Switch, preempt)).eq(0).of_32_bits(), |code| {
        code.set(&state, arguments.at(field!(Switch, prev_state)) & 0xffff);
    });
    code.put(record.at(field!(Record, state)), &state);
    // It never comes back: its id, and with that its record, may be another thread's next.
    code.when((&state & DEAD).ne(0), |code| {
        code.put(record.at(field!(Record, tid)), 0);
        code.jump(next);
    });
    let flags = throttled(code, task, &state);
    code.put(record.at(field!(Record, flags)), flags);
    let area = code.area(entry, next);
    let slot = code.slot(&area, &record, task, next);
    left(code, &record, task, &slot);
}

/// Flags of the thread that is taken off in this state.
fn throttled(code: &mut Code<'_>, task: &Pointer<Task>, state: &Value) -> Value {
    match code.offsets.throttled {
        Throttled::Unknown => code.get(0),
        Throttled::Task(flag) => code.get(task.at(flag) & IS_THROTTLED),
        Throttled::Queue(queue, count) => {
            let flags = code.get(0);
            let is_throttled = |task: &Pointer<Task>| task.at(queue).then(count).ne(0).of_32_bits();
            code.when(state.eq(0).and(is_throttled(task)), |code| code.set(&flags, IS_THROTTLED));
            flags
        }
    }
}
const _: () = assert!(IS_THROTTLED == 1);

/// Publishes in the slot that the thread was taken off.
fn left(code: &mut Code<'_>, record: &Pointer<Record>, task: &Pointer<Task>, slot: &Pointer<Slot>) {
    let faults = code.faults(task);
    code.put(slot.at(field!(Slot, state.faults)), faults);
    code.increase(slot.at(field!(Slot, state.switches)), 1);
    let state = code.get(record.at(field!(Record, state)));
    code.put(slot.at(field!(Slot, state.last_wait)), &state & STATES);
    code.when(state.eq(0), |code| code.increase(slot.at(field!(Slot, state.preemptions)), 1));
    let number = record.at(field!(Record, number));
    code.put(slot.at(field!(Slot, state.last_wait_syscall)), number - 1);
}

/// A thread gets a CPU.
fn comes(code: &mut Code<'_>, task: &Pointer<Task>, thread: Thread) {
    let (out, Thread { entry, record }) = (code.out, thread);
    let away = Away { now: code.local(), off: code.local(), queued: code.local() };
    let now = code.invoke(KTIME_GET_NS, ());
    code.put(away.now, &now);
    let since = code.get(record.at(field!(Record, out)));
    code.jump_if(since.eq(0), out);
    code.put(record.at(field!(Record, out)), 0);
    let queued = code.get(&now - &since);
    code.put(away.off, &queued);
    // Without a CPU since it was taken off, or since it was woken.
    code.when(record.at(field!(Record, state)).ne(0), |code| {
        code.set(&queued, 0);
        let woken = code.get(record.at(field!(Record, wake)));
        code.when(woken.ge(&since), |code| code.set(&queued, &now - &woken));
    });
    code.put(away.queued, queued);
    code.when(record.at(field!(Record, flags)).ne(0), |code| {
        code.put(record.at(field!(Record, last_throttled)), away.off);
        code.put(record.at(field!(Record, last_throttled_end)), &now);
    });
    code.either(
        record.at(field!(Record, number)).ne(0),
        |code| inside(code, task, &record, away),
        |code| {
            code.put(record.at(field!(Record, known)), &now);
            code.known_faults(task, &record);
        },
    );
    let area = code.area(entry, out);
    let slot = code.slot(&area, &record, task, out);
    drop(area);
    came(code, &record, slot, away);
}

/// The wait from which on its stack is recorded.
fn stack_from() -> Place<u64> {
    map_value(CONTROL, 0).at(field!(Control, stack_from))
}

/// It was off its CPU in a system call: sums, and the longest wait.
fn inside(code: &mut Code<'_>, task: &Pointer<Task>, record: &Pointer<Record>, away: Away) {
    let off = code.get(away.off);
    code.increase(record.at(field!(Record, sums.offcpu)), &off);
    code.increase(record.at(field!(Record, sums.runqueue)), away.queued);
    code.when(record.at(field!(Record, flags)).ne(0), |code| {
        code.increase(record.at(field!(Record, sums.throttled)), &off);
    });
    rival(code, record, away);
    let off = code.get(away.off);
    code.when(off.gt(record.at(field!(Record, longest.ns))), |code| {
        code.put(record.at(field!(Record, longest.ns)), &off);
        longest(code, record);
        code.put(record.at(field!(Record, stack_bytes)), 0);
        code.when(off.ge(stack_from()), |code| {
            let stack = record.address(field!(Record, stack));
            let bytes = code.invoke(GET_TASK_STACK, (task, stack, STACK_MAX, 0));
            code.when(bytes.sge(0), |code| code.put(record.at(field!(Record, stack_bytes)), &bytes));
        });
    });
}

/// State, flags and waker of the wait that has ended are those of the longest one.
pub(crate) fn longest(code: &mut Code<'_>, record: &Pointer<Record>) {
    const LONGEST: usize = offset_of!(Record, longest);
    let state = offset_of!(Record, state);
    code.copy(record, state..state + 8, record, LONGEST + offset_of!(Wait, state));
    const WAKER: usize = LONGEST + offset_of!(Wait, waker);
    let waker = offset_of!(Record, waker);
    code.either(
        record.at(field!(Record, wake)).eq(0),
        |code| code.clear(record, WAKER..WAKER + size_of::<Waker>()),
        |code| code.copy(record, waker..waker + size_of::<Waker>(), record, WAKER),
    );
}

/// Notes the thread that runs until now: it had the CPU while this one waited for one, if that never took longer.
fn rival(code: &mut Code<'_>, record: &Pointer<Record>, away: Away) {
    let queued = code.get(away.queued);
    let is_longer = queued.gt(record.at(field!(Record, rival.ns))).and(queued.ge(stack_from()));
    code.when(is_longer, |code| {
        code.put(record.at(field!(Record, rival.ns)), &queued);
        code.thread_ids(record.at(field!(Record, rival.tid)), record.at(field!(Record, rival.pid)));
        let _done = code.invoke(GET_CURRENT_COMM, (record.address(field!(Record, rival.name)), 16));
    });
}

/// Publishes in the slot that the thread has a CPU again.
fn came(code: &mut Code<'_>, record: &Pointer<Record>, slot: Pointer<Slot>, away: Away) {
    let slot = code.keep(slot).to::<Slot>();
    let off = code.get(away.off);
    code.put(slot.at(field!(Slot, state.last_offcpu_ns)), &off);
    code.increase(slot.at(field!(Slot, state.offcpu_ns)), &off);
    let queued = code.get(away.queued);
    code.put(slot.at(field!(Slot, state.last_runqueue_ns)), &queued);
    code.increase(slot.at(field!(Slot, state.runqueue_ns)), &queued);
    code.when(record.at(field!(Record, flags)).ne(0), |code| {
        code.increase(slot.at(field!(Slot, state.throttled_ns)), &off);
        code.increase(slot.at(field!(Slot, state.throttled)), 1);
    });
    code.put(slot.at(field!(Slot, state.running_since)), away.now);
    let cpu = code.invoke(GET_SMP_PROCESSOR_ID, ());
    code.put(slot.at(field!(Slot, state.cpu)), cpu);
}

/// `sched_waking(task)`: by whom, and when.
pub(crate) fn waking(offsets: &Offsets, layout: Layout) -> Result<Vec<Insn>, BuildError> {
    let mut code = Code::new(offsets, layout);
    let out = code.out;
    let arguments = code.context::<Waking>();
    let task = code.keep(arguments.at(field!(Waking, task))).to::<Task>();
    let Thread { record, .. } = code.thread(&task, out);
    drop(task);
    // Only the first one since it was taken off has ended the wait.
    code.jump_if(record.at(field!(Record, wake)).ne(0), out);
    let now = code.invoke(KTIME_GET_NS, ());
    code.put(record.at(field!(Record, wake)), now);
    code.put(record.at(field!(Record, waker.throttled)), 0);
    if let Some(in_interrupt) = code.in_interrupt() {
        code.when(in_interrupt, |code| {
            // No thread: both ids are 0.
            code.put(Memory::new(&record, offset_of!(Record, waker) as i32, Size::DW), 0);
            let name = field!(Record, waker.name).elements();
            for (part, bytes) in name.zip(INTERRUPT) {
                code.put(record.at(part), u64::from_ne_bytes(bytes));
            }
            code.jump(out);
        });
    }
    code.thread_ids(record.at(field!(Record, waker.tid)), record.at(field!(Record, waker.pid)));
    let _done = code.invoke(GET_CURRENT_COMM, (record.address(field!(Record, waker.name)), 16));
    held_back(&mut code, record);
    code.end();
    code.finish()
}

/// Notes for how long the waker itself was held back while the thread with this record waited.
fn held_back(code: &mut Code<'_>, record: Pointer<Record>) {
    let out = code.out;
    let since = code.keep(record.at(field!(Record, out)));
    let kept = code.local::<u64>();
    code.put(kept, record);
    let task = code.current();
    let Thread { record: waker, .. } = code.thread(&task, out);
    code.jump_if(waker.at(field!(Record, last_throttled_end)).lt(&since), out);
    let record = code.get(kept).to::<Record>();
    code.put(record.at(field!(Record, waker.throttled)), waker.at(field!(Record, last_throttled)));
}
