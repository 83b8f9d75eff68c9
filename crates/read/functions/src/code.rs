//! What may be changed in a file's code: for `mote coldpatch`, which moves the first instructions of functions.

use crate::starts::{self, Start, Starts};
use crate::{Functions, Reason, arch, binary, functions, within_bounds};
use mote_symbol::{Image, ImageError, Table};
use std::ops::Range;
use std::path::Path;

/// The code of a file, with its functions.
#[derive(Debug)]
pub struct Code {
    /// The functions.
    pub functions: Functions,
    binary: binary::Binary,
    starts: Starts,
    targets: arch::Targets,
}

/// The first instructions of a function, as a jump would take their place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Window {
    /// Where they begin: behind the instruction for indirect calls, which has to stay.
    pub begin: u64,
    /// How many they are.
    pub instructions: u8,
    /// Bytes of them, without the padding that a jump lies over behind the last one.
    pub bytes: u8,
}

impl Code {
    /// Takes the file `bytes` apart, which is called `path`; `symbols` are its functions' names.
    ///
    /// # Errors
    /// As [`crate::read`].
    pub fn of(path: &Path, bytes: &[u8], symbols: &Table) -> Result<Code, ImageError> {
        let image = Image::from_bytes(path, bytes)?;
        let binary = mote_symbol::with_bytes(path, bytes, binary::Reading(arch::ARCHITECTURE))?;
        let binary = within_bounds(binary, path)?;
        let starts = starts::find(&binary, symbols);
        let targets = arch::targets(&binary, &starts.begins);
        let functions = functions(&binary, &targets, &starts, &image);
        Ok(Code { functions, binary, starts, targets })
    }

    /// The instructions at the entry of a function that have `bytes` together, or end it and have padding behind them.
    /// Nothing jumps to where one of them begins, but for the function's begin, and only the last one may be a call.
    ///
    /// # Errors
    /// Why there are none; also that there is no such function.
    pub fn window(&self, function: u64, bytes: u64) -> Result<Window, Reason> {
        let at = self.starts.functions.binary_search_by_key(&function, |start| start.address);
        let start = at.ok().and_then(|at| self.starts.functions.get(at)).ok_or(Reason::Undecodable)?;
        arch::window(&self.binary, &self.targets, start, bytes)
    }

    /// What lies between functions and is never run: padding behind an instruction that ends a function, by address.
    ///
    /// # Cost
    /// Decodes all functions: some 100 MB/s.
    #[must_use]
    pub fn padding(&self) -> Vec<Range<u64>> {
        let of = |start: &Start| arch::padding(&self.binary, &self.targets, start);
        self.starts.functions.iter().filter_map(of).collect()
    }

    /// Whether this many bytes at `address` are code that is loaded from the file; and which.
    #[must_use]
    pub fn bytes(&self, address: u64, len: usize) -> Option<&[u8]> {
        binary::part_at(&self.binary.code, address)?.from(address)?.get(..len)
    }
}
