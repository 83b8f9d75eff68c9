//! What an event says of itself: the text that goes to the session and lies in the program's read-only data.

use std::cell::Cell;
use std::ffi::CStr;

#[derive(Clone, Copy)]
#[repr(i16)]
enum State {
    Idle = -1,
    Busy = 300,
}
mote::enumeration!(State as i16 { Idle, Busy });

mote::tracepoint! {
    /// Every type
    /// of field.
    everything in test(Warning) {
        a: u8, b: u16, c: u32, d: u64, e: usize, f: i8, g: i16, h: i32, i: i64, j: isize, k: bool, l: f32, m: f64,
        n: &str, o: &CStr, p: &[u8], q: &[u32], r: &[i64], s: &[bool], t: [u8; 6], u: &[f32; 2],
        v: *const u8, w: *mut u64, x: State, y: char, z: std::time::Duration,
    }
    r#type in r#mod { r#fn: u8 }
    nothing in test(Emergency) {}
}

#[track_caller]
fn lines(description: &[u8]) -> Vec<&str> {
    let text = CStr::from_bytes_with_nul(description).expect("one NUL, at the end");
    text.to_str().expect("text").lines().collect()
}

#[test]
fn every_type_of_field_has_a_name() {
    let lines = lines(&everything::__MOTE_DESCRIPTION);
    assert_eq!(lines[..2], ["mote1", "test:everything"]);
    let (level, place) = lines[2].split_once(' ').expect("level and place");
    assert_eq!(level, "4");
    assert!(place.contains("tests/descriptions.rs:"), "{place}");
    assert_eq!(lines[3], "Every type of field.");
    let fields = [
        "a u8",
        "b u16",
        "c u32",
        "d u64",
        "e u64",
        "f i8",
        "g i16",
        "h i32",
        "i i64",
        "j i64",
        "k bool",
        "l f32",
        "m f64",
        "n str",
        "o str",
        "p bytes",
        "q u32[]",
        "r i64[]",
        "s bool[]",
        "t u8[6]",
        "u f32[2]",
        "v x64",
        "w x64",
        "x enum i16 Idle=-1 Busy=300",
        "y u32",
        "z u64",
    ];
    assert_eq!(lines[4..], fields);
}

#[test]
fn identifiers_are_named_without_their_prefix() {
    let lines = lines(&r#type::__MOTE_DESCRIPTION);
    assert_eq!((lines[1], lines[4]), ("mod:type", "fn u8"));
}

#[test]
fn an_event_without_fields_or_text() {
    let lines = lines(&nothing::__MOTE_DESCRIPTION);
    assert_eq!(lines.len(), 4);
    assert!(lines[2].starts_with("0 ") && lines[3].is_empty());
}

#[test]
fn an_untraced_program_makes_no_field() {
    let made = Cell::new(0);
    let make = || {
        made.set(made.get() + 1);
        made.get()
    };
    mote::event!(test::unmade, value: u32 = make());
    mote::emit!(nothing);
    mote::emit!(r#type, make() as u8);
    assert_eq!(made.get(), 0);
    assert!(!mote::is_traced());
}
