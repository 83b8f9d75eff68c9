//! What the verifier's tests share: programs as text, an environment with something of everything.
#![allow(dead_code, reason = "each test uses its part")]

use machine::{Claims, Random, World, run};
use mote_bpf::disassemble::Listing;
use mote_bpf::environment::{Entry, Environment, STEPS_MAX, Word};
use mote_bpf::helper::{Arg, Helper, Returns};
use mote_bpf::verify::{Rejection, Verified, Workspace, verify, verify_watched};
use mote_bpf::{Insn, MapKind, MapShape};
use std::sync::{Mutex, PoisonError};

pub(crate) mod generate;
pub(crate) mod heavy;
pub(crate) mod machine;

static WORKSPACE: Mutex<Workspace> = Mutex::new(Workspace::new());

/// Calls with a workspace, one at a time.
pub(crate) fn with_workspace<T>(with: impl FnOnce(&mut Workspace) -> T) -> T {
    with(&mut WORKSPACE.lock().unwrap_or_else(PoisonError::into_inner))
}

/// Words: two numbers, a text, an array of 16 bytes, a sequence.
pub(crate) const WORDS: &[Word] = &[
    Word::Number { bits: 64, signed: false },
    Word::Number { bits: 8, signed: true },
    Word::Start,
    Word::End,
    Word::Bytes(16),
    Word::Start,
    Word::End,
];

const fn map(kind: MapKind, key_bytes: u32, value_bytes: u32, entries: u32, read_only: bool) -> MapShape {
    MapShape { kind, key_bytes, value_bytes, entries, read_only }
}

/// One of each kind, and an array of constants.
pub(crate) const MAPS: &[MapShape] = &[
    map(MapKind::Array, 4, 16, 4, false),
    map(MapKind::Hash, 8, 24, 100, false),
    map(MapKind::Array, 4, 32, 1, true),
    map(MapKind::RingBuffer, 0, 0, 4096, false),
    map(MapKind::Programs, 4, 4, 8, false),
    map(MapKind::PerCpuArray, 4, 8, 1, false),
    map(MapKind::Array, 4, 4, 1, false),
];

/// A helper of the application.
pub(crate) const HELPERS: &[Helper] = &[
    Helper {
        id: 2000,
        name: "fill",
        args: [Arg::Writable, Arg::SizeOrZero, Arg::None, Arg::None, Arg::None],
        returns: Returns::UpTo(100),
    },
    Helper {
        id: 2001,
        name: "show",
        args: [Arg::Readable, Arg::SizeOrZero, Arg::None, Arg::None, Arg::None],
        returns: Returns::Nothing,
    },
];

/// With all of these.
pub(crate) const CONTEXT: Environment<'static> =
    Environment { entry: Entry::Context(WORDS), maps: MAPS, helpers: HELPERS, steps_max: STEPS_MAX };

/// Entered with 64 bytes.
pub(crate) const MEMORY: Environment<'static> = Environment { entry: Entry::Memory { len: 64 }, ..CONTEXT };

/// With 64 bytes of state at `r2`.
pub(crate) const TRACED: Environment<'static> =
    Environment { entry: Entry::Traced { words: WORDS, state: 64 }, ..CONTEXT };

/// Assembles a text, lines of which may be separated by `;`.
pub(crate) fn assemble(text: &str) -> Vec<Insn> {
    let lines = text.replace(';', "\n");
    mote_assembler::text::assemble(&lines, Some(&CONTEXT)).unwrap_or_else(|why| panic!("{why}\n{lines}"))
}

/// The programs of `programs.txt`, each with its name and its environment.
pub(crate) fn programs() -> Vec<(&'static str, Vec<Insn>, &'static Environment<'static>)> {
    let programs = include_str!("../programs.txt").split("\n\n").map(|text| {
        let (name, text) = text.split_once('\n').unwrap_or((text, ""));
        let env = match name {
            _ if name.starts_with("# memory") => &MEMORY,
            _ if name.starts_with("# traced") => &TRACED,
            _ => &CONTEXT,
        };
        (name, assemble(text), env)
    });
    programs.collect()
}

/// Verifies, and hands over what is said of it.
pub(crate) fn check(insns: &[Insn], env: &Environment<'_>) -> Result<u32, Rejection> {
    with_workspace(|workspace| verify(insns, env, workspace).map(|verified| verified.steps()))
}

/// Verifies a text, and calls with the result.
pub(crate) fn verified<T>(text: &str, env: &Environment<'_>, with: impl FnOnce(&Verified<'_>) -> T) -> T {
    let insns = assemble(text);
    with_workspace(|workspace| match verify(&insns, env, workspace) {
        Ok(verified) => with(&verified),
        Err(why) => panic!("{why}\n{text}"),
    })
}

/// Verifies, and runs what was accepted. Whether it was accepted.
pub(crate) fn verify_and_run(insns: &[Insn], env: &Environment<'_>, random: &mut Random) -> bool {
    with_workspace(|workspace| {
        let mut claims = Claims::default();
        let Ok(verified) = verify_watched(insns, env, workspace, &mut claims) else { return false };
        for _ in 0..12 {
            let mut world = World::new(env, random);
            if let Err(trap) = run(&verified, env, &claims, &mut world, random) {
                let listing = Listing { insns, environment: Some(env) };
                panic!("{trap}\n{listing}\n{insns:?}");
            }
        }
        true
    })
}
