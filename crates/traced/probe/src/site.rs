//! The switch of an event site.

/// True when the event is on: a 5-byte NOP that the agent patches to a jump.
///
/// The site leaves a record in the section `mote_sites`: where its NOP is, where to jump, and which event it
/// belongs to. The record also refers to the constructor, so that the linker takes it from the library.
#[doc(hidden)]
#[cfg(not(feature = "tested-byte"))]
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
                    ".reloc ., R_X86_64_NONE, {constructor}",
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
                ".reloc ., R_X86_64_NONE, {constructor}",
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
