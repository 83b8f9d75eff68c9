//! Loads of fixed-size fields.
//!
//! Little-endian fields fill bytes from the least significant bit, big-endian ones from the most significant, so
//! both are one load, shifted left until the field's top bit is bit 63, then right.

use super::program::{Kind, Scalar};
use crate::value::Slot;

impl Scalar {
    /// The value in `window`, the bytes from the run's base; 0 if they are too few, which the run's check excludes.
    #[inline(always)]
    pub(crate) fn load(self, window: &[u8]) -> Slot {
        let bytes = window.get(self.byte as usize..).and_then(|rest| rest.first_chunk::<8>());
        finish(bytes.copied().unwrap_or_default(), self)
    }

    /// The same where fewer than 8 bytes may be left.
    pub(crate) fn load_tail(self, rest: &[u8]) -> Slot {
        finish(first_bytes(rest.get(self.byte as usize..).unwrap_or(&[])), self)
    }
}

/// Up to 8 bytes, padded with zeros.
fn first_bytes<const N: usize>(rest: &[u8]) -> [u8; N] {
    let mut bytes = [0; N];
    let len = rest.len().min(N);
    bytes[..len].copy_from_slice(&rest[..len]);
    bytes
}

#[inline(always)]
fn finish(bytes: [u8; 8], scalar: Scalar) -> Slot {
    let load = if scalar.big { u64::from_be_bytes(bytes) } else { u64::from_le_bytes(bytes) };
    let top = load << (scalar.left & 63);
    match scalar.kind {
        Kind::Signed => Slot::I64(top.cast_signed() >> (scalar.right & 63)),
        kind => slot(kind, top >> (scalar.right & 63)),
    }
}

/// The value of a field whose bits are the low bits of `raw`, the others zero.
#[inline(always)]
fn slot(kind: Kind, raw: u64) -> Slot {
    match kind {
        Kind::Unsigned => Slot::U64(raw),
        Kind::Signed => Slot::I64(raw.cast_signed()),
        Kind::Bool => Slot::Bool(raw != 0),
        Kind::F16 => Slot::F64(half(raw)),
        Kind::F32 => Slot::F64(f64::from(f32::from_bits((raw & 0xffff_ffff) as u32))),
        Kind::F64 => Slot::F64(f64::from_bits(raw)),
    }
}

/// The field of `size` bits (1 to 64) at bit `at`, whose bytes are all there.
#[inline]
pub(crate) fn read(bytes: &[u8], at: u64, size: u32, big: bool, kind: Kind) -> Slot {
    let rest = usize::try_from(at / 8).ok().and_then(|byte| bytes.get(byte..)).unwrap_or(&[]);
    let inside = (at % 8) as u32;
    let top = match rest.first_chunk::<8>() {
        Some(first) if inside + size <= 64 => {
            if big { u64::from_be_bytes(*first) << inside } else { u64::from_le_bytes(*first) << (64 - inside - size) }
        }
        _ => wide(rest, inside, size, big),
    };
    let right = 64 - size;
    match kind {
        Kind::Signed => Slot::I64(top.cast_signed() >> right),
        kind => slot(kind, top >> right),
    }
}

/// The field's bits at the top of the word, also where it spans nine bytes or the data end soon.
fn wide(rest: &[u8], inside: u32, size: u32, big: bool) -> u64 {
    let bytes: [u8; 16] = first_bytes(rest);
    let top = if big { u128::from_be_bytes(bytes) << inside } else { u128::from_le_bytes(bytes) << (128 - inside - size) };
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
                    assert_eq!(read(&bytes, at, size, big, Kind::Unsigned), Slot::U64(expected), "{at} {size} {big}");
                    let signed = ((expected << (64 - size)) as i64) >> (64 - size);
                    assert_eq!(read(&bytes, at, size, big, Kind::Signed), Slot::I64(signed), "{at} {size} {big}");
                }
            }
        }
    }

    #[test]
    fn half_floats() {
        for (raw, value) in [(0x3c00, 1.0), (0xc000, -2.0), (0x7bff, 65504.0), (1, 2.0_f64.powi(-24)), (0x7c00, f64::INFINITY)] {
            assert_eq!(half(raw), value);
        }
    }
}
