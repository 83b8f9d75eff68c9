//! Numbers to digits.

/// The pairs `00` to `99`.
const PAIRS: [[u8; 2]; 100] = {
    let mut pairs = [[0; 2]; 100];
    let mut n = 0;
    while n < 100 {
        pairs[n] = [b'0' + (n / 10) as u8, b'0' + (n % 10) as u8];
        n += 1;
    }
    pairs
};

/// Appends an integer in decimal.
#[inline]
pub(crate) fn decimal<I: itoa::Integer>(out: &mut Vec<u8>, value: I) {
    out.extend_from_slice(itoa::Buffer::new().format(value).as_bytes());
}

/// The nine digits of a number of nanoseconds below a second.
#[inline]
pub(crate) fn nine(nanos: u32) -> [u8; 9] {
    let pair = |n: u32| PAIRS[(n % 100) as usize];
    let (high, low) = (nanos / 10_000, nanos % 10_000);
    let (first, second) = (high / 10_000, high % 10_000);
    let [b, c] = pair(second / 100);
    let [d, e] = pair(second);
    let [f, g] = pair(low / 100);
    let [h, i] = pair(low);
    [b'0' + (first % 10) as u8, b, c, d, e, f, g, h, i]
}

/// Appends a number below 100 with two digits.
pub(crate) fn two(out: &mut Vec<u8>, value: u32) {
    out.extend_from_slice(&PAIRS[(value % 100) as usize]);
}

/// Appends a number in the base `1 << bits`, with digits `0-9a-f`.
pub(crate) fn power_of_two(out: &mut Vec<u8>, value: u64, bits: u32) {
    let mut digits = [0; 64];
    let mut first = digits.len();
    let mut rest = value;
    loop {
        first -= 1;
        digits[first] = hex((rest & ((1 << bits) - 1)) as u8);
        rest >>= bits;
        if rest == 0 {
            break;
        }
    }
    out.extend_from_slice(&digits[first..]);
}

/// A hexadecimal digit.
pub(crate) fn hex(nibble: u8) -> u8 {
    b"0123456789abcdef"[usize::from(nibble & 15)]
}

/// Appends bytes as pairs of hexadecimal digits.
pub(crate) fn bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    for byte in bytes {
        out.extend_from_slice(&[hex(byte >> 4), hex(*byte)]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digits_are_those_of_the_library() {
        for n in [0, 1, 9, 10, 99_999, 100_000, 123_456_789, 999_999_999, 900_090_009] {
            assert_eq!(nine(n), *format!("{n:09}").as_bytes());
        }
        for (value, bits, expect) in
            [(0, 4, "0"), (0xdead_beef, 4, "deadbeef"), (8, 3, "10"), (u64::MAX, 1, &"1".repeat(64))]
        {
            let mut out = Vec::new();
            power_of_two(&mut out, value, bits);
            assert_eq!(String::from_utf8_lossy(&out), expect);
        }
    }
}
