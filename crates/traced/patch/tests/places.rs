//! Places of a program's own code: jumps over several of its instructions, switched while threads run through them.

mod support;

use mote_patch::{Applied, Code, Edit, Lasting, Place, Refusal, add_lasting, apply};
use std::arch::global_asm;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};
use support::child::{self, End};

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
/// Of instructions that are none and not ours.
static FOREIGN: AtomicU64 = AtomicU64::new(0);

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

/// `int3`.
const TRAP: u8 = 0xcc;
/// `pusha`, which is no instruction in 64-bit mode (SDM vol. 2).
const INVALID: u8 = 0x60;

/// Maps the probe where the guarded jump leads: `e9 cc ?? ??` and the last guard, counting in between.
fn place(counter: &'static AtomicU64, last: u8) -> Place {
    let at = function();
    let (target, rel) = (0..=0xffff_u32)
        .find_map(|middle| {
            let rel = i32::from_le_bytes([TRAP, middle as u8, (middle >> 8) as u8, last]);
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

/// All of it in one test: they share the function.
#[test]
fn guarded_jumps_are_switched_under_running_threads() {
    add_lasting(&LASTING);
    for last in [TRAP, INVALID] {
        switched(last);
        child::passes(|| {
            child::lock_memory();
            switched(last);
        });
    }
    who_blocks_an_invalid_guard_keeps_it_away();
    what_else_is_invalid_is_the_programs();
}

fn switched(last: u8) {
    static PASSED: AtomicU64 = AtomicU64::new(0);
    PASSED.store(0, Ordering::Relaxed);
    GUARDED.store(0, Ordering::Relaxed);
    let place = place(&PASSED, last);
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
        let until = Instant::now() + Duration::from_secs(2);
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
    let guarded = GUARDED.load(Ordering::Relaxed);
    // From the middle, as threads come back that stood there: by the guards, not by the probe.
    for (distance, pushed) in [(1, 0), (4, 1)] {
        assert_eq!(from_the_middle(distance, pushed == 1, 7), 8);
    }
    assert_eq!(GUARDED.load(Ordering::Relaxed), guarded + 2);
    assert_eq!(PASSED.load(Ordering::Relaxed), before + 1);
    switch(Code::Off(place));
}

/// Enters the function so many bytes behind its begin; `is_framed` says that what stands before there has made the
/// frame.
fn from_the_middle(distance: usize, is_framed: bool, number: u64) -> u64 {
    let sum: u64;
    // SAFETY: what the instructions before that do is done here.
    unsafe {
        std::arch::asm!(
            "lea rcx, [rip + 2f]", "push rcx", "push rbp",
            "test {framed}, {framed}", "jz 3f", "mov rbp, rsp", "3:",
            "jmp rax", "2:",
            framed = in(reg) u64::from(is_framed),
            in("rax") function() + distance, in("rdi") number, lateout("rax") sum, out("rcx") _,
            clobber_abi("C")
        );
    }
    sum
}

/// A thread that blocks SIGILL would be killed by a guard that is no breakpoint, and by no other.
fn who_blocks_an_invalid_guard_keeps_it_away() {
    static PASSED: AtomicU64 = AtomicU64::new(0);
    let places = [TRAP, INVALID].map(|last| place(&PASSED, last));
    let (tell, told) = std::sync::mpsc::channel::<()>();
    let (begin, begun) = std::sync::mpsc::channel();
    let thread = std::thread::spawn(move || {
        mote_sys::signal::block(mote_sys::signal::bit(libc::SIGILL));
        begin.send(()).expect("begun");
        let _ = told.recv();
    });
    begun.recv().expect("begun");
    let refused = |to| {
        let mut refused = None;
        // SAFETY: as in `switch`.
        let applied = unsafe { apply([Edit { addr: function(), to }], |_, why| refused = Some(why)) };
        (applied.expect("text can be written").changed, refused)
    };
    assert_eq!(refused(Code::On(places[1])), (0, Some(Refusal::Blocked)));
    switch(Code::On(places[0]));
    switch(Code::Off(places[0]));
    drop(tell);
    thread.join().expect("joined");
    switch(Code::On(places[1]));
    switch(Code::Off(places[1]));
}

/// Instructions that are none, while our handler of SIGILL lies over the program's.
fn what_else_is_invalid_is_the_programs() {
    static PASSED: AtomicU64 = AtomicU64::new(0);
    extern "C" fn skip(_: i32, _: *mut libc::siginfo_t, context: *mut libc::c_void) {
        FOREIGN.fetch_add(1, Ordering::Relaxed);
        // SAFETY: SA_SIGINFO.
        let context = unsafe { &mut *context.cast::<libc::ucontext_t>() };
        context.uc_mcontext.gregs[libc::REG_RIP as usize] += 2;
    }
    let place = place(&PASSED, INVALID);
    // SAFETY: an instruction that is none; what comes of it is the test.
    let invalid = || unsafe { std::arch::asm!("ud2") };
    child::passes(|| {
        child::set_handler(libc::SIGILL, skip as *const () as usize, libc::SA_SIGINFO);
        switch(Code::On(place));
        invalid();
        assert_eq!(from_the_middle(4, true, 7), 8);
        assert_eq!(FOREIGN.load(Ordering::Relaxed), 1, "its own, and not ours");
        // SAFETY: raise(3).
        unsafe { libc::raise(libc::SIGILL) };
        assert_eq!(FOREIGN.load(Ordering::Relaxed), 2, "one that is sent");
    });
    let dies = child::run(|| {
        switch(Code::On(place));
        invalid();
    });
    assert_eq!(dies, End::Signal(libc::SIGILL));
}
