//! Places in memory that know their size and sign: members of structures, and the program's own frame.

use crate::expr::{Expr, Node};
use crate::registers::Value;
use mote_bpf::op::Size;
use std::marker::PhantomData;
use std::ops::Deref;
use std::sync::atomic::{AtomicI32, AtomicI64, AtomicU8, AtomicU16, AtomicU32, AtomicU64};

/// What is loaded and stored as a whole: a number, or a pointer.
pub trait Scalar {
    /// Bytes.
    const SIZE: Size;
    /// Whether loads extend the sign.
    const SIGNED: bool;
}

macro_rules! scalars {
    ($($ty:ty, $size:ident, $signed:literal;)*) => {$(
        impl Scalar for $ty {
            const SIZE: Size = Size::$size;
            const SIGNED: bool = $signed;
        }
    )*};
}

scalars! {
    u8, B, false;
    u16, H, false;
    u32, W, false;
    u64, DW, false;
    i8, B, true;
    i16, H, true;
    i32, W, true;
    i64, DW, true;
    AtomicU8, B, false;
    AtomicU16, H, false;
    AtomicU32, W, false;
    AtomicU64, DW, false;
    AtomicI32, W, true;
    AtomicI64, DW, true;
}

impl<S> Scalar for *const S {
    const SIZE: Size = Size::DW;
    const SIGNED: bool = false;
}

/// Where a member of type `T` lies in a structure `S`.
///
/// `S` may be a structure of Rust (see [`field!`](crate::field)), or only stand for one of the kernel, whose offsets
/// its BTF tells (see [`Field::found`]).
pub struct Field<S, T> {
    offset: i32,
    types: PhantomData<fn(S) -> T>,
}

impl<S, T> Clone for Field<S, T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<S, T> Copy for Field<S, T> {}

impl<S, T> PartialEq for Field<S, T> {
    fn eq(&self, other: &Self) -> bool {
        self.offset == other.offset
    }
}

impl<S, T> Eq for Field<S, T> {}

impl<S, T> std::fmt::Debug for Field<S, T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Field({})", self.offset)
    }
}

/// The member of a `#[repr(C)]` structure as a [`Field`]: `field!(Entry, state.switches)`.
///
/// A member that is not there, or is used as if it had another type, does not compile:
///
/// ```compile_fail
/// #[repr(C)]
/// struct Entry { tid: u32 }
/// let wrong: mote_builder::Field<Entry, u64> = mote_builder::field!(Entry, tid);
/// ```
#[macro_export]
macro_rules! field {
    ($structure:ty, $($member:tt).+) => {
        $crate::Field::<$structure, _>::of(
            ::core::mem::offset_of!($structure, $($member).+),
            |structure: &$structure| &structure.$($member).+,
        )
    };
}

impl<S, T> Field<S, T> {
    /// Of [`field!`](crate::field), which has the offset from the compiler.
    #[doc(hidden)]
    pub const fn of(offset: usize, _: fn(&S) -> &T) -> Field<S, T> {
        Field { offset: offset as i32, types: PhantomData }
    }

    /// A field that was found at this offset, with so many bytes: `None` when `T` has another size.
    pub fn found(offset: u32, bytes: u32) -> Option<Field<S, T>> {
        let fits = bytes as usize == size_of::<T>();
        Some(Field { offset: i32::try_from(offset).ok()?, types: PhantomData }).filter(|_| fits)
    }

    /// Bytes from the structure's beginning.
    pub const fn offset(self) -> usize {
        self.offset as usize
    }
}

impl<S, T, const N: usize> Field<S, [T; N]> {
    /// The elements of an array, each as a field.
    pub fn elements(self) -> impl Iterator<Item = Field<S, T>> {
        let offset = self.offset;
        (0..N).map(move |at| Field { offset: offset + (at * size_of::<T>()) as i32, types: PhantomData })
    }
}

/// The address of an `S`, in a register: a [`Value`] that knows what it points to.
#[derive(Debug)]
#[must_use]
pub struct Pointer<S> {
    value: Value,
    types: PhantomData<fn(S)>,
}

impl Value {
    /// The value is the address of an `S`. That is the caller's word; the program's verifier decides.
    pub fn to<S>(self) -> Pointer<S> {
        Pointer { value: self, types: PhantomData }
    }
}

impl<S> Deref for Pointer<S> {
    type Target = Value;

    fn deref(&self) -> &Value {
        &self.value
    }
}

impl<S> Pointer<S> {
    /// The member's place, to be loaded or stored.
    pub fn at<T: Scalar>(&self, field: Field<S, T>) -> Place<T> {
        Place::new(Expr::from(self), field.offset)
    }

    /// The place of an element of an array; `index` is not checked here.
    pub fn element<T: Scalar, const N: usize>(
        &self,
        field: Field<S, [T; N]>,
        index: impl Into<Expr>,
    ) -> Place<T> {
        let bits = T::SIZE.bytes().trailing_zeros();
        Place::new((index.into() << bits) + self, field.offset)
    }

    /// The address of a member, for helpers that want a pointer.
    pub fn address<T>(&self, field: Field<S, T>) -> Expr {
        Expr::from(self) + field.offset
    }

    /// The same address as a plain number.
    pub fn into_value(self) -> Value {
        self.value
    }
}

/// Bytes at an offset from an address, of a size that is known only when the program is made.
#[derive(Debug)]
#[must_use]
pub struct Memory {
    pub(crate) base: Expr,
    pub(crate) offset: i32,
    pub(crate) size: Size,
    pub(crate) signed: bool,
}

impl Memory {
    /// `size` bytes at `base + offset`, without a sign.
    pub fn new(base: impl Into<Expr>, offset: i32, size: Size) -> Memory {
        Memory { base: base.into(), offset, size, signed: false }
    }
}

/// A `T` at an offset from an address. As an expression it is what lies there.
#[derive(Debug)]
#[must_use]
pub struct Place<T> {
    base: Expr,
    offset: i32,
    types: PhantomData<fn() -> T>,
}

impl<T> Place<T> {
    fn new(base: Expr, offset: i32) -> Place<T> {
        Place { base, offset, types: PhantomData }
    }
}

impl<S> Place<*const S> {
    /// A member of the structure that the pointer at this place points to.
    pub fn then<T: Scalar>(self, field: Field<S, T>) -> Place<T> {
        Place::new(Expr::from(self), field.offset)
    }
}

impl<T: Scalar> From<Place<T>> for Memory {
    fn from(place: Place<T>) -> Memory {
        Memory { base: place.base, offset: place.offset, size: T::SIZE, signed: T::SIGNED }
    }
}

impl Expr {
    /// What lies at this address is a `T`.
    pub fn place<T: Scalar>(self) -> Place<T> {
        Place::new(self, 0)
    }

    /// A member of the `S` at this address.
    pub fn at<S, T: Scalar>(self, field: Field<S, T>) -> Place<T> {
        Place::new(self, field.offset)
    }
}

/// A `T` in the program's frame, at an offset (negative) from its end.
pub struct Local<T> {
    offset: i16,
    types: PhantomData<fn() -> T>,
}

impl<T> Clone for Local<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Local<T> {}

impl<T> std::fmt::Debug for Local<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Local({})", self.offset)
    }
}

impl<T> Local<T> {
    /// The one at this offset from the end of the frame, which the caller has divided up by itself.
    pub const fn at(offset: i16) -> Local<T> {
        Local { offset, types: PhantomData }
    }

    /// Bytes from the end of the frame, negative.
    pub const fn offset(self) -> i16 {
        self.offset
    }

    /// The address on the stack, for helpers that want a pointer.
    pub fn address(self) -> Expr {
        Expr(Node::Frame(self.offset.into()))
    }

    /// The member `field` of the structure on the stack.
    pub fn member<U: Scalar>(self, field: Field<T, U>) -> Place<U> {
        Place::new(Expr(Node::Frame(0)), i32::from(self.offset) + field.offset)
    }
}

impl<T, const N: usize> Local<[T; N]> {
    /// The elements of an array.
    pub fn elements(self) -> impl Iterator<Item = Local<T>> {
        (0..N).map(move |at| Local::at(self.offset + (at * size_of::<T>()) as i16))
    }
}

impl<T: Scalar> From<Local<T>> for Memory {
    fn from(local: Local<T>) -> Memory {
        let base = Expr(Node::Frame(0));
        Memory { base, offset: local.offset.into(), size: T::SIZE, signed: T::SIGNED }
    }
}
