//! What the traced processes do. Every event has fields of eight bytes in all, so that records are easy to take apart.

use std::io::Read;
use std::sync::atomic::{AtomicBool, Ordering};

/// Plays the scenario of this name.
pub(crate) fn play(scenario: &str) {
    match scenario {
        "numbers" => numbers(0..100),
        "texts" => ["udp", "tcp", "tc", "tcpx", "tcp"].into_iter().for_each(text),
        "short" => SHORT.iter().for_each(|(first, second, _)| short(first, second)),
        "types" => every_type(),
        "hammer" => hammer(),
        "fork" => fork(),
        "fault" => fault(),
        "speculation" => speculation(),
        "speculation_by_key" => speculation_by_key(),
        "nothing" => wait(),
        other => panic!("there is no scenario '{other}'"),
    }
}

/// Waits until the session closes our standard input.
fn wait() {
    let mut rest = Vec::new();
    let _ = std::io::stdin().read_to_end(&mut rest);
}

fn number(value: u64) {
    mote::event!(scenario::number, value: u64 = value);
}

fn numbers(values: std::ops::Range<u64>) {
    for value in values {
        number(value);
        mote::event!(scenario::other, value: u64 = value);
    }
}

fn text(text: &str) {
    // Eight bytes with the NUL.
    let padded = "x".repeat(7 - text.len());
    mote::event!(scenario::text, text: &str = text, rest: &[u8] = padded.as_bytes().get(2..).unwrap_or(b""));
}

/// Pairs of texts, and what becomes of them with a byte behind: eight bytes in all.
pub(crate) const SHORT: [(&str, &str, &[u8; 8]); 9] = [
    ("", "abcde", b"\0abcde\0!"),
    ("a", "bcde", b"a\0bcde\0!"),
    ("ab", "cde", b"ab\0cde\0!"),
    ("abc", "de", b"abc\0de\0!"),
    ("abcd", "e", b"abcd\0e\0!"),
    ("abcde", "", b"abcde\0\0!"),
    ("a\0bcde", "fghi", b"a\0fghi\0!"),
    ("a\0bcdefghijkl", "\u{80}\u{7f}\u{1}", b"a\0\xc2\x80\x7f\x01\0!"),
    ("\0", "\u{80}abc\0d", b"\0\xc2\x80abc\0!"),
];

/// The texts where they are, and with the first one at the end of a page.
fn short(first: &str, second: &str) {
    let record = |first: &str| mote::event!(scenario::short, a: &str = first, b: &str = second, c: u8 = b'!');
    record(first);
    let mut pages = vec![b'?'; 3 * 4096];
    let behind = 4096 + pages.as_ptr().align_offset(4096);
    let from = behind - first.len();
    pages[from..behind].copy_from_slice(first.as_bytes());
    record(std::str::from_utf8(&pages[from..behind]).expect("it is the same text"));
}

fn every_type() {
    let (array, sequence) = ([1u16, 2, 3], [-1i64, 5]);
    mote::event!(
        scenario::types,
        a: i8 = -2, b: u8 = 200, c: i16 = -300, d: u16 = 60_000, e: i32 = -70_000, f: u32 = 4_000_000_000,
        g: i64 = -5, h: u64 = u64::MAX, i: f32 = 1.5, j: f64 = -2.25, k: bool = true, l: char = 'x',
        m: [u16; 3] = array, n: &[i64] = &sequence, o: &str = "text", p: *const u8 = 0x1234 as *const u8,
    );
    // The event itself has another length than the rest; a second one says that it came through.
    number(7);
}

fn hammer() {
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for thread in 0..3 {
            let stop = &stop;
            scope.spawn(move || {
                let mut value = thread;
                while !stop.load(Ordering::Relaxed) {
                    number(value % 100_000);
                    value += 7;
                }
            });
        }
        wait();
        stop.store(true, Ordering::Relaxed);
    });
}

fn fork() {
    numbers(0..10);
    // SAFETY: the child emits events and leaves.
    match unsafe { libc::fork() } {
        0 => {
            numbers(0..10);
            wait();
            numbers(0..10);
            // SAFETY: ends the child.
            unsafe { libc::_exit(0) }
        }
        child => {
            let mut status = 0;
            // SAFETY: waits for the child.
            unsafe { libc::waitpid(child, &mut status, 0) };
            assert_eq!(status, 0);
        }
    }
}

fn fault() {
    // SAFETY: a page that nobody can read.
    let page = unsafe {
        libc::mmap(
            std::ptr::null_mut(),
            4096,
            libc::PROT_NONE,
            libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
            -1,
            0,
        )
    };
    for round in 0..3u64 {
        // SAFETY: it is not: the event's filter is to notice. Nothing else looks at the bytes.
        let bad = unsafe { std::slice::from_raw_parts(page.cast::<u8>(), 6) };
        let good = &round.to_le_bytes()[..6];
        for bytes in [good, bad] {
            mote::event!(scenario::bytes, bytes: &[u8] = std::hint::black_box(bytes));
        }
    }
    number(7);
}

mote::tracepoint! {
    begin in scenario { request: u64 }
    step in scenario { request: u64 }
    end in scenario { request: u64 }
}

/// Each request is on a thread of its own at each step; what `end` is of is decided by the request's number.
fn speculation_by_key() {
    let on_another_thread = |work: fn(u64), request| {
        std::thread::spawn(move || work(request)).join().expect("no panic");
    };
    (0..8).for_each(|request| on_another_thread(|request| mote::emit!(begin, request), request));
    (0..8).for_each(|request| on_another_thread(|request| mote::emit!(step, request), request));
    (0..8).for_each(|request| on_another_thread(|request| mote::emit!(end, request), request));
}

fn speculation() {
    for request in 0..6 {
        mote::emit!(begin, request);
        mote::emit!(step, request);
        mote::emit!(end, request);
    }
    // Too much for a slot: 4096 bytes less its head hold 201 records of 20 bytes.
    mote::emit!(begin, 100);
    for _ in 0..300 {
        mote::emit!(step, 100);
    }
    mote::emit!(end, 102);
    // One in every thread, and more threads than slots.
    let barrier = std::sync::Barrier::new(3);
    std::thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                mote::emit!(begin, 200);
                barrier.wait();
                mote::emit!(end, 201);
                barrier.wait();
            });
        }
    });
}
