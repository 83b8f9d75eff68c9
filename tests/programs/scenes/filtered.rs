//! Events to choose from.

use crate::words::Words;
use std::time::Duration;

/// How a packet goes.
#[derive(Clone, Copy)]
#[repr(u8)]
enum Direction {
    In = 1,
    Out = 2,
}
mote::enumeration!(Direction as u8 { In, Out });

const PROTOCOLS: [&str; 4] = ["tcp4", "tcp6", "udp", "icmp"];

/// `net COUNT`: packets of which everything follows from their number.
pub(crate) fn net(words: &Words) {
    (0..words.number(0)).for_each(packet);
}

/// The packet of a number.
fn packet(id: u64) {
    let direction = if id.is_multiple_of(2) { Direction::In } else { Direction::Out };
    let ports = [id as u16, (id / 2) as u16, 80];
    let ports = &ports[..(id % 4).min(3) as usize];
    mote::event!(
        net::packet,
        id: u64 = id,
        len: u32 = (id * 7 % 3000) as u32,
        delta: i32 = 500 - (id % 1000) as i32,
        proto: &str = PROTOCOLS[(id % 4) as usize],
        load: f64 = id as f64 / 8.0,
        direction: Direction = direction,
        ports: &[u16] = ports,
        mac: [u8; 6] = [id as u8, 1, 2, 3, 4, 5],
        urgent: bool = id.is_multiple_of(10),
    );
    mote::event!(net::noise, id: u64 = id);
}

/// `net-until`: packets until the program is stopped; prints its process id.
pub(crate) fn net_until() {
    println!("pid {}", std::process::id());
    for id in 0.. {
        packet(id);
        std::thread::sleep(Duration::from_micros(200));
    }
}

/// `http THREADS REQUESTS`: requests; every tenth ends with status 500, every 25th takes 12 ms.
pub(crate) fn http(words: &Words) {
    let requests = words.number(1);
    std::thread::scope(|scope| {
        for thread in 0..words.number(0) {
            scope.spawn(move || (0..requests).for_each(|number| request(thread, number)));
        }
    });
}

fn request(thread: u64, number: u64) {
    mote::event!(http::begin, thread: u64 = thread, number: u64 = number);
    for step in 0..3u32 {
        mote::event!(http::step, thread: u64 = thread, number: u64 = number, step: u32 = step);
    }
    if number % 25 == 7 {
        std::thread::sleep(Duration::from_millis(12));
    }
    let status = if number.is_multiple_of(10) { 500 } else { 200 };
    mote::event!(http::end, thread: u64 = thread, number: u64 = number, status: u32 = status);
}
