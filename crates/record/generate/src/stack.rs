//! Stacks: the kernel's as addresses, the process's as a copy ([`crate::stack_copy`]), or as addresses where that
//! cannot be.

use crate::access::Access;
use crate::code::{Code, state};
use crate::copy::To;
use crate::slot;
use crate::stack_copy::copy_function;
use mote_bpf::helper;
use mote_bpf::op::Size;
use mote_builder::{Build, Label};
use mote_catalog::stack::FRAMES_MAX;
use mote_layout::stack::HEADER_WORDS;

/// `BPF_F_USER_STACK`
const USER_STACK: i32 = 1 << 8;
/// Bytes of a list of addresses.
const ADDRESSES: u32 = 8 * FRAMES_MAX as u32;

impl Code<'_> {
    /// A stack: how many words, and they. Of the kernel, or of the process with so many bytes as a copy.
    pub(crate) fn stack(&mut self, user: Option<u32>) {
        let (none, behind) = (self.label(), self.label());
        self.if_foreign(none);
        let copied =
            user.filter(|copy| *copy > 0 && self.plan.facts.is_some_and(|facts| facts.stack.is_some()));
        let most = copied.map_or(ADDRESSES, |copy| ADDRESSES.max(copy + 8 * HEADER_WORDS as u32));
        let length = self.scratch();
        if let Some(copy) = copied {
            let (label, to) = (self.stack_label(copy), self.destination(To::Record) + 2);
            let bytes = self.invoke_function(label, (to,));
            self.set(&length, bytes);
            self.jump_if(length.ne(0), behind);
        }
        let context = match self.access {
            Access::TypedCall | Access::RawCall => slot::CONTEXT.into(),
            _ => self.context(),
        };
        let flags = if user.is_some() { USER_STACK } else { 0 };
        let to = self.destination(To::Record) + 2;
        let bytes = self.invoke(helper::GET_STACK, (context, to, ADDRESSES, flags));
        self.set(&length, bytes);
        self.jump_if(length.le(ADDRESSES), behind);
        self.bind(none);
        self.set(&length, 0);
        self.bind(behind);
        self.put(self.of_record(0, Size::H), &length >> 3);
        self.at += 2;
        self.advance(length, most);
    }
}

impl<S> Code<'_, S> {
    /// Function: as [`copy_function`].
    pub(crate) fn stack_function(&mut self, label: Label, copy: u32) {
        let Some((facts, offsets)) = self.plan.facts.and_then(|facts| Some((facts, facts.stack?))) else {
            return;
        };
        let namespace = self.plan.namespace;
        let stubs = state(self.plan.layout.stubs());
        copy_function(self, label, &offsets, copy, stubs, |code, task| match namespace {
            Some(namespace) => {
                let leader = code.get(task.at(namespace.offsets.group_leader));
                code.recorder_id_of(leader)
            }
            None => code.get(task.at(facts.tgid)),
        });
    }
}
