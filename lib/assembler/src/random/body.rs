//! The statements of a function.

use super::{Calls, NUMBERS, STACK, Shape, Source};
use mote_bpf::helper;
use mote_bpf::insn::Reg;
use mote_bpf::op::{AluOp, AtomicOp, Cond, Operand, Order, Size, Width};
use mote_builder::Builder;

const ALU: [AluOp; 14] = [
    AluOp::Add,
    AluOp::Sub,
    AluOp::Mul,
    AluOp::Div,
    AluOp::SDiv,
    AluOp::Mod,
    AluOp::SMod,
    AluOp::Or,
    AluOp::And,
    AluOp::Xor,
    AluOp::Lsh,
    AluOp::Rsh,
    AluOp::Arsh,
    AluOp::Mov,
];
const ATOMICS: [AtomicOp; 10] = [
    AtomicOp::Add,
    AtomicOp::Or,
    AtomicOp::And,
    AtomicOp::Xor,
    AtomicOp::FetchAdd,
    AtomicOp::FetchOr,
    AtomicOp::FetchAnd,
    AtomicOp::FetchXor,
    AtomicOp::Xchg,
    AtomicOp::CmpXchg,
];
const SIZES: [Size; 4] = [Size::B, Size::H, Size::W, Size::DW];
const WIDTHS: [Width; 2] = [Width::W32, Width::W64];

/// A function in the making.
pub(super) struct Body<'a> {
    pub(super) b: &'a mut Builder,
    pub(super) source: &'a mut Source,
    pub(super) shape: &'a Shape,
    /// Functions that may be called from here.
    pub(super) calls: Calls<'a>,
    /// Loops around this place.
    pub(super) loops: u32,
}

impl Body<'_> {
    pub(super) fn statements(&mut self, count: u32) {
        for _ in 0..count {
            self.statement();
        }
    }

    fn statement(&mut self) {
        match self.source.below(24) {
            0..=7 => self.arithmetic(),
            8 => self.convert(),
            9 => self.constant(),
            10..=11 => self.load(),
            12..=13 => self.store(),
            14 => self.variable(),
            15..=16 => self.atomic(),
            17..=19 => self.branch(),
            20 => self.repeat(),
            21 if self.loops == 0 => self.call(),
            22 if self.shape.map => self.map(),
            _ => self.ordered(),
        }
    }

    fn number(&mut self) -> Reg {
        self.source.pick(&NUMBERS)
    }

    fn width(&mut self) -> Width {
        self.source.pick(&WIDTHS)
    }

    fn operand(&mut self) -> Operand {
        if self.source.chance(2) { self.number().into() } else { self.source.imm().into() }
    }

    fn arithmetic(&mut self) {
        let (width, op, dst) = (self.width(), self.source.pick(&ALU), self.number());
        let bits = if width == Width::W64 { 64 } else { 32 };
        let src = match (op, self.operand()) {
            // Constants that verifiers refuse.
            (AluOp::Lsh | AluOp::Rsh | AluOp::Arsh, Operand::Imm(imm)) => Operand::Imm(imm & (bits - 1)),
            (AluOp::Div | AluOp::SDiv | AluOp::Mod | AluOp::SMod, Operand::Imm(0)) => Operand::Imm(1),
            (_, src) => src,
        };
        self.b.alu(width, op, dst, src);
    }

    /// Negation, byte order, extension by the sign.
    fn convert(&mut self) {
        let (width, dst, src) = (self.width(), self.number(), self.number());
        match self.source.below(4) {
            0 => self.b.neg(width, dst),
            1 => {
                let order = self.source.pick(&[Order::Little, Order::Big, Order::Swap]);
                let bits = self.source.pick(&[16, 32, 64]);
                self.b.byte_order(order, bits, dst);
            }
            2 if width == Width::W64 => self.b.alu(width, AluOp::MovSx32, dst, src),
            _ => {
                let op = self.source.pick(&[AluOp::MovSx8, AluOp::MovSx16]);
                self.b.alu(width, op, dst, src);
            }
        }
    }

    fn constant(&mut self) {
        let dst = self.number();
        if self.source.chance(2) {
            let value = self.source.bits();
            self.b.constant(dst, value);
        } else {
            let value = self.source.value();
            self.b.constant(dst, value);
        }
    }

    /// An address that is certain: anywhere in the memory, or aligned on the stack.
    fn place(&mut self, size: Size) -> (Reg, i16) {
        let bytes = size.bytes() as u64;
        if self.source.chance(3) {
            let slots = STACK as u64 / bytes;
            (Reg::R10, (self.source.below(slots) * bytes) as i16 - STACK)
        } else {
            (Reg::R6, self.source.below(u64::from(self.shape.memory) - bytes + 1) as i16)
        }
    }

    fn load(&mut self) {
        let (size, dst) = (self.source.pick(&SIZES), self.number());
        let (src, off) = self.place(size);
        if self.source.chance(2) {
            self.b.load_signed(size, dst, src, off);
        } else {
            self.b.load(size, dst, src, off);
        }
    }

    fn store(&mut self) {
        let (size, src) = (self.source.pick(&SIZES), self.operand());
        let (dst, off) = self.place(size);
        self.b.store(size, dst, off, src);
    }

    /// An access at a place that is known at run time only.
    fn variable(&mut self) {
        let (address, other) = (self.source.pick(&[Reg::R7, Reg::R8]), self.number());
        let size = self.source.pick(&SIZES);
        // The largest mask of low bits that leaves room for 8 bytes.
        let room = (self.shape.memory - 7).next_power_of_two();
        let mask = if room > self.shape.memory - 7 { room / 2 - 1 } else { room - 1 };
        self.b.and(address, mask as i32);
        self.b.add(address, Reg::R6);
        match self.source.below(3) {
            0 => self.b.load(size, Reg::R3, address, 0),
            1 => self.b.load_signed(size, Reg::R4, address, 0),
            _ if other == address => self.b.store(size, address, 0, 5),
            _ => self.b.store(size, address, 0, other),
        }
        let value = self.source.value();
        self.b.constant(address, value);
    }

    fn atomic(&mut self) {
        let (op, reg) = (self.source.pick(&ATOMICS), self.number());
        let size = self.source.pick(&[Size::W, Size::DW]);
        let (base, off) = self.aligned(size);
        let fetches = !matches!(op, AtomicOp::Add | AtomicOp::Or | AtomicOp::And | AtomicOp::Xor);
        if base == Reg::R10 && fetches && !self.shape.stack_fetch {
            return self.b.atomic(AtomicOp::Xor, size, base, off, reg);
        }
        self.b.atomic(op, size, base, off, reg);
    }

    fn ordered(&mut self) {
        let op = self.source.pick(&[AtomicOp::LoadAcquire, AtomicOp::StoreRelease]);
        let (size, reg) = (self.source.pick(&SIZES), self.number());
        let (base, off) = self.aligned(size);
        self.b.atomic(op, size, base, off, reg);
    }

    fn aligned(&mut self, size: Size) -> (Reg, i16) {
        let (base, off) = self.place(size);
        let bytes = size.bytes() as i16;
        // What is on the stack is aligned already.
        (base, off.div_euclid(bytes) * bytes)
    }

    fn branch(&mut self) {
        let (cond, dst, src) = (self.source.pick(&Cond::ALL), self.number(), self.operand());
        let (other, end) = (self.b.label(), self.b.label());
        if self.source.chance(2) {
            self.b.branch(cond, dst, src, other);
        } else {
            self.b.branch32(cond, dst, src, other);
        }
        let (then, otherwise) = (self.source.below(3) as u32, self.source.below(3) as u32);
        self.straight(then);
        self.b.jump(end);
        self.b.bind(other);
        self.straight(otherwise);
        self.b.bind(end);
    }

    /// Statements without branches, so that verifiers have not too many paths to follow.
    fn straight(&mut self, count: u32) {
        for _ in 0..count {
            match self.source.below(5) {
                0 => self.load(),
                1 => self.store(),
                2 => self.convert(),
                _ => self.arithmetic(),
            }
        }
    }

    /// A loop that counts down in the lowest slot of its own on the stack.
    fn repeat(&mut self) {
        if self.loops == 2 {
            return self.arithmetic();
        }
        self.loops += 1;
        let slot = -STACK - 8 * self.loops as i16;
        let times = 1 + self.source.below(4) as i32;
        self.b.store(Size::DW, Reg::R10, slot, times);
        let top = self.b.here();
        let count = 1 + self.source.below(3) as u32;
        self.straight(count);
        if self.source.chance(4) {
            self.repeat();
        }
        self.b.load(Size::DW, Reg::R9, Reg::R10, slot);
        self.b.sub(Reg::R9, 1);
        self.b.store(Size::DW, Reg::R10, slot, Reg::R9);
        self.b.branch(Cond::Ne, Reg::R9, 0, top);
        self.loops -= 1;
    }

    /// Calls a function of the program with the memory and four numbers.
    fn call(&mut self) {
        if self.calls.functions.is_empty() {
            return self.arithmetic();
        }
        let function = self.source.pick(self.calls.functions);
        self.calls.called.insert(function);
        self.b.mov(Reg::R1, Reg::R6);
        self.b.call_local(function);
        self.forget();
    }

    /// After a call r1 to r5 hold nothing.
    fn forget(&mut self) {
        for reg in [Reg::R1, Reg::R2, Reg::R3, Reg::R4, Reg::R5] {
            let value = self.source.value();
            self.b.constant(reg, value);
        }
    }

    /// Looks an entry of map 0 up and changes it, or updates it.
    fn map(&mut self) {
        let index = self.source.below(u64::from(self.shape.entries) + 1) as i32;
        let key = -STACK - 24;
        let value = self.number();
        self.b.store(Size::DW, Reg::R10, key - 8, value);
        self.b.store(Size::W, Reg::R10, key, index);
        self.b.map(Reg::R1, 0);
        self.b.mov(Reg::R2, Reg::R10);
        self.b.add(Reg::R2, i32::from(key));
        if self.source.chance(3) {
            self.b.mov(Reg::R3, Reg::R10);
            self.b.add(Reg::R3, i32::from(key - 8));
            self.b.mov(Reg::R4, 0);
            self.b.call(helper::MAP_UPDATE);
        } else {
            let none = self.b.label();
            self.b.call(helper::MAP_LOOKUP);
            self.b.mov(Reg::R7, 0);
            self.b.branch(Cond::Eq, Reg::R0, 0, none);
            self.b.load(Size::DW, Reg::R7, Reg::R0, 0);
            self.b.mov(Reg::R8, index);
            self.b.atomic(AtomicOp::FetchAdd, Size::DW, Reg::R0, 0, Reg::R8);
            self.b.mov(Reg::R0, 1);
            self.b.bind(none);
        }
        self.forget();
    }
}
