//! Operands as the assembler of x86-64 writes them: `%rdi`, `-20(%rbp)`, `$5`, `(%rax,%rbx,8)`.

use super::register;
use mote_catalog::event::Operand;

/// Reads an operand, of which `bytes` are meant where it is memory; `None` for one that the kernel does not show.
pub(crate) fn operand(text: &str, bytes: u8) -> Option<Operand> {
    if let Some(constant) = text.strip_prefix('$') {
        Some(Operand::Constant(number(constant)?))
    } else if let Some(name) = text.strip_prefix('%') {
        // Floats in general registers do not happen; in others they are not shown.
        Some(Operand::Register(register::offset(name)?))
    } else {
        memory(text, bytes)
    }
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
