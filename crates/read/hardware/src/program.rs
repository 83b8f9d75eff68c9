//! What analyses of executed code ask of it: bytes and names.

use mote_capture::Code;
use mote_pattern::Glob;
use mote_pt::image::{Image, Space};
use mote_pt::insn::LEN_MAX;
use mote_symbol::names;

/// The function that an address lies in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Function {
    /// Its name, demangled.
    pub name: String,
    /// How many bytes the address is behind its begin.
    pub offset: u64,
    /// How many bytes the function has; 0 where that is not known.
    pub bytes: u64,
}

impl Function {
    /// Whether a pattern means it: by its whole name, or that without parameters.
    #[must_use]
    pub fn is_meant(&self, glob: &Glob) -> bool {
        glob.matches(&self.name) || glob.matches(&names::bare(&self.name))
    }
}

/// Code with names.
pub trait Program {
    /// The bytes from an address on, perhaps not all of them; none where they are not known.
    fn code(&self, space: Space, address: u64) -> &[u8];

    /// Copies the bytes from an address on; returns how many there are, at most as many as fit.
    fn copy(&self, space: Space, address: u64, to: &mut [u8; LEN_MAX]) -> usize;

    /// The function that an address lies in, where it is known.
    fn function(&self, space: Space, address: u64) -> Option<Function>;

    /// What stands for an address that no function is known of.
    fn unnamed(&self, space: Space, address: u64) -> String {
        let _ = space;
        format!("{address:#x}")
    }
}

impl Program for Code {
    fn code(&self, space: Space, address: u64) -> &[u8] {
        self.bytes(space, address).unwrap_or_default()
    }

    fn copy(&self, space: Space, address: u64, to: &mut [u8; LEN_MAX]) -> usize {
        let mut count = 0;
        while let Some(rest) = to.get_mut(count..).filter(|rest| !rest.is_empty()) {
            let Ok(bytes) = self.read(space, address.wrapping_add(count as u64)) else { break };
            let part = bytes.len().min(rest.len());
            rest.iter_mut().zip(bytes).for_each(|(to, byte)| *to = *byte);
            count += part;
        }
        count
    }

    fn function(&self, space: Space, address: u64) -> Option<Function> {
        let place = self.place(space, address)?;
        Some(Function { name: place.function, offset: place.offset, bytes: place.bytes })
    }

    fn unnamed(&self, space: Space, address: u64) -> String {
        match self.in_file(space, address) {
            Some((file, address)) => {
                format!("{}+{address:#x}", file.file_name().unwrap_or_default().to_string_lossy())
            }
            None => format!("{address:#x}"),
        }
    }
}

/// Whether an address is of the kernel: in the upper half of all.
pub(crate) fn is_kernel(address: u64) -> bool {
    address >> 63 != 0
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// Functions of a few bytes.
    pub(crate) struct Small(Vec<(u64, String, Vec<u8>)>);

    impl Small {
        pub(crate) fn new(functions: &[(u64, &str, &[u8])]) -> Small {
            Small(
                functions.iter().map(|(at, name, bytes)| (*at, (*name).to_owned(), bytes.to_vec())).collect(),
            )
        }

        /// The function that holds an address, and where that lies in it.
        fn at(&self, address: u64) -> Option<(&str, usize, &[u8])> {
            self.0.iter().find_map(|(begin, name, bytes)| {
                let offset = usize::try_from(address.checked_sub(*begin)?).ok()?;
                (offset < bytes.len()).then_some((name.as_str(), offset, bytes.as_slice()))
            })
        }
    }

    impl Image for Small {
        fn read(&self, _: Space, address: u64) -> Result<&[u8], mote_pt::image::NoImage> {
            let found = self.at(address).and_then(|(_, offset, bytes)| bytes.get(offset..));
            found.ok_or(mote_pt::image::NoImage { address })
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
}
