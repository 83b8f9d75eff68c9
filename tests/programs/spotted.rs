//! `plain` with one event, and a switch that is never turned.
#![forbid(unsafe_code)]

static CHECKS: mote::Switch = mote::Switch::new();

fn main() {
    let count = std::env::args().count();
    mote::event!(spotted::hello, arguments: u64 = count as u64, name: &str = "spotted");
    if mote::is_on!(CHECKS) {
        println!("never");
    }
    println!("hello {count}");
}
