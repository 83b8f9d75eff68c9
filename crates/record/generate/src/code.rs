//! A program in the making: what all of them begin and end with.

use crate::access::Access;
use crate::error::Error;
use crate::plan::Plan;
use crate::state::{self, LEVELS};
use crate::threads::Entry;
use crate::{map_number, slot};
use mote_bpf::op::{AtomicOp, Cond, Size};
use mote_bpf::{Insn, Reg, helper};
use mote_builder::{Build, Builder, Expr, Label, Memory, Pointer, Value};
use mote_ring::control::Control;
use std::mem::offset_of;
use std::ops::Range;

/// Offset in a ring's control words of the time of its newest record.
pub(crate) const LAST_TIME: i16 = offset_of!(Control, last_time) as i16;

/// A program in the making.
pub(crate) struct Code<'a> {
    pub(crate) b: Builder,
    pub(crate) plan: &'a Plan,
    pub(crate) access: Access,
    /// Offset from `r8` of the next byte of the record.
    pub(crate) at: i16,
    /// True when texts and stacks have moved `r8`.
    pub(crate) moved: bool,
    /// True when the time is in its slot already.
    pub(crate) timed: bool,
    /// Ends the program, releasing nothing.
    pub(crate) out: Label,
    /// Releases the ring and ends the program.
    pub(crate) release: Label,
    /// Whether a ring is claimed where the program has come to.
    pub(crate) claimed: bool,
    /// Whether it is anywhere: only then is there something to release.
    pub(crate) claims: bool,
    /// Where it goes on when another generation records.
    other: Option<Label>,
    /// Functions that are called, and so have to be appended: what is never reached, the verifier refuses.
    leave: Option<Label>,
    find: Option<Label>,
    insert: Option<Label>,
    recorder_id: Option<Label>,
    vtid: Option<Label>,
    /// Functions of filters, with their labels.
    pub(crate) filters: Vec<(Label, Vec<Insn>)>,
    /// The map that has the program's table, if behind that are the words of `sockaddr::words`.
    pub(crate) words: Option<u32>,
    /// Whether texts are looked at before they are recorded.
    pub(crate) scratch: bool,
    /// The event is something that the running thread does, not something that happens while it runs.
    pub(crate) is_own_doing: bool,
    /// The running thread may be another one than that for which the event was chosen.
    pub(crate) may_be_foreign: bool,
    /// Of each field of the event, the part of the scratch area that holds it already.
    pub(crate) kept: Vec<Option<u32>>,
}

impl Build for Code<'_> {
    fn builder(&mut self) -> &mut Builder {
        &mut self.b
    }
}

impl<'a> Code<'a> {
    pub(crate) fn new(plan: &'a Plan, access: Access) -> Code<'a> {
        let mut b = Builder::new();
        let [out, release] = std::array::from_fn(|_| b.label());
        Code {
            b,
            plan,
            access,
            at: 0,
            moved: false,
            timed: false,
            out,
            release,
            claimed: false,
            claims: false,
            other: None,
            leave: None,
            find: None,
            insert: None,
            recorder_id: None,
            vtid: None,
            filters: Vec::new(),
            words: None,
            scratch: false,
            is_own_doing: false,
            may_be_foreign: false,
            kept: Vec::new(),
        }
    }

    /// Address of an offset in the state map.
    pub(crate) fn state(&mut self, dst: Reg, offset: u32) {
        self.b.map_value(dst, map_number::STATE, offset);
    }

    /// Keeps the context; leaves when recording is off, and goes on to the next program when it is that one's turn.
    pub(crate) fn begin(&mut self) {
        let other = *self.other.get_or_insert_with(|| self.b.label());
        self.b.mov(Reg::R6, Reg::R1);
        self.state(Reg::R1, state::ENABLED);
        self.b.load(Size::DW, Reg::R1, Reg::R1, 0);
        self.b.branch(Cond::Ne, Reg::R1, self.plan.generation as i32, other);
    }

    /// What is done when the generation in `r1` is another one: 0 for none, and else that of a program at its lowest
    /// bit's place. Where there is no program, this event is not recorded any more.
    fn go_on(&mut self) {
        let odd = self.b.label();
        self.b.branch(Cond::Eq, Reg::R1, 0, self.out);
        self.b.and(Reg::R1, 1);
        self.b.branch(Cond::Ne, Reg::R1, 0, odd);
        // Each with a constant: then the kernel makes it a plain jump.
        self.next(0);
        self.b.bind(odd);
        self.next(1);
    }

    fn next(&mut self, place: i32) {
        self.b.mov(Reg::R1, Reg::R6);
        self.b.map(Reg::R2, map_number::NEXT);
        self.b.mov(Reg::R3, place);
        self.b.call(helper::TAIL_CALL);
        self.b.jump(self.out);
    }

    /// Adds 1 to a counter of the state map.
    pub(crate) fn count(&mut self, counter: u32) {
        self.state(Reg::R1, counter);
        self.b.mov(Reg::R2, 1);
        self.b.atomic(AtomicOp::Add, Size::DW, Reg::R1, 0, Reg::R2);
    }

    /// Takes a ring of this CPU: `r7` its control words, `r8` its data.
    ///
    /// When `looks`, what follows is long: then the verifier is made to forget which level it is, lest it looks at
    /// everything twice.
    pub(crate) fn claim(&mut self, looks: bool) {
        let cpus = self.plan.layout.cpus as i32;
        let (nested, second, claimed) = (self.b.label(), self.b.label(), self.b.label());
        self.b.call(helper::GET_SMP_PROCESSOR_ID);
        self.b.branch(Cond::Ge, Reg::R0, cpus, self.out);
        self.claim_word();
        self.take(second);
        self.b.jump(claimed);
        self.b.bind(second);
        self.b.add(Reg::R0, cpus);
        self.b.add(Reg::R2, cpus << state::CLAIM_BITS);
        self.take(nested);
        self.b.jump(claimed);
        self.b.bind(nested);
        self.count(state::NESTED);
        self.b.jump(self.out);
        self.b.bind(claimed);
        if looks {
            // The word is 0, but that is not known.
            self.b.load(Size::DW, Reg::R1, Reg::R2, 8);
            self.b.or(Reg::R0, Reg::R1);
            self.b.branch(Cond::Ge, Reg::R0, LEVELS as i32 * cpus, self.out);
            self.claim_word();
        }
        self.b.store(Size::DW, Reg::R10, slot::CLAIM, Reg::R2);
        self.ring();
        self.claimed = true;
        self.claims = true;
    }

    /// `r2` becomes the address of the claim of ring `r0`.
    fn claim_word(&mut self) {
        self.b.mov(Reg::R1, Reg::R0);
        self.b.lsh(Reg::R1, state::CLAIM_BITS as i32);
        self.state(Reg::R2, state::CLAIMS);
        self.b.add(Reg::R2, Reg::R1);
    }

    /// Sets the word at `r2`, or goes to `taken` when it is set.
    fn take(&mut self, taken: Label) {
        if self.access.is_preempted() {
            self.b.mov(Reg::R3, 1);
            self.b.atomic(AtomicOp::Xchg, Size::DW, Reg::R2, 0, Reg::R3);
            self.b.branch(Cond::Ne, Reg::R3, 0, taken);
        } else {
            self.b.load(Size::DW, Reg::R3, Reg::R2, 0);
            self.b.branch(Cond::Ne, Reg::R3, 0, taken);
            self.b.store(Size::DW, Reg::R2, 0, 1);
        }
    }

    /// From the ring's number in `r0` to its addresses.
    fn ring(&mut self) {
        let geometry = self.plan.geometry;
        let stride = (geometry.control_offset(1) - geometry.control_offset(0)) as i32;
        self.b.mov(Reg::R1, Reg::R0);
        self.b.mul(Reg::R1, stride);
        self.b.map_value(Reg::R7, map_number::RINGS, geometry.control_offset(0) as u32);
        self.b.add(Reg::R7, Reg::R1);
        if self.scratch {
            self.b.mov(Reg::R1, Reg::R0);
            self.b.lsh(Reg::R1, state::SCRATCH_BYTES.trailing_zeros() as i32);
            self.state(Reg::R2, self.plan.layout.scratch());
            self.b.add(Reg::R2, Reg::R1);
            self.b.store(Size::DW, Reg::R10, slot::SCRATCH, Reg::R2);
        }
        self.b.lsh(Reg::R0, (geometry.sub_bits + geometry.count_bits) as i32);
        self.b.map_value(Reg::R8, map_number::RINGS, geometry.data_offset(0) as u32);
        self.b.add(Reg::R8, Reg::R0);
        debug_assert!(geometry.cpus == LEVELS * self.plan.layout.cpus, "two rings for each CPU");
    }

    /// Reads the time into its slot and `r0`: not before that of the ring's newest record.
    pub(crate) fn time(&mut self) {
        if self.timed {
            self.b.load(Size::DW, Reg::R0, Reg::R10, slot::TIME);
            return;
        }
        let later = self.b.label();
        self.b.call(helper::KTIME_GET_NS);
        self.b.load(Size::DW, Reg::R1, Reg::R7, LAST_TIME);
        self.b.branch(Cond::Ge, Reg::R0, Reg::R1, later);
        self.b.mov(Reg::R0, Reg::R1);
        self.b.bind(later);
        self.b.store(Size::DW, Reg::R10, slot::TIME, Reg::R0);
        self.timed = true;
    }

    /// Calls the function that leaves a sub-buffer.
    pub(crate) fn call_leave(&mut self) {
        let label = *self.leave.get_or_insert_with(|| self.b.label());
        self.b.call_local(label);
    }

    /// Calls the function that finds a thread's entry.
    pub(crate) fn call_find(&mut self) {
        let label = *self.find.get_or_insert_with(|| self.b.label());
        self.b.call_local(label);
    }

    /// Calls the function that says how the recorder calls the thread whose task is in `r1`.
    pub(crate) fn call_recorder_id(&mut self) {
        let label = self.recorder_id_label();
        self.b.call_local(label);
    }

    /// The entry of a thread, or 0.
    pub(crate) fn find_entry(&mut self, tid: impl Into<Expr>) -> Pointer<Entry> {
        let label = *self.find.get_or_insert_with(|| self.b.label());
        self.invoke_function(label, (tid,)).to()
    }

    /// The entry of a thread, a new one if it has none, or 0 when there is no place.
    pub(crate) fn insert_entry(&mut self, tid: impl Into<Expr>) -> Pointer<Entry> {
        let label = *self.insert.get_or_insert_with(|| self.b.label());
        self.invoke_function(label, (tid,)).to()
    }

    /// The function that says how the recorder calls a thread.
    pub(crate) fn recorder_id_label(&mut self) -> Label {
        *self.recorder_id.get_or_insert_with(|| self.b.label())
    }

    /// The function that says how a thread calls itself.
    pub(crate) fn vtid_label(&mut self) -> Label {
        *self.vtid.get_or_insert_with(|| self.b.label())
    }

    /// Stores zeros in words of 64 bits.
    pub(crate) fn clear(&mut self, base: &Value, words: Range<usize>) {
        for at in words.step_by(8) {
            self.put(Memory::new(base, at as i32, Size::DW), 0);
        }
    }

    /// The ends of the program, its functions, and then the instructions.
    ///
    /// # Errors
    /// [`Error::Event`] when it is too long.
    pub(crate) fn finish(mut self, event: &str) -> Result<Vec<Insn>, Error> {
        if self.claims {
            self.b.bind(self.release);
            self.b.load(Size::DW, Reg::R1, Reg::R10, slot::CLAIM);
            self.b.store(Size::DW, Reg::R1, 0, 0);
        }
        self.b.bind(self.out);
        self.b.mov(Reg::R0, 0);
        self.b.exit();
        if let Some(label) = self.other {
            self.b.bind(label);
            self.go_on();
        }
        if let Some(label) = self.insert {
            self.insert_function(label);
        }
        if let Some(label) = self.recorder_id {
            self.recorder_id_function(label);
        }
        if let Some(label) = self.vtid {
            self.vtid_function(label);
        }
        if let Some(label) = self.find {
            self.find_function(label);
        }
        if let Some(label) = self.leave {
            self.leave_function(label);
        }
        for (label, insns) in std::mem::take(&mut self.filters) {
            self.b.bind(label);
            crate::relocate::append(&mut self.b, &insns, self.plan.namespace.is_some())
                .map_err(|why| Error::event(event, why))?;
        }
        self.b.finish().map_err(|error| Error::event(event, error.to_string()))
    }
}
