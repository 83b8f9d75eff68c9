//! What the verifier said it knows before each instruction, and whether a state of the machine is among it.

use super::{Frame, Held, Region, World};
use mote_bpf::Reg;
use mote_bpf::verify::{Kind, Value, View, Watch};
use std::collections::HashMap;

/// Of one visit: what is known of the registers that are live, and whether their numbers are.
struct Claim {
    depth: usize,
    registers: Vec<(usize, bool, Value)>,
}

impl Claim {
    fn admits(&self, frames: &[Frame], world: &World) -> bool {
        let registers = &frames[frames.len() - 1].registers;
        self.depth == frames.len()
            && self.registers.iter().all(|(reg, exact, value)| admits(value, *exact, registers[*reg], world))
    }
}

/// All that was said.
#[derive(Default)]
pub(crate) struct Claims(HashMap<usize, Vec<Claim>>);

impl Watch for Claims {
    fn at(&mut self, insn: usize, view: &View<'_>) {
        let registers = (0..11u8).filter_map(Reg::new).filter(|reg| view.is_live(*reg));
        let registers = registers.map(|reg| (reg.index(), view.is_exact(reg), *view.register(reg))).collect();
        self.0.entry(insn).or_default().push(Claim { depth: view.frames(), registers });
    }
}

impl Claims {
    pub(crate) fn check(&self, insn: usize, frames: &[Frame], world: &World) -> Result<(), String> {
        let said = self.0.get(&insn).map_or(&[][..], Vec::as_slice);
        if said.iter().any(|claim| claim.admits(frames, world)) {
            return Ok(());
        }
        let mut text =
            format!("none of {} claims holds of {:x?}", said.len(), frames[frames.len() - 1].registers);
        for claim in said.iter().take(3) {
            for (reg, exact, value) in &claim.registers {
                text += &format!("\n    r{reg} exact {exact} {:x?}", value);
            }
        }
        Err(text)
    }
}

fn admits(value: &Value, exact: bool, held: Held, world: &World) -> bool {
    // A pointer that reaches no access may have been moved by a number that is not exact.
    let inside = |at: i64| !exact || value.number.contains(at as u64);
    match (value.kind, held) {
        (Kind::Nothing, _) => true,
        (Kind::Number, Held::Number(number)) => !exact || value.number.contains(number),
        (_, Held::Number(0)) if value.or_null => true,
        (Kind::Context, Held::Pointer(Region::Context, at))
        | (Kind::Memory, Held::Pointer(Region::Memory, at)) => inside(at),
        (Kind::Map, Held::Pointer(Region::Map(map), 0)) => map == value.object,
        (Kind::Value, Held::Pointer(Region::Value(map, _), at)) => map == value.object && inside(at),
        (Kind::Stack, Held::Pointer(Region::Stack(frame), at)) => {
            frame == value.object as usize && inside(at)
        }
        (Kind::Bytes, Held::Pointer(Region::Bytes(word), at)) => word == value.object && inside(at),
        (Kind::Record, Held::Pointer(Region::Record(number), at)) => {
            world.records[number].bytes.len() == value.object as usize && inside(at)
        }
        (Kind::Start, Held::Pointer(Region::Text(word), at)) => {
            let len = world.bytes[word as usize].len() as i64;
            let base = at - i64::from(value.since);
            let follows = !exact || value.range < 0 || base + i64::from(value.range) <= len;
            word == value.object && inside(at) && follows
        }
        (Kind::End, Held::Pointer(Region::Text(word), at)) => {
            let len = world.bytes[word as usize].len() as i64;
            word == value.object && inside(at - len) && (!exact || i64::from(value.range) <= len)
        }
        _ => false,
    }
}
