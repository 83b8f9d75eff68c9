//! The switch of an event site.

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
