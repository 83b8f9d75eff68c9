//! Names and lines of the code, from symbols and debug information.

use crate::binary::Binary;
use mote_probelist::{Function, Inlined};
use mote_symbol::functions::Functions as Debug;
use mote_symbol::{Image, Table, separate_symbols};

/// A place in the source.
type Source = (String, u32);

/// What is known of a file's addresses.
pub(crate) struct Names {
    table: Table,
    debug: Option<Debug>,
    build_id: String,
}

impl Names {
    /// Reads symbols and debug information of a file, also those that are in a file of their own.
    pub(crate) fn of(image: &Image) -> Names {
        let mut table = image.table.clone();
        if let Some(others) = separate_symbols(image) {
            table.merge(&others);
        }
        Names { table, debug: Debug::of(image, &image.path), build_id: image.build_id.clone() }
    }

    /// GNU build id of the file in hex; empty when it has none.
    pub(crate) fn build_id(&self) -> &str {
        &self.build_id
    }

    /// All symbols.
    pub(crate) fn table(&self) -> &Table {
        &self.table
    }

    /// The source file of the code at `address`.
    pub(crate) fn source(&self, address: u64) -> Option<String> {
        Some(self.debug.as_ref()?.place(address)?.0)
    }

    /// Where functions begin.
    pub(crate) fn addresses(&self) -> impl Iterator<Item = u64> {
        self.table.iter().map(|symbol| symbol.address)
    }

    /// The functions of the file, by address: of several names of one the best known. Indirect functions are none: the
    /// code there chooses the one that is called.
    pub(crate) fn functions(&self, binary: &Binary<'_>) -> Vec<Function> {
        let mut functions: Vec<Function> = Vec::new();
        for symbol in self.table.iter() {
            let is_known = functions.last().is_some_and(|last| last.address == symbol.address);
            let is_code = binary.code_at(symbol.address).is_some_and(|code| !code.is_linkage);
            if is_known || symbol.indirect || !is_code {
                continue;
            }
            let place = self.debug.as_ref().and_then(|debug| debug.place(symbol.address));
            let (file, line) = place.unzip();
            let end = binary.code_at(symbol.address).map_or(symbol.address, |code| code.end());
            let size = symbol.size.min(end - symbol.address);
            functions.push(Function {
                address: symbol.address,
                size,
                name: symbol.name.to_owned(),
                file,
                line,
            });
        }
        functions
    }

    /// The function that a placeholder of `size` bytes lies in; or that begins in it, where NOPs lie before it.
    pub(crate) fn function_of(&self, address: u64, size: u64) -> Option<&str> {
        let before = self.table.find(address);
        let own = before.filter(|symbol| address - symbol.address < symbol.size);
        let next = || self.table.find(address.checked_add(size)?).filter(|symbol| symbol.address > address);
        // Of assembly, tables may not say where it ends.
        let last = || before.filter(|symbol| symbol.size == 0);
        own.or_else(next).or_else(last).map(|symbol| symbol.name)
    }

    /// The place in the source of the code at `address`, and the functions that were inlined there, the innermost
    /// first.
    pub(crate) fn place(&self, address: u64) -> (Option<Source>, Vec<Inlined>) {
        let Some(debug) = &self.debug else { return (None, Vec::new()) };
        let frames = debug.inlined(address);
        let calls = frames.iter().skip(1).map(|(_, call)| call.clone().unzip());
        let inlined = frames.iter().zip(calls);
        let inlined = inlined.map(|((name, _), (file, line))| Inlined { function: name.clone(), file, line });
        (frames.first().and_then(|(_, place)| place.clone()), inlined.collect())
    }
}
