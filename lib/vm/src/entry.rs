//! How every engine is entered, what it returns, and where a tail call leads.

use crate::fault::Fault;
use core::ffi::c_void;

/// What an engine returns, in the two registers that a function returns words in.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Returned {
    /// What the program left in `r0`.
    pub r0: u64,
    /// Not 0: it ended with this fault ([`Fault::from_code`]), and `r0` means nothing.
    pub fault: u64,
}

impl From<Result<u64, Fault>> for Returned {
    #[inline(always)]
    fn from(result: Result<u64, Fault>) -> Returned {
        match result {
            Ok(r0) => Returned { r0, fault: 0 },
            Err(fault) => Returned { r0: 0, fault: fault as u64 },
        }
    }
}

impl From<Returned> for Result<u64, Fault> {
    #[inline(always)]
    fn from(returned: Returned) -> Result<u64, Fault> {
        if returned.fault == 0 { Ok(returned.r0) } else { Err(Fault::from_code(returned.fault)) }
    }
}

/// How every engine is entered: `r1`, `r2`, the program, and how many tail calls led here.
pub type Entry = unsafe extern "C" fn(u64, u64, *const c_void, u64) -> Returned;

/// How a program is run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Engine {
    /// As machine code.
    Jit,
    /// By the interpreter.
    Interpreter,
}

/// Where a program is entered: by its caller, or by another program's tail call.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Target {
    /// The function.
    pub(crate) entry: Entry,
    /// The third argument: the interpreter's image of the program, null for machine code.
    pub(crate) image: *const c_void,
    /// Which engine `entry` belongs to.
    pub(crate) engine: Engine,
}

impl Target {
    /// True when `image` is an image of the interpreter.
    pub(crate) fn is_interpreted(&self) -> bool {
        self.engine == Engine::Interpreter
    }
}
