//! What a program is made for: the side where it runs, what it finds there, and the sizes that bound it.

/// Where a program runs, which decides what it may call and how it reads fields.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// In the traced process, on the arguments of its event.
    User,
    /// In the kernel, called by the program that records the event: see [`ContextWord`] and
    /// [`crate::Compiled::stack_bytes`].
    Kernel,
}

/// What a word of the context is. On the user's side, the words are those of [`mote_layout::context`], all of them in
/// order. On the kernel's, they are only those that the program reads, in 8-byte slots on the caller's stack.
///
/// # What fields are on the kernel's side
/// | field | words |
/// |---|---|
/// | numbers | the value, extended to 64 bits by its sign or by zeros |
/// | strings | where it begins: [`STRING_ROOM`] readable bytes, whatever is behind the string; its length, at most [`STRING_LEN_MAX`] |
/// | arrays | where the first element begins |
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum ContextWord {
    /// This word of the event's.
    Field(u16),
    /// This number, which stands for the event in keys: so programs of events that differ in nothing else are the same.
    Event(u32),
}

/// Most bytes of the stack that a program of the kernel's side takes: what calls it has the rest of the 512.
pub const KERNEL_STACK_BYTES: u32 = 256;
/// Longest string that a program of the kernel's side sees; longer ones are cut.
pub const STRING_LEN_MAX: u32 = 255;
/// Bytes that must be readable where a string of the kernel's side begins.
pub const STRING_ROOM: u32 = STRING_LEN_MAX + 9;
/// Most elements of a sequence.
pub(crate) const INDEX_MAX: u32 = 65_535;
/// Bytes of a thread's name, its NUL included.
pub(crate) const COMM_BYTES: u32 = 16;
/// Bytes of a program's path that are looked at.
pub(crate) const EXECUTABLE_BYTES: u32 = 128;
