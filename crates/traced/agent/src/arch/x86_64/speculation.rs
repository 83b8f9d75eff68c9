//! The thread-local words of speculations, as `mote_sync` makes them: by their index.

use core::arch::asm;

/// Word `index` of `mote_thread_speculation`.
///
/// # Safety
/// It has so many words.
#[inline(always)]
pub(crate) unsafe fn load_word_at(index: usize) -> u64 {
    let word: u64;
    // SAFETY: as in `mote_sync::load_word`; the index is the caller's promise.
    unsafe {
        asm!(
            "mov {offset}, qword ptr [rip + mote_thread_speculation@gottpoff]",
            "mov {word}, qword ptr fs:[{offset} + 8 * {index}]",
            offset = out(reg) _,
            index = in(reg) index,
            word = lateout(reg) word,
            options(readonly, nostack, preserves_flags),
        );
    }
    word
}

/// Writes word `index` of `mote_thread_speculation`.
///
/// # Safety
/// It has so many words.
#[inline(always)]
pub(crate) unsafe fn store_word_at(index: usize, word: u64) {
    // SAFETY: as in `mote_sync::store_word`; the index is the caller's promise.
    unsafe {
        asm!(
            "mov {offset}, qword ptr [rip + mote_thread_speculation@gottpoff]",
            "mov qword ptr fs:[{offset} + 8 * {index}], {word}",
            offset = out(reg) _,
            index = in(reg) index,
            word = in(reg) word,
            options(nostack, preserves_flags),
        );
    }
}
