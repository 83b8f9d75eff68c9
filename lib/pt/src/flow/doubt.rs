//! What code says of packets that errata have made doubtful.

use super::state::Place;
use super::{Flow, Sink};
use crate::image::Image;
use crate::insn::Class;

/// Nodes within which an abort is looked for, behind the branch before it.
const NODES_MAX: usize = 64;

/// VMLAUNCH and VMRESUME.
const VM_ENTRIES: [[u8; 3]; 2] = [[0x0f, 0x01, 0xc2], [0x0f, 0x01, 0xc3]];

impl<P, I: Image> Flow<P, I> {
    /// BDM64: a transaction is aborted at an address. If code does not lead there from where the last branch has led
    /// to, its packet was wrong.
    #[cold]
    pub(super) fn doubt_branch(&mut self, abort: u64) {
        if self.place != Place::Unknown && !self.leads_to(abort) {
            self.go(Place::Address(abort));
        }
    }

    /// Whether code leads to an address without a packet.
    fn leads_to(&mut self, to: u64) -> bool {
        let Some(mut address) = self.address() else { return false };
        let state = self.state;
        let context = *self.context.get_or_insert_with(|| self.graph.context(state.space, state.mode));
        for _ in 0..NODES_MAX {
            if address == to {
                return true;
            }
            let Ok(node) = self.graph.enter(context, address, &self.image) else { return false };
            let node = *self.graph.node(node);
            if self.graph.instructions_before(&node, to).is_some() {
                return true;
            }
            address = match node.class {
                Class::Sequential | Class::Ptwrite | Class::MovCr3 => node.end(),
                Class::Jump | Class::Call | Class::CallNext => node.target,
                _ => return false,
            };
        }
        false
    }

    /// SKD022: a FUP says that something has ended tracing at an address. If the entry of a virtual machine is there,
    /// it was that which did so.
    #[cold]
    pub(super) fn doubt_fup(&mut self, at: u64, sink: &mut impl Sink) -> bool {
        let code = self.image.read(self.state.space, at).unwrap_or_default();
        if self.address() != Some(at) || !VM_ENTRIES.iter().any(|entry| code.starts_with(entry)) {
            return false;
        }
        let Ok(node) = self.enter() else { return false };
        let node = *self.graph.node(node);
        sink.block(&self.block(&node), &self.graph);
        true
    }
}
