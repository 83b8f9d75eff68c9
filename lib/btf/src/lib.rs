//! Types in BTF, as the kernel has them of itself (`/sys/kernel/btf/vmlinux`) and clang writes them into eBPF objects
//! (`.BTF`): `Documentation/bpf/btf.rst`, Linux 6.18.
//!
//! Nothing in the bytes is trusted: offsets are checked, and walks through types have a bound. [`Btf::read`] looks at
//! each type once; what is asked later costs what it walks through.
#![forbid(unsafe_code)]

use std::ops::Range;

/// Kinds of types (`BTF_KIND_...`).
pub mod kind {
    /// An integer; one word behind it says how it is meant ([`super::SIGNED`], [`super::BOOL`]).
    pub const INT: u8 = 1;
    /// A pointer to another type.
    pub const PTR: u8 = 2;
    /// An array: type of an element, type of an index, number of elements.
    pub const ARRAY: u8 = 3;
    /// A structure; each part is a name, a type and an offset in bits.
    pub const STRUCT: u8 = 4;
    /// A union, with parts as a structure's.
    pub const UNION: u8 = 5;
    /// An enumeration of 32 bits; each part is a name and a value.
    pub const ENUM: u8 = 6;
    /// A type that is only declared.
    pub const FWD: u8 = 7;
    /// Another name for a type.
    pub const TYPEDEF: u8 = 8;
    /// `volatile` before the type of number `size`.
    pub const VOLATILE: u8 = 9;
    /// `const` before the type of number `size`.
    pub const CONST: u8 = 10;
    /// `restrict` before the type of number `size`.
    pub const RESTRICT: u8 = 11;
    /// A function, whose type is a [`FUNC_PROTO`].
    pub const FUNC: u8 = 12;
    /// What a function takes and returns; each part is a name and a type.
    pub const FUNC_PROTO: u8 = 13;
    /// A global variable of the type of number `size`; the word behind it is its linkage.
    pub const VAR: u8 = 14;
    /// A section with variables; each part is a type, an offset and a size.
    pub const DATASEC: u8 = 15;
    /// A floating-point number of `size` bytes.
    pub const FLOAT: u8 = 16;
    /// A remark on a declaration.
    pub const DECL_TAG: u8 = 17;
    /// A remark on a type.
    pub const TYPE_TAG: u8 = 18;
    /// An enumeration of 64 bits; each part is a name and a value in two words.
    pub const ENUM64: u8 = 19;
}

/// Of the word behind an integer: it is signed.
pub const SIGNED: u32 = 1 << 24;
/// Of the word behind an integer: it is a truth value.
pub const BOOL: u32 = 4 << 24;
/// More than any type is nested: walks end there.
pub const DEPTH_MAX: u32 = 32;

const MAGIC: u32 = 0xeb9f;
const VERSION: u8 = 1;
/// Bytes of a type without its parts.
const TYPE_BYTES: usize = 12;

/// What is wrong with the types.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Not BTF, or of another version or byte order.
    #[error("it is not BTF of version 1 in this machine's byte order, or its header leads outside")]
    Header,
    /// The type with this number is cut off, or of an unknown kind.
    #[error("it is damaged at type {0}: cut off, or of an unknown kind")]
    Type(u32),
}

/// A type as its header says it, 12 bytes in the file: Documentation/bpf/btf.rst of Linux, section 2.2.
#[derive(Clone, Copy, Debug)]
pub struct Type {
    /// Offset of its name among the texts; 0 for none.
    pub name: u32,
    /// What it is: a number of [`kind`].
    pub kind: u8,
    /// Of a structure: offsets of parts have sizes of bit fields; of an enumeration: it is signed.
    pub flag: bool,
    /// How many parts are behind it.
    pub parts: u32,
    /// Its size in bytes, or the number of another type, by its kind.
    pub size: u32,
    /// Where its parts begin.
    at: usize,
}

impl Type {
    /// Bytes of one part behind the type; `None`: no such kind.
    fn part_bytes(self) -> Option<usize> {
        match self.kind {
            kind::INT | kind::VAR | kind::DECL_TAG => Some(4),
            kind::ARRAY | kind::STRUCT | kind::UNION | kind::DATASEC | kind::ENUM64 => Some(12),
            kind::ENUM | kind::FUNC_PROTO => Some(8),
            kind::PTR | kind::FWD..=kind::FUNC | kind::FLOAT | kind::TYPE_TAG => Some(0),
            _ => None,
        }
    }

    /// Whether it has as many parts as it says; else it is one.
    fn counts_parts(self) -> bool {
        !matches!(self.kind, kind::INT | kind::ARRAY | kind::VAR | kind::DECL_TAG)
    }
}

/// The types in some bytes.
#[derive(Debug)]
pub struct Btf<B> {
    bytes: B,
    strings: Range<usize>,
    /// Where each type begins; number 0 is `void`.
    types: Vec<u32>,
}

impl<B: AsRef<[u8]>> Btf<B> {
    /// Checks the bytes once, so that later walks need not.
    ///
    /// # Errors
    /// [`Error`].
    pub fn read(bytes: B) -> Result<Btf<B>, Error> {
        let all = bytes.as_ref();
        let word = |at: usize| word(all, at).ok_or(Error::Header);
        if word(0)? & 0xffff != MAGIC || all.get(2) != Some(&VERSION) {
            return Err(Error::Header);
        }
        let header = word(4)? as usize;
        let part = |offset: u32, len: u32| {
            let start = header.checked_add(offset as usize).ok_or(Error::Header)?;
            let end = start.checked_add(len as usize).filter(|end| *end <= all.len()).ok_or(Error::Header)?;
            Ok::<_, Error>(start..end)
        };
        let (types, strings) = (part(word(8)?, word(12)?)?, part(word(16)?, word(20)?)?);
        let types = index(all, types)?;
        Ok(Btf { bytes, strings, types })
    }

    /// The type with this number; `None` for `void`, and when there is none.
    pub fn get(&self, id: u32) -> Option<Type> {
        let at = *self.types.get(id as usize).filter(|_| id != 0)?;
        type_at(self.bytes.as_ref(), at as usize)
    }

    /// All types with their numbers.
    pub fn types(&self) -> impl Iterator<Item = (u32, Type)> {
        (1..self.types.len() as u32).filter_map(|id| Some((id, self.get(id)?)))
    }

    /// The text at this offset: a name. Empty when it is outside.
    pub fn text(&self, offset: u32) -> &[u8] {
        let all = self.bytes.as_ref().get(self.strings.clone()).unwrap_or_default();
        let rest = all.get(offset as usize..).unwrap_or_default();
        rest.split(|byte| *byte == 0).next().unwrap_or_default()
    }

    /// The words of a part of a type; `None` when it has no such part, or one with less words.
    pub fn part<const WORDS: usize>(&self, ty: Type, index: u32) -> Option<[u32; WORDS]> {
        let size = ty.part_bytes().filter(|size| *size >= 4 * WORDS)?;
        let there = if ty.counts_parts() { ty.parts } else { 1 };
        let at = ty.at + size * usize::try_from(Some(index).filter(|index| *index < there)?).ok()?;
        let mut words = [0; WORDS];
        for (number, into) in words.iter_mut().enumerate() {
            *into = word(self.bytes.as_ref(), at + 4 * number)?;
        }
        Some(words)
    }

    /// All parts of a type.
    pub fn parts<const WORDS: usize>(&self, ty: Type) -> impl Iterator<Item = [u32; WORDS]> {
        (0..ty.parts).map_while(move |index| self.part(ty, index))
    }

    /// A type without typedefs, `const`, `volatile`, `restrict` and tags around it.
    pub fn plain(&self, id: u32) -> Option<Type> {
        let mut ty = self.get(id)?;
        for _ in 0..DEPTH_MAX {
            match ty.kind {
                kind::TYPEDEF | kind::VOLATILE | kind::CONST | kind::RESTRICT | kind::TYPE_TAG => {
                    ty = self.get(ty.size)?;
                }
                _ => return Some(ty),
            }
        }
        None
    }

    /// How many bytes a value of the type has; `None` for what has no size, or one that is too large.
    pub fn bytes_of(&self, ty: Type) -> Option<u32> {
        let (mut ty, mut count) = (ty, 1u32);
        for _ in 0..DEPTH_MAX {
            match ty.kind {
                kind::PTR => return count.checked_mul(8),
                kind::ARRAY => {
                    let [element, _, elements] = self.part(ty, 0)?;
                    count = count.checked_mul(elements)?;
                    ty = self.plain(element)?;
                }
                kind::INT
                | kind::STRUCT
                | kind::UNION
                | kind::ENUM
                | kind::ENUM64
                | kind::FLOAT
                | kind::DATASEC => return count.checked_mul(ty.size),
                _ => return None,
            }
        }
        None
    }
}

/// Where each type begins.
fn index(bytes: &[u8], types: Range<usize>) -> Result<Vec<u32>, Error> {
    let (mut at, end) = (types.start, types.end);
    let mut found = vec![0];
    while at < end {
        let damaged = Error::Type(found.len() as u32);
        let Some(ty) = type_at(bytes, at) else { return Err(damaged) };
        let Some(parts) = ty.part_bytes() else { return Err(damaged) };
        found.push(at as u32);
        at = ty.at + parts * ty.parts.max(u32::from(!ty.counts_parts())) as usize;
        if at > end {
            return Err(damaged);
        }
    }
    Ok(found)
}

fn type_at(bytes: &[u8], at: usize) -> Option<Type> {
    let (name, info, size) = (word(bytes, at)?, word(bytes, at + 4)?, word(bytes, at + 8)?);
    let (kind, flag, parts) = ((info >> 24 & 0x1f) as u8, info >> 31 == 1, info & 0xffff);
    Some(Type { name, kind, flag, parts, size, at: at + TYPE_BYTES })
}

fn word(bytes: &[u8], at: usize) -> Option<u32> {
    bytes.get(at..)?.first_chunk().map(|chunk| u32::from_le_bytes(*chunk))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Types as bytes: each is name, info, size and parts.
    fn btf(types: &[&[u32]], strings: &[u8]) -> Vec<u8> {
        let types: Vec<u32> = types.concat();
        let len = types.len() as u32 * 4;
        let head = [MAGIC | u32::from(VERSION) << 16, 24, 0, len, len, strings.len() as u32];
        head.into_iter().chain(types).flat_map(u32::to_le_bytes).chain(strings.iter().copied()).collect()
    }

    fn info(kind: u8, parts: u32) -> u32 {
        u32::from(kind) << 24 | parts
    }

    #[test]
    fn types_have_names_parts_and_sizes() {
        // typedef const int number; struct pair { number a; int *b[3]; };
        let types: [&[u32]; 6] = [
            &[1, info(kind::INT, 0), 4, SIGNED | 32],
            &[0, info(kind::CONST, 0), 1],
            &[5, info(kind::TYPEDEF, 0), 2],
            &[0, info(kind::PTR, 0), 1],
            &[0, info(kind::ARRAY, 0), 0, 4, 1, 3],
            &[12, info(kind::STRUCT, 2), 32, 17, 3, 0, 19, 5, 64],
        ];
        let read = Btf::read(btf(&types, b"\0int\0number\0pair\0a\0b\0")).expect("well formed");
        let pair = read.get(6).expect("there");
        assert_eq!((read.text(pair.name), pair.parts, read.bytes_of(pair)), (&b"pair"[..], 2, Some(32)));
        let parts: Vec<[u32; 3]> = read.parts(pair).collect();
        assert_eq!(parts, [[17, 3, 0], [19, 5, 64]]);
        assert_eq!(read.plain(3).map(|ty| (ty.kind, read.bytes_of(ty))), Some((kind::INT, Some(4))));
        assert_eq!(read.plain(5).and_then(|ty| read.bytes_of(ty)), Some(24));
        assert_eq!(read.part(pair, 2), None::<[u32; 3]>);
        assert!(read.get(0).is_none() && read.get(7).is_none());
        assert_eq!(read.types().count(), 6);
    }

    #[test]
    fn damage_has_a_place_and_circles_end() {
        let strings = b"\0a\0";
        let circle: [&[u32]; 2] = [&[1, info(kind::TYPEDEF, 0), 1], &[0, info(kind::ARRAY, 0), 0, 2, 1, 1]];
        let bytes = btf(&circle, strings);
        let read = Btf::read(bytes.as_slice()).expect("nothing is cut off");
        assert!(read.plain(1).is_none());
        assert_eq!(read.plain(2).and_then(|ty| read.bytes_of(ty)), None);
        assert_eq!(Btf::read(&bytes[..40]).map(drop), Err(Error::Header));
        let unknown: [&[u32]; 2] = [&[0, info(kind::PTR, 0), 0], &[0, info(31, 0), 0]];
        assert_eq!(Btf::read(btf(&unknown, strings)).map(drop), Err(Error::Type(2)));
        let cut: [&[u32]; 1] = [&[0, info(kind::STRUCT, 9), 0]];
        assert_eq!(Btf::read(btf(&cut, strings)).map(drop), Err(Error::Type(1)));
    }
}
