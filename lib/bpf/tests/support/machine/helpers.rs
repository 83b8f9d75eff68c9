//! Calls of helpers: every argument must be what the signature says, and the result may be anything that it says.

use super::world::Record;
use super::{Held, Machine, Ran, Region};
use mote_bpf::helper::{self, Arg, Returns};
use mote_bpf::{MapKind, MapShape, Reg};

const ARGUMENTS: [Reg; 5] = [Reg::R1, Reg::R2, Reg::R3, Reg::R4, Reg::R5];

impl Machine<'_> {
    /// Whether the program goes on.
    pub(super) fn call(&mut self, id: u32) -> Ran<bool> {
        let helper = self.env.helper(id).ok_or("there is no such helper")?;
        let (mut map, mut record) = (None, None);
        for (number, (reg, arg)) in ARGUMENTS.into_iter().zip(helper.args).enumerate() {
            match arg {
                Arg::Map | Arg::MapOf(_) => {
                    let (Region::Map(index), 0) = self.pointer(reg)? else { return Err("no map".into()) };
                    map = Some(index);
                }
                Arg::Key | Arg::Value => {
                    let shape = self.env.maps[map.ok_or("no map")? as usize];
                    self.key_or_value(reg, arg, &shape)?;
                }
                Arg::Size | Arg::SizeOrZero => {
                    self.size(reg, arg, helper.args[number - 1], ARGUMENTS[number - 1])?;
                }
                Arg::Start => self.text(reg, ARGUMENTS[number + 1])?,
                Arg::Record => {
                    let (Region::Record(number), 0) = self.pointer(reg)? else {
                        return Err("no record".into());
                    };
                    record = Some(number);
                }
                _ => self.simple(reg, arg)?,
            }
        }
        if let Some(number) = record
            && !std::mem::take(&mut self.world.records[number].held)
        {
            return Err("a record is given back twice".into());
        }
        let size = self.frames.last().map(|frame| frame.registers[2]);
        self.top().registers[..=5].fill(Held::Nothing);
        if id == helper::TAIL_CALL && self.random.chance(2) {
            let held = self.world.records.iter().any(|record| record.held);
            return if held || self.frames.len() > 1 { Err("tail call".into()) } else { Ok(false) };
        }
        let answer = self.answer(helper.returns, map, size)?;
        self.set(Reg::R0, answer);
        Ok(true)
    }

    /// Arguments that stand alone.
    fn simple(&mut self, reg: Reg, arg: Arg) -> Ran {
        match arg {
            Arg::Number => self.number(reg).map(drop),
            Arg::Readable | Arg::Writable => self.held(reg).map(drop),
            Arg::Context => match self.pointer(reg)? {
                (Region::Context | Region::Memory, 0) => Ok(()),
                _ => Err("no context".into()),
            },
            Arg::Constant => {
                let (Region::Value(map, _), at) = self.pointer(reg)? else {
                    return Err("no constant".into());
                };
                let shape = self.env.maps[map as usize];
                let constant = shape.read_only && shape.kind == MapKind::Array;
                let inside = at >= 0 && at < shape.value_bytes.into();
                if constant && inside { Ok(()) } else { Err(format!("constant at {at}")) }
            }
            _ => Ok(()),
        }
    }

    fn key_or_value(&mut self, reg: Reg, arg: Arg, shape: &MapShape) -> Ran {
        let size = if arg == Arg::Key { shape.key_bytes } else { shape.value_bytes };
        let (region, at) = self.pointer(reg)?;
        self.read_bytes(region, at, size as usize).map(drop)
    }

    fn text(&mut self, start: Reg, end: Reg) -> Ran {
        let (Region::Text(word), at) = self.pointer(start)? else { return Err("no text".into()) };
        let len = self.world.bytes[word as usize].len() as i64;
        match self.pointer(end)? {
            (Region::Text(other), end) if other == word && end == len && at >= 0 && at <= len => Ok(()),
            other => Err(format!("text from {at} to {other:?} of {len}")),
        }
    }

    fn answer(&mut self, returns: Returns, map: Option<u32>, size: Option<Held>) -> Ran<Held> {
        Ok(match returns {
            Returns::Number => Held::Number(self.random.number()),
            Returns::UpTo(most) => Held::Number(match most.checked_add(1) {
                Some(end) => self.random.number() % end,
                None => self.random.number(),
            }),
            Returns::Nothing => Held::Nothing,
            Returns::ValueOrNull | Returns::RecordOrNull if self.random.chance(3) => Held::Number(0),
            Returns::ValueOrNull => {
                let map = map.ok_or("no map")?;
                let entry = self.random.below(self.world.values[map as usize].len() as u64);
                Held::Pointer(Region::Value(map, entry as u32), 0)
            }
            Returns::RecordOrNull => {
                let Some(Held::Number(size)) = size else { return Err("no size".into()) };
                self.world.records.push(Record { bytes: vec![0; size as usize], held: true });
                Held::Pointer(Region::Record(self.world.records.len() - 1), 0)
            }
        })
    }

    fn size(&mut self, reg: Reg, arg: Arg, what: Arg, pointer: Reg) -> Ran {
        let size = self.number(reg)?;
        if size == 0 && arg == Arg::SizeOrZero {
            return Ok(());
        }
        if size == 0 || size > 1 << 20 {
            return Err(format!("size {size}"));
        }
        let (region, at) = self.pointer(pointer)?;
        if what == Arg::Writable {
            let bytes: Vec<u8> = (0..size).map(|_| self.random.number() as u8).collect();
            self.write_bytes(region, at, &bytes)
        } else {
            self.read_bytes(region, at, size as usize).map(drop)
        }
    }
}
