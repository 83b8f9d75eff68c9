//! The fields of an event together: `(a, (b, (c, ())))`, of any number.

use crate::field::Packed;
use crate::field::sealed::Sealed;
use crate::packer::Packer;
use mote_ring::Fragment;
use mote_ring::direct::Piece;

/// Values that follow one another in a record.
///
/// Sealed: `emit` relies on it that `pack` puts no more than `size_max` bytes.
pub trait Fields: Copy + Sealed {
    /// They take always [`Fields::SIZE`] bytes.
    const ARE_FIXED: bool;
    /// How many bytes, if they take always as many.
    const SIZE: usize;
    /// How many there are.
    const COUNT: usize;
    /// Bytes of the first one, if it takes always as many; 0 when there is none.
    const FIRST: usize;

    /// The first one's bytes as a number (`Packed::bits`); 0 when there is none.
    fn first_bits(&self) -> u64;
    /// As `first_bits`, of the second one.
    fn second_bits(&self) -> u64;

    /// Whether they can ever be one piece each.
    const ARE_SHORT: bool;

    /// Puts a piece of each behind one another, from `to` on; false when one of them is too long. `nul` gets a highest
    /// bit of one of its bytes when a text has a NUL inside, and is no piece.
    ///
    /// # Safety
    /// There is room for [`Fields::COUNT`] pieces.
    unsafe fn put_pieces(&self, to: *mut Piece, nul: &mut u64) -> bool;

    /// Room for the fragments of all of them.
    type Fragments: Default + AsFragments;

    /// Bytes that they take together, at most.
    fn size_max(&self) -> usize;

    /// Puts them behind one another. The packer must have room for `size_max()` bytes.
    fn pack(self, packer: Packer) -> Packer;

    /// Their words in the context of a filter, behind one another.
    type Words: Copy;

    /// Makes the words. They may point into `self` and into what it borrows.
    fn words(&self) -> Self::Words;

    /// Puts their fragments into `list` and returns those that are used.
    fn fragments<'l>(&self, list: &'l mut Self::Fragments) -> &'l [Fragment] {
        let slots = list.slots();
        let mut used = 0;
        self.add_fragments(slots, &mut used);
        slots.get(..used).unwrap_or(&[])
    }

    /// Puts their fragments into `slots` from `used` on.
    fn add_fragments(&self, slots: &mut [Fragment], used: &mut usize);
}

/// Room for fragments that grows by two with every field, contiguous in memory.
pub trait AsFragments {
    /// The whole room, also what is not used yet.
    fn slots(&mut self) -> &mut [Fragment];
}

/// The words of a field, before those of the others.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Words<A, B> {
    own: A,
    others: B,
}

/// Room for the two fragments of a field, before the room of the others.
#[repr(C)]
#[derive(Debug)]
pub struct Room<R> {
    own: [Fragment; 2],
    others: R,
}

/// No room.
#[repr(C)]
#[derive(Debug, Default)]
pub struct NoRoom;

impl<R: Default> Default for Room<R> {
    fn default() -> Room<R> {
        let nothing = Fragment { from: core::ptr::null(), len: 0 };
        Room { own: [nothing; 2], others: R::default() }
    }
}

impl AsFragments for NoRoom {
    fn slots(&mut self) -> &mut [Fragment] {
        &mut []
    }
}

impl<R> AsFragments for Room<R> {
    fn slots(&mut self) -> &mut [Fragment] {
        let count = size_of::<Self>() / size_of::<Fragment>();
        // SAFETY: `Room` is `repr(C)` and, down to `NoRoom`, consists of fragments only.
        unsafe { core::slice::from_raw_parts_mut((&raw mut *self).cast(), count) }
    }
}

impl Sealed for () {}
impl Fields for () {
    const ARE_FIXED: bool = true;
    const SIZE: usize = 0;
    const COUNT: usize = 0;
    const FIRST: usize = 0;

    #[inline(always)]
    fn first_bits(&self) -> u64 {
        0
    }

    #[inline(always)]
    fn second_bits(&self) -> u64 {
        0
    }

    const ARE_SHORT: bool = true;

    #[inline(always)]
    unsafe fn put_pieces(&self, _to: *mut Piece, _nul: &mut u64) -> bool {
        true
    }

    type Fragments = NoRoom;

    #[inline(always)]
    fn size_max(&self) -> usize {
        0
    }

    #[inline(always)]
    fn pack(self, packer: Packer) -> Packer {
        packer
    }

    type Words = [u64; 0];

    #[inline(always)]
    fn words(&self) -> [u64; 0] {
        []
    }

    fn add_fragments(&self, _slots: &mut [Fragment], _used: &mut usize) {}
}

impl<A: Packed, B: Fields> Sealed for (A, B) {}
impl<A: Packed, B: Fields> Fields for (A, B) {
    const ARE_FIXED: bool = A::IS_FIXED && B::ARE_FIXED;
    const SIZE: usize = A::SIZE + B::SIZE;
    const COUNT: usize = 1 + B::COUNT;
    const FIRST: usize = A::SIZE;

    #[inline(always)]
    fn first_bits(&self) -> u64 {
        self.0.bits()
    }

    #[inline(always)]
    fn second_bits(&self) -> u64 {
        self.1.first_bits()
    }

    const ARE_SHORT: bool = A::IS_SHORT && B::ARE_SHORT;

    // Each is stored when it is made: all of them together would not find room in registers.
    #[inline(always)]
    unsafe fn put_pieces(&self, to: *mut Piece, nul: &mut u64) -> bool {
        let Some(own) = self.0.piece(nul) else { return false };
        // SAFETY: the caller's promise.
        unsafe { to.write(own) };
        // SAFETY: the caller's promise.
        unsafe { self.1.put_pieces(to.wrapping_add(1), nul) }
    }

    type Fragments = Room<B::Fragments>;

    #[inline(always)]
    fn size_max(&self) -> usize {
        self.0.size_max() + self.1.size_max()
    }

    #[inline(always)]
    fn pack(self, packer: Packer) -> Packer {
        self.1.pack(self.0.pack(packer))
    }

    type Words = Words<A::Words, B::Words>;

    #[inline(always)]
    fn words(&self) -> Self::Words {
        Words { own: self.0.words(), others: self.1.words() }
    }

    fn add_fragments(&self, slots: &mut [Fragment], used: &mut usize) {
        for fragment in self.0.fragments().into_iter().filter(|fragment| fragment.len > 0) {
            if let Some(slot) = slots.get_mut(*used) {
                *slot = fragment;
                *used += 1;
            }
        }
        self.1.add_fragments(slots, used);
    }
}
