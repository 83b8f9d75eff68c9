//! Which addresses are machine code of programs: a table that the handler reads.
//!
//! # Parties
//! Owners: each writes one slot, from registration until it drops its [`Image`]. Handlers: read all slots, on a thread
//! that is inside an image.
//!
//! # State
//! `start`: 0 when the slot is free; else the address of the code. `sizes`: bytes of code, and number of frames << 32;
//! the frames lie behind the code. A slot with `sizes` 0 covers nothing.
//!
//! # Who may touch what
//! 1. A free slot is taken by a compare-and-swap of `start`; then only its owner writes it: `sizes` after `start`.
//! 2. An owner clears `sizes`, then `start`.
//!
//! # Why a handler finds the right image
//! The image that it interrupted was registered before it ran, and its owner promises not to drop it meanwhile: that
//! slot does not change. Of another slot, a handler might read the `start` of one image and the `sizes` of the next. It
//! looks at `start` again after: if that has not changed, both images began there, and neither overlaps the one that is
//! being executed.
//!
//! # Progress, signal safety
//! Lookups are wait-free. Registering is lock-free.

use core::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use mote_jit::Frame;
use mote_jit::native::Registers;

/// Most programs of a process that are machine code at once.
pub(crate) const MAX: usize = 4096;
/// More frames than any program has on a stack at once.
const DEPTH_MAX: usize = 64;

struct Slot {
    start: AtomicU64,
    sizes: AtomicU64,
}

static TABLE: [Slot; MAX] = [const { Slot { start: AtomicU64::new(0), sizes: AtomicU64::new(0) } }; MAX];
/// Slots that were ever taken: none behind these has anything.
static USED: AtomicUsize = AtomicUsize::new(0);

/// A registered image; forgotten when dropped.
#[derive(Debug)]
pub(crate) struct Image(usize);

/// Where the frames of an image lie, from its start.
pub(crate) const fn frames_at(code_bytes: usize) -> usize {
    code_bytes.next_multiple_of(align_of::<Frame>())
}

impl Image {
    /// Registers code at `start`, with its frames behind. `None` when the table is full.
    ///
    /// # Safety
    /// The code and the frames stay readable and unchanged until the image is dropped, and no thread is in the code
    /// then.
    pub(crate) unsafe fn register(start: *const u8, code_bytes: usize, frames: usize) -> Option<Image> {
        let (bytes, frames) = (u32::try_from(code_bytes).ok()?, u32::try_from(frames).ok()?);
        for (index, slot) in TABLE.iter().enumerate() {
            if slot.start.load(Ordering::Relaxed) != 0 {
                continue;
            }
            // Acquire pairs with the release in `drop`: the slot's `sizes` of before is gone.
            let taken = slot.start.compare_exchange(0, start as u64, Ordering::Acquire, Ordering::Relaxed);
            if taken.is_ok() {
                // Release pairs with the acquire in `find`: the start is there before the sizes.
                slot.sizes.store(u64::from(bytes) | u64::from(frames) << 32, Ordering::Release);
                USED.fetch_max(index + 1, Ordering::Release);
                return Some(Image(index));
            }
        }
        None
    }
}

impl Drop for Image {
    fn drop(&mut self) {
        if let Some(slot) = TABLE.get(self.0) {
            slot.sizes.store(0, Ordering::Release);
            slot.start.store(0, Ordering::Release);
        }
    }
}

/// The image around an address: start, bytes, number of frames.
fn find(ip: u64) -> Option<(u64, u32, u32)> {
    let used = USED.load(Ordering::Acquire).min(MAX);
    TABLE.iter().take(used).find_map(|slot| {
        let start = slot.start.load(Ordering::Acquire);
        let sizes = slot.sizes.load(Ordering::Acquire);
        let bytes = sizes as u32;
        let inside = start != 0 && ip.wrapping_sub(start) < u64::from(bytes);
        (inside && slot.start.load(Ordering::Relaxed) == start).then_some((
            start,
            bytes,
            (sizes >> 32) as u32,
        ))
    })
}

/// The registers with which the caller of the program goes on, of a thread that failed in the body of one of the
/// program's functions. `None` when it did not.
///
/// # Safety
/// The registers are those of an interrupted thread that is not running on.
pub(super) unsafe fn unwind(registers: Registers) -> Option<Registers> {
    let (start, bytes, count) = find(registers.ip())?;
    let frames = (start as usize + frames_at(bytes as usize)) as *const Frame;
    let frame_around = |offset: u64| {
        (0..count as usize).find_map(|index| {
            // SAFETY: the image's owner keeps `count` frames there: `register`.
            let frame = unsafe { frames.wrapping_add(index).read() };
            frame.covers(offset as u32).then_some(frame)
        })
    };
    let mut at = registers;
    let mut offset = at.ip() - start;
    for _ in 0..DEPTH_MAX {
        // SAFETY: in the body of a function the frame is whole, and on the thread's own stack.
        at = at.caller(&frame_around(offset)?, |word| unsafe { (word as *const u64).read() });
        // A return address lies behind its call, which is what the frame has to cover.
        offset = at.ip().wrapping_sub(start).wrapping_sub(1);
        if offset >= u64::from(bytes) {
            return Some(at);
        }
    }
    None
}
