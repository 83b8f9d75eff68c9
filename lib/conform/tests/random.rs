//! Random programs on all engines.

use mote_assembler::random::{Shape, Source, program};
use mote_bpf::disassemble::Listing;
use mote_bpf::{MapKind, MapShape};
use mote_conform::Input;
use mote_conform::compare::{self, Tally};
use mote_conform::shrink::shrink;
use std::ops::Range;

/// The array that programs use as map 0.
const MAP: MapShape =
    MapShape { kind: MapKind::Array, key_bytes: 4, value_bytes: 8, entries: 4, read_only: false };

fn input(seed: u64, shape: &Shape) -> Input {
    let mut source = Source::new(!seed);
    let memory = (0..shape.memory).map(|_| source.value() as u8).collect();
    let maps = if shape.map { vec![MAP] } else { Vec::new() };
    Input { maps, ..Input::new(program(seed, shape), memory) }
}

/// So many seeds from `first` on, or as many times more as the environment's `MOTE_RANDOM` says.
fn seeds(first: u64, count: u64) -> Range<u64> {
    let times = std::env::var("MOTE_RANDOM").ok().and_then(|times| times.parse().ok()).unwrap_or(1);
    first..first + count * times
}

/// What goes wrong is shown as small as it can be made.
fn check(what: &str, seeds: Range<u64>, shape: &Shape, with_kernel: impl Fn(u64) -> bool) -> Tally {
    let mut tally = Tally::default();
    for seed in seeds {
        let with_kernel = with_kernel(seed);
        let shape = &Shape { stack_fetch: !with_kernel, ..*shape };
        let input = input(seed, shape);
        let answers = compare::all(&input, with_kernel);
        tally.count(&format!("seed {seed}"), &answers);
        if answers.agree().is_err() {
            let small = shrink(&input, |input| compare::all(input, with_kernel).agree().is_err());
            let problem = compare::all(&small, with_kernel).agree();
            let listing = Listing { insns: &small.insns, environment: None }.to_string();
            let listing = listing.replace("goto +0", "");
            panic!("seed {seed}, {shape:?}: {problem:?}\nmemory {:02x?}\n{listing}", small.memory);
        }
    }
    println!("{what}: {tally}");
    tally.missing.iter().for_each(|why| mote_skip::skip(format_args!("{what} without an engine: {why}")));
    tally
}

/// Most programs run everywhere: were they refused, nothing would be compared.
#[track_caller]
fn mostly(ran: usize, of: usize, missing: bool) {
    assert!(missing || ran * 10 >= of * 9, "{ran} of {of} ran");
}

#[test]
fn engines_agree_on_straight_programs() {
    let shape = Shape { functions: 0, ..Shape::default() };
    let tally = check("straight", seeds(0, 600), &shape, |seed| seed % 3 == 0);
    mostly(tally.interpreter, tally.programs, false);
    mostly(tally.kernel, tally.programs / 3, tally.kernel == 0);
}

#[test]
fn engines_agree_on_programs_with_functions_and_maps() {
    let shape = Shape { map: true, functions: 3, ..Shape::default() };
    let tally = check("functions and maps", seeds(1 << 20, 400), &shape, |seed| seed % 2 == 0);
    mostly(tally.interpreter, tally.programs, false);
    mostly(tally.kernel, tally.programs / 2, tally.kernel == 0);
}

#[test]
fn engines_agree_on_long_programs() {
    let shape = Shape { memory: 16, statements: 120, functions: 2, map: true, ..Shape::default() };
    let tally = check("long", seeds(1 << 21, 40), &shape, |seed| seed % 4 == 0);
    mostly(tally.interpreter, tally.programs, false);
}
