//! Files as they are loaded, and a check of plans that knows nothing of how they are made.

#![allow(dead_code, reason = "each test has its part of it")]

pub(crate) mod oracle;

use mote_functions::Function;
use mote_layout::functions::{Scope, Value};
use mote_symbol::Image;
use mote_trampolines::Request;
use object::{Object, ObjectSection, SectionKind};
use std::ops::Range;
use std::path::Path;

/// The functions of a file.
pub(crate) struct File {
    pub functions: Vec<Function>,
    sections: Vec<(u64, Vec<u8>)>,
    /// It is loaded at the addresses that it has in the file.
    pub is_fixed: bool,
    /// Of everything that is loaded, in the file's own address space.
    pub extent: Range<u64>,
}

impl File {
    /// Reads it; `None` when it is not there.
    pub(crate) fn read(path: &Path) -> Option<File> {
        let bytes = std::fs::read(path).ok()?;
        let functions = mote_functions::read(&Image::open(path).expect("whole")).expect("whole").functions;
        let elf = object::File::parse(&*bytes).expect("an ELF file");
        let (mut sections, mut start, mut last) = (Vec::new(), u64::MAX, 0);
        for section in elf.sections().filter(|section| section.address() != 0) {
            let end = section.address() + section.size();
            (start, last) = (start.min(section.address()), last.max(end));
            if section.kind() == SectionKind::Text {
                sections.push((section.address(), section.data().expect("there").to_vec()));
            }
        }
        let extent = start / 4096 * 4096..u64::next_multiple_of(last, 4096);
        Some(File { functions, sections, is_fixed: elf.kind() == object::ObjectKind::Executable, extent })
    }

    /// The code from `address` on, at most 32 bytes.
    pub(crate) fn code(&self, address: u64) -> &[u8] {
        let holds =
            |(start, bytes): &&(u64, Vec<u8>)| (*start..start + bytes.len() as u64).contains(&address);
        let (start, bytes) = self.sections.iter().find(holds).expect("functions lie in sections");
        let rest = &bytes[(address - start) as usize..];
        &rest[..rest.len().min(32)]
    }

    /// Requests for all functions that pass, loaded so far above the file's addresses.
    pub(crate) fn requests(&self, bias: u64, passes: impl Fn(&Function) -> bool) -> Vec<Request<'_>> {
        let mut requests = Vec::new();
        for function in self.functions.iter().filter(|function| passes(function)) {
            requests.push(Request {
                values: values(requests.len()),
                event: format!("mote1\nf:{:x}", function.address),
                scope: Scope::Anywhere,
                address: function.address.wrapping_add(bias),
                function,
                code: self.code(function.address),
                current: None,
            });
        }
        requests
    }
}

/// The values of the request of this number: of each second one, only entries are counted.
pub(crate) fn values(number: usize) -> Vec<Value> {
    if number.is_multiple_of(2) { vec![Value::ENTRIES] } else { Vec::new() }
}
