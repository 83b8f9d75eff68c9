//! What the program at the return of a slow call writes of it: the next slot of the slow calls.

use crate::offsets::Files;
use crate::places::{self as at, slot};
use crate::programs::code::{CONTROL, Code, GET_STACK, PROBE_READ_KERNEL, SLOW, add_to};
use crate::programs::syscall::stack;
use mote_bpf::Reg;
use mote_bpf::helper::GET_CURRENT_COMM;
use mote_bpf::op::{AtomicOp, Cond, Size};
use mote_builder::{Builder, Label};
use mote_generate::arch::CALL_ARGUMENTS;

/// Helpers of the kernel: `enum bpf_func_id`.
const PROBE_READ_USER: u32 = 112;
const PROBE_READ_USER_STR: u32 = 114;
const PROBE_READ_KERNEL_STR: u32 = 115;
/// On the stack: an address that is read from, and the one of a file's structure.
const ADDRESS: i16 = -56;
const FILE: i16 = -64;
/// `BPF_F_USER_STACK`
const USER_STACK: i32 = 1 << 8;

/// Writes the slow call of the thread in `r9` into the next slot. The context is in `r6`, the task in `r8`; `r7` is lost.
pub(crate) fn record(code: &mut Code<'_>) {
    let out = code.out;
    let (space, waited, stacks) = (code.b.label(), code.b.label(), code.b.label());
    let b = &mut code.b;
    b.map_value(Reg::R7, SLOW, 0);
    b.load(Size::DW, Reg::R1, Reg::R7, at::HEAD as i16);
    b.load(Size::DW, Reg::R2, Reg::R7, at::CONSUMED as i16);
    b.sub(Reg::R1, Reg::R2);
    b.branch(Cond::Lt, Reg::R1, (at::SLOTS - at::SPARE) as i32, space);
    code.count(SLOW, at::LOST);
    let b = &mut code.b;
    b.jump(out);
    b.bind(space);
    b.mov(Reg::R1, 1);
    b.atomic(AtomicOp::FetchAdd, Size::DW, Reg::R7, at::HEAD as i16, Reg::R1);
    // The sequence number waits where the number of the call was, which is in the slot by then.
    b.mov(Reg::R2, Reg::R1);
    b.and(Reg::R2, at::SLOTS as i32 - 1);
    b.lsh(Reg::R2, at::SLOT_BITS as i32);
    b.map_value(Reg::R7, SLOW, at::SLOTS_AT);
    b.add(Reg::R7, Reg::R2);
    b.load(Size::DW, Reg::R2, Reg::R10, stack::NUMBER);
    b.store(Size::W, Reg::R7, slot::NUMBER, Reg::R2);
    b.add(Reg::R1, 1);
    b.store(Size::DW, Reg::R10, stack::NUMBER, Reg::R1);
    call(code);
    untold(code);
    let b = &mut code.b;
    b.load(Size::W, Reg::R1, Reg::R9, at::SWITCHES);
    b.store(Size::W, Reg::R7, slot::SWITCHES, Reg::R1);
    b.branch(Cond::Ne, Reg::R1, 0, waited);
    let rival = slot::RIVAL..slot::KERNEL;
    let waits = (slot::OFFCPU..slot::FAULTS).chain(slot::LONGEST..slot::COMM).chain(rival);
    for word in waits.step_by(8) {
        b.store(Size::DW, Reg::R7, word, 0);
    }
    b.store(Size::W, Reg::R7, slot::KERNEL_BYTES, 0);
    b.jump(stacks);
    b.bind(waited);
    let mut copy = |from: i16, to: i16, bytes: i16| {
        for word in (0..bytes).step_by(8) {
            b.load(Size::DW, Reg::R1, Reg::R9, from + word);
            b.store(Size::DW, Reg::R7, to + word, Reg::R1);
        }
    };
    copy(at::OFFCPU, slot::OFFCPU, 24);
    copy(at::LONGEST, slot::LONGEST, 16 + at::WAKER_BYTES);
    copy(at::RIVAL, slot::RIVAL, at::RIVAL_BYTES);
    copy(at::STACK, slot::KERNEL, at::STACK_MAX as i16);
    b.load(Size::W, Reg::R1, Reg::R9, at::STACK_BYTES);
    b.store(Size::W, Reg::R7, slot::KERNEL_BYTES, Reg::R1);
    b.bind(stacks);
    b.mov(Reg::R1, Reg::R6);
    b.mov(Reg::R2, Reg::R7);
    b.add(Reg::R2, i32::from(slot::USER));
    b.mov(Reg::R3, at::STACK_MAX as i32);
    b.mov(Reg::R4, USER_STACK);
    b.call(GET_STACK);
    b.store(Size::W, Reg::R7, slot::USER_BYTES, Reg::R0);
    // An exchange: what was stored before is seen before.
    b.load(Size::DW, Reg::R1, Reg::R10, stack::NUMBER);
    b.atomic(AtomicOp::Xchg, Size::DW, Reg::R7, slot::SEQUENCE, Reg::R1);
}

/// The thread runs, and nothing was told of its coming back to a CPU: it was away until it was woken, or, when it would have gone on, until now.
///
/// Linux 6.18 leaves out one switch in a hundred (perf and bpftrace do not get them either): those from the idle task to another one, mostly.
fn untold(code: &mut Code<'_>) {
    let [end, woken, queued, known] = [(); 4].map(|()| code.b.label());
    let b = &mut code.b;
    b.load(Size::W, Reg::R1, Reg::R9, at::SWITCHES);
    b.branch(Cond::Eq, Reg::R1, 0, end);
    b.load(Size::DW, Reg::R2, Reg::R9, at::OUT);
    b.branch(Cond::Eq, Reg::R2, 0, end);
    b.store(Size::DW, Reg::R9, at::OUT, 0);
    b.load(Size::DW, Reg::R1, Reg::R9, at::KNOWN);
    b.load(Size::W, Reg::R3, Reg::R9, at::STATE);
    b.branch(Cond::Eq, Reg::R3, 0, queued);
    b.load(Size::DW, Reg::R3, Reg::R9, at::WAKE);
    b.branch(Cond::Ge, Reg::R3, Reg::R2, woken);
    b.jump(known);
    b.bind(woken);
    b.mov(Reg::R1, Reg::R3);
    b.jump(known);
    b.bind(queued);
    b.mov(Reg::R3, Reg::R1);
    b.sub(Reg::R3, Reg::R2);
    add_to(b, Reg::R9, at::RUNQUEUE, Reg::R3, Reg::R4);
    b.bind(known);
    b.sub(Reg::R1, Reg::R2);
    add_to(b, Reg::R9, at::OFFCPU, Reg::R1, Reg::R2);
    b.load(Size::DW, Reg::R2, Reg::R9, at::LONGEST);
    b.branch(Cond::Le, Reg::R1, Reg::R2, end);
    b.store(Size::DW, Reg::R9, at::LONGEST, Reg::R1);
    b.load(Size::DW, Reg::R2, Reg::R9, at::STATE);
    b.store(Size::DW, Reg::R9, at::LONGEST_STATE, Reg::R2);
    // Where it waited is not known: its stack is another one by now.
    b.store(Size::W, Reg::R9, at::STACK_BYTES, 0);
    b.load(Size::DW, Reg::R3, Reg::R9, at::WAKE);
    let nobody = b.label();
    for word in (0..at::WAKER_BYTES).step_by(8) {
        b.store(Size::DW, Reg::R9, at::LONGEST_WAKER + word, 0);
    }
    b.branch(Cond::Eq, Reg::R3, 0, nobody);
    for word in (0..at::WAKER_BYTES).step_by(8) {
        b.load(Size::DW, Reg::R2, Reg::R9, at::WAKER + word);
        b.store(Size::DW, Reg::R9, at::LONGEST_WAKER + word, Reg::R2);
    }
    b.bind(nobody);
    b.bind(end);
}

/// What is known without waits: who, what, how long.
fn call(code: &mut Code<'_>) {
    code.faults();
    let b = &mut code.b;
    b.load(Size::DW, Reg::R2, Reg::R9, at::FAULTS);
    b.store(Size::DW, Reg::R9, at::FAULTS, Reg::R1);
    b.sub(Reg::R1, Reg::R2);
    b.store(Size::DW, Reg::R7, slot::FAULTS, Reg::R1);
    b.load(Size::DW, Reg::R1, Reg::R9, at::KNOWN);
    b.store(Size::DW, Reg::R7, slot::TIME, Reg::R1);
    let kept = [
        (stack::DURATION, slot::DURATION),
        (stack::UNCERTAIN, slot::UNCERTAIN),
        (stack::THRESHOLD, slot::THRESHOLD),
    ];
    for (from, to) in kept {
        b.load(Size::DW, Reg::R1, Reg::R10, from);
        b.store(Size::DW, Reg::R7, to, Reg::R1);
    }
    b.load(Size::DW, Reg::R1, Reg::R10, stack::WHOSE);
    b.store(Size::W, Reg::R7, slot::WHOSE, Reg::R1);
    b.load(Size::DW, Reg::R1, Reg::R6, 8);
    b.store(Size::DW, Reg::R7, slot::RESULT, Reg::R1);
    b.load(Size::DW, Reg::R2, Reg::R6, 0);
    for (number, from) in CALL_ARGUMENTS.into_iter().enumerate() {
        b.load(Size::DW, Reg::R1, Reg::R2, from);
        b.store(Size::DW, Reg::R7, slot::ARGUMENTS + 8 * number as i16, Reg::R1);
    }
    code.who(Reg::R7, slot::TID);
    let b = &mut code.b;
    b.mov(Reg::R1, Reg::R7);
    b.add(Reg::R1, i32::from(slot::COMM));
    b.mov(Reg::R2, 16);
    b.call(GET_CURRENT_COMM);
    names(code);
}

/// What the call's argument says that is a path or an address of a socket: the call has read it itself, so it can be read.
fn names(code: &mut Code<'_>) {
    let [nothing, address, file, end] = [(); 4].map(|()| code.b.label());
    let files = code.offsets.files;
    let b = &mut code.b;
    b.load(Size::W, Reg::R1, Reg::R7, slot::NUMBER);
    b.branch(Cond::Ge, Reg::R1, at::CALLS as i32, nothing);
    b.map_value(Reg::R2, CONTROL, at::NAMES);
    b.add(Reg::R2, Reg::R1);
    b.load(Size::B, Reg::R1, Reg::R2, 0);
    b.branch(Cond::Eq, Reg::R1, 0, nothing);
    b.mov(Reg::R2, Reg::R1);
    b.and(Reg::R2, 7);
    b.lsh(Reg::R2, 3);
    b.mov(Reg::R3, Reg::R7);
    b.add(Reg::R3, Reg::R2);
    b.load(Size::DW, Reg::R3, Reg::R3, slot::ARGUMENTS - 8);
    b.mov(Reg::R2, Reg::R1);
    b.and(Reg::R2, at::IS_FILE as i32);
    b.branch(Cond::Ne, Reg::R2, 0, file);
    b.and(Reg::R1, at::IS_ADDRESS as i32);
    b.branch(Cond::Ne, Reg::R1, 0, address);
    read(b, PROBE_READ_USER_STR, at::NAME_MAX, end);
    b.jump(nothing);
    b.bind(address);
    b.store(Size::DW, Reg::R10, ADDRESS, Reg::R3);
    // Most are shorter; what lies behind one may not be there.
    for bytes in [at::ADDRESS_MAX, 16] {
        b.load(Size::DW, Reg::R3, Reg::R10, ADDRESS);
        read(b, PROBE_READ_USER, bytes, end);
    }
    b.jump(nothing);
    b.bind(file);
    if let Some(files) = files {
        descriptor(b, &files, nothing);
        b.jump(end);
    }
    b.bind(nothing);
    b.store(Size::DW, Reg::R7, slot::NAME, 0);
    b.store(Size::DW, Reg::R7, slot::NAME + 8, 0);
    b.bind(end);
}

/// The inode's number and the name of the file of descriptor `r3` of the task in `r8`, or goes to `nothing`.
fn descriptor(b: &mut Builder, files: &Files, nothing: Label) {
    b.lsh(Reg::R3, 32);
    b.rsh(Reg::R3, 32);
    b.load(Size::DW, Reg::R1, Reg::R8, files.files);
    b.branch(Cond::Eq, Reg::R1, 0, nothing);
    b.load(Size::DW, Reg::R1, Reg::R1, files.table);
    b.branch(Cond::Eq, Reg::R1, 0, nothing);
    b.load(Size::W, Reg::R2, Reg::R1, files.most);
    b.branch(Cond::Ge, Reg::R3, Reg::R2, nothing);
    b.load(Size::DW, Reg::R1, Reg::R1, files.array);
    b.lsh(Reg::R3, 3);
    b.add(Reg::R1, Reg::R3);
    b.store(Size::DW, Reg::R10, ADDRESS, Reg::R1);
    // At the beginning of what is followed: the file's structure.
    follow(b, 0, nothing);
    b.load(Size::DW, Reg::R1, Reg::R10, ADDRESS);
    b.store(Size::DW, Reg::R10, FILE, Reg::R1);
    let [inode, name] = [files.inode, files.name];
    inode.into_iter().for_each(|offset| follow(b, offset, nothing));
    b.load(Size::DW, Reg::R1, Reg::R10, ADDRESS);
    b.store(Size::DW, Reg::R7, slot::NAME, Reg::R1);
    b.load(Size::DW, Reg::R1, Reg::R10, FILE);
    b.store(Size::DW, Reg::R10, ADDRESS, Reg::R1);
    name.into_iter().for_each(|offset| follow(b, offset, nothing));
    b.store(Size::DW, Reg::R7, slot::NAME + 8, 0);
    b.mov(Reg::R1, Reg::R7);
    b.add(Reg::R1, i32::from(slot::NAME) + 8);
    b.mov(Reg::R2, at::NAME_MAX as i32 - 8);
    b.load(Size::DW, Reg::R3, Reg::R10, ADDRESS);
    b.call(PROBE_READ_KERNEL_STR);
}

/// The word on the stack is an address: it becomes what lies there, `offset` behind.
fn follow(b: &mut Builder, offset: i16, nothing: Label) {
    b.mov(Reg::R1, Reg::R10);
    b.add(Reg::R1, i32::from(ADDRESS));
    b.mov(Reg::R2, 8);
    b.load(Size::DW, Reg::R3, Reg::R10, ADDRESS);
    b.add(Reg::R3, i32::from(offset));
    b.call(PROBE_READ_KERNEL);
    b.branch(Cond::Ne, Reg::R0, 0, nothing);
}

/// Reads from `r3` of the process; goes to `end` when it could be read.
fn read(b: &mut Builder, helper: u32, bytes: u32, end: Label) {
    b.mov(Reg::R1, Reg::R7);
    b.add(Reg::R1, i32::from(slot::NAME));
    b.mov(Reg::R2, bytes as i32);
    b.call(helper);
    b.branch(Cond::SGe, Reg::R0, 0, end);
}

const _: () = assert!(slot::PID == slot::TID + 4);
