//! Every operation of arithmetic and every condition, on all pairs of values at the edges: our engines and the kernel
//! against a model in plain Rust.

use mote_bpf::Reg;
use mote_bpf::op::{AluOp, Cond, Operand, Size, Width};
use mote_builder::Builder;
use mote_conform::compare::{self, Answers};
use mote_conform::{Answer, Input};

const EDGES: [u64; 20] = [
    0,
    1,
    2,
    31,
    32,
    33,
    63,
    64,
    0x7f,
    0x80,
    0x8000,
    0x7fff_ffff,
    0x8000_0000,
    0xffff_ffff,
    0x1_0000_0000,
    0x8000_0000_8000_0000,
    0x7fff_ffff_ffff_ffff,
    0x8000_0000_0000_0000,
    0xffff_ffff_8000_0000,
    u64::MAX,
];

/// RFC 9669, section 4.1, on 64 bits.
fn alu64(op: AluOp, a: u64, b: u64) -> u64 {
    let (sa, sb) = (a as i64, b as i64);
    match op {
        AluOp::Add => a.wrapping_add(b),
        AluOp::Sub => a.wrapping_sub(b),
        AluOp::Mul => a.wrapping_mul(b),
        AluOp::Div => a.checked_div(b).unwrap_or(0),
        AluOp::SDiv if sb == 0 => 0,
        AluOp::SDiv => sa.wrapping_div(sb) as u64,
        AluOp::Mod => a.checked_rem(b).unwrap_or(a),
        AluOp::SMod if sb == 0 => a,
        AluOp::SMod => sa.wrapping_rem(sb) as u64,
        AluOp::Or => a | b,
        AluOp::And => a & b,
        AluOp::Xor => a ^ b,
        AluOp::Lsh => a.wrapping_shl(b as u32),
        AluOp::Rsh => a.wrapping_shr(b as u32),
        AluOp::Arsh => sa.wrapping_shr(b as u32) as u64,
        AluOp::Mov => b,
        AluOp::MovSx8 => b as i8 as u64,
        AluOp::MovSx16 => b as i16 as u64,
        AluOp::MovSx32 => b as i32 as u64,
    }
}

/// The same on 32 bits, of which the upper become 0.
fn alu32(op: AluOp, a: u32, b: u32) -> u64 {
    let (sa, sb) = (a as i32, b as i32);
    u64::from(match op {
        AluOp::Add => a.wrapping_add(b),
        AluOp::Sub => a.wrapping_sub(b),
        AluOp::Mul => a.wrapping_mul(b),
        AluOp::Div => a.checked_div(b).unwrap_or(0),
        AluOp::SDiv if sb == 0 => 0,
        AluOp::SDiv => sa.wrapping_div(sb) as u32,
        AluOp::Mod => a.checked_rem(b).unwrap_or(a),
        AluOp::SMod if sb == 0 => a,
        AluOp::SMod => sa.wrapping_rem(sb) as u32,
        AluOp::Or => a | b,
        AluOp::And => a & b,
        AluOp::Xor => a ^ b,
        AluOp::Lsh => a.wrapping_shl(b),
        AluOp::Rsh => a.wrapping_shr(b),
        AluOp::Arsh => sa.wrapping_shr(b) as u32,
        AluOp::Mov | AluOp::MovSx32 => b,
        AluOp::MovSx8 => b as i8 as u32,
        AluOp::MovSx16 => b as i16 as u32,
    })
}

fn model(op: AluOp, width: Width, a: u64, b: u64) -> u64 {
    if width == Width::W64 { alu64(op, a, b) } else { alu32(op, a as u32, b as u32) }
}

fn holds(cond: Cond, width: Width, a: u64, b: u64) -> bool {
    let (a, b) = if width == Width::W64 { (a, b) } else { (a as i32 as u64, b as i32 as u64) };
    let (sa, sb) = (a as i64, b as i64);
    match cond {
        Cond::Eq => a == b,
        Cond::Ne => a != b,
        Cond::Gt => a > b,
        Cond::Ge => a >= b,
        Cond::Lt => a < b,
        Cond::Le => a <= b,
        Cond::Set => a & b != 0,
        Cond::SGt => sa > sb,
        Cond::SGe => sa >= sb,
        Cond::SLt => sa < sb,
        Cond::SLe => sa <= sb,
    }
}

/// The edges, and as many words for results; the constant of an instruction is an edge too.
fn memory() -> Vec<u8> {
    EDGES.iter().chain(&[0; EDGES.len()]).flat_map(|word| word.to_le_bytes()).collect()
}

const WORDS: i16 = EDGES.len() as i16;

/// Runs `one` on each edge (in r3), which leaves a result in r3 and may use r4 and above, and compares all results.
fn sweep(what: &str, right: u64, one: impl Fn(&mut Builder), expect: impl Fn(u64) -> u64) -> Answers {
    let mut b = Builder::new();
    b.mov(Reg::R6, Reg::R1);
    b.constant(Reg::R7, right);
    for at in 0..WORDS {
        b.load(Size::DW, Reg::R3, Reg::R6, at * 8);
        one(&mut b);
        b.store(Size::DW, Reg::R6, (WORDS + at) * 8, Reg::R3);
    }
    b.mov(Reg::R0, 0);
    b.exit();
    let input = Input::new(b.finish().expect("labels are bound"), memory());
    let answers = compare::all(&input, true);
    for (name, answer) in answers.named() {
        match answer {
            Answer::Ran(outcome) => {
                let results = outcome.memory.as_chunks::<8>().0[EDGES.len()..].iter();
                for (a, result) in EDGES.iter().zip(results) {
                    let (result, expect) = (u64::from_le_bytes(*result), expect(*a));
                    assert_eq!(result, expect, "{name}: {a:#x} {what} {right:#x}");
                }
            }
            Answer::Missing(_) if name != "interpreter" => {}
            other => panic!("{name}: {what} {right:#x}: {other:?}"),
        }
    }
    answers
}

/// The right side as a register, and as a constant where it can be one and verifiers allow it.
fn rights(op: Option<AluOp>, width: Width, right: u64) -> Vec<Operand> {
    let mut all = vec![Operand::Reg(Reg::R7)];
    let imm = right as i32;
    let fits = imm as i64 as u64 == right;
    let bits = if width == Width::W64 { 64 } else { 32 };
    let allowed = match op {
        Some(AluOp::MovSx8 | AluOp::MovSx16 | AluOp::MovSx32) => false,
        Some(AluOp::Lsh | AluOp::Rsh | AluOp::Arsh) => right < bits,
        Some(AluOp::Div | AluOp::SDiv | AluOp::Mod | AluOp::SMod) => imm != 0,
        _ => true,
    };
    if fits && allowed {
        all.push(Operand::Imm(imm));
    }
    all
}

#[test]
fn arithmetic() {
    let mut kernel = 0;
    for width in [Width::W32, Width::W64] {
        for op in AluOp::ALL {
            if op == AluOp::MovSx32 && width == Width::W32 {
                continue;
            }
            for right in EDGES {
                for src in rights(Some(op), width, right) {
                    let what = format!("{op:?} {width:?} {src:?}");
                    let one = |b: &mut Builder| b.alu(width, op, Reg::R3, src);
                    let answers = sweep(&what, right, one, |a| model(op, width, a, right));
                    kernel += usize::from(answers.kernel.is_some_and(|answer| answer.outcome().is_some()));
                }
            }
        }
    }
    println!("arithmetic: {kernel} programs of {WORDS} values ran in the kernel too");
}

#[test]
fn conditions() {
    let mut kernel = 0;
    for width in [Width::W32, Width::W64] {
        for cond in Cond::ALL {
            for right in EDGES {
                for src in rights(None, width, right) {
                    let what = format!("{cond:?} {width:?} {src:?}");
                    let one = |b: &mut Builder| {
                        let out = b.label();
                        b.mov(Reg::R4, Reg::R3);
                        b.mov(Reg::R3, 1);
                        if width == Width::W64 {
                            b.branch(cond, Reg::R4, src, out);
                        } else {
                            b.branch32(cond, Reg::R4, src, out);
                        }
                        b.mov(Reg::R3, 0);
                        b.bind(out);
                    };
                    let answers = sweep(&what, right, one, |a| u64::from(holds(cond, width, a, right)));
                    kernel += usize::from(answers.kernel.is_some_and(|answer| answer.outcome().is_some()));
                }
            }
        }
    }
    println!("conditions: {kernel} programs of {WORDS} values ran in the kernel too");
}
