//! Types of parameters and results, as far as it matters for passing and showing their values.

use super::{Entry, name, type_of};
use crate::debug::Reader;
use gimli::{AttributeValue, UnitOffset, UnitRef, constants as dw};
use std::cell::Cell;

/// How deep a type's names and qualifiers may nest.
const DEPTH_MAX: usize = 32;
/// How deep structures in structures are looked into.
const NESTED_MAX: usize = 5;
/// Most members that are looked at of one structure.
const MEMBERS_MAX: usize = 64;
/// Members of structures, and of those in them, that are looked at of one parameter or result: of any real one.
const LOOKS_MAX: u32 = 4096;
/// Structures and arrays of so many bytes are passed in registers, if at all.
const IN_REGISTERS_MAX: u64 = 16;

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
    /// Any other pointer or reference; to what, if that is a structure whose members are known.
    Pointer(Option<Box<Structure>>),
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
    Float {
        /// 4 or 8, or what else there is.
        bytes: u8,
    },
    /// A structure, union or array by value.
    Aggregate(Structure),
    /// A type that is not understood.
    Unknown,
}

/// A structure, union or array.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Structure {
    /// Bytes.
    pub bytes: u64,
    /// Its members. Those of an array, and parts of others that have no name, are there for how it is passed only.
    pub members: Vec<Member>,
    /// True when no member is missing from the list.
    pub is_known: bool,
    /// It has a constructor or destructor of its own: where a value is passed, its address is.
    pub is_by_reference: bool,
    /// The text that it is.
    pub text: Option<TextOf>,
}

/// How a structure or array is a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TextOf {
    /// Its characters lie there, up to a NUL or the end.
    Characters,
    /// It holds their address and their number, at these offsets.
    Counted {
        /// Of the address.
        address: u64,
        /// Of the number.
        count: u64,
    },
}

/// A member of a structure.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Member {
    /// Its name; empty when it has none, or it is not a whole number of bytes.
    pub name: String,
    /// Bytes from the structure's begin.
    pub offset: u64,
    /// What it is; pointers of members lead to nothing.
    pub kind: Kind,
}

impl Kind {
    /// A structure of which only the size is known.
    #[must_use]
    pub fn opaque(bytes: u64) -> Kind {
        Kind::Aggregate(Structure { bytes, ..Structure::default() })
    }

    /// Bytes of a value; 0 when that is not known.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        match self {
            Kind::Integer { bytes, .. } | Kind::Enumeration { bytes, .. } | Kind::Float { bytes } => {
                u64::from(*bytes)
            }
            Kind::Bool => 1,
            Kind::Text | Kind::Pointer(_) => 8,
            Kind::Aggregate(structure) => structure.bytes,
            Kind::Unknown => 0,
        }
    }
}

/// What a parameter or a result of this type is.
pub(super) fn kind(unit: UnitRef<'_, Reader>, ty: UnitOffset) -> gimli::Result<Kind> {
    Reading { unit, follows: true, looks: &Cell::new(LOOKS_MAX) }.kind(ty, 0, 0)
}

/// How types are read.
#[derive(Clone, Copy)]
struct Reading<'u> {
    unit: UnitRef<'u, Reader>,
    /// Whether what pointers lead to is read, too.
    follows: bool,
    /// Members that may still be looked at.
    looks: &'u Cell<u32>,
}

impl Reading<'_> {
    /// `depth` names and qualifiers, and `nested` structures were gone through before.
    fn kind(self, ty: UnitOffset, depth: usize, nested: usize) -> gimli::Result<Kind> {
        if depth > DEPTH_MAX {
            return Ok(Kind::Unknown);
        }
        let unit = self.unit;
        let entry = unit.entry(ty)?;
        let bytes = entry.attr_value(dw::DW_AT_byte_size).and_then(|value| value.udata_value());
        Ok(match entry.tag {
            dw::DW_TAG_typedef
            | dw::DW_TAG_const_type
            | dw::DW_TAG_volatile_type
            | dw::DW_TAG_restrict_type
            | dw::DW_TAG_atomic_type => match type_of(unit, &entry)? {
                Some(inner) => self.kind(inner, depth + 1, nested)?,
                None => Kind::Unknown,
            },
            dw::DW_TAG_pointer_type | dw::DW_TAG_reference_type | dw::DW_TAG_rvalue_reference_type => {
                match type_of(unit, &entry)? {
                    Some(to) if entry.tag == dw::DW_TAG_pointer_type && is_character(unit, to)? => Kind::Text,
                    Some(to) if self.follows => Kind::Pointer(self.behind(to, depth)?),
                    _ => Kind::Pointer(None),
                }
            }
            dw::DW_TAG_base_type => base(&entry, bytes),
            dw::DW_TAG_enumeration_type => enumeration(unit, &entry, bytes)?,
            dw::DW_TAG_structure_type | dw::DW_TAG_class_type | dw::DW_TAG_union_type => match bytes {
                Some(bytes) => Kind::Aggregate(self.structure(&entry, bytes, nested)?),
                // It is only declared: that cannot be passed by value.
                None => Kind::Unknown,
            },
            dw::DW_TAG_array_type => self.array(&entry, depth, nested)?,
            _ => Kind::Unknown,
        })
    }

    /// The structure that a pointer leads to, if it does.
    fn behind(self, to: UnitOffset, depth: usize) -> gimli::Result<Option<Box<Structure>>> {
        let to = Reading { follows: false, ..self }.kind(to, depth + 1, 0)?;
        Ok(match to {
            Kind::Aggregate(structure) if !structure.members.is_empty() => Some(Box::new(structure)),
            _ => None,
        })
    }

    fn structure(self, entry: &Entry, bytes: u64, nested: usize) -> gimli::Result<Structure> {
        let unit = self.unit;
        let mut structure = Structure { bytes, is_known: true, ..Structure::default() };
        let passing = entry.attr_value(dw::DW_AT_calling_convention);
        if let Some(AttributeValue::CallingConvention(dw::DW_CC_pass_by_reference)) = passing {
            structure.is_by_reference = true;
        }
        if nested > NESTED_MAX {
            return Ok(Structure { is_known: false, ..structure });
        }
        let reading = Reading { follows: false, ..self };
        let mut tree = unit.entries_tree(Some(entry.offset))?;
        let mut children = tree.root()?.children();
        while let Some(child) = children.next()? {
            let child = child.entry();
            match child.tag {
                dw::DW_TAG_member | dw::DW_TAG_inheritance => {}
                dw::DW_TAG_subprogram => {
                    let is_destructor = name(unit, child)?.is_some_and(|name| name.starts_with('~'));
                    structure.is_by_reference = structure.is_by_reference || is_destructor;
                    continue;
                }
                // An enumeration of Rust with values: what is there depends on which it is.
                dw::DW_TAG_variant_part => {
                    return Ok(Structure { bytes, ..Structure::default() });
                }
                _ => continue,
            }
            let at = child.attr_value(dw::DW_AT_data_member_location).map(|value| value.udata_value());
            let is_static = child.attr_value(dw::DW_AT_external).is_some();
            let looks = self.looks.get();
            self.looks.set(looks.saturating_sub(1));
            if structure.members.len() >= MEMBERS_MAX || looks == 0 {
                structure.is_known = false;
                break;
            }
            if is_static {
                continue;
            }
            let bits = child.attr_value(dw::DW_AT_data_bit_offset).and_then(|value| value.udata_value());
            let is_bits = child.attr_value(dw::DW_AT_bit_size).is_some();
            let offset = match (at, bits) {
                (Some(Some(offset)), _) => offset,
                (None, Some(bits)) => bits / 8,
                (None, None) => 0,
                // Of a base that is looked for at run time.
                (Some(None), _) => {
                    structure.is_known = false;
                    continue;
                }
            };
            let name = name(unit, child)?.unwrap_or_default();
            let member = match type_of(unit, child)? {
                _ if is_bits => {
                    Member { name: String::new(), offset, kind: Kind::Integer { bytes: 1, signed: false } }
                }
                Some(ty) => Member { name, offset, kind: reading.kind(ty, 0, nested + 1)? },
                None => continue,
            };
            structure.members.push(member);
        }
        let own = name(unit, entry)?.unwrap_or_default();
        structure.text = text_of(&own, &structure.members);
        Ok(structure)
    }

    fn array(self, entry: &Entry, depth: usize, nested: usize) -> gimli::Result<Kind> {
        let unit = self.unit;
        let Some(element) = type_of(unit, entry)? else { return Ok(Kind::Unknown) };
        let mut count = 1_u64;
        let mut tree = unit.entries_tree(Some(entry.offset))?;
        let mut children = tree.root()?.children();
        while let Some(child) = children.next()? {
            let child = child.entry();
            if child.tag == dw::DW_TAG_subrange_type {
                let number = |name| child.attr_value(name).and_then(|value| value.udata_value());
                let own = number(dw::DW_AT_count).or_else(|| number(dw::DW_AT_upper_bound)?.checked_add(1));
                // Without a bound it is what lies behind a structure.
                count = count.saturating_mul(own.unwrap_or(0));
            }
        }
        let kind = Reading { follows: false, ..self }.kind(element, depth + 1, nested + 1)?;
        let bytes = kind.bytes().saturating_mul(count);
        let mut array = Structure { bytes, ..Structure::default() };
        if is_character(unit, element)? {
            array.text = Some(TextOf::Characters);
        }
        if bytes <= IN_REGISTERS_MAX {
            let each = kind.bytes();
            let member = |number| Member { name: String::new(), offset: number * each, kind: kind.clone() };
            array.members = (0..count).map(member).collect();
            array.is_known = true;
        }
        Ok(Kind::Aggregate(array))
    }
}

/// How a structure of this name with these members is a text: those of the standard libraries of C++ (GNU's) and Rust.
fn text_of(name: &str, members: &[Member]) -> Option<TextOf> {
    let at = |wanted: &str| members.iter().find(|member| member.name == wanted);
    let offset = |wanted: &str| at(wanted).map(|member| member.offset);
    if name.starts_with("basic_string<char,") {
        return Some(TextOf::Counted { address: offset("_M_dataplus")?, count: offset("_M_string_length")? });
    }
    if name.starts_with("basic_string_view<char,") {
        return Some(TextOf::Counted { address: offset("_M_str")?, count: offset("_M_len")? });
    }
    match name {
        "&str" | "&mut str" => {
            Some(TextOf::Counted { address: offset("data_ptr")?, count: offset("length")? })
        }
        "String" => {
            let vec = at("vec")?;
            let Kind::Aggregate(inside) = &vec.kind else { return None };
            let len = inside.members.iter().find(|member| member.name == "len")?;
            let buffer = inside.members.iter().find(|member| member.name == "buf")?;
            let address = buffer.offset + first_pointer(&buffer.kind)?;
            Some(TextOf::Counted { address: vec.offset + address, count: vec.offset + len.offset })
        }
        _ => None,
    }
}

/// Where the first pointer in a value is.
fn first_pointer(kind: &Kind) -> Option<u64> {
    match kind {
        Kind::Pointer(_) | Kind::Text => Some(0),
        Kind::Aggregate(structure) => {
            structure.members.iter().find_map(|member| Some(member.offset + first_pointer(&member.kind)?))
        }
        _ => None,
    }
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
        Some(dw::DW_ATE_float) => Kind::Float { bytes },
        // `()` of Rust.
        Some(dw::DW_ATE_unsigned) => Kind::opaque(0),
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
            // Rust's have four bytes.
            dw::DW_TAG_base_type
                if entry.attr_value(dw::DW_AT_byte_size).and_then(|size| size.udata_value()) == Some(1) =>
            {
                return Ok(name(unit, &entry)?.as_deref() == Some("char"));
            }
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
