//! What two captures differ in, to be shown.

use mote_hardware::paths::{Difference, Functions, Named, Side, Syscall, Tree};
use std::collections::{BTreeMap, BTreeSet};

/// Functions without a name, of a file that the other capture does not have.
const NO_NAME: &str = "[no name]";

/// One of both captures.
pub(super) struct Read {
    pub(super) functions: Functions,
    pub(super) tree: Tree,
    /// Its system calls, if they are meant.
    pub(super) calls: BTreeMap<String, Syscall>,
}

impl Read {
    /// The files with functions that have no names.
    pub(super) fn files(&self) -> BTreeSet<String> {
        self.functions.all().filter_map(|named| named.file()).map(str::to_owned).collect()
    }

    /// Functions without a name are told apart by their addresses only in files that both captures have: in others,
    /// these mean nothing.
    pub(super) fn forget_all_but(&mut self, files: &[BTreeSet<String>; 2]) {
        let is_everywhere = |file: &str| files.iter().all(|files| files.contains(file));
        let name = |named: &Named| match named.file() {
            Some(file) if !is_everywhere(file) => Named { name: NO_NAME.to_owned(), ..named.clone() },
            _ => named.clone(),
        };
        (self.tree, self.functions) = self.tree.renamed(&self.functions, name);
    }

    pub(super) fn side(&self) -> Side<'_> {
        Side { tree: &self.tree, functions: &self.functions }
    }
}

/// Both captures, and what they differ in.
pub(super) struct Found {
    /// What they are called.
    pub(super) paths: [String; 2],
    pub(super) is_of_syscalls: bool,
    /// Differences that people are shown.
    pub(super) limit: usize,
    pub(super) sides: [Read; 2],
    pub(super) differences: Vec<Difference>,
}
