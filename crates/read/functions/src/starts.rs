//! Where functions begin and end: by symbols, and by frames where there are no symbols.

use crate::binary::{Binary, part_at};
use mote_symbol::{Symbol, Table};
use std::collections::BTreeMap;

/// What was found.
#[derive(Debug, Default)]
pub(crate) struct Starts {
    /// By address.
    pub(crate) functions: Vec<Start>,
    /// Everything that begins anywhere, functions or not, by address: decoding begins anew at each.
    pub(crate) begins: Vec<u64>,
    pub(crate) left_out: LeftOut,
}

/// A function before its code was looked at.
#[derive(Clone, Debug)]
pub(crate) struct Start {
    pub(crate) address: u64,
    pub(crate) len: u64,
    pub(crate) name: Option<String>,
    /// Bytes up to what begins next, or to the end of the section.
    pub(crate) room: u64,
}

/// How many of what begins like a function are none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LeftOut {
    /// Parts that the compiler has moved away from their functions.
    pub parts: usize,
    /// Indirect functions: the code there chooses the function that is called.
    pub resolvers: usize,
    /// Entries of the linker's tables of functions of other files.
    pub linkage: usize,
}

/// What may begin at an address.
#[derive(Clone, Default)]
struct Candidate {
    len: u64,
    name: Option<String>,
    kind: Kind,
}

#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum Kind {
    #[default]
    Function,
    Part,
    Resolver,
}

/// Finds the functions of a file.
pub(crate) fn find(binary: &Binary, symbols: &Table) -> Starts {
    let mut candidates: BTreeMap<u64, Candidate> = BTreeMap::new();
    for symbol in symbols.iter() {
        add_symbol(&mut candidates, symbol);
    }
    for frame in &binary.frames {
        let known = candidates.entry(frame.address).or_default();
        known.len = known.len.max(frame.len);
        if known.name.is_none() && !frame.is_entry {
            known.kind = Kind::Part;
        }
    }
    candidates.retain(|address, _| part_at(&binary.code, *address).is_some());
    let begins: Vec<u64> = candidates.keys().copied().collect();
    let mut starts = Starts { begins, ..Starts::default() };
    let mut next = starts.begins.iter().skip(1).copied();
    for (address, candidate) in candidates {
        let behind = next.next().unwrap_or(u64::MAX);
        match candidate.kind {
            _ if binary.linkage.iter().any(|range| range.contains(&address)) => starts.left_out.linkage += 1,
            Kind::Part => starts.left_out.parts += 1,
            Kind::Resolver => starts.left_out.resolvers += 1,
            Kind::Function => {
                let end = part_at(&binary.code, address).map_or(address, |part| part.range().end);
                let room = behind.min(end) - address;
                let len = if candidate.len == 0 { room } else { candidate.len.min(end - address) };
                starts.functions.push(Start { address, len, name: candidate.name, room });
            }
        }
    }
    starts
}

fn add_symbol(candidates: &mut BTreeMap<u64, Candidate>, symbol: Symbol<'_>) {
    let kind = if symbol.indirect {
        Kind::Resolver
    } else if symbol.name.ends_with(".cold") || symbol.name.contains(".cold.") {
        Kind::Part
    } else {
        Kind::Function
    };
    // The best name of an address comes first.
    let known = candidates.entry(symbol.address).or_insert_with(|| Candidate {
        len: 0,
        name: Some(symbol.name.to_owned()),
        kind,
    });
    known.len = known.len.max(symbol.size);
    if symbol.indirect {
        known.kind = Kind::Resolver;
    }
}
