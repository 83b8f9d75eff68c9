//! The kernel's types, from BTF (`/sys/kernel/btf/vmlinux`): where the members of structures lie, and what the
//! arguments of tracepoints are.
//!
//! Nothing in the bytes is trusted: offsets are checked, and walks through types have a bound.
//! (Documentation/bpf/btf.rst)

mod functions;

pub use functions::Prototype;

use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;
use std::path::Path;

/// Where the running kernel shows its types.
pub const OF_KERNEL: &str = "/sys/kernel/btf/vmlinux";

const MAGIC: u16 = 0xeb9f;
/// More than any type is nested.
const DEPTH_MAX: u32 = 32;
/// More parts than any structure has, with those of the structures in it.
const STEPS_MAX: u32 = 1 << 16;

const PTR: u8 = 2;
const ARRAY: u8 = 3;
const STRUCT: u8 = 4;
const UNION: u8 = 5;
const ENUM: u8 = 6;
const TYPEDEF: u8 = 8;
const FUNC: u8 = 12;
const FUNC_PROTO: u8 = 13;
const VARIABLE: u8 = 14;

/// What is wrong with the types.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The file cannot be read.
    #[error("cannot read {OF_KERNEL}: {0}")]
    Read(#[from] std::io::Error),
    /// Not BTF, or of another version or byte order.
    #[error("{OF_KERNEL} is not BTF of version 1 in this machine's byte order")]
    Header,
    /// The type with this number is cut off, or of an unknown kind.
    #[error("{OF_KERNEL} is damaged at type {0}")]
    Type(u32),
}

/// The types.
#[derive(Debug)]
pub struct Btf {
    bytes: Vec<u8>,
    /// Where the texts begin, and how many bytes they are.
    strings: (usize, usize),
    /// Where each type begins; number 0 is `void`.
    types: Vec<u32>,
    /// Hashes of the names of structures, typedefs and functions, with their numbers, in order.
    names: Vec<(u64, u32)>,
    hasher: RandomState,
}

/// Where a member is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Member {
    /// Offsets in bytes: all but the last are of pointers, which are followed.
    pub path: Vec<u32>,
    /// How many bytes it has.
    pub bytes: u32,
    /// Whether it is a signed integer.
    pub signed: bool,
    /// Whether it is a pointer.
    pub pointer: bool,
}

/// A parameter of a tracepoint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Parameter {
    /// A pointer; to a structure of this name, if it is one.
    Pointer(String),
    /// A number.
    Number,
}

/// One type: name, kind, how many parts, size or type, and where its parts begin.
#[derive(Clone, Copy, Debug)]
struct Type {
    name: u32,
    kind: u8,
    bit_fields: bool,
    parts: u32,
    size: u32,
    at: usize,
}

impl Btf {
    /// The running kernel's.
    ///
    /// # Errors
    /// [`Error`].
    pub fn of_kernel() -> Result<Btf, Error> {
        Btf::read(std::fs::read(Path::new(OF_KERNEL))?)
    }

    /// Checks `bytes` once, so that later walks need not.
    ///
    /// # Errors
    /// [`Error`].
    pub fn read(bytes: Vec<u8>) -> Result<Btf, Error> {
        let word = |at: usize| word(&bytes, at).ok_or(Error::Header);
        if word(0)? & 0xffff != u32::from(MAGIC) || bytes.get(2) != Some(&1) {
            return Err(Error::Header);
        }
        let header = word(4)? as usize;
        let part = |offset: u32, len: u32| {
            let start = header.checked_add(offset as usize).ok_or(Error::Header)?;
            let end =
                start.checked_add(len as usize).filter(|end| *end <= bytes.len()).ok_or(Error::Header)?;
            Ok::<_, Error>((start, end))
        };
        let (start, end) = part(word(8)?, word(12)?)?;
        let (strings, strings_end) = part(word(16)?, word(20)?)?;
        let mut btf = Btf {
            strings: (strings, strings_end - strings),
            types: vec![0],
            names: Vec::new(),
            hasher: RandomState::new(),
            bytes,
        };
        btf.index(start, end)?;
        Ok(btf)
    }

    fn index(&mut self, start: usize, end: usize) -> Result<(), Error> {
        let mut at = start;
        while at < end {
            let id = self.types.len() as u32;
            let damaged = Error::Type(id);
            let Some(ty) = self.type_at(at) else { return Err(damaged) };
            let Some(parts) = ty.part_bytes() else { return Err(damaged) };
            at = ty.at + parts * ty.parts.max(u32::from(!ty.counts_parts())) as usize;
            if at > end {
                return Err(damaged);
            }
            self.types.push((ty.at - 12) as u32);
            if matches!(ty.kind, STRUCT | UNION | TYPEDEF | FUNC | ENUM | VARIABLE) && ty.name != 0 {
                let hash = self.hasher.hash_one(self.text(ty.name));
                self.names.push((hash, id));
            }
        }
        self.names.sort_unstable();
        Ok(())
    }

    fn type_at(&self, at: usize) -> Option<Type> {
        let (name, info, size) =
            (word(&self.bytes, at)?, word(&self.bytes, at + 4)?, word(&self.bytes, at + 8)?);
        let (kind, bit_fields, parts) = ((info >> 24 & 0x1f) as u8, info >> 31 == 1, info & 0xffff);
        Some(Type { name, kind, bit_fields, parts, size, at: at + 12 })
    }

    fn get(&self, id: u32) -> Option<Type> {
        let at = *self.types.get(id as usize).filter(|_| id != 0)?;
        self.type_at(at as usize)
    }

    fn text(&self, offset: u32) -> &[u8] {
        let (start, len) = self.strings;
        let all = self.bytes.get(start..start + len).unwrap_or_default();
        let rest = all.get(offset as usize..).unwrap_or_default();
        rest.split(|byte| *byte == 0).next().unwrap_or_default()
    }

    /// The number of the type with this name that is of one of these kinds.
    fn find(&self, name: &str, kinds: &[u8]) -> Option<u32> {
        let hash = self.hasher.hash_one(name.as_bytes());
        let from = self.names.partition_point(|(other, _)| *other < hash);
        let same = self.names.get(from..)?.iter().take_while(|(other, _)| *other == hash);
        same.map(|(_, id)| *id).find(|id| {
            self.get(*id).is_some_and(|ty| kinds.contains(&ty.kind) && self.text(ty.name) == name.as_bytes())
        })
    }

    /// The number of a structure or union.
    pub fn structure(&self, name: &str) -> Option<u32> {
        self.find(name, &[STRUCT, UNION])
    }

    /// The number of the type of a typedef; `None` when there is none by this name.
    pub fn typedef(&self, name: &str) -> Option<u32> {
        self.find(name, &[TYPEDEF])
    }

    /// The number of a function's type; `None` when there is none by this name.
    pub fn function(&self, name: &str) -> Option<u32> {
        self.find(name, &[FUNC])
    }

    /// The number of a variable of the kernel; `None` when there is none by this name.
    pub fn variable(&self, name: &str) -> Option<u32> {
        self.find(name, &[VARIABLE])
    }

    /// What BPF_PROG_LOAD wants as `attach_btf_id` for this tracepoint: the number of `btf_trace_NAME`.
    pub fn tracepoint(&self, name: &str) -> Option<u32> {
        self.typedef(&format!("btf_trace_{name}"))
    }

    /// A value of an enumeration, by its name.
    pub fn enumerator(&self, enumeration: &str, name: &str) -> Option<u64> {
        let ty = self.get(self.find(enumeration, &[ENUM])?)?;
        let parts = (0..ty.parts as usize).map(|part| ty.at + 8 * part);
        let mut named =
            parts.filter(|at| word(&self.bytes, *at).is_some_and(|text| self.text(text) == name.as_bytes()));
        word(&self.bytes, named.next()? + 4).map(u64::from)
    }

    /// What a program gets of this tracepoint, in order.
    pub fn parameters(&self, tracepoint: &str) -> Option<Vec<Parameter>> {
        let typedef = self.get(self.tracepoint(tracepoint)?)?;
        let pointer = self.plain(typedef.size).filter(|ty| ty.kind == PTR)?;
        let proto = self.plain(pointer.size).filter(|ty| ty.kind == FUNC_PROTO)?;
        // The first one is the registered data, which programs do not see.
        let types = (1..proto.parts as usize).map(|part| word(&self.bytes, proto.at + 8 * part + 4));
        types.map(|id| Some(self.parameter(id?))).collect()
    }

    fn parameter(&self, id: u32) -> Parameter {
        match self.plain(id) {
            Some(ty) if ty.kind == PTR => {
                let target = self.plain(ty.size).filter(|ty| matches!(ty.kind, STRUCT | UNION));
                let name = target.map(|ty| String::from_utf8_lossy(self.text(ty.name)).into_owned());
                Parameter::Pointer(name.unwrap_or_default())
            }
            _ => Parameter::Number,
        }
    }

    /// A type without typedefs, `const`, `volatile`, `restrict` and tags around it.
    fn plain(&self, id: u32) -> Option<Type> {
        let mut ty = self.get(id)?;
        for _ in 0..DEPTH_MAX {
            match ty.kind {
                TYPEDEF | 9..=11 | 18 => ty = self.get(ty.size)?,
                _ => return Some(ty),
            }
        }
        None
    }

    /// The member of a structure at `path`: names with dots between, through structures, unions and pointers alike.
    pub fn member(&self, structure: &str, path: &str) -> Option<Member> {
        let mut inside = self.get(self.structure(structure)?)?;
        let mut found = Member { path: Vec::new(), bytes: 0, signed: false, pointer: false };
        let mut offset = 0;
        let mut names = path.split('.').peekable();
        while let Some(name) = names.next() {
            let (at, id) = self.part(inside, name, &mut Walk::default())?;
            offset = at.wrapping_add(offset);
            let ty = self.plain(id)?;
            if names.peek().is_none() {
                found.path.push(offset);
                found.bytes = self.bytes_of(ty)?;
                found.signed = self.is_signed(ty);
                found.pointer = ty.kind == PTR;
            } else if ty.kind == PTR {
                found.path.push(offset);
                offset = 0;
                inside = self.plain(ty.size)?;
            } else {
                inside = ty;
            }
        }
        Some(found)
    }

    /// The offset of a member that lies in the structure itself.
    pub fn offset(&self, structure: &str, path: &str) -> Option<u32> {
        match self.member(structure, path)?.path[..] {
            [offset] => Some(offset),
            _ => None,
        }
    }

    /// How many bytes a structure has; `None` when there is none by this name.
    pub fn size(&self, structure: &str) -> Option<u32> {
        Some(self.get(self.structure(structure)?)?.size)
    }

    /// Offset and type of a part by its name; those of parts without a name count as the structure's own.
    fn part(&self, inside: Type, name: &str, walk: &mut Walk) -> Option<(u32, u32)> {
        if !matches!(inside.kind, STRUCT | UNION) || name.is_empty() {
            return None;
        }
        for part in 0..inside.parts as usize {
            walk.step()?;
            let at = inside.at + 12 * part;
            let (part_name, id) = (word(&self.bytes, at)?, word(&self.bytes, at + 4)?);
            let bits = word(&self.bytes, at + 8)?;
            // With bit fields, the upper byte is how many bits; those have no address.
            let (bits, field) = if inside.bit_fields { (bits & 0xff_ffff, bits >> 24) } else { (bits, 0) };
            let text = self.text(part_name);
            if text == name.as_bytes() {
                return (field == 0).then_some((bits / 8, id));
            }
            let nested = self.plain(id).filter(|_| text.is_empty());
            if let Some(nested) = nested {
                walk.deeper()?;
                let found = self.part(nested, name, walk);
                walk.depth -= 1;
                if let Some((inner, id)) = found {
                    return Some((inner.wrapping_add(bits / 8), id));
                }
            }
        }
        None
    }

    fn bytes_of(&self, ty: Type) -> Option<u32> {
        match ty.kind {
            PTR => Some(8),
            ARRAY => {
                let element = self.plain(word(&self.bytes, ty.at)?)?;
                let count = word(&self.bytes, ty.at + 8)?;
                // Of arrays of arrays nothing is read.
                let each = if element.kind == ARRAY { return None } else { self.bytes_of(element)? };
                each.checked_mul(count)
            }
            1 | STRUCT | UNION | ENUM | 16 | 19 => Some(ty.size),
            _ => None,
        }
    }

    fn is_signed(&self, ty: Type) -> bool {
        ty.kind == 1 && word(&self.bytes, ty.at).is_some_and(|int| int >> 24 & 1 == 1)
    }
}

/// How far a walk through parts without names has come: damaged types may lead in circles.
#[derive(Debug, Default)]
struct Walk {
    depth: u32,
    steps: u32,
}

impl Walk {
    fn step(&mut self) -> Option<()> {
        self.steps += 1;
        (self.steps < STEPS_MAX).then_some(())
    }

    fn deeper(&mut self) -> Option<()> {
        self.depth += 1;
        (self.depth < DEPTH_MAX).then_some(())
    }
}

impl Type {
    /// Bytes of one part behind the type; `None`: no such kind.
    fn part_bytes(self) -> Option<usize> {
        match self.kind {
            1 | 14 | 17 => Some(4),
            ARRAY | STRUCT | UNION | 15 | 19 => Some(12),
            ENUM | FUNC_PROTO => Some(8),
            PTR | 7..=FUNC | 16 | 18 => Some(0),
            _ => None,
        }
    }

    /// Whether it has as many parts as it says; else it is one.
    fn counts_parts(self) -> bool {
        !matches!(self.kind, 1 | ARRAY | 14 | 17)
    }
}

fn word(bytes: &[u8], at: usize) -> Option<u32> {
    bytes.get(at..)?.first_chunk().map(|chunk| u32::from_ne_bytes(*chunk))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Types as bytes: each is name, info, size and parts.
    pub(crate) fn btf(types: &[&[u32]], strings: &[u8]) -> Vec<u8> {
        let types: Vec<u32> = types.concat();
        let len = types.len() as u32 * 4;
        let head = [u32::from(MAGIC) | 1 << 16, 24, 0, len, len, strings.len() as u32];
        head.into_iter().chain(types).flat_map(u32::to_ne_bytes).chain(strings.iter().copied()).collect()
    }

    #[test]
    fn members_lie_where_the_types_say() {
        let kind = |kind: u32, parts: u32| kind << 24 | parts;
        // struct outer { int a; struct { int b; }; struct inner *p; }  struct inner { int c; }
        let strings = b"\0int\0outer\0inner\0a\0b\0p\0c\0";
        let types: [&[u32]; 5] = [
            &[1, kind(1, 0), 4, 1 << 24 | 32],
            &[5, kind(4, 3), 16, 17, 1, 0, 0, 3, 32, 21, 4, 64],
            &[0, kind(4, 1), 4, 19, 1, 0],
            &[0, kind(2, 0), 5],
            &[11, kind(4, 1), 8, 23, 1, 32],
        ];
        let read = Btf::read(btf(&types, strings)).expect("well formed");
        let member =
            |path| read.member("outer", path).map(|member| (member.path, member.bytes, member.signed));
        assert_eq!(member("a"), Some((vec![0], 4, true)));
        assert_eq!(member("b"), Some((vec![4], 4, true)));
        assert_eq!(member("p.c"), Some((vec![8, 4], 4, true)));
        assert_eq!((member("c"), member("a.b"), member("")), (None, None, None));
        assert_eq!((read.offset("outer", "p.c"), read.size("outer")), (None, Some(16)));
    }

    #[test]
    fn circles_end() {
        let strings = b"\0a\0";
        // A structure of itself, twice and without names; a typedef of itself.
        let parts: [&[u32]; 2] = [&[1, 4 << 24 | 2, 8, 0, 1, 0, 0, 1, 32], &[1, 8 << 24, 2]];
        let read = Btf::read(btf(&parts, strings)).expect("nothing is cut off");
        assert_eq!(read.member("a", "x"), None);
        assert_eq!(read.parameters("a"), None);
    }
}
