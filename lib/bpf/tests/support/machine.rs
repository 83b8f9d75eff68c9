//! A slow machine that trusts no program: it runs a program on values that know whether they are numbers or pointers,
//! and into what, and stops at whatever a verified program must not do. Before each instruction it looks whether what
//! the verifier claimed there holds.

mod claims;
mod helpers;
mod memory;
mod world;

pub(crate) use claims::Claims;
pub(crate) use world::{Random, World};

use mote_bpf::environment::{Entry, Environment};
use mote_bpf::op::{AluOp, Cond, Op, Operand, Order, Wide, Width, decode};
use mote_bpf::verify::Verified;
use mote_bpf::{Insn, Reg};

/// What a verified program did all the same, and where.
pub(crate) type Trap = String;
pub(crate) type Ran<T = ()> = Result<T, Trap>;

/// What pointers point into.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Region {
    Context,
    Map(u32),
    /// An entry of a map.
    Value(u32, u32),
    /// The stack of a frame, from its end.
    Stack(usize),
    Memory,
    /// The bytes of a word.
    Bytes(u32),
    /// The text that begins at a word.
    Text(u32),
    /// A record of this number.
    Record(usize),
}

/// What a register holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Held {
    Nothing,
    Number(u64),
    Pointer(Region, i64),
}

/// A byte of the stack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cell {
    Nothing,
    Number(u8),
    /// The byte of this number of a pointer.
    Pointer(Region, i64, u8),
}

pub(crate) struct Frame {
    pub(crate) registers: [Held; Reg::COUNT],
    pub(crate) stack: [Cell; 512],
    back: usize,
    function: usize,
}

impl Frame {
    fn new(number: usize, function: usize, back: usize) -> Frame {
        let mut registers = [Held::Nothing; Reg::COUNT];
        registers[10] = Held::Pointer(Region::Stack(number), 0);
        Frame { registers, stack: [Cell::Nothing; 512], back, function }
    }
}

pub(crate) struct Machine<'a> {
    insns: &'a [Insn],
    verified: &'a Verified<'a>,
    env: &'a Environment<'a>,
    world: &'a mut World,
    random: &'a mut Random,
    frames: Vec<Frame>,
    pc: usize,
}

/// Runs a program once.
pub(crate) fn run(
    verified: &Verified<'_>,
    env: &Environment<'_>,
    claims: &Claims,
    world: &mut World,
    random: &mut Random,
) -> Ran {
    let mut frame = Frame::new(0, 0, 0);
    match env.entry {
        Entry::Context(_) => frame.registers[1] = Held::Pointer(Region::Context, 0),
        Entry::Traced { .. } => {
            frame.registers[1] = Held::Pointer(Region::Context, 0);
            frame.registers[2] = Held::Pointer(Region::Memory, 0);
        }
        Entry::Memory { len } => {
            frame.registers[1] = Held::Pointer(Region::Memory, 0);
            frame.registers[2] = Held::Number(len.into());
        }
    }
    let frames = vec![frame];
    let mut machine = Machine { insns: verified.insns(), verified, env, world, random, frames, pc: 0 };
    let mut steps = 0;
    loop {
        steps += 1;
        if steps > verified.steps() {
            return Err(format!("more than {} steps", verified.steps()));
        }
        let pc = machine.pc;
        claims.check(pc, &machine.frames, machine.world).map_err(|why| format!("{pc}: {why}"))?;
        if !machine.step().map_err(|why| format!("{pc}: {why}"))? {
            return Ok(());
        }
    }
}

impl Machine<'_> {
    fn top(&mut self) -> &mut Frame {
        self.frames.last_mut().expect("a frame")
    }

    fn held(&self, reg: Reg) -> Ran<Held> {
        match self.frames.last().expect("a frame").registers[reg.index()] {
            Held::Nothing => Err(format!("{reg} holds nothing")),
            held => Ok(held),
        }
    }

    fn number(&self, reg: Reg) -> Ran<u64> {
        match self.held(reg)? {
            Held::Number(number) => Ok(number),
            held => Err(format!("{reg} is {held:?}, not a number")),
        }
    }

    fn operand(&self, src: Operand) -> Ran<Held> {
        match src {
            Operand::Reg(reg) => self.held(reg),
            Operand::Imm(imm) => Ok(Held::Number(i64::from(imm) as u64)),
        }
    }

    fn set(&mut self, reg: Reg, held: Held) {
        self.top().registers[reg.index()] = held;
    }

    fn jump(&mut self, offset: i32) {
        self.pc = (self.pc as i64 + 1 + i64::from(offset)) as usize;
    }

    /// Whether it goes on.
    fn step(&mut self) -> Ran<bool> {
        let op = decode(&self.insns[self.pc..]).map_err(|why| why.to_string())?;
        match op {
            Op::Alu { width, op, dst, src } => self.alu(width, op, dst, src)?,
            Op::Neg { width, dst } => {
                let number = self.number(dst)?;
                self.set(dst, Held::Number(alu(AluOp::Sub, width, 0, number)));
            }
            Op::End { order, bits, dst } => {
                let number = self.number(dst)?;
                self.set(dst, Held::Number(turn(order, bits, number)));
            }
            Op::Wide { dst, value } => {
                let held = match value {
                    Wide::Value(value) => Held::Number(value),
                    Wide::Map(map) => Held::Pointer(Region::Map(map), 0),
                    Wide::MapValue { map, offset } => Held::Pointer(Region::Value(map, 0), offset.into()),
                };
                self.set(dst, held);
            }
            Op::Load { dst, src, off, size, signed } => {
                let held = self.load(src, off, size.bytes(), signed)?;
                self.set(dst, held);
            }
            Op::Store { dst, off, size, src } => {
                let held = self.operand(src)?;
                self.store(dst, off, size.bytes(), held)?;
            }
            Op::Atomic { op, base, off, size, reg } => self.atomic(op, base, off, size.bytes(), reg)?,
            Op::Jump { offset } => {
                self.jump(offset);
                return Ok(true);
            }
            Op::Branch { width, cond, dst, src, offset } => {
                let (a, b) = (self.held(dst)?, self.operand(src)?);
                let holds = self.compare(width, cond, a, b)?;
                self.jump(if holds { offset.into() } else { 0 });
                return Ok(true);
            }
            Op::Call { helper } => {
                if !self.call(helper)? {
                    return Ok(false);
                }
            }
            Op::CallLocal { offset } => {
                self.call_local(offset)?;
                return Ok(true);
            }
            Op::Exit => return self.exit(),
        }
        self.pc += op.slots();
        Ok(true)
    }

    fn alu(&mut self, width: Width, op: AluOp, dst: Reg, src: Operand) -> Ran {
        let b = self.operand(src)?;
        let moves = matches!(op, AluOp::Mov | AluOp::MovSx8 | AluOp::MovSx16 | AluOp::MovSx32);
        let a = if moves { Held::Number(0) } else { self.held(dst)? };
        let held = match (a, b) {
            (Held::Number(a), Held::Number(b)) => Held::Number(alu(op, width, a, b)),
            (_, pointer) if op == AluOp::Mov && width == Width::W64 => pointer,
            (Held::Pointer(region, at), Held::Number(by)) | (Held::Number(by), Held::Pointer(region, at))
                if op == AluOp::Add && width == Width::W64 =>
            {
                Held::Pointer(region, at.wrapping_add(by as i64))
            }
            (Held::Pointer(region, at), Held::Number(by)) if op == AluOp::Sub && width == Width::W64 => {
                Held::Pointer(region, at.wrapping_sub(by as i64))
            }
            (Held::Pointer(one, a), Held::Pointer(other, b))
                if op == AluOp::Sub && width == Width::W64 && one == other =>
            {
                Held::Number(a.wrapping_sub(b) as u64)
            }
            (a, b) => return Err(format!("{op:?} of {a:?} and {b:?}")),
        };
        self.set(dst, held);
        Ok(())
    }

    fn compare(&self, width: Width, cond: Cond, a: Held, b: Held) -> Ran<bool> {
        match (a, b) {
            (Held::Number(a), Held::Number(b)) => Ok(holds(cond, width, a, b)),
            (Held::Pointer(one, a), Held::Pointer(other, b)) if one == other && width == Width::W64 => {
                Ok(holds(cond, width, self.world.address(one, a), self.world.address(one, b)))
            }
            (Held::Pointer(region, at), Held::Number(0)) | (Held::Number(0), Held::Pointer(region, at))
                if matches!(cond, Cond::Eq | Cond::Ne) && width == Width::W64 =>
            {
                Ok((self.world.address(region, at) == 0) == (cond == Cond::Eq))
            }
            (a, b) => Err(format!("{a:?} is compared with {b:?}")),
        }
    }

    fn call_local(&mut self, offset: i32) -> Ran {
        let back = self.pc + 1;
        self.jump(offset);
        let number = self.frames.len();
        if number >= self.verified.depth() {
            return Err("deeper than was said".into());
        }
        let function = self.verified.function_at(self.pc).ok_or("no function is there")?;
        let mut frame = Frame::new(number, function, back);
        let caller = self.top();
        frame.registers[1..=5].copy_from_slice(&caller.registers[1..=5]);
        caller.registers[..=5].fill(Held::Nothing);
        self.frames.push(frame);
        Ok(())
    }

    fn exit(&mut self) -> Ran<bool> {
        if self.frames.len() == 1 {
            self.number(Reg::R0)?;
            return match self.world.records.iter().any(|record| record.held) {
                true => Err("a record is held".into()),
                false => Ok(false),
            };
        }
        let frame = self.frames.pop().expect("a frame");
        self.set(Reg::R0, frame.registers[0]);
        self.pc = frame.back;
        let gone = Region::Stack(self.frames.len());
        let escaped = |held: &Held| matches!(held, Held::Pointer(region, _) if *region == gone);
        if self.frames.iter().any(|frame| frame.registers.iter().any(escaped)) {
            return Err("a pointer outlives its stack".into());
        }
        Ok(true)
    }
}

/// Arithmetic, by another way than the verifier's own.
fn alu(op: AluOp, width: Width, a: u64, b: u64) -> u64 {
    let bits = if width == Width::W32 { 32 } else { 64 };
    let (a, b) = if bits == 32 { (u64::from(a as u32), u64::from(b as u32)) } else { (a, b) };
    let signed = |number: u64| if bits == 32 { i128::from(number as i32) } else { i128::from(number as i64) };
    let (x, y, by) = (u128::from(a), u128::from(b), b % bits);
    let result = match op {
        AluOp::Add => x + y,
        AluOp::Sub => x.wrapping_sub(y),
        AluOp::Mul => x * y,
        AluOp::Div => x.checked_div(y).unwrap_or(0),
        AluOp::Mod => x.checked_rem(y).unwrap_or(x),
        AluOp::SDiv => signed(a).checked_div(signed(b)).unwrap_or(0) as u128,
        AluOp::SMod => signed(a).checked_rem(signed(b)).unwrap_or(signed(a)) as u128,
        AluOp::Or => x | y,
        AluOp::And => x & y,
        AluOp::Xor => x ^ y,
        AluOp::Lsh => x << by,
        AluOp::Rsh => x >> by,
        AluOp::Arsh => (signed(a) >> by) as u128,
        AluOp::Mov => y,
        AluOp::MovSx8 => i128::from(b as i8) as u128,
        AluOp::MovSx16 => i128::from(b as i16) as u128,
        AluOp::MovSx32 => i128::from(b as i32) as u128,
    };
    if bits == 32 { u64::from(result as u32) } else { result as u64 }
}

fn turn(order: Order, bits: u8, number: u64) -> u64 {
    let mut bytes = number.to_le_bytes();
    let part = &mut bytes[..usize::from(bits) / 8];
    if order != Order::Little {
        part.reverse();
    }
    part.iter().rev().fold(0, |number, byte| number << 8 | u64::from(*byte))
}

fn holds(cond: Cond, width: Width, a: u64, b: u64) -> bool {
    let narrow = width == Width::W32;
    let (a, b) = if narrow { (u64::from(a as u32), u64::from(b as u32)) } else { (a, b) };
    let signed = |number: u64| if narrow { i64::from(number as i32) } else { number as i64 };
    match cond {
        Cond::Eq => a == b,
        Cond::Ne => a != b,
        Cond::Gt => a > b,
        Cond::Ge => a >= b,
        Cond::Lt => a < b,
        Cond::Le => a <= b,
        Cond::Set => a & b != 0,
        Cond::SGt => signed(a) > signed(b),
        Cond::SGe => signed(a) >= signed(b),
        Cond::SLt => signed(a) < signed(b),
        Cond::SLe => signed(a) <= signed(b),
    }
}
