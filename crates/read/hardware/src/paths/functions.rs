//! Functions by number: what paths are made of.

use crate::program::{Program, is_kernel};
use mote_pt::flow::Graph;
use mote_pt::image::Space;
use mote_pt::insn::Block;
use std::collections::HashMap;

/// The number of a function in its [`Functions`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FunctionId(u32);

/// A function, as paths name it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Named {
    /// Its name; or its file and address there, or its address.
    pub name: String,
    /// It is the kernel's.
    pub is_kernel: bool,
}

impl Named {
    /// The file that it is of, where it has no name of its own (`libc.so.6+0x28f00`).
    #[must_use]
    pub fn file(&self) -> Option<&str> {
        let (file, address) = self.name.rsplit_once("+0x")?;
        let is_address = !address.is_empty() && address.chars().all(|c| c.is_ascii_hexdigit());
        is_address.then_some(file)
    }

    /// As a line of folded stacks has it: `vfs_write_[k]`.
    #[must_use]
    pub fn folded(&self) -> String {
        mote_symbol::folded(&self.name) + if self.is_kernel { "_[k]" } else { "" }
    }
}

/// All functions that were met, each name once.
#[derive(Clone, Debug, Default)]
pub struct Functions {
    all: Vec<Named>,
    numbers: HashMap<Named, u32>,
}

impl Functions {
    /// The number of a function.
    pub fn number(&mut self, named: &Named) -> FunctionId {
        if let Some(number) = self.numbers.get(named) {
            return FunctionId(*number);
        }
        let number = self.all.len() as u32;
        self.all.push(named.clone());
        self.numbers.insert(named.clone(), number);
        FunctionId(number)
    }

    /// All functions, by their numbers.
    pub fn all(&self) -> impl Iterator<Item = &Named> {
        self.all.iter()
    }

    /// The function of a number.
    #[must_use]
    pub fn get(&self, function: FunctionId) -> &Named {
        const NONE: &Named = &Named { name: String::new(), is_kernel: false };
        self.all.get(function.0 as usize).unwrap_or(NONE)
    }
}

/// A place in code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Place {
    /// The function that it lies in.
    pub(super) function: FunctionId,
    /// It is the first instruction of it.
    pub(super) is_entry: bool,
}

impl Place {
    /// The bit of a packed place that says so.
    const ENTRY: u32 = 1 << 31;

    /// As a number that is not 0.
    fn packed(self) -> u32 {
        (self.function.0 + 1) | if self.is_entry { Place::ENTRY } else { 0 }
    }

    fn of(packed: u32) -> Option<Place> {
        let function = FunctionId((packed & !Place::ENTRY).checked_sub(1)?);
        Some(Place { function, is_entry: packed & Place::ENTRY != 0 })
    }
}

/// The places where blocks begin, each looked up once.
#[derive(Debug)]
pub(super) struct Places<'p, P> {
    pub(super) program: &'p P,
    pub(super) functions: Functions,
    /// By the number of a block, packed.
    blocks: Vec<u32>,
    generation: u32,
    space: Space,
}

impl<'p, P: Program> Places<'p, P> {
    pub(super) fn new(program: &'p P, functions: Functions) -> Places<'p, P> {
        Places { program, functions, blocks: Vec::new(), generation: 0, space: Space::ANY }
    }

    /// Code is of another address space from here on.
    pub(super) fn set_space(&mut self, space: Space) {
        self.space = space;
    }

    pub(super) fn space(&self) -> Space {
        self.space
    }

    /// Where a block begins.
    pub(super) fn of_block(&mut self, block: &Block, graph: &Graph) -> Place {
        if self.generation != graph.generation() {
            self.generation = graph.generation();
            self.blocks.clear();
        }
        let number = block.number() as usize;
        if let Some(place) = self.blocks.get(number).and_then(|packed| Place::of(*packed)) {
            return place;
        }
        let place = self.at(block.start);
        if self.blocks.len() <= number {
            self.blocks.resize(number + 1, 0);
        }
        if let Some(packed) = self.blocks.get_mut(number) {
            *packed = place.packed();
        }
        place
    }

    /// The place of an address.
    pub(super) fn at(&mut self, address: u64) -> Place {
        let is_kernel = is_kernel(address);
        let (name, is_entry) = match self.program.function(self.space, address) {
            Some(function) => match function.name.split_once(".cold") {
                // What a compiler has put apart is no function.
                Some((name, _)) if !name.is_empty() => (name.to_owned(), false),
                _ => (function.name, function.offset == 0),
            },
            None => (self.program.unnamed(self.space, address), false),
        };
        Place { function: self.functions.number(&Named { name, is_kernel }), is_entry }
    }
}
