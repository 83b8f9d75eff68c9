//! Where the code has put the registers of the function that it stands in for.

use mote_layout::functions::Origin;

/// Registers as `mote_call_with_all_kept` leaves them: its own, a word, the flags, `rdx`, `rcx`, `rax`, and what stands
/// at the place of the return address.
#[repr(C)]
#[derive(Debug)]
pub(crate) struct General([u64; 13]);

/// The begin of what XSAVE writes (Intel SDM, volume 1, table 13-1).
#[repr(C)]
#[derive(Debug)]
pub(crate) struct Vectors {
    other: [u64; 20],
    /// `xmm0` and those behind it.
    xmm: [[u64; 2]; 16],
}

/// The registers that a function has got, or returns.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Kept<'k> {
    general: &'k General,
    vectors: &'k Vectors,
}

/// Where `rdi`, `rsi`, `rdx`, `rcx`, `r8` and `r9` are when a function begins (System V ABI, AMD64, 3.2.3).
const ARGUMENTS: [usize; 6] = [5, 6, 9, 10, 4, 3];
/// Where `rax` and `rdx` are when it has returned.
const RESULTS: [usize; 2] = [11, 9];

impl<'k> Kept<'k> {
    /// Those that the code has kept.
    ///
    /// # Safety
    /// The two are its third and fourth argument.
    pub(crate) unsafe fn new(general: *const General, vectors: *const Vectors) -> Kept<'k> {
        // SAFETY: the caller's promise.
        Kept { general: unsafe { &*general }, vectors: unsafe { &*vectors } }
    }

    /// The word that a value is taken from.
    pub(crate) fn word(self, origin: Origin) -> Option<u64> {
        let General(words) = self.general;
        let general = |places: &[usize], number: u8| words.get(*places.get(usize::from(number))?).copied();
        let vector = |number: u8| Some(*self.vectors.xmm.get(usize::from(number))?.first()?);
        match origin {
            Origin::Integer(number) => general(&ARGUMENTS, number),
            Origin::Result(number) => general(&RESULTS, number),
            Origin::Vector(number) | Origin::VectorResult(number) => vector(number),
            // Behind the return address, which is the last word.
            Origin::Stack => Some((&raw const *self.general).wrapping_add(1).expose_provenance() as u64),
        }
    }
}
