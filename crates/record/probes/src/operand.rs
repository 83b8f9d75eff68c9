//! Arguments of static probes: `8@%rdi -4@-20(%rbp) 4@$5 8@(%rax,%rbx,8)`, as the assembler wrote them.

use crate::register;
use mote_catalog::event::{Operand, Type};
use mote_layout::types::Scalar;

/// Most arguments of a probe: what `sys/sdt.h` can write.
const ARGUMENTS_MAX: usize = 12;

/// An argument: its type and where it is; an operand that cannot be read comes back as its text.
pub(crate) type Argument<'a> = Result<(Type, Operand), &'a str>;

/// The arguments, in order.
pub(crate) fn arguments(text: &str) -> Vec<Argument<'_>> {
    text.split_ascii_whitespace().take(ARGUMENTS_MAX).map(|word| argument(word).ok_or(word)).collect()
}

/// `-4@-20(%rbp)`; without a size it is a word.
fn argument(word: &str) -> Option<(Type, Operand)> {
    let (size, operand) = word.split_once('@').unwrap_or(("8", word));
    let scalar = scalar(size)?;
    let bytes = scalar.bytes() as u8;
    let operand = operand.trim_start_matches('*');
    let operand = if let Some(constant) = operand.strip_prefix('$') {
        Operand::Constant(number(constant)?)
    } else if let Some(name) = operand.strip_prefix('%') {
        // Floats in general registers do not happen; in others they are not shown.
        Operand::Register(register::offset(name)?)
    } else {
        memory(operand, bytes)?
    };
    Some((Type::Scalar(scalar), operand))
}

/// `8`, `-4` (signed), `8f` (floating point).
fn scalar(size: &str) -> Option<Scalar> {
    if let Some(size) = size.strip_suffix('f') {
        return match size.trim_start_matches('-') {
            "4" => Some(Scalar::F32),
            "8" => Some(Scalar::F64),
            _ => None,
        };
    }
    let (signed, size) = size.strip_prefix('-').map_or((false, size), |size| (true, size));
    let bits = match size {
        "1" => 8,
        "2" => 16,
        "4" => 32,
        "8" => 64,
        _ => return None,
    };
    Some(if signed { Scalar::signed(bits) } else { Scalar::unsigned(bits) })
}

/// `-20(%rbp)`, `(%rax,%rbx,8)`; also `8+16(%rsp)`, as compilers write sums.
fn memory(operand: &str, bytes: u8) -> Option<Operand> {
    let (displacement, registers) = operand.strip_suffix(')')?.split_once('(')?;
    let displacement = if displacement.is_empty() { 0 } else { sum(displacement)? };
    let mut parts = registers.split(',').map(str::trim);
    let register = |name: &str| register::offset(name.strip_prefix('%')?);
    // Without a base there would have to be an address in the file, which moves.
    let base = register(parts.next()?)?;
    let index = match parts.next() {
        None => None,
        Some(index) => {
            let factor = parts.next().map_or(Some(1), |factor| factor.parse().ok())?;
            matches!(factor, 1 | 2 | 4 | 8).then_some(())?;
            Some((register(index)?, factor))
        }
    };
    parts.next().is_none().then_some(Operand::Memory { base, index, displacement, bytes })
}

/// A sum of numbers: `-20`, `8+16`, `64-8`.
fn sum(text: &str) -> Option<i64> {
    let mut total = 0_i64;
    let mut rest = text;
    while !rest.is_empty() {
        let end = rest.get(1..)?.find(['+', '-']).map_or(rest.len(), |at| at + 1);
        let (term, behind) = rest.split_at_checked(end)?;
        total = total.checked_add(number(term.strip_prefix('+').unwrap_or(term))?)?;
        rest = behind;
    }
    Some(total)
}

/// A number in base 10, or in base 16 with `0x`, with a sign.
fn number(text: &str) -> Option<i64> {
    let (negative, digits) = text.strip_prefix('-').map_or((false, text), |digits| (true, digits));
    let value = match digits.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16).ok()?.cast_signed(),
        None => digits.parse::<u64>().ok()?.cast_signed(),
    };
    Some(if negative { value.wrapping_neg() } else { value })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one(text: &str) -> Option<(Type, Operand)> {
        arguments(text).into_iter().next()?.ok()
    }

    #[test]
    fn operands_as_the_assembler_writes_them() {
        let signed = |bits| Type::Scalar(Scalar::signed(bits));
        let unsigned = |bits| Type::Scalar(Scalar::unsigned(bits));
        let memory = |base, index, displacement, bytes| Operand::Memory { base, index, displacement, bytes };
        for (text, ty, operand) in [
            ("8@%rdi", unsigned(64), Operand::Register(112)),
            ("-4@%eax", signed(32), Operand::Register(80)),
            ("-1@%r12b", signed(8), Operand::Register(24)),
            ("2@%r9w", unsigned(16), Operand::Register(64)),
            ("4@$5", unsigned(32), Operand::Constant(5)),
            ("-8@$-1", signed(64), Operand::Constant(-1)),
            ("8@$0xffffffffffffffff", unsigned(64), Operand::Constant(-1)),
            ("-4@-20(%rbp)", signed(32), memory(32, None, -20, 4)),
            ("8@(%rax,%rbx,8)", unsigned(64), memory(80, Some((40, 8)), 0, 8)),
            ("8@16(%rax,%r15)", unsigned(64), memory(80, Some((0, 1)), 16, 8)),
            ("8@8+16(%rsp)", unsigned(64), memory(152, None, 24, 8)),
            ("8f@-8(%rbp)", Type::Scalar(Scalar::F64), memory(32, None, -8, 8)),
            ("%rsi", unsigned(64), Operand::Register(104)),
        ] {
            assert_eq!(one(text), Some((ty, operand)), "{text}");
        }
    }

    #[test]
    fn operands_that_cannot_be_read_stay_texts() {
        let texts = "8f@%xmm0 8@counter(%rip) 3@%rax 8@%ah 8@(%rax,%rbx,3) 8@5 8@( 8@%r99 @ -@$ 8@$";
        let read = arguments(texts);
        assert_eq!(read.len(), texts.split(' ').count().min(ARGUMENTS_MAX));
        assert!(read.iter().all(Result::is_err), "{read:?}");
        assert!(arguments("").is_empty());
        assert_eq!(arguments(&"8@%rdi ".repeat(100)).len(), ARGUMENTS_MAX);
    }
}
