//! Says when its `main` began: the floor of the benchmark `startup`. It does not carry mote.
#![forbid(unsafe_code)]

fn main() {
    let began = nix::time::ClockId::CLOCK_MONOTONIC.now();
    if let Ok(began) = began {
        println!("{}", began.tv_sec() * 1_000_000_000 + began.tv_nsec());
    }
}
