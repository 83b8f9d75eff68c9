//! The verifier: shows that a program cannot harm the process that runs it, or says why it might.
//!
//! It is of the kernel's kind. Every path through a program is walked with what is known of each register and of each
//! stack slot: numbers by their ranges (signed and unsigned, 64 and 32 bits) and their known bits, pointers by what
//! they point into and how far from its beginning. A path ends at `exit`, or where a walk that is already over began
//! with no more knowledge than this one has ([`prune`]). Loops are walked turn by turn.
//!
//! | module | job |
//! |---|---|
//! | `structure` | first pass: instructions, jumps, functions |
//! | `liveness` | second pass: which registers matter where |
//! | `walk` | third pass: all paths; its steps in `compute`, `access`, `stack`, `call`, `branch` |
//! | `visited`, `saved`, `compare` | states that were met, and whether another one is among them |
//! | `state`, [`value`] | what is known at a point; of a register |
//! | `function` | what is known of a function, in the end |
//! | `watch` | what is shown before each instruction |
//! | [`scalar`], [`range`], [`tnum`] | what is known of a number |
//! | [`arithmetic`], [`condition`] | what operations and comparisons say of numbers |
//! | [`rejection`] | what is said of a refused program |
//!
//! # Unlike the kernel
//! - Accesses need not be aligned (x86-64 and aarch64 do not mind); atomic ones must be.
//! - Pointers are kept in registers and on the stack only, and no pointer becomes a number, whichever user loads the
//!   program.
//! - What was not written is not read; the kernel lets root read it.
//! - Offsets into values, memory and the stack may wrap round, as long as they end inside; the kernel bounds each.
//! - Shifts by the width or more are taken modulo the width, and divisions by a constant 0 give 0, as RFC 9669 says;
//!   the kernel refuses them.
//! - Each frame has its own 512 bytes; the kernel's frames share them.
//! - The length of a text (`end - start`) is a number that stays bound to it: compared with a constant it says how many
//!   bytes there are.
//! - Numbers that can reach no branch, address or size are not compared (the kernel finds those by walking back).
//! - An array's entry may be null at any index; the kernel knows better for constant ones.
//! - Tail calls come from the main function only.
//!
//! Source: `kernel/bpf/verifier.c`, Linux 6.18; Vishwanathan et al., "Sound, Precise, and Fast Abstract Interpretation
//! with Tristate Numbers" (2022).

use crate::environment::{Entry, Environment, INSNS_MAX};
use crate::insn::{Insn, Reg};
use crate::map::MapShape;
use crate::table::Table;

mod access;
pub mod arithmetic;
mod branch;
mod call;
mod compare;
mod compute;
pub mod condition;
mod function;
mod liveness;
pub mod range;
pub mod rejection;
mod saved;
pub mod scalar;
mod stack;
mod state;
mod structure;
pub mod tnum;
pub mod value;
mod visited;
mod walk;
mod watch;

pub use function::{FUNCTIONS_MAX, Function};
pub use rejection::{Known, Pointee, Reason, Rejection};
pub use scalar::Scalar;
pub use value::{Kind, Value};
pub use watch::{View, Watch};

use state::State;
use structure::{SlotInfo, Slots};
use visited::Visited;
use walk::Walk;

/// A program that was verified, for the environment that it was verified in.
///
/// The owner of one may rely on this: run in such an environment, the program ends after at most [`Verified::steps`]
/// instructions (each program of a chain of tail calls for itself), reads and writes only memory that it may, and calls
/// helpers only with arguments of their signature. The exception are reads through `Start`, `End` and `Bytes` words:
/// they stay within what the words say, but if the words lie they hit memory that cannot be read. No such read happens
/// while a record of a ring buffer is held.
///
/// # What engines provide
/// - `r10` is the end of [`Function::stack_bytes`] bytes, aligned to 8. Nothing in them needs to be set.
/// - `Memory` of the entry, values of maps and records begin at multiples of 8. So atomic operations are naturally
///   aligned; other accesses need not be.
/// - An `End` is not before its `Start`, and at most `isize::MAX` behind it.
/// - Behind the value (the last one) of a read-only array lies at least one zero byte. So text in it ends.
#[derive(Clone, Copy, Debug)]
pub struct Verified<'a> {
    pub(crate) insns: &'a [Insn],
    pub(crate) maps: &'a [MapShape],
    pub(crate) functions: Table<Function, FUNCTIONS_MAX>,
    pub(crate) count: u16,
    pub(crate) depth: u8,
    pub(crate) tail_calls: bool,
    pub(crate) reads_outside: bool,
    pub(crate) steps: u32,
}

impl<'a> Verified<'a> {
    /// The program's instructions, as they were verified.
    pub const fn insns(&self) -> &'a [Insn] {
        self.insns
    }

    /// The shapes of the maps that it was verified with.
    pub const fn maps(&self) -> &'a [MapShape] {
        self.maps
    }

    /// Its functions in the order of their places; the first is the main one, at slot 0. They cover all slots.
    pub fn functions(&self) -> &[Function] {
        self.functions.first(self.count.into())
    }

    /// The function that begins at this slot.
    pub fn function_at(&self, start: usize) -> Option<usize> {
        self.functions().binary_search_by_key(&start, Function::start).ok()
    }

    /// No run takes more instructions than this, up to its end or its tail call.
    pub const fn steps(&self) -> u32 {
        self.steps
    }

    /// Most frames at once, that of the main function included.
    pub const fn depth(&self) -> usize {
        self.depth as usize
    }

    /// Whether it may go on with another program. Only the main function does so.
    pub const fn tail_calls(&self) -> bool {
        self.tail_calls
    }

    /// Whether it reads, itself or through a helper, what `Start`, `End` and `Bytes` words point to: such reads can
    /// fault.
    pub const fn reads_outside(&self) -> bool {
        self.reads_outside
    }
}

/// What the verifier works in. Bytes that are all zero are a valid one, and so is one that was used before.
///
/// It is large (see [`Workspace::BYTES`]) and holds no pointers: place it in fresh memory of the kernel, of which only
/// what is touched counts (a filter of 1000 instructions touches about 100 KiB), or in a `static`, which costs no bytes
/// in the file. `Box::new(Workspace::new())` would bring it through the stack.
pub struct Workspace {
    slots: Slots,
    state: State,
    visited: Visited,
}
const _: () = assert!(Workspace::BYTES <= 8 << 20);

impl Workspace {
    /// What the last verification has taken beside its steps: values and words of states that were looked at, written
    /// or changed. At most [`WORK_MAX`], and what one step takes.
    pub fn work(&self) -> u64 {
        self.state.work + self.visited.effort
    }

    fn forget_work(&mut self) {
        (self.state.work, self.visited.effort) = (0, 0);
    }

    /// How large it is: at most 8 MiB.
    pub const BYTES: usize = size_of::<Workspace>();

    /// A new one, for a `static`.
    #[allow(clippy::new_without_default)]
    pub const fn new() -> Workspace {
        Workspace {
            slots: Table([SlotInfo::NOTHING; INSNS_MAX]),
            state: State::NOTHING,
            visited: Visited::NOTHING,
        }
    }
}

/// Most work of one verification ([`Workspace::work`]), but for that of its last step, which is less than 2^20.
pub const WORK_MAX: u64 = walk::WORK_MAX + visited::EFFORT_MAX;

/// Verifies a program.
///
/// # Errors
/// The first thing that is wrong with it, or that cannot be shown to be right.
///
/// # Cost
/// About 0.1 µs for each instruction of each path: 0.14 ms for 50 predicates in 1100 instructions. `env.steps_max`
/// bounds the instructions of all paths together, and [`WORK_MAX`] what is done at all branches for what is known
/// there: with a million instructions the worst that is known takes 0.5 s (`cargo run --release -p mote-trace-bpf
/// --example heavy`). Nothing recurses.
pub fn verify<'a>(
    insns: &'a [Insn],
    env: &Environment<'a>,
    workspace: &mut Workspace,
) -> Result<Verified<'a>, Rejection> {
    verify_watched(insns, env, workspace, &mut ())
}

/// Verifies a filter of a traced process: `env` has its context. Returns also whether it reads the state of its thread,
/// `state` bytes to which `r2` has to point then ([`Entry::Traced`]).
///
/// # Errors
/// As [`verify`].
pub fn verify_traced<'a>(
    insns: &'a [Insn],
    env: &Environment<'a>,
    state: u32,
    workspace: &mut Workspace,
) -> Result<(Verified<'a>, bool), Rejection> {
    workspace.forget_work();
    match attempt(insns, env, workspace, &mut ()) {
        Err(why) if why.reg == Some(Reg::R2) && why.known == Known::Uninitialised => {
            let entry = Entry::Traced { words: env.entry.words(), state };
            Ok((attempt(insns, &Environment { entry, ..*env }, workspace, &mut ())?, true))
        }
        verified => Ok((verified?, false)),
    }
}

/// As [`verify`], and shows what is known before each instruction of each path.
///
/// # Errors
/// As [`verify`].
pub fn verify_watched<'a>(
    insns: &'a [Insn],
    env: &Environment<'a>,
    workspace: &mut Workspace,
    watch: &mut impl Watch,
) -> Result<Verified<'a>, Rejection> {
    workspace.forget_work();
    attempt(insns, env, workspace, watch)
}

/// Verifies with what is left of the work that is allowed.
fn attempt<'a>(
    insns: &'a [Insn],
    env: &Environment<'a>,
    workspace: &mut Workspace,
    watch: &mut impl Watch,
) -> Result<Verified<'a>, Rejection> {
    let Workspace { slots, state, visited } = workspace;
    let mut functions = structure::check(insns, env, slots, visited.room())?;
    liveness::fill(insns, env, &functions, slots);
    let facts = Walk::new(insns, env, slots, state, visited, &mut functions).run(watch)?;
    Ok(Verified {
        insns,
        maps: env.maps,
        functions: functions.all,
        count: functions.count as u16,
        depth: facts.depth as u8,
        tail_calls: facts.tail_calls,
        reads_outside: facts.reads_outside,
        steps: facts.steps,
    })
}
