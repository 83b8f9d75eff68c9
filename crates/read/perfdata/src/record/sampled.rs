//! Where in a sample the bytes of a hardware trace are: behind everything else that a sample may have.
//!
//! Source: `perf_output_sample` in Linux's kernel/events/core.c (6.12), and `PERF_RECORD_SAMPLE` in
//! include/uapi/linux/perf_event.h.

use super::{SampleFormat, Sampled};
use crate::attribute::sample;
use crate::bytes::Bytes;

/// Bits of an event's `read_format`.
mod read {
    pub(super) const TIME_ENABLED: u64 = 1;
    pub(super) const TIME_RUNNING: u64 = 1 << 1;
    pub(super) const ID: u64 = 1 << 2;
    pub(super) const GROUP: u64 = 1 << 3;
    pub(super) const LOST: u64 = 1 << 4;
}

/// Of branches: a word more with their number in the processor's own stack, and one more for each with counts
/// (`PERF_SAMPLE_BRANCH_HW_INDEX`, `PERF_SAMPLE_BRANCH_COUNTERS`).
const BRANCHES_HAVE_INDEX: u64 = 1 << 17;
const BRANCHES_HAVE_COUNTERS: u64 = 1 << 19;
/// Bytes of a branch.
const BRANCH: u64 = 24;

/// What stands between a sample's period and the bytes of a hardware trace, in this order.
const ORDER: [u64; 14] = [
    sample::READ,
    sample::CALLCHAIN,
    sample::RAW,
    sample::BRANCH_STACK,
    sample::REGS_USER,
    sample::STACK_USER,
    sample::WEIGHT | sample::WEIGHT_STRUCT,
    sample::DATA_SRC,
    sample::TRANSACTION,
    sample::REGS_INTR,
    sample::PHYS_ADDR,
    sample::CGROUP,
    sample::DATA_PAGE_SIZE,
    sample::CODE_PAGE_SIZE,
];

impl SampleFormat {
    /// Finds them in the rest of a sample of `whole` bytes, which begins behind its period; nothing where there are
    /// none, or the sample is shorter than it says.
    pub(super) fn sampled(self, mut rest: Bytes<'_>, whole: usize) -> Option<Sampled> {
        if !self.has(sample::AUX) {
            return None;
        }
        for bit in ORDER.into_iter().filter(|bit| self.has(*bit)) {
            self.pass(bit, &mut rest)?;
        }
        let len = usize::try_from(rest.u64()?).ok()?;
        let at = whole - rest.0.len();
        rest.take(len).filter(|bytes| !bytes.is_empty())?;
        Some(Sampled { at, len })
    }

    /// Passes over a member.
    fn pass(self, bit: u64, rest: &mut Bytes<'_>) -> Option<()> {
        match bit {
            sample::READ => self.pass_read(rest),
            sample::CALLCHAIN => {
                let count = rest.u64()?;
                skip(rest, count, 8)
            }
            // With its size before it, filled up to 8 bytes.
            sample::RAW => {
                let size = u64::from(rest.u32()?) + 4;
                skip(rest, size.next_multiple_of(8) - 4, 1)
            }
            sample::BRANCH_STACK => {
                let count = rest.u64()?;
                skip(rest, (self.branches & BRANCHES_HAVE_INDEX != 0).into(), 8)?;
                skip(rest, count, BRANCH)?;
                skip(rest, if self.branches & BRANCHES_HAVE_COUNTERS != 0 { count } else { 0 }, 8)
            }
            sample::REGS_USER => pass_registers(rest, self.user_registers),
            sample::REGS_INTR => pass_registers(rest, self.registers),
            // Behind the bytes stands how many of them there really are.
            sample::STACK_USER => match rest.u64()? {
                0 => Some(()),
                size => skip(rest, size.checked_add(8)?, 1),
            },
            _ => skip(rest, 1, 8),
        }
    }

    fn pass_read(self, rest: &mut Bytes<'_>) -> Option<()> {
        let has = |bit: u64| u64::from(self.read & bit != 0);
        let times = has(read::TIME_ENABLED) + has(read::TIME_RUNNING);
        let each = 1 + has(read::ID) + has(read::LOST);
        let words = if self.read & read::GROUP == 0 {
            times + each
        } else {
            rest.u64()?.checked_mul(each)?.checked_add(times)?
        };
        skip(rest, words, 8)
    }
}

/// Passes over registers: none where their kind (`abi`) is 0.
fn pass_registers(rest: &mut Bytes<'_>, mask: u64) -> Option<()> {
    match rest.u64()? {
        0 => Some(()),
        _ => skip(rest, mask.count_ones().into(), 8),
    }
}

/// Passes over so many things of so many bytes.
fn skip(rest: &mut Bytes<'_>, count: u64, bytes: u64) -> Option<()> {
    let len = usize::try_from(count.checked_mul(bytes)?).ok()?;
    rest.take(len).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Attribute;

    /// Words behind a sample's period, with the bytes of a trace at the end: where those are found.
    fn found(attribute: Attribute, words: &[u64], len: u64, packets: &[u8]) -> Option<Sampled> {
        let mut body: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        body.extend(len.to_le_bytes());
        body.extend(packets);
        let sample_type = attribute.sample_type | sample::AUX;
        let format = SampleFormat::of(&Attribute { sample_type, ..attribute });
        format.sampled(Bytes(&body), body.len())
    }

    fn check(attribute: Attribute, words: &[u64]) {
        let expect = Some(Sampled { at: 8 * words.len() + 8, len: 16 });
        assert_eq!(found(attribute, words, 16, &[2; 16]), expect, "{:#x}", attribute.sample_type);
    }

    fn of(sample_type: u64) -> Attribute {
        Attribute { sample_type, ..Attribute::default() }
    }

    #[test]
    fn each_member_is_as_long_as_the_kernel_makes_it() {
        check(of(0), &[]);
        check(of(sample::READ), &[7]);
        check(Attribute { read_format: 0b1_0111, ..of(sample::READ) }, &[7, 1, 1, 9, 0]);
        // A group of two: how many, times, value and id of each.
        check(Attribute { read_format: 0b1111, ..of(sample::READ) }, &[2, 5, 5, 1, 17, 2, 18]);
        check(of(sample::CALLCHAIN), &[3, 0x10, 0x20, 0x30]);
        // 12 bytes of which the kernel knows, behind a size of 4 bytes.
        check(of(sample::RAW), &[12, 0]);
        check(of(sample::BRANCH_STACK), &[2, 1, 2, 0, 3, 4, 0]);
        let branches = BRANCHES_HAVE_INDEX | BRANCHES_HAVE_COUNTERS;
        check(Attribute { branches, ..of(sample::BRANCH_STACK) }, &[2, 99, 1, 2, 0, 3, 4, 0, 8, 9]);
        check(Attribute { user_registers: 0b101, ..of(sample::REGS_USER) }, &[2, 1, 2]);
        check(Attribute { user_registers: 0b101, ..of(sample::REGS_USER) }, &[0]);
        check(Attribute { registers: 0b111, ..of(sample::REGS_INTR) }, &[2, 1, 2, 3]);
        check(of(sample::STACK_USER), &[16, 1, 2, 16]);
        check(of(sample::STACK_USER), &[0]);
        let words = sample::DATA_SRC | sample::TRANSACTION | sample::PHYS_ADDR | sample::CGROUP;
        check(of(words | sample::DATA_PAGE_SIZE | sample::CODE_PAGE_SIZE | sample::WEIGHT), &[0; 7]);
        check(of(sample::WEIGHT_STRUCT), &[1]);
        // In their order, whatever the order of their bits.
        check(of(sample::REGS_INTR | sample::CALLCHAIN | sample::WEIGHT), &[1, 0x10, 5, 0]);
    }

    #[test]
    fn samples_that_are_too_short_have_none() {
        assert_eq!(found(of(0), &[], 17, &[2; 16]), None);
        assert_eq!(found(of(0), &[], 0, &[]), None);
        assert_eq!(found(of(sample::CALLCHAIN), &[u64::MAX], 0, &[2; 16]), None);
        assert_eq!(found(of(sample::STACK_USER), &[u64::MAX], 0, &[2; 16]), None);
        assert_eq!(found(Attribute { read_format: 0b1111, ..of(sample::READ) }, &[u64::MAX], 0, &[]), None);
    }
}
