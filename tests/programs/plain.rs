//! Says hello, and knows nothing of mote: what `spotted` is compared with.
#![forbid(unsafe_code)]

fn main() {
    println!("hello {}", std::env::args().count());
}
