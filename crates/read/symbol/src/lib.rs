//! Addresses to names: of the kernel, of binaries and libraries, of code that was made at run time.
//!
//! ```text
//! (process, time, address) ─ Spaces ─▶ mapping ─ Image (build id compared) ─▶ function, offset, file:line, inlined
//!                        kernel address ─ Kernel ─▶ function, offset, module
//! ```
//! [`Symbols`] answers for a whole recording; it is asked when a recording is shown, perhaps long after it was made,
//! and on a machine on which the binaries have changed. Then it says so ([`Doubt`]): a wrong name is worse than an
//! address. [`collect`] is what the recorder keeps for that, besides the processes' mappings: the kernel's symbols, the
//! vdso, the tables that run-time compilers write.
//!
//! [`Image`], [`functions`] and [`with_elf`] are for the search for places to probe.
//!
//! # Limits
//! Split DWARF (`.dwo` files) is not followed: functions have their names then, but no lines.
#![forbid(unsafe_code)]

mod arch;
pub mod collect;
mod debug;
mod demangle;
mod digest;
pub mod frames;
pub mod functions;
mod image;
mod jit;
mod jitdump;
mod kernel;
mod location;
pub mod mapped;
mod module;
pub mod names;
mod space;
mod symbols;
mod table;

pub use debug::{DebugFiles, Reader, dwarf, separate_symbols};
pub use demangle::demangle;
pub use digest::TextDigest;
pub use image::{Image, ImageError, Segment, Visit, build_id, segments, shift_of_code, with_bytes, with_elf};
pub use jit::PerfMap;
pub use jitdump::{JitDump, Load};
pub use kernel::{Kernel, KernelError, code_symbol};
pub use location::{Doubt, Function, Location, folded};
pub use space::{Begun, IN_MEMORY, LIBRARY};
pub use symbols::{Options, Symbols};
pub use table::{Symbol, Table};
