//! Actions.

use super::Verdict;
use crate::diagnostic::{Diagnostic, Kind, Span};
use crate::emit::code::{Code, Stop};
use crate::maps::{Entry, Key, KeyType, bytes};
use crate::session::Emitted;
use crate::syntax::Scope;
use crate::typed::{Action, EmittedField, KeyPlan, KeyValue, Num, NumKind, SpeculationKey, StringSource};
use mote_bpf::Reg;
use mote_bpf::helper::{self, BUCKETS};
use mote_bpf::op::{AtomicOp, Cond, Size};

mod key;

impl Code<'_> {
    /// Does it; when a value that it needs fails, it is left out.
    pub(in crate::emit) fn action(&mut self, action: &Action, verdict: Verdict) -> Result<(), Stop> {
        if !self.is_reachable() {
            return Ok(());
        }
        let after = self.label();
        self.fail = after;
        let mark = self.stack_mark();
        match action {
            Action::Record => {
                if let Verdict::Kept(register) = verdict {
                    self.b.mov(register, self.recorded());
                }
            }
            Action::Count { name, keys } => self.count(name, keys)?,
            Action::Histogram { name, value, keys } => self.histogram(name, value, keys)?,
            Action::Last { name, entries, fields } => self.last(name, *entries, fields)?,
            Action::Set(flag) => self.flag(flag, 1)?,
            Action::Clear(flag) => self.flag(flag, 0)?,
            Action::Emit { event, fields, span } => self.emit(event, fields, *span)?,
            Action::Snapshot if self.is_kernel() => self.ask_for_snapshot()?,
            Action::Snapshot => self.call(helper::SNAPSHOT)?,
            Action::Threshold { syscall, ns } => self.threshold(*syscall, *ns)?,
            Action::OpenKernel { ns, of } => self.open_kernel(*ns, *of)?,
            Action::Speculate(None) => self.call(helper::SPECULATE)?,
            Action::Speculate(Some(key)) => self.call_by(helper::SPECULATE_BY, key)?,
            Action::Commit(None) => self.call(helper::COMMIT)?,
            Action::Commit(Some(key)) => self.call_by(helper::COMMIT_BY, key)?,
            Action::Discard(key) => self.discard(key.as_ref(), verdict)?,
        }
        self.give_back(mark);
        self.bind(after);
        Ok(())
    }

    fn count(&mut self, name: &str, keys: &[KeyPlan]) -> Result<(), Stop> {
        let parts = parts(keys);
        let key_bytes = bytes(&parts);
        let map = self.maps.shared(Entry::count(name, parts));
        if keys.is_empty() {
            let (pointer, one) = (self.alloc()?, self.alloc()?);
            self.b.map_value(pointer.reg, map, 0);
            self.b.mov(one.reg, 1);
            self.b.atomic(AtomicOp::Add, Size::DW, pointer.reg, 0, one.reg);
            self.release(pointer);
            self.release(one);
            return Ok(());
        }
        let at = self.reserve(key_bytes)?;
        self.keys(keys, at)?;
        self.add_one(map, at)
    }

    /// Adds 1 to the value of a key.
    fn add_one(&mut self, map: u32, key: i16) -> Result<(), Stop> {
        if self.is_kernel() {
            return self.kernel_add_one(map, key);
        }
        self.changed(Reg::R1);
        self.b.map(Reg::R1, map);
        self.stack_address(Reg::R2, key);
        self.changed(Reg::R3);
        self.b.mov(Reg::R3, 1);
        self.call(helper::MAP_ADD)
    }

    fn histogram(&mut self, name: &str, value: &KeyPlan, keys: &[KeyPlan]) -> Result<(), Stop> {
        let KeyValue::Number(num) = &value.value else { return Ok(()) };
        let parts = parts(keys);
        let key_bytes = bytes(&parts);
        let of = Key { name: value.name.clone(), ty: value.ty.clone(), offset: 0 };
        let map = self.maps.shared(Entry::histogram(name, of, parts));
        if keys.is_empty() {
            self.place(num)?;
            self.b.lsh(Reg::R0, 3);
            [Reg::R1, Reg::R2].into_iter().for_each(|reg| self.changed(reg));
            self.b.map_value(Reg::R1, map, 0);
            self.b.add(Reg::R1, Reg::R0);
            self.b.mov(Reg::R2, 1);
            self.b.atomic(AtomicOp::Add, Size::DW, Reg::R1, 0, Reg::R2);
            return Ok(());
        }
        let at = self.reserve(key_bytes + 8)?;
        self.keys(keys, at)?;
        self.place(num)?;
        self.b.store(Size::DW, Reg::R10, at + key_bytes as i16, Reg::R0);
        self.add_one(map, at)
    }

    /// The place of a value in a histogram, into `r0`.
    fn place(&mut self, num: &Num) -> Result<(), Stop> {
        let held = self.number(num)?;
        self.changed(Reg::R1);
        self.b.mov(Reg::R1, held.reg);
        self.release(held);
        if num.min >= 0 {
            self.log_linear()?;
            self.b.add(Reg::R0, BUCKETS as i32);
            return Ok(());
        }
        let (natural, end) = (self.label(), self.label());
        self.branch(Cond::SGe, Reg::R1, 0, natural);
        self.b.neg(mote_bpf::op::Width::W64, Reg::R1);
        self.log_linear()?;
        self.changed(Reg::R2);
        self.b.mov(Reg::R2, Reg::R0);
        self.b.mov(Reg::R0, BUCKETS as i32 - 1);
        self.b.sub(Reg::R0, Reg::R2);
        self.jump(end);
        self.bind(natural);
        self.log_linear()?;
        self.b.add(Reg::R0, BUCKETS as i32);
        self.bind(end);
        Ok(())
    }

    /// `r0 =` bucket of `r1`.
    fn log_linear(&mut self) -> Result<(), Stop> {
        if self.is_kernel() { self.kernel_log_linear() } else { self.call(helper::LOG_LINEAR) }
    }

    fn last(&mut self, name: &str, entries: u32, fields: &[KeyPlan]) -> Result<(), Stop> {
        let tid = Num::integer(NumKind::Context(crate::typed::Context::Tid), 32, false);
        let mut all = vec![
            KeyPlan { name: "time".to_owned(), ty: KeyType::Unsigned, value: KeyValue::Event },
            KeyPlan { name: "thread".to_owned(), ty: KeyType::Unsigned, value: KeyValue::Number(tid) },
        ];
        all.extend_from_slice(fields);
        let parts = parts(&all);
        let size = bytes(&parts);
        let map = self.maps.shared(Entry::last(name, entries, parts));
        let at = self.reserve(size)?;
        self.keys(&all[1..], at + 8)?;
        self.call(helper::KTIME_GET_NS)?;
        self.b.store(Size::DW, Reg::R10, at, Reg::R0);
        if self.is_kernel() {
            return self.kernel_keep_last(map, entries, at, size);
        }
        [Reg::R1, Reg::R3].into_iter().for_each(|reg| self.changed(reg));
        self.b.map(Reg::R1, map);
        self.stack_address(Reg::R2, at);
        self.b.mov(Reg::R3, size as i32);
        self.call(helper::KEEP_LAST)
    }

    fn flag(&mut self, flag: &str, value: i32) -> Result<(), Stop> {
        let held = self.alloc()?;
        self.flag_address(held.reg, flag)?;
        self.b.store(Size::DW, held.reg, 0, value);
        self.release(held);
        Ok(())
    }

    fn open_kernel(&mut self, ns: u64, of: Scope) -> Result<(), Stop> {
        [Reg::R1, Reg::R2].into_iter().for_each(|reg| self.changed(reg));
        self.b.constant(Reg::R1, ns);
        self.b.mov(Reg::R2, of as i32);
        self.call(helper::OPEN_KERNEL)
    }

    fn threshold(&mut self, syscall: u32, ns: u64) -> Result<(), Stop> {
        [Reg::R1, Reg::R2].into_iter().for_each(|reg| self.changed(reg));
        self.b.mov(Reg::R1, syscall as i32);
        self.b.constant(Reg::R2, ns);
        self.call(helper::SET_THRESHOLD)
    }

    /// The event itself goes too, if it belongs to what is forgotten.
    fn discard(&mut self, key: Option<&SpeculationKey>, verdict: Verdict) -> Result<(), Stop> {
        match key {
            None => self.call(helper::DISCARD)?,
            Some(key) => self.call_by(helper::DISCARD_BY, key)?,
        }
        if let Verdict::Kept(register) = verdict {
            let none = self.label();
            self.branch(Cond::Eq, Reg::R0, 0, none);
            self.b.mov(register, mote_layout::context::DROP as i32);
            self.bind(none);
        }
        Ok(())
    }

    fn emit(&mut self, event: &Emitted, fields: &[EmittedField], span: Span) -> Result<(), Stop> {
        let id = (self.declare)(event).map_err(|why| {
            let message = format!("event {}:{} cannot be emitted: {why}", event.provider, event.name);
            Stop::Wrong(Box::new(Diagnostic::new(Kind::TooLarge, span, message)))
        })?;
        let size: u32 = fields.iter().map(EmittedField::bytes).sum();
        let base = self.reserve(size.max(8))?;
        let mut at = base;
        let mut string_size = false;
        for field in fields {
            let (held, bytes) = match field {
                EmittedField::Number(num, bytes) => (self.number(num)?, *bytes),
                EmittedField::Float(float) => (self.double(float)?, 8),
                EmittedField::String(string, bytes) => {
                    self.emitted_string(*string, *bytes, at, at - base)?;
                    string_size = true;
                    continue;
                }
            };
            self.b.store(if bytes == 1 { Size::B } else { Size::DW }, Reg::R10, at, held.reg);
            self.release(held);
            at += bytes as i16;
        }
        [Reg::R1, Reg::R2].into_iter().for_each(|reg| self.changed(reg));
        if !string_size {
            self.changed(Reg::R3);
            self.b.mov(Reg::R3, size as i32);
        }
        self.b.mov(Reg::R1, i32::from(id));
        self.stack_address(Reg::R2, base);
        self.call(helper::EMIT)
    }

    /// Writes a string and its NUL to the stack; how many bytes there are then, with those before it, into `r3`.
    fn emitted_string(&mut self, string: StringSource, bytes: u32, at: i16, before: i16) -> Result<(), Stop> {
        let room = bytes as i32 - 1;
        let len = match string {
            StringSource::Field(word) => {
                self.b.store(Size::B, Reg::R10, at + room as i16, 0);
                self.load_string(word);
                self.stack_address(Reg::R3, at);
                self.changed(Reg::R4);
                self.b.mov(Reg::R4, room);
                self.call(helper::TEXT_COPY)?;
                Reg::R0
            }
            StringSource::Executable => {
                self.context_bytes_to(string, at, bytes)?;
                Reg::R0
            }
            StringSource::Comm => {
                self.context_bytes_to(string, at, bytes)?;
                self.comm_length(at, room)?;
                Reg::R0
            }
        };
        let fits = self.label();
        self.branch(Cond::Le, len, room, fits);
        self.b.mov(len, room);
        self.bind(fits);
        self.changed(Reg::R3);
        self.b.mov(Reg::R3, len);
        self.b.add(Reg::R3, 1 + i32::from(before));
        Ok(())
    }

    /// As `context_string_to`, at any place.
    fn context_bytes_to(&mut self, string: StringSource, at: i16, bytes: u32) -> Result<(), Stop> {
        let id = if string == StringSource::Executable {
            helper::GET_EXECUTABLE
        } else {
            helper::GET_CURRENT_COMM
        };
        for byte in 0..bytes as i16 {
            self.b.store(Size::B, Reg::R10, at + byte, 0);
        }
        self.stack_address(Reg::R1, at);
        self.changed(Reg::R2);
        self.b.mov(Reg::R2, bytes as i32);
        self.call(id)
    }

    /// How long the thread's name is, into `r0`.
    fn comm_length(&mut self, at: i16, room: i32) -> Result<(), Stop> {
        let found = self.label();
        [Reg::R0, Reg::R1].into_iter().for_each(|reg| self.changed(reg));
        for len in 0..room {
            self.b.mov(Reg::R0, len);
            self.b.load(Size::B, Reg::R1, Reg::R10, at + len as i16);
            self.branch(Cond::Eq, Reg::R1, 0, found);
        }
        self.b.mov(Reg::R0, room);
        self.bind(found);
        Ok(())
    }
}

impl EmittedField {
    /// Most bytes.
    fn bytes(&self) -> u32 {
        match self {
            EmittedField::Number(_, bytes) | EmittedField::String(_, bytes) => *bytes,
            EmittedField::Float(_) => 8,
        }
    }
}

/// The parts of a key as readers of the map know them.
fn parts(keys: &[KeyPlan]) -> Vec<Key> {
    let mut offset = 0;
    let part = |key: &KeyPlan| {
        let part = Key { name: key.name.clone(), ty: key.ty.clone(), offset };
        offset += key.ty.bytes();
        part
    };
    keys.iter().map(part).collect()
}
