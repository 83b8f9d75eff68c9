//! Types that a field can have, and how each is packed.

use crate::arch::{is_in_one_page, short_text};
use crate::packer::{Packer, cut_at_nul, small};
use core::ffi::CStr;
use mote_layout::types::{Scalar, Type};
use mote_ring::Fragment;
use mote_ring::direct::Piece;

/// A type that a field of an event can have.
pub trait Field {
    /// The field's type in the event's description.
    const TYPE: Type;
    /// The value made ready for packing.
    type Ready: Packed;
    /// Makes the value ready.
    fn ready(self) -> Self::Ready;
}

/// A value that can be put into a record.
///
/// Sealed: `emit` relies on it that `pack` puts no more than `size_max` bytes.
pub trait Packed: Copy + Sealed {
    /// It takes always [`Packed::SIZE`] bytes.
    const IS_FIXED: bool = false;
    /// How many bytes, if it takes always as many.
    const SIZE: usize = 0;

    /// Its bytes as a number, zeros above, if there are always as many and at most 8.
    #[inline(always)]
    fn bits(&self) -> u64 {
        0
    }

    /// Whether it can ever be one piece.
    const IS_SHORT: bool = false;

    /// It as one piece, if it is short enough. `nul` gets a highest bit of one of its bytes when it is no piece all the
    /// same.
    #[inline(always)]
    fn piece(&self, _nul: &mut u64) -> Option<Piece> {
        None
    }

    /// Bytes that it takes, at most.
    fn size_max(&self) -> usize;

    /// Puts it behind the fields before it. The packer must have room for `size_max()` bytes.
    fn pack(self, packer: Packer) -> Packer;

    /// The value as one or two words of a filter's context (`mote_layout::context`).
    type Words: Copy;

    /// Makes the words. They may point into `self` and into what it borrows.
    fn words(&self) -> Self::Words;

    /// The value as at most two ranges of memory that live as long as `self` and what it borrows.
    fn fragments(&self) -> [Fragment; 2];
}

const NOTHING: Fragment = Fragment { from: core::ptr::null(), len: 0 };

pub(crate) mod sealed {
    /// Only types of this crate have it.
    pub trait Sealed {}
    /// A number, or an array of them: all of its bytes can be read.
    pub trait Plain: Copy {
        /// The number, extended to a word; where an array begins.
        fn word(&self) -> u64;
    }
    impl<T: Plain, const N: usize> Plain for [T; N] {
        #[inline(always)]
        fn word(&self) -> u64 {
            super::address(self.as_ptr())
        }
    }
}
use sealed::{Plain, Sealed};

/// A word that points to something.
#[inline(always)]
fn address<T>(pointer: *const T) -> u64 {
    pointer.expose_provenance() as u64
}

/// Where something begins, and where it ends.
#[inline(always)]
fn range<T>(elements: &[T]) -> [u64; 2] {
    let range = elements.as_ptr_range();
    [address(range.start), address(range.end)]
}

/// The bytes of numbers as they lie in memory, which is as they lie in a record: little-endian.
#[inline(always)]
fn bytes_of<T: Plain>(numbers: &[T]) -> &[u8] {
    // SAFETY: `Plain` is sealed, and only numbers have it: no padding.
    unsafe { core::slice::from_raw_parts(numbers.as_ptr().cast(), size_of_val(numbers)) }
}

fn fragment(bytes: &[u8]) -> Fragment {
    Fragment { from: bytes.as_ptr(), len: bytes.len() }
}

/// A number, or an array of them.
#[derive(Clone, Copy, Debug)]
pub struct Number<T>(T);

impl<T: Plain> Number<T> {
    #[inline(always)]
    fn bytes(&self) -> &[u8] {
        bytes_of(core::slice::from_ref(&self.0))
    }
}

impl<T: Plain> Sealed for Number<T> {}
impl<T: Plain> Packed for Number<T> {
    const IS_FIXED: bool = true;
    const SIZE: usize = size_of::<T>();

    #[inline(always)]
    fn bits(&self) -> u64 {
        match self.bytes().first_chunk() {
            Some(whole) => u64::from_le_bytes(*whole),
            None => small(self.bytes()),
        }
    }

    const IS_SHORT: bool = Self::SIZE <= size_of::<u64>();

    #[inline(always)]
    fn piece(&self, _nul: &mut u64) -> Option<Piece> {
        Self::IS_SHORT.then(|| Piece { value: self.bits(), len: Self::SIZE as u64 })
    }

    #[inline(always)]
    fn size_max(&self) -> usize {
        size_of::<T>()
    }

    #[inline(always)]
    fn pack(self, packer: Packer) -> Packer {
        packer.put_bytes(self.bytes())
    }

    type Words = u64;

    #[inline(always)]
    fn words(&self) -> u64 {
        self.0.word()
    }

    fn fragments(&self) -> [Fragment; 2] {
        [fragment(self.bytes()), NOTHING]
    }
}

/// A number that arrays and sequences can hold.
pub trait Element: Plain {
    /// The type of one.
    const SCALAR: Scalar;
    /// The type of a slice of them.
    const SLICE: Type = Type::Sequence(Self::SCALAR);
}

macro_rules! numbers {
    ($($rust:ty as $word:expr => $scalar:expr $(, $slice:expr)?;)*) => {$(
        impl Plain for $rust {
            #[inline(always)]
            fn word(&self) -> u64 {
                let word: fn($rust) -> u64 = $word;
                word(*self)
            }
        }
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
    u8 as u64::from => Scalar::unsigned(8), Type::Bytes;
    u16 as u64::from => Scalar::unsigned(16);
    u32 as u64::from => Scalar::unsigned(32);
    u64 as |n| n => Scalar::unsigned(64);
    usize as |n| n as u64 => Scalar::unsigned(64);
    i8 as |n| n as u64 => Scalar::signed(8);
    i16 as |n| n as u64 => Scalar::signed(16);
    i32 as |n| n as u64 => Scalar::signed(32);
    i64 as |n| n as u64 => Scalar::signed(64);
    isize as |n| n as u64 => Scalar::signed(64);
    f32 as |n| f64::from(n).to_bits() => Scalar::F32;
    f64 as f64::to_bits => Scalar::F64;
    bool as u64::from => Scalar::Bool;
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

/// As [`short_text`], of a text that may lie anywhere; and whether it has a NUL.
#[cold]
#[inline(never)]
fn short_text_apart(text: &[u8]) -> (u64, bool) {
    (small(text), text.contains(&0))
}

/// A text up to its first NUL; packed with a NUL.
#[derive(Clone, Copy, Debug)]
pub struct Text<'a>(&'a [u8]);

impl<'a> Field for &'a str {
    const TYPE: Type = Type::Str;
    type Ready = Text<'a>;
    #[inline(always)]
    fn ready(self) -> Text<'a> {
        Text(self.as_bytes())
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

impl Sealed for Text<'_> {}
impl Packed for Text<'_> {
    const IS_SHORT: bool = true;

    // How many bytes it takes follows from its length, which is known before its bytes are. So a NUL inside has to be
    // looked for; it is rare.
    #[inline(always)]
    fn piece(&self, nul: &mut u64) -> Option<Piece> {
        let Text(text) = *self;
        let value = if text.len().wrapping_sub(1) < 7 && is_in_one_page(text.as_ptr()) {
            // SAFETY: it has a byte, and less than 8.
            unsafe { short_text(text.as_ptr(), text.len(), nul) }
        } else {
            core::hint::cold_path();
            if text.len() > 7 {
                return None;
            }
            let (value, has_nul) = short_text_apart(text);
            *nul |= u64::from(has_nul) << 7;
            value
        };
        Some(Piece { value, len: text.len() as u64 + 1 })
    }

    #[inline(always)]
    fn size_max(&self) -> usize {
        self.0.len() + 1
    }

    // A NUL inside would end the text for the reader of the trace; so it does for us.
    #[inline(always)]
    fn pack(self, packer: Packer) -> Packer {
        packer.put_text(self.0)
    }

    type Words = [u64; 2];

    #[inline(always)]
    fn words(&self) -> [u64; 2] {
        range(self.0)
    }

    fn fragments(&self) -> [Fragment; 2] {
        [fragment(cut_at_nul(self.0)), fragment(&[0])]
    }
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

impl<T: Element> Sealed for Sequence<'_, T> {}
impl<T: Element> Packed for Sequence<'_, T> {
    #[inline(always)]
    fn size_max(&self) -> usize {
        size_of::<u16>() + size_of_val(self.elements)
    }

    #[inline(always)]
    fn pack(self, packer: Packer) -> Packer {
        packer.put(u64::from(self.count), size_of::<u16>()).put_bytes(bytes_of(self.elements))
    }

    type Words = [u64; 2];

    #[inline(always)]
    fn words(&self) -> [u64; 2] {
        range(self.elements)
    }

    fn fragments(&self) -> [Fragment; 2] {
        [fragment(bytes_of(core::slice::from_ref(&self.count))), fragment(bytes_of(self.elements))]
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
