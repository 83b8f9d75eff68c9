//! Keys and fields, put together on the stack.

use crate::emit::code::{Code, Stop};
use crate::target::{COMM_BYTES, ContextWord};
use crate::typed::{KeyPlan, KeyValue, StringSource};
use mote_bpf::Reg;
use mote_bpf::helper;
use mote_bpf::op::Size;

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
        match &key.value {
            KeyValue::Number(num) => {
                let held = self.number(num)?;
                self.b.store(Size::DW, Reg::R10, at, held.reg);
                self.release(held);
            }
            KeyValue::Float(float) => {
                let held = self.double(float)?;
                self.b.store(Size::DW, Reg::R10, at, held.reg);
                self.release(held);
            }
            KeyValue::Event => {
                let number = self.maps.event_number(&self.plan.event);
                let held = self.alloc()?;
                if self.is_kernel() {
                    self.load_context(held.reg, ContextWord::Event(number as u32));
                } else {
                    self.b.constant(held.reg, number);
                }
                self.b.store(Size::DW, Reg::R10, at, held.reg);
                self.release(held);
            }
            KeyValue::String(string, bytes) => self.string_to(*string, *bytes, key.ty.bytes(), at)?,
        }
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
            self.b.store(Size::DW, Reg::R10, at + space as i16 - 8, 0);
        }
        self.load_string(word);
        self.stack_address(Reg::R3, at);
        self.changed(Reg::R4);
        self.b.mov(Reg::R4, bytes as i32);
        self.call(helper::TEXT_COPY).map(drop)
    }

    /// Less of the thread's name than all.
    fn short_comm(&mut self, bytes: u32, at: i16) -> Result<(), Stop> {
        let mark = self.stack_mark();
        let whole = self.reserve(COMM_BYTES)?;
        self.context_string_to(StringSource::Comm, whole, COMM_BYTES)?;
        let (word, mask) = (self.alloc()?, self.alloc()?);
        for from in (0..bytes).step_by(8) {
            self.b.load(Size::DW, word.reg, Reg::R10, whole + from as i16);
            if bytes - from < 8 {
                self.b.constant(mask.reg, (1 << ((bytes - from) * 8)) - 1);
                self.b.and(word.reg, mask.reg);
            }
            self.b.store(Size::DW, Reg::R10, at + from as i16, word.reg);
        }
        self.release(word);
        self.release(mask);
        self.give_back(mark);
        Ok(())
    }
}
