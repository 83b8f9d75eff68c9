//! Copies of a process's stack (`mote_layout::stack`), of which the recorder makes addresses.
//!
//! A copy goes from the stack pointer up, and no further than the stack does, where that is known: the stack of the
//! first thread ends where the kernel began to write it (`mm_struct.start_stack`); those of other threads lie below
//! what their thread pointer points to, in the C libraries that there are. Both are far away otherwise. So most copies
//! are a few hundred bytes. Where not all can be read the rest of the first page is: programs touch no page of their
//! stacks before those above it, but what lies above another thread's stack is not known.
//!
//! A program may have this code behind many of its ways (those of all system calls have dozens), and the verifier goes
//! through it for each: so there are hardly any branches in it.

use crate::arch;
use crate::namespace::{Structure, Task, member};
use crate::stubs::{ENTRIES, ENTRY_BITS, Process, in_region, read_top};
use mote_bpf::helper;
use mote_bpf::op::Size;
use mote_builder::{Build, Expr, Field, Label, Memory, Pointer, Value, field};
use mote_catalog::btf::Btf;
use mote_layout::stack::{BYTES_MAX, COPY, HEADER_WORDS, REGISTERS, REPLACED, SLOTS, SLOTS_MAX, TO_END};
use mote_layout::stubs::SLOT;

/// Bytes in front of the stack in a copy.
const HEADER: i32 = 8 * HEADER_WORDS as i32;
/// Bytes of a pair of words, of which slots in a copy are so many.
const PAIR: i32 = 1 << PAIR_BITS;
const PAIR_BITS: u32 = 4;
/// Bytes of a page, of which all or none are there.
const PAGE: i32 = 4096;

/// `struct mm_struct`: the memory of a process.
#[derive(Debug)]
pub(crate) struct Memories;

impl Structure for Memories {
    const NAME: &'static str = "mm_struct";
}

/// Where a task has its thread's pointer; `None` where that is not known.
#[must_use]
pub fn thread_pointer(btf: &Btf) -> Option<Field<Task, u64>> {
    arch::THREAD_POINTER.and_then(|path| member(btf, path))
}

/// Where the stacks of threads end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StackOffsets {
    memory: Field<Task, *const Memories>,
    start_stack: Field<Memories, u64>,
    thread_pointer: Option<Field<Task, u64>>,
}

impl StackOffsets {
    /// `None` for a kernel that says nothing of them.
    #[must_use]
    pub fn of(btf: &Btf) -> Option<StackOffsets> {
        Some(StackOffsets {
            memory: member(btf, "mm")?,
            start_stack: member(btf, "start_stack")?,
            thread_pointer: thread_pointer(btf),
        })
    }

    /// Where the task's stack may end.
    fn ends(&self, code: &mut impl Build, task: &Pointer<Task>) -> Vec<Value> {
        let memory = code.get(task.at(self.memory)).to::<Memories>();
        let first = code.get(memory.at(self.start_stack));
        let other = self.thread_pointer.map(|field| code.get(task.at(field)));
        [first].into_iter().chain(other).collect()
    }
}

/// Writes a function that copies at most so many bytes of the stack of the running thread to where its argument points
/// to, with the slots of calls whose return addresses were replaced, and returns how many bytes that were with what is
/// in front of them. 0, and nothing was written, for a thread that has none, or is no program of this processor's usual
/// kind. `stubs` is the table of processes that have slots ([`crate::stubs`]); `process` works out the id of a task's
/// process.
///
/// # Cost
/// 190 ns, for some hundred bytes as for 8 KiB (docs/FIGURES.md); 140 more where there are slots.
pub fn copy_function<B: Build>(
    code: &mut B,
    label: Label,
    offsets: &StackOffsets,
    copy: u32,
    stubs: Expr,
    process: impl FnOnce(&mut B, &Pointer<Task>) -> Value,
) {
    let copy = (copy.min(BYTES_MAX) & !7) as i32;
    // The verifier knows of a number what is masked. One bit more, for the greatest.
    let mask = ((2 * copy as u32).next_power_of_two() - 1) as i32 & !7;
    code.function(label, |code, [to]| {
        let to = code.keep(to);
        let task = code.invoke(helper::GET_CURRENT_TASK_BTF, ());
        let task = code.keep(task).to::<Task>();
        let registers = code.invoke(helper::TASK_PT_REGS, (&*task,));
        let (offset, usual) = arch::USER_CODE;
        code.when(Expr::from(Memory::new(&registers, offset, Size::H)).ne(usual), |code| code.exit_with(0));
        for (at, offset) in (HEADER_WORDS - REGISTERS..).zip(arch::STACK_REGISTERS) {
            let place = Memory::new(&to, 8 * at as i32, Size::DW);
            code.put(place, Memory::new(&registers, offset, Size::DW));
        }
        let [_, stack, _] = arch::STACK_REGISTERS;
        let from = code.keep(Memory::new(&registers, stack, Size::DW));
        drop(registers);
        let bytes = code.keep(copy);
        for end in offsets.ends(code, &task) {
            // One below the stack pointer is far above it.
            code.set(&end, ((&end - &from) << 16) >> 16);
            reduce(code, &bytes, end);
        }
        code.put(Memory::new(&to, 0, Size::DW), COPY);
        let id = process(code, &task);
        let about = || Memory::new(&to, 8, Size::DW);
        code.put(about(), &id);
        let front = match offsets.thread_pointer {
            Some(pointer) => copy_slots(code, &to, &id, (task, pointer), stubs, copy as u32),
            None => code.keep(0),
        };
        let room = code.get(Expr::from(copy) - &front);
        let is_to_end = (&bytes - &room) >> 63;
        let pairs = &front >> PAIR_BITS << REPLACED;
        code.put(about(), pairs | (is_to_end << TO_END) | about());
        reduce(code, &bytes, room);
        code.set(&to, &to + &front);
        code.set(&bytes, &bytes & mask);
        let failed = code.invoke(helper::PROBE_READ_USER, (&to + HEADER, &bytes, &from));
        code.when(failed.ne(0), |code| {
            // What is in the page of the stack pointer.
            let page = code.get(Expr::from(PAGE) - (&from & (PAGE - 1)));
            reduce(code, &bytes, page);
            code.set(&bytes, &bytes & (mask & (2 * PAGE - 1)));
            let failed = code.invoke(helper::PROBE_READ_USER, (&to + HEADER, &bytes, &from));
            code.set(&bytes, &bytes & ((failed >> 63) - 1));
        });
        code.exit_with(bytes + front + HEADER);
    });
}

/// Copies the slots that the running thread has used last to behind the header at `to`, if the table `stubs` has its
/// process, whose id is `id`: to half of the room for the stack at most. Returns how many bytes these are with what
/// stands in front of them, all in pairs of words.
fn copy_slots<B: Build>(
    code: &mut B,
    to: &Value,
    id: &Value,
    (task, pointer): (Pointer<Task>, Field<Task, u64>),
    stubs: Expr,
    copy: u32,
) -> Value {
    let most = slots_max(copy) as i32;
    let place = (id & (ENTRIES as i32 - 1)) << ENTRY_BITS;
    let process = code.get(stubs + place).to::<Process>();
    let words = [code.local(), code.local()];
    for (word, offset) in words.into_iter().zip(field!(Process, tops).elements()) {
        code.put(word, process.at(offset) + task.at(pointer));
    }
    drop(task);
    let front = code.keep(0);
    let is_known = process.at(field!(Process, pid)).eq(id);
    code.when(is_known.and(id.ne(0)), |code| {
        let top = read_top(code, words);
        code.set(&front, in_region(top));
        let limit = code.get(most);
        reduce(code, &front, limit);
        code.set(&front, &front & most);
        let from = code.get(Expr::from(top) - &front);
        let failed = code.invoke(helper::PROBE_READ_USER, (to + (HEADER + PAIR), &front, from));
        code.set(&front, &front & ((failed >> 63) - 1));
        for (at, word) in [(HEADER, Expr::from(SLOTS as i32)), (HEADER + 8, top.into())] {
            code.put(Memory::new(to, at, Size::DW), word);
        }
        // As a whole between 0 and its greatest: what is behind is the same for the verifier whether there are any.
        code.set(&front, (&front + PAIR) & (most | PAIR));
    });
    front
}

/// Most bytes of slots in a copy of so many bytes: half of it, but all bits of a number that are above a slot's.
fn slots_max(copy: u32) -> u32 {
    const SLOT_BYTES: u32 = SLOT as u32;
    const MOST: u32 = SLOTS_MAX as u32 * SLOT_BYTES;
    let most = (copy / 2).min(MOST) + SLOT_BYTES;
    (1 << most.ilog2()) - SLOT_BYTES
}

/// Makes a number smaller, if the other one is. No branch: the verifier would follow both ways from here, for each
/// place from where the function is called.
fn reduce(code: &mut impl Build, number: &Value, other: Value) {
    code.set(&other, &other - number);
    let is_less = Expr::from(0) - (&other >> 63);
    code.set(number, number + (&other & is_less));
}
