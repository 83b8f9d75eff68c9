//! Interrupts and exceptions by their vector (SDM 3A, 6.15), and pages.

/// Bytes of a page.
pub(crate) const PAGE: usize = 4096;

/// Exceptions that come back to the instruction that has caused them.
const FAULTS: [u32; 15] = [0, 5, 6, 7, 8, 10, 11, 12, 13, 14, 16, 17, 19, 20, 21];
const PAGE_FAULT: u32 = 14;
/// Its error code says that an instruction could not be fetched.
const FETCH: u32 = 1 << 4;

/// Whether it was caused by an instruction that has begun. One that could not be fetched has not.
pub(crate) fn is_fault(vector: u32, error: u32) -> bool {
    FAULTS.contains(&vector) && (vector != PAGE_FAULT || error & FETCH == 0)
}
