//! Buckets of log-linear histograms: one for each small value, and for each power of two above as many of the same
//! width.
//!
//! With `BITS` bits, values below `2^BITS` have a bucket each, and each power of two above has `2^BITS`: no bucket is
//! wider than `1 / 2^BITS` of its values. The bucket of a value is a few instructions and a shift, without a table, so
//! that code in the kernel can do the same.

/// Buckets for all values of 64 bits.
pub const fn buckets<const BITS: u32>() -> u32 {
    (64 - BITS + 1) << BITS
}

/// The bucket of a value.
#[inline(always)]
pub const fn bucket<const BITS: u32>(value: u64) -> u32 {
    let magnitude = 64 - (value | ((1 << BITS) - 1)).leading_zeros();
    let shift = magnitude - BITS - (magnitude > BITS) as u32;
    (shift << BITS) + (value >> shift) as u32
}

/// The smallest value of a bucket; of the first one that does not exist, 0.
pub const fn start<const BITS: u32>(bucket: u32) -> u64 {
    if bucket < 1 << BITS {
        return bucket as u64;
    }
    let octave = (bucket >> BITS) - 1;
    (((1 << BITS) + (bucket & ((1 << BITS) - 1))) as u64) << octave
}

/// The largest value of a bucket.
pub const fn end<const BITS: u32>(bucket: u32) -> u64 {
    start::<BITS>(bucket + 1).wrapping_sub(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check<const BITS: u32>() {
        let mut next = 0_u64;
        for at in 0..buckets::<BITS>() {
            let (first, last) = (start::<BITS>(at), end::<BITS>(at));
            assert_eq!(first, next, "bucket {at}");
            assert_eq!((bucket::<BITS>(first), bucket::<BITS>(last)), (at, at));
            assert!(last - first <= first >> BITS, "bucket {at} is too wide");
            next = last.wrapping_add(1);
        }
        assert_eq!(next, 0, "the last bucket ends with the last value");
    }

    #[test]
    fn buckets_are_in_order_without_gaps_and_narrow() {
        check::<3>();
        check::<5>();
    }
}
