//! What the programs have in common: finding the thread, its area, its slot; small pieces of code.

use crate::offsets::Offsets;
use crate::places::{Control, NO_SLOT, RECORD_BITS, Record, USER_COPY};
use mote_bpf::helper::{
    GET_CURRENT_PID_TGID, GET_CURRENT_TASK_BTF, MAP_LOOKUP, PROBE_READ_KERNEL, THIS_CPU_PTR,
};
use mote_bpf::op::Size;
use mote_bpf::{Insn, Reg};
use mote_builder::{
    Build, BuildError, Builder, Expr, Field, Label, Local, Memory, Place, Pointer, Test, Value, field, map,
    map_value,
};
use mote_generate::arch;
use mote_generate::namespace::{Pid, Task, recorder_id};
use mote_generate::stack_copy::copy_function;
use mote_generate::state::Layout;
use mote_generate::threads::{self, Entry};
use mote_layout::cooperation::{self as area, Header, SLOTS, Slot};
use std::mem::offset_of;
use std::ops::Range;

/// Numbers of the maps in all programs; [`mote_kernel::session::Kernel::attach`] gives the first two.
pub(crate) const STATE: u32 = 0;
pub(crate) const CONTROL: u32 = 2;
pub(crate) const RECORDS: u32 = 3;
pub(crate) const HISTOGRAM: u32 = 4;
pub(crate) const SLOW: u32 = 5;
pub(crate) const AREAS: u32 = 6;

/// In `preempt_count`: serving a non-maskable interrupt, an interrupt, a soft one.
const SERVES_INTERRUPT: u32 = 0x00ff_0100;
/// Upper half of a constant that stands for the address of a variable of the kernel until the program is finished.
const VARIABLE: u32 = 0x7661_7269;
/// `BPF_PSEUDO_BTF_ID`, as the source register of a 16-byte load.
const PSEUDO_BTF_ID: u8 = 3;

/// A program in the making.
pub(crate) struct Code<'a> {
    b: Builder,
    pub(crate) offsets: &'a Offsets,
    layout: Layout,
    /// Where the program ends with 0.
    pub(crate) out: Label,
    /// The key of a search.
    key: Local<u32>,
    slot: Option<Label>,
    recorder_id: Option<Label>,
    stack: Option<Label>,
}

impl Build for Code<'_> {
    fn builder(&mut self) -> &mut Builder {
        &mut self.b
    }
}

/// What is kept of a thread.
pub(crate) struct Thread {
    /// Its entry in the thread table.
    pub(crate) entry: Pointer<Entry>,
    pub(crate) record: Pointer<Record>,
}

impl<'a> Code<'a> {
    pub(crate) fn new(offsets: &'a Offsets, layout: Layout) -> Code<'a> {
        let mut b = Builder::new();
        let (out, key) = (b.label(), b.local());
        Code { b, offsets, layout, out, key, slot: None, recorder_id: None, stack: None }
    }

    pub(crate) fn cpus(&self) -> u32 {
        self.layout.cpus
    }

    /// What the program is given, at its beginning.
    pub(crate) fn context<S>(&mut self) -> Pointer<S> {
        self.pin(Reg::R1).to()
    }

    /// Ends the program; only functions may follow.
    pub(crate) fn end(&mut self) {
        self.bind(self.out);
        self.exit_with(0);
    }

    /// Puts the functions that the program calls behind it.
    pub(crate) fn finish(mut self) -> Result<Vec<Insn>, BuildError> {
        if let Some(label) = self.slot {
            self.slot_function(label);
        }
        if let Some(label) = self.stack {
            self.stack_function(label);
        }
        if let Some(label) = self.recorder_id {
            self.recorder_id_function(label);
        }
        Ok(with_variables(self.b.finish()?))
    }

    /// Copies the stack of the running thread; returns how many bytes that were, or 0. `None` when it is not known how.
    pub(crate) fn copy_stack(&mut self, to: Expr) -> Option<Value> {
        self.offsets.stack?;
        let label = self.function_label(|code| &mut code.stack);
        Some(self.invoke_function(label, (to,)))
    }

    fn stack_function(&mut self, label: Label) {
        let Some(offsets) = self.offsets.stack else { return };
        let stubs = map_value(STATE, self.layout.stubs());
        copy_function(self, label, &offsets, USER_COPY, stubs, |code, task| {
            if code.offsets.namespace.is_none() {
                let both = code.invoke(GET_CURRENT_PID_TGID, ());
                return code.get(both >> 32);
            }
            let label = code.function_label(|code| &mut code.recorder_id);
            let leader = task.at(code.offsets.group_leader);
            code.invoke_function(label, (leader,))
        });
    }

    /// The current task.
    pub(crate) fn current(&mut self) -> Pointer<Task> {
        let task = self.invoke(GET_CURRENT_TASK_BTF, ());
        self.keep(task).to()
    }

    /// Stores thread and process of the current task, as the recorder sees them.
    pub(crate) fn thread_ids(&mut self, tid: Place<u32>, pid: Place<u32>) {
        if self.offsets.namespace.is_none() {
            let both = self.invoke(GET_CURRENT_PID_TGID, ());
            self.put(tid, &both);
            self.put(pid, both >> 32);
            return;
        }
        let label = self.function_label(|code| &mut code.recorder_id);
        for (place, leader) in [(tid, false), (pid, true)] {
            let task = self.invoke(GET_CURRENT_TASK_BTF, ()).to::<Task>();
            let id = if leader {
                let leader = task.at(self.offsets.group_leader);
                self.invoke_function(label, (leader,))
            } else {
                self.invoke_function(label, (task,))
            };
            self.put(place, id);
        }
    }

    fn function_label(&mut self, of: impl Fn(&mut Self) -> &mut Option<Label>) -> Label {
        let known = *of(self);
        known.unwrap_or_else(|| {
            let label = self.label();
            *of(self) = Some(label);
            label
        })
    }

    /// Function: what the recorder calls a task; the kernel's id, negative, when it does not see it.
    fn recorder_id_function(&mut self, label: Label) {
        let Some(namespace) = self.offsets.namespace else { return };
        let pid = self.offsets.pid;
        self.function(label, |code, [task]| {
            let task = code.keep(task).to::<Task>();
            let outside = code.label();
            let id = recorder_id(code, &task, namespace, STATE, outside);
            code.exit_with(id);
            code.bind(outside);
            code.exit_with(Expr::from(0) - task.at(pid));
        });
    }

    /// Finds what is kept of the thread of a task, or goes to `missing` when it is not traced.
    pub(crate) fn thread(&mut self, task: &Pointer<Task>, missing: Label) -> Thread {
        let (mask, first) = (self.layout.threads - 1, self.layout.threads());
        let entry = self.saved().to::<Entry>();
        let tid = self.get(task.at(self.offsets.pid));
        let place = self.get(&tid & mask);
        self.block(|code, found| {
            for probe in 0..threads::PROBES {
                if probe > 0 {
                    code.set(&place, (&tid + probe) & mask);
                }
                code.set(&entry, map_value(STATE, first) + (&place << threads::ENTRY_BITS));
                code.jump_if(entry.at(field!(Entry, tid)).eq(&tid), found);
                if probe == 0 {
                    code.jump_if(entry.at(field!(Entry, displaced)).eq(0), missing);
                }
            }
            code.jump(missing);
        });
        self.jump_if((entry.at(field!(Entry, flags)) & threads::TRACED).eq(0), missing);
        let record = self.keep(map_value(RECORDS, 0) + (place << RECORD_BITS)).to::<Record>();
        self.when(record.at(field!(Record, tid)).ne(&tid), |code| {
            code.put(record.at(field!(Record, tid)), &tid);
            code.put(record.at(field!(Record, number)), 0);
            code.clear(&record, offset_of!(Record, entry)..offset_of!(Record, first_out));
            code.put(record.at(field!(Record, out)), 0);
            code.put(record.at(field!(Record, wake)), 0);
            code.put(record.at(field!(Record, last_throttled)), 0);
            code.put(record.at(field!(Record, last_throttled_end)), 0);
        });
        Thread { entry, record }
    }

    /// Stores zeros in words of 64 bits.
    pub(crate) fn clear(&mut self, base: &Value, words: Range<usize>) {
        for at in words.step_by(8) {
            self.put(Memory::new(base, at as i32, Size::DW), 0);
        }
    }

    /// Copies words of 64 bits to where they begin at `to`.
    pub(crate) fn copy(&mut self, from: &Value, words: Range<usize>, to: &Value, at: usize) {
        for (word, to_word) in words.step_by(8).zip((at..).step_by(8)) {
            let word = Memory::new(from, word as i32, Size::DW);
            self.put(Memory::new(to, to_word as i32, Size::DW), word);
        }
    }

    /// Adds 1 to a word that several CPUs count in.
    pub(crate) fn count<S>(&mut self, map: u32, counter: Field<S, u64>) {
        self.add_atomically(map_value(map, counter.offset() as u32).place::<u64>(), 1);
    }

    /// Counts a call of another ABI and goes to the end, when the current one is such.
    pub(crate) fn own_abi(&mut self, task: &Pointer<Task>) {
        let Some(word) = self.offsets.abi_word else { return };
        self.when((task.at(word) & arch::OTHER_ABI).ne(0), |code| {
            code.count(CONTROL, field!(Control, foreign));
            code.jump(code.out);
        });
    }

    /// Page faults so far belong to what was before [`Record::known`].
    pub(crate) fn known_faults(&mut self, task: &Pointer<Task>, record: &Pointer<Record>) {
        let faults = self.faults(task);
        self.put(record.at(field!(Record, faults)), faults);
    }

    /// Whether the program runs in an interrupt; `None` where that cannot be seen.
    pub(crate) fn in_interrupt(&mut self) -> Option<Test> {
        let variable = u64::from(VARIABLE) << 32 | u64::from(self.offsets.preempt_count?);
        let count = self.invoke(THIS_CPU_PTR, (variable,));
        Some((Expr::from(count).place::<u32>() & SERVES_INTERRUPT).ne(0))
    }

    /// Page faults of a task.
    pub(crate) fn faults(&mut self, task: &Pointer<Task>) -> Value {
        let [minor, major] = self.offsets.faults;
        self.get(task.at(minor) + task.at(major))
    }

    /// The area of the thread's process, or goes to `none`.
    pub(crate) fn area(&mut self, entry: Pointer<Entry>, none: Label) -> Pointer<Header> {
        let found = self.find_area(&entry, none);
        drop(entry);
        self.keep(found).to()
    }

    /// The same, until the next call.
    ///
    /// The kernel puts both searches in place as some loads and comparisons.
    pub(crate) fn find_area(&mut self, entry: &Pointer<Entry>, none: Label) -> Pointer<Header> {
        let key = self.key;
        let index = self.get(entry.at(field!(Entry, index)));
        self.jump_if(index.eq(0), none);
        self.put(key, index);
        let inner = self.invoke(MAP_LOOKUP, (map(AREAS), key.address()));
        self.jump_if(inner.eq(0), none);
        self.put(key, 0);
        let found = self.invoke(MAP_LOOKUP, (inner, key.address()));
        self.jump_if(found.eq(0), none);
        found.to()
    }

    /// The thread's slot in the area, until the next call; or goes to `none`.
    pub(crate) fn slot(
        &mut self,
        area: &Pointer<Header>,
        record: &Pointer<Record>,
        task: &Pointer<Task>,
        none: Label,
    ) -> Pointer<Slot> {
        let label = self.function_label(|code| &mut code.slot);
        let slot = self.scratch();
        let number = self.get(record.at(field!(Record, slot)));
        self.either(
            number.ne(0),
            |code| {
                code.jump_if(number.eq(NO_SLOT).of_32_bits(), none);
                code.set(&slot, slot_address(area, (&number - 1) & (SLOTS - 1)));
            },
            |code| {
                let found = code.invoke_function(label, (area, record, task));
                code.jump_if(found.eq(0), none);
                code.set(&slot, found);
            },
        );
        slot.to()
    }

    /// Function: the slot of the thread with this record and task in the area, which is looked for; or 0.
    ///
    /// Whatever stands in the area, the slot lies in it: its number is bounded here, and comes from memory that only
    /// programs write.
    fn slot_function(&mut self, label: Label) {
        self.function(label, |code, [area, record, task]| {
            let (area, record) = (code.keep(area).to::<Header>(), code.keep(record).to::<Record>());
            let (id, none, place) = (code.local(), code.label(), code.saved());
            let failed = code.own_id(task.to(), id);
            code.jump_if(failed.ne(0), none);
            drop(failed);
            code.block(|code, known| {
                for claim in [false, true] {
                    for probe in 0..area::PROBES {
                        code.set(&place, (Expr::from(id) + probe) & (SLOTS - 1));
                        code.probe(&area, &place, id, claim, known);
                    }
                }
                code.put(record.at(field!(Record, slot)), NO_SLOT);
                code.add_atomically(area.at(field!(Header, unpublished)), 1);
                code.count(CONTROL, field!(Control, unpublished));
                code.bind(none);
                code.exit_with(0);
            });
            code.put(record.at(field!(Record, slot)), &place + 1);
            code.exit_with(slot_address(&area, place));
        });
    }

    /// Reads the id that the thread itself knows; what is returned is not 0 when it cannot be read.
    fn own_id(&mut self, task: Pointer<Task>, id: Local<u32>) -> Value {
        let offsets = self.offsets;
        let pid = self.get(task.at(offsets.thread_pid)).to::<Pid>();
        let number = self.get(pid.at(offsets.level) * offsets.number_bytes + offsets.numbers);
        // The sum is a number for the verifier, and the read is one that may fail.
        let address = self.local::<u64>();
        self.put(address, pid);
        self.invoke(PROBE_READ_KERNEL, (id.address(), 4, Expr::from(address) + number))
    }

    /// Goes to `known` when the slot at `place` is the thread's, after it was claimed if it was free and `claim`.
    fn probe(&mut self, area: &Pointer<Header>, place: &Value, id: Local<u32>, claim: bool, known: Label) {
        let slot = self.get(slot_address(area, place)).to::<Slot>();
        let thread = slot.at(field!(Slot, thread));
        if claim {
            let before = self.compare_exchange(thread, 0, id);
            self.jump_if(before.eq(0).of_32_bits(), known);
        } else {
            self.jump_if(thread.eq(id).of_32_bits(), known);
        }
    }
}

/// Makes addresses of variables of the constants that stand for them.
fn with_variables(mut insns: Vec<Insn>) -> Vec<Insn> {
    for at in 1..insns.len() {
        if let [first, second] = &mut insns[at - 1..=at]
            && first.code == 0x18
            && second.imm == VARIABLE as i32
        {
            *first = Insn::new(first.code, first.regs & 15, PSEUDO_BTF_ID, 0, first.imm);
            second.imm = 0;
        }
    }
    insns
}

/// The address of slot number `index` of the area, which is bounded.
fn slot_address(area: &Pointer<Header>, index: impl Into<Expr>) -> Expr {
    Expr::from(area) + ((index.into() + 1) << area::SLOT_BYTES.trailing_zeros())
}
const _: () = assert!(SLOTS.is_power_of_two() && area::SLOT_BYTES.is_power_of_two());
