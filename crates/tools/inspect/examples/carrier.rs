//! A program that carries events of every type of field, for the tests of `mote list`: it waits until its input ends.

use std::io::Read;

mote::tracepoint! {
    /// A request was answered.
    pub request_done in http(Debug) { status: u16, path: &str, nanos: u64 }
    /// A request was not answered.
    pub request_failed in http(Error) { errno: i32 }
}

#[derive(Clone, Copy)]
#[repr(u8)]
enum State {
    Idle,
    Busy = 4,
}
mote::enumeration!(State as u8 { Idle, Busy });

fn main() {
    let mut input = Vec::new();
    println!("ready");
    let _ = std::io::stdin().read_to_end(&mut input);
    work(input.len());
}

#[inline(never)]
fn work(len: usize) {
    mote::event!(work::begin);
    mote::event!(
        Warning, work::types,
        a: u8 = 1, b: i64 = -1, c: bool = len > 1, d: f64 = 0.5, e: &[u8] = &[1], f: [u16; 3] = [1, 2, 3],
        g: &[u32] = &[7], h: State = if len > 2 { State::Busy } else { State::Idle }, i: *const u8 = std::ptr::null(),
        "all the types"
    );
    mote::emit!(request_done, 200, "/", len as u64);
    mote::emit!(request_done, 404, "/nothing", len as u64);
    mote::emit!(request_failed, 5);
}
