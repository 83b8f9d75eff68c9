//! Arguments of static probes: a size and an operand each, `8@%rdi -4@-20(%rbp)`, the operand as the processor's
//! assembler writes it.

use crate::arch;
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

/// `-4@OPERAND`; without a size it is a word.
fn argument(word: &str) -> Option<(Type, Operand)> {
    let (size, operand) = word.split_once('@').unwrap_or(("8", word));
    let scalar = scalar(size)?;
    let operand = arch::operand(operand.trim_start_matches('*'), scalar.bytes() as u8)?;
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
