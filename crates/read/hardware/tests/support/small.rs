//! A program of a few bytes, for tests.

use super::{Function, Program};
use mote_pt::image::{Image, NoImage, Space};
use mote_pt::insn::LEN_MAX;

/// Functions: where, name, bytes.
pub(crate) struct Small(pub(crate) Vec<(u64, &'static str, Vec<u8>)>);

impl Small {
    pub(crate) fn new(functions: &[(u64, &'static str, &[u8])]) -> Small {
        Small(functions.iter().map(|(at, name, bytes)| (*at, *name, bytes.to_vec())).collect())
    }

    /// The function that holds an address, and where that lies in it.
    fn at(&self, address: u64) -> Option<(&'static str, usize, &[u8])> {
        self.0.iter().find_map(|(begin, name, bytes)| {
            let offset = usize::try_from(address.checked_sub(*begin)?).ok()?;
            (offset < bytes.len()).then_some((*name, offset, bytes.as_slice()))
        })
    }
}

impl Image for Small {
    fn read(&self, _: Space, address: u64) -> Result<&[u8], NoImage> {
        self.at(address).and_then(|(_, offset, bytes)| bytes.get(offset..)).ok_or(NoImage { address })
    }
}

impl Program for Small {
    fn code(&self, _: Space, address: u64) -> &[u8] {
        self.at(address).and_then(|(_, offset, bytes)| bytes.get(offset..)).unwrap_or_default()
    }

    fn copy(&self, _: Space, address: u64, to: &mut [u8; LEN_MAX]) -> usize {
        let Some((_, offset, bytes)) = self.at(address) else { return 0 };
        to.iter_mut().zip(&bytes[offset..]).map(|(to, byte)| *to = *byte).count()
    }

    fn function(&self, _: Space, address: u64) -> Option<Function> {
        let (name, offset, bytes) = self.at(address)?;
        Some(Function { name: name.to_owned(), offset: offset as u64, bytes: bytes.len() as u64 })
    }
}
