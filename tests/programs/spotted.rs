//! `plain` with one event.
#![forbid(unsafe_code)]

fn main() {
    let count = std::env::args().count();
    mote::event!(spotted::hello, arguments: u64 = count as u64, name: &str = "spotted");
    println!("hello {count}");
}
