//! The switch of a site: of an event, and of the program's own.

/// True when the event is on: a 5-byte NOP that the agent patches to a jump.
///
/// The site leaves a record in the section `mote_sites`: where its NOP is, where to jump, and which event it
/// belongs to. The record also refers to the constructor, so that the linker takes it from the library.
#[doc(hidden)]
#[macro_export]
macro_rules! __switch {
    ($event:path, $description:path) => {
        '__mote: {
            // SAFETY: the instruction does nothing. When it is patched it jumps to the label, which is
            // told to the compiler. The section holds offsets only.
            unsafe {
                ::core::arch::asm!(
                    "2:",
                    ".byte 0x0f, 0x1f, 0x44, 0x00, 0x00",
                    ".pushsection mote_sites,\"aR\",@progbits",
                    ".balign 4",
                    ".reloc ., BFD_RELOC_NONE, {constructor}",
                    ".long 2b - .",
                    ".long {on} - .",
                    ".long {event} - .",
                    ".long {description} - .",
                    ".popsection",
                    on = label { break '__mote true },
                    event = sym $event,
                    description = sym $description,
                    constructor = sym $crate::__private::CONSTRUCTOR,
                    options(nostack, preserves_flags),
                );
            }
            false
        }
    };
}

/// True when a [`Switch`](crate::Switch) is on: `if mote::is_on!(CHECKS) { ... }`.
///
/// The value is part of the instructions: the site is a 5-byte NOP while the switch is off, and a jump while it is on.
///
/// ```
/// static CHECKS: mote::Switch = mote::Switch::new();
/// if mote::is_on!(CHECKS) {
///     // What is rarely wanted.
/// }
/// ```
///
/// # Cost
/// Off: one 5-byte NOP; on: a jump. With the feature `tested-byte`: a load and a branch.
///
/// # Signal safety
/// May stand in a signal handler.
#[macro_export]
macro_rules! is_on {
    ($switch:path) => {
        '__mote: {
            // It is a switch: a raw pointer is made of nothing that only leads to one.
            let _: *const $crate::Switch = &raw const $switch;
            // SAFETY: the instruction does nothing. When it is patched it jumps to the label, which is
            // told to the compiler. The section holds offsets only, to a site and to a switch.
            unsafe {
                ::core::arch::asm!(
                    "2:",
                    ".byte 0x0f, 0x1f, 0x44, 0x00, 0x00",
                    ".pushsection mote_sites,\"aR\",@progbits",
                    ".balign 4",
                    ".reloc ., BFD_RELOC_NONE, {constructor}",
                    ".long 2b - .",
                    ".long {on} - .",
                    ".long {switch} - .",
                    ".long 0",
                    ".popsection",
                    on = label { break '__mote true },
                    switch = sym $switch,
                    constructor = sym $crate::__private::CONSTRUCTOR,
                    options(nostack, preserves_flags),
                );
            }
            false
        }
    };
}
