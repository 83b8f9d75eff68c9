//! The programs: at the return of system calls, of which some make memory executable, or move it; at forks; and at
//! faults of pages that are tracked.

use crate::places::{
    Control, HEAD_BITS, HEADS_AT, Head, PAGE_BITS, PAGES_AT, PAGES_MAX, PROCESS_AT, SLOTS, TRACKED_BITS, kind,
};
use mote_bpf::helper::{GET_CURRENT_PID_TGID, KTIME_GET_NS, MAP_LOOKUP, MAP_UPDATE, PROBE_READ_USER};
use mote_bpf::op::Size;
use mote_bpf::{Insn, Reg};
use mote_builder::{
    Build, BuildError, Builder, Expr, Field, Label, Local, Memory, Place, Pointer, Scalar, Value, field, map,
    map_value,
};
use mote_generate::arch;
use mote_generate::namespace::Task;
use mote_layout::syscalls;

/// Numbers of the maps in all programs: the memory that is shared, the processes that are watched, and where pages are
/// tracked.
const MEMORY: u32 = 0;
const WATCHED: u32 = 1;
const TRACKED: u32 = 2;

/// `PROT_EXEC`
const EXECUTABLE: i32 = 4;
/// `PROT_WRITE`
pub(crate) const WRITABLE: i32 = 2;
/// `MAP_SHARED` or `MAP_ANONYMOUS`: what others may write, or what is no file's.
const NOT_OF_FILE: i32 = 0x21;
/// System calls return errors as numbers from here on (`MAX_ERRNO`).
const ERRORS: i32 = -4095;

/// What the program at `sys_exit` is given: `pt_regs` of the process, and what the call returns.
#[repr(C)]
struct Returned {
    registers: *const Registers,
    result: i64,
}

/// What the program at `sched_process_fork` is given.
#[repr(C)]
struct Forked {
    parent: *const Task,
    child: *const Task,
}

/// What the program at `page_fault_user` is given: what was accessed, by whom, and how (`X86_PF_*`, asm/trap_pf.h).
#[repr(C)]
struct Faulted {
    address: u64,
    registers: *const Registers,
    error: u64,
}

/// `X86_PF_WRITE`
const WRITES: i32 = 2;

/// A program in the making.
struct Code {
    b: Builder,
    /// Where it ends.
    out: Label,
    /// The key of a search.
    process: Local<u32>,
    /// How many slots it has.
    slots: u32,
}

impl Build for Code {
    fn builder(&mut self) -> &mut Builder {
        &mut self.b
    }
}

/// The registers of a process in a system call (`struct pt_regs`).
struct Registers;

/// The number of a slot that was claimed.
type Claim = Local<u64>;

impl Code {
    fn new(cpus: u32) -> Code {
        let mut b = Builder::new();
        let (out, process) = (b.label(), b.local());
        // Each CPU may claim one that is not free any more.
        Code { b, out, process, slots: SLOTS.saturating_sub(cpus).max(1) }
    }

    fn finish(mut self) -> Result<Vec<Insn>, BuildError> {
        self.bind(self.out);
        self.exit_with(0);
        self.b.finish()
    }

    /// Ends the program where the running process is not watched; notes which it is.
    fn only_watched(&mut self) {
        let both = self.invoke(GET_CURRENT_PID_TGID, ());
        self.put(self.process, both >> 32);
        let watched = self.label();
        self.jump_if(control(field!(Control, all)).ne(0), watched);
        let found = self.invoke(MAP_LOOKUP, (map(WATCHED), self.process.address()));
        self.jump_if(found.eq(0), self.out);
        drop(found);
        self.bind(watched);
    }

    /// Claims a slot; goes to the end of the program, and counts it, where there is none.
    fn claim(&mut self, claim: Claim) {
        self.claim_or_count(claim, field!(Control, lost));
    }

    /// The same, counted by `lost`.
    fn claim_or_count(&mut self, claim: Claim, lost: Field<Control, u64>) {
        let used = self.get(control(field!(Control, claimed)) - control(field!(Control, read)));
        let is_free = self.label();
        self.jump_if(used.lt(self.slots), is_free);
        drop(used);
        self.add_atomically(control(lost), 1);
        self.jump(self.out);
        self.bind(is_free);
        let number = self.fetch_add(control(field!(Control, claimed)), 1);
        self.put(claim, number);
    }

    /// Where something of the slot lies, whose parts have two to the power of `bits` bytes.
    fn slot(claim: Claim, parts: u32, bits: u32) -> Expr {
        map_value(MEMORY, parts) + ((claim & (SLOTS - 1)) << bits)
    }

    /// Says what is in the slot, behind all else.
    fn publish(
        &mut self,
        claim: Claim,
        kind: u32,
        start: &Value,
        end: impl Into<Expr>,
        from: impl Into<Expr>,
    ) {
        let (end, from) = (end.into(), from.into());
        let now = self.invoke(KTIME_GET_NS, ());
        let head = self.get(Code::slot(claim, HEADS_AT, HEAD_BITS)).to::<Head>();
        self.put(head.at(field!(Head, time)), now);
        self.put(head.at(field!(Head, process)), self.process);
        self.put(head.at(field!(Head, kind)), kind);
        self.put(head.at(field!(Head, start)), start);
        self.put(head.at(field!(Head, end)), end);
        self.put(head.at(field!(Head, from)), from);
        let number = self.get(claim + 1);
        // An exchange: what was stored before is seen before.
        let _before = self.exchange(head.at(field!(Head, sequence)), number);
    }
}

/// A member of the switches and counters.
fn control<T: Scalar>(member: Field<Control, T>) -> Place<T> {
    map_value(MEMORY, 0).at(member)
}

/// An argument of the system call.
fn argument(registers: &Pointer<Registers>, number: usize) -> Memory {
    let offset = arch::CALL_ARGUMENTS.get(number).copied().unwrap_or_default();
    Memory::new(registers, offset.into(), Size::DW)
}

/// The program at the return of system calls: copies the pages that mprotect(2) and pkey_mprotect(2) have made
/// executable, and notes what mremap(2) has moved, and what mmap(2) has mapped that is no file's alone.
///
/// # Errors
/// The builder's.
pub(crate) fn returned(cpus: u32) -> Result<Vec<Insn>, BuildError> {
    let mut code = Code::new(cpus);
    let claim = code.local();
    let arguments = code.pin(Reg::R1).to::<Returned>();
    let registers = code.keep(arguments.at(field!(Returned, registers))).to::<Registers>();
    let result = code.keep(arguments.at(field!(Returned, result)));
    drop(arguments);
    let number = code.get(Memory::new(&registers, arch::CALL_NUMBER.into(), Size::DW));
    let [protects, moves, maps] = [code.label(), code.label(), code.label()];
    for (name, to) in [("mprotect", protects), ("pkey_mprotect", protects), ("mremap", moves), ("mmap", maps)]
    {
        if let Some(known) = syscalls::number(name) {
            code.jump_if(number.eq(known), to);
        }
    }
    drop(number);
    code.jump(code.out);
    code.bind(maps);
    code.mapped(&registers, &result, claim);
    code.jump(code.out);
    code.bind(moves);
    code.moved(&registers, &result, claim);
    code.jump(code.out);
    code.bind(protects);
    code.protected(registers, result, claim);
    code.finish()
}

impl Code {
    /// Numbers of system calls are those of the processor's usual kind of program.
    fn only_usual(&mut self, registers: &Pointer<Registers>) {
        let (offset, usual) = arch::USER_CODE;
        self.jump_if(Expr::from(Memory::new(registers, offset, Size::H)).ne(usual), self.out);
    }

    /// Memory was moved to where the system call's result says.
    fn moved(&mut self, registers: &Pointer<Registers>, to: &Value, claim: Claim) {
        self.jump_if(to.ge(ERRORS), self.out);
        self.only_usual(registers);
        self.only_watched();
        self.claim(claim);
        let from = self.keep(argument(registers, 0));
        let end = self.keep(argument(registers, 2) + to);
        self.publish(claim, kind::MOVED, to, &end, &from);
    }

    /// Memory was mapped at the system call's result.
    fn mapped(&mut self, registers: &Pointer<Registers>, to: &Value, claim: Claim) {
        self.jump_if(to.ge(ERRORS), self.out);
        self.jump_if((argument(registers, 2) & EXECUTABLE).eq(0), self.out);
        self.jump_if((argument(registers, 3) & NOT_OF_FILE).eq(0), self.out);
        self.only_usual(registers);
        self.only_watched();
        self.claim(claim);
        let end = self.keep(argument(registers, 1) + to);
        self.publish(claim, kind::REST, to, &end, 0);
    }

    /// Memory may be used otherwise: copies its pages, if they may be executed now.
    fn protected(&mut self, registers: Pointer<Registers>, result: Value, claim: Claim) {
        const PAGE: i32 = 1 << PAGE_BITS;
        self.jump_if(result.ne(0), self.out);
        drop(result);
        self.jump_if((argument(&registers, 2) & EXECUTABLE).eq(0), self.out);
        self.only_usual(&registers);
        self.only_watched();
        let at = self.keep(argument(&registers, 0) & -PAGE);
        let end = self.keep((argument(&registers, 0) + argument(&registers, 1) + (PAGE - 1)) & -PAGE);
        let protection = self.local::<u64>();
        self.put(protection, argument(&registers, 2));
        drop(registers);
        let left = self.keep(PAGES_MAX);
        let is_claimed = self.keep(0);
        let (rest, done) = (self.label(), self.label());
        let next = self.b.here();
        self.jump_if(at.ge(&end), done);
        self.jump_if(left.eq(0), rest);
        self.when(is_claimed.eq(0), |code| code.claim(claim));
        self.set(&is_claimed, 1);
        // What has no memory has no code.
        let failed = self.invoke(PROBE_READ_USER, (Code::slot(claim, PAGES_AT, PAGE_BITS), PAGE, &at));
        self.when(failed.eq(0), |code| {
            code.publish(claim, kind::PAGE, &at, &at + PAGE, protection);
            code.set(&is_claimed, 0);
        });
        drop(failed);
        self.set(&at, &at + PAGE);
        self.set(&left, &left - 1);
        self.jump(next);
        self.bind(rest);
        self.when(is_claimed.eq(0), |code| code.claim(claim));
        self.publish(claim, kind::REST, &at, &end, 0);
        self.jump(self.out);
        self.bind(done);
        self.jump_if(is_claimed.eq(0), self.out);
        self.publish(claim, kind::NONE, &at, &end, 0);
    }
}

/// The program at forks: a process that one that is watched has forked is watched, too.
///
/// # Errors
/// The builder's.
pub(crate) fn forked(cpus: u32, tgid: Field<Task, u32>) -> Result<Vec<Insn>, BuildError> {
    let mut code = Code::new(cpus);
    let (child, yes) = (code.local::<u32>(), code.local::<u32>());
    let arguments = code.pin(Reg::R1).to::<Forked>();
    let parent = code.get(arguments.at(field!(Forked, parent))).to::<Task>();
    code.put(code.process, parent.at(tgid));
    drop(parent);
    let forked = code.get(arguments.at(field!(Forked, child))).to::<Task>();
    drop(arguments);
    code.put(child, forked.at(tgid));
    drop(forked);
    // A thread.
    code.jump_if(child.eq(code.process), code.out);
    let found = code.invoke(MAP_LOOKUP, (map(WATCHED), code.process.address()));
    code.jump_if(found.eq(0), code.out);
    drop(found);
    code.put(yes, 1);
    let failed = code.invoke(MAP_UPDATE, (map(WATCHED), child.address(), yes.address(), 0));
    code.when(failed.ne(0), |code| code.add_atomically(control(field!(Control, unwatched)), 1));
    drop(failed);
    code.finish()
}

/// The program at faults: notes when a page is about to be written to that lies where pages are tracked. Most faults
/// are none of those, and cost one search.
///
/// # Errors
/// The builder's.
pub(crate) fn faulted(cpus: u32) -> Result<Vec<Insn>, BuildError> {
    const PAGE: i32 = 1 << PAGE_BITS;
    let mut code = Code::new(cpus);
    let (claim, piece) = (code.local(), code.local::<u64>());
    let arguments = code.pin(Reg::R1).to::<Faulted>();
    code.jump_if((Expr::from(arguments.at(field!(Faulted, error))) & WRITES).eq(0), code.out);
    let address = code.keep(arguments.at(field!(Faulted, address)));
    drop(arguments);
    let both = code.invoke(GET_CURRENT_PID_TGID, ());
    code.put(code.process, both >> 32);
    code.put(piece, (Expr::from(code.process) << PROCESS_AT) | (&address >> TRACKED_BITS));
    let found = code.invoke(MAP_LOOKUP, (map(TRACKED), piece.address()));
    code.jump_if(found.eq(0), code.out);
    drop(found);
    code.claim_or_count(claim, field!(Control, late));
    code.set(&address, &address & -PAGE);
    code.publish(claim, kind::WRITTEN, &address, &address + PAGE, 0);
    code.finish()
}
