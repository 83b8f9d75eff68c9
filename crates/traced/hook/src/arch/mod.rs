//! The seam for the processor: all that this crate knows of one lies in its folder, by the same names for each.
//!
//! | item | what a processor's folder gives |
//! |---|---|
//! | `entry` | the code that bodies lead to: it notes the call in a slot, whose stub calls the function |
//! | `entry_with_values` | the same for functions with values: it always asks `calls::begin` |
//! | `entry_sampled` | the same for functions with a quota: it passes by where there is none left |
//! | `entry_counted` | the code that bodies call of functions whose entries are counted: it touches no slot |
//! | `copy_counting`, `COUNTING_AT` | writes a copy of that code to a page, and where it begins there |
//! | `entry_counted_both` | the same for those whose returns are counted, too |
//! | `entry_below`, `entry_..._below` | the same, where calls are wanted below callers only |
//! | `Kept` | the registers that a function has got, or returns; `General`, `Vectors`: as the code hands them over |
//! | `stub`, `first_stub` | the code of a stub, and what stands in the place of the first one |
//! | `RETURNS_AT` | where in a stub its call returns to |
//! | `copy_at` | bytes of a body before the copy: as `mote-trampolines` makes them |
//! | `frames`, `FRAMES_BYTES` | the description of all stubs for unwinders |
//! | `finder` | the function by which other copies of the library find replaced return addresses |
//! | `tops` | how far from a thread's pointer the words are that lead to its slots |
//! | `can_keep_registers` | whether the processor has what it takes to put all registers back |

#[cfg(target_arch = "x86_64")]
mod x86_64;

#[cfg(target_arch = "x86_64")]
pub(crate) use x86_64::{
    COUNTING_AT, FRAMES_BYTES, General, Kept, RETURNS_AT, Vectors, can_keep_registers, copy_at,
    copy_counting, entry, entry_below, entry_counted, entry_counted_below, entry_counted_both,
    entry_counted_both_below, entry_sampled, entry_with_values, entry_with_values_below, finder, first_stub,
    frames, stub, tops,
};

#[cfg(not(target_arch = "x86_64"))]
compile_error!(
    "mote-trace-hook does not know this processor: add src/arch/NAME with what src/arch/mod.rs lists"
);
