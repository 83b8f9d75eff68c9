//! What the programs have in common: finding the thread, its area, its slot; small pieces of code.
//!
//! # Registers
//! `r6` the context, `r7` the thread's entry in the thread table, `r8` its task, `r9` its record. `r1` to `r5` never survive a piece.

use crate::offsets::Offsets;
use crate::places as at;
use mote_bpf::op::{AtomicOp, Cond, Size};
use mote_bpf::{Insn, Reg};
use mote_builder::{BuildError, Builder, Label};
use mote_generate::namespace::recorder_id;
use mote_generate::state::Layout;
use mote_generate::{arch, threads};
use mote_layout::cooperation as area;

/// Numbers of the maps in all programs; [`mote_kernel::session::Kernel::attach`] gives the first two.
pub(crate) const STATE: u32 = 0;
pub(crate) const CONTROL: u32 = 2;
pub(crate) const RECORDS: u32 = 3;
pub(crate) const HISTOGRAM: u32 = 4;
pub(crate) const SLOW: u32 = 5;
pub(crate) const AREAS: u32 = 6;

/// Helpers of the kernel that `mote_bpf::helper` does not have: `enum bpf_func_id`.
pub(crate) const PROBE_READ_KERNEL: u32 = 113;
pub(crate) const JIFFIES64: u32 = 118;
pub(crate) const GET_STACK: u32 = 67;
pub(crate) const GET_TASK_STACK: u32 = 141;
const THIS_CPU_PTR: u32 = 154;
const GET_CURRENT_TASK_BTF: u32 = 158;
/// In `preempt_count`: serving a non-maskable interrupt, an interrupt, a soft one.
const SERVES_INTERRUPT: i32 = 0x00ff_0100;
/// Upper half of a constant that stands for the address of a variable of the kernel until the program is finished.
const VARIABLE: u32 = 0x7661_7269;
/// `BPF_PSEUDO_BTF_ID`, as the source register of a 16-byte load.
const PSEUDO_BTF_ID: u8 = 3;
/// On the stack of all programs: the key of a search.
const KEY: i16 = -48;

/// A program in the making.
pub(crate) struct Code<'a> {
    pub(crate) b: Builder,
    pub(crate) offsets: &'a Offsets,
    layout: Layout,
    /// Where the program ends with 0.
    pub(crate) out: Label,
    slot: Label,
    uses_slot: bool,
    recorder_id: Label,
    uses_recorder_id: bool,
}

impl<'a> Code<'a> {
    pub(crate) fn new(offsets: &'a Offsets, layout: Layout) -> Code<'a> {
        let mut b = Builder::new();
        let (out, slot, recorder_id) = (b.label(), b.label(), b.label());
        Code { b, offsets, layout, out, slot, uses_slot: false, recorder_id, uses_recorder_id: false }
    }

    pub(crate) fn cpus(&self) -> u32 {
        self.layout.cpus
    }

    /// Ends the program; only functions may follow.
    pub(crate) fn end(&mut self) {
        self.b.bind(self.out);
        self.b.mov(Reg::R0, 0);
        self.b.exit();
    }

    /// Puts the functions that the program calls behind it.
    pub(crate) fn finish(mut self) -> Result<Vec<Insn>, BuildError> {
        if self.uses_slot {
            self.slot_function();
        }
        if self.uses_recorder_id {
            self.recorder_id_function();
        }
        Ok(with_variables(self.b.finish()?))
    }

    /// `r8` = the current task.
    pub(crate) fn current(&mut self) {
        self.b.call(GET_CURRENT_TASK_BTF);
        self.b.mov(Reg::R8, Reg::R0);
    }

    /// Thread and process of the current task, as the recorder sees them, to two words of 32 bits at `at + base`.
    pub(crate) fn who(&mut self, base: Reg, at: i16) {
        if self.offsets.namespace.is_none() {
            self.b.call(mote_bpf::helper::GET_CURRENT_PID_TGID);
            self.b.store(Size::W, base, at, Reg::R0);
            self.b.rsh(Reg::R0, 32);
            self.b.store(Size::W, base, at + 4, Reg::R0);
            return;
        }
        self.uses_recorder_id = true;
        for (at, leader) in [(at, false), (at + 4, true)] {
            self.b.call(GET_CURRENT_TASK_BTF);
            self.b.mov(Reg::R1, Reg::R0);
            if leader {
                self.b.load(Size::DW, Reg::R1, Reg::R1, self.offsets.group_leader);
            }
            self.b.call_local(self.recorder_id);
            self.b.store(Size::W, base, at, Reg::R0);
        }
    }

    /// Function: `r0` = what the recorder calls the task in `r1`; the kernel's id, negative, when it does not see it.
    fn recorder_id_function(&mut self) {
        let Some(namespace) = self.offsets.namespace else { return };
        let outside = self.b.label();
        self.b.bind(self.recorder_id);
        self.b.mov(Reg::R6, Reg::R1);
        recorder_id(&mut self.b, namespace, STATE, outside);
        self.b.exit();
        self.b.bind(outside);
        self.b.load(Size::W, Reg::R1, Reg::R6, self.offsets.pid);
        self.b.mov(Reg::R0, 0);
        self.b.sub(Reg::R0, Reg::R1);
        self.b.exit();
    }

    /// Finds the entry and the record of the thread whose task is in `r8`, or goes to `missing`.
    pub(crate) fn thread(&mut self, missing: Label) {
        let b = &mut self.b;
        let (mask, first) = ((self.layout.threads - 1) as i32, self.layout.threads());
        let (found, fresh, ready) = (b.label(), b.label(), b.label());
        b.load(Size::W, Reg::R1, Reg::R8, self.offsets.pid);
        for probe in 0..threads::PROBES as i32 {
            b.mov(Reg::R2, Reg::R1);
            if probe > 0 {
                b.add(Reg::R2, probe);
            }
            b.and(Reg::R2, mask);
            b.mov(Reg::R3, Reg::R2);
            b.lsh(Reg::R3, threads::ENTRY_BITS as i32);
            b.map_value(Reg::R7, STATE, first);
            b.add(Reg::R7, Reg::R3);
            b.load(Size::W, Reg::R4, Reg::R7, threads::TID);
            b.branch(Cond::Eq, Reg::R4, Reg::R1, found);
            if probe == 0 {
                b.load(Size::W, Reg::R4, Reg::R7, threads::DISPLACED);
                b.branch(Cond::Eq, Reg::R4, 0, missing);
            }
        }
        b.jump(missing);
        b.bind(found);
        b.load(Size::W, Reg::R4, Reg::R7, threads::FLAGS);
        b.and(Reg::R4, threads::TRACED as i32);
        b.branch(Cond::Eq, Reg::R4, 0, missing);
        b.lsh(Reg::R2, at::RECORD_BITS as i32);
        b.map_value(Reg::R9, RECORDS, 0);
        b.add(Reg::R9, Reg::R2);
        b.load(Size::W, Reg::R4, Reg::R9, at::TID);
        b.branch(Cond::Ne, Reg::R4, Reg::R1, fresh);
        b.jump(ready);
        b.bind(fresh);
        b.store(Size::W, Reg::R9, at::TID, Reg::R1);
        b.store(Size::W, Reg::R9, at::NUMBER, 0);
        for word in (at::ENTRY..at::FIRST_OUT).step_by(8).chain([at::OUT, at::WAKE, at::LAST_THROTTLED]) {
            b.store(Size::DW, Reg::R9, word, 0);
        }
        b.store(Size::DW, Reg::R9, at::LAST_THROTTLED + 8, 0);
        b.bind(ready);
    }

    /// Adds 1 to a word of 64 bits that several CPUs count in.
    pub(crate) fn count(&mut self, map: u32, offset: u32) {
        self.b.map_value(Reg::R1, map, offset);
        self.b.mov(Reg::R2, 1);
        self.b.atomic(AtomicOp::Add, Size::DW, Reg::R1, 0, Reg::R2);
    }

    /// Counts a call of another ABI and goes to the end, when the current one is such.
    pub(crate) fn own_abi(&mut self) {
        let Some(word) = self.offsets.abi_word else { return };
        let own = self.b.label();
        self.b.load(Size::W, Reg::R1, Reg::R8, word);
        self.b.and(Reg::R1, arch::OTHER_ABI);
        self.b.branch(Cond::Eq, Reg::R1, 0, own);
        self.count(CONTROL, at::FOREIGN);
        self.b.jump(self.out);
        self.b.bind(own);
    }

    /// Page faults so far belong to what was before [`at::KNOWN`].
    pub(crate) fn known_faults(&mut self) {
        self.faults();
        self.b.store(Size::DW, Reg::R9, at::FAULTS, Reg::R1);
    }

    /// Goes to `yes` when the program runs in an interrupt, as far as that can be seen.
    pub(crate) fn in_interrupt(&mut self, yes: Label) {
        let Some(variable) = self.offsets.preempt_count else { return };
        self.b.constant(Reg::R1, u64::from(VARIABLE) << 32 | u64::from(variable));
        self.b.call(THIS_CPU_PTR);
        self.b.load(Size::W, Reg::R1, Reg::R0, 0);
        self.b.and(Reg::R1, SERVES_INTERRUPT);
        self.b.branch(Cond::Ne, Reg::R1, 0, yes);
    }

    /// `r1` = page faults of the task in `r8`.
    pub(crate) fn faults(&mut self) {
        self.b.load(Size::DW, Reg::R1, Reg::R8, self.offsets.faults[0]);
        self.b.load(Size::DW, Reg::R2, Reg::R8, self.offsets.faults[1]);
        self.b.add(Reg::R1, Reg::R2);
    }

    /// `r7` = the area of the thread's process, or goes to `none`. The entry is gone then.
    pub(crate) fn area(&mut self, none: Label) {
        self.find_area(none);
        self.b.mov(Reg::R7, Reg::R0);
    }

    /// `r0` = the area of the process of the thread whose entry is in `r7`, or goes to `none`.
    ///
    /// The kernel puts both searches in place as some loads and comparisons.
    pub(crate) fn find_area(&mut self, none: Label) {
        let b = &mut self.b;
        b.load(Size::W, Reg::R1, Reg::R7, threads::INDEX);
        b.branch(Cond::Eq, Reg::R1, 0, none);
        b.store(Size::W, Reg::R10, KEY, Reg::R1);
        b.map(Reg::R1, AREAS);
        b.mov(Reg::R2, Reg::R10);
        b.add(Reg::R2, i32::from(KEY));
        b.call(mote_bpf::helper::MAP_LOOKUP);
        b.branch(Cond::Eq, Reg::R0, 0, none);
        b.mov(Reg::R1, Reg::R0);
        b.store(Size::W, Reg::R10, KEY, 0);
        b.mov(Reg::R2, Reg::R10);
        b.add(Reg::R2, i32::from(KEY));
        b.call(mote_bpf::helper::MAP_LOOKUP);
        b.branch(Cond::Eq, Reg::R0, 0, none);
    }

    /// `r0` = the slot in the area `r7`, or goes to `none`.
    pub(crate) fn slot(&mut self, none: Label) {
        self.uses_slot = true;
        let b = &mut self.b;
        let (known, found) = (b.label(), b.label());
        b.load(Size::W, Reg::R2, Reg::R9, at::SLOT);
        b.branch(Cond::Ne, Reg::R2, 0, known);
        b.mov(Reg::R1, Reg::R7);
        b.mov(Reg::R2, Reg::R9);
        b.mov(Reg::R3, Reg::R8);
        b.call_local(self.slot);
        b.branch(Cond::Eq, Reg::R0, 0, none);
        b.jump(found);
        b.bind(known);
        b.branch32(Cond::Eq, Reg::R2, at::NO_SLOT, none);
        b.sub(Reg::R2, 1);
        slot_address(b, Reg::R0, Reg::R7, Reg::R2);
        b.bind(found);
    }

    /// Function: `r0` = the slot of the thread with record `r2` and task `r3` in the area `r1`, which is looked for; or 0.
    ///
    /// Whatever stands in the area, the slot lies in it: its number is bounded here, and comes from memory that only programs write.
    fn slot_function(&mut self) {
        let (known, none) = (self.b.label(), self.b.label());
        let b = &mut self.b;
        b.bind(self.slot);
        b.mov(Reg::R6, Reg::R1);
        b.mov(Reg::R7, Reg::R2);
        b.mov(Reg::R8, Reg::R3);
        self.own_id();
        self.b.branch(Cond::Ne, Reg::R0, 0, none);
        for claim in [false, true] {
            for probe in 0..area::PROBES as i32 {
                self.probe(probe, claim, known);
            }
        }
        let b = &mut self.b;
        b.store(Size::W, Reg::R7, at::SLOT, at::NO_SLOT);
        b.mov(Reg::R1, 1);
        let unpublished = std::mem::offset_of!(area::Header, unpublished) as i16;
        b.atomic(AtomicOp::Add, Size::DW, Reg::R6, unpublished, Reg::R1);
        self.count(CONTROL, at::UNPUBLISHED);
        let b = &mut self.b;
        b.bind(none);
        b.mov(Reg::R0, 0);
        b.exit();
        b.bind(known);
        slot_address(b, Reg::R0, Reg::R6, Reg::R2);
        b.exit();
    }

    /// The id that the thread itself knows, at `r10 - 8`; `r0` is not 0 when it cannot be read.
    fn own_id(&mut self) {
        let (b, offsets) = (&mut self.b, self.offsets);
        b.load(Size::DW, Reg::R3, Reg::R8, offsets.thread_pid);
        b.load(Size::W, Reg::R1, Reg::R3, offsets.level);
        b.mul(Reg::R1, offsets.number_bytes);
        b.mov(Reg::R2, Reg::R10);
        // The sum is a number for the verifier, and the read is one that may fail.
        b.store(Size::DW, Reg::R10, -16, Reg::R3);
        b.load(Size::DW, Reg::R3, Reg::R10, -16);
        b.add(Reg::R1, i32::from(offsets.numbers));
        b.mov(Reg::R4, Reg::R1);
        b.mov(Reg::R1, Reg::R2);
        b.add(Reg::R1, -8);
        b.mov(Reg::R2, 4);
        b.add(Reg::R3, Reg::R4);
        b.call(PROBE_READ_KERNEL);
    }

    /// Looks at one slot; claims it when it is nobody's and `claim`.
    fn probe(&mut self, probe: i32, claim: bool, known: Label) {
        let b = &mut self.b;
        let (next, found) = (b.label(), b.label());
        b.load(Size::W, Reg::R1, Reg::R10, -8);
        b.mov(Reg::R2, Reg::R1);
        b.add(Reg::R2, probe);
        b.and(Reg::R2, area::SLOTS as i32 - 1);
        b.mov(Reg::R9, Reg::R2);
        slot_address(b, Reg::R3, Reg::R6, Reg::R2);
        let thread = std::mem::offset_of!(area::Slot, thread) as i16;
        if claim {
            b.mov(Reg::R0, 0);
            b.atomic(AtomicOp::CmpXchg, Size::W, Reg::R3, thread, Reg::R1);
            b.branch32(Cond::Eq, Reg::R0, 0, found);
            b.jump(next);
        } else {
            b.load(Size::W, Reg::R4, Reg::R3, thread);
            b.branch32(Cond::Ne, Reg::R4, Reg::R1, next);
        }
        b.bind(found);
        b.mov(Reg::R2, Reg::R9);
        b.mov(Reg::R1, Reg::R9);
        b.add(Reg::R1, 1);
        b.store(Size::W, Reg::R7, at::SLOT, Reg::R1);
        b.jump(known);
        b.bind(next);
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

/// `to` = address of slot number `index` of the area. `index` is bounded, and lost.
fn slot_address(b: &mut Builder, to: Reg, area: Reg, index: Reg) {
    b.and(index, area::SLOTS as i32 - 1);
    b.add(index, 1);
    b.lsh(index, area::SLOT_BYTES.trailing_zeros() as i32);
    b.mov(to, area);
    b.add(to, index);
}
const _: () = assert!(area::SLOTS.is_power_of_two());

/// `[base + off] += reg`, of which only one CPU at a time writes. `scratch` is lost.
pub(crate) fn add_to(b: &mut Builder, base: Reg, off: i16, reg: Reg, scratch: Reg) {
    b.load(Size::DW, scratch, base, off);
    b.add(scratch, reg);
    b.store(Size::DW, base, off, scratch);
}
