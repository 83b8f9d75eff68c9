//! One process, one thread.

use crate::words::Words;
use std::cell::Cell;
use std::process::ExitCode;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// `count N [MICROSECONDS]`: events 0 to N-1, with a pause after each.
pub(crate) fn count(words: &Words) {
    let pause = if words.text(1).is_empty() { 0 } else { words.number(1) };
    for seq in 0..words.number(0) {
        mote::event!(e2e::count, seq: u64 = seq);
        if pause > 0 {
            std::thread::sleep(Duration::from_micros(pause));
        }
    }
    println!("emitted {}", words.number(0));
}

/// `counting`: events from 0 on, one each millisecond, until it is stopped; prints its process id.
pub(crate) fn counting() {
    println!("pid {}", std::process::id());
    for seq in 0u64.. {
        mote::event!(e2e::count, seq: u64 = seq);
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// `exit STATUS`: one event, then that status; `exit signal` dies of SIGKILL.
pub(crate) fn exit(words: &Words) -> ExitCode {
    mote::event!(e2e::exiting);
    if words.text(0) == "signal" {
        let _ = nix::sys::signal::raise(nix::sys::signal::SIGKILL);
    }
    ExitCode::from(words.number(0) as u8)
}

/// An event of 60 KiB, one that is as large as can be, and one that is larger.
pub(crate) fn big() {
    let bytes: Vec<u8> = (0..70_000u32).map(|n| (n * 7 + n / 251) as u8).collect();
    let most = (64 << 10) - 2;
    mote::event!(e2e::big, seq: u8 = 0, bytes: &[u8] = &bytes[..60_000]);
    mote::event!(e2e::most, bytes: &[u8] = &bytes[..most]);
    mote::event!(e2e::big, seq: u8 = 1, bytes: &[u8] = &bytes);
    let text = "x".repeat(61_000);
    mote::event!(e2e::long_text, text: &str = &text);
    mote::event!(e2e::big, seq: u8 = 2, bytes: &[u8] = &bytes[..1]);
}

/// `times N`: each event between two looks at CLOCK_REALTIME, printed as `SEQ BEFORE AFTER` in nanoseconds.
pub(crate) fn times(words: &Words) {
    let now = || SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_nanos());
    let mut looks = Vec::new();
    for seq in 0..words.number(0) {
        let before = now();
        mote::event!(e2e::timed, seq: u64 = seq);
        looks.push((seq, before, now()));
        std::thread::sleep(Duration::from_millis(1));
    }
    for (seq, before, after) in looks {
        println!("{seq} {before} {after}");
    }
}

/// `unevaluated N`: counts how often the fields of an event were made.
pub(crate) fn unevaluated(words: &Words) {
    let made = Cell::new(0u64);
    let make = || {
        made.set(made.get() + 1);
        made.get()
    };
    for _ in 0..words.number(0) {
        mote::event!(e2e::evaluated, value: u64 = make());
    }
    println!("made {}", made.get());
}

/// One event for each line of standard input.
pub(crate) fn echo() {
    for line in std::io::stdin().lines().map_while(Result::ok) {
        mote::event!(e2e::line, text: &str = &line);
        println!("{line}");
    }
}
