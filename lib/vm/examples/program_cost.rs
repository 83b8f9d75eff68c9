//! What programs and maps cost, in ns each, beside a bare `lock add`: `cargo run --release -p mote-trace-vm --example
//! program_cost`.

use mote_bpf::helper::{MAP_ADD, MAP_LOOKUP, TEXT_COMPARE, TEXT_GLOB};
use mote_bpf::op::{Cond, Size};
use mote_bpf::{Entry, Environment, Insn, MapKind, MapShape, Reg, Word};
use mote_builder::Builder;
use mote_sys::mem::Mapping;
use mote_vm::{Choice, Map, Program, Setup};
use std::hint::black_box;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

/// The best of many short rounds, in ns a turn: on a busy machine some are undisturbed.
fn measure(name: &str, mut turn: impl FnMut(u64)) {
    const TURNS: u64 = 100_000;
    let round = |turn: &mut dyn FnMut(u64)| {
        let start = Instant::now();
        turn(TURNS);
        start.elapsed().as_nanos() as f64 / TURNS as f64
    };
    let mut all = |turns: u64| (0..turns).for_each(&mut turn);
    let best = (0..100).map(|_| round(&mut all)).fold(f64::MAX, f64::min);
    println!("{name:44} {best:8.2} ns");
}

fn map(shape: &MapShape) -> Map {
    let memory = Mapping::private(Map::bytes(shape)).expect("there is memory");
    // SAFETY: leaked, so it lasts.
    unsafe { Map::create(memory.leak(), shape) }.expect("a sound shape")
}

fn load(insns: &[Insn], words: &[Word], maps: &[Map], engine: Choice) -> Program {
    let shapes: Vec<_> = maps.iter().map(|map| *map.shape()).collect();
    let env = Environment { entry: Entry::Context(words), maps: &shapes, helpers: &[], steps_max: 1 << 20 };
    let setup = Setup { maps, engine, ..Setup::default() };
    // SAFETY: the programs below read their context and their stack only.
    unsafe { Program::load_unverified(insns, &env, &setup) }.expect("it loads")
}

/// `count` predicates `word[i] > i`, all true, and then 1.
fn predicates(count: i32) -> Vec<Insn> {
    let mut b = Builder::new();
    let out = b.label();
    for i in 0..count {
        b.load(Size::DW, Reg::R2, Reg::R1, (i * 8) as i16);
        b.branch(Cond::Le, Reg::R2, i, out);
    }
    b.mov(Reg::R0, 1);
    b.exit();
    b.bind(out);
    b.mov(Reg::R0, 0);
    b.exit();
    b.finish().expect("short")
}

/// A helper on the text of words 0 and 1 with a constant on the stack.
fn text(helper: u32, constant: &[u8; 8]) -> Vec<Insn> {
    let mut b = Builder::new();
    b.load(Size::DW, Reg::R2, Reg::R1, 8);
    b.load(Size::DW, Reg::R1, Reg::R1, 0);
    b.constant(Reg::R3, u64::from_le_bytes(*constant));
    b.store(Size::DW, Reg::R10, -8, Reg::R3);
    b.mov(Reg::R3, Reg::R10);
    b.add(Reg::R3, -8);
    b.mov(Reg::R4, 8);
    b.call(helper);
    b.exit();
    b.finish().expect("short")
}

/// A map helper with the key of word 0.
fn keyed(helper: u32) -> Vec<Insn> {
    let mut b = Builder::new();
    b.load(Size::DW, Reg::R2, Reg::R1, 0);
    for at in [-32, -24, -16, -8] {
        b.store(Size::DW, Reg::R10, at, Reg::R2);
    }
    b.map(Reg::R1, 0);
    b.mov(Reg::R2, Reg::R10);
    b.add(Reg::R2, -32);
    b.mov(Reg::R3, 1);
    b.call(helper);
    b.mov(Reg::R0, 0);
    b.exit();
    b.finish().expect("short")
}

fn run(program: &Program, words: &[u64]) -> u64 {
    // SAFETY: the context is as the programs want it.
    unsafe { program.run(words.as_ptr() as u64, 0) }.expect("no fault")
}

fn main() {
    let word = AtomicU64::new(0);
    measure("lock add", |_| {
        word.fetch_add(black_box(1), Ordering::Relaxed);
    });
    let tcp = b"tcp_ack_ok\0";
    let at = tcp.as_ptr() as u64;
    let numbers = [Word::Number { bits: 64, signed: false }; 64];
    let number =
        MapShape { kind: MapKind::Hash, key_bytes: 8, value_bytes: 8, entries: 4096, read_only: false };
    let index =
        MapShape { kind: MapKind::Array, key_bytes: 4, value_bytes: 8, entries: 4096, read_only: false };
    let lru = MapShape { kind: MapKind::LruHash, entries: 500, ..number };
    let name = MapShape { key_bytes: 32, ..number };
    for engine in [Choice::Interpreter, Choice::Jit] {
        println!("-- {engine:?}");
        let always: Vec<u64> = (1..=64).collect();
        for count in [1, 9, 50] {
            let program = load(&predicates(count), &numbers, &[], engine);
            measure(&format!("{count} predicates, true"), |_| {
                black_box(run(&program, black_box(&always)));
            });
        }
        let program = load(&predicates(50), &numbers, &[], engine);
        println!("{:44} {:8} bytes", "50 predicates: memory", program.memory_bytes());
        measure("1 predicate, false", |_| {
            black_box(run(&program, black_box(&[0; 64])));
        });
        for (what, helper, constant) in [
            ("text_compare, equal 7", TEXT_COMPARE, b"tcp_ack\0"),
            ("text_glob tcp*", TEXT_GLOB, b"tcp*\0\0\0\0"),
            ("text_glob *ack*", TEXT_GLOB, b"*ack*\0\0\0"),
        ] {
            let program = load(&text(helper, constant), &[Word::Start, Word::End], &[], engine);
            measure(what, |_| {
                black_box(run(&program, black_box(&[at, at + 10])));
            });
        }
        for (what, shape) in
            [("hash", &number), ("array", &index), ("hash of 32-byte keys", &name), ("LRU hash, 500", &lru)]
        {
            let adding = load(&keyed(MAP_ADD), &numbers, &[map(shape)], engine);
            measure(&format!("map_add, {what}, 1 key"), |_| {
                black_box(run(&adding, &[7, 0]));
            });
            measure(&format!("map_add, {what}, 1000 keys"), |turn| {
                black_box(run(&adding, &[turn % 1000, 0]));
            });
            let looking = load(&keyed(MAP_LOOKUP), &numbers, &[map(shape)], engine);
            measure(&format!("map_lookup, {what}, missing or 1st"), |_| {
                black_box(run(&looking, &[7, 0]));
            });
        }
    }
}
