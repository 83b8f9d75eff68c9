//! Runs a program at random, and writes its packets and the truth.

use super::clock::Clock;
use super::program::{Insn, Op, Program};
use super::random::Random;
use super::timing::Known;
use super::writer::{Habits, Writer};
use mote_pt::flow::{Event, Start, Transaction};
use mote_pt::insn::Mode;
use mote_pt::packet::Packet;

/// What happened, in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Truth {
    Insn { address: u64, len: u8, mode: Mode, is_speculative: bool },
    Event(Event),
}

/// What happens beside the program: once in so many instructions, never for 0.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Chances {
    pub(crate) psb: usize,
    pub(crate) interrupt: usize,
    pub(crate) leave: usize,
    pub(crate) overflow: usize,
    pub(crate) tsx: usize,
    pub(crate) power: usize,
    pub(crate) modes: bool,
    /// Conditional branches go the same way, but once in so many times; 0 for both ways alike.
    pub(crate) bias: usize,
    /// PTWRITE packets have a FUP.
    pub(crate) fup_on_ptw: bool,
    /// TIP.PGD says where a branch leads to.
    pub(crate) pgd_has_ip: bool,
    /// System calls are not traced.
    pub(crate) user_only: bool,
}

pub(crate) struct Machine<'p> {
    program: &'p Program,
    pub(super) random: Random,
    chances: Chances,
    pub(crate) writer: Writer,
    pub(crate) truth: Vec<Truth>,
    /// When each instruction of the truth was executed.
    pub(crate) times: Vec<u64>,
    /// In the order of packets.
    pub(crate) log: Vec<Known>,
    /// The first of the bits that are not written: its place in the log, and its instruction.
    pub(super) first_bit: Option<(usize, usize)>,
    /// How much of the truth the packets tell.
    pub(super) known: usize,
    /// How much they will, when the bits are written.
    collected: usize,
    ip: u64,
    mode: Mode,
    interrupts: Option<bool>,
    cr3: Option<u64>,
    stack: Vec<u64>,
    is_traced: bool,
    is_speculative: bool,
    has_overflowed: bool,
}

impl<'p> Machine<'p> {
    pub(crate) fn new(program: &'p Program, random: Random, habits: Habits, chances: Chances) -> Self {
        Machine {
            program,
            random,
            chances,
            writer: Writer::new(habits),
            truth: Vec::new(),
            times: Vec::new(),
            log: Vec::new(),
            first_bit: None,
            known: 0,
            collected: 0,
            ip: program.functions[0],
            mode: Mode::Bits64,
            interrupts: None,
            cr3: None,
            stack: Vec::new(),
            is_traced: true,
            is_speculative: false,
            has_overflowed: false,
        }
    }

    pub(crate) fn run(&mut self, instructions: usize) {
        self.psb(true);
        for _ in 0..instructions {
            self.events();
            self.execute();
        }
        self.flush();
        self.forget();
    }

    /// Forgets what no packet tells.
    fn forget(&mut self) {
        self.first_bit = None;
        self.clock().into_iter().for_each(|clock| clock.told.clear());
        self.truth.truncate(self.known);
        let executed = self.truth.iter().filter(|one| matches!(one, Truth::Insn { .. })).count();
        self.times.truncate(executed);
        while matches!(self.log.last(), Some(Known::There { instruction }) if *instruction >= executed) {
            self.log.pop();
        }
    }

    fn tell(&mut self, event: Event) {
        if matches!(event, Event::Enabled { .. } | Event::Disabled { .. } | Event::AsyncBranch { .. }) {
            self.log.push(Known::There { instruction: self.times.len() });
        }
        self.truth.push(Truth::Event(event));
        self.know();
    }

    fn tell_packet(&mut self, packet: Packet, address: Option<u64>) {
        self.tell(Event::Packet { packet, address });
    }

    /// Packets tell everything up to here.
    fn know(&mut self) {
        self.known = self.truth.len();
        self.collected = self.known;
    }

    pub(super) fn flush(&mut self) {
        self.writer.flush(&mut self.random);
        self.note_cycles();
        self.known = self.collected;
    }

    pub(super) fn put(&mut self, packet: Packet) {
        self.writer.put(&mut self.random, packet);
        self.note_cycles();
    }

    fn put_ip(&mut self, kind: fn(mote_pt::packet::ip::Ip) -> Packet, address: Option<u64>) {
        self.writer.put_ip(&mut self.random, kind, address);
        self.note_cycles();
    }

    fn fup(&mut self) {
        self.put_ip(Packet::Fup, Some(self.ip));
        self.know();
    }

    fn put_mode(&mut self) {
        let (is_64_bit, is_32_bit) = (self.mode == Mode::Bits64, self.mode == Mode::Bits32);
        self.put(Packet::ModeExec { is_64_bit, is_32_bit, interrupts: false });
    }

    fn tell_mode(&mut self) {
        self.interrupts = Some(false);
        self.tell(Event::Mode { mode: self.mode, interrupts: false });
    }

    /// What happens before an instruction is executed.
    fn events(&mut self) {
        if self.random.once_in(self.chances.overflow) {
            self.overflow();
        }
        self.disturb();
        if !self.is_traced {
            return;
        }
        if self.random.once_in(self.chances.psb) {
            self.psb(false);
        }
        if self.random.once_in(self.chances.tsx) {
            self.transaction();
        }
        if self.random.once_in(self.chances.power) {
            self.power();
        }
        if self.random.once_in(self.chances.interrupt) {
            self.interrupt();
        }
        if self.is_traced && self.random.once_in(self.chances.leave) {
            self.leave();
        }
    }

    fn psb(&mut self, is_first: bool) {
        self.flush();
        self.writer.reset_ip();
        self.writer.forget_calls();
        self.put(Packet::Psb);
        if self.writer.clock.is_some() {
            self.put_clocks();
        } else if self.random.once_in(2) {
            self.put(Packet::Tsc(5));
        }
        self.put(Packet::ModeTsx { in_transaction: self.is_speculative, is_aborted: false });
        if let Some(cr3) = self.cr3 {
            self.put(Packet::Pip { cr3, is_guest: false });
        }
        self.put_mode();
        self.fup();
        self.put(Packet::PsbEnd);
        if self.interrupts.is_none() {
            self.tell_mode();
        }
        if is_first {
            self.tell(Event::Enabled { address: self.ip, by: Start::Psb });
        }
    }

    fn interrupt(&mut self) {
        self.flush();
        let is_told = self.random.once_in(3);
        let data = Packet::Evd { kind: 1, value: 77 };
        let event = Packet::Cfe { kind: 1, vector: 14, has_fup: false };
        if is_told {
            self.put(data);
            self.put(event);
        }
        self.fup();
        let to = self.random.pick(&self.program.functions);
        let changes = self.chances.modes && self.random.once_in(3);
        let cr3 = (self.cr3.is_some() && self.random.once_in(3)).then(|| (self.random.next() & 3) << 12);
        if let Some(cr3) = cr3 {
            self.put(Packet::Pip { cr3, is_guest: false });
        }
        if changes {
            self.toggle_mode();
            self.put_mode();
        }
        let from = self.ip;
        let is_left = to >= self.program.traced_end;
        let kind = if is_left { Packet::TipPgd } else { Packet::Tip };
        self.put_ip(kind, Some(to));
        if is_told {
            self.tell_packet(data, Some(from));
            self.tell_packet(event, Some(from));
        }
        if is_left {
            self.turn_off(Some(from), Some(to));
        } else {
            self.tell(Event::AsyncBranch { from, to });
        }
        if let Some(cr3) = cr3.filter(|&cr3| self.cr3 != Some(cr3)) {
            self.cr3 = Some(cr3);
            self.tell(Event::AddressSpace { cr3, is_guest: false });
        }
        if changes {
            self.tell_mode();
        }
        self.ip = to;
    }

    /// Something that is not traced interrupts, and returns to where it was or elsewhere.
    fn leave(&mut self) {
        self.flush();
        self.fup();
        self.put_ip(Packet::TipPgd, None);
        self.turn_off(Some(self.ip), None);
        self.pause();
        if self.random.once_in(3) {
            let places = &self.program.places;
            self.ip = self.random.pick(places);
        }
        if self.ip < self.program.traced_end {
            self.turn_on();
        }
    }

    fn overflow(&mut self) {
        // What was collected may be lost, too.
        if self.random.once_in(2) {
            self.flush();
        }
        self.writer.drop_collected();
        self.writer.forget_calls();
        self.forget();
        self.silence(true);
        let was_traced = std::mem::replace(&mut self.is_traced, false);
        self.has_overflowed = true;
        for _ in 0..self.random.below(20) {
            self.execute();
        }
        self.has_overflowed = false;
        self.is_traced = was_traced || self.ip < self.program.traced_end;
        self.is_traced &= self.ip < self.program.traced_end;
        self.is_speculative = false;
        self.silence(false);
        self.put(Packet::Ovf);
        self.tell(Event::Overflow);
        if !self.is_traced {
            return;
        }
        if self.random.once_in(3) {
            self.turn_on();
        } else {
            self.fup();
            self.tell(Event::Enabled { address: self.ip, by: Start::Overflow });
        }
    }

    fn transaction(&mut self) {
        self.flush();
        let (is_speculative, is_aborted) =
            if self.is_speculative { (false, self.random.once_in(2)) } else { (true, false) };
        self.is_speculative = is_speculative;
        self.put(Packet::ModeTsx { in_transaction: is_speculative, is_aborted });
        self.fup();
        let state = match (is_speculative, is_aborted) {
            (true, _) => Transaction::Begun,
            (_, true) => Transaction::Aborted,
            _ => Transaction::Committed,
        };
        let from = self.ip;
        self.tell(Event::Transaction { state, address: Some(from) });
        if is_aborted {
            let places = self.program.places.iter().copied();
            let places: Vec<u64> = places.filter(|&place| place < self.program.traced_end).collect();
            self.ip = self.random.pick(&places);
            self.put_ip(Packet::Tip, Some(self.ip));
            self.tell(Event::AsyncBranch { from, to: self.ip });
        }
    }

    fn power(&mut self) {
        self.flush();
        let address = Some(self.ip);
        match self.random.below(4) {
            0 => {
                let mwait = Packet::Mwait { hints: 1, extensions: 0 };
                let pwre = Packet::Pwre { c_state: 2, sub_state: 3, is_hardware: false };
                let exstop = Packet::Exstop { has_fup: true };
                let pwrx = Packet::Pwrx { last: 1, deepest: 2, reason: 4 };
                [mwait, pwre, exstop].into_iter().for_each(|packet| self.put(packet));
                self.fup();
                self.put(pwrx);
                [mwait, pwre, exstop].into_iter().for_each(|packet| self.tell_packet(packet, address));
                self.tell_packet(pwrx, None);
            }
            1 => {
                let (begin, item) =
                    (Packet::Bbp { is_short: false, kind: 4 }, Packet::Bip { id: 1, value: 5 });
                let end = Packet::Bep { has_fup: true };
                [begin, item, end].into_iter().for_each(|packet| self.put(packet));
                // What was executed up to the FUP comes behind the items.
                let executed = self.truth.split_off(self.known);
                self.tell_packet(begin, None);
                self.tell_packet(item, None);
                self.truth.extend(executed);
                self.fup();
                self.tell_packet(end, address);
            }
            2 => {
                let event = Packet::Cfe { kind: 5, vector: 0, has_fup: true };
                self.put(event);
                self.fup();
                self.tell_packet(event, address);
            }
            _ => {
                // STI: the interrupt flag, of processors with event trace.
                self.put_mode();
                self.fup();
                if self.interrupts.is_none() {
                    self.tell_mode();
                }
            }
        }
    }

    fn toggle_mode(&mut self) {
        self.mode = if self.mode == Mode::Bits64 { Mode::Bits32 } else { Mode::Bits64 };
    }

    fn turn_off(&mut self, from: Option<u64>, to: Option<u64>) {
        self.tell(Event::Disabled { from, to });
        self.writer.turn();
        self.is_traced = false;
    }

    fn turn_on(&mut self) {
        self.put_ip(Packet::TipPge, Some(self.ip));
        self.tell(Event::Enabled { address: self.ip, by: Start::Pge });
        self.writer.turn();
        self.is_traced = true;
    }

    fn execute(&mut self) {
        let Insn { len, op } = self.program.code[&self.ip];
        self.pass();
        if self.is_traced {
            self.times.extend(self.writer.clock.as_ref().map(Clock::tsc));
            let (address, mode, is_speculative) = (self.ip, self.mode, self.is_speculative);
            self.truth.push(Truth::Insn { address, len, mode, is_speculative });
        }
        let next = self.ip + u64::from(len);
        let to = match op {
            Op::Sequential | Op::CallNext => next,
            Op::Conditional(target) => {
                let is_taken = match self.chances.bias {
                    0 => self.random.once_in(2),
                    bias => self.random.once_in(bias) ^ (self.ip & 2 == 0),
                };
                let to = if is_taken { target } else { next };
                // Functions that are not traced are reached by branches only.
                let to =
                    if self.is_traced && to >= self.program.traced_end && !is_taken { target } else { to };
                if self.stays(to) {
                    let is_written = self.writer.bit(&mut self.random, to == target);
                    self.collect(is_written);
                }
                to
            }
            Op::Jump(target) => target,
            Op::Call(target) => {
                self.call(next, target);
                target
            }
            Op::IndirectJump => {
                let to = self.random.pick(&self.program.places);
                self.indirect(to);
                to
            }
            Op::IndirectCall => {
                let to = self.random.pick(&self.program.functions);
                self.call(next, to);
                self.indirect(to);
                to
            }
            Op::Return => self.ret(),
            Op::Far => return self.far(next),
            Op::Ptwrite => {
                self.ptwrite();
                next
            }
            Op::MovCr3 => {
                self.mov_cr3();
                next
            }
        };
        self.arrive(op, next, to);
    }

    /// Whether a branch is traced as one.
    fn stays(&self, to: u64) -> bool {
        self.is_traced && to < self.program.traced_end
    }

    /// Notes a branch whose packet may not be written yet.
    fn collect(&mut self, is_written: bool) {
        let instruction = self.times.len().checked_sub(1);
        if let Some(instruction) = instruction.filter(|_| self.first_bit.is_none()) {
            self.first_bit = Some((self.log.len(), instruction));
        }
        self.note_cycles();
        self.log.extend(instruction.map(|instruction| Known::There { instruction }));
        self.collected = self.truth.len();
        if is_written {
            self.known = self.collected;
        }
    }

    fn call(&mut self, next: u64, to: u64) {
        self.stack.push(next);
        if self.stays(to) {
            self.writer.call(next);
        }
        if self.stack.len() > 200 {
            self.stack.clear();
        }
    }

    fn indirect(&mut self, to: u64) {
        if self.stays(to) {
            let is_written = self.writer.tip(&mut self.random, to);
            self.collect(is_written);
        }
    }

    fn ret(&mut self) -> u64 {
        let to = match self.stack.pop() {
            Some(to) if !self.random.once_in(8) => to,
            _ => self.random.pick(&self.program.places),
        };
        if self.stays(to) {
            let is_written = self.writer.ret(&mut self.random, to);
            self.collect(is_written);
        }
        to
    }

    fn far(&mut self, next: u64) {
        let to = self.random.pick(&self.program.functions);
        let to = if self.stays(to) || !self.is_traced { to } else { self.program.functions[0] };
        if !self.is_traced {
            return self.arrive(Op::Far, next, to);
        }
        self.flush();
        if self.chances.user_only {
            self.put_ip(Packet::TipPgd, None);
            self.turn_off(None, None);
            self.ip = next;
            return self.turn_on();
        }
        let cr3 = (self.cr3.is_some() && self.random.once_in(3)).then(|| (self.random.next() & 3) << 12);
        if let Some(cr3) = cr3 {
            self.put(Packet::Pip { cr3, is_guest: false });
        }
        let changes = self.chances.modes && self.random.once_in(2);
        if changes {
            self.toggle_mode();
            self.put_mode();
        }
        self.put_ip(Packet::Tip, Some(to));
        self.know();
        if let Some(cr3) = cr3.filter(|&cr3| self.cr3 != Some(cr3)) {
            self.cr3 = Some(cr3);
            self.tell(Event::AddressSpace { cr3, is_guest: false });
        }
        if changes {
            self.tell_mode();
        }
        self.ip = to;
    }

    fn ptwrite(&mut self) {
        if !self.is_traced {
            return;
        }
        self.flush();
        let value = self.random.next();
        let has_fup = self.chances.fup_on_ptw;
        let packet = Packet::Ptw { value, is_wide: true, has_fup };
        self.put(packet);
        if has_fup {
            self.put_ip(Packet::Fup, Some(self.ip));
        }
        self.tell_packet(packet, Some(self.ip));
    }

    fn mov_cr3(&mut self) {
        if !self.is_traced {
            return;
        }
        self.flush();
        let cr3 = (self.random.next() & 3) << 12;
        self.put(Packet::Pip { cr3, is_guest: false });
        self.know();
        if self.cr3.replace(cr3) != Some(cr3) {
            self.tell(Event::AddressSpace { cr3, is_guest: false });
        }
    }

    /// Goes on at an address, which may be where tracing begins or ends.
    fn arrive(&mut self, op: Op, next: u64, to: u64) {
        self.ip = to;
        let is_branch = !matches!(op, Op::Sequential | Op::CallNext | Op::Ptwrite | Op::MovCr3);
        let is_inside = to < self.program.traced_end;
        if self.has_overflowed || !is_branch || self.is_traced == is_inside {
            return;
        }
        if is_inside {
            return self.turn_on();
        }
        self.flush();
        let _ = next;
        let is_direct = matches!(op, Op::Conditional(_) | Op::Jump(_) | Op::Call(_));
        let to = (self.chances.pgd_has_ip || !is_direct).then_some(to);
        self.put_ip(Packet::TipPgd, to);
        self.turn_off(None, to);
    }
}
