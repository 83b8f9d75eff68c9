//! Random programs with a few instructions changed: most are refused, and those that are not must run without harm,
//! alike everywhere. This looks for what the verifier should have refused.

use mote_assembler::random::{Shape, Source, program};
use mote_bpf::disassemble::Listing;
use mote_bpf::{Insn, MapKind, MapShape, helper};
use mote_conform::{Answer, Input, kernel, ours};
use mote_vm::Engine;
use std::collections::BTreeMap;

const MAP: MapShape =
    MapShape { kind: MapKind::Array, key_bytes: 4, value_bytes: 8, entries: 4, read_only: false };

/// Changes one field of one instruction, or its place.
fn mutate(insns: &mut [Insn], source: &mut Source) {
    let count = insns.len() as u64;
    let other = insns[source.below(count) as usize];
    let at = source.below(count) as usize;
    let insn = &mut insns[at];
    match source.below(10) {
        0 => insn.regs = insn.regs & 0xf0 | source.below(11) as u8,
        1 => insn.regs = insn.regs & 0x0f | (source.below(11) as u8) << 4,
        2 => insn.off = insn.off.wrapping_add(source.below(9) as i16 - 4),
        3 => insn.off = source.value() as i16,
        4 => insn.imm = insn.imm.wrapping_add(source.below(9) as i32 - 4),
        5 => insn.imm = source.imm(),
        6 => insn.code ^= 1 << source.below(8),
        7 => insn.code = other.code,
        8 => *insn = other,
        _ => {
            let next = (at + 1) % insns.len();
            insns.swap(at, next);
        }
    }
}

/// Runs something with the stack elsewhere.
fn deeper<T>(levels: u32, run: &dyn Fn() -> T) -> T {
    let room = [levels; 100];
    std::hint::black_box(&room);
    if levels == 0 { run() } else { deeper(levels - 1, run) }
}

/// Whether a program asks for what changes from run to run.
fn asks_outside(insns: &[Insn]) -> bool {
    const OUTSIDE: [i32; 4] = [
        helper::KTIME_GET_NS as i32,
        helper::GET_PRANDOM_U32 as i32,
        helper::GET_SMP_PROCESSOR_ID as i32,
        helper::GET_CURRENT_PID_TGID as i32,
    ];
    insns.iter().any(|insn| insn.code == 0x85 && insn.src() == 0 && OUTSIDE.contains(&insn.imm))
}

/// What a program leaves in the interpreter. Run again with memory and stack elsewhere it leaves the same: addresses
/// are no numbers for programs.
fn everywhere_the_same(seed: u64, input: &Input) -> Answer {
    let first = ours::run_verified(input, Engine::Interpreter);
    // These take the place of what was freed.
    let held: Vec<Vec<u64>> = (0..8).map(|_| vec![1; input.memory.len() / 8 + 32]).collect();
    let second = deeper(13, &|| ours::run_verified(input, Engine::Interpreter));
    drop(held);
    assert!(
        first == second || asks_outside(&input.insns),
        "seed {seed}: {first:?}, then {second:?}\n{}",
        listing(input)
    );
    second
}

fn listing(input: &Input) -> String {
    Listing { insns: &input.insns, environment: None }.to_string()
}

#[derive(Debug, Default)]
struct Counts {
    programs: usize,
    refused: usize,
    /// Ran, and asked for what changes from run to run.
    outside: usize,
    alike: usize,
    kernel: usize,
    /// What the kernel refuses of what ours accepts, by its reasons: each is a rule of its own, or a hole in ours.
    kernel_refused: BTreeMap<String, usize>,
}

#[test]
fn what_is_accepted_is_harmless() {
    let times: u64 = std::env::var("MOTE_RANDOM").ok().and_then(|times| times.parse().ok()).unwrap_or(1);
    let mut counts = Counts::default();
    for seed in 0..2500 * times {
        let mut source = Source::new(!seed << 1);
        let stack_fetch = !seed.is_multiple_of(4);
        let shape = Shape { memory: 32, statements: 8, functions: 1, map: true, entries: 4, stack_fetch };
        let mut insns = program(seed, &shape);
        for _ in 0..1 + source.below(3) {
            mutate(&mut insns, &mut source);
        }
        let memory = (0..32).map(|n| n * 7).collect();
        // Many become endless, which is to be found soon.
        let input = Input { maps: vec![MAP], steps_max: 1 << 13, ..Input::new(insns, memory) };
        counts.programs += 1;
        check(seed, &input, &mut counts);
    }
    println!("{counts:#?}");
    assert!(counts.alike * 10 > counts.programs, "too few are accepted to tell anything: {counts:?}");
}

fn check(seed: u64, input: &Input, counts: &mut Counts) {
    let interpreter = everywhere_the_same(seed, input);
    if matches!(interpreter, Answer::Refused(_)) {
        counts.refused += 1;
        return;
    }
    let jit = ours::run_verified(input, Engine::Jit);
    for answer in [&interpreter, &jit] {
        assert!(!matches!(answer, Answer::Faulted(_)), "seed {seed}: {answer:?}\n{}", listing(input));
    }
    if asks_outside(&input.insns) {
        counts.outside += 1;
        return;
    }
    if !matches!(jit, Answer::Missing(_)) {
        assert_eq!(interpreter, jit, "seed {seed}: the interpreter's and the JIT's\n{}", listing(input));
    }
    counts.alike += 1;
    if seed.is_multiple_of(4) {
        match kernel::run(input) {
            Answer::Refused(why) => *counts.kernel_refused.entry(kind(&why)).or_default() += 1,
            Answer::Missing(_) => {}
            answer => {
                assert_eq!(interpreter, answer, "seed {seed}: ours and the kernel's\n{}", listing(input));
                counts.kernel += 1;
            }
        }
    }
}

/// A reason without its numbers.
fn kind(why: &str) -> String {
    why.chars().filter(|c| !c.is_ascii_digit()).collect()
}
