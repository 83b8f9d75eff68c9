//! How long the heaviest known programs are looked at before they are refused:
//! `cargo run --release -p mote-trace-bpf --example heavy`.

use mote_bpf::environment::{Entry, Environment, STEPS_MAX, Word};
use mote_bpf::verify::{WORK_MAX, Workspace, verify_traced};
use mote_bpf::{MapKind, MapShape};
use std::time::Instant;

#[path = "../tests/support/heavy.rs"]
mod heavy;

fn main() {
    let maps =
        [MapShape { kind: MapKind::Array, key_bytes: 4, value_bytes: 16, entries: 4, read_only: false }];
    let words = [Word::Number { bits: 64, signed: false }];
    let env = Environment { entry: Entry::Context(&words), maps: &maps, helpers: &[], steps_max: STEPS_MAX };
    // Zeros are a valid one; made where it is to lie.
    let mut workspace = std::thread::Builder::new()
        .stack_size(64 << 20)
        .spawn(|| Box::new(Workspace::new()))
        .expect("a thread")
        .join()
        .expect("a workspace");
    println!("most work: {WORK_MAX}");
    for frames in [1, 2, 4, 8] {
        for (name, body) in heavy::BODIES {
            let text = heavy::program(frames, body);
            let insns = mote_assembler::text::assemble(&text, Some(&env)).expect("a program");
            let began = Instant::now();
            let result = verify_traced(&insns, &env, 64, &mut workspace);
            let took = began.elapsed().as_secs_f64();
            let end = result.map_or_else(|why| format!("{:?}", why.reason), |_| "accepted".to_owned());
            println!("{frames} frames, {name}: {took:.3} s, work {}: {end}", workspace.work());
        }
    }
}
