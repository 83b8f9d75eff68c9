//! PSB+: what the processor says of itself from time to time (SDM 33.3.7), so that reading may begin there.

use super::bind::mode;
use super::state::{Goal, Open, Place, Status, Then, Tracing};
use super::{Cause, Event, Flow, Sink, Start, Transaction};
use crate::image::Image;
use crate::packet::Packet;

impl<P, I: Image> Flow<P, I> {
    pub(super) fn start_status(&mut self) {
        self.last_ip.reset();
        self.open = Open { events: std::mem::take(&mut self.open.events), ..Open::default() };
        self.status = Some(Status::default());
    }

    /// A packet within PSB+.
    pub(super) fn bind_status(&mut self, packet: Packet, sink: &mut impl Sink) {
        let Some(status) = &mut self.status else { return };
        match packet {
            Packet::Fup(ip) => status.address = self.last_ip.update(ip).or(status.address),
            Packet::Pip { cr3, is_guest } => status.paging = Some((cr3, is_guest)),
            Packet::Vmcs(base) => status.vmcs = Some(base),
            Packet::ModeExec { is_64_bit, is_32_bit, interrupts } => {
                status.mode = Some((mode(is_64_bit, is_32_bit), interrupts));
            }
            Packet::ModeTsx { in_transaction, .. } => status.in_transaction = Some(in_transaction),
            Packet::PsbEnd => self.end_status(sink),
            // An overflow within PSB+ ends it, and its PSBEND may be lost.
            Packet::Ovf => {
                self.apply_status(sink);
                self.overflow(sink);
            }
            _ => {
                self.apply_status(sink);
                self.lose(Cause::Unexpected, sink);
                self.tracing = Tracing::On;
                self.bind_branch(packet, sink);
            }
        }
    }

    fn end_status(&mut self, sink: &mut impl Sink) {
        let is_off = std::mem::take(&mut self.is_off_ahead) || !self.has_branches;
        let address = self.status.and_then(|status| status.address).filter(|_| !is_off);
        match (self.tracing, address) {
            (Tracing::On, Some(at)) if self.place != Place::Unknown => {
                self.goal = Goal::Arrive { at, then: Then::Status };
                self.stuck = super::stuck::Stuck::default();
            }
            (_, Some(address)) => {
                self.tracing = Tracing::On;
                self.go(Place::Address(address));
                self.is_fresh = true;
                self.apply_status(sink);
                sink.event(self.offset, Event::Enabled { address, by: Start::Psb });
            }
            (tracing, None) => {
                if tracing == Tracing::On && self.place != Place::Unknown {
                    self.lose(Cause::Unexpected, sink);
                }
                self.turn_off();
                self.apply_status(sink);
            }
        }
    }

    /// What PSB+ has said holds here.
    pub(super) fn apply_status(&mut self, sink: &mut impl Sink) {
        let status = self.status.take().unwrap_or_default();
        // No return is compressed whose call was before a PSB (SDM 33.4.2.2).
        self.returns.clear();
        if let Some((cr3, is_guest)) = status.paging {
            self.set_paging(cr3, is_guest, sink);
        }
        if let Some(base) = status.vmcs {
            self.set_vmcs(base, sink);
        }
        if let Some((mode, interrupts)) = status.mode {
            self.set_mode(mode, interrupts, sink);
        }
        if let Some(in_transaction) = status.in_transaction.filter(|&is| is != self.state.is_speculative) {
            self.state.is_speculative = in_transaction;
            let state = if in_transaction { Transaction::Begun } else { Transaction::Committed };
            sink.event(self.offset, Event::Transaction { state, address: None });
        }
    }
}
