//! Says when its `main` began: the subject of the benchmark `startup`. It carries one event.

fn main() {
    let began = nix::time::ClockId::CLOCK_MONOTONIC.now();
    mote::event!(bench::started);
    if let Ok(began) = began {
        println!("{}", began.tv_sec() * 1_000_000_000 + began.tv_nsec());
    }
}
