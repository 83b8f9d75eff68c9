//! Why a pattern of a probe means nothing.

use mote_symbol::ImageError;
use mote_sys::Errno;
use mote_words::counted;
use std::path::PathBuf;

/// A pattern that means nothing, and why.
#[derive(Debug, thiserror::Error)]
#[error("`{pattern}`: {wrong}")]
pub struct Error {
    /// As it was given.
    pub pattern: String,
    /// What is wrong with it.
    pub wrong: Wrong,
}

/// What is wrong with a pattern of a probe.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Wrong {
    /// It is not written as a probe is.
    #[error("not the pattern of a probe: {0}")]
    Syntax(String),
    /// There is no such program or library.
    #[error("there is no program or library `{name}`: {looked}; give its path")]
    NoBinary {
        /// What was looked for.
        name: String,
        /// The places where it was looked for.
        looked: String,
    },
    /// It cannot be read, or is none.
    #[error("{0}")]
    Image(ImageError),
    /// It is for another machine.
    #[error("{path} is for {machine}; probes are for {name} only", path = path.display(), name = crate::arch::NAME)]
    Machine {
        /// The file.
        path: PathBuf,
        /// The processor that the file is for.
        machine: String,
    },
    /// It has no symbols at all.
    #[error("{path} has no symbols: it was stripped; install its debug symbols, \
         or give an address (`uprobe:BIN:0xADDRESS`)", path = path.display())]
    Stripped {
        /// The file.
        path: PathBuf,
    },
    /// It has no such function.
    #[error("{path} has no function `{name}`{similar}", path = path.display())]
    NoFunction {
        /// The file.
        path: PathBuf,
        /// The name.
        name: String,
        /// Names that look like it, in words.
        similar: String,
    },
    /// It is an indirect function.
    #[error("`{name}` of {path} is chosen when the program starts (STT_GNU_IFUNC); \
         probe the one that is chosen{similar}", path = path.display())]
    Indirect {
        /// The file.
        path: PathBuf,
        /// The name.
        name: String,
        /// Names that look like it, in words.
        similar: String,
    },
    /// It does not return.
    #[error("`{name}` of {path} is where the program begins: it does not return, \
         and has no return address that could be probed", path = path.display())]
    NoReturn {
        /// The file.
        path: PathBuf,
        /// The name.
        name: String,
    },
    /// The address is none of code in the file.
    #[error("{address:#x} is not an address of code in {path}", path = path.display())]
    NoAddress {
        /// The file.
        path: PathBuf,
        /// The address.
        address: u64,
    },
    /// Too many fit.
    #[error(
        "{count} functions of {path} match, more than the {max} that can be probed; narrow the pattern",
        max = crate::selection::MATCHES_MAX,
        path = path.display()
    )]
    TooMany {
        /// The file.
        path: PathBuf,
        /// How many.
        count: usize,
    },
    /// It has no static probes.
    #[error("{path} has no static probes (no section .note.stapsdt)", path = path.display())]
    NoProbes {
        /// The file.
        path: PathBuf,
    },
    /// It has no such static probe.
    #[error("{path} has no static probe `{name}`{similar}", path = path.display())]
    NoProbe {
        /// The file.
        path: PathBuf,
        /// The name.
        name: String,
        /// Names that look like it, in words.
        similar: String,
    },
    /// It has fewer arguments than were named.
    #[error("static probe `{name}` has {}, but {given} are named", counted(*.has, "argument", "arguments"))]
    TooManyArguments {
        /// The probe.
        name: String,
        /// How many it has.
        has: usize,
        /// How many were named.
        given: usize,
    },
    /// An argument has fewer bytes than the type that was given.
    #[error(
        "argument `{name}` of static probe `{probe}` has {has} bytes, the given type {given}; \
         give a type of {has} bytes, or leave the types out"
    )]
    TooWide {
        /// The probe.
        probe: String,
        /// The argument.
        name: String,
        /// Bytes that it has.
        has: usize,
        /// Bytes of the type.
        given: usize,
    },
    /// The kernel has no kprobes.
    #[error(
        "this kernel has no kprobes (built without CONFIG_KPROBE_EVENTS); \
         `mote list -k` shows the tracepoints that it has"
    )]
    NoKprobes,
    /// The kernel attaches no programs to its functions.
    #[error(
        "this kernel has no fentry and fexit: it refuses a program at a function of its own ({0}); \
         use `kprobe:` and `kretprobe:`, where it has them, or a tracepoint (`mote list -k`)"
    )]
    NoFentry(Errno),
    /// The kernel does not tell its functions.
    #[error("this kernel does not describe its functions (no BTF); use a tracepoint (`mote list -k`)")]
    NoTypes,
    /// It has no such function.
    #[error("the kernel has no function `{name}` that can be probed{similar}")]
    NoKernelFunction {
        /// The name.
        name: String,
        /// Names that look like it, in words.
        similar: String,
    },
    /// The kernel cannot pass its arguments to programs.
    #[error(
        "`{name}` of the kernel cannot be probed by fentry and fexit: {why}; use `kprobe:`, where the kernel has it"
    )]
    Unfit {
        /// The function.
        name: String,
        /// What about it.
        why: &'static str,
    },
    /// It has no argument of this name.
    #[error("`{function}` of the kernel has no argument `{name}`; it has {has}")]
    NoArgument {
        /// The function.
        function: String,
        /// What was named.
        name: String,
        /// The names of those that it has.
        has: String,
    },
    /// Too many of the kernel's functions fit.
    #[error(
        "{count} functions of the kernel match, more than the {max} that can be probed; narrow the pattern",
        max = crate::selection::KERNEL_MATCHES_MAX
    )]
    TooManyOfKernel {
        /// How many.
        count: usize,
    },
}

impl Wrong {
    pub(crate) fn image(error: ImageError) -> Wrong {
        Wrong::Image(error)
    }
}

/// `; near names: a, b`, or nothing.
pub(crate) fn similar<'n>(name: &str, names: impl Iterator<Item = &'n str>) -> String {
    let mut similar = mote_pattern::similar(name, names);
    similar.dedup();
    if similar.is_empty() { String::new() } else { format!("; similar names: {}", similar.join(", ")) }
}
