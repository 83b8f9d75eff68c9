//! Reads and writes, each byte of which must be one that may be read or written so.

use super::{Cell, Held, Machine, Ran, Region};
use mote_bpf::Reg;
use mote_bpf::environment::Word;
use mote_bpf::op::AtomicOp;

impl Machine<'_> {
    pub(super) fn pointer(&self, reg: Reg) -> Ran<(Region, i64)> {
        match self.held(reg)? {
            Held::Pointer(region, at) => Ok((region, at)),
            held => Err(format!("{reg} is {held:?}, not a pointer")),
        }
    }

    /// The bytes of a region that is not a stack, and whether they may be written.
    fn region(&mut self, region: Region) -> Ran<(&mut [u8], bool)> {
        let world = &mut *self.world;
        Ok(match region {
            Region::Value(map, entry) => {
                let writable = !self.env.maps[map as usize].read_only;
                (&mut world.values[map as usize][entry as usize], writable)
            }
            Region::Memory => (&mut world.memory, true),
            Region::Bytes(word) | Region::Text(word) => (&mut world.bytes[word as usize], false),
            Region::Record(number) if world.records[number].held => (&mut world.records[number].bytes, true),
            other => return Err(format!("{other:?} is accessed")),
        })
    }

    /// Where bytes lie in a stack, counted from its low end.
    fn place(&self, frame: usize, at: i64, size: usize) -> Ran<usize> {
        let said = self.verified.functions()[self.frames[frame].function].stack_bytes() as i64;
        if at < -said || at + size as i64 > 0 {
            return Err(format!("stack at {at} for {size} bytes, {said} were said"));
        }
        Ok((at + 512) as usize)
    }

    /// Bytes that are numbers.
    pub(super) fn read_bytes(&mut self, region: Region, at: i64, size: usize) -> Ran<Vec<u8>> {
        if let Region::Stack(frame) = region {
            let place = self.place(frame, at, size)?;
            let cells = &self.frames[frame].stack[place..place + size];
            return cells
                .iter()
                .map(|cell| match cell {
                    Cell::Number(byte) => Ok(*byte),
                    cell => Err(format!("{cell:?} is read at {at}")),
                })
                .collect();
        }
        let outside = matches!(region, Region::Text(_) | Region::Bytes(_));
        if outside && self.world.records.iter().any(|record| record.held) {
            return Err("a read that can fault while a record is held".into());
        }
        let (bytes, _) = self.region(region)?;
        let range = usize::try_from(at).ok().and_then(|at| bytes.get(at..at.checked_add(size)?));
        range
            .map(<[u8]>::to_vec)
            .ok_or(format!("{size} bytes at {at} of {region:?}, which has {}", bytes.len()))
    }

    pub(super) fn write_bytes(&mut self, region: Region, at: i64, new: &[u8]) -> Ran {
        if let Region::Stack(frame) = region {
            let place = self.place(frame, at, new.len())?;
            for (cell, byte) in self.frames[frame].stack[place..].iter_mut().zip(new) {
                *cell = Cell::Number(*byte);
            }
            return Ok(());
        }
        let (bytes, writable) = self.region(region)?;
        if !writable {
            return Err(format!("{region:?} is written"));
        }
        let have = bytes.len();
        let range = usize::try_from(at).ok().and_then(|at| bytes.get_mut(at..at.checked_add(new.len())?));
        range
            .ok_or(format!("{} bytes at {at} of {region:?}, which has {have}", new.len()))?
            .copy_from_slice(new);
        Ok(())
    }

    pub(super) fn load(&mut self, src: Reg, off: i16, size: usize, signed: bool) -> Ran<Held> {
        let (region, at) = self.pointer(src)?;
        let at = at.wrapping_add(off.into());
        match region {
            Region::Context => return self.load_context(at, size, signed),
            Region::Stack(frame) if size == 8 => {
                let place = self.place(frame, at, 8)?;
                if let Cell::Pointer(region, pointer_at, 0) = self.frames[frame].stack[place] {
                    let whole = (0..8).all(|byte| {
                        self.frames[frame].stack[place + usize::from(byte)]
                            == Cell::Pointer(region, pointer_at, byte)
                    });
                    return if whole {
                        Ok(Held::Pointer(region, pointer_at))
                    } else {
                        Err("half a pointer".into())
                    };
                }
            }
            _ => {}
        }
        let mut bytes = [0; 8];
        bytes[..size].copy_from_slice(&self.read_bytes(region, at, size)?);
        Ok(Held::Number(extend(u64::from_le_bytes(bytes), size, signed)))
    }

    fn load_context(&mut self, at: i64, size: usize, signed: bool) -> Ran<Held> {
        let words = self.env.entry.words();
        let (index, inside) = ((at / 8) as usize, (at % 8) as usize);
        if at < 0 || index >= words.len() || inside + size > 8 {
            return Err(format!("context at {at}"));
        }
        let whole = size == 8;
        let word = index as u32;
        Ok(match words[index] {
            Word::Number { .. } => {
                let part = self.world.numbers[index] >> (8 * inside);
                let part = if whole { part } else { part & ((1 << (8 * size)) - 1) };
                Held::Number(extend(part, size, signed))
            }
            Word::Start if whole => Held::Pointer(Region::Text(word), 0),
            Word::End if whole => {
                Held::Pointer(Region::Text(word - 1), self.world.bytes[index - 1].len() as i64)
            }
            Word::Bytes(_) if whole => Held::Pointer(Region::Bytes(word), 0),
            _ => return Err("part of a pointer".into()),
        })
    }

    pub(super) fn store(&mut self, dst: Reg, off: i16, size: usize, held: Held) -> Ran {
        let (region, at) = self.pointer(dst)?;
        let at = at.wrapping_add(off.into());
        match (held, region) {
            (Held::Number(number), _) => self.write_bytes(region, at, &number.to_le_bytes()[..size]),
            (Held::Pointer(to, pointer_at), Region::Stack(frame)) if size == 8 && at % 8 == 0 => {
                let place = self.place(frame, at, 8)?;
                for byte in 0..8 {
                    self.frames[frame].stack[place + usize::from(byte)] = Cell::Pointer(to, pointer_at, byte);
                }
                Ok(())
            }
            (held, _) => Err(format!("{held:?} is stored at {region:?} {at}")),
        }
    }

    pub(super) fn atomic(&mut self, op: AtomicOp, base: Reg, off: i16, size: usize, reg: Reg) -> Ran {
        let (region, at) = self.pointer(base)?;
        let at = at.wrapping_add(off.into());
        if at % size as i64 != 0 {
            return Err(format!("atomic operation at {at}"));
        }
        if matches!(region, Region::Text(_) | Region::Bytes(_)) {
            return Err("atomic operation on the context's memory".into());
        }
        let operand = if op == AtomicOp::LoadAcquire { 0 } else { self.number(reg)? };
        if op == AtomicOp::StoreRelease {
            return self.write_bytes(region, at, &operand.to_le_bytes()[..size]);
        }
        let mut bytes = [0; 8];
        bytes[..size].copy_from_slice(&self.read_bytes(region, at, size)?);
        let old = u64::from_le_bytes(bytes);
        let new = match op {
            AtomicOp::Add | AtomicOp::FetchAdd => old.wrapping_add(operand),
            AtomicOp::Or | AtomicOp::FetchOr => old | operand,
            AtomicOp::And | AtomicOp::FetchAnd => old & operand,
            AtomicOp::Xor | AtomicOp::FetchXor => old ^ operand,
            AtomicOp::CmpXchg if extend(self.number(Reg::R0)?, size, false) != old => old,
            AtomicOp::Xchg | AtomicOp::CmpXchg | AtomicOp::StoreRelease => operand,
            AtomicOp::LoadAcquire => {
                self.set(reg, Held::Number(old));
                return Ok(());
            }
        };
        self.write_bytes(region, at, &new.to_le_bytes()[..size])?;
        match op {
            AtomicOp::Add | AtomicOp::Or | AtomicOp::And | AtomicOp::Xor => {}
            AtomicOp::CmpXchg => self.set(Reg::R0, Held::Number(old)),
            _ => self.set(reg, Held::Number(old)),
        }
        Ok(())
    }
}

fn extend(number: u64, size: usize, signed: bool) -> u64 {
    let shift = 64 - 8 * size as u32;
    if signed { ((number << shift) as i64 >> shift) as u64 } else { number << shift >> shift }
}
