//! Stacks in records: return addresses, the innermost first, as they were when the event happened.
//!
//! They are two more fields in front of the event's own, with the names of LTTng's contexts: `callstack_kernel` and
//! `callstack_user`, sequences of addresses. Names are put to them when the recording is shown (crate `symbol`).
//!
//! The addresses are in the record itself. The alternative, the kernel's table of stacks (`BPF_MAP_TYPE_STACK_TRACE`),
//! saves bytes where the same stack comes often, but gives two stacks with one hash the same number, and has to be read
//! before it is full.
//!
//! # The process's stack
//! The kernel walks it by frame pointers, and most code has none: distributions' libraries and what gcc optimises.
//! There it leaves out the function that called, or ends; and it cannot know that it did. So a piece of the stack is
//! copied into the record instead, with three registers (`mote_layout::stack`), and the recorder makes addresses of it
//! by the files' `.eh_frame`. [`Stacks::copy`] of 0 leaves it to the kernel. Kernel stacks need nothing (ORC).

use crate::event::{Event, Field, Origin, Type};
pub use mote_layout::stack::USER;
use mote_layout::stack::{BYTES_MAX, HEADER_WORDS};
use mote_layout::types::Scalar;
use std::str::FromStr;

/// Name of the field with the kernel's stack.
pub const KERNEL: &str = "callstack_kernel";
/// Most frames of a stack.
pub const FRAMES_MAX: u16 = mote_layout::stack::FRAMES_MAX as u16;
/// Bytes of the process's stack that are copied where nothing else is said: those of most servers have less.
pub const COPY: u32 = 8 << 10;

/// Which stacks are recorded with events.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stacks {
    /// The kernel's.
    pub kernel: bool,
    /// The process's.
    pub user: bool,
    /// Most bytes that are copied of the process's, rounded down to words; 0: it is followed by frame pointers.
    pub copy: u32,
}

impl Stacks {
    /// The kernel's and the process's.
    pub const BOTH: Stacks = Stacks { kernel: true, user: true, copy: COPY };

    /// Whether there is one at all.
    #[must_use]
    pub fn any(self) -> bool {
        self.kernel || self.user
    }
}

impl FromStr for Stacks {
    type Err = String;

    fn from_str(word: &str) -> Result<Stacks, String> {
        match word {
            "kernel" => Ok(Stacks { user: false, ..Stacks::BOTH }),
            "user" => Ok(Stacks { kernel: false, ..Stacks::BOTH }),
            "both" => Ok(Stacks::BOTH),
            _ => Err(format!("`{word}` is not a kind of stack; give kernel, user or both")),
        }
    }
}

/// Makes `event` record stacks as well; one that is no program's, as those of the state dump, stays as it is.
pub fn add(event: &mut Event, stacks: Stacks) {
    let field = |name: &str, from, words| Field {
        name: name.to_owned(),
        ty: Type::Sequence(Scalar::hex(64), words),
        from,
    };
    let copy = stacks.copy.min(BYTES_MAX) / 8;
    let words = if copy == 0 { FRAMES_MAX } else { FRAMES_MAX.max((HEADER_WORDS as u32 + copy) as u16) };
    let kernel = stacks.kernel.then(|| field(KERNEL, Origin::KernelStack, FRAMES_MAX));
    let user = stacks.user.then(|| field(USER, Origin::UserStack { copy: 8 * copy }, words));
    let missing = |field: &Field| !event.fields.iter().any(|other| other.name == field.name);
    let new: Vec<Field> = kernel.into_iter().chain(user).filter(missing).collect();
    event.fields.splice(0..0, new);
}
