//! Values of an interrupted program: its registers, and its memory.

use crate::code::Code;
use crate::slot;
use mote_bpf::helper;
use mote_bpf::op::Size;
use mote_builder::{Build, Memory, Value};
use mote_catalog::event::Operand;

impl Code<'_> {
    /// The value of an operand, extended by zeros; memory that cannot be read is 0. The context are the registers.
    pub(crate) fn operand(&mut self, operand: &Operand) -> Value {
        match *operand {
            Operand::Constant(value) => self.get(value),
            Operand::Register(offset) => self.get(self.register(offset)),
            Operand::Memory { base, index, displacement, bytes } => {
                let address = self.get(self.register(base));
                if let Some((index, factor)) = index {
                    self.set(&address, &address + self.register(index) * factor);
                }
                self.set(&address, &address + displacement);
                // What is read may be shorter than a word; after a fault the helper has written zeros.
                self.put(slot::SECOND, 0);
                let to = slot::SECOND.address();
                drop(self.invoke(helper::PROBE_READ_USER, (to, bytes.clamp(1, 8), address)));
                self.get(slot::SECOND)
            }
        }
    }

    /// A register, at its offset in the context.
    fn register(&self, offset: u16) -> Memory {
        self.of_context(offset.into(), Size::DW)
    }
}
