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

    /// Of an address that no function is known of: one behind it, up to which none is either.
    fn nameless_until(&self, space: Space, address: u64) -> u64 {
        let _ = space;
        address.saturating_add(1)
    }

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

    fn nameless_until(&self, space: Space, address: u64) -> u64 {
        self.next_begin(space, address).unwrap_or(address.saturating_add(1))
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
#[path = "../tests/support/small.rs"]
pub(crate) mod small;
