//! Which of both writers writes a record: the rseq writer, or the atomic one where that cannot.

use crate::atomic_writer::AtomicWriter;
use crate::rseq_writer::{self, RseqWriter};
use crate::writer::{Outcome, Payload, Record, Write, Writer};

impl Writer {
    /// Writes one record by the rseq writer, or by the atomic one where that cannot be.
    ///
    /// # Safety
    /// As [`Write::write`].
    ///
    /// # Signal safety
    /// Callable from a handler.
    #[inline(always)]
    pub unsafe fn write(&self, record: Record<'_>) -> Outcome {
        // SAFETY: the caller's promise.
        match unsafe { RseqWriter.write(self, record) } {
            // SAFETY: the caller's promise.
            Outcome::NotHere => unsafe { self.write_shared(record) },
            outcome => outcome,
        }
    }

    /// As [`Writer::write`] for a small record, of `len` bytes at `from`. Its parts stay in registers.
    ///
    /// # Safety
    /// The bytes must be readable up to the end of the last 8-byte word.
    ///
    /// # Signal safety
    /// Callable from a handler.
    #[inline(always)]
    pub unsafe fn write_words(&self, tag: u16, thread: u32, from: *const u8, len: usize) -> Outcome {
        // SAFETY: the caller's promise.
        match unsafe { rseq_writer::try_words(self, tag, thread, from, len) } {
            Some(Outcome::Written) => Outcome::Written,
            // SAFETY: the caller's promise.
            tried => unsafe { self.write_words_otherwise(tag, thread, from, len, tried) },
        }
    }

    #[cold]
    #[inline(never)]
    unsafe fn write_words_otherwise(
        &self,
        tag: u16,
        thread: u32,
        from: *const u8,
        len: usize,
        tried: Option<Outcome>,
    ) -> Outcome {
        let record = Record { tag, thread, payload: Payload::Words { from, len } };
        match tried {
            // SAFETY: the caller's promise.
            Some(Outcome::NotHere) => unsafe { AtomicWriter.write(self, record) },
            // SAFETY: the caller's promise.
            _ => unsafe { self.write(record) },
        }
    }

    #[cold]
    #[inline(never)]
    unsafe fn write_shared(&self, record: Record<'_>) -> Outcome {
        // SAFETY: the caller's promise.
        unsafe { AtomicWriter.write(self, record) }
    }
}
