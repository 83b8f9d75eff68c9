//! Sites at every place in a cache line, and across the end of pages, each in a function of its own.

use mote_patch::{Applied, Code, Edit, Error, Refusal};
use std::arch::global_asm;

// Each function begins with its site, returns 0 behind the NOP, and 1 or 2 at the two targets.
global_asm!(
    ".pushsection .text.mote_patch_test, \"ax\", @progbits",
    ".macro mote_test_site",
    "770: .byte 0x0f, 0x1f, 0x44, 0x00, 0x00",
    "xor eax, eax",
    "ret",
    "771: mov eax, 1",
    "ret",
    "772: mov eax, 2",
    "ret",
    ".pushsection mote_test_sites, \"awR\"",
    ".balign 8",
    ".quad 770b, 771b, 772b",
    ".popsection",
    ".endm",
    ".irp k, 0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21,22,23,24,25,26,27,28,29,30,31,32,33,34,35,36,37,38,39,40,41,42,43,44,45,46,47,48,49,50,51,52,53,54,55,56,57,58,59,60,61,62,63",
    ".balign 64",
    ".skip \\k, 0xcc",
    "mote_test_site",
    ".endr",
    ".irp k, 1,2,3,4",
    ".balign 4096",
    ".skip 4096 - \\k, 0xcc",
    "mote_test_site",
    ".endr",
    ".popsection",
);

/// One site: its function, and its two targets.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Site {
    pub addr: usize,
    pub target: usize,
    pub other_target: usize,
}

unsafe extern "C" {
    #[link_name = "__start_mote_test_sites"]
    static START: Site;
    #[link_name = "__stop_mote_test_sites"]
    static STOP: Site;
}

/// All 68 sites.
pub fn all() -> &'static [Site] {
    let (start, stop) = (&raw const START, &raw const STOP);
    let count = (stop as usize - start as usize) / size_of::<Site>();
    // SAFETY: the linker puts the section between these symbols; the assembly fills it with whole `Site`s.
    unsafe { std::slice::from_raw_parts(start, count) }
}

impl Site {
    /// Runs through the site.
    #[inline(always)]
    pub fn pass(&self) -> u32 {
        // SAFETY: `addr` is one of the functions above, which take nothing and clobber only eax.
        let function = unsafe { std::mem::transmute::<usize, extern "C" fn() -> u32>(self.addr) };
        function()
    }

    pub fn arm(&self) -> Edit {
        Edit { addr: self.addr, to: Code::Jump(self.target) }
    }

    pub fn arm_other(&self) -> Edit {
        Edit { addr: self.addr, to: Code::Jump(self.other_target) }
    }

    pub fn disarm(&self) -> Edit {
        Edit { addr: self.addr, to: Code::Nop }
    }
}

/// Applies edits of the sites above, and collects the refusals.
pub fn apply(edits: impl IntoIterator<Item = Edit>) -> (Result<Applied, Error>, Vec<(Edit, Refusal)>) {
    let mut refused = Vec::new();
    // SAFETY: the edits are of the sites above and of their targets.
    let applied = unsafe { mote_patch::apply(edits, |edit, why| refused.push((edit, why))) };
    (applied, refused)
}

/// Applies edits that must all succeed.
#[track_caller]
pub fn apply_all(edits: impl IntoIterator<Item = Edit>) -> Applied {
    let (applied, refused) = apply(edits);
    assert_eq!(refused, []);
    applied.expect("applied")
}

/// Applies edits that must all succeed in the end: a thread that is being made, or ends, blocks all signals, for long
/// if the processor is busy with others.
#[allow(dead_code, reason = "not every test has threads that come and go")]
pub fn apply_in_time(edits: impl Iterator<Item = Edit> + Clone) {
    loop {
        let (applied, refused) = apply(edits.clone());
        applied.expect("applied");
        if refused.is_empty() {
            return;
        }
        assert!(refused.iter().all(|(_, why)| *why == Refusal::Blocked), "{refused:?}");
        std::thread::yield_now();
    }
}
