//! What the program at the return of a slow call writes of it: the next slot of the slow calls.

use super::code::{CONTROL, Code, SLOW};
use super::sched::longest;
use super::syscall::{Call, Exit};
use crate::offsets::{FileTable, Files, OpenFiles};
use crate::places::{self as at, Control, Record, Ring, Slot};
use mote_bpf::helper::{
    GET_CURRENT_COMM, GET_STACK, PROBE_READ_KERNEL, PROBE_READ_KERNEL_STR, PROBE_READ_USER,
    PROBE_READ_USER_STR,
};
use mote_bpf::op::Size;
use mote_builder::{Build, Expr, Label, Local, Memory, Pointer, Value, field, map_value};
use mote_generate::arch::CALL_ARGUMENTS;
use mote_generate::namespace::Task;
use std::mem::offset_of;

/// `BPF_F_USER_STACK`
const USER_STACK: i32 = 1 << 8;

/// Writes the slow call of the thread with this record into the next slot.
pub(crate) fn record(
    code: &mut Code<'_>,
    arguments: &Pointer<Exit>,
    task: &Pointer<Task>,
    record: &Pointer<Record>,
    call: Call,
) {
    let out = code.out;
    let ring = code.get(map_value(SLOW, 0)).to::<Ring>();
    let waiting = ring.at(field!(Ring, head)) - ring.at(field!(Ring, consumed));
    code.when(waiting.ge(at::SLOTS - at::SPARE), |code| {
        code.count(SLOW, field!(Ring, lost));
        code.jump(out);
    });
    let claim = code.fetch_add(ring.at(field!(Ring, head)), 1);
    drop(ring);
    let offset = (&claim & (at::SLOTS - 1)) << at::SLOT_BITS;
    let slot = code.keep(map_value(SLOW, at::SLOTS_AT) + offset).to::<Slot>();
    code.put(slot.at(field!(Slot, number)), call.number);
    // In the place of the number, which is in the slot now.
    let sequence = call.number;
    code.put(sequence, claim + 1);
    described(code, arguments, task, record, &slot, call);
    untold(code, record);
    waits(code, record, &slot);
    user_stack(code, arguments, &slot);
    // An exchange: what was stored before is seen before.
    let _before = code.exchange(slot.at(field!(Slot, sequence)), sequence);
}

/// The process's stack: a copy, or addresses where that cannot be.
fn user_stack(code: &mut Code<'_>, arguments: &Pointer<Exit>, slot: &Pointer<Slot>) {
    let copied = code.copy_stack(slot.address(field!(Slot, user)));
    code.block(|code, end| {
        if let Some(copied) = copied {
            code.put(slot.at(field!(Slot, user_bytes)), &copied);
            code.jump_if(copied.ne(0), end);
        }
        let stack = slot.address(field!(Slot, user));
        let bytes = code.invoke(GET_STACK, (arguments, stack, at::STACK_MAX, USER_STACK));
        code.put(slot.at(field!(Slot, user_bytes)), bytes);
    });
}

/// What the record has of the waits of the call.
fn waits(code: &mut Code<'_>, record: &Pointer<Record>, slot: &Pointer<Slot>) {
    let switches = code.get(record.at(field!(Record, switches)));
    code.put(slot.at(field!(Slot, switches)), &switches);
    let parts = [
        (offset_of!(Record, sums), offset_of!(Slot, sums), size_of::<at::Sums>()),
        (offset_of!(Record, longest), offset_of!(Slot, longest), size_of::<at::Wait>()),
        (offset_of!(Record, rival), offset_of!(Slot, rival), size_of::<at::Rival>()),
    ];
    code.either(
        switches.eq(0),
        |code| {
            parts.iter().for_each(|(_, to, bytes)| code.clear(slot, *to..to + bytes));
            code.put(slot.at(field!(Slot, kernel_bytes)), 0);
        },
        |code| {
            parts.iter().for_each(|(from, to, bytes)| code.copy(record, *from..from + bytes, slot, *to));
            let stack = offset_of!(Record, stack);
            code.copy(record, stack..stack + at::STACK_MAX as usize, slot, offset_of!(Slot, kernel));
            code.put(slot.at(field!(Slot, kernel_bytes)), record.at(field!(Record, stack_bytes)));
        },
    );
}

/// The thread runs, and nothing was told of its coming back to a CPU: it was away until it was woken, or, when it would
/// have gone on, until now.
///
/// Linux 6.18 leaves out one switch in a hundred (perf and bpftrace do not get them either): those from the idle task
/// to another one, mostly.
fn untold(code: &mut Code<'_>, record: &Pointer<Record>) {
    code.block(|code, end| {
        code.jump_if(record.at(field!(Record, switches)).eq(0), end);
        let out = code.get(record.at(field!(Record, out)));
        code.jump_if(out.eq(0), end);
        code.put(record.at(field!(Record, out)), 0);
        let until = code.get(record.at(field!(Record, known)));
        code.either(
            record.at(field!(Record, state)).eq(0),
            |code| code.increase(record.at(field!(Record, sums.runqueue)), &until - &out),
            |code| {
                let woken = code.get(record.at(field!(Record, wake)));
                code.when(woken.ge(&out), |code| code.set(&until, &woken));
            },
        );
        let off = code.get(until - out);
        code.increase(record.at(field!(Record, sums.offcpu)), &off);
        code.jump_if(off.le(record.at(field!(Record, longest.ns))), end);
        code.put(record.at(field!(Record, longest.ns)), off);
        longest(code, record);
        // Where it waited is not known: its stack is another one by now.
        code.put(record.at(field!(Record, stack_bytes)), 0);
    });
}

/// What is known without waits: which thread, which call, how long.
fn described(
    code: &mut Code<'_>,
    arguments: &Pointer<Exit>,
    task: &Pointer<Task>,
    record: &Pointer<Record>,
    slot: &Pointer<Slot>,
    call: Call,
) {
    let faults = code.faults(task);
    let before = code.get(record.at(field!(Record, faults)));
    code.put(record.at(field!(Record, faults)), &faults);
    code.put(slot.at(field!(Slot, faults)), faults - before);
    code.put(slot.at(field!(Slot, time)), record.at(field!(Record, known)));
    code.put(slot.at(field!(Slot, duration)), call.duration);
    code.put(slot.at(field!(Slot, uncertain)), call.uncertain);
    code.put(slot.at(field!(Slot, threshold)), call.threshold);
    code.put(slot.at(field!(Slot, whose)), call.whose);
    code.put(slot.at(field!(Slot, result)), arguments.at(field!(Exit, result)));
    let registers = code.get(arguments.at(field!(Exit, registers)));
    for (from, to) in CALL_ARGUMENTS.into_iter().zip(field!(Slot, arguments).elements()) {
        code.put(slot.at(to), Memory::new(&registers, from.into(), Size::DW));
    }
    code.thread_ids(slot.at(field!(Slot, tid)), slot.at(field!(Slot, pid)));
    drop(code.invoke(GET_CURRENT_COMM, (slot.address(field!(Slot, comm)), 16)));
    names(code, task, slot);
}

/// What the call's argument says that is a path or an address of a socket: the call has read it itself, so it can be
/// read.
fn names(code: &mut Code<'_>, task: &Pointer<Task>, slot: &Pointer<Slot>) {
    code.block(|code, end| {
        code.block(|code, nothing| {
            let number = code.get(slot.at(field!(Slot, number)));
            code.jump_if(number.ge(at::CALLS), nothing);
            let table = offset_of!(Control, names) as u32;
            let kind = code.get((map_value(CONTROL, table) + number).place::<u8>());
            code.jump_if(kind.eq(0), nothing);
            // The first argument has number 1.
            let first = offset_of!(Slot, arguments) as i32 - 8;
            let argument = ((&kind & 7) << 3) + slot;
            let argument = code.get(Memory::new(argument, first, Size::DW));
            code.when((&kind & at::IS_FILE).ne(0), |code| {
                let Some(files) = code.offsets.files else { return code.jump(nothing) };
                descriptor(code, &files, task, slot, &argument, nothing);
                code.jump(end);
            });
            code.when((kind & at::IS_ADDRESS).ne(0), |code| {
                socket_address(code, slot, &argument, end);
                code.jump(nothing);
            });
            read(code, PROBE_READ_USER_STR, slot, at::NAME_MAX, &argument, end);
        });
        code.clear(slot, offset_of!(Slot, name)..offset_of!(Slot, name) + 16);
    });
}

/// Reads the address of a socket at `from`; goes to `end` when it could be read.
fn socket_address(code: &mut Code<'_>, slot: &Pointer<Slot>, from: &Value, end: Label) {
    let kept = code.local::<u64>();
    code.put(kept, from);
    // Most are shorter; what lies behind one may not be there.
    for bytes in [at::ADDRESS_MAX, 16] {
        read(code, PROBE_READ_USER, slot, bytes, kept, end);
    }
}

/// Reads from the process's memory into the slot; goes to `end` when it could be read.
fn read(
    code: &mut Code<'_>,
    helper: u32,
    slot: &Pointer<Slot>,
    bytes: u32,
    from: impl Into<Expr>,
    end: Label,
) {
    let read = code.invoke(helper, (slot.address(field!(Slot, name)), bytes, from));
    code.jump_if(read.sge(0), end);
}

/// The inode's number and the name of the file of a descriptor of the task, or goes to `nothing`.
fn descriptor(
    code: &mut Code<'_>,
    files: &Files,
    task: &Pointer<Task>,
    slot: &Pointer<Slot>,
    number: &Value,
    nothing: Label,
) {
    let (address, file) = (code.local::<u64>(), code.local::<u64>());
    code.set(number, number.low());
    let open = code.get(task.at(files.files)).to::<OpenFiles>();
    code.jump_if(open.eq(0), nothing);
    let table = code.get(open.at(files.table)).to::<FileTable>();
    code.jump_if(table.eq(0), nothing);
    code.jump_if(number.ge(table.at(files.most)), nothing);
    drop(open);
    code.put(address, (number << 3) + table.at(files.array));
    // At the beginning of what is followed: the file's structure.
    follow(code, address, 0, nothing);
    code.put(file, address);
    files.inode.into_iter().for_each(|offset| follow(code, address, offset, nothing));
    let inode = offset_of!(Slot, name);
    code.put(Memory::new(slot, inode as i32, Size::DW), address);
    code.put(address, file);
    files.name.into_iter().for_each(|offset| follow(code, address, offset, nothing));
    code.clear(slot, inode + 8..inode + 16);
    let name = (slot + (inode + 8), at::NAME_MAX - 8, address);
    let _bytes = code.invoke(PROBE_READ_KERNEL_STR, name);
}

/// An address in the frame becomes what lies there, `offset` behind.
fn follow(code: &mut Code<'_>, address: Local<u64>, offset: u32, nothing: Label) {
    let failed = code.invoke(PROBE_READ_KERNEL, (address.address(), 8, address + offset));
    code.jump_if(failed.ne(0), nothing);
}
