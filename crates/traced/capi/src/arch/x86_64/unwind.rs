//! What unwinding finds in our frames: nothing to clean up.
//!
//! The precompiled `core` names this function in its unwind tables. Panics end in our handler and do not unwind, but
//! a forced unwind (`pthread_exit` in a handler that interrupted us) may pass through, and must go on.

use core::arch::global_asm;

// Weak, so that the standard library's takes its place in a program that contains other Rust code. 8 is
// _URC_CONTINUE_UNWIND (Itanium C++ ABI, level I).
global_asm!(
    ".pushsection .text.rust_eh_personality,\"ax\",@progbits",
    ".weak rust_eh_personality",
    ".hidden rust_eh_personality",
    ".type rust_eh_personality,@function",
    "rust_eh_personality:",
    "mov eax, 8",
    "ret",
    ".size rust_eh_personality, . - rust_eh_personality",
    ".popsection",
);
