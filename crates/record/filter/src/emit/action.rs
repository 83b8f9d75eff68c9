//! Actions.

use crate::diagnostic::{Diagnostic, Kind, Span};
use crate::emit::code::{Code, Stop};
use crate::maps::{Entry, Key, KeyType, bytes};
use crate::session::Emitted;
use crate::typed::{Action, EmittedField, KeyPlan, KeyValue, Num, NumKind, SpeculationKey, StringSource};
use mote_bpf::helper::{self, BUCKETS};
use mote_builder::{Build, Expr, Local, Value, map, map_value};
use mote_layout::context;
use mote_layout::packet_requests::PROFILE;
use mote_layout::tracer;

mod key;
mod packets;

impl Code<'_> {
    /// Does it; when a value that it needs fails, it is left out.
    pub(in crate::emit) fn action(&mut self, action: &Action) -> Result<(), Stop> {
        if !self.is_reachable() {
            return Ok(());
        }
        let after = self.label();
        self.fail = after;
        let mark = self.stack_mark();
        match action {
            Action::Record => self.set_verdict(self.recorded()),
            Action::Count { name, keys } => self.count(name, keys)?,
            Action::Histogram { name, value, keys } => self.histogram(name, value, keys)?,
            Action::Last { name, entries, fields } => self.last(name, *entries, fields)?,
            Action::Set(flag) => self.flag(flag, 1)?,
            Action::Clear(flag) => self.flag(flag, 0)?,
            Action::Emit { event, fields, span } => self.emit(event, fields, *span)?,
            Action::Snapshot if self.is_kernel() => self.ask_for_snapshot()?,
            Action::Snapshot => self.call_only(tracer::SNAPSHOT, ())?,
            Action::SnapshotPackets { ns } => self.request(*ns)?,
            Action::Profile { ns } => self.request(ns | PROFILE)?,
            Action::SampleFunctions { pattern, ns } => self.request_functions(pattern, *ns)?,
            Action::Threshold { syscall, ns } => self.call_only(tracer::SET_THRESHOLD, (*syscall, *ns))?,
            Action::OpenKernel { ns, of } => self.call_only(tracer::OPEN_KERNEL, (*ns, *of as i32))?,
            Action::Speculate(None) => self.call_only(tracer::SPECULATE, ())?,
            Action::Speculate(Some(key)) => self.call_by(tracer::SPECULATE_BY, key).map(drop)?,
            Action::Commit(None) => self.call_only(tracer::COMMIT, ())?,
            Action::Commit(Some(key)) => self.call_by(tracer::COMMIT_BY, key).map(drop)?,
            Action::Discard(key) => self.discard(key.as_ref())?,
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
            self.add_atomically(map_value(map, 0).place::<u64>(), 1);
            return Ok(());
        }
        let at = self.reserve(key_bytes)?;
        self.keys(keys, at)?;
        self.add_one(map, at)
    }

    /// Adds 1 to the value of a key.
    fn add_one(&mut self, of: u32, key: i16) -> Result<(), Stop> {
        if self.is_kernel() {
            return self.kernel_add_one(of, key);
        }
        self.call_only(helper::MAP_ADD, (map(of), Local::<u64>::at(key).address(), 1))
    }

    fn histogram(&mut self, name: &str, value: &KeyPlan, keys: &[KeyPlan]) -> Result<(), Stop> {
        let KeyValue::Number(num) = &value.value else { return Ok(()) };
        let parts = parts(keys);
        let key_bytes = bytes(&parts);
        let of = Key { name: value.name.clone(), ty: value.ty.clone(), offset: 0 };
        let map = self.maps.shared(Entry::histogram(name, of, parts));
        if keys.is_empty() {
            let place = self.place(num)?;
            self.add_atomically((map_value(map, 0) + (place << 3)).place::<u64>(), 1);
            return Ok(());
        }
        let at = self.reserve(key_bytes + 8)?;
        self.keys(keys, at)?;
        let place = self.place(num)?;
        self.put(Local::<u64>::at(at + key_bytes as i16), place);
        self.add_one(map, at)
    }

    /// The place of a value in a histogram.
    fn place(&mut self, num: &Num) -> Result<Value, Stop> {
        let held = self.number(num)?;
        self.with(held, |code, value| match num.min {
            0.. => {
                let bucket = code.log_linear(value)?;
                Ok(code.get(bucket + BUCKETS))
            }
            _ => code.signed_place(value),
        })
    }

    /// The same of a value that may be negative.
    fn signed_place(&mut self, value: &Value) -> Result<Value, Stop> {
        let (negative, end) = (self.label(), self.label());
        self.jump_if(value.slt(0), negative);
        let bucket = self.log_linear(value)?;
        let place = self.get(bucket + BUCKETS);
        self.jump(end);
        self.bind(negative);
        let bucket = self.log_linear(-value)?;
        self.set(&place, -bucket + (BUCKETS - 1));
        self.bind(end);
        Ok(place)
    }

    fn log_linear(&mut self, value: impl Into<Expr>) -> Result<Value, Stop> {
        if self.is_kernel() {
            Ok(self.kernel_log_linear(value))
        } else {
            self.call_with(helper::LOG_LINEAR, (value,))
        }
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
        let of = self.maps.shared(Entry::last(name, entries, parts));
        let at = self.reserve(size)?;
        self.keys(&all[1..], at + 8)?;
        let now = self.call_with(helper::KTIME_GET_NS, ())?;
        let time = Local::<u64>::at(at);
        self.put(time, now);
        if self.is_kernel() {
            return self.kernel_keep_last(of, entries, at, size);
        }
        self.call_only(helper::KEEP_LAST, (map(of), time.address(), size))
    }

    fn flag(&mut self, flag: &str, value: i32) -> Result<(), Stop> {
        let word = self.flag_word(flag)?;
        self.put(word, value);
        Ok(())
    }

    /// The event itself goes too, if it belongs to what is forgotten.
    fn discard(&mut self, key: Option<&SpeculationKey>) -> Result<(), Stop> {
        let discarded = match key {
            None => self.call_with(tracer::DISCARD, ())?,
            Some(key) => self.call_by(tracer::DISCARD_BY, key)?,
        };
        if self.verdict.is_some() {
            self.when(discarded.ne(0), |code| code.set_verdict(context::DROP));
        }
        Ok(())
    }

    fn emit(&mut self, event: &Emitted, fields: &[EmittedField], span: Span) -> Result<(), Stop> {
        let id = (self.declare)(event).map_err(|why| {
            let message = format!("event {}:{} cannot be emitted: {why}", event.provider, event.name);
            Stop::Wrong(Box::new(Diagnostic::new(Kind::TooLarge, span, message)))
        })?;
        let most: u32 = fields.iter().map(EmittedField::bytes).sum();
        let base = self.reserve(most.max(8))?;
        let mut at = base;
        let mut size = Expr::from(most);
        for field in fields {
            let (held, bytes) = match field {
                EmittedField::Number(num, bytes) => (self.number(num)?, *bytes),
                EmittedField::Float(float) => (self.double(float)?, 8),
                EmittedField::String(string, bytes) => {
                    size = self.emitted_string(*string, *bytes, at, at - base)?.into();
                    continue;
                }
            };
            self.with(held, |code, value| match bytes {
                1 => code.put(Local::<u8>::at(at), value),
                _ => code.put(Local::<u64>::at(at), value),
            });
            at += bytes as i16;
        }
        self.call_only(tracer::EMIT, (id, Local::<u64>::at(base).address(), size))
    }

    /// Writes a string and its NUL to the stack; returns how many bytes there are then, with those before it.
    fn emitted_string(
        &mut self,
        string: StringSource,
        bytes: u32,
        at: i16,
        before: i16,
    ) -> Result<Value, Stop> {
        let room = bytes - 1;
        let len = match string {
            StringSource::Field(word) => {
                self.put(Local::<u8>::at(at + room as i16), 0);
                self.copy_string(word, at, room)?
            }
            StringSource::Executable => self.context_bytes_to(string, at, bytes)?,
            StringSource::Comm => {
                drop(self.context_bytes_to(string, at, bytes)?);
                self.comm_length(at, room)
            }
        };
        self.when(len.gt(room), |code| code.set(&len, room));
        Ok(self.get(len + (1 + i32::from(before))))
    }

    /// Copies at most so many bytes of a string to the stack; returns how many it has.
    pub(in crate::emit) fn copy_string(&mut self, word: u16, at: i16, bytes: u32) -> Result<Value, Stop> {
        let (start, end) = (self.event_word(word), self.event_word(word + 1));
        self.call_with(helper::TEXT_COPY, (start, end, Local::<u8>::at(at).address(), bytes))
    }

    /// As `context_string_to`, at any place.
    fn context_bytes_to(&mut self, string: StringSource, at: i16, bytes: u32) -> Result<Value, Stop> {
        let id = if string == StringSource::Executable {
            tracer::GET_EXECUTABLE
        } else {
            helper::GET_CURRENT_COMM
        };
        for byte in 0..bytes as i16 {
            self.put(Local::<u8>::at(at + byte), 0);
        }
        self.call_with(id, (Local::<u8>::at(at).address(), bytes))
    }

    /// How long the thread's name is.
    fn comm_length(&mut self, at: i16, room: u32) -> Value {
        let found_at = self.scratch();
        self.block(|code, found| {
            for len in 0..room {
                code.set(&found_at, len);
                code.jump_if(Local::<u8>::at(at + len as i16).eq(0), found);
            }
            code.set(&found_at, room);
        });
        found_at
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
