//! The code that was executed, by address: what packets leave out.
//!
//! [`Image`] is what a reader of the flow asks. [`Memory`] is one of bytes and of ELF files. An image whose code
//! changes with time gives each version of an address space a [`Space`] of its own: what was decoded for one version is
//! never used for another.

mod elf;
mod memory;

pub use elf::NotMapped;
pub use memory::{Memory, Overlap};

use thiserror::Error;

/// An address space, or one version of it: what an address is an address of.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Space(pub u64);

impl Space {
    /// All address spaces: of code that is the same in each of them, as the kernel's.
    pub const ANY: Space = Space(u64::MAX);
}

/// No code is known at an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("no code is known at {address:#x}; add the file that was mapped there to the image")]
pub struct NoImage {
    /// The address.
    pub address: u64,
}

/// Code by address space and address.
pub trait Image {
    /// The bytes from `address` on, at least one, up to the end of the segment that holds it.
    ///
    /// # Errors
    /// No segment holds the address.
    fn read(&self, space: Space, address: u64) -> Result<&[u8], NoImage>;

    /// The address space that a PIP packet names: CR3, and whether it is a guest's.
    fn space(&self, cr3: u64, is_guest: bool) -> Space {
        // The low 5 bits of the packet's CR3 are 0 (SDM 33.4.2.7).
        Space(cr3 | u64::from(is_guest))
    }
}

impl<I: Image + ?Sized> Image for &I {
    fn read(&self, space: Space, address: u64) -> Result<&[u8], NoImage> {
        (**self).read(space, address)
    }

    fn space(&self, cr3: u64, is_guest: bool) -> Space {
        (**self).space(cr3, is_guest)
    }
}
