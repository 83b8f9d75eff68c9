//! What an address turned out to be.

use std::fmt;
use std::sync::Arc;

/// An address, resolved as far as it goes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Location {
    /// The address that this is about, in its process.
    pub address: u64,
    /// What it belongs to: `kernel`, the name of a kernel module, the path of a file, `[vdso]`, `[anon]`; empty when
    /// nothing was mapped there.
    pub module: Arc<str>,
    /// How far behind the begin of the file, or of the mapping when it has no file; 0 in the kernel.
    pub module_offset: u64,
    /// The functions, the innermost first: inlined ones, then the one that they were inlined into. Empty when no name
    /// is known.
    pub functions: Vec<Function>,
    /// Where the function begins, in the file's own address space, where that is known and its name is not.
    pub begin: Option<u64>,
    /// Why there is no name, or how far it can be trusted.
    pub doubt: Option<Doubt>,
}

/// A function at an address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Function {
    /// Demangled name of the function.
    pub name: Arc<str>,
    /// How far behind its begin the address lies; `None` for an inlined one.
    pub offset: Option<u64>,
    /// Source file, as the debug information has it, and line (0 when unknown).
    pub line: Option<(Arc<str>, u32)>,
}

impl Function {
    /// Whether it was inlined into the next one.
    #[must_use]
    pub fn is_inlined(&self) -> bool {
        self.offset.is_none()
    }
}

/// `checkout+0x1c (shop.c:12)`, `price (inlined) (shop.c:7)`
impl fmt::Display for Function {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)?;
        match self.offset {
            Some(offset) => write!(f, "+{offset:#x}")?,
            None => f.write_str(" (inlined)")?,
        }
        match &self.line {
            Some((file, 0)) => write!(f, " ({})", base(file)),
            Some((file, line)) => write!(f, " ({}:{line})", base(file)),
            None => Ok(()),
        }
    }
}

/// Why an address has no name, or one that may be wrong.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Doubt {
    /// The kernel's symbols were not saved.
    NoKernelSymbols,
    /// The kernel hid its addresses from the recorder.
    HiddenKernel,
    /// No mappings of the process were recorded.
    NoProcess(u32),
    /// Nothing was mapped there when the mappings were recorded.
    NotMapped,
    /// It is what the stack of a process led to, and no code; what was behind it is left away.
    Cut,
    /// The stack is deeper than what was copied of it.
    Copy,
    /// The stack goes on in code whose frames are not known.
    NoFrames,
    /// The stack has more functions than are recorded.
    Deep,
    /// The stack goes on on another one, which was not copied.
    OtherStack,
    /// The file is not there any more, or cannot be read.
    Missing(Arc<str>),
    /// The file has changed since: another build id.
    Changed(Arc<str>),
    /// The file has no build id and was written after the recording.
    Newer(Arc<str>),
    /// The file's symbols are damaged.
    Damaged(Arc<str>),
    /// The file, or the table of the run-time compiler, has no function there.
    NoFunction(Arc<str>),
    /// Code without a file, and no run-time compiler has left a table.
    Generated,
    /// It is our library's, which a recorder has loaded.
    Ours,
}

impl Doubt {
    /// Whether it is why the rest of a stack is not known.
    #[must_use]
    pub fn is_cut(&self) -> bool {
        matches!(self, Doubt::Cut | Doubt::Copy | Doubt::NoFrames | Doubt::Deep | Doubt::OtherStack)
    }
}

impl fmt::Display for Doubt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Doubt::NoKernelSymbols => f.write_str("the recording has no symbols of the kernel"),
            Doubt::HiddenKernel => f.write_str(
                "the kernel hid its addresses from the recorder (sysctl kernel.kptr_restrict); record as root, with kernel.kptr_restrict=0 or 1",
            ),
            Doubt::NoProcess(pid) => write!(f, "the recording has no memory maps of process {pid}"),
            Doubt::NotMapped => f.write_str("no code was mapped at the address"),
            Doubt::Cut => f.write_str(
                "code without frame pointers (build with -fno-omit-frame-pointer)",
            ),
            Doubt::Copy => {
                f.write_str("deeper than the copy that was made of them (record with a larger --stack-size)")
            }
            Doubt::NoFrames => f.write_str(
                "code without .eh_frame or frame pointers, or of a process that had gone before its files were read",
            ),
            Doubt::Deep => f.write_str("more functions than are recorded"),
            Doubt::OtherStack => {
                f.write_str("a signal handler on a stack of its own, behind the function that it has interrupted")
            }
            Doubt::Missing(path) => write!(f, "{path} does not exist any more"),
            Doubt::Changed(path) => write!(f, "{path} has changed since the recording (its build id is another one)"),
            Doubt::Newer(path) => write!(f, "{path} has no build id, and was written after the recording"),
            Doubt::Damaged(path) => write!(f, "{path} is damaged, or is not a program or library"),
            Doubt::NoFunction(path) => {
                write!(f, "{path} has no symbol there; its debug symbols may be in a package of their own")
            }
            Doubt::Ours => f.write_str("mote's own code in the program"),
            Doubt::Generated => {
                f.write_str("code made at run time, without a /tmp/perf-PID.map of its compiler")
            }
        }
    }
}

impl Location {
    /// An address about which nothing is known but `doubt`.
    pub(crate) fn unknown(address: u64, module: &Arc<str>, module_offset: u64, doubt: Doubt) -> Location {
        Location {
            address,
            module: module.clone(),
            module_offset,
            functions: Vec::new(),
            begin: None,
            doubt: Some(doubt),
        }
    }

    /// The last part of the module's path, `vdso` for `[vdso]`.
    #[must_use]
    pub fn module_name(&self) -> &str {
        base(&self.module).trim_matches(['[', ']'])
    }

    /// The place without a function: `0x7f..10 [libfoo.so+0x1310]`, or the bare address; `[cut short]` for the rest of
    /// a stack.
    #[must_use]
    pub fn place(&self) -> String {
        let Location { address, module_offset, .. } = self;
        match self.module_name() {
            "" if self.is_cut() => "[cut short]".to_owned(),
            "" => format!("{address:#x}"),
            "kernel" => format!("{address:#x} [kernel]"),
            name => format!("{address:#x} [{name}+{module_offset:#x}]"),
        }
    }

    /// One line for each function, the innermost first; never none.
    #[must_use]
    pub fn lines(&self) -> Vec<String> {
        if self.functions.is_empty() {
            return vec![self.place()];
        }
        let module = self.module_name();
        self.functions.iter().map(|function| format!("{function} [{module}]")).collect()
    }

    /// Names for a folded stack, the outermost first: `main`, `price`; kernel functions with `_[k]` behind, as flame
    /// graphs colour them.
    #[must_use]
    pub fn folded(&self) -> Vec<String> {
        if self.functions.is_empty() {
            let place = match self.module_name() {
                "" if self.is_cut() => "[cut]".to_owned(),
                "" => "[unknown]".to_owned(),
                name => format!("[{name}]"),
            };
            return vec![place];
        }
        let suffix = if self.is_kernel() { "_[k]" } else { "" };
        self.functions.iter().rev().map(|function| folded(&function.name) + suffix).collect()
    }

    /// Whether it stands for the rest of a stack that is not known.
    #[must_use]
    pub fn is_cut(&self) -> bool {
        self.doubt.as_ref().is_some_and(Doubt::is_cut)
    }

    /// Whether it is an address of the kernel.
    #[must_use]
    pub fn is_kernel(&self) -> bool {
        self.address >> 63 == 1
    }
}

/// A name for a folded stack, in which `;` and the end of the line have a meaning; nothing in it reaches a terminal but
/// as text.
#[must_use]
pub fn folded(name: &str) -> String {
    name.chars()
        .map(|c| {
            if c == ';' {
                ':'
            } else if c.is_control() {
                '?'
            } else {
                c
            }
        })
        .collect()
}

fn base(path: &str) -> &str {
    match path.rsplit_once('/') {
        Some((_, name)) if !name.is_empty() => name,
        _ => path,
    }
}
