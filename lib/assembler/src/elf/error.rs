//! Why an object cannot be read.

/// Why an object cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ObjectError {
    /// No ELF file, or a broken one.
    #[error("not a whole ELF file: {0}")]
    Elf(String),
    /// An ELF file, of another kind.
    #[error("ELF file is not for BPF (machine {0}); compile it with clang -target bpf")]
    Machine(u16),
    /// A section is cut, or is not what its name says.
    #[error("section {section}: {problem}")]
    Section {
        /// Its name.
        section: String,
        /// What is wrong.
        problem: String,
    },
    /// Type information is broken, or missing where a map is defined by it.
    #[error("type information (.BTF): {0}; compile with -g")]
    Btf(String),
    /// A map is not one that there is here.
    #[error("map {map}: {problem}")]
    Map {
        /// Its name.
        map: String,
        /// What is wrong.
        problem: String,
    },
    /// A function refers to something that cannot be resolved.
    #[error("function {function}, instruction {insn}: {problem}")]
    Link {
        /// Its name.
        function: String,
        /// Slot in it.
        insn: usize,
        /// What is wrong.
        problem: String,
    },
    /// There is no function that could be a program.
    #[error("object has no programs; put a function into a section of its own")]
    Empty,
}
