//! Stacks in records: return addresses, the innermost first, as they were when the event happened.
//!
//! They are two more fields in front of the event's own, with the names of LTTng's contexts: `callstack_kernel` and
//! `callstack_user`, sequences of addresses. Names are put to them when the recording is shown (crate `symbol`).
//!
//! The addresses are in the record itself. The alternative, the kernel's table of stacks (`BPF_MAP_TYPE_STACK_TRACE`),
//! saves bytes where the same stack comes often, but gives two stacks with one hash the same number, and has to be read
//! before it is full.
//!
//! # Limits
//! The kernel walks a process's stack by frame pointers. Code that was compiled without them (`-fomit-frame-pointer`,
//! the default of gcc with optimisation, and of most distributions' libraries) cuts the stack short, or leaves out the
//! function that called it: build with `-fno-omit-frame-pointer`, Rust with `-C force-frame-pointers=yes`. Kernel
//! stacks need nothing (ORC).

use crate::event::{Event, Field, Origin, Type};
use mote_layout::types::Scalar;
use std::str::FromStr;

/// Name of the field with the kernel's stack.
pub const KERNEL: &str = "callstack_kernel";
/// Name of the field with the process's stack.
pub const USER: &str = "callstack_user";
/// Most frames of a stack: what the kernel gives by default (sysctl `kernel.perf_event_max_stack`).
pub const FRAMES_MAX: u16 = 127;

/// Which stacks are recorded with events.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stacks {
    /// The kernel's.
    pub kernel: bool,
    /// The process's.
    pub user: bool,
}

impl Stacks {
    /// The kernel's and the process's.
    pub const BOTH: Stacks = Stacks { kernel: true, user: true };

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
            "kernel" => Ok(Stacks { kernel: true, user: false }),
            "user" => Ok(Stacks { kernel: false, user: true }),
            "both" => Ok(Stacks::BOTH),
            _ => Err(format!("`{word}` is not a kind of stack; give kernel, user or both")),
        }
    }
}

/// Makes `event` record stacks as well; one that is no program's, as those of the state dump, stays as it is.
pub fn add(event: &mut Event, stacks: Stacks) {
    let ty = Type::Sequence(Scalar::hex(64), FRAMES_MAX);
    let field = |name: &str, from| Field { name: name.to_owned(), ty: ty.clone(), from };
    let kernel = stacks.kernel.then(|| field(KERNEL, Origin::KernelStack));
    let user = stacks.user.then(|| field(USER, Origin::UserStack));
    let missing = |field: &Field| !event.fields.iter().any(|other| other.name == field.name);
    let new: Vec<Field> = kernel.into_iter().chain(user).filter(missing).collect();
    event.fields.splice(0..0, new);
}
