//! Parameters of functions, as the debug information has them: names, types, and the order in which they are passed.

use crate::debug::{DebugFiles, Reader, dwarf};
use crate::image::Image;
use gimli::{AttributeValue, DebuggingInformationEntry, UnitOffset, UnitRef, constants as dw};
use std::path::Path;

/// How deep a type's names and qualifiers may nest.
const DEPTH_MAX: usize = 32;

/// A function as it is called.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Signature {
    /// Its parameters in the order in which they are passed.
    pub parameters: Vec<Parameter>,
    /// What it returns; `None`: nothing.
    pub result: Option<Kind>,
    /// Whether C's calling convention tells where the parameters are: not for Rust's own functions, nor for assembly.
    pub is_c_like: bool,
}

/// A parameter as debug information declares it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Parameter {
    /// Its name; empty when it has none.
    pub name: String,
    /// How its value is passed and shown.
    pub kind: Kind,
}

/// What a value is, as far as it matters for passing and showing it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Kind {
    /// An integer.
    Integer {
        /// 1, 2, 4, 8 or 16.
        bytes: u8,
        /// Two's complement.
        signed: bool,
    },
    /// A truth value.
    Bool,
    /// A pointer to characters that end with a NUL.
    Text,
    /// Any other pointer.
    Pointer,
    /// An enumeration: label and value.
    Enumeration {
        /// Bytes.
        bytes: u8,
        /// Two's complement.
        signed: bool,
        /// Labels and values.
        labels: Vec<(String, i64)>,
    },
    /// A floating point number: it is passed in other registers.
    Float,
    /// A structure, union or array by value.
    Aggregate {
        /// Bytes.
        bytes: u64,
    },
    /// A type that is not understood.
    Unknown,
}

/// Debug information, ready to be asked for functions.
pub struct Functions {
    context: addr2line::Context<Reader>,
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

    /// Takes the debug information of a file; `None` when it is broken.
    #[must_use]
    pub fn new(dwarf: gimli::Dwarf<Reader>) -> Option<Functions> {
        addr2line::Context::from_dwarf(dwarf).ok().map(|context| Functions { context })
    }

    /// The function that begins at `address` of the file's own address space; `None` when the debug information does
    /// not have it.
    ///
    /// # Cost
    /// Reads the entries of its compilation unit.
    #[must_use]
    pub fn signature(&self, address: u64) -> Option<Signature> {
        let unit = self.context.find_dwarf_and_unit(address).skip_all_loads()?;
        let function = function_at(unit, address).ok().flatten()?;
        signature(unit, function).ok()
    }
}

type Entry = DebuggingInformationEntry<Reader>;

fn function_at(unit: UnitRef<'_, Reader>, address: u64) -> gimli::Result<Option<UnitOffset>> {
    let mut entries = unit.entries();
    while let Some(entry) = entries.next_dfs()? {
        if entry.tag == dw::DW_TAG_subprogram
            && let Some(value) = entry.attr_value(dw::DW_AT_low_pc)
            && unit.attr_address(value)? == Some(address)
        {
            return Ok(Some(entry.offset));
        }
    }
    Ok(None)
}

fn signature(unit: UnitRef<'_, Reader>, function: UnitOffset) -> gimli::Result<Signature> {
    let entry = unit.entry(function)?;
    let mut parameters = Vec::new();
    let mut tree = unit.entries_tree(Some(function))?;
    let mut children = tree.root()?.children();
    while let Some(child) = children.next()? {
        let child = child.entry();
        if child.tag == dw::DW_TAG_formal_parameter {
            let name = name(unit, child)?.unwrap_or_default();
            let kind = type_of(unit, child)?.map_or(Ok(Kind::Unknown), |ty| kind(unit, ty, 0))?;
            parameters.push(Parameter { name, kind });
        }
    }
    let result = match type_of(unit, &entry)? {
        Some(ty) => Some(kind(unit, ty, 0)?),
        None => None,
    };
    Ok(Signature { parameters, result, is_c_like: is_c_like(unit)? })
}

/// Rust passes arguments as it likes; assembly has no declared parameters.
fn is_c_like(unit: UnitRef<'_, Reader>) -> gimli::Result<bool> {
    let root = unit.entry(unit.header.root_offset())?;
    let language = root.attr_value(dw::DW_AT_language);
    Ok(!matches!(language, Some(AttributeValue::Language(dw::DW_LANG_Rust | dw::DW_LANG_Mips_Assembler))))
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

fn kind(unit: UnitRef<'_, Reader>, ty: UnitOffset, depth: usize) -> gimli::Result<Kind> {
    if depth > DEPTH_MAX {
        return Ok(Kind::Unknown);
    }
    let entry = unit.entry(ty)?;
    let bytes = entry.attr_value(dw::DW_AT_byte_size).and_then(|value| value.udata_value());
    Ok(match entry.tag {
        dw::DW_TAG_typedef
        | dw::DW_TAG_const_type
        | dw::DW_TAG_volatile_type
        | dw::DW_TAG_restrict_type
        | dw::DW_TAG_atomic_type => match type_of(unit, &entry)? {
            Some(inner) => kind(unit, inner, depth + 1)?,
            None => Kind::Unknown,
        },
        dw::DW_TAG_pointer_type => match type_of(unit, &entry)? {
            Some(to) if is_character(unit, to)? => Kind::Text,
            _ => Kind::Pointer,
        },
        dw::DW_TAG_reference_type | dw::DW_TAG_rvalue_reference_type => Kind::Pointer,
        dw::DW_TAG_base_type => base(&entry, bytes),
        dw::DW_TAG_enumeration_type => enumeration(unit, &entry, bytes)?,
        dw::DW_TAG_structure_type | dw::DW_TAG_class_type | dw::DW_TAG_union_type => {
            // Without a size it is only declared: that cannot be passed by value.
            bytes.map_or(Kind::Unknown, |bytes| Kind::Aggregate { bytes })
        }
        _ => Kind::Unknown,
    })
}

fn encoding(entry: &Entry) -> Option<gimli::DwAte> {
    match entry.attr_value(dw::DW_AT_encoding) {
        Some(AttributeValue::Encoding(encoding)) => Some(encoding),
        _ => None,
    }
}

fn base(entry: &Entry, bytes: Option<u64>) -> Kind {
    let bytes = bytes.and_then(|bytes| u8::try_from(bytes).ok()).unwrap_or(0);
    let whole = matches!(bytes, 1 | 2 | 4 | 8 | 16);
    match encoding(entry) {
        Some(dw::DW_ATE_boolean) => Kind::Bool,
        Some(dw::DW_ATE_signed | dw::DW_ATE_signed_char) if whole => Kind::Integer { bytes, signed: true },
        Some(dw::DW_ATE_unsigned | dw::DW_ATE_unsigned_char | dw::DW_ATE_UTF) if whole => {
            Kind::Integer { bytes, signed: false }
        }
        Some(dw::DW_ATE_float | dw::DW_ATE_complex_float) => Kind::Float,
        _ => Kind::Unknown,
    }
}

/// `char`, behind any qualifiers and names: what `char *` points to. `unsigned char` and `int8_t` are numbers.
fn is_character(unit: UnitRef<'_, Reader>, mut ty: UnitOffset) -> gimli::Result<bool> {
    for _ in 0..DEPTH_MAX {
        let entry = unit.entry(ty)?;
        match entry.tag {
            dw::DW_TAG_const_type | dw::DW_TAG_typedef | dw::DW_TAG_restrict_type => {
                match type_of(unit, &entry)? {
                    Some(inner) => ty = inner,
                    None => return Ok(false),
                }
            }
            dw::DW_TAG_base_type => return Ok(name(unit, &entry)?.as_deref() == Some("char")),
            _ => return Ok(false),
        }
    }
    Ok(false)
}

fn enumeration(unit: UnitRef<'_, Reader>, entry: &Entry, bytes: Option<u64>) -> gimli::Result<Kind> {
    let mut labels = Vec::new();
    let mut tree = unit.entries_tree(Some(entry.offset))?;
    let mut children = tree.root()?.children();
    while let Some(child) = children.next()? {
        let child = child.entry();
        let value = child.attr_value(dw::DW_AT_const_value);
        let value =
            value.and_then(|value| value.sdata_value().or_else(|| Some(value.udata_value()?.cast_signed())));
        if let (dw::DW_TAG_enumerator, Some(value), Some(name)) = (child.tag, value, name(unit, child)?) {
            labels.push((name, value));
        }
    }
    let bytes =
        bytes.and_then(|bytes| u8::try_from(bytes).ok()).filter(|bytes| matches!(bytes, 1 | 2 | 4 | 8));
    Ok(match bytes {
        Some(bytes) => {
            Kind::Enumeration { bytes, signed: labels.iter().any(|(_, value)| *value < 0), labels }
        }
        None => Kind::Unknown,
    })
}
