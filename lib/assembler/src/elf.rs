//! Objects that clang compiled with `-target bpf`.
//!
//! | module | job |
//! |---|---|
//! | `file` | sections, symbols and relocations of the ELF file |
//! | `btf` | types, as far as definitions of maps need them |
//! | `maps` | maps: `.maps` (defined by types), `maps` (by `struct bpf_map_def`), `.rodata`, `.data`, `.bss` |
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
mod file;
mod link;
mod maps;

use mote_bpf::{Helper, Insn, MapShape};

/// Why an object cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ObjectError {
    /// No ELF file, or a broken one.
    #[error("not a whole ELF file: {0}")]
    Elf(String),
    /// An ELF file, of another kind.
    #[error("ELF file is not for BPF (machine {0}); compile it with clang -target bpf")]
    Machine(u16),
    /// A section is cut, or is not what its name says.
    #[error("section {section}: {problem}")]
    Section {
        /// Its name.
        section: String,
        /// What is wrong.
        problem: String,
    },
    /// Type information is broken, or missing where a map is defined by it.
    #[error("type information (.BTF): {0}; compile with -g")]
    Btf(String),
    /// A map is not one that there is here.
    #[error("map {map}: {problem}")]
    Map {
        /// Its name.
        map: String,
        /// What is wrong.
        problem: String,
    },
    /// A function refers to something that cannot be resolved.
    #[error("function {function}, instruction {insn}: {problem}")]
    Link {
        /// Its name.
        function: String,
        /// Slot in it.
        insn: usize,
        /// What is wrong.
        problem: String,
    },
    /// There is no function that could be a program.
    #[error("object has no programs; put a function into a section of its own")]
    Empty,
}

/// A program of an object, with all functions that it calls behind it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Program {
    /// Name of the function that it begins with.
    pub name: String,
    /// Name of the section that the function lies in: what the program is for, by convention of libbpf.
    pub section: String,
    /// Instructions in which maps are named by their index in [`Object::maps`].
    pub insns: Vec<Insn>,
}

/// A map of an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Map {
    /// Name of the variable, or of the section.
    pub name: String,
    /// Its shape, which is sound.
    pub shape: MapShape,
    /// What its one value begins with, for sections of variables; else empty, as for `.bss`, which is zeros.
    pub initial: Vec<u8>,
}

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
