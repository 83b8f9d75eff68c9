//! Places of a program's own code: jumps over several of its instructions, switched while threads run through them.

use mote_patch::{Applied, Code, Edit, Lasting, Place, add_lasting, apply};
use std::arch::global_asm;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

// A function whose first instructions are of 1, 3 and 1 bytes, and what a probe of it is: a copy of them at a distance
// at which the jump's bytes are breakpoints where these begin.
global_asm!(
    ".pushsection .text.places,\"ax\",@progbits",
    ".balign 64",
    ".globl place_function",
    "place_function:",
    "push rbp",
    "mov rbp, rsp",
    "push rbx",
    "lea rax, [rdi + 1]",
    "pop rbx",
    "pop rbp",
    "ret",
    ".popsection",
);

unsafe extern "C" {
    fn place_function(number: u64) -> u64;
}

static COPY: AtomicUsize = AtomicUsize::new(0);
static GUARDED: AtomicU64 = AtomicU64::new(0);

fn function() -> usize {
    place_function as *const () as usize
}

/// The interior begins: `mov` at 1, `push rbx` at 4.
fn resume(_: &'static Lasting, addr: usize, is_gone: bool) -> Option<usize> {
    match addr.wrapping_sub(function()) {
        at @ (1 | 4) => {
            GUARDED.fetch_add(1, Ordering::Relaxed);
            Some(COPY.load(Ordering::Relaxed) + at)
        }
        0 if is_gone => Some(addr),
        _ => None,
    }
}

static LASTING: Lasting = Lasting::new(resume);

/// Maps the probe where the guarded jump leads: `e9 cc ?? ?? cc`, counting in between.
fn place(counter: &'static AtomicU64) -> Place {
    let at = function();
    let (target, rel) = (0..=0xffff_u32)
        .find_map(|middle| {
            let rel = i32::from_le_bytes([0xcc, middle as u8, (middle >> 8) as u8, 0xcc]);
            let target = (at + 5).wrapping_add_signed(rel as isize);
            let page = target & !4095;
            let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED_NOREPLACE;
            let protection = libc::PROT_READ | libc::PROT_WRITE | libc::PROT_EXEC;
            // SAFETY: nothing is replaced.
            let mapped = unsafe { libc::mmap(page as *mut _, 8192, protection, flags, -1, 0) };
            (mapped as usize == page).then_some((target, rel))
        })
        .expect("some page is free");
    // lock inc qword ptr [counter], by way of r11, which no caller keeps.
    let mut code = vec![0x49, 0xbb];
    code.extend((counter.as_ptr() as usize).to_le_bytes());
    code.extend([0xf0, 0x49, 0xff, 0x03]);
    let copy = target + code.len();
    code.extend([0x55, 0x48, 0x89, 0xe5, 0x53]);
    code.extend([0xff, 0x25, 0, 0, 0, 0]);
    code.extend((at + 5).to_le_bytes());
    // SAFETY: mapped above, writable, and nobody runs there yet.
    unsafe { std::ptr::copy_nonoverlapping(code.as_ptr(), target as *mut u8, code.len()) };
    COPY.store(copy, Ordering::Relaxed);
    let [a, b, c, d] = rel.to_le_bytes();
    let off = [0x55, 0x48, 0x89, 0xe5, 0x53];
    Place { off, on: [0xe9, a, b, c, d], probe: target, copy, guards: 0b1_0010 }
}

fn switch(to: Code) -> Applied {
    let since = Instant::now();
    loop {
        let mut refused = None;
        // SAFETY: `place_function` is such a place, and the probe runs its instructions.
        let applied = unsafe { apply([Edit { addr: function(), to }], |_, why| refused = Some(why)) };
        let applied = applied.expect("text can be written");
        // A thread that is made or ends blocks all signals for a moment.
        if applied.refused == 0 || since.elapsed() > Duration::from_secs(20) {
            assert_eq!(refused, None);
            return applied;
        }
        std::thread::yield_now();
    }
}

#[test]
fn guarded_jumps_are_switched_under_running_threads() {
    static PASSED: AtomicU64 = AtomicU64::new(0);
    add_lasting(&LASTING);
    let place = place(&PASSED);
    // Whoever stands between the instructions goes on in the copy.
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                let mut number = 0;
                while !stop.load(Ordering::Relaxed) {
                    for _ in 0..1000 {
                        // SAFETY: a function that adds one.
                        let sum = unsafe { place_function(number) };
                        assert_eq!(sum, number + 1);
                        number = sum;
                    }
                }
            });
        }
        let until = Instant::now() + Duration::from_secs(3);
        let mut switched = 0;
        while Instant::now() < until {
            assert_eq!(switch(Code::On(place)).changed, 1);
            assert_eq!(switch(Code::On(place)).already, 1);
            assert_eq!(switch(Code::Off(place)).changed, 1);
            switched += 1;
        }
        stop.store(true, Ordering::Relaxed);
        println!("{switched} times, {} at guards", GUARDED.load(Ordering::Relaxed));
        assert!(switched > 10 && PASSED.load(Ordering::Relaxed) > 0);
    });
    // SAFETY: the text of a function.
    assert_eq!(unsafe { (function() as *const [u8; 5]).read() }, place.off, "the bytes that were there");

    switch(Code::On(place));
    let before = PASSED.load(Ordering::Relaxed);
    // SAFETY: as above.
    assert_eq!(unsafe { place_function(5) }, 6);
    assert_eq!(PASSED.load(Ordering::Relaxed), before + 1);
    // From the middle, as a thread comes back that stood there.
    let sum: u64;
    // SAFETY: what the first instruction does is done here.
    unsafe {
        std::arch::asm!(
            "lea rcx, [rip + 2f]", "push rcx", "push rbp", "jmp rax", "2:",
            in("rax") function() + 1, in("rdi") 7, lateout("rax") sum, out("rcx") _, clobber_abi("C")
        );
    }
    assert_eq!((sum, PASSED.load(Ordering::Relaxed)), (8, before + 1), "by the guard, not by the probe");
    assert!(GUARDED.load(Ordering::Relaxed) > 0);
}
