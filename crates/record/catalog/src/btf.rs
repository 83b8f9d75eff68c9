//! The kernel's types, from BTF (`/sys/kernel/btf/vmlinux`): where the members of structures lie, and what the
//! arguments of tracepoints are.
//!
//! `mote_btf` reads the types; this finds them by their names, and knows what the kernel means by them. Nothing in the
//! bytes is trusted: walks through types have a bound.

mod functions;

pub use functions::Prototype;

use mote_btf::kind::{ENUM, FUNC, FUNC_PROTO, INT, PTR, STRUCT, TYPEDEF, UNION, VAR};
use mote_btf::{DEPTH_MAX, SIGNED, Type};
use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;
use std::path::Path;

/// Where the running kernel shows its types.
pub const OF_KERNEL: &str = "/sys/kernel/btf/vmlinux";

/// More parts than any structure has, with those of the structures in it.
const STEPS_MAX: u32 = 1 << 16;

/// What is wrong with the types.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The file cannot be read.
    #[error("cannot read {OF_KERNEL}: {0}")]
    Read(#[from] std::io::Error),
    /// What is there is no BTF, or is damaged.
    #[error("cannot read {OF_KERNEL}: {0}")]
    Types(#[from] mote_btf::Error),
}

/// The types.
#[derive(Debug)]
pub struct Btf {
    types: mote_btf::Btf<Vec<u8>>,
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
        let (types, hasher) = (mote_btf::Btf::read(bytes)?, RandomState::new());
        let is_named =
            |ty: &Type| matches!(ty.kind, STRUCT | UNION | TYPEDEF | FUNC | ENUM | VAR) && ty.name != 0;
        let named = types.types().filter(|(_, ty)| is_named(ty));
        let mut names: Vec<_> = named.map(|(id, ty)| (hasher.hash_one(types.text(ty.name)), id)).collect();
        names.sort_unstable();
        Ok(Btf { types, names, hasher })
    }

    /// The number of the type with this name that is of one of these kinds.
    fn find(&self, name: &str, kinds: &[u8]) -> Option<u32> {
        let hash = self.hasher.hash_one(name.as_bytes());
        let from = self.names.partition_point(|(other, _)| *other < hash);
        let same = self.names.get(from..)?.iter().take_while(|(other, _)| *other == hash);
        same.map(|(_, id)| *id).find(|id| {
            self.types
                .get(*id)
                .is_some_and(|ty| kinds.contains(&ty.kind) && self.types.text(ty.name) == name.as_bytes())
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
        self.find(name, &[VAR])
    }

    /// What BPF_PROG_LOAD wants as `attach_btf_id` for this tracepoint: the number of `btf_trace_NAME`.
    pub fn tracepoint(&self, name: &str) -> Option<u32> {
        self.typedef(&format!("btf_trace_{name}"))
    }

    /// A value of an enumeration, by its name.
    pub fn enumerator(&self, enumeration: &str, name: &str) -> Option<u64> {
        let ty = self.types.get(self.find(enumeration, &[ENUM])?)?;
        let mut parts = self.types.parts(ty);
        let [_, value] = parts.find(|[text, _]| self.types.text(*text) == name.as_bytes())?;
        Some(u64::from(value))
    }

    /// What a program gets of this tracepoint, in order.
    pub fn parameters(&self, tracepoint: &str) -> Option<Vec<Parameter>> {
        let typedef = self.types.get(self.tracepoint(tracepoint)?)?;
        let pointer = self.types.plain(typedef.size).filter(|ty| ty.kind == PTR)?;
        let proto = self.types.plain(pointer.size).filter(|ty| ty.kind == FUNC_PROTO)?;
        // The first one is the registered data, which programs do not see.
        Some(self.types.parts(proto).skip(1).map(|[_, id]| self.parameter(id)).collect())
    }

    fn parameter(&self, id: u32) -> Parameter {
        match self.types.plain(id) {
            Some(ty) if ty.kind == PTR => {
                let target = self.types.plain(ty.size).filter(|ty| matches!(ty.kind, STRUCT | UNION));
                let name = target.map(|ty| String::from_utf8_lossy(self.types.text(ty.name)).into_owned());
                Parameter::Pointer(name.unwrap_or_default())
            }
            _ => Parameter::Number,
        }
    }

    /// The member of a structure at `path`: names with dots between, through structures, unions and pointers alike.
    pub fn member(&self, structure: &str, path: &str) -> Option<Member> {
        let mut inside = self.types.get(self.structure(structure)?)?;
        let mut found = Member { path: Vec::new(), bytes: 0, signed: false, pointer: false };
        let mut offset = 0;
        let mut names = path.split('.').peekable();
        while let Some(name) = names.next() {
            let (at, id) = self.part(inside, name, &mut Walk::default())?;
            offset = at.wrapping_add(offset);
            let ty = self.types.plain(id)?;
            if names.peek().is_none() {
                found.path.push(offset);
                found.bytes = self.types.bytes_of(ty)?;
                found.signed = self.is_signed(ty);
                found.pointer = ty.kind == PTR;
            } else if ty.kind == PTR {
                found.path.push(offset);
                offset = 0;
                inside = self.types.plain(ty.size)?;
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
        Some(self.types.get(self.structure(structure)?)?.size)
    }

    /// Offset and type of a part by its name; those of parts without a name count as the structure's own.
    fn part(&self, inside: Type, name: &str, walk: &mut Walk) -> Option<(u32, u32)> {
        if !matches!(inside.kind, STRUCT | UNION) || name.is_empty() {
            return None;
        }
        for [part_name, id, bits] in self.types.parts(inside) {
            walk.step()?;
            // With bit fields, the upper byte is how many bits; those have no address.
            let (bits, field) = if inside.flag { (bits & 0xff_ffff, bits >> 24) } else { (bits, 0) };
            let text = self.types.text(part_name);
            if text == name.as_bytes() {
                return (field == 0).then_some((bits / 8, id));
            }
            let nested = self.types.plain(id).filter(|_| text.is_empty());
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

    fn is_signed(&self, ty: Type) -> bool {
        ty.kind == INT && self.types.part(ty, 0).is_some_and(|[how]| how & SIGNED != 0)
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

#[cfg(test)]
mod tests {
    use super::*;

    /// Types as bytes: each is name, info, size and parts.
    pub(crate) fn btf(types: &[&[u32]], strings: &[u8]) -> Vec<u8> {
        let types: Vec<u32> = types.concat();
        let len = types.len() as u32 * 4;
        let head = [0xeb9f | 1 << 16, 24, 0, len, len, strings.len() as u32];
        head.into_iter().chain(types).flat_map(u32::to_le_bytes).chain(strings.iter().copied()).collect()
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
