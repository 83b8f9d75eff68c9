//! Objects that clang compiled with `-target bpf`.
//!
//! | module | job |
//! |---|---|
//! | `file` | sections, symbols and relocations of the ELF file |
//! | `btf` | types, as far as definitions of maps need them |
//! | `maps` | maps: `.maps` (defined by types), `maps` (by `struct bpf_map_def`), `.rodata`, `.data`, `.bss` |
//! | `object` | programs and maps |
//! | `link` | a program with the functions that it calls, and with its relocations resolved |
//!
//! # What becomes a program
//! Each function of a section other than `.text`, as for libbpf; when there is none, each global function of `.text`.
//! Those of `.text`, and those that programs call, are put behind the programs that call them.
//!
//! # What is resolved
//! `R_BPF_64_64` (a map, or a place in `.rodata`, `.data` or `.bss`, which are array maps of one value) and
//! `R_BPF_64_32` (a call of a function of the object, or of an undefined one with the name of a helper). Relocations by
//! types (CO-RE) are not applied: an object sees its structures as it was compiled.
//!
//! The input is not trusted: whatever it holds, the result is an object or an [`ObjectError`]. What comes out is
//! instructions, not verified ones.

mod btf;
mod error;
mod file;
mod link;
mod maps;
mod object;

pub use error::ObjectError;
pub use object::{Map, Program};

use mote_bpf::{Helper, MapShape};

/// Programs and maps of an ELF object, linked and ready to be verified.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Object {
    /// In the order of the file.
    pub programs: Vec<Program>,
    /// In the order of their indices.
    pub maps: Vec<Map>,
}

impl Object {
    /// Reads an object. Undefined functions are looked for among `helpers`, and those that [`mote_bpf::helper`] names.
    ///
    /// # Errors
    /// [`ObjectError`].
    pub fn read(bytes: &[u8], helpers: &[Helper]) -> Result<Object, ObjectError> {
        let file = file::File::read(bytes)?;
        let maps = maps::Maps::read(&file)?;
        let programs = link::programs(&file, &maps, helpers)?;
        Ok(Object { programs, maps: maps.all() })
    }

    /// The program of this name, or else the first one of the section of this name.
    pub fn program(&self, name: &str) -> Option<&Program> {
        let named = self.programs.iter().find(|program| program.name == name);
        named.or_else(|| self.programs.iter().find(|program| program.section == name))
    }

    /// Shapes of the maps, as [`mote_bpf::Environment`] takes them.
    pub fn shapes(&self) -> Vec<MapShape> {
        self.maps.iter().map(|map| map.shape).collect()
    }
}

#[cfg(test)]
mod tests;
