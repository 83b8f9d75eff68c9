//! A program with the functions that it calls behind it, and its relocations resolved.

use super::file::File;
use super::maps::{Maps, Place};
use super::{ObjectError, Program};
use mote_bpf::environment::INSNS_MAX;
use mote_bpf::helper::BUILTIN;
use mote_bpf::insn::INSN_BYTES;
use mote_bpf::op::{Op, Wide, encode};
use mote_bpf::{Helper, Insn, Reg};
use std::collections::HashMap;

const R_BPF_64_64: u32 = 1;
const R_BPF_64_32: u32 = 10;

/// Most instructions of all programs of an object: functions are copied into each program that calls them.
const TOTAL_MAX: usize = 16 * INSNS_MAX;

const LDDW: u8 = 0x18;
const CALL: u8 = 0x85;
/// In the source field of a call: of a function of the program.
const LOCAL: u8 = 1;

type Result<T> = std::result::Result<T, ObjectError>;

/// All programs of an object.
pub(super) fn programs(file: &File<'_>, maps: &Maps, helpers: &[Helper]) -> Result<Vec<Program>> {
    let functions = |text: bool| {
        let is = move |index: usize| {
            let symbol = &file.symbols[index];
            let section = symbol.section.and_then(|section| file.sections.get(section));
            symbol.function
                && symbol.size > 0
                && section.is_some_and(|section| section.code && (section.name == ".text") == text)
                && (!text || symbol.global)
        };
        (0..file.symbols.len()).filter(move |index| is(*index))
    };
    let mut mains: Vec<usize> = functions(false).collect();
    if mains.is_empty() {
        mains = functions(true).collect();
    }
    mains.sort_by_key(|index| (file.symbols[*index].section, file.symbols[*index].value));
    if mains.is_empty() {
        return Err(ObjectError::Empty);
    }
    let mut total = 0;
    let mut programs = Vec::new();
    for main in mains {
        let program = Linker::new(file, maps, helpers).program(main)?;
        total += program.insns.len();
        if total > TOTAL_MAX {
            let here = Here { function: &program.name, insn: 0 };
            return here.fail(format!("the programs together have more than {TOTAL_MAX} instructions"));
        }
        programs.push(program);
    }
    Ok(programs)
}

/// A call that waits for its function's place.
struct Call {
    /// Slot in the program.
    slot: usize,
    /// Index of the function's symbol.
    function: usize,
}

struct Linker<'a> {
    file: &'a File<'a>,
    maps: &'a Maps,
    helpers: &'a [Helper],
    insns: Vec<Insn>,
    /// First slots of functions, by their symbols.
    placed: HashMap<usize, usize>,
    calls: Vec<Call>,
}

/// Where the linker is, for messages.
#[derive(Clone, Copy)]
struct Here<'a> {
    function: &'a str,
    insn: usize,
}

impl Here<'_> {
    fn fail<T>(self, problem: impl Into<String>) -> Result<T> {
        Err(ObjectError::Link {
            function: self.function.to_owned(),
            insn: self.insn,
            problem: problem.into(),
        })
    }
}

impl<'a> Linker<'a> {
    fn new(file: &'a File<'a>, maps: &'a Maps, helpers: &'a [Helper]) -> Linker<'a> {
        Linker { file, maps, helpers, insns: Vec::new(), placed: HashMap::new(), calls: Vec::new() }
    }

    fn program(mut self, main: usize) -> Result<Program> {
        self.function(main)?;
        // Functions that are appended append calls themselves.
        let mut done = 0;
        while let Some(&Call { slot, function }) = self.calls.get(done) {
            if !self.placed.contains_key(&function) {
                self.function(function)?;
            }
            let place = self.placed.get(&function).copied().unwrap_or(0);
            self.insns[slot].imm = (place as i64 - slot as i64 - 1) as i32;
            done += 1;
        }
        let symbol = &self.file.symbols[main];
        let section = symbol.section.map_or("", |section| self.file.sections[section].name);
        Ok(Program { name: symbol.name.to_owned(), section: section.to_owned(), insns: self.insns })
    }

    /// Appends a function, and resolves what it refers to.
    fn function(&mut self, index: usize) -> Result<()> {
        let symbol = &self.file.symbols[index];
        let here = Here { function: symbol.name, insn: 0 };
        let (start, end) = (symbol.value, symbol.value.saturating_add(symbol.size));
        let section = symbol.section.unwrap_or(0);
        let bytes =
            self.file.sections.get(section).and_then(|section| {
                section.data.get(usize::try_from(start).ok()?..usize::try_from(end).ok()?)
            });
        let Some(bytes) = bytes.filter(|bytes| bytes.len() % INSN_BYTES == 0 && start % 8 == 0) else {
            return here.fail("the function is cut, or not whole instructions");
        };
        let first = self.insns.len();
        if first + bytes.len() / INSN_BYTES > INSNS_MAX {
            return here.fail(format!("the program has more than {INSNS_MAX} instructions"));
        }
        self.placed.insert(index, first);
        let (chunks, _) = bytes.as_chunks::<INSN_BYTES>();
        self.insns.extend(chunks.iter().map(|chunk| Insn::from_bytes(*chunk)));
        let mut at = 0;
        while first + at < self.insns.len() {
            let offset = start + (at * INSN_BYTES) as u64;
            let here = Here { insn: at, ..here };
            at += self.resolve(here, first + at, (section, offset))?;
        }
        self.check_jumps(here, first)
    }

    /// Resolves one instruction, and returns its slots.
    fn resolve(&mut self, here: Here<'_>, slot: usize, (section, offset): (usize, u64)) -> Result<usize> {
        let insn = self.insns[slot];
        let local = insn.code == CALL && insn.src() == LOCAL;
        let related = self.file.sections[section].relocation(offset);
        match related.map(|related| (related.kind, related.symbol)) {
            Some((R_BPF_64_64, symbol)) if insn.code == LDDW => {
                self.load(here, slot, symbol)?;
                return Ok(2);
            }
            Some((R_BPF_64_32, symbol)) if insn.code == CALL => self.call(here, slot, symbol)?,
            Some((kind, _)) => return here.fail(format!("relocation {kind} is not supported here")),
            None if local => {
                // In the same section, clang knows the distance.
                let target = offset as i64 + (i64::from(insn.imm) + 1) * INSN_BYTES as i64;
                self.call_at(here, slot, section, target)?;
            }
            None => {}
        }
        Ok(if insn.code == LDDW { 2 } else { 1 })
    }

    /// A 16-byte load of an address.
    fn load(&mut self, here: Here<'_>, slot: usize, symbol: usize) -> Result<()> {
        let Some(symbol) = self.file.symbols.get(symbol) else { return here.fail("its symbol is missing") };
        let Some(section) = symbol.section else {
            return here.fail(format!("`{}` is defined nowhere", symbol.name));
        };
        let insn = self.insns[slot];
        let address = symbol.value.wrapping_add(insn.imm as i64 as u64);
        let value = match self.maps.at(section, address) {
            Some(Place::Map(map)) => Wide::Map(map),
            Some(Place::Value { map, offset }) => Wide::MapValue { map, offset },
            None if self.file.sections.get(section).is_some_and(|section| section.code) => {
                return here.fail("addresses of functions are not supported; call them");
            }
            None => return here.fail(format!("`{}` is no map and no variable", symbol.name)),
        };
        let (Some(dst), Some(_)) = (Reg::new(insn.dst()), self.insns.get(slot + 1)) else {
            return here.fail("the instruction is broken or cut");
        };
        if let (low, Some(high)) = encode(&Op::Wide { dst, value }) {
            self.insns[slot] = low;
            self.insns[slot + 1] = high;
        }
        Ok(())
    }

    /// A call of a function of another section, or of a helper by its name.
    fn call(&mut self, here: Here<'_>, slot: usize, symbol: usize) -> Result<()> {
        let Some(symbol) = self.file.symbols.get(symbol) else { return here.fail("its symbol is missing") };
        if let Some(section) = symbol.section {
            let imm = i64::from(self.insns[slot].imm);
            let target = (symbol.value as i64).wrapping_add((imm + 1) * INSN_BYTES as i64);
            return self.call_at(here, slot, section, target);
        }
        let name = symbol.name.strip_prefix("bpf_").unwrap_or(symbol.name);
        let helper = self.helpers.iter().chain(BUILTIN).find(|helper| helper.name == name);
        let Some(helper) = helper else {
            return here.fail(format!("`{}` is defined nowhere, and no helper", symbol.name));
        };
        self.insns[slot] = encode(&Op::Call { helper: helper.id }).0;
        Ok(())
    }

    fn call_at(&mut self, here: Here<'_>, slot: usize, section: usize, target: i64) -> Result<()> {
        let function = u64::try_from(target).ok().and_then(|target| self.file.function_at(section, target));
        let Some(function) = function else { return here.fail("the call is not to the start of a function") };
        self.insns[slot] = encode(&Op::CallLocal { offset: 0 }).0;
        self.calls.push(Call { slot, function });
        Ok(())
    }

    /// Jumps must stay within their function, which is put elsewhere.
    fn check_jumps(&self, here: Here<'_>, first: usize) -> Result<()> {
        let function = &self.insns[first..];
        let mut at = 0;
        while let Some(insn) = function.get(at) {
            let offset = match insn.code {
                CALL | 0x95 => None,
                0x06 => Some(i64::from(insn.imm)),
                code if matches!(code & 7, 5 | 6) => Some(i64::from(insn.off)),
                _ => None,
            };
            let target = offset.map(|offset| at as i64 + 1 + offset);
            if target.is_some_and(|target| target < 0 || target >= function.len() as i64) {
                return Here { insn: at, ..here }.fail("the jump leaves its function");
            }
            at += if insn.code == LDDW { 2 } else { 1 };
        }
        Ok(())
    }
}
