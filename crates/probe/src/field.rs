//! Types that a field can have, and how each is packed.

use core::ffi::CStr;
use mote_layout::record::FIELDS_MAX;
use mote_layout::types::{Scalar, Type};
use mote_ring::Fragment;

/// A type that a field of an event can have.
pub trait Field {
    /// The field's type in the event's description.
    const TYPE: Type;
    /// The value made ready for packing.
    type Ready: Packed;
    /// Makes the value ready: finds the end of a text, cuts what is too long to count.
    fn ready(self) -> Self::Ready;
}

/// A value that can be put into a record.
pub trait Packed {
    /// Bytes that it takes.
    fn size(&self) -> usize;

    /// Writes it to `to`, and answers the place behind.
    ///
    /// # Safety
    /// `size()` bytes at `to` must be writable, and 8 more.
    unsafe fn pack(&self, to: *mut u8) -> *mut u8;

    /// The value as at most two ranges of memory that live as long as `self` and what it borrows.
    fn fragments(&self) -> [Fragment; 2];
}

const NOTHING: Fragment = Fragment { from: core::ptr::null(), len: 0 };

/// A number as it lies in memory, which is as it lies in a record: little-endian.
#[repr(transparent)]
#[derive(Clone, Copy, Debug)]
pub struct Number<T>(T);

impl<T: Copy> Packed for Number<T> {
    #[inline(always)]
    fn size(&self) -> usize {
        size_of::<T>()
    }

    #[inline(always)]
    unsafe fn pack(&self, to: *mut u8) -> *mut u8 {
        // SAFETY: the caller's promise; nothing says that `to` is aligned.
        unsafe { to.cast::<T>().write_unaligned(self.0) };
        to.wrapping_add(size_of::<T>())
    }

    fn fragments(&self) -> [Fragment; 2] {
        [Fragment { from: (&raw const self.0).cast(), len: size_of::<T>() }, NOTHING]
    }
}

/// A number that arrays and sequences can hold.
pub trait Element: Copy {
    /// The type of one.
    const SCALAR: Scalar;
    /// The type of a slice of them.
    const SLICE: Type = Type::Sequence(Self::SCALAR);
}

macro_rules! numbers {
    ($($rust:ty => $scalar:expr $(, $slice:expr)?;)*) => {$(
        impl Element for $rust {
            const SCALAR: Scalar = $scalar;
            $(const SLICE: Type = $slice;)?
        }
        impl Field for $rust {
            const TYPE: Type = Type::Scalar($scalar);
            type Ready = Number<$rust>;
            #[inline(always)]
            fn ready(self) -> Number<$rust> {
                Number(self)
            }
        }
    )*};
}

numbers! {
    u8 => Scalar::unsigned(8), Type::Bytes;
    u16 => Scalar::unsigned(16);
    u32 => Scalar::unsigned(32);
    u64 => Scalar::unsigned(64);
    usize => Scalar::unsigned(64);
    i8 => Scalar::signed(8);
    i16 => Scalar::signed(16);
    i32 => Scalar::signed(32);
    i64 => Scalar::signed(64);
    isize => Scalar::signed(64);
    f32 => Scalar::F32;
    f64 => Scalar::F64;
    bool => Scalar::Bool;
}

impl<T> Field for *const T {
    const TYPE: Type = Type::Scalar(Scalar::hex(64));
    type Ready = Number<usize>;
    #[inline(always)]
    fn ready(self) -> Number<usize> {
        Number(self.addr())
    }
}

impl<T> Field for *mut T {
    const TYPE: Type = Type::Scalar(Scalar::hex(64));
    type Ready = Number<usize>;
    #[inline(always)]
    fn ready(self) -> Number<usize> {
        Number(self.addr())
    }
}

impl<T: Element, const N: usize> Field for [T; N] {
    const TYPE: Type = Type::Array(T::SCALAR, N);
    type Ready = Number<[T; N]>;
    #[inline(always)]
    fn ready(self) -> Number<[T; N]> {
        Number(self)
    }
}

impl<T: Element, const N: usize> Field for &[T; N] {
    const TYPE: Type = Type::Array(T::SCALAR, N);
    type Ready = Number<[T; N]>;
    #[inline(always)]
    fn ready(self) -> Number<[T; N]> {
        Number(*self)
    }
}

/// A text up to its first NUL; packed with a NUL.
#[derive(Clone, Copy, Debug)]
pub struct Text<'a>(&'a [u8]);

impl<'a> Field for &'a str {
    const TYPE: Type = Type::Str;
    type Ready = Text<'a>;
    #[inline(always)]
    fn ready(self) -> Text<'a> {
        Text(up_to_nul(self.as_bytes()))
    }
}

impl<'a> Field for &'a CStr {
    const TYPE: Type = Type::Str;
    type Ready = Text<'a>;
    #[inline(always)]
    fn ready(self) -> Text<'a> {
        Text(self.to_bytes())
    }
}

/// The bytes before the first NUL: a NUL inside would end the text for the reader of the trace.
#[inline(always)]
fn up_to_nul(bytes: &[u8]) -> &[u8] {
    if bytes.len() <= 16 && !small_has_nul(bytes) {
        return bytes;
    }
    cut_at_nul(bytes)
}

/// Whether up to 16 bytes hold a NUL, by two loads that may overlap.
#[inline(always)]
fn small_has_nul(bytes: &[u8]) -> bool {
    const ONES: u64 = 0x0101_0101_0101_0101;
    let zero = |word: u64| word.wrapping_sub(ONES) & !word & (ONES << 7) != 0;
    let (low, high) = small_words(bytes);
    zero(low) | zero(high)
}

/// All the bytes of a slice of 1 to 16, in two words; the words may say bytes twice. A filler of ones stands
/// where there are fewer than 8.
#[inline(always)]
fn small_words(bytes: &[u8]) -> (u64, u64) {
    const FILL: u64 = !0;
    if let (Some(low), Some(high)) = (bytes.first_chunk::<8>(), bytes.last_chunk::<8>()) {
        (u64::from_le_bytes(*low), u64::from_le_bytes(*high))
    } else if let (Some(low), Some(high)) = (bytes.first_chunk::<4>(), bytes.last_chunk::<4>()) {
        let word = |half: [u8; 4]| u64::from(u32::from_le_bytes(half)) | FILL << 32;
        (word(*low), word(*high))
    } else if let (Some(first), Some(middle), Some(last)) =
        (bytes.first(), bytes.get(bytes.len() / 2), bytes.last())
    {
        let word = u64::from(*first) | u64::from(*middle) << 8 | u64::from(*last) << 16 | FILL << 24;
        (word, word)
    } else {
        (FILL, FILL)
    }
}

#[cold]
fn cut_at_nul(bytes: &[u8]) -> &[u8] {
    let bytes = bytes.get(..FIELDS_MAX).unwrap_or(bytes);
    let end = bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len());
    bytes.get(..end).unwrap_or(bytes)
}

impl Packed for Text<'_> {
    #[inline(always)]
    fn size(&self) -> usize {
        self.0.len() + 1
    }

    #[inline(always)]
    unsafe fn pack(&self, to: *mut u8) -> *mut u8 {
        // SAFETY: the caller's promise.
        let behind = unsafe { pack_bytes(self.0, to) };
        // SAFETY: the size counts the NUL.
        unsafe { behind.write(0) };
        behind.wrapping_add(1)
    }

    fn fragments(&self) -> [Fragment; 2] {
        static NUL: u8 = 0;
        [Fragment { from: self.0.as_ptr(), len: self.0.len() }, Fragment { from: &raw const NUL, len: 1 }]
    }
}

/// Copies bytes; up to 16 of them inline, without a call.
///
/// # Safety
/// `bytes.len()` bytes at `to` must be writable.
#[inline(always)]
unsafe fn pack_bytes(bytes: &[u8], to: *mut u8) -> *mut u8 {
    let len = bytes.len();
    let behind = to.wrapping_add(len);
    if let (Some(low), Some(high)) = (bytes.first_chunk::<8>(), bytes.last_chunk::<8>())
        && len <= 16
    {
        // SAFETY: the first 8 of `len` bytes.
        unsafe { to.cast::<[u8; 8]>().write_unaligned(*low) };
        // SAFETY: the last 8 of `len` bytes.
        unsafe { behind.wrapping_sub(8).cast::<[u8; 8]>().write_unaligned(*high) };
    } else if let (Some(low), Some(high)) = (bytes.first_chunk::<4>(), bytes.last_chunk::<4>())
        && len < 8
    {
        // SAFETY: the first 4 of `len` bytes.
        unsafe { to.cast::<[u8; 4]>().write_unaligned(*low) };
        // SAFETY: the last 4 of `len` bytes.
        unsafe { behind.wrapping_sub(4).cast::<[u8; 4]>().write_unaligned(*high) };
    } else if len < 4 {
        for (index, byte) in bytes.iter().enumerate() {
            // SAFETY: `index` is below `len`.
            unsafe { to.wrapping_add(index).write(*byte) };
        }
    } else {
        // SAFETY: `len` bytes; a record's memory is none that the program's data lies in.
        unsafe { to.copy_from_nonoverlapping(bytes.as_ptr(), len) };
    }
    behind
}

/// A counted sequence of numbers.
#[derive(Clone, Copy, Debug)]
pub struct Sequence<'a, T> {
    count: u16,
    elements: &'a [T],
}

impl<'a, T: Element> Field for &'a [T] {
    const TYPE: Type = T::SLICE;
    type Ready = Sequence<'a, T>;
    #[inline(always)]
    fn ready(self) -> Sequence<'a, T> {
        // More than can be counted is more than an event may hold: it will be lost as too big.
        Sequence { count: self.len().min(u16::MAX as usize) as u16, elements: self }
    }
}

impl<T: Element> Packed for Sequence<'_, T> {
    #[inline(always)]
    fn size(&self) -> usize {
        size_of::<u16>() + size_of_val(self.elements)
    }

    #[inline(always)]
    unsafe fn pack(&self, to: *mut u8) -> *mut u8 {
        // SAFETY: the size counts the count.
        let to = unsafe { Number(self.count).pack(to) };
        let len = size_of_val(self.elements);
        // SAFETY: a slice of numbers is readable as bytes.
        let bytes = unsafe { core::slice::from_raw_parts(self.elements.as_ptr().cast::<u8>(), len) };
        // SAFETY: the caller's promise.
        unsafe { pack_bytes(bytes, to) }
    }

    fn fragments(&self) -> [Fragment; 2] {
        [
            Fragment { from: (&raw const self.count).cast(), len: size_of::<u16>() },
            Fragment { from: self.elements.as_ptr().cast(), len: size_of_val(self.elements) },
        ]
    }
}

impl Field for core::time::Duration {
    const TYPE: Type = Type::Scalar(Scalar::unsigned(64));
    type Ready = Number<u64>;
    #[inline(always)]
    fn ready(self) -> Number<u64> {
        Number(self.as_nanos() as u64)
    }
}

impl Field for char {
    const TYPE: Type = Type::Scalar(Scalar::unsigned(32));
    type Ready = Number<u32>;
    #[inline(always)]
    fn ready(self) -> Number<u32> {
        Number(self as u32)
    }
}
