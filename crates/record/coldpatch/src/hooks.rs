//! The functions that compilers have the program call for instrumentation: by name, and where code reaches them.

use crate::binary::Binary;
use mote_probelist::Kind;
use mote_symbol::names;
use object::{Object, ObjectSymbol, SymbolKind};
use std::collections::HashMap;
use std::ops::Range;

/// A name without its version, and without what the compiler adds for a copy or a part of a function: `.constprop.0`.
fn plain(name: &str) -> &str {
    let name = names::plain(name);
    name.split_once('.').map_or(name, |(plain, _)| plain)
}

/// The hook with this name. `mcount` is not reserved: see [`Hooks::of`].
fn kind(name: &str) -> Option<Kind> {
    Some(match plain(name) {
        "__cyg_profile_func_enter" | "__cyg_profile_func_enter_bare" => Kind::Enter,
        "__cyg_profile_func_exit" => Kind::Exit,
        "__fentry__" => Kind::Fentry,
        "mcount" | "_mcount" => Kind::Mcount,
        _ => return None,
    })
}

/// Where the hooks of a binary are.
pub(crate) struct Hooks<'b, 'd> {
    binary: &'b Binary<'d>,
    /// Where calls lead: hooks that are in the file, and entries of the linker's tables.
    functions: HashMap<u64, Kind>,
    /// Words of memory that the loader fills with the address of a hook.
    slots: HashMap<u64, Kind>,
    /// The code of those that are in the file.
    bodies: Vec<(Kind, Range<u64>)>,
}

impl<'b, 'd> Hooks<'b, 'd> {
    /// Finds them. A function `mcount` of the program's own is none: the C library's has the name `_mcount`, too.
    pub(crate) fn of(binary: &'b Binary<'d>) -> Hooks<'b, 'd> {
        let slots = binary.named().iter().filter_map(|(slot, name)| Some((*slot, kind(name)?))).collect();
        let mut hooks = Hooks { binary, functions: HashMap::new(), slots, bodies: Vec::new() };
        for symbol in binary.elf.symbols().chain(binary.elf.dynamic_symbols()) {
            let (name, address) = (symbol.name().unwrap_or_default(), symbol.address());
            let Some(kind) = kind(name) else { continue };
            if !symbol.is_definition()
                || symbol.kind() != SymbolKind::Text
                || binary.code_at(address).is_none()
            {
                continue;
            }
            // By its other name.
            if plain(name) != "mcount" {
                hooks.add(address, symbol.size(), kind);
            }
        }
        hooks
    }

    /// Adds entries of the linker's tables that lead to hooks.
    pub(crate) fn add_entries(&mut self, entries: Vec<(u64, Kind)>) {
        self.functions.extend(entries);
    }

    fn add(&mut self, address: u64, size: u64, kind: Kind) {
        self.functions.insert(address, kind);
        self.bodies.push((kind, address..address.saturating_add(size.max(1))));
    }

    /// The hook that a call to `address` reaches.
    pub(crate) fn function_at(&self, address: u64) -> Option<Kind> {
        self.functions.get(&address).copied()
    }

    /// The hook whose address is in the word at `slot`.
    pub(crate) fn in_slot(&self, slot: u64) -> Option<Kind> {
        let in_file = || self.functions.get(&self.binary.address_at(slot)?);
        self.slots.get(&slot).or_else(in_file).copied()
    }

    /// Whether `address` is in the hook's own code, which may jump back to its begin.
    pub(crate) fn is_at(&self, kind: Kind, address: u64) -> bool {
        self.bodies.iter().any(|(own, body)| *own == kind && body.contains(&address))
    }

    /// Whether there is none: no code has to be decoded.
    pub(crate) fn is_empty(&self) -> bool {
        self.functions.is_empty() && self.slots.is_empty()
    }
}
