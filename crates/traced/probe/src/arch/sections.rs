//! Assembly that is the same for every processor: directives for sections, and none at all.
//!
//! `BFD_RELOC_NONE` is the assembler's name for a relocation that changes nothing, but makes the linker keep what it
//! names.

use core::arch::{asm, global_asm};

// An empty record, so that the section and the linker's `__start_`/`__stop_` symbols exist in every object.
global_asm!(
    ".pushsection mote_sites,\"aR\",@progbits",
    ".balign 4",
    ".long 0, 0, 0, 0",
    ".popsection",
    ".hidden __start_mote_sites",
    ".hidden __stop_mote_sites",
);

/// Has the linker take the code that recorders send threads to, and its record: nothing calls it, and a library of
/// several objects, as other workspaces build it, would be linked without the one that has it.
#[inline(always)]
pub(crate) fn keep_join() {
    // SAFETY: no instruction.
    unsafe { asm!(".reloc ., BFD_RELOC_NONE, mote_join_record", options(nomem, nostack, preserves_flags)) };
}

/// Where two ways past an event meet again. Without an instruction, but a block of its own, in which the compiler can
/// restore the registers that both ways need: otherwise it saves them at the start of the function, where each call
/// pays for an event that is off.
#[doc(hidden)]
#[inline(always)]
pub fn meet() {
    // SAFETY: no instruction.
    unsafe { asm!("", options(nomem, nostack, preserves_flags)) };
}

/// Has the compiler forget what it knows of `value`: what is used later is loaded then.
#[inline(always)]
pub(crate) fn keep_in_memory<T>(value: &T) {
    // SAFETY: no instruction.
    unsafe { asm!("/* {0} */", in(reg) value, options(nostack, preserves_flags)) };
}

/// True when the event is on: a byte that is tested, for systems that forbid changing text.
#[doc(hidden)]
#[cfg(feature = "tested-byte")]
#[macro_export]
macro_rules! __switch {
    ($event:path, $description:path) => {{
        // SAFETY: the section holds offsets only; no instruction is executed.
        unsafe {
            ::core::arch::asm!(
                ".pushsection mote_sites,\"aR\",@progbits",
                ".balign 4",
                ".reloc ., BFD_RELOC_NONE, {constructor}",
                ".long 0, 0",
                ".long {event} - .",
                ".long {description} - .",
                ".popsection",
                event = sym $event,
                description = sym $description,
                constructor = sym $crate::__private::CONSTRUCTOR,
                options(nostack, preserves_flags, nomem),
            );
        }
        $event.is_on()
    }};
}

/// True when a [`Switch`](crate::Switch) is on: a word that is tested, for systems that forbid changing text.
#[cfg(feature = "tested-byte")]
#[macro_export]
macro_rules! is_on {
    ($switch:path) => {{
        // It is a switch: a raw pointer is made of nothing that only leads to one.
        let _: *const $crate::Switch = &raw const $switch;
        // SAFETY: the section holds offsets only; no instruction is executed.
        unsafe {
            ::core::arch::asm!(
                ".pushsection mote_sites,\"aR\",@progbits",
                ".balign 4",
                ".reloc ., BFD_RELOC_NONE, {constructor}",
                ".long 0, 0",
                ".long {switch} - .",
                ".long 0",
                ".popsection",
                switch = sym $switch,
                constructor = sym $crate::__private::CONSTRUCTOR,
                options(nostack, preserves_flags, nomem),
            );
        }
        $switch.is_on()
    }};
}
