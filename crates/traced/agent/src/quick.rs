//! The first test of a filter, made without calling it.
//!
//! A filter often begins with `if FIELD is not in a range, drop`. That test is done in place, so that an event which
//! fails it costs no call: calls and returns are what a short filter costs most. The filter itself stays as it is, and
//! makes the test again.

use mote_bpf::Insn;
use mote_bpf::Reg;
use mote_bpf::op::{AluOp, Cond, Op, Operand, Size, Width, decode};

/// A word of the context, and which of its values the filter does not drop at once: `span + 1` of them from `first` on,
/// around the end of the numbers if need be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Quick {
    word: u32,
    first: u64,
    span: u64,
}

impl Quick {
    /// The test that a program begins with: a load of a word, and a branch by it to `r0 = 0; exit`.
    pub(crate) fn of(insns: &[Insn]) -> Option<Quick> {
        let Op::Load { dst, src: Reg::R1, off, size: Size::DW, .. } = decode(insns).ok()? else {
            return None;
        };
        let word = u32::try_from(off).ok().filter(|off| off.is_multiple_of(8))? / 8;
        // A result that is set before the branch may be what the branch leads to exit with.
        let (set, at) = match decode(insns.get(1..)?).ok()? {
            Op::Alu { op: AluOp::Mov, dst: Reg::R0, src: Operand::Imm(0), .. } if dst != Reg::R0 => (true, 2),
            _ => (false, 1),
        };
        let Op::Branch { width: Width::W64, cond, dst: left, src: Operand::Imm(imm), offset } =
            decode(insns.get(at..)?).ok()?
        else {
            return None;
        };
        let target = (at as i64 + 1).checked_add(i64::from(offset))?;
        let target = insns.get(usize::try_from(target).ok()?..)?;
        if left != dst || !drops(target, set) {
            return None;
        }
        let (first, last) = passing(cond, i64::from(imm))?;
        Some(Quick { word, first, span: last.wrapping_sub(first) })
    }

    /// Whether the filter would drop the event at once.
    ///
    /// # Safety
    /// `words` must point to a context that the program was verified for.
    #[inline(always)]
    pub(crate) unsafe fn drops(&self, words: *const u64) -> bool {
        // SAFETY: the program, which was verified, loads this word before anything else.
        let word = unsafe { words.wrapping_add(self.word as usize).read() };
        word.wrapping_sub(self.first) > self.span
    }
}

/// Whether these instructions do nothing but answer 0; `set`: `r0` is 0 already.
fn drops(insns: &[Insn], set: bool) -> bool {
    match decode(insns) {
        Ok(Op::Exit) => set,
        Ok(Op::Alu { op: AluOp::Mov, dst: Reg::R0, src: Operand::Imm(0), .. }) => {
            insns.get(1..).is_some_and(|rest| decode(rest) == Ok(Op::Exit))
        }
        _ => false,
    }
}

/// The first and the last of the numbers for which a branch is not taken; around the end of the numbers if need be.
/// `None` when there are none, or when they are not in a row.
fn passing(cond: Cond, imm: i64) -> Option<(u64, u64)> {
    let word = imm as u64;
    let (after, before) = (word.wrapping_add(1), word.wrapping_sub(1));
    let (least, most) = (i64::MIN as u64, i64::MAX as u64);
    Some(match cond {
        Cond::Eq => (after, before),
        Cond::Ne => (word, word),
        Cond::Gt => (0, word),
        Cond::Ge if word > 0 => (0, before),
        Cond::Lt => (word, u64::MAX),
        Cond::Le if word < u64::MAX => (after, u64::MAX),
        Cond::SGt => (least, word),
        Cond::SGe if word != least => (least, before),
        Cond::SLt => (word, most),
        Cond::SLe if word != most => (after, most),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;

    const NUMBERS: [i64; 11] = [0, 1, -1, 7, 8, 9, -8, i64::MAX, i64::MIN, i32::MAX as i64, i32::MIN as i64];

    /// `r2 = word 1; [r0 = 0;] if r2 COND imm goto out; r0 = 1; exit; out: [r0 = 0;] exit`
    fn program(code: u8, imm: i32, early: bool) -> std::vec::Vec<Insn> {
        let zero = Insn::new(0xb7, 0, 0, 0, 0);
        let (exit, load) = (Insn::new(0x95, 0, 0, 0, 0), Insn::new(0x79, 2, 1, 8, 0));
        let branch = Insn::new(code, 2, 0, 2, imm);
        let one = Insn::new(0xb7, 0, 0, 0, 1);
        if early {
            std::vec![load, zero, branch, one, exit, exit]
        } else {
            std::vec![load, branch, one, exit, zero, exit]
        }
    }

    #[test]
    fn every_condition_drops_what_the_program_drops() {
        type Taken = fn(i64, i64) -> bool;
        let conditions: [(u8, Taken); 10] = [
            (0x15, |a, b| a == b),
            (0x55, |a, b| a != b),
            (0x25, |a, b| a as u64 > b as u64),
            (0x35, |a, b| a as u64 >= b as u64),
            (0xa5, |a, b| (a as u64) < b as u64),
            (0xb5, |a, b| a as u64 <= b as u64),
            (0x65, |a, b| a > b),
            (0x75, |a, b| a >= b),
            (0xc5, |a, b| a < b),
            (0xd5, |a, b| a <= b),
        ];
        for (code, taken) in conditions {
            for imm in [0, 8, -8, i32::MAX, i32::MIN] {
                for early in [false, true] {
                    let Some(quick) = Quick::of(&program(code, imm, early)) else {
                        // Nothing passes.
                        assert!(NUMBERS.iter().all(|number| taken(*number, imm.into())), "{code:x} {imm}");
                        continue;
                    };
                    for number in NUMBERS {
                        let words = [55, number as u64];
                        // SAFETY: the program reads word 1.
                        let drops = unsafe { quick.drops(words.as_ptr()) };
                        assert_eq!(drops, taken(number, imm.into()), "{code:x} {number} {imm}");
                    }
                }
            }
        }
    }

    #[test]
    fn programs_that_begin_otherwise_have_none() {
        let good = program(0x25, 8, false);
        assert!(Quick::of(&good).is_some());
        for (at, other) in [
            // A load of four bytes; of another base.
            (0, Insn::new(0x61, 2, 1, 8, 0)),
            (0, Insn::new(0x79, 2, 6, 8, 0)),
            // Another register; 32 bits; a register instead of a constant.
            (1, Insn::new(0x25, 3, 0, 2, 8)),
            (1, Insn::new(0x26, 2, 0, 2, 8)),
            (1, Insn::new(0x2d, 2, 3, 2, 0)),
            // It is not dropped.
            (4, Insn::new(0xb7, 0, 0, 0, 2)),
        ] {
            let mut bad = good.clone();
            bad[at] = other;
            assert_eq!(Quick::of(&bad), None);
        }
        for cut in 0..good.len() {
            assert_eq!(Quick::of(&good[..cut]), None);
        }
    }
}
