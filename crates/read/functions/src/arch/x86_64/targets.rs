//! The places that something may jump to, other than where functions begin: what would break if they were overwritten.
//!
//! More are found than there are: a number that happens to be the address of code is taken for one. That costs a
//! cheaper way to probe a function, never its code.

use crate::binary::{Binary, Part, part_at};
use iced_x86::{Decoder, DecoderOptions, FlowControl, Instruction, OpKind, Register};

/// Most entries of a table of jumps that are read.
const TABLE_MAX: usize = 1 << 16;
/// Most entries of all tables of a file; of the programs of a usual system the most is 350,000.
const ENTRIES_MAX: usize = 1 << 23;

/// The places.
#[derive(Debug, Default)]
pub(crate) struct Targets {
    /// In order.
    found: Vec<u64>,
    /// There were more than are looked for: any place may be one.
    is_cut: bool,
}

impl Targets {
    /// Whether something may jump between the two addresses, to neither of them.
    pub(crate) fn lie_between(&self, begin: u64, end: u64) -> bool {
        let behind = self.found.partition_point(|target| *target <= begin);
        self.is_cut || self.found.get(behind).is_some_and(|target| *target < end)
    }
}

/// Finds them: targets of jumps and calls, addresses that instructions, relocations or words of data hold, and entries
/// of tables of distances beside functions that jump by a register.
pub(crate) fn targets(binary: &Binary, begins: &[u64]) -> Targets {
    let mut found = Found { binary, targets: Vec::new(), tables: Vec::new() };
    for part in &binary.code {
        found.look_through(part, begins);
    }
    let is_cut = !found.read_tables();
    let is_code = |address: &u64| part_at(&binary.code, *address).is_some();
    let mut targets = found.targets;
    targets.extend(binary.relocated.iter().copied().filter(is_code));
    for part in &binary.data {
        let words = part.bytes.as_chunks::<8>().0.iter().map(|word| u64::from_le_bytes(*word));
        targets.extend(words.filter(is_code));
    }
    targets.sort_unstable();
    targets.dedup();
    targets.retain(|target| begins.binary_search(target).is_err());
    Targets { found: targets, is_cut }
}

/// The numbers in an instruction that are large enough to be addresses.
fn immediates(instruction: &Instruction) -> impl Iterator<Item = u64> {
    let is_large = |kind| matches!(kind, OpKind::Immediate32 | OpKind::Immediate32to64 | OpKind::Immediate64);
    let large = (0..instruction.op_count()).filter(move |operand| is_large(instruction.op_kind(*operand)));
    large.map(|operand| instruction.immediate(operand))
}

struct Found<'b> {
    binary: &'b Binary,
    targets: Vec<u64>,
    /// Where tables may begin that functions with computed jumps go by.
    tables: Vec<u64>,
}

impl Found<'_> {
    fn is_code(&self, address: u64) -> bool {
        part_at(&self.binary.code, address).is_some()
    }

    /// Decodes a section, anew from each address at which something begins.
    fn look_through(&mut self, part: &Part, begins: &[u64]) {
        let (mut at, end) = (part.address, part.range().end);
        let mut next = begins.get(begins.partition_point(|begin| *begin <= at)..).unwrap_or_default().iter();
        while at < end {
            let until = next.next().map_or(end, |begin| (*begin).min(end));
            let bytes = part.from(at).unwrap_or_default();
            let len = usize::try_from(until - at).unwrap_or(usize::MAX).min(bytes.len());
            self.look_at(bytes.get(..len).unwrap_or_default(), at);
            at = until;
        }
    }

    fn look_at(&mut self, bytes: &[u8], address: u64) {
        let mut decoder = Decoder::with_ip(64, bytes, address, DecoderOptions::NONE);
        let (mut instruction, mut tables, mut jumps) = (Instruction::default(), Vec::new(), false);
        while decoder.can_decode() {
            decoder.decode_out(&mut instruction);
            match instruction.flow_control() {
                FlowControl::UnconditionalBranch
                | FlowControl::ConditionalBranch
                | FlowControl::Call
                | FlowControl::XbeginXabortXend => self.add(instruction.near_branch_target()),
                // Through a place of its own, as in tables of the linker, it is no table of jumps.
                FlowControl::IndirectBranch => jumps |= !instruction.is_ip_rel_memory_operand(),
                _ => {}
            }
            if instruction.is_ip_rel_memory_operand() {
                let to = instruction.ip_rel_memory_address();
                self.add(to);
                tables.push(to);
            }
            // Code that can be loaded anywhere holds no addresses.
            if self.binary.is_fixed {
                immediates(&instruction).for_each(|number| self.add(number));
            }
            if instruction.memory_displ_size() >= 4 && instruction.memory_base() == Register::None {
                tables.push(instruction.memory_displacement64());
            }
        }
        if jumps {
            self.tables.append(&mut tables);
        }
    }

    fn add(&mut self, address: u64) {
        if self.is_code(address) {
            self.targets.push(address);
        }
    }

    /// Reads all tables, each once: of a hostile file they may lie in one another. False when they have too many
    /// entries together.
    fn read_tables(&mut self) -> bool {
        let mut tables = std::mem::take(&mut self.tables);
        tables.sort_unstable();
        tables.dedup();
        let mut left = ENTRIES_MAX;
        for table in tables {
            left -= self.read_table(table, left);
        }
        left > 0
    }

    /// Reads a table of distances from itself to code, up to what is none; at most so many. Returns how many it has.
    fn read_table(&mut self, table: u64, most: usize) -> usize {
        let Some(part) = part_at(&self.binary.data, table) else { return 0 };
        let entries = part.from(table).unwrap_or_default().as_chunks::<4>().0.iter();
        let before = self.targets.len();
        for entry in entries.take(TABLE_MAX.min(most)) {
            let target = table.wrapping_add_signed(i32::from_le_bytes(*entry).into());
            if !self.is_code(target) {
                break;
            }
            self.targets.push(target);
        }
        self.targets.len() - before
    }
}
