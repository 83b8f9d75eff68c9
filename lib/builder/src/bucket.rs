//! The bucket of a value in a log-linear histogram, as [`mote_bpf::helper::bucket`] counts them.

use crate::build::Build;
use crate::expr::Expr;
use crate::registers::Value;
use mote_bpf::helper::SUB_BUCKETS;

/// How many bits of a value its bucket tells, beside the place of the highest one.
const BITS: u32 = SUB_BUCKETS.trailing_zeros();

/// The bucket of `value`, of which all 64 bits count. The caller tells a verifier that it is below
/// [`mote_bpf::helper::BUCKETS`].
///
/// # Cost
/// 37 instructions, none of which branches: the kernel's verifier follows all ways, and would follow what comes behind
/// once for each of 64.
pub fn bucket<B: Build>(code: &mut B, value: impl Into<Expr>) -> Value {
    let value = code.get(value);
    // Shifted to the right by halves, until the highest bit is followed by so many others. The first half is found
    // otherwise than the rest: a difference of numbers that have all 64 bits does not show its sign.
    let shift = code.get((((&value >> (32 + BITS)) + i32::MAX) >> 31) << 5);
    code.set(&value, &value >> &shift);
    for half in [16u32, 8, 4, 2, 1] {
        let most = (1u32 << (half + BITS)) - 1;
        let more = code.get(((Expr::from(most) - &value) >> 63) << half.trailing_zeros());
        code.set(&value, &value >> &more);
        code.set(&shift, &shift + more);
    }
    // What is left is below 8 and was not shifted, or is 8 to 15: so it counts one bucket row more by itself.
    code.set(&shift, (&shift << BITS) + value);
    shift
}

#[cfg(test)]
mod tests {
    use crate::{Build, Builder};
    use mote_bpf::Reg;

    #[test]
    fn it_has_no_branch_and_37_instructions() {
        let mut b = Builder::new();
        let value = b.pin(Reg::R1);
        let bucket = super::bucket(&mut b, value);
        let len = b.len();
        b.exit_with(bucket);
        assert_eq!(len, 37);
        assert!(b.finish().is_ok());
    }
}
