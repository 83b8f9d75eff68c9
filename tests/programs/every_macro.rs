//! Every public macro and every type of field, in a program that forbids `unsafe`: that it compiles is half of
//! the claim, that its events arrive is the other.
#![forbid(unsafe_code)]
#![deny(warnings, clippy::all, missing_docs)]

use std::ffi::CStr;
use std::time::Duration;

/// An enumeration with a gap and a negative value.
#[derive(Clone, Copy)]
#[repr(i8)]
pub enum Mood {
    /// Below zero.
    Low = -3,
    /// One above `Low`.
    Even,
    /// The largest.
    High = 127,
}
mote::enumeration!(Mood as i8 { Low, Even, High });

mote::tracepoint! {
    /// A block went to disk.
    /// It took its time.
    pub block_written in disk { sector: u64, path: &str }
    block_failed in disk(Error) { sector: u64 }
    pub(crate) idle in disk(Debug) {}
}

mod deep {
    mote::tracepoint! {
        pub(crate) found in deep(DebugLine) { what: &[u16] }
    }
}

fn scalars() {
    mote::event!(all::unsigned, a: u8 = u8::MAX, b: u16 = u16::MAX, c: u32 = u32::MAX, d: u64 = u64::MAX, e: usize = 7);
    mote::event!(all::signed, a: i8 = i8::MIN, b: i16 = i16::MIN, c: i32 = i32::MIN, d: i64 = i64::MIN, e: isize = -7);
    mote::event!(all::others, yes: bool = true, no: bool = false, half: f32 = 0.5, tenth: f64 = -0.1,
        letter: char = 'é');
    mote::event!(all::special, time: Duration = Duration::from_micros(3),
        at: *const u8 = std::ptr::without_provenance(0x1000));
    mote::event!(all::moods, low: Mood = Mood::Low, even: Mood = Mood::Even, high: Mood = Mood::High);
}

fn texts_and_sequences() {
    mote::event!(all::texts, empty: &str = "", plain: &str = "plain text", odd: &str = "tab\t quote\" back\\ é €", c: &CStr = c"from C");
    mote::event!(all::cut, nul: &str = "seen\0not seen");
    mote::event!(all::bytes, none: &[u8] = &[], some: &[u8] = &[0, 1, 0xfe, 0xff]);
    mote::event!(all::sequences, none: &[u32] = &[], some: &[u32] = &[1, 2, u32::MAX], signed: &[i16] = &[-1, i16::MIN],
        real: &[f64] = &[1.5, -2.25]);
    mote::event!(all::arrays, a: [u8; 4] = [1, 2, 3, 4], b: &[i64; 2] = &[i64::MIN, i64::MAX], none: [u32; 0] = []);
    mote::event!(all::long, text: &str = &"long ".repeat(200), end: u32 = 4711);
}

fn forms() {
    mote::event!(all::nothing);
    mote::event!(all::meant, "says what it means");
    mote::event!(Warning, all::levelled, a: u8 = 1, "a warning");
    mote::event!(all::trailing, a: u8 = 1,);
    mote::emit!(block_written, 17, "/dev/null");
    mote::emit!(block_failed, 18);
    mote::emit!(idle);
    mote::emit!(deep::found, &[1, 2, 3]);
}

/// Names of the user's own that the macros must not trip over.
fn shadows() {
    #[allow(dead_code)]
    fn emit() {}
    let (event, record, len) = (1u32, 2u32, 3u32);
    mote::event!(all::shadows, event: u32 = event, record: u32 = record, len: u32 = len, r#type: u32 = 4);
}

static SWITCH: mote::Switch = mote::Switch::new();

/// What a program has for itself. Emits nothing unless something is wrong.
fn own() -> Result<(), mote::ChangeError> {
    if mote::is_on!(SWITCH) || SWITCH.is_on() {
        mote::note!("a switch that is on at the beginning");
    }
    mote::flip(&[(&SWITCH, true), (&SWITCH, false)])?;
    let connection = deep::found.connect(|what| assert!(what.is_empty()))?;
    let idle_connection = idle.connect(|| mote::note!("{} is called", 1))?;
    connection.disconnect();
    idle_connection.disconnect();
    Ok(())
}

fn main() {
    own().expect("sites can be changed");
    scalars();
    texts_and_sequences();
    forms();
    shadows();
}
