//! Code of ELF files: their executable segments, at the address where they were loaded.

use super::{Memory, Overlap, Space};
use object::read::elf::{FileHeader, ProgramHeader};
use object::{Endianness, FileKind, elf};
use thiserror::Error;

/// The code of a file cannot be part of an image.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum NotMapped {
    /// The file is no ELF file that can be read.
    #[error("cannot read the segments of an ELF file: {0}")]
    Elf(#[from] object::Error),
    /// It is of another format.
    #[error("cannot read the segments of a file that is not ELF")]
    Format,
    /// A segment has no place.
    #[error(transparent)]
    Overlap(#[from] Overlap),
}

impl<'a> Memory<'a> {
    /// Adds the executable segments of an ELF file that was loaded `bias` bytes above the addresses that it has in the
    /// file; returns how many they are. Only what is in the file is added, no memory that is zero when it is loaded.
    ///
    /// # Errors
    /// The file cannot be read, or a segment overlaps another one; segments before that one have been added.
    pub fn add_elf(&mut self, space: Space, file: &'a [u8], bias: u64) -> Result<usize, NotMapped> {
        match FileKind::parse(file)? {
            FileKind::Elf64 => self.add_segments::<elf::FileHeader64<Endianness>>(space, file, bias),
            FileKind::Elf32 => self.add_segments::<elf::FileHeader32<Endianness>>(space, file, bias),
            _ => Err(NotMapped::Format),
        }
    }

    fn add_segments<H: FileHeader<Endian = Endianness>>(
        &mut self,
        space: Space,
        file: &'a [u8],
        bias: u64,
    ) -> Result<usize, NotMapped> {
        let header = H::parse(file)?;
        let endian = header.endian()?;
        let mut count = 0;
        for segment in header.program_headers(endian, file)? {
            let is_code =
                segment.p_type(endian) == elf::PT_LOAD && segment.p_flags(endian).contains(elf::PF_X);
            if !is_code {
                continue;
            }
            let bytes = segment.data(endian, file).map_err(|()| NotMapped::Format)?;
            let address: u64 = segment.p_vaddr(endian).into();
            self.add(space, bias.wrapping_add(address), bytes)?;
            count += 1;
        }
        Ok(count)
    }
}
