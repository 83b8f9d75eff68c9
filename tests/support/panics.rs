//! Which functions of a linked program or library lead to a panic of Rust's: a walk over its machine code.

use iced_x86::{Decoder, DecoderOptions, Instruction, OpKind};
use object::{Object, ObjectSection, ObjectSymbol, RelocationFlags, RelocationTarget, SymbolKind};
use std::collections::{BTreeMap, HashMap, HashSet};
use std::path::Path;

/// What symbols of functions that panic are made of, in either mangling.
const MARKS: [&str; 12] = [
    "panicking",
    "rust_begin_unwind",
    "rust_panic",
    "begin_panic",
    "unwrap_failed",
    "expect_failed",
    "index_fail",
    "error_fail",
    "mismatch_fail",
    "panic_",
    "assert_failed",
    "unreachable_display",
];

/// A function of an image.
struct Function {
    name: String,
    end: u64,
}

/// Functions of a program or library, and what leads where in it.
pub(crate) struct Image {
    functions: BTreeMap<u64, Function>,
    /// For each function the functions that it calls, jumps to, or takes the address of.
    leads: HashMap<u64, HashSet<u64>>,
}

impl Image {
    /// Reads a linked ELF file that was not stripped.
    pub(crate) fn read(path: &Path) -> Image {
        let bytes = std::fs::read(path).unwrap_or_else(|why| panic!("{}: {why}", path.display()));
        let elf = object::File::parse(&*bytes).expect("an ELF file");
        // In a program at a fixed place, addresses are numbers in instructions, which are not looked at.
        assert_eq!(elf.kind(), object::ObjectKind::Dynamic, "{}", path.display());
        let functions: BTreeMap<u64, Function> = elf
            .symbols()
            .filter(|symbol| symbol.is_definition() && symbol.kind() == SymbolKind::Text)
            .map(|symbol| {
                let name = symbol.name().expect("text").to_owned();
                (symbol.address(), Function { name, end: symbol.address() + symbol.size() })
            })
            .collect();
        assert!(functions.len() > 2, "{} is stripped", path.display());
        let mut image = Image { functions, leads: HashMap::new() };
        let pointers = pointers(&elf);
        for section in elf.sections().filter(|section| section.kind() == object::SectionKind::Text) {
            let data = section.data().expect("readable");
            for one in Decoder::with_ip(64, data, section.address(), DecoderOptions::NONE) {
                let Some(from) = image.function_at(one.ip()) else { continue };
                let to = targets(&one, &pointers).filter_map(|at| image.function_at(at));
                let to: Vec<u64> = to.filter(|to| *to != from).collect();
                image.leads.entry(from).or_default().extend(to);
            }
        }
        image
    }

    /// Where the function begins that this address lies in.
    fn function_at(&self, address: u64) -> Option<u64> {
        let (start, function) = self.functions.range(..=address).next_back()?;
        (*start == address || address < function.end).then_some(*start)
    }

    /// All names.
    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        self.functions.values().map(|function| &*function.name)
    }

    /// Names of the functions that panic.
    pub(crate) fn panicking(&self) -> Vec<&str> {
        self.names().filter(|name| panics(name)).collect()
    }

    /// Ways from functions whose names are `of` to ones that panic: one for each such function, from its end to its
    /// beginning.
    pub(crate) fn ways_to_panic(&self, of: impl Fn(&str) -> bool) -> Vec<Vec<&str>> {
        let mut before: HashMap<u64, Option<u64>> = HashMap::new();
        let roots = self.functions.iter().filter(|(_, function)| of(&function.name));
        let mut open: Vec<u64> = roots.map(|(start, _)| *start).collect();
        assert!(!open.is_empty(), "no function of that name");
        before.extend(open.iter().map(|start| (*start, None)));
        let mut ways = Vec::new();
        while let Some(at) = open.pop() {
            if panics(&self.functions[&at].name) {
                let way = std::iter::successors(Some(at), |at| before[at]);
                ways.push(way.map(|at| &*self.functions[&at].name).collect());
                continue;
            }
            for to in self.leads.get(&at).into_iter().flatten() {
                before.entry(*to).or_insert_with(|| {
                    open.push(*to);
                    Some(at)
                });
            }
        }
        ways
    }
}

fn panics(name: &str) -> bool {
    MARKS.iter().any(|mark| name.contains(mark)) && !name.contains("panic_count")
}

/// Words of the image that the loader fills with addresses of the image, as calls through the table of the linker need.
fn pointers(elf: &object::File<'_>) -> HashMap<u64, u64> {
    let relative = elf.dynamic_relocations().into_iter().flatten().filter_map(|(place, relocation)| {
        match (relocation.flags(), relocation.target()) {
            (RelocationFlags::Elf { r_type: object::elf::R_X86_64_RELATIVE }, RelocationTarget::Absolute) => {
                Some((place, relocation.addend() as u64))
            }
            (_, RelocationTarget::Symbol(index)) => {
                let table = elf.dynamic_symbol_table()?;
                let symbol = object::ObjectSymbolTable::symbol_by_index(&table, index).ok()?;
                symbol.is_definition().then(|| (place, symbol.address()))
            }
            _ => None,
        }
    });
    relative.collect()
}

/// Addresses that an instruction goes to, computes, or reads from a word of the image.
fn targets(one: &Instruction, pointers: &HashMap<u64, u64>) -> impl Iterator<Item = u64> {
    let near = (one.op_count() > 0 && matches!(one.op0_kind(), OpKind::NearBranch64))
        .then(|| one.near_branch_target());
    let memory = one.is_ip_rel_memory_operand().then(|| one.ip_rel_memory_address());
    let read = memory.and_then(|at| pointers.get(&at).copied());
    near.into_iter().chain(memory).chain(read)
}
