//! Code memory: machine code of one program, with the frames of its functions.
//!
//! The code is written into fresh private memory that is readable and writable; then the surplus is given back, the
//! rest becomes readable and executable, and stays so. It is never writable and executable at once.

use crate::entry::Entry;
use crate::fault::{self, IMAGES_MAX, Image};
use core::mem::ManuallyDrop;
use mote_bpf::Insn;
use mote_jit::{FUNCTIONS_MAX, Frame, Function, HelperPlace, Input, MapPlace, native};
use mote_sys::Errno;
use mote_sys::mem::{Mapping, PAGE_BYTES};
use mote_sys::raw::syscall;

/// What a program is compiled from.
pub(crate) struct Source<'a> {
    /// Its instructions.
    pub(crate) insns: &'a [Insn],
    /// Its functions in order; the first is the program.
    pub(crate) functions: &'a [Function],
    /// Its maps.
    pub(crate) maps: &'a [MapPlace],
    /// Its helpers.
    pub(crate) helper: &'a dyn Fn(u32) -> Option<HelperPlace>,
}

/// Why there is no machine code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refused {
    /// The kernel gives no memory, or does not let it become executable.
    Memory(Errno),
    /// The emitter.
    Jit(mote_jit::Error),
    /// The handler of faults cannot be installed.
    Handler,
    /// More programs than [`IMAGES_MAX`].
    Images,
}

impl core::fmt::Display for Refused {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Refused::Memory(errno) => write!(f, "no executable memory: {errno}"),
            Refused::Jit(error) => write!(f, "{error}"),
            Refused::Handler => write!(f, "the program changes its SIGSEGV action too often"),
            Refused::Images => write!(f, "more than {IMAGES_MAX} programs of machine code"),
        }
    }
}

impl core::error::Error for Refused {}

impl From<Errno> for Refused {
    fn from(errno: Errno) -> Refused {
        Refused::Memory(errno)
    }
}

/// Machine code, ready to run; unmapped when dropped, which only happens when no thread is in it.
///
/// # Invariants
/// `code-mapped`: `start..start + bytes` is a mapping of ours, readable and executable, that begins with the entry and
/// that no other code unmaps.
#[derive(Debug)]
pub(crate) struct Code {
    start: *mut u8,
    bytes: usize,
    /// Forgotten before the memory goes.
    image: ManuallyDrop<Image>,
}

// SAFETY: code is address space of the process, not of a thread, and does not change (`code-mapped`).
unsafe impl Send for Code {}
// SAFETY: as above.
unsafe impl Sync for Code {}

impl Code {
    /// Compiles a program and makes sure that its faults are caught.
    ///
    /// # Errors
    /// [`Refused`]: the interpreter does not need any of that.
    ///
    /// # Cost
    /// Some ten system calls, and time linear in the instructions.
    pub(crate) fn compile(source: &Source<'_>) -> Result<Code, Refused> {
        if !fault::watch() {
            return Err(Refused::Handler);
        }
        let slots = source.insns.len();
        let code_max = native::bytes_max(slots, source.functions.len()).next_multiple_of(PAGE_BYTES);
        let frames_max = FUNCTIONS_MAX * size_of::<Frame>();
        // Pages that are not touched cost nothing.
        let draft = Draft::map(code_max + frames_max)?;
        let workspace = Draft::map(mote_jit::workspace_words(slots) * size_of::<u32>())?;
        let mut frames = [Frame::default(); FUNCTIONS_MAX];
        let input = Input {
            insns: source.insns,
            functions: source.functions,
            maps: source.maps,
            helper: source.helper,
            base: draft.0.base() as u64,
        };
        // SAFETY: no other code knows of this mapping, which is gone at the end of this function; all its bits are
        // numbers.
        let words = unsafe {
            core::slice::from_raw_parts_mut(workspace.0.base().cast::<u32>(), workspace.0.len() / 4)
        };
        // SAFETY: no other code knows of this mapping, and it is not executable yet.
        let out = unsafe { core::slice::from_raw_parts_mut(draft.0.base(), code_max) };
        let made = native::compile(&input, out, words, &mut frames).map_err(Refused::Jit)?;
        draft.finish(made.bytes, frames.get(..made.frames).unwrap_or_default())
    }

    /// Where it is entered.
    #[inline(always)]
    pub(crate) fn entry(&self) -> Entry {
        // SAFETY: the emitter made the code for this signature, and it begins here (`code-mapped`). Whether it is
        // harmless is the caller's promise.
        unsafe { core::mem::transmute::<*mut u8, Entry>(self.start) }
    }

    /// Bytes of memory that it takes.
    pub(crate) fn memory_bytes(&self) -> usize {
        self.bytes
    }
}

impl Drop for Code {
    fn drop(&mut self) {
        // SAFETY: dropped here and nowhere else.
        unsafe { ManuallyDrop::drop(&mut self.image) };
        // SAFETY: `code-mapped`, and no thread is in it.
        let _ = unsafe { syscall(libc::SYS_munmap, [self.start as usize, self.bytes, 0, 0, 0, 0]) };
    }
}

/// Memory that is written to, and that no other code knows of.
struct Draft(Mapping);

impl Draft {
    fn map(bytes: usize) -> Result<Draft, Refused> {
        Ok(Draft(Mapping::private(bytes.max(1).next_multiple_of(PAGE_BYTES))?))
    }

    /// Writes the frames behind the code, gives back what is left, and makes the rest executable.
    fn finish(self, code_bytes: usize, frames: &[Frame]) -> Result<Code, Refused> {
        let frames_at = fault::frames_at(code_bytes);
        let bytes = (frames_at + size_of_val(frames)).next_multiple_of(PAGE_BYTES);
        let (start, mapped) = (self.0.base(), self.0.len());
        for (index, frame) in frames.iter().enumerate() {
            let at = start.wrapping_add(frames_at + index * size_of::<Frame>());
            // SAFETY: the draft has room for all frames behind the longest code.
            unsafe { at.cast::<Frame>().write(*frame) };
        }
        let code = (libc::PROT_READ | libc::PROT_EXEC) as usize;
        // SAFETY: only the pages of this draft, to which nothing refers; on failure they are unmapped as they are.
        unsafe { syscall(libc::SYS_mprotect, [start as usize, bytes, code, 0, 0, 0]) }?;
        // SAFETY: the code and the frames do not change any more and live as long as the image, which `Code` drops
        // first.
        let image = unsafe { Image::register(start, code_bytes, frames.len()) }.ok_or(Refused::Images)?;
        let _unmapped_by_code = self.0.leak();
        if mapped > bytes {
            let rest = start as usize + bytes;
            // SAFETY: pages behind the code, of our own mapping, to which nothing refers.
            let _ = unsafe { syscall(libc::SYS_munmap, [rest, mapped - bytes, 0, 0, 0, 0]) };
        }
        Ok(Code { start, bytes, image: ManuallyDrop::new(image) })
    }
}

#[cfg(test)]
pub(crate) mod tests;
