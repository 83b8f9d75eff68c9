//! Parameters of functions, as the debug information has them: names, types, and the order in which they are passed.

mod place;
mod types;

pub use place::{Place, RegisterPart};
pub use types::{Kind, Member, Structure, TextOf};

use crate::debug::{DebugFiles, Reader, dwarf};
use crate::image::Image;
use gimli::{
    AttributeValue, DebuggingInformationEntry, UnitOffset, UnitRef, UnitSectionOffset, constants as dw,
};
use std::cell::RefCell;
use std::collections::HashMap;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

/// A function as it is called.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Signature {
    /// Its parameters in the order in which they are passed.
    pub parameters: Vec<Parameter>,
    /// What it returns; `None`: nothing.
    pub result: Option<Kind>,
    /// What tells where parameters and result are.
    pub convention: Convention,
}

/// How functions of a language pass their values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Convention {
    /// As the System V ABI says.
    C,
    /// As Rust's compiler likes: the same for numbers and pointers.
    Rust,
    /// Not known: assembly, and functions whose parameters the compiler has changed.
    Unknown,
}

/// A parameter as debug information declares it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Parameter {
    /// Its name; empty when it has none.
    pub name: String,
    /// How its value is passed and shown.
    pub kind: Kind,
    /// Where it is when the function begins.
    pub place: Place,
}

/// A piece of code, and the line of the source that it is there for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Line {
    /// The code, in addresses of its file.
    pub code: Range<u64>,
    /// The source file.
    pub file: Arc<str>,
    /// The line in it, from 1.
    pub line: u32,
}

/// Debug information, ready to be asked for functions.
pub struct Functions {
    context: addr2line::Context<Reader>,
    /// Where the functions of the units that were asked for are, by address.
    known: RefCell<HashMap<UnitSectionOffset, HashMap<u64, UnitOffset>>>,
}

impl Functions {
    /// The debug information of `image`, which is opened once more at `path`, or that of its separate debug file;
    /// `None` when there is none.
    #[must_use]
    pub fn of(image: &Image, path: &Path) -> Option<Functions> {
        let files = DebugFiles::default();
        let path = if image.has_dwarf { Some(path.to_owned()) } else { files.find(image) };
        Functions::new(dwarf(&path?, &files).ok()?)
    }

    /// Source file and line of the code at `address` of the file's own address space.
    #[must_use]
    pub fn place(&self, address: u64) -> Option<(String, u32)> {
        let found = self.context.find_location(address).ok()??;
        Some((found.file?.to_owned(), found.line.unwrap_or(0)))
    }

    /// The lines of all code, in the order of addresses: a piece of code may be of several lines, and a line have
    /// several pieces.
    #[must_use]
    pub fn lines(&self) -> Vec<Line> {
        let Ok(found) = self.context.find_location_range(0, u64::MAX) else { return Vec::new() };
        let line = |(begin, bytes, place): (u64, u64, addr2line::Location<'_>)| {
            let (file, line) = (place.file?.into(), place.line.filter(|line| *line > 0)?);
            Some(Line { code: begin..begin.checked_add(bytes)?, file, line })
        };
        found.filter_map(line).collect()
    }

    /// The functions that the code at `address` belongs to, the innermost first: all but the last one were inlined.
    /// Each has its name, as the linker has it, and the place in the source where it is: the innermost one's is that of
    /// the code, the others' are those of the calls in whose places the inlined ones stand.
    #[must_use]
    pub fn inlined(&self, address: u64) -> Vec<(String, Option<(String, u32)>)> {
        let Ok(mut frames) = self.context.find_frames(address).skip_all_loads() else { return Vec::new() };
        let mut functions = Vec::new();
        while let Ok(Some(frame)) = frames.next() {
            let name = frame.function.as_ref().and_then(|name| name.raw_name().ok()).unwrap_or_default();
            let place =
                frame.location.and_then(|place| Some((place.file?.to_owned(), place.line.unwrap_or(0))));
            functions.push((name.into_owned(), place));
        }
        functions
    }

    /// Takes the debug information of a file; `None` when it is broken.
    #[must_use]
    pub fn new(dwarf: gimli::Dwarf<Reader>) -> Option<Functions> {
        let context = addr2line::Context::from_dwarf(dwarf).ok()?;
        Some(Functions { context, known: RefCell::default() })
    }

    /// The function that begins at `address` of the file's own address space; `None` when the debug information does
    /// not have it.
    ///
    /// # Cost
    /// Reads the entries of its compilation unit, once.
    #[must_use]
    pub fn signature(&self, address: u64) -> Option<Signature> {
        let unit = self.context.find_dwarf_and_unit(address).skip_all_loads()?;
        let mut known = self.known.borrow_mut();
        let functions =
            known.entry(unit.header.offset()).or_insert_with(|| functions_of(unit).unwrap_or_default());
        signature(unit, *functions.get(&address)?, address).ok()
    }
}

type Entry = DebuggingInformationEntry<Reader>;

/// The functions of a unit, by where they begin.
fn functions_of(unit: UnitRef<'_, Reader>) -> gimli::Result<HashMap<u64, UnitOffset>> {
    let mut found = HashMap::new();
    let mut entries = unit.entries();
    while let Some(entry) = entries.next_dfs()? {
        if entry.tag != dw::DW_TAG_subprogram {
            continue;
        }
        let address = match entry.attr_value(dw::DW_AT_low_pc) {
            Some(value) => unit.attr_address(value)?,
            // In several parts; it begins with the first.
            None => unit.die_ranges(entry)?.next()?.map(|range| range.begin),
        };
        if let Some(address) = address {
            found.insert(address, entry.offset);
        }
    }
    Ok(found)
}

fn signature(unit: UnitRef<'_, Reader>, function: UnitOffset, address: u64) -> gimli::Result<Signature> {
    let entry = unit.entry(function)?;
    let frame_is_cfa = place::is_cfa(unit, &entry);
    let mut parameters = Vec::new();
    let mut tree = unit.entries_tree(Some(function))?;
    let mut children = tree.root()?.children();
    while let Some(child) = children.next()? {
        let child = child.entry();
        if child.tag == dw::DW_TAG_formal_parameter {
            let name = name(unit, child)?.unwrap_or_default();
            let kind = type_of(unit, child)?.map_or(Ok(Kind::Unknown), |ty| types::kind(unit, ty))?;
            let place = place::at_entry(unit, child, address, frame_is_cfa)?;
            parameters.push(Parameter { name, kind, place });
        }
    }
    let result = match type_of(unit, &entry)? {
        Some(ty) => Some(types::kind(unit, ty)?),
        None => None,
    };
    // The compiler has changed what is passed.
    let nocall = Some(AttributeValue::CallingConvention(dw::DW_CC_nocall));
    let is_changed = entry.attr_value(dw::DW_AT_calling_convention) == nocall;
    let convention = if is_changed { Convention::Unknown } else { convention(unit)? };
    Ok(Signature { parameters, result, convention })
}

fn convention(unit: UnitRef<'_, Reader>) -> gimli::Result<Convention> {
    let root = unit.entry(unit.header.root_offset())?;
    Ok(match root.attr_value(dw::DW_AT_language) {
        Some(AttributeValue::Language(dw::DW_LANG_Rust)) => Convention::Rust,
        // Assembly has no declared parameters.
        Some(AttributeValue::Language(dw::DW_LANG_Mips_Assembler)) => Convention::Unknown,
        _ => Convention::C,
    })
}

/// An attribute of the entry, or of the one that it is an instance or the definition of.
fn inherited(
    unit: UnitRef<'_, Reader>,
    entry: &Entry,
    name: gimli::DwAt,
) -> gimli::Result<Option<AttributeValue<Reader>>> {
    let mut value = entry.attr_value(name);
    let mut origin = origin(entry);
    for _ in 0..4 {
        let (None, Some(offset)) = (&value, origin) else { break };
        let other = unit.entry(offset)?;
        value = other.attr_value(name);
        origin = self::origin(&other);
    }
    Ok(value)
}

fn origin(entry: &Entry) -> Option<UnitOffset> {
    let value =
        entry.attr_value(dw::DW_AT_abstract_origin).or_else(|| entry.attr_value(dw::DW_AT_specification))?;
    match value {
        AttributeValue::UnitRef(offset) => Some(offset),
        _ => None,
    }
}

fn name(unit: UnitRef<'_, Reader>, entry: &Entry) -> gimli::Result<Option<String>> {
    let Some(value) = inherited(unit, entry, dw::DW_AT_name)? else { return Ok(None) };
    let text = unit.attr_string(value)?;
    Ok(Some(gimli::Reader::to_string_lossy(&text)?.into_owned()))
}

fn type_of(unit: UnitRef<'_, Reader>, entry: &Entry) -> gimli::Result<Option<UnitOffset>> {
    Ok(match inherited(unit, entry, dw::DW_AT_type)? {
        Some(AttributeValue::UnitRef(offset)) => Some(offset),
        _ => None,
    })
}
