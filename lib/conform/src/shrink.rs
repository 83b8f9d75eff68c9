//! A smaller program that goes wrong in the same way: instructions that do not matter become `goto +0`.

use crate::Input;
use mote_bpf::Insn;
use mote_bpf::op::{Op, encode};

/// Replaces as many instructions as possible while `wrong` holds, longer runs of them first.
///
/// # Cost
/// `wrong` is asked about `n * log2(n)` times in each round, and rounds are made until nothing changes.
pub fn shrink(input: &Input, wrong: impl Fn(&Input) -> bool) -> Input {
    let nothing = encode(&Op::Jump { offset: 0 }).0;
    let mut best = input.clone();
    loop {
        let before = best.insns.clone();
        let mut run = best.insns.len().next_power_of_two() / 2;
        while run > 0 {
            for start in (0..best.insns.len()).step_by(run) {
                let end = (start + run).min(best.insns.len());
                if best.insns[start..end].iter().all(|insn| *insn == nothing) {
                    continue;
                }
                let mut smaller = best.clone();
                smaller.insns[start..end].fill(nothing);
                if wrong(&smaller) {
                    best = smaller;
                }
            }
            run /= 2;
        }
        if best.insns == before {
            return best;
        }
    }
}

/// Whether an instruction is what [`shrink`] puts in place of those that do not matter.
pub fn is_nothing(insn: Insn) -> bool {
    insn == encode(&Op::Jump { offset: 0 }).0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_matters_stays() {
        let insns: Vec<Insn> = (0..100).map(|n| Insn::new(0xb7, 0, 0, 0, n)).collect();
        let input = Input::new(insns, Vec::new());
        let wrong = |input: &Input| [13, 77].iter().all(|n| input.insns.iter().any(|insn| insn.imm == *n));
        let small = shrink(&input, wrong);
        let left: Vec<_> =
            small.insns.iter().filter(|insn| !is_nothing(**insn)).map(|insn| insn.imm).collect();
        assert_eq!(left, [13, 77]);
    }
}
