//! The kernel's own symbols, as `/proc/kallsyms` has them.

use crate::location::{Doubt, Function, Location};
use rustc_hash::FxHashMap;
use std::sync::Arc;

/// Functions of the kernel and its modules, by address.
#[derive(Clone, Debug, Default)]
pub struct Kernel {
    /// Address, begin of the name in `names`, module.
    symbols: Vec<(u64, u32, u16)>,
    names: String,
    modules: Vec<Arc<str>>,
}

/// Why there are no symbols of the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum KernelError {
    /// All addresses are 0.
    #[error(
        "the kernel hides its addresses (sysctl kernel.kptr_restrict); record as root, with kernel.kptr_restrict=0 or 1"
    )]
    Hidden,
    /// There is no symbol in it.
    #[error("no symbols of the kernel: its configuration has no CONFIG_KALLSYMS")]
    Empty,
}

impl KernelError {
    pub(crate) fn doubt(self) -> Doubt {
        match self {
            KernelError::Hidden => Doubt::HiddenKernel,
            KernelError::Empty => Doubt::NoKernelSymbols,
        }
    }
}

impl Kernel {
    /// Reads the lines `ADDRESS TYPE NAME [MODULE]`; what is no code, or no such line, is passed over.
    ///
    /// # Errors
    /// There is no symbol of code, or none has an address.
    pub fn parse(text: &str) -> Result<Kernel, KernelError> {
        let mut kernel = Kernel { modules: vec![Arc::from("kernel")], ..Kernel::default() };
        let mut modules: FxHashMap<&str, u16> = FxHashMap::default();
        let mut hidden = false;
        for line in text.lines() {
            let Some((address, name, module)) = code_symbol(line) else { continue };
            if address == 0 {
                hidden = true;
                continue;
            }
            let module = match module {
                None => 0,
                Some(module) => *modules.entry(module).or_insert_with(|| {
                    kernel.modules.push(Arc::from(module));
                    (kernel.modules.len() - 1) as u16
                }),
            };
            let Ok(at) = u32::try_from(kernel.names.len()) else { break };
            kernel.names.push_str(name);
            kernel.names.push('\n');
            kernel.symbols.push((address, at, module));
        }
        if kernel.symbols.is_empty() {
            return Err(if hidden { KernelError::Hidden } else { KernelError::Empty });
        }
        // Stable: of several names of an address the first one of the kernel's list is asked for last.
        kernel.symbols.sort_by_key(|(address, ..)| *address);
        Ok(kernel)
    }

    /// The function that `address` lies in, the offset in it, and its module (`kernel` for the kernel proper).
    #[must_use]
    pub fn find(&self, address: u64) -> Option<(&str, u64, &Arc<str>)> {
        let behind = self.symbols.partition_point(|(start, ..)| *start <= address);
        let (start, ..) = *self.symbols.get(behind.checked_sub(1)?)?;
        let first = self.symbols.partition_point(|(other, ..)| *other < start);
        let same = self.symbols.get(first..behind)?;
        let (_, at, module) = *same.iter().min_by_key(|(_, at, _)| rank(self.name(*at)))?;
        // Behind the last symbol there is no telling where the function ends.
        let last = behind == self.symbols.len();
        let offset = address - start;
        if last && offset > 4096 {
            return None;
        }
        Some((self.name(at), offset, self.modules.get(usize::from(module))?))
    }

    fn name(&self, at: u32) -> &str {
        self.names.get(at as usize..).and_then(|rest| rest.split('\n').next()).unwrap_or_default()
    }

    pub(crate) fn locate(&self, address: u64, lookup: u64) -> Location {
        let Some((name, offset, module)) = self.find(lookup) else {
            let kernel = Arc::from("kernel");
            return Location::unknown(address, &kernel, 0, Doubt::NoFunction(kernel.clone()));
        };
        let offset = offset + address.wrapping_sub(lookup);
        let function = Function { name: Arc::from(name), offset: Some(offset), line: None };
        Location {
            address,
            module: module.clone(),
            module_offset: 0,
            functions: vec![function],
            begin: None,
            doubt: None,
        }
    }
}

/// Of several names the one that people know: without `__`, not the mark of a section.
fn rank(name: &str) -> (bool, usize) {
    let mark = name.starts_with("__pi_")
        || name.ends_with("_start")
        || name.starts_with("_stext")
        || name == "_text";
    (mark, name.bytes().take_while(|byte| *byte == b'_').count())
}

/// Address, name and module (without its brackets) of a line of `/proc/kallsyms` when it is of code.
#[must_use]
pub fn code_symbol(line: &str) -> Option<(u64, &str, Option<&str>)> {
    let mut words = line.split_ascii_whitespace();
    let address = u64::from_str_radix(words.next()?, 16).ok()?;
    matches!(words.next()?, "t" | "T" | "w" | "W").then_some(())?;
    let name = words.next()?;
    let module = words.next().map(|module| module.trim_matches(['[', ']']));
    Some((address, name, module))
}

#[cfg(test)]
mod tests {
    use super::*;

    const LINES: &str = "ffffffff81000000 T _text\nffffffff81000000 T startup_64\nffffffff81000100 t __schedule\nffffffff81000100 T schedule_alias\n\
        ffffffff81000200 D jiffies\nffffffff81000300 T vfs_read\nffffffffc0000000 t nf_hook\t[nf_tables]\nffffffffc0000040 t bpf_prog_12_f\t[bpf]\nrubbish\n";

    #[test]
    fn functions_of_the_kernel() {
        let kernel = Kernel::parse(LINES).expect("symbols");
        let find =
            |address| kernel.find(address).map(|(name, offset, module)| format!("{name}+{offset} {module}"));
        assert_eq!(find(0xffff_ffff_8100_0001).as_deref(), Some("startup_64+1 kernel"));
        assert_eq!(find(0xffff_ffff_8100_0110).as_deref(), Some("schedule_alias+16 kernel"));
        assert_eq!(find(0xffff_ffff_8100_0304).as_deref(), Some("vfs_read+4 kernel"));
        assert_eq!(find(0xffff_ffff_c000_0002).as_deref(), Some("nf_hook+2 nf_tables"));
        assert_eq!(find(0xffff_ffff_c000_0050).as_deref(), Some("bpf_prog_12_f+16 bpf"));
        assert_eq!(find(0xffff_ffff_c010_0050), None);
        assert_eq!(find(7), None);
    }

    #[test]
    fn hidden_addresses_are_no_symbols() {
        assert_eq!(Kernel::parse("0000000000000000 T _text\n").err(), Some(KernelError::Hidden));
        assert_eq!(Kernel::parse("0000000000000000 D data\n").err(), Some(KernelError::Empty));
        assert_eq!(Kernel::parse("").err(), Some(KernelError::Empty));
    }
}
