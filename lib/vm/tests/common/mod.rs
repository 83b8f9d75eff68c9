//! What the tests share: maps in memory of their own, programs on both engines.
#![allow(dead_code)]

use mote_bpf::{Entry, Environment, Insn, MapKind, MapShape, Word};
use mote_builder::Builder;
use mote_sys::mem::{Mapping, sealed_memfd};
use mote_vm::{Choice, Fault, Map, Program, Setup};

pub(crate) const ENGINES: [Choice; 2] = [Choice::Interpreter, Choice::Jit];

pub(crate) fn shape(kind: MapKind, key_bytes: u32, value_bytes: u32, entries: u32) -> MapShape {
    MapShape { kind, key_bytes, value_bytes, entries, read_only: false }
}

/// A map in fresh memory, which stays.
pub(crate) fn map(shape: &MapShape) -> Map {
    let memory = Mapping::private(Map::bytes(shape)).expect("there is memory");
    // SAFETY: leaked, so it lasts; no other code knows of it.
    unsafe { Map::create(memory.leak(), shape) }.expect("a sound shape")
}

/// A map that children which fork share.
pub(crate) fn shared_map(shape: &MapShape) -> Map {
    let bytes = Map::bytes(shape);
    let file = sealed_memfd(c"map", bytes as u64).expect("a memfd");
    let memory = Mapping::shared(&file, bytes).expect("mapped");
    // SAFETY: leaked, so it lasts.
    unsafe { Map::create(memory.leak(), shape) }.expect("a sound shape")
}

pub(crate) fn insns(build: impl FnOnce(&mut Builder)) -> Vec<Insn> {
    let mut builder = Builder::new();
    build(&mut builder);
    builder.finish().expect("a program")
}

/// Words enough for all contexts here.
pub(crate) const NUMBERS: [Word; 8] = [Word::Number { bits: 64, signed: false }; 8];

pub(crate) fn load(insns: &[Insn], setup: Setup<'_>) -> Program {
    let shapes: Vec<_> = setup.maps.iter().map(|map| *map.shape()).collect();
    let env =
        Environment { entry: Entry::Context(&NUMBERS), maps: &shapes, helpers: &[], steps_max: 100_000 };
    // SAFETY: the tests' programs are harmless.
    unsafe { Program::load_unverified(insns, &env, &setup) }.expect("it loads")
}

/// What a program returns, which both engines do alike.
pub(crate) fn run(insns: &[Insn], maps: &[Map], context: &[u64]) -> Result<u64, Fault> {
    let [first, second] = ENGINES.map(|engine| {
        let program = load(insns, Setup { maps, engine, ..Setup::default() });
        // SAFETY: as above.
        unsafe { program.run(context.as_ptr() as u64, 0) }
    });
    assert_eq!(first, second, "interpreter and machine code");
    first
}
