//! Assembly that is the same for every processor: a relocation that changes nothing, but makes the linker keep what it
//! names.

use core::arch::asm;
use probe::__private as private;

/// Makes the linker take the library's constructor from the archive, also when nothing else of its file is needed.
#[inline(always)]
pub(crate) fn keep_constructor() {
    // SAFETY: no instruction; a relocation that changes nothing.
    unsafe {
        asm!(
            ".reloc ., BFD_RELOC_NONE, {constructor}",
            constructor = sym private::CONSTRUCTOR,
            options(nostack, preserves_flags, nomem),
        );
    }
}
