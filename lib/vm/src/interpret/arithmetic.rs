//! Operations and conditions on 64 and on 32 bits, as RFC 9669 says.

macro_rules! width {
    ($name:ident, $u:ty, $s:ty) => {
        /// On this width.
        pub(super) mod $name {
            #[inline(always)]
            pub(in super::super) fn add(a: $u, b: $u) -> $u {
                a.wrapping_add(b)
            }
            #[inline(always)]
            pub(in super::super) fn sub(a: $u, b: $u) -> $u {
                a.wrapping_sub(b)
            }
            #[inline(always)]
            pub(in super::super) fn mul(a: $u, b: $u) -> $u {
                a.wrapping_mul(b)
            }
            #[inline(always)]
            pub(in super::super) fn div(a: $u, b: $u) -> $u {
                a.checked_div(b).unwrap_or(0)
            }
            #[inline(always)]
            pub(in super::super) fn sdiv(a: $u, b: $u) -> $u {
                if b == 0 { 0 } else { (a as $s).wrapping_div(b as $s) as $u }
            }
            #[inline(always)]
            pub(in super::super) fn modulo(a: $u, b: $u) -> $u {
                a.checked_rem(b).unwrap_or(a)
            }
            #[inline(always)]
            pub(in super::super) fn smod(a: $u, b: $u) -> $u {
                if b == 0 { a } else { (a as $s).wrapping_rem(b as $s) as $u }
            }
            #[inline(always)]
            pub(in super::super) fn or(a: $u, b: $u) -> $u {
                a | b
            }
            #[inline(always)]
            pub(in super::super) fn and(a: $u, b: $u) -> $u {
                a & b
            }
            #[inline(always)]
            pub(in super::super) fn xor(a: $u, b: $u) -> $u {
                a ^ b
            }
            #[inline(always)]
            pub(in super::super) fn lsh(a: $u, b: $u) -> $u {
                a.wrapping_shl(b as u32)
            }
            #[inline(always)]
            pub(in super::super) fn rsh(a: $u, b: $u) -> $u {
                a.wrapping_shr(b as u32)
            }
            #[inline(always)]
            pub(in super::super) fn arsh(a: $u, b: $u) -> $u {
                (a as $s).wrapping_shr(b as u32) as $u
            }
            #[inline(always)]
            pub(in super::super) fn mov(_: $u, b: $u) -> $u {
                b
            }
            #[inline(always)]
            pub(in super::super) fn eq(a: $u, b: $u) -> bool {
                a == b
            }
            #[inline(always)]
            pub(in super::super) fn ne(a: $u, b: $u) -> bool {
                a != b
            }
            #[inline(always)]
            pub(in super::super) fn gt(a: $u, b: $u) -> bool {
                a > b
            }
            #[inline(always)]
            pub(in super::super) fn ge(a: $u, b: $u) -> bool {
                a >= b
            }
            #[inline(always)]
            pub(in super::super) fn lt(a: $u, b: $u) -> bool {
                a < b
            }
            #[inline(always)]
            pub(in super::super) fn le(a: $u, b: $u) -> bool {
                a <= b
            }
            #[inline(always)]
            pub(in super::super) fn set(a: $u, b: $u) -> bool {
                a & b != 0
            }
            #[inline(always)]
            pub(in super::super) fn sgt(a: $u, b: $u) -> bool {
                a as $s > b as $s
            }
            #[inline(always)]
            pub(in super::super) fn sge(a: $u, b: $u) -> bool {
                a as $s >= b as $s
            }
            #[inline(always)]
            pub(in super::super) fn slt(a: $u, b: $u) -> bool {
                (a as $s) < b as $s
            }
            #[inline(always)]
            pub(in super::super) fn sle(a: $u, b: $u) -> bool {
                a as $s <= b as $s
            }
        }
    };
}

width!(w64, u64, i64);
width!(w32, u32, i32);
