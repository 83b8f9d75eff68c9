//! A program in the making: what all of them begin and end with.

use crate::access::Access;
use crate::error::Error;
use crate::plan::Plan;
use crate::state::{self, LEVELS};
use crate::threads::Entry;
use crate::{map_number, slot};
use mote_bpf::op::Size;
use mote_bpf::{Insn, Reg, helper};
use mote_builder::{Build, Builder, Expr, Label, Memory, Pointer, Value, field, map, map_value};
use mote_ring::control::Control;
use std::ops::Range;
use std::rc::Rc;

/// What a program that records has in the registers that survive calls, all the time.
pub(crate) struct Saved {
    /// The context; in programs of system calls, once they have begun, the registers of the process.
    pub(crate) context: Value,
    /// The control words of the claimed ring.
    pub(crate) control: Pointer<Control>,
    /// Where the record is written, less [`Code::at`]. Until a ring is claimed, the word of the ABI in programs of
    /// system calls with typed contexts.
    pub(crate) to: Value,
    /// The thread's entry, or 0.
    pub(crate) entry: Pointer<Entry>,
}

/// A program in the making: one that records; or, without values that it always has, one that keeps the thread table.
pub(crate) struct Code<'a, S = Rc<Saved>> {
    pub(crate) b: Builder,
    pub(crate) saved: S,
    pub(crate) plan: &'a Plan,
    pub(crate) access: Access,
    /// Offset from [`Saved::to`] of the next byte of the record.
    pub(crate) at: i16,
    /// True when texts and stacks have moved [`Saved::to`].
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
    /// Where it goes on when another generation records, which is in this value there.
    other: Option<(Label, Value)>,
    /// Functions that are called, and so have to be appended: what is never reached, the verifier refuses.
    leave: Option<Label>,
    find: Option<Label>,
    insert: Option<Label>,
    recorder_id: Option<Label>,
    vtid: Option<Label>,
    /// With how many bytes of a stack it copies.
    stack: Option<(Label, u32)>,
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

impl<S> Build for Code<'_, S> {
    fn builder(&mut self) -> &mut Builder {
        &mut self.b
    }
}

impl<'a> Code<'a> {
    /// A program that records.
    pub(crate) fn new(plan: &'a Plan, access: Access) -> Code<'a> {
        let mut b = Builder::new();
        let saved = Rc::new(Saved {
            context: b.saved(),
            control: b.saved().to(),
            to: b.saved(),
            entry: b.saved().to(),
        });
        Code::with(plan, access, b, saved)
    }
}

impl<'a> Code<'a, ()> {
    /// A program that keeps the thread table.
    pub(crate) fn of_threads(plan: &'a Plan) -> Code<'a, ()> {
        Code::with(plan, Access::Typed, Builder::new(), ())
    }

    /// The end of the program, its functions, and then the instructions.
    ///
    /// # Errors
    /// [`Error::Event`] when it is too long.
    pub(crate) fn finish(mut self, event: &str) -> Result<Vec<Insn>, Error> {
        self.bind(self.out);
        self.exit_with(0);
        self.with_functions(event)
    }
}

impl<'a, S> Code<'a, S> {
    fn with(plan: &'a Plan, access: Access, mut b: Builder, saved: S) -> Code<'a, S> {
        let [out, release] = std::array::from_fn(|_| b.label());
        Code {
            b,
            saved,
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
            stack: None,
            filters: Vec::new(),
            words: None,
            scratch: false,
            is_own_doing: false,
            may_be_foreign: false,
            kept: Vec::new(),
        }
    }

    /// Adds 1 to a counter of the state map.
    pub(crate) fn count(&mut self, counter: u32) {
        self.add_atomically(state(counter).place::<u64>(), 1);
    }

    /// The function that leaves a sub-buffer.
    pub(crate) fn leave_label(&mut self) -> Label {
        *self.leave.get_or_insert_with(|| self.b.label())
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

    /// The function that returns a thread's id as the recorder sees it.
    pub(crate) fn recorder_id_label(&mut self) -> Label {
        *self.recorder_id.get_or_insert_with(|| self.b.label())
    }

    /// The function that returns a thread's id as the thread itself sees it.
    pub(crate) fn vtid_label(&mut self) -> Label {
        *self.vtid.get_or_insert_with(|| self.b.label())
    }

    /// The function that copies the stack of the running thread, of which at most so many bytes.
    pub(crate) fn stack_label(&mut self, copy: u32) -> Label {
        self.stack.get_or_insert_with(|| (self.b.label(), copy)).0
    }

    /// Stores zeros in words of 64 bits.
    pub(crate) fn clear(&mut self, base: &Value, words: Range<usize>) {
        for at in words.step_by(8) {
            self.put(Memory::new(base, at as i32, Size::DW), 0);
        }
    }

    /// The functions that the program calls, and then the instructions.
    fn with_functions(mut self, event: &str) -> Result<Vec<Insn>, Error> {
        if let Some(label) = self.insert {
            self.insert_function(label);
        }
        if let Some((label, copy)) = self.stack {
            self.stack_function(label, copy);
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

/// An address in the state map.
pub(crate) fn state(offset: u32) -> Expr {
    map_value(map_number::STATE, offset)
}

/// The claim of a ring.
fn claim_word(ring: &Value) -> Expr {
    state(state::CLAIMS) + (ring << state::CLAIM_BITS)
}

impl Code<'_> {
    /// The context, as [`Saved::context`].
    pub(crate) fn context(&self) -> Expr {
        (&self.saved.context).into()
    }

    /// `size` bytes of the context.
    pub(crate) fn of_context(&self, offset: i32, size: Size) -> Memory {
        Memory::new(self.context(), offset, size)
    }

    /// `size` bytes of the record, so many behind what was written of it.
    pub(crate) fn of_record(&self, offset: u32, size: Size) -> Memory {
        Memory::new(&self.saved.to, i32::from(self.at) + offset as i32, size)
    }

    /// Keeps the context; leaves when recording is off, and goes on to the next program when it is that one's turn.
    pub(crate) fn begin(&mut self) {
        let (saved, given) = (Rc::clone(&self.saved), self.pin(Reg::R1));
        self.set(&saved.context, given);
        let generation = self.get(state(state::ENABLED).place::<u64>());
        let other = self.label();
        self.jump_if(generation.ne(self.plan.generation), other);
        self.other = Some((other, generation));
    }

    /// What is done when another generation records: 0 is none, and else that of a program at its lowest bit's place.
    /// Where there is no program, this event is not recorded any more.
    fn go_on(&mut self, generation: &Value) {
        let (out, odd) = (self.out, self.label());
        self.jump_if(generation.eq(0), out);
        self.set(generation, generation & 1);
        self.jump_if(generation.ne(0), odd);
        // Each with a constant: then the kernel makes it a plain jump.
        self.next(0);
        self.bind(odd);
        self.next(1);
    }

    fn next(&mut self, place: i32) {
        let context = self.context();
        drop(self.invoke(helper::TAIL_CALL, (context, map(map_number::NEXT), place)));
        self.jump(self.out);
    }

    /// Takes a ring of this CPU: its control words, and where its data begin.
    ///
    /// When `looks`, what follows is long: then the verifier is made to forget which level it is, lest it looks at
    /// everything twice.
    pub(crate) fn claim(&mut self, looks: bool) {
        let (cpus, out) = (self.plan.layout.cpus, self.out);
        let ring = self.invoke(helper::GET_SMP_PROCESSOR_ID, ());
        self.jump_if(ring.ge(cpus), out);
        let claim = self.get(claim_word(&ring));
        self.block(|code, claimed| {
            code.block(|code, nested| {
                code.block(|code, second| {
                    code.take(&claim, second);
                    code.jump(claimed);
                });
                code.set(&ring, &ring + cpus);
                code.set(&claim, &claim + (cpus << state::CLAIM_BITS));
                code.take(&claim, nested);
                code.jump(claimed);
            });
            code.count(state::NESTED);
            code.jump(out);
        });
        if looks {
            // The word is 0, but that is not known.
            self.set(&ring, &ring | Memory::new(&claim, 8, Size::DW));
            self.jump_if(ring.ge(LEVELS * cpus), out);
            self.set(&claim, claim_word(&ring));
        }
        self.put(slot::CLAIM, claim);
        self.ring(ring);
        self.claimed = true;
        self.claims = true;
    }

    /// Sets the word of a claim, or goes to `taken` when it is set.
    fn take(&mut self, claim: &Value, taken: Label) {
        let word = || Memory::new(claim, 0, Size::DW);
        if self.access.is_preempted() {
            let before = self.exchange(word(), 1);
            self.jump_if(before.ne(0), taken);
        } else {
            self.jump_if(word().ne(0), taken);
            self.put(word(), 1);
        }
    }

    /// From the ring's number to its addresses.
    fn ring(&mut self, ring: Value) {
        let (saved, geometry) = (Rc::clone(&self.saved), self.plan.geometry);
        let stride = geometry.control_offset(1) - geometry.control_offset(0);
        let rings = |offset| map_value(map_number::RINGS, offset as u32);
        self.set(&saved.control, rings(geometry.control_offset(0)) + &ring * stride);
        if self.scratch {
            let areas = state(self.plan.layout.scratch());
            self.put(slot::SCRATCH, areas + (&ring << state::SCRATCH_BYTES.trailing_zeros()));
        }
        let data = rings(geometry.data_offset(0));
        self.set(&saved.to, data + (ring << (geometry.sub_bits + geometry.count_bits)));
        debug_assert!(geometry.cpus == LEVELS * self.plan.layout.cpus, "two rings for each CPU");
    }

    /// Reads the time, and keeps it in its slot: not before that of the ring's newest record.
    pub(crate) fn time(&mut self) -> Value {
        if self.timed {
            return self.get(slot::TIME);
        }
        let now = self.invoke(helper::KTIME_GET_NS, ());
        let last = self.get(self.saved.control.at(field!(Control, last_time)));
        self.when(now.lt(&last), |code| code.set(&now, &last));
        self.put(slot::TIME, &now);
        self.timed = true;
        now
    }

    /// The ends of the program, its functions, and then the instructions.
    ///
    /// # Errors
    /// [`Error::Event`] when it is too long.
    pub(crate) fn finish(mut self, event: &str) -> Result<Vec<Insn>, Error> {
        if self.claims {
            self.bind(self.release);
            let claim = self.get(slot::CLAIM);
            self.put(Memory::new(claim, 0, Size::DW), 0);
        }
        let out = self.out;
        self.b.bind_last(out);
        self.exit_with(0);
        if let Some((label, generation)) = self.other.take() {
            self.bind(label);
            self.go_on(&generation);
        }
        self.with_functions(event)
    }
}
