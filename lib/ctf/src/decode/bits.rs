//! Loads of fixed-size fields.
//!
//! Little-endian fields fill bytes from the least significant bit, big-endian ones from the most
//! significant, so both are one load, shifted left until the field's top bit is bit 63, then right.

use super::program::{Kind, Scalar};
use crate::value::Slot;

impl Scalar {
    /// The value in `window`, the bytes from the run's base; 0 if they are too few, which the run's check
    /// excludes.
    #[inline(always)]
    pub(crate) fn load(self, window: &[u8]) -> Slot {
        self.value(self.load_unsigned(window))
    }

    /// The same where fewer than 8 bytes may be left.
    pub(crate) fn load_tail(self, rest: &[u8]) -> Slot {
        self.value(self.shift(first_bytes(rest.get(self.byte as usize..).unwrap_or(&[]))))
    }

    /// The bits of the field, zeros above.
    #[inline(always)]
    pub(crate) fn load_unsigned(self, window: &[u8]) -> u64 {
        let byte = self.byte as usize;
        let bytes = window.get(byte..byte + 8).and_then(|bytes| bytes.try_into().ok());
        self.shift(bytes.unwrap_or_default())
    }

    #[inline(always)]
    fn shift(self, bytes: [u8; 8]) -> u64 {
        let little = u64::from_le_bytes(bytes);
        let load = if self.big { little.swap_bytes() } else { little };
        load << (self.left & 63) >> (self.right & 63)
    }

    #[inline(always)]
    fn value(self, bits: u64) -> Slot {
        if self.small_float {
            return Slot::new(self.tag, small_float(bits, self.right == 32).to_bits());
        }
        Slot::new(self.tag, (bits ^ self.sign).wrapping_sub(self.sign))
    }
}

/// Up to `N` bytes, padded with zeros.
fn first_bytes<const N: usize>(rest: &[u8]) -> [u8; N] {
    let mut bytes = [0; N];
    let len = rest.len().min(N);
    bytes[..len].copy_from_slice(&rest[..len]);
    bytes
}

/// A floating point number of 32 or else 16 bits.
#[inline(never)]
fn small_float(bits: u64, single: bool) -> f64 {
    if single { f64::from(f32::from_bits(bits as u32)) } else { half(bits) }
}

/// The field of `size` bits (1 to 64) at bit `at`, whose bytes are all there.
#[inline]
pub(crate) fn read(bytes: &[u8], at: u64, size: u32, big: bool, kind: Kind) -> Slot {
    value(top(bytes, at, size, big), size, kind)
}

/// The same with its bits the other way round (CTF2-SPEC-2.0 section 5.3.4, `bit-order`).
#[inline(never)]
pub(crate) fn read_reversed(bytes: &[u8], at: u64, size: u32, big: bool, kind: Kind) -> Slot {
    value(top(bytes, at, size, big).reverse_bits() << (64 - size), size, kind)
}

/// The field's bits at the top of the word, zeros below.
#[inline]
fn top(bytes: &[u8], at: u64, size: u32, big: bool) -> u64 {
    let rest = usize::try_from(at / 8).ok().and_then(|byte| bytes.get(byte..)).unwrap_or(&[]);
    let inside = (at % 8) as u32;
    let top = match rest.first_chunk::<8>() {
        Some(first) if inside + size <= 64 => {
            if big {
                u64::from_be_bytes(*first) << inside
            } else {
                u64::from_le_bytes(*first) << (64 - inside - size)
            }
        }
        _ => wide(rest, inside, size, big),
    };
    top >> (64 - size) << (64 - size)
}

/// The value whose `size` bits are at the top of the word.
#[inline]
fn value(top: u64, size: u32, kind: Kind) -> Slot {
    let right = 64 - size;
    let bits = match kind {
        Kind::Signed => (top.cast_signed() >> right).cast_unsigned(),
        Kind::F16 | Kind::F32 => small_float(top >> right, kind == Kind::F32).to_bits(),
        Kind::Unsigned | Kind::Bool | Kind::F64 => top >> right,
    };
    Slot::new(kind.tag(), bits)
}

/// The field's bits at the top of the word, also where it spans nine bytes or the data end soon.
fn wide(rest: &[u8], inside: u32, size: u32, big: bool) -> u64 {
    let bytes: [u8; 16] = first_bytes(rest);
    let top = if big {
        u128::from_be_bytes(bytes) << inside
    } else {
        u128::from_le_bytes(bytes) << (128 - inside - size)
    };
    (top >> 64) as u64
}

/// IEEE 754 binary16 as a double.
fn half(raw: u64) -> f64 {
    let sign = if raw & 0x8000 == 0 { 1.0 } else { -1.0 };
    let exponent = ((raw >> 10) & 0x1f) as i32;
    let fraction = (raw & 0x3ff) as f64;
    let magnitude = match exponent {
        0 => fraction * 2.0_f64.powi(-24),
        31 if fraction == 0.0 => f64::INFINITY,
        31 => f64::NAN,
        _ => (1024.0 + fraction) * 2.0_f64.powi(exponent - 25),
    };
    sign * magnitude
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::value::Tag;

    /// Bit by bit, the obvious way.
    fn slow(bytes: &[u8], at: u64, size: u32, big: bool) -> u64 {
        let bit = |index: u64| {
            let byte = bytes[(index / 8) as usize];
            u64::from(if big { byte >> (7 - index % 8) & 1 } else { byte >> (index % 8) & 1 })
        };
        (0..u64::from(size)).fold(0, |v, i| if big { v << 1 | bit(at + i) } else { v | bit(at + i) << i })
    }

    #[test]
    fn reads_what_the_definition_says() {
        let bytes: Vec<u8> = (0..24_u8).map(|i| i.wrapping_mul(73).wrapping_add(29)).collect();
        for size in 1..=64 {
            for at in 0..(24 * 8 - u64::from(size)) {
                for big in [false, true] {
                    let expected = slow(&bytes, at, size, big);
                    assert_eq!(
                        read(&bytes, at, size, big, Kind::Unsigned),
                        Slot::new(Tag::U64, expected),
                        "{at} {size} {big}"
                    );
                    let reversed = (0..size).fold(0, |v, i| v << 1 | expected >> i & 1);
                    assert_eq!(
                        read_reversed(&bytes, at, size, big, Kind::Unsigned),
                        Slot::new(Tag::U64, reversed),
                        "{at} {size} {big}"
                    );
                    let signed = ((expected << (64 - size)) as i64) >> (64 - size);
                    assert_eq!(
                        read(&bytes, at, size, big, Kind::Signed),
                        Slot::new(Tag::I64, signed.cast_unsigned()),
                        "{at} {size} {big}"
                    );
                }
            }
        }
    }

    #[test]
    fn half_floats() {
        for (raw, value) in [
            (0x3c00, 1.0),
            (0xc000, -2.0),
            (0x7bff, 65504.0),
            (1, 2.0_f64.powi(-24)),
            (0x7c00, f64::INFINITY),
        ] {
            assert_eq!(half(raw), value);
        }
    }
}
