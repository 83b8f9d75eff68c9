//! Runs a program in the kernel, by `BPF_PROG_TEST_RUN`.
//!
//! A program that the kernel runs has a packet as its context and a result of 32 bits. So the program is called as a
//! function by a small one before it, which gives it the value of an array map as its memory (at which the kernel's
//! verifier looks as ours does at `Entry::Memory`), and keeps its 64-bit result in another. Maps are named by their
//! index, as in our own environment: the kernel knows that form too.

use crate::{Answer, Input, Outcome};
use mote_bpf::op::Size;
use mote_bpf::{Insn, MapKind, MapShape, Reg};
use mote_builder::{BuildError, Builder};
use mote_sys::bpf::{self, Map, MapType, ProgramType};
use mote_sys::{Errno, Result};

/// An Ethernet packet of the least length.
const PACKET: [u8; 64] = [0; 64];
const LOG_BYTES: usize = 1 << 20;
/// `EPERM`: the user may not load programs.
const NOT_PERMITTED: Errno = Errno(1);
/// `ENOSYS`: the kernel has no bpf(2).
const NOT_THERE: Errno = Errno(38);

/// Loads a program into this machine's kernel and runs it once by `BPF_PROG_TEST_RUN`.
pub fn run(input: &Input) -> Answer {
    match try_run(input) {
        Ok(answer) => answer,
        Err(errno @ (NOT_PERMITTED | NOT_THERE)) => Answer::Missing(format!("bpf(2): {errno}")),
        Err(errno) => Answer::Refused(format!("bpf(2): {errno}")),
    }
}

fn try_run(input: &Input) -> Result<Answer> {
    let mut maps = input.maps.iter().map(create).collect::<Result<Vec<Map>>>()?;
    for (at, map) in maps.iter().enumerate() {
        if let Some(value) = input.first_value(at) {
            map.update(&[0; 4], &value)?;
        }
    }
    let memory = input.maps.len() as u32;
    // There are no values of 0 bytes.
    maps.push(Map::create(MapType::Array, 4, input.memory.len().max(1) as u32, 1)?);
    maps.push(Map::create(MapType::Array, 4, 8, 1)?);
    if !input.memory.is_empty() {
        maps[memory as usize].update(&[0; 4], &input.memory)?;
    }
    let program = match caller(memory, input.memory.len()) {
        Ok(caller) => words(&[&caller, &input.insns].map(|part| &part[..]).concat()),
        Err(error) => return Ok(Answer::Refused(error.to_string())),
    };
    let numbers: Vec<i32> = maps.iter().map(Map::raw).collect();
    let loaded = match bpf::load_with_maps(ProgramType::Classifier, &program, &numbers, &mut []) {
        Ok(loaded) => loaded,
        Err(errno @ (NOT_PERMITTED | NOT_THERE)) => return Err(errno),
        Err(errno) => return Ok(Answer::Refused(format!("{errno}: {}", why(&program, &numbers)))),
    };
    bpf::test_run(&loaded, &PACKET)?;
    let mut r0 = [0; 8];
    maps[memory as usize + 1].lookup(&[0; 4], &mut r0)?;
    let mut after = vec![0; input.memory.len()];
    if !after.is_empty() {
        maps[memory as usize].lookup(&[0; 4], &mut after)?;
    }
    let arrays = input.maps.iter().zip(&maps).map(|(shape, map)| values(shape, map));
    Ok(Answer::Ran(Outcome {
        r0: u64::from_le_bytes(r0),
        memory: after,
        arrays: arrays.collect::<Result<_>>()?,
    }))
}

fn create(shape: &MapShape) -> Result<Map> {
    let kind = match shape.kind {
        MapKind::Array => MapType::Array,
        MapKind::Hash => MapType::Hash,
        _ => return Err(Errno(22)),
    };
    Map::create(kind, shape.key_bytes, shape.value_bytes, shape.entries)
}

fn values(shape: &MapShape, map: &Map) -> Result<Vec<u8>> {
    let mut all = Vec::new();
    if shape.kind == MapKind::Array {
        let mut value = vec![0; shape.value_bytes as usize];
        for index in 0..shape.entries {
            map.lookup(&index.to_le_bytes(), &mut value)?;
            all.extend_from_slice(&value);
        }
    }
    Ok(all)
}

/// The program that calls the one behind it.
fn caller(memory: u32, len: usize) -> std::result::Result<Vec<Insn>, BuildError> {
    let mut b = Builder::new();
    let tested = b.label();
    if len == 0 {
        b.mov(Reg::R1, 0);
    } else {
        b.map_value(Reg::R1, memory, 0);
    }
    b.mov(Reg::R2, len as i32);
    b.call_local(tested);
    b.map_value(Reg::R1, memory + 1, 0);
    b.store(Size::DW, Reg::R1, 0, Reg::R0);
    b.mov(Reg::R0, 0);
    b.exit();
    b.bind(tested);
    b.finish()
}

fn words(insns: &[Insn]) -> Vec<u64> {
    insns.iter().map(|insn| u64::from_le_bytes(insn.to_bytes())).collect()
}

/// The last words of the kernel's verifier.
fn why(program: &[u64], maps: &[i32]) -> String {
    let mut log = vec![0; LOG_BYTES];
    let _ = bpf::load_with_maps(ProgramType::Classifier, program, maps, &mut log);
    let end = log.iter().position(|byte| *byte == 0).unwrap_or(log.len());
    let text = String::from_utf8_lossy(&log[..end]).into_owned();
    let said = text.lines().rev().find(|line| !line.starts_with("processed ") && !line.is_empty());
    said.unwrap_or("it does not say why").to_owned()
}
