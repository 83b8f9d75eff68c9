//! Calls of helpers and of functions, and their ends.

use super::access::Access;
use super::rejection::Reason;
use super::scalar::Scalar;
use super::state::RECORDS_MAX;
use super::value::{Kind, Value};
use super::walk::{Checked, Flow, Walk};
use crate::environment::{Entry, FRAMES_MAX, STACK_BYTES};
use crate::helper::{self, Arg, Helper, Returns};
use crate::insn::Reg;
use crate::map::{MapKind, MapShape};

/// Registers of arguments.
const ARGUMENTS: [Reg; 5] = [Reg::R1, Reg::R2, Reg::R3, Reg::R4, Reg::R5];

/// What was found of a helper's arguments so far.
#[derive(Default)]
struct Found {
    /// The map, with its index.
    map: Option<(u32, MapShape)>,
    /// The record that is given back.
    record: Option<u32>,
    /// Size of the record that is asked for.
    size: u32,
}

impl Walk<'_, '_> {
    pub(super) fn call(&mut self, id: u32) -> Checked {
        let Some(helper) = self.env.helper(id) else { return Err(self.refuse(Reason::Helper(id))) };
        if id == helper::TAIL_CALL {
            if self.state.top > 0 {
                return Err(self.refuse(Reason::TailCall));
            }
            if let Entry::Traced { .. } = self.env.entry {
                return Err(self.refuse(Reason::TailCallWithState));
            }
            if self.state.record_count > 0 {
                return Err(self.refuse(Reason::RecordHeld));
            }
            self.facts.tail_calls = true;
        }
        let mut found = Found::default();
        let mut before = None;
        for (reg, arg) in ARGUMENTS.into_iter().zip(helper.args) {
            self.argument(helper, reg, arg, before, &mut found)?;
            before = Some((reg, arg));
        }
        self.record_size(helper, &mut found)?;
        if let Some(record) = found.record {
            self.give_back(record);
        }
        for reg in ARGUMENTS {
            self.state.set(reg, Value::NOTHING);
        }
        let result = self.result(helper, &found)?;
        self.state.set(Reg::R0, result);
        Ok(())
    }

    fn argument(
        &mut self,
        helper: &Helper,
        reg: Reg,
        arg: Arg,
        before: Option<(Reg, Arg)>,
        found: &mut Found,
    ) -> Checked {
        if arg == Arg::None {
            return Ok(());
        }
        let value = self.read(reg)?;
        let map = found.map.map(|(_, shape)| shape);
        match arg {
            Arg::None => Ok(()),
            Arg::Number => self.read_number(reg).map(|_| ()),
            Arg::Map => self.map_argument(helper, reg, &value, None, found),
            Arg::MapOf(kind) => self.map_argument(helper, reg, &value, Some(kind), found),
            Arg::Key => self.bytes(reg, &value, map.map_or(0, |map| map.key_bytes), Access::Read),
            Arg::Value => self.bytes(reg, &value, map.map_or(0, |map| map.value_bytes), Access::Read),
            Arg::Readable | Arg::Writable if value.is_pointer() || may_be_null(helper, reg, &value) => Ok(()),
            Arg::Readable | Arg::Writable => Err(self.refuse_reg(reg, Reason::NeedsPointer)),
            Arg::Constant => self.constant(reg, &value),
            Arg::Size | Arg::SizeOrZero => self.size(reg, arg, before),
            Arg::Start => self.text_start(reg, &value),
            Arg::End => self.text_end(reg, &value, before),
            Arg::Context => {
                let whole = matches!(value.kind, Kind::Context | Kind::Memory);
                if whole && value.number.as_constant() == Some(0) {
                    Ok(())
                } else {
                    Err(self.refuse_reg(reg, Reason::Moved))
                }
            }
            Arg::Record => {
                if value.kind != Kind::Record {
                    return Err(self.refuse_reg(reg, Reason::NeedsPointer));
                }
                if value.or_null {
                    return Err(self.refuse_reg(reg, Reason::MayBeNull));
                }
                if value.number.as_constant() != Some(0) {
                    return Err(self.refuse_reg(reg, Reason::Moved));
                }
                found.record = Some(value.id);
                Ok(())
            }
        }
    }

    /// A map; of those that are read-only only values are looked up.
    fn map_argument(
        &mut self,
        helper: &Helper,
        reg: Reg,
        value: &Value,
        kind: Option<MapKind>,
        found: &mut Found,
    ) -> Checked {
        if value.kind != Kind::Map {
            return Err(self.refuse_reg(reg, Reason::WrongMap));
        }
        let shape = *self.map(value.object)?;
        let fits = match kind {
            Some(kind) => shape.kind == kind,
            None => !matches!(shape.kind, MapKind::RingBuffer | MapKind::Programs),
        };
        let writes = helper.returns != Returns::ValueOrNull && !matches!(shape.kind, MapKind::Programs);
        // These take the first 8 bytes of a value as a number.
        let counts = matches!(helper.id, helper::MAP_ADD | helper::KEEP_LAST);
        if !fits || (writes && shape.read_only) || (counts && shape.value_bytes < 8) {
            return Err(self.refuse_reg(reg, Reason::WrongMap));
        }
        found.map = Some((value.object, shape));
        Ok(())
    }

    /// So many bytes behind a pointer.
    fn bytes(&mut self, reg: Reg, value: &Value, bytes: u32, access: Access) -> Checked {
        self.bytes_between(reg, value, bytes.into(), bytes.into(), access)
    }

    /// At least `least` and at most `most` bytes behind a pointer.
    fn bytes_between(&mut self, reg: Reg, value: &Value, least: u64, most: u64, access: Access) -> Checked {
        if value.kind != Kind::Stack {
            return self.check_range(reg, 0, most, access);
        }
        if most > STACK_BYTES as u64 {
            let wide = value.number.wide;
            let max = wide.smax.saturating_add_unsigned(most);
            let why = Reason::Outside { min: wide.smin, max, have: STACK_BYTES as u32 };
            return Err(self.refuse_reg(reg, why));
        }
        self.span_of_helper(reg, value, least as usize, most as usize, access)
    }

    /// A size, and the bytes of the argument before it.
    fn size(&mut self, reg: Reg, arg: Arg, before: Option<(Reg, Arg)>) -> Checked {
        let wide = self.read_number(reg)?.wide;
        let least = if arg == Arg::Size { 1 } else { 0 };
        if wide.smin < least || wide.smax > i32::MAX.into() {
            return Err(self.refuse_reg(reg, Reason::Size));
        }
        let Some((pointer, what)) = before else { return Err(self.refuse_reg(reg, Reason::Size)) };
        let access = if what == Arg::Writable { Access::Write } else { Access::Read };
        let value = self.read(pointer)?;
        if wide.umax == 0 {
            return Ok(());
        }
        if value.or_null {
            return Err(self.refuse_reg(pointer, Reason::MayBeNull));
        }
        if !value.is_pointer() {
            return Err(self.refuse_reg(pointer, Reason::NeedsPointer));
        }
        self.bytes_between(pointer, &value, wide.umin, wide.umax, access)
    }

    /// Read-only memory in which a NUL is certain: there is one behind every read-only array.
    fn constant(&mut self, reg: Reg, value: &Value) -> Checked {
        let constant = value.kind == Kind::Value && {
            let shape = self.map(value.object)?;
            shape.read_only && shape.kind == MapKind::Array
        };
        if !constant {
            return Err(self.refuse_reg(reg, Reason::NeedsConstant));
        }
        self.check_range(reg, 0, 1, Access::Read)
    }

    /// A place in a text, or its end.
    fn text_start(&mut self, reg: Reg, value: &Value) -> Checked {
        let known =
            value.kind == Kind::Start && value.range >= value.since.max(0) && value.number.wide.smin >= 0;
        if !known {
            return Err(self.refuse_reg(reg, Reason::NeedsText));
        }
        self.reads_outside(reg)
    }

    /// The end of the text that the argument before points into.
    fn text_end(&mut self, reg: Reg, value: &Value, before: Option<(Reg, Arg)>) -> Checked {
        let start = before.map(|(start, _)| self.state.register(start).object);
        let fits =
            value.kind == Kind::End && value.number.as_constant() == Some(0) && Some(value.object) == start;
        if fits { Ok(()) } else { Err(self.refuse_reg(reg, Reason::NeedsEnd)) }
    }

    /// The constant size of a record that is asked for.
    fn record_size(&mut self, helper: &Helper, found: &mut Found) -> Checked {
        if helper.returns != Returns::RecordOrNull {
            return Ok(());
        }
        let size = self.read_number(Reg::R2)?.as_constant();
        let most = found.map.map_or(0, |(_, shape)| shape.entries);
        match size {
            Some(size) if size > 0 && size < most.into() => {
                found.size = size as u32;
                Ok(())
            }
            _ => Err(self.refuse_reg(Reg::R2, Reason::RecordSize)),
        }
    }

    fn give_back(&mut self, record: u32) {
        self.state.drop_record(record);
        self.state.for_each(|value| {
            if value.kind == Kind::Record && value.id == record {
                *value = Value::NOTHING;
            }
        });
    }

    fn result(&mut self, helper: &Helper, found: &Found) -> Checked<Value> {
        Ok(match helper.returns {
            Returns::Number => Value::number(Scalar::UNKNOWN),
            Returns::UpTo(most) => Value::number(Scalar::between(0, most)),
            Returns::Nothing => Value::NOTHING,
            Returns::ValueOrNull => {
                let Some((map, _)) = found.map else { return Err(self.refuse(Reason::WrongMap)) };
                Value { or_null: true, id: self.new_id(), ..Value::pointer(Kind::Value, map) }
            }
            Returns::RecordOrNull => {
                let id = self.new_id();
                if self.state.record_count == RECORDS_MAX {
                    return Err(self.refuse(Reason::Records));
                }
                self.state.records[self.state.record_count] = id;
                self.state.record_count += 1;
                Value { or_null: true, id, ..Value::pointer(Kind::Record, found.size) }
            }
        })
    }

    /// Enters a function.
    pub(super) fn call_local(&mut self, offset: i32) -> Checked<usize> {
        let target = (self.pc as i64 + 1 + i64::from(offset)) as usize;
        let Some(function) = self.functions.at(target) else {
            return Err(self.refuse(Reason::JumpOutside(target as i64)));
        };
        let top = self.state.top;
        let running = self.state.running().iter().any(|frame| frame.function as usize == function);
        if running {
            return Err(self.refuse(Reason::Recursion));
        }
        if top + 1 == FRAMES_MAX {
            return Err(self.refuse(Reason::Frames));
        }
        let arguments = ARGUMENTS.map(|reg| *self.state.register(reg));
        for reg in ARGUMENTS.into_iter().chain([Reg::R0]) {
            self.state.set(reg, Value::NOTHING);
        }
        self.state.top += 1;
        self.state.frame_mut().enter(top as u32 + 1, function as u32, self.pc as u32 + 1);
        for (reg, argument) in ARGUMENTS.into_iter().zip(arguments) {
            self.state.set(reg, argument);
        }
        self.facts.depth = self.facts.depth.max(top + 2);
        Ok(target)
    }

    /// Leaves a function, or ends the path.
    pub(super) fn exit(&mut self) -> Checked<Flow> {
        let result = *self.state.register(Reg::R0);
        let top = self.state.top;
        if top > 0 {
            if result.kind == Kind::Stack && result.object as usize == top {
                return Err(self.refuse_reg(Reg::R0, Reason::StackEscapes));
            }
            let back = self.state.frame().back as usize;
            self.state.top -= 1;
            self.state.set(Reg::R0, result);
            return Ok(Flow::At(back));
        }
        let value = self.read(Reg::R0)?;
        if value.is_pointer() {
            return Err(self.refuse_reg(Reg::R0, Reason::PointerLeak));
        }
        if self.state.record_count > 0 {
            return Err(self.refuse(Reason::RecordHeld));
        }
        Ok(Flow::End)
    }
}

/// Whether this argument may be null: the next one says how many bytes there are, which may be 0.
fn may_be_null(helper: &Helper, reg: Reg, value: &Value) -> bool {
    helper.args.get(reg.index()) == Some(&Arg::SizeOrZero) && value.number.as_constant() == Some(0)
}
