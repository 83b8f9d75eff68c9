//! BTF (`Documentation/bpf/btf.rst`, Linux 6.18), as far as definitions of maps need it: variables of a section,
//! members of structures, sizes.

use super::ObjectError;

const MAGIC: u16 = 0xeb9f;
/// Longest chain of types followed for one size.
const DEPTH_MAX: u32 = 32;

/// Kinds of types (`BTF_KIND_...`) that matter here.
mod kind {
    pub(super) const INT: u32 = 1;
    pub(super) const PTR: u32 = 2;
    pub(super) const ARRAY: u32 = 3;
    pub(super) const STRUCT: u32 = 4;
    pub(super) const UNION: u32 = 5;
    pub(super) const ENUM: u32 = 6;
    pub(super) const TYPEDEF: u32 = 8;
    pub(super) const VOLATILE: u32 = 9;
    pub(super) const CONST: u32 = 10;
    pub(super) const RESTRICT: u32 = 11;
    pub(super) const FUNC_PROTO: u32 = 13;
    pub(super) const VAR: u32 = 14;
    pub(super) const DATASEC: u32 = 15;
    pub(super) const FLOAT: u32 = 16;
    pub(super) const DECL_TAG: u32 = 17;
    pub(super) const TYPE_TAG: u32 = 18;
    pub(super) const ENUM64: u32 = 19;
}

/// One type: where its name, its extra words and its size or referred type lie.
#[derive(Clone, Copy, Debug)]
struct Type<'a> {
    name: u32,
    kind: u32,
    /// Size in bytes, or number of another type.
    size_or_type: u32,
    extra: &'a [u8],
}

/// The types of an object.
#[derive(Debug)]
pub(super) struct Btf<'a> {
    /// Number `n` at index `n - 1`; 0 is `void`.
    types: Vec<Type<'a>>,
    strings: &'a [u8],
}

type Result<T> = std::result::Result<T, ObjectError>;

fn bad<T>(what: impl Into<String>) -> Result<T> {
    Err(ObjectError::Btf(what.into()))
}

fn word(bytes: &[u8], at: usize) -> Option<u32> {
    let four = bytes.get(at..at.checked_add(4)?)?;
    Some(u32::from_le_bytes(four.try_into().ok()?))
}

fn slice(bytes: &[u8], header: u32, offset: u32, len: u32) -> Option<&[u8]> {
    let start = usize::try_from(u64::from(header) + u64::from(offset)).ok()?;
    bytes.get(start..start.checked_add(len as usize)?)
}

impl<'a> Btf<'a> {
    pub(super) fn read(bytes: &'a [u8]) -> Result<Btf<'a>> {
        let words = [4, 8, 12, 16, 20].map(|at| word(bytes, at));
        let [Some(header), Some(type_at), Some(type_len), Some(string_at), Some(string_len)] = words else {
            return bad("the header is cut");
        };
        if bytes[..2] != MAGIC.to_le_bytes() {
            return bad("the magic number is not there");
        }
        let types = slice(bytes, header, type_at, type_len);
        let strings = slice(bytes, header, string_at, string_len);
        let (Some(mut rest), Some(strings)) = (types, strings) else {
            return bad("types or strings are outside");
        };
        let mut types = Vec::new();
        while !rest.is_empty() {
            let (one, behind) = read_type(rest).map_or_else(|| bad("the types are cut or unknown"), Ok)?;
            types.push(one);
            rest = behind;
        }
        Ok(Btf { types, strings })
    }

    fn get(&self, number: u32) -> Result<Type<'a>> {
        let index = (number as usize).checked_sub(1);
        match index.and_then(|index| self.types.get(index)) {
            Some(one) => Ok(*one),
            None => bad(format!("there is no type {number}")),
        }
    }

    fn text(&self, at: u32) -> &'a str {
        let from = self.strings.get(at as usize..).unwrap_or(&[]);
        let end = from.iter().position(|byte| *byte == 0).unwrap_or(0);
        std::str::from_utf8(&from[..end]).unwrap_or("")
    }

    /// Names and types of the variables of a section.
    pub(super) fn variables(&self, section: &str) -> Result<Vec<(&'a str, u32)>> {
        let found = self.types.iter().find(|one| one.kind == kind::DATASEC && self.text(one.name) == section);
        let Some(found) = found else { return bad(format!("nothing on section {section}")) };
        let numbers = found.extra.chunks_exact(12).filter_map(|entry| word(entry, 0));
        let named = numbers.map(|number| self.get(number).map(|one| (self.text(one.name), one.size_or_type)));
        named.collect()
    }

    /// Names and types of the members of a structure.
    pub(super) fn members(&self, number: u32) -> Result<Vec<(&'a str, u32)>> {
        let one = self.skip(number)?;
        if one.kind != kind::STRUCT {
            return bad("a map is not a structure");
        }
        let members = one.extra.chunks_exact(12).filter_map(|entry| word(entry, 0).zip(word(entry, 4)));
        Ok(members.map(|(name, number)| (self.text(name), number)).collect())
    }

    /// The number in `__uint(name, number)`: a pointer to an array of as many elements.
    pub(super) fn number(&self, number: u32) -> Result<u32> {
        let array = self.skip(self.pointed(number)?)?;
        match (array.kind, word(array.extra, 8)) {
            (kind::ARRAY, Some(count)) => Ok(count),
            _ => bad("a number of a map is not written with __uint"),
        }
    }

    /// The type in `__type(name, type)`: what a pointer points to.
    pub(super) fn pointed(&self, number: u32) -> Result<u32> {
        let pointer = self.skip(number)?;
        match pointer.kind {
            kind::PTR => Ok(pointer.size_or_type),
            _ => bad("a type of a map is not written with __type"),
        }
    }

    /// Bytes of a type.
    pub(super) fn size(&self, number: u32) -> Result<u32> {
        let (mut number, mut count) = (number, 1u64);
        for _ in 0..DEPTH_MAX {
            let one = self.skip(number)?;
            let element = match one.kind {
                kind::ARRAY => {
                    let Some((element, elements)) = word(one.extra, 0).zip(word(one.extra, 8)) else {
                        return bad("an array is cut");
                    };
                    count = count.saturating_mul(elements.into()).min(u64::from(u32::MAX) + 1);
                    number = element;
                    continue;
                }
                kind::PTR => 8,
                kind::INT
                | kind::STRUCT
                | kind::UNION
                | kind::ENUM
                | kind::ENUM64
                | kind::FLOAT
                | kind::DATASEC => one.size_or_type,
                _ => return bad(format!("type {number} has no size")),
            };
            let total = count.saturating_mul(element.into());
            return u32::try_from(total).or_else(|_| bad("a type is too large"));
        }
        bad("types are nested too deep")
    }

    /// The type behind names, `const` and the like.
    fn skip(&self, number: u32) -> Result<Type<'a>> {
        let mut one = self.get(number)?;
        for _ in 0..DEPTH_MAX {
            match one.kind {
                kind::TYPEDEF
                | kind::VOLATILE
                | kind::CONST
                | kind::RESTRICT
                | kind::VAR
                | kind::TYPE_TAG => {
                    one = self.get(one.size_or_type)?;
                }
                _ => return Ok(one),
            }
        }
        bad("types are nested too deep")
    }
}

/// The first type of some bytes, and the bytes behind it.
fn read_type(bytes: &[u8]) -> Option<(Type<'_>, &[u8])> {
    let (name, info, size_or_type) = (word(bytes, 0)?, word(bytes, 4)?, word(bytes, 8)?);
    let (kind, count) = (info >> 24 & 0x1f, info & 0xffff);
    let extra = match kind {
        kind::INT | kind::VAR | kind::DECL_TAG => 4,
        kind::ARRAY => 12,
        kind::STRUCT | kind::UNION | kind::DATASEC | kind::ENUM64 => 12 * count as usize,
        kind::ENUM | kind::FUNC_PROTO => 8 * count as usize,
        1..=kind::ENUM64 => 0,
        _ => return None,
    };
    let behind = bytes.get(12..)?;
    let (extra, behind) = behind.split_at_checked(extra)?;
    Some((Type { name, kind, size_or_type, extra }, behind))
}
