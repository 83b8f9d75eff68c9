//! What one instruction is, for patterns.

use super::pattern::{Prefix, Test, What};
use crate::program::{Function, Program};
use iced_x86::{Formatter, Instruction, IntelFormatter, Mnemonic, OpKind};
use mote_pt::image::Space;
use mote_pt::insn::Kind;

/// A class of instructions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Class {
    /// Of the x87 coprocessor.
    X87,
    /// With a register of MMX, SSE, AVX or AVX-512.
    Simd,
}

impl Class {
    /// All of them, by name.
    pub(super) const ALL: [(&'static str, Class); 2] = [("x87", Class::X87), ("simd", Class::Simd)];

    /// The class of a name.
    pub(super) fn of(name: &str) -> Option<Class> {
        Class::ALL.into_iter().find(|(known, _)| *known == name).map(|(_, class)| class)
    }

    fn holds(self, insn: &Instruction) -> bool {
        let registers = || (0..insn.op_count()).filter(|op| insn.op_kind(*op) == OpKind::Register);
        match self {
            Class::X87 => {
                let is_x87 = |feature: &iced_x86::CpuidFeature| format!("{feature:?}").starts_with("FPU");
                insn.cpuid_features().iter().any(is_x87)
            }
            Class::Simd => {
                registers().map(|op| insn.op_register(op)).any(|one| one.is_vector_register() || one.is_mm())
            }
        }
    }
}

/// An instruction, and where it is.
pub(super) struct Place<'i> {
    pub(super) insn: &'i Instruction,
    pub(super) space: Space,
    /// The function that it lies in, where one is known and asked for.
    pub(super) function: Option<&'i Function>,
    /// How many bytes it is behind the begin of that.
    pub(super) offset: u64,
}

/// Whether an instruction of a mnemonic may pass a test.
pub(super) fn may_pass(test: &Test, mnemonic: Mnemonic) -> bool {
    match &test.what {
        What::Mnemonics(all) => all.contains(&mnemonic),
        What::Any | What::Entry | What::Class(_) => true,
    }
}

/// Whether one with these prefixes may.
pub(super) fn may_pass_prefix(test: &Test, has_lock: bool, has_rep: bool) -> bool {
    match test.prefix {
        None => true,
        Some(Prefix::Lock) => has_lock,
        Some(Prefix::Rep) => has_rep,
    }
}

/// Whether an instruction passes a test.
pub(super) fn passes(test: &Test, at: &Place<'_>, program: &impl Program) -> bool {
    let kind = Kind::of(at.insn);
    let has_prefix = may_pass_prefix(test, kind.has_lock(), kind.has_rep());
    let is_it = match &test.what {
        What::Any => true,
        What::Entry => at.function.is_some() && at.offset == 0,
        What::Class(class) => class.holds(at.insn),
        What::Mnemonics(all) => all.contains(&at.insn.mnemonic()),
    };
    has_prefix && is_it && is_in(test, at) && has_operands(test, at, program)
}

/// Whether it lies in the function that is meant: by its whole name, or that without parameters.
fn is_in(test: &Test, at: &Place<'_>) -> bool {
    test.function.as_ref().is_none_or(|glob| at.function.is_some_and(|function| function.is_meant(glob)))
}

fn has_operands(test: &Test, at: &Place<'_>, program: &impl Program) -> bool {
    let Some(globs) = &test.operands else { return true };
    let mut formatter = IntelFormatter::new();
    let count = formatter.operand_count(at.insn);
    if count as usize != globs.len() {
        // `nop()`: no operands at all.
        return count == 0 && globs.len() == 1 && globs.iter().all(|glob| glob.matches(""));
    }
    let target = || {
        let is_branch =
            matches!(at.insn.op0_kind(), OpKind::NearBranch16 | OpKind::NearBranch32 | OpKind::NearBranch64);
        let target = is_branch.then(|| at.insn.near_branch_target())?;
        program.function(at.space, target).filter(|function| function.offset == 0)
    };
    (0..count).zip(globs).all(|(number, glob)| {
        let mut text = String::new();
        let is_text = formatter.format_operand(at.insn, &mut text, number).is_ok()
            && glob.matches(&text.to_ascii_lowercase());
        is_text || (number == 0 && target().is_some_and(|function| function.is_meant(glob)))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::delta::{Names, Pattern};
    use crate::program::small::Small;
    use iced_x86::{Decoder, DecoderOptions};

    fn check(pattern: &str, bytes: &[u8], expect: bool) {
        let pattern = Pattern::parse(pattern, &Names::default()).expect(pattern);
        let program = Small::new(&[(0x1000, "caller(int)", bytes), (0x2000, "callee", &[0xc3])]);
        let insn = Decoder::with_ip(64, bytes, 0x1000, DecoderOptions::NONE).decode();
        let function = program.function(Space::ANY, 0x1000);
        let at = Place { insn: &insn, space: Space::ANY, function: function.as_ref(), offset: 0 };
        let is = pattern.tests().all(|test| passes(test, &at, &program));
        assert_eq!(is, expect, "{pattern} {bytes:02x?}");
    }

    #[test]
    fn instructions_are_what_they_are() {
        let rows: &[(&str, &[u8], bool)] = &[
            ("cli", &[0xfa], true),
            ("sti", &[0xfa], false),
            ("c*", &[0xfa], true),
            ("popf", &[0x9d], true),
            ("mov(cr3,*)", &[0x0f, 0x22, 0xd8], true),
            ("mov(cr3,rbx)", &[0x0f, 0x22, 0xd8], false),
            ("mov(*)", &[0x0f, 0x22, 0xd8], false),
            ("mov(*,cr3)", &[0x0f, 0x20, 0xd8], true),
            ("mov(*,[rsp*])", &[0x48, 0x8b, 0x44, 0x24, 8], true),
            ("nop()", &[0x90], true),
            ("lock:*", &[0xf0, 0x48, 0x0f, 0xc1, 0x07], true),
            ("lock:xadd", &[0xf0, 0x48, 0x0f, 0xc1, 0x07], true),
            ("lock:*", &[0x48, 0x0f, 0xc1, 0x07], false),
            ("rep:movs*", &[0xf3, 0x48, 0xa5], true),
            ("x87", &[0xd9, 0xee], true),
            ("x87", &[0x66, 0x0f, 0xef, 0xc0], false),
            ("simd", &[0x66, 0x0f, 0xef, 0xc0], true),
            ("simd", &[0x0f, 0x6e, 0xc0], true),
            ("simd", &[0x48, 0x89, 0xc0], false),
            ("call(callee)", &[0xe8, 0xfb, 0x0f, 0, 0], true),
            ("call(*2000h)", &[0xe8, 0xfb, 0x0f, 0, 0], true),
            ("call(other)", &[0xe8, 0xfb, 0x0f, 0, 0], false),
            ("@caller", &[0x90], true),
            ("@\"caller(int)\"", &[0x90], true),
            ("@callee", &[0x90], false),
            ("nop@call*", &[0x90], true),
        ];
        rows.iter().for_each(|(pattern, bytes, expect)| check(pattern, bytes, *expect));
    }
}
