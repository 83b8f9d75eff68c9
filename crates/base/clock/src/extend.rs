//! Full-width time stamps out of stored ones that kept only their low bits, by a moment that is known to be close: the
//! consumer knows "now". (CTF's rule for readers, by the time stamp before, is in the crate `ctf`.)

/// The low `bits` of a word; all of it for 64 and more.
const fn mask(bits: u32) -> u64 {
    if bits >= u64::BITS { u64::MAX } else { (1 << bits) - 1 }
}

/// The time stamp closest to `reference` whose low `bits` are those of `stored`.
///
/// Right when the two are less than `2^(bits-1)` ticks apart, whichever is first: 13 hours for 48
/// bits at 3 GHz. Of two that are equally close, the earlier. Never wraps around: at the ends of
/// the 64-bit range it returns the one that exists.
#[inline]
pub const fn nearest(reference: u64, stored: u64, bits: u32) -> u64 {
    let ahead = stored.wrapping_sub(reference) & mask(bits);
    // The distance backwards is 2^bits - ahead: `behind + 1`, which fits 64 bits for any width.
    let behind = mask(bits) - ahead;
    let later = reference.checked_add(ahead);
    let earlier = match reference.checked_sub(behind) {
        Some(above) => above.checked_sub(1),
        None => None,
    };
    match (later, earlier) {
        (Some(later), None) => later,
        (Some(later), Some(_)) if ahead <= behind => later,
        (_, Some(earlier)) => earlier,
        // Full width: exactly one of the two exists.
        (None, None) => stored,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// SplitMix64.
    struct Random(u64);

    impl Random {
        fn next(&mut self) -> u64 {
            self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
            let mut z = self.0;
            z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
            z ^ (z >> 31)
        }
    }

    #[test]
    fn near_finds_what_is_less_than_half_a_wrap_away() {
        let mut random = Random(2);
        for bits in 2..=64 {
            for _ in 0..1_000 {
                let truth = random.next() >> 1;
                let half = mask(bits - 1);
                let reference = truth.wrapping_add(random.next() & half.min(truth) & (half - 1));
                assert_eq!(nearest(reference, truth & mask(bits), bits), truth, "{bits} bits");
                assert_eq!(nearest(truth, reference & mask(bits), bits), reference, "{bits} bits");
            }
        }
    }

    #[test]
    fn near_stays_in_range_at_both_ends() {
        assert_eq!(nearest(5, 0xfff0, 16), 0xfff0);
        assert_eq!(nearest(u64::MAX - 3, 1, 16), 0xffff_ffff_ffff_0001);
        for stored in [0, 1, 77, u64::MAX] {
            for reference in [0, 1, 1 << 63, u64::MAX] {
                assert_eq!(nearest(reference, stored, 64), stored);
            }
        }
        assert_eq!(nearest(0x1_8000, 0, 16), 0x1_0000, "a tie goes to the earlier");
    }
}
