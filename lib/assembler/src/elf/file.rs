//! Sections, symbols and relocations of an ELF file, copied out of it.

use super::ObjectError;
use object::read::elf::ElfFile64;
use object::{
    Object as _, ObjectSection as _, ObjectSymbol as _, RelocationFlags, RelocationTarget, SectionFlags,
    SectionIndex, SectionKind, SymbolKind, SymbolSection, elf,
};
use std::collections::HashMap;

/// A relocation: what the instruction at `offset` refers to.
#[derive(Clone, Copy, Debug)]
pub(super) struct Relocation {
    pub(super) offset: u64,
    /// `R_BPF_...`
    pub(super) kind: u32,
    /// Index in [`File::symbols`].
    pub(super) symbol: usize,
}

#[derive(Debug, Default)]
pub(super) struct Section<'a> {
    pub(super) name: &'a str,
    /// Without content for `.bss`.
    pub(super) data: &'a [u8],
    pub(super) size: u64,
    pub(super) code: bool,
    /// By their offset.
    pub(super) relocations: Vec<Relocation>,
}

#[derive(Debug, Default)]
pub(super) struct Symbol<'a> {
    pub(super) name: &'a str,
    /// Index in [`File::sections`]; none for undefined ones.
    pub(super) section: Option<usize>,
    /// Offset in the section.
    pub(super) value: u64,
    pub(super) size: u64,
    pub(super) function: bool,
    pub(super) global: bool,
}

#[derive(Debug, Default)]
pub(super) struct File<'a> {
    /// By their number in the file.
    pub(super) sections: Vec<Section<'a>>,
    /// By their number in the file.
    pub(super) symbols: Vec<Symbol<'a>>,
    /// Functions by section and offset.
    functions: HashMap<(usize, u64), usize>,
}

impl Section<'_> {
    /// The relocation of the instruction at an offset.
    pub(super) fn relocation(&self, offset: u64) -> Option<Relocation> {
        let found = self.relocations.binary_search_by_key(&offset, |relocation| relocation.offset);
        found.ok().map(|at| self.relocations[at])
    }
}

/// Most bytes of variables that a section without content may claim.
const BSS_MAX: u64 = 1 << 30;

impl<'a> File<'a> {
    pub(super) fn read(bytes: &'a [u8]) -> Result<File<'a>, ObjectError> {
        let broken = |error: object::Error| ObjectError::Elf(error.to_string());
        let elf = ElfFile64::<object::LittleEndian>::parse(bytes).map_err(broken)?;
        let machine = elf.elf_header().e_machine.get(object::LittleEndian);
        if machine != elf::EM_BPF {
            return Err(ObjectError::Machine(machine.0));
        }
        let mut file = File::default();
        for symbol in elf.symbols() {
            // Numbers of symbols begin at 1: the first is the null symbol.
            while file.symbols.len() < symbol.index().0 {
                file.symbols.push(Symbol::default());
            }
            let read = Symbol {
                name: symbol.name().map_err(broken)?,
                section: match symbol.section() {
                    SymbolSection::Section(SectionIndex(index)) => Some(index),
                    _ => None,
                },
                value: symbol.address(),
                size: symbol.size(),
                function: symbol.kind() == SymbolKind::Text,
                global: symbol.is_global(),
            };
            if let Some(section) = read.section.filter(|_| read.function && read.size > 0) {
                file.functions.insert((section, read.value), file.symbols.len());
            }
            file.symbols.push(read);
        }
        for section in elf.sections() {
            while file.sections.len() < section.index().0 {
                file.sections.push(Section::default());
            }
            let read = read_section(&section).map_err(|error| ObjectError::Section {
                section: String::from_utf8_lossy(section.name_bytes().unwrap_or(b"?")).into_owned(),
                problem: error.to_string(),
            })?;
            file.sections.push(read);
        }
        Ok(file)
    }

    /// The function that begins at this place.
    pub(super) fn function_at(&self, section: usize, offset: u64) -> Option<usize> {
        self.functions.get(&(section, offset)).copied()
    }
}

fn read_section<'a>(
    section: &object::read::elf::ElfSection64<'a, '_, object::LittleEndian>,
) -> object::Result<Section<'a>> {
    let bss = section.kind() == SectionKind::UninitializedData;
    let code = matches!(
        section.flags(),
        SectionFlags::Elf { sh_flags, .. } if sh_flags.0 & elf::SHF_EXECINSTR.0 != 0
    );
    let mut relocations: Vec<_> = section
        .relocations()
        .filter_map(|(offset, relocation)| match (relocation.flags(), relocation.target()) {
            (RelocationFlags::Elf { r_type }, RelocationTarget::Symbol(symbol)) => {
                Some(Relocation { offset, kind: r_type.0, symbol: symbol.0 })
            }
            _ => None,
        })
        .collect();
    relocations.sort_by_key(|relocation| relocation.offset);
    Ok(Section {
        name: section.name()?,
        data: if bss { &[] } else { section.data()? },
        size: if bss { section.size().min(BSS_MAX) } else { section.size() },
        code,
        relocations,
    })
}
