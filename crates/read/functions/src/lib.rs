//! The functions of a program or library, and how a probe can be put at the entry of each.
//!
//! ```text
//! file ─ Binary ─▶ code, data, symbols, frames ─ starts ─▶ where functions begin and end
//!                                              ─ decode ─▶ what is jumped to ─ entry ─▶ a Way for each function
//! ```
//! The source of the idea is iProbe (Arora et al. 2013, section II: ColdPatch looks for places, HotPatch writes jumps).
//! The tactics beyond its placeholders: instruction punning (Chamith et al., PLDI 2017), and windows of several
//! instructions that are moved away. Nothing is guessed: what cannot be shown to be safe is left to a breakpoint, and
//! [`Way`] says why.
//!
//! # Limits
//! A file without section headers has no functions here. Parts of functions that the compiler has moved away are known
//! by their name (`.cold`) or by their frame, which does not begin as that of a function does; such a part without
//! either is taken for a function.
#![forbid(unsafe_code)]

mod arch;
pub mod arguments;
mod binary;
mod code;
mod lists;
mod object;
mod pattern;
mod starts;
mod way;

pub use arch::ends;
pub use code::{Code, Window};
pub use lists::{Listed, Lists, beside_of};
pub use object::{Object, Part, similar_names};
pub use pattern::{DECLARED, Pattern, Values};
pub use starts::LeftOut;
pub use way::{Reason, Way};

use binary::Binary;
use mote_symbol::{Image, ImageError, Table};
use starts::{Start, Starts};
use std::path::Path;

/// The functions of a file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Functions {
    /// GNU build id in hex; empty when the file has none.
    pub build_id: String,
    /// By address.
    pub functions: Vec<Function>,
    /// What begins like a function, and is none.
    pub left_out: LeftOut,
    /// Where the program begins, which nobody calls; 0 of most libraries.
    pub entry: u64,
    /// The compiler of Go has made it.
    pub is_go: bool,
}

/// A function as it lies in the file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Function {
    /// Where it begins, in the file's own address space.
    pub address: u64,
    /// Bytes, without the padding behind it.
    pub len: u64,
    /// Bytes up to what begins next, or to the end of the section: what a jump at its entry may take.
    pub room: u64,
    /// Name as in the symbol table; `None` where only the frame is known, as in a stripped file.
    pub name: Option<String>,
    /// How its entry can be probed.
    pub way: Way,
    /// How, where a process has no free memory for a way that is [`Way::Punned`]; else the same.
    pub otherwise: Way,
    /// Its placeholder, where that is elsewhere; else the way is that of the function's first bytes.
    pub pad: Option<Pad>,
}

/// What the symbols begin with of code that V8 has generated when it was built.
pub const BUILTINS_OF_V8: &str = "Builtins_";

/// A placeholder that was written into the file (`mote coldpatch --rewrite`): the function's entry jumps there, and
/// what the jump has taken the place of stands behind it. Nothing else leads there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pad {
    /// Its address, in the file's own address space.
    pub address: u64,
    /// Where it is in the file.
    pub offset: u64,
}

impl Function {
    /// Where its probe lies, in the file's own address space.
    #[must_use]
    pub fn probed_at(&self) -> u64 {
        self.pad.map_or(self.address, |pad| pad.address)
    }
}

/// Finds the functions of a file, with the names in its separate debug file, if there is one.
///
/// # Errors
/// It cannot be read, is no ELF file, or is damaged. One of another processor than this program has no functions.
///
/// # Cost
/// Decodes all of its code once: some 100 MB/s. At most 512 MiB of sections are loaded; of tables of jumps at most
/// 8 M entries are read: where there are more, any place may be jumped to.
pub fn read(image: &Image) -> Result<Functions, ImageError> {
    read_with(image, &Table::default())
}

/// The same, with the names that something else tells: a probe list.
///
/// # Errors
/// As [`read`].
pub fn read_with(image: &Image, others: &Table) -> Result<Functions, ImageError> {
    let binary = mote_symbol::with_elf(&image.path, binary::Reading(arch::ARCHITECTURE))?;
    let binary = within_bounds(binary, &image.path)?;
    let mut symbols = image.table.clone();
    if let Some(separate) = mote_symbol::separate_symbols(image) {
        symbols.merge(&separate);
    }
    symbols.merge(others);
    Ok(found(&binary, &symbols, image))
}

/// The same from bytes, which are called `path`.
///
/// # Errors
/// As [`read`].
pub fn from_bytes(path: &Path, bytes: &[u8]) -> Result<Functions, ImageError> {
    let image = Image::from_bytes(path, bytes)?;
    let binary = mote_symbol::with_bytes(path, bytes, binary::Reading(arch::ARCHITECTURE))?;
    let binary = within_bounds(binary, path)?;
    Ok(found(&binary, &image.table, &image))
}

fn within_bounds(binary: Option<Binary>, path: &Path) -> Result<Binary, ImageError> {
    binary.ok_or_else(|| ImageError::Damaged {
        path: path.to_owned(),
        what: "its sections have more than 512 MiB together".to_owned(),
    })
}

fn found(binary: &Binary, symbols: &Table, image: &Image) -> Functions {
    let starts = starts::find(binary, symbols);
    let targets = arch::targets(binary, &starts.begins);
    functions(binary, &targets, &starts, image)
}

fn functions(binary: &Binary, targets: &arch::Targets, starts: &Starts, image: &Image) -> Functions {
    let mut functions = Vec::with_capacity(starts.functions.len());
    for start in &starts.functions {
        let pad = arch::pad(binary, &starts.begins, start.address);
        let (way, otherwise) = match pad {
            Some(_) => (Way::Placeholder, Way::Placeholder),
            None => arch::ways(binary, targets, start),
        };
        let Start { address, len, room, ref name } = *start;
        functions.push(Function { address, len, room, name: name.clone(), way, otherwise, pad });
    }
    Functions {
        build_id: image.build_id.clone(),
        functions,
        left_out: starts.left_out,
        entry: binary.entry,
        is_go: binary.is_go,
    }
}
