//! Keys and fields, put together on the stack.

use crate::emit::code::{Code, Stop};
use crate::target::{COMM_BYTES, ContextWord};
use crate::typed::{KeyPlan, KeyValue, StringSource};
use mote_builder::{Build, Expr, Local};

impl Code<'_> {
    /// Writes keys one after another to the stack.
    pub(in crate::emit) fn keys(&mut self, keys: &[KeyPlan], mut at: i16) -> Result<(), Stop> {
        for key in keys {
            self.key(key, at)?;
            at += key.ty.bytes() as i16;
        }
        Ok(())
    }

    fn key(&mut self, key: &KeyPlan, at: i16) -> Result<(), Stop> {
        let held = match &key.value {
            KeyValue::Number(num) => self.number(num)?,
            KeyValue::Float(float) => self.double(float)?,
            KeyValue::Event => {
                let number = self.maps.event_number(&self.plan.event);
                let event: Expr = if self.is_kernel() {
                    self.given(ContextWord::Event(number as u32)).into()
                } else {
                    number.into()
                };
                self.put(Local::<u64>::at(at), event);
                return Ok(());
            }
            KeyValue::String(string, bytes) => {
                return self.string_to(*string, *bytes, key.ty.bytes(), at);
            }
        };
        self.with(held, |code, value| code.put(Local::<u64>::at(at), value));
        Ok(())
    }

    /// The first `bytes` of a string into a space, zeros behind.
    fn string_to(&mut self, string: StringSource, bytes: u32, space: u32, at: i16) -> Result<(), Stop> {
        let StringSource::Field(word) = string else {
            if string == StringSource::Comm && bytes < COMM_BYTES {
                return self.short_comm(bytes, at);
            }
            // What is cut off is cut off: a path ends with a NUL all the same.
            return self.context_string_to(string, at, space);
        };
        if self.is_kernel() {
            return self.kernel_string_to(word, bytes, space, at);
        }
        if bytes < space {
            self.put(Local::<u64>::at(at + space as i16 - 8), 0);
        }
        self.copy_string(word, at, bytes).map(drop)
    }

    /// Less of the thread's name than all.
    fn short_comm(&mut self, bytes: u32, at: i16) -> Result<(), Stop> {
        let mark = self.stack_mark();
        let whole = self.reserve(COMM_BYTES)?;
        self.context_string_to(StringSource::Comm, whole, COMM_BYTES)?;
        for from in (0..bytes).step_by(8) {
            let left = bytes - from;
            let word: Expr = Local::<u64>::at(whole + from as i16).into();
            let word = if left < 8 { word & ((1u64 << (left * 8)) - 1) } else { word };
            self.put(Local::<u64>::at(at + from as i16), word);
        }
        self.give_back(mark);
        Ok(())
    }
}
