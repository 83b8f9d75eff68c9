//! Runs a program on our engines.
#![allow(unsafe_code)]

use crate::{Answer, Input, Outcome};
use mote_bpf::verify::{Verified, verify};
use mote_bpf::{Entry, Environment, Insn, MapKind};
use mote_vm::{Choice, Engine, HelperFn, Map, Program, Setup, Update, WorkspaceGuard};
use std::cell::RefCell;

/// What a program is trusted with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trust {
    /// It is verified first, and does not run when it is refused.
    Verified,
    /// It runs as it is. It can do anything that this process can.
    Unverified,
}

/// The number that the public conformance suite calls: it returns its first argument.
const SUITE: u32 = 5;

/// The helper of that number.
extern "C" fn unwind(r1: u64, _: u64, _: u64, _: u64, _: u64) -> u64 {
    r1
}

/// Runs a program on one engine.
///
/// # Safety
/// An unverified program must be harmless: it runs with the rights of this process, at any address.
pub unsafe fn run(input: &Input, engine: Engine, trust: Trust) -> Answer {
    let entry = Entry::Memory { len: input.memory.len() as u32 };
    let environment = Environment { entry, maps: &input.maps, helpers: &[], steps_max: input.steps_max };
    let mut memory = Memory::new(&input.memory);
    let mut places: Vec<Vec<Page>> = input.maps.iter().map(|shape| pages(Map::bytes(shape))).collect();
    let mut maps = Vec::new();
    for (at, (shape, place)) in input.maps.iter().zip(&mut places).enumerate() {
        // SAFETY: the pages are zeroed, aligned, as many bytes as the map has, and outlive program and map.
        let made = unsafe { Map::create(place.as_mut_ptr().cast(), shape) };
        let first = input.first_value(at);
        match made.and_then(|map| {
            first.map_or(Ok(()), |value| map.update(&[0; 4], &value, Update::Any)).map(|()| map)
        }) {
            Ok(map) => maps.push(map),
            Err(error) => return Answer::Refused(format!("map {at}: {error:?}")),
        }
    }
    let choice = if engine == Engine::Jit { Choice::Jit } else { Choice::Interpreter };
    let suite: [(u32, HelperFn); 1] = [(SUITE, unwind)];
    let helpers = if trust == Trust::Unverified { &suite[..] } else { &[] };
    let setup = Setup { maps: &maps, helpers, engine: choice, ..Setup::default() };
    let loaded = if trust == Trust::Verified {
        match verified(&input.insns, &environment) {
            Ok(verified) => Program::load(&verified, &setup),
            Err(answer) => return answer,
        }
    } else {
        // SAFETY: the caller answers for the program.
        unsafe { Program::load_unverified(&input.insns, &environment, &setup) }
    };
    let program = match loaded {
        Ok(program) => program,
        Err(error) => return Answer::Missing(format!("{engine:?}: {error}")),
    };
    // SAFETY: r1 points to as many readable and writable bytes as the environment says, aligned to 8, and r2 is their
    // number; the maps have the environment's shapes. An unverified program is the caller's.
    let ran = unsafe { program.run(memory.address(), input.memory.len() as u64) };
    match (ran, memory.take()) {
        (Err(fault), _) => Answer::Faulted(fault.to_string()),
        (Ok(_), None) => Answer::Faulted("it wrote outside its memory".into()),
        (Ok(r0), Some(memory)) => {
            let arrays = input.maps.iter().zip(&maps).map(|(shape, map)| match shape.kind {
                MapKind::Array => values(shape.entries, shape.value_bytes, map),
                _ => Vec::new(),
            });
            Answer::Ran(Outcome { r0, memory, arrays: arrays.collect() })
        }
    }
}

/// Verifies a program, and runs it on one engine.
pub fn run_verified(input: &Input, engine: Engine) -> Answer {
    // SAFETY: it does not run unless it was verified.
    unsafe { run(input, engine, Trust::Verified) }
}

thread_local! {
    /// The verifier's memory, which is large, and need not be made anew.
    static WORKSPACE: RefCell<Option<WorkspaceGuard>> = const { RefCell::new(None) };
}

fn verified<'a>(insns: &'a [Insn], environment: &Environment<'a>) -> Result<Verified<'a>, Answer> {
    let missing = |errno| Answer::Missing(format!("memory for the verifier: {errno}"));
    WORKSPACE.with_borrow_mut(|place| {
        let workspace = match place {
            Some(workspace) => workspace,
            None => place.insert(mote_vm::workspace().map_err(missing)?),
        };
        verify(insns, environment, workspace).map_err(|rejection| Answer::Refused(rejection.to_string()))
    })
}

fn values(entries: u32, bytes: u32, map: &Map) -> Vec<u8> {
    let mut all = Vec::new();
    let mut value = vec![0; bytes as usize];
    for index in 0..entries {
        if map.lookup(&index.to_le_bytes(), &mut value).is_ok() {
            all.extend_from_slice(&value);
        }
    }
    all
}

/// A page, so that maps lie as they do in a mapping.
#[repr(C, align(4096))]
#[derive(Clone, Copy)]
struct Page([u8; 4096]);

fn pages(bytes: usize) -> Vec<Page> {
    vec![Page([0; 4096]); bytes.div_ceil(4096)]
}

/// The memory of a program, between words that it must leave alone.
struct Memory {
    words: Vec<u64>,
    len: usize,
}

/// Words on either side.
const GUARD: usize = 16;
const PATTERN: u64 = 0xa5a5_a5a5_5a5a_5a5a;

impl Memory {
    fn new(bytes: &[u8]) -> Memory {
        let mut words = vec![PATTERN; GUARD];
        words.extend(bytes.chunks(8).map(|chunk| {
            let mut word = PATTERN.to_le_bytes();
            word[..chunk.len()].copy_from_slice(chunk);
            u64::from_le_bytes(word)
        }));
        words.extend([PATTERN; GUARD]);
        Memory { words, len: bytes.len() }
    }

    fn address(&mut self) -> u64 {
        self.words[GUARD..].as_mut_ptr() as u64
    }

    /// What is in it now; nothing when a guard was written to.
    fn take(self) -> Option<Vec<u8>> {
        let bytes: Vec<u8> = self.words.iter().flat_map(|word| word.to_le_bytes()).collect();
        let (before, rest) = bytes.split_at_checked(GUARD * 8)?;
        let (inside, behind) = rest.split_at_checked(self.len)?;
        let phase = self.len % 8;
        let whole = before.chunks(8).all(|word| word == PATTERN.to_le_bytes())
            && behind.iter().enumerate().all(|(at, byte)| *byte == PATTERN.to_le_bytes()[(phase + at) % 8]);
        whole.then(|| inside.to_vec())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_comes_back_and_its_guards_are_looked_at() {
        for len in 0..20u8 {
            let bytes: Vec<u8> = (0..len).collect();
            assert_eq!(Memory::new(&bytes).take(), Some(bytes.clone()));
            let mut memory = Memory::new(&bytes);
            let last = memory.words.len() - GUARD;
            memory.words[last] = 0;
            assert_eq!(memory.take(), None);
            let mut memory = Memory::new(&bytes);
            memory.words[GUARD - 1] = 0;
            assert_eq!(memory.take(), None);
        }
    }
}
