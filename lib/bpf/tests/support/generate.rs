//! Random programs that are nearly right: what each register holds is followed roughly, so that most instructions make
//! sense, and bounds are chosen to be sometimes just enough and sometimes not.

use super::machine::Random;
use mote_bpf::op::{AluOp, AtomicOp, Cond, Op, Operand, Size, Wide, Width, encode};
use mote_bpf::{Insn, Reg, helper};

/// What a register is thought to hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Role {
    Nothing,
    Number,
    /// In the text of this word; in its bytes; at its end.
    Start(i16),
    End(i16),
    Bytes,
    /// A value of map 0 or 1.
    Value,
    MaybeValue,
    Stack,
    Record,
    MaybeRecord,
}

const SIZES: [Size; 4] = [Size::B, Size::H, Size::W, Size::DW];
const CONDS: [Cond; 11] = [
    Cond::Eq,
    Cond::Ne,
    Cond::Gt,
    Cond::Ge,
    Cond::Lt,
    Cond::Le,
    Cond::Set,
    Cond::SGt,
    Cond::SGe,
    Cond::SLt,
    Cond::SLe,
];
const OPS: [AluOp; 12] = [
    AluOp::Add,
    AluOp::Sub,
    AluOp::Mul,
    AluOp::Div,
    AluOp::Mod,
    AluOp::Or,
    AluOp::And,
    AluOp::Xor,
    AluOp::Lsh,
    AluOp::Rsh,
    AluOp::Arsh,
    AluOp::SMod,
];
/// Registers that are used; `r6` keeps the context.
const REGS: [Reg; 8] = [Reg::R0, Reg::R1, Reg::R2, Reg::R3, Reg::R4, Reg::R7, Reg::R8, Reg::R9];

struct Program<'a> {
    random: &'a mut Random,
    insns: Vec<Insn>,
    roles: [Role; Reg::COUNT],
    /// What the stack's slots are thought to hold.
    slots: [Role; 6],
    /// Where statements begin.
    starts: Vec<usize>,
    /// Branches, and how many statements further they go.
    branches: Vec<(usize, usize, usize)>,
}

/// A program for the environment with a context.
pub(crate) fn program(random: &mut Random) -> Vec<Insn> {
    let mut p = Program {
        random,
        insns: Vec::new(),
        roles: [Role::Nothing; Reg::COUNT],
        slots: [Role::Nothing; 6],
        starts: Vec::new(),
        branches: Vec::new(),
    };
    p.push(mov(Reg::R6, Reg::R1));
    let statements = p.random.below(22) + 3;
    for _ in 0..statements {
        p.starts.push(p.insns.len());
        p.statement();
    }
    p.starts.push(p.insns.len());
    p.push(Op::Alu { width: Width::W64, op: AluOp::Mov, dst: Reg::R0, src: Operand::Imm(0) });
    p.push(Op::Exit);
    for (at, statement, further) in p.branches {
        let target = p.starts[(statement + further).min(p.starts.len() - 1)];
        p.insns[at].off = (target as i64 - at as i64 - 1) as i16;
    }
    p.insns
}

fn mov(dst: Reg, src: Reg) -> Op {
    Op::Alu { width: Width::W64, op: AluOp::Mov, dst, src: Operand::Reg(src) }
}

impl Program<'_> {
    fn push(&mut self, op: Op) {
        let (first, second) = encode(&op);
        self.insns.push(first);
        self.insns.extend(second);
    }

    fn alu(&mut self, op: AluOp, dst: Reg, imm: i32) {
        self.push(Op::Alu { width: Width::W64, op, dst, src: Operand::Imm(imm) });
    }

    fn set(&mut self, reg: Reg, role: Role) {
        self.roles[reg.index()] = role;
    }

    /// A register of which this holds, if there is one.
    fn find(&mut self, is: impl Fn(Role) -> bool) -> Option<Reg> {
        let all: Vec<Reg> = REGS.into_iter().filter(|reg| is(self.roles[reg.index()])).collect();
        if all.is_empty() { None } else { Some(self.random.pick(&all)) }
    }

    fn number(&mut self) -> Reg {
        match self.find(|role| role == Role::Number) {
            Some(reg) if !self.random.chance(4) => reg,
            _ => {
                let dst = self.random.pick(&REGS);
                let off = self.random.pick(&[0, 8]);
                self.push(Op::Load { dst, src: Reg::R6, off, size: Size::DW, signed: false });
                self.set(dst, Role::Number);
                dst
            }
        }
    }

    fn statement(&mut self) {
        match self.random.below(13) {
            0 => self.words(),
            1 | 2 => self.arithmetic(),
            3 | 4 => self.branch(),
            5 => self.compare_with_end(),
            6 => self.move_pointer(),
            7 | 8 => self.access(),
            9 => self.spill(),
            10 => self.bound(),
            11 => self.call(),
            _ => self.copy(),
        }
    }

    /// A text's start and end, or an array.
    fn words(&mut self) {
        let word = self.random.pick(&[2i16, 2, 5, 4]);
        let (start, end) = (self.random.pick(&REGS), self.random.pick(&REGS));
        self.push(Op::Load { dst: start, src: Reg::R6, off: word * 8, size: Size::DW, signed: false });
        if word == 4 {
            return self.set(start, Role::Bytes);
        }
        self.set(start, Role::Start(word));
        self.push(Op::Load { dst: end, src: Reg::R6, off: word * 8 + 8, size: Size::DW, signed: false });
        self.set(end, Role::End(word));
        if self.random.chance(3) {
            let len = self.random.pick(&REGS);
            self.push(mov(len, end));
            self.push(Op::Alu { width: Width::W64, op: AluOp::Sub, dst: len, src: Operand::Reg(start) });
            self.set(len, Role::Number);
        }
    }

    fn width(&mut self) -> Width {
        if self.random.chance(3) { Width::W32 } else { Width::W64 }
    }

    fn small(&mut self) -> i32 {
        match self.random.below(4) {
            0 => self.random.number() as i32,
            1 => self.random.pick(&[0, 1, -1, 7, 8, 15, 16, 23, 24, 255, 511, 512]),
            _ => self.random.below(20) as i32,
        }
    }

    fn arithmetic(&mut self) {
        let (dst, width, op) = (self.number(), self.width(), self.random.pick(&OPS));
        let src =
            if self.random.chance(3) { Operand::Reg(self.number()) } else { Operand::Imm(self.small()) };
        if self.roles[dst.index()] == Role::Number {
            self.push(Op::Alu { width, op, dst, src });
        }
    }

    /// To a later statement; rarely to an earlier one.
    fn jump(&mut self, width: Width, cond: Cond, dst: Reg, src: Operand) {
        let further = self.random.below(8) as usize + 1;
        self.branches.push((self.insns.len(), self.starts.len() - 1, further));
        self.push(Op::Branch { width, cond, dst, src, offset: 0 });
    }

    fn branch(&mut self) {
        let (dst, width, cond) = (self.number(), self.width(), self.random.pick(&CONDS));
        let src =
            if self.random.chance(4) { Operand::Reg(self.number()) } else { Operand::Imm(self.small()) };
        self.jump(width, cond, dst, src);
    }

    fn compare_with_end(&mut self) {
        let Some(start) = self.find(|role| matches!(role, Role::Start(_))) else { return self.words() };
        let role = self.roles[start.index()];
        let Role::Start(word) = role else { return };
        let Some(end) = self.find(|role| role == Role::End(word)) else { return self.words() };
        let moved = self.random.pick(&REGS);
        let at = if self.random.chance(2) && moved != end && moved != start {
            let by = self.random.below(18) as i32;
            self.push(mov(moved, start));
            self.alu(AluOp::Add, moved, by);
            self.set(moved, role);
            moved
        } else {
            start
        };
        let cond = self.random.pick(&CONDS[..6]);
        if self.random.chance(2) {
            self.jump(Width::W64, cond, at, Operand::Reg(end));
        } else {
            self.jump(Width::W64, cond, end, Operand::Reg(at));
        }
    }

    fn is_pointer(role: Role) -> bool {
        !matches!(role, Role::Nothing | Role::Number | Role::MaybeValue | Role::MaybeRecord)
    }

    fn move_pointer(&mut self) {
        let Some(pointer) = self.find(Self::is_pointer) else { return self.words() };
        if self.random.chance(2) {
            let by = self.random.below(24) as i32 - 8;
            self.alu(AluOp::Add, pointer, by);
        } else if let Some(by) = self.find(|role| role == Role::Number) {
            if self.random.chance(2) {
                let mask = self.random.pick(&[1, 3, 7, 8, 15, 31]);
                self.alu(AluOp::And, by, mask);
            }
            self.push(Op::Alu { width: Width::W64, op: AluOp::Add, dst: pointer, src: Operand::Reg(by) });
        }
    }

    fn access(&mut self) {
        let Some(pointer) = self.find(Self::is_pointer) else { return self.words() };
        let role = self.roles[pointer.index()];
        let (size, off) = (self.random.pick(&SIZES), self.random.below(14) as i16);
        let off = if matches!(role, Role::End(_) | Role::Stack) { -off } else { off };
        let writable = matches!(role, Role::Value | Role::Stack | Role::Record);
        if writable && self.random.chance(2) {
            let src = self.number();
            if self.roles[pointer.index()] == role && self.random.chance(5) {
                let size = if self.random.chance(2) { Size::W } else { Size::DW };
                let op = self.random.pick(&[AtomicOp::Add, AtomicOp::FetchAdd, AtomicOp::Xchg]);
                self.push(Op::Atomic { op, base: pointer, off: off & !7, size, reg: src });
            } else if self.roles[pointer.index()] == role {
                self.push(Op::Store { dst: pointer, off, size, src: Operand::Reg(src) });
            }
        } else {
            let dst = self.random.pick(&REGS);
            let signed = size != Size::DW && self.random.chance(3);
            self.push(Op::Load { dst, src: pointer, off, size, signed });
            self.set(dst, Role::Number);
        }
    }

    fn spill(&mut self) {
        let slot = self.random.below(6) as usize;
        let off = -8 * (slot as i16 + 1);
        if self.slots[slot] != Role::Nothing && self.random.chance(2) {
            let dst = self.random.pick(&REGS);
            let (size, shift) = if self.slots[slot] == Role::Number && self.random.chance(3) {
                (self.random.pick(&SIZES), self.random.below(2) as i16)
            } else {
                (Size::DW, 0)
            };
            self.push(Op::Load { dst, src: Reg::R10, off: off + shift, size, signed: false });
            return self.set(dst, self.slots[slot]);
        }
        let Some(src) = self.find(|role| role != Role::Nothing) else { return };
        let role = self.roles[src.index()];
        let size =
            if role == Role::Number && self.random.chance(3) { self.random.pick(&SIZES) } else { Size::DW };
        self.push(Op::Store { dst: Reg::R10, off, size, src: Operand::Reg(src) });
        if size == Size::DW || self.random.chance(3) {
            self.slots[slot] = role;
        }
    }

    /// A number compared with a bound that may be just enough.
    fn bound(&mut self) {
        let (dst, width) = (self.number(), self.width());
        let cond = self.random.pick(&[Cond::Gt, Cond::Ge, Cond::SGt, Cond::Gt]);
        let imm = self.random.pick(&[1, 7, 8, 9, 15, 16, 17, 23]);
        self.jump(width, cond, dst, Operand::Imm(imm));
    }

    fn copy(&mut self) {
        let dst = self.random.pick(&REGS);
        if self.random.chance(8) {
            self.push(mov(dst, Reg::R10));
            let off = -8 * (self.random.below(6) as i32 + 1);
            self.alu(AluOp::Add, dst, off);
            return self.set(dst, Role::Stack);
        }
        let Some(src) = self.find(|role| role != Role::Nothing) else { return };
        let number = self.roles[src.index()] == Role::Number;
        let (width, op) = match self.random.below(6) {
            0 if number => (Width::W32, AluOp::Mov),
            1 if number => (Width::W64, self.random.pick(&[AluOp::MovSx8, AluOp::MovSx16, AluOp::MovSx32])),
            _ => (Width::W64, AluOp::Mov),
        };
        self.push(Op::Alu { width, op, dst, src: Operand::Reg(src) });
        self.set(dst, self.roles[src.index()]);
    }

    fn call(&mut self) {
        // What may be null is compared first, mostly.
        if let Some(pointer) = self.find(|role| matches!(role, Role::MaybeValue | Role::MaybeRecord)) {
            self.jump(Width::W64, Cond::Eq, pointer, Operand::Imm(0));
            let (is, will) = match self.roles[pointer.index()] {
                Role::MaybeValue => (Role::MaybeValue, Role::Value),
                _ => (Role::MaybeRecord, Role::Record),
            };
            self.roles
                .iter_mut()
                .chain(&mut self.slots)
                .filter(|role| **role == is)
                .for_each(|role| *role = will);
            return;
        }
        if let Some(record) = self.find(|role| role == Role::Record) {
            self.push(mov(Reg::R1, record));
            self.alu(AluOp::Mov, Reg::R2, 0);
            self.push(Op::Call { helper: helper::RINGBUF_SUBMIT });
            self.roles
                .iter_mut()
                .filter(|role| **role == Role::Record)
                .for_each(|role| *role = Role::Nothing);
            return self.clobber(Role::Nothing);
        }
        match self.random.below(4) {
            0 | 1 => {
                let slot = self.random.below(6) as usize;
                let map = self.random.below(2) as u32;
                self.push(Op::Store {
                    dst: Reg::R10,
                    off: -8 * (slot as i16 + 1),
                    size: Size::DW,
                    src: Operand::Imm(1),
                });
                self.slots[slot] = Role::Number;
                self.push(Op::Wide { dst: Reg::R1, value: Wide::Map(map) });
                self.push(mov(Reg::R2, Reg::R10));
                self.alu(AluOp::Add, Reg::R2, -8 * (slot as i32 + 1));
                self.push(Op::Call { helper: helper::MAP_LOOKUP });
                self.clobber(Role::MaybeValue);
            }
            2 => {
                // A buffer of a size that may not be constant.
                let size = self.number();
                if size != Reg::R2 {
                    self.push(mov(Reg::R2, size));
                }
                self.alu(AluOp::And, Reg::R2, 15);
                self.push(mov(Reg::R1, Reg::R10));
                self.alu(AluOp::Add, Reg::R1, -24);
                let id = self.random.pick(&[2000, 2001]);
                self.push(Op::Call { helper: id });
                self.clobber(if id == 2000 { Role::Number } else { Role::Nothing });
            }
            _ => {
                self.push(Op::Wide { dst: Reg::R1, value: Wide::Map(3) });
                self.alu(AluOp::Mov, Reg::R2, 16);
                self.alu(AluOp::Mov, Reg::R3, 0);
                self.push(Op::Call { helper: helper::RINGBUF_RESERVE });
                self.clobber(Role::MaybeRecord);
            }
        }
    }

    fn clobber(&mut self, result: Role) {
        self.roles[..6].fill(Role::Nothing);
        self.roles[0] = result;
    }
}
