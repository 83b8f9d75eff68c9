//! What operations make of what is known of their operands.

use super::range::{Range, bits};
use super::scalar::Scalar;
use super::tnum::Tnum;
use crate::op::{AluOp, Order, Width};

/// `a OP b`. Each part of the result holds if each part of the operands does.
pub fn alu(op: AluOp, width: Width, a: Scalar, b: Scalar) -> Scalar {
    let whole = match op {
        AluOp::Mov => b,
        AluOp::MovSx8 => b.sign_extend(8),
        AluOp::MovSx16 => b.sign_extend(16),
        AluOp::MovSx32 => b.sign_extend(32),
        _ => return compute(op, width, a, b),
    };
    if width == Width::W32 { whole.low32() } else { whole }
}

/// What is known of `-a`, which wraps.
pub fn negate(width: Width, a: Scalar) -> Scalar {
    compute(AluOp::Sub, width, Scalar::constant(0), a)
}

/// The low `bits` of `a`, turned round or not, zeros above.
pub fn turn_round(order: Order, bits: u32, a: Scalar) -> Scalar {
    if order == Order::Little {
        return a.truncated(bits);
    }
    match a.as_constant() {
        Some(value) => Scalar::constant(value.swap_bytes() >> (64 - bits)),
        None => Scalar::zero_extended(bits),
    }
}

fn compute(op: AluOp, width: Width, a: Scalar, b: Scalar) -> Scalar {
    if let (Some(a), Some(b)) = (a.as_constant(), b.as_constant()) {
        return Scalar::constant(exact(op, width, a, b));
    }
    let b = if is_shift(op) { shift(width, b) } else { b };
    match width {
        Width::W64 => {
            let low = if is_local(op) { range(op, a.low, b.low, Width::W32) } else { Range::any(Width::W32) };
            let wide = range(op, a.wide, b.wide, Width::W64);
            Scalar { bits: known_bits(op, a.bits, b.bits), wide, low }.synced()
        }
        Width::W32 => {
            let low = range(op, a.low, b.low, Width::W32);
            let bits = if op == AluOp::Arsh {
                known_bits(op, a.bits.sign_extend(32), b.bits).low32()
            } else {
                known_bits(op, a.bits.low32(), b.bits.low32()).low32()
            };
            Scalar { bits, wide: Scalar::UNKNOWN.wide, low }.low32()
        }
    }
}

/// Of a shift's width only the low bits count.
fn shift(width: Width, by: Scalar) -> Scalar {
    let by = if width == Width::W32 { by.low32() } else { by };
    by.as_constant().map_or(by, |by| Scalar::constant(by & (bits(width) - 1)))
}

const fn is_shift(op: AluOp) -> bool {
    matches!(op, AluOp::Lsh | AluOp::Rsh | AluOp::Arsh)
}

/// Whether the low 32 bits of the result follow from those of the operands.
const fn is_local(op: AluOp) -> bool {
    use AluOp::{Add, And, Lsh, Mul, Or, Sub, Xor};
    matches!(op, Add | Sub | Mul | And | Or | Xor | Lsh)
}

fn range(op: AluOp, a: Range, b: Range, width: Width) -> Range {
    match op {
        AluOp::Add => a.add(b, width),
        AluOp::Sub => a.sub(b, width),
        AluOp::Mul => a.mul(b, width),
        AluOp::Div => a.div(b, width),
        AluOp::Mod => a.rem(b, width),
        AluOp::SDiv => a.sdiv(b, width),
        AluOp::SMod => a.srem(b, width),
        AluOp::And => a.and(b, width),
        AluOp::Or => a.or(b, width),
        AluOp::Xor => a.xor(b, width),
        AluOp::Lsh => a.lsh(b, width),
        AluOp::Rsh => a.rsh(b, width),
        AluOp::Arsh => a.arsh(b, width),
        AluOp::Mov | AluOp::MovSx8 | AluOp::MovSx16 | AluOp::MovSx32 => Range::any(width),
    }
}

fn known_bits(op: AluOp, a: Tnum, b: Tnum) -> Tnum {
    match op {
        AluOp::Add => a.add(b),
        AluOp::Sub => a.sub(b),
        AluOp::Mul => a.mul(b),
        AluOp::And => a.and(b),
        AluOp::Or => a.or(b),
        AluOp::Xor => a.xor(b),
        AluOp::Lsh if b.mask == 0 => a.lsh(b.value as u32),
        AluOp::Rsh if b.mask == 0 => a.rsh(b.value as u32),
        AluOp::Arsh if b.mask == 0 => a.arsh(b.value as u32),
        _ => Tnum::UNKNOWN,
    }
}

/// What the machine computes of two numbers, which the verifier's knowledge must contain.
pub fn exact(op: AluOp, width: Width, a: u64, b: u64) -> u64 {
    match width {
        Width::W64 => exact64(op, a, b),
        Width::W32 => exact32(op, a as u32, b as u32).into(),
    }
}

fn exact64(op: AluOp, a: u64, b: u64) -> u64 {
    let (signed_a, signed_b) = (a as i64, b as i64);
    match op {
        AluOp::Add => a.wrapping_add(b),
        AluOp::Sub => a.wrapping_sub(b),
        AluOp::Mul => a.wrapping_mul(b),
        AluOp::Div => a.checked_div(b).unwrap_or(0),
        AluOp::Mod => a.checked_rem(b).unwrap_or(a),
        AluOp::SDiv if b == 0 => 0,
        AluOp::SDiv => signed_a.wrapping_div(signed_b) as u64,
        AluOp::SMod if b == 0 => a,
        AluOp::SMod => signed_a.wrapping_rem(signed_b) as u64,
        AluOp::Or => a | b,
        AluOp::And => a & b,
        AluOp::Xor => a ^ b,
        AluOp::Lsh => a << (b & 63),
        AluOp::Rsh => a >> (b & 63),
        AluOp::Arsh => (signed_a >> (b & 63)) as u64,
        AluOp::Mov => b,
        AluOp::MovSx8 => b as i8 as u64,
        AluOp::MovSx16 => b as i16 as u64,
        AluOp::MovSx32 => b as i32 as u64,
    }
}

fn exact32(op: AluOp, a: u32, b: u32) -> u32 {
    let (signed_a, signed_b) = (a as i32, b as i32);
    match op {
        AluOp::Add => a.wrapping_add(b),
        AluOp::Sub => a.wrapping_sub(b),
        AluOp::Mul => a.wrapping_mul(b),
        AluOp::Div => a.checked_div(b).unwrap_or(0),
        AluOp::Mod => a.checked_rem(b).unwrap_or(a),
        AluOp::SDiv if b == 0 => 0,
        AluOp::SDiv => signed_a.wrapping_div(signed_b) as u32,
        AluOp::SMod if b == 0 => a,
        AluOp::SMod => signed_a.wrapping_rem(signed_b) as u32,
        AluOp::Or => a | b,
        AluOp::And => a & b,
        AluOp::Xor => a ^ b,
        AluOp::Lsh => a << (b & 31),
        AluOp::Rsh => a >> (b & 31),
        AluOp::Arsh => (signed_a >> (b & 31)) as u32,
        AluOp::Mov | AluOp::MovSx32 => b,
        AluOp::MovSx8 => b as i8 as u32,
        AluOp::MovSx16 => b as i16 as u32,
    }
}

#[cfg(test)]
pub(crate) mod tests;
