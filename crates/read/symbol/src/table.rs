//! The functions of a binary by address, from its symbol tables.

use object::{Object, ObjectSymbol, ReadRef, SymbolKind};

/// A function's name with the addresses that it covers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Symbol<'t> {
    /// Address in the file's own address space.
    pub address: u64,
    /// Bytes; 0 when the table does not say.
    pub size: u64,
    /// Name as in the table.
    pub name: &'t str,
    /// An indirect function (`STT_GNU_IFUNC`): the code there chooses the one that is called.
    pub indirect: bool,
}

/// Functions, in the order of addresses; of several names of one address the best known comes first.
#[derive(Clone, Debug, Default)]
pub struct Table {
    entries: Vec<Entry>,
    names: String,
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    address: u64,
    size: u64,
    name: u32,
    len: u32,
    rank: u8,
    indirect: bool,
}

impl Table {
    /// The functions in `.symtab` and `.dynsym`.
    pub(crate) fn read<'d>(elf: &object::File<'d, impl ReadRef<'d>>) -> Table {
        let mut table = Table::default();
        for symbol in elf.symbols().chain(elf.dynamic_symbols()) {
            table.add(&symbol);
        }
        table.sort();
        table
    }

    /// Functions that something else than a file's symbols tells: address, bytes, name.
    pub fn of<'n>(functions: impl IntoIterator<Item = (u64, u64, &'n str)>) -> Table {
        let mut table = Table::default();
        for (address, size, name) in functions {
            table.push(address, size, name, rank(name, false, true), false);
        }
        table.sort();
        table
    }

    /// Adds what `other` has: the symbols of a separate debug file.
    pub fn merge(&mut self, other: &Table) {
        for entry in &other.entries {
            let name = u32::try_from(self.names.len()).unwrap_or(u32::MAX);
            self.names.push_str(other.name(entry));
            self.entries.push(Entry { name, ..*entry });
        }
        self.sort();
    }

    fn add<'d>(&mut self, symbol: &impl ObjectSymbol<'d>) {
        let indirect = matches!(
            symbol.flags(),
            object::SymbolFlags::Elf { st_info, .. } if st_info.st_type() == object::elf::STT_GNU_IFUNC
        );
        let code = symbol.kind() == SymbolKind::Text || indirect;
        let untyped = symbol.kind() == SymbolKind::Unknown && symbol.size() > 0;
        if symbol.is_undefined() || !(code || untyped) || symbol.section_index().is_none() {
            return;
        }
        let Ok(bytes) = symbol.name_bytes() else { return };
        let text = String::from_utf8_lossy(bytes);
        if text.is_empty() || text.starts_with('$') {
            return;
        }
        let rank = rank(&text, symbol.is_weak(), symbol.is_global());
        self.push(symbol.address(), symbol.size(), &text, rank, indirect);
    }

    /// Adds an entry, unless there are 4 GiB of names already.
    fn push(&mut self, address: u64, size: u64, text: &str, rank: u8, indirect: bool) {
        let (Ok(name), Ok(len)) = (u32::try_from(self.names.len()), u32::try_from(text.len())) else {
            return;
        };
        self.names.push_str(text);
        self.entries.push(Entry { address, size, name, len, rank, indirect });
    }

    fn sort(&mut self) {
        let Table { entries, names } = self;
        let name = |entry: &Entry| names.get(entry.name as usize..(entry.name + entry.len) as usize);
        entries.sort_by(|a, b| {
            (a.address, a.size == 0, a.rank, a.len, name(a)).cmp(&(
                b.address,
                b.size == 0,
                b.rank,
                b.len,
                name(b),
            ))
        });
        entries.dedup_by(|b, a| a.address == b.address && name(a) == name(b));
    }

    fn name(&self, entry: &Entry) -> &str {
        let start = entry.name as usize;
        self.names.get(start..start.saturating_add(entry.len as usize)).unwrap_or_default()
    }

    fn symbol(&self, entry: &Entry) -> Symbol<'_> {
        let Entry { address, size, indirect, .. } = *entry;
        Symbol { address, size, name: self.name(entry), indirect }
    }

    /// The function that `address` lies in.
    #[must_use]
    pub fn find(&self, address: u64) -> Option<Symbol<'_>> {
        let behind = self.entries.partition_point(|entry| entry.address <= address);
        // A function may lie inside a longer one that began earlier: the nearest begins are looked through.
        let before = self.entries.get(behind.saturating_sub(16)..behind)?;
        let inside = |entry: &&Entry| address - entry.address < entry.size;
        let last = before.last()?;
        let from = before.partition_point(|entry| entry.address < last.address);
        let best = before.get(from)?;
        if best.size == 0 || inside(&best) {
            return Some(self.symbol(best));
        }
        before.iter().rev().find(inside).map(|entry| self.symbol(entry))
    }

    /// Where the first function begins that begins behind `address`.
    #[must_use]
    pub fn next_begin(&self, address: u64) -> Option<u64> {
        let behind = self.entries.partition_point(|entry| entry.address <= address);
        self.entries.get(behind).map(|entry| entry.address)
    }

    /// All symbols, in the order of addresses.
    pub fn iter(&self) -> impl Iterator<Item = Symbol<'_>> {
        self.entries.iter().map(|entry| self.symbol(entry))
    }

    /// True when the file has no symbols of code.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }
}

/// Of several names of one address: global ones before local ones before weak ones, few underscores before many.
fn rank(name: &str, weak: bool, global: bool) -> u8 {
    let underscores = name.bytes().take_while(|byte| *byte == b'_').count().min(7) as u8;
    let internal = name.contains("@@") || name.contains("_GI_");
    let binding = u8::from(!global) + u8::from(weak);
    (u8::from(internal) << 6) | (underscores << 2) | binding
}
