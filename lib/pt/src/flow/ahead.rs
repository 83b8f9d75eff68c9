//! Packets that were read, but not yet meant: one that stands behind bits, or what errata make it necessary to look at.

use super::Flow;
use super::state::{Overflow, Tracing};
use crate::image::Image;
use crate::packet::Packet;

/// A packet with its offset; no packet is damage.
pub(super) type Ahead = (u64, Option<Packet>);

/// Most packets that are looked at. Those that errata are about stand together.
const LOOK_MAX: usize = 256;

impl<P, I> Flow<P, I> {
    /// The next packet, if it was read already.
    #[inline]
    pub(super) fn take_ahead(&mut self) -> Option<Ahead> {
        let ahead = self.ahead.take()?;
        self.ahead = self.later.pop_front();
        Some(ahead)
    }

    /// A packet is the next one again.
    pub(super) fn put_back(&mut self, packet: Ahead) {
        if let Some(next) = self.ahead.replace(packet) {
            self.later.push_front(next);
        }
    }
}

impl<P, D, I> Flow<P, I>
where
    P: Iterator<Item = (u64, Result<Packet, D>)>,
    I: Image,
{
    /// Reads a packet: first those that were looked at ahead.
    #[inline]
    pub(super) fn next_packet(&mut self) -> Option<Ahead> {
        match self.take_ahead() {
            None => self.packets.next().map(|(offset, packet)| (offset, packet.ok())),
            ahead => ahead,
        }
    }

    /// The packet that comes so many behind the next one.
    fn look(&mut self, index: usize) -> Option<Packet> {
        let seen = match index.checked_sub(1) {
            None => self.ahead,
            Some(index) => self.later.get(index).copied(),
        };
        if let Some((_, packet)) = seen {
            return packet;
        }
        let (offset, packet) = self.packets.next()?;
        let ahead = (offset, packet.ok());
        match self.ahead {
            None => self.ahead = Some(ahead),
            Some(_) => self.later.push_back(ahead),
        }
        ahead.1
    }

    /// Looks at packets to come until `what` has an answer; none at damage, and where the trace ends.
    fn look_ahead(&mut self, mut what: impl FnMut(Packet) -> Option<bool>) -> bool {
        (0..LOOK_MAX).map_while(|index| self.look(index)).find_map(&mut what).unwrap_or(false)
    }

    /// Finds out whether the packet that is read now is one of those that an erratum has made up: it says that tracing
    /// is on, and those behind that it is not.
    #[cold]
    pub(super) fn foresee(&mut self, packet: Packet) {
        self.is_off_ahead = match packet {
            Packet::PsbEnd if self.errata.bdm70 && self.tracing != Tracing::On => self.look_ahead(begins),
            Packet::Fup(_) if self.errata.apl12 && self.overflow != Overflow::None => {
                let mut is_in_status = false;
                self.look_ahead(|packet| is_off(packet, &mut is_in_status))
            }
            _ => false,
        };
    }
}

/// BDM70: whether TIP.PGE follows PSB+, with nothing between that is written only while tracing is on.
fn begins(packet: Packet) -> Option<bool> {
    match packet {
        Packet::TipPge(_) => Some(true),
        Packet::Pad | Packet::Tsc(_) | Packet::Tma { .. } | Packet::Mtc(_) | Packet::Cyc(_) => None,
        Packet::Cbr(_) | Packet::Pip { .. } | Packet::Vmcs(_) | Packet::Mnt(_) => None,
        Packet::ModeExec { .. } | Packet::ModeTsx { .. } => None,
        _ => Some(false),
    }
}

/// APL12: whether tracing is off, by the first packet that says it.
fn is_off(packet: Packet, is_in_status: &mut bool) -> Option<bool> {
    match packet {
        Packet::Tnt(_) | Packet::Tip(_) | Packet::TipPgd(_) => Some(false),
        Packet::TipPge(_) | Packet::TraceStop => Some(true),
        // Whatever it was, it is lost.
        Packet::Ovf if !*is_in_status => Some(false),
        Packet::Psb => {
            *is_in_status = true;
            None
        }
        Packet::Fup(_) if *is_in_status => Some(false),
        Packet::PsbEnd | Packet::Ovf if *is_in_status => Some(true),
        _ => None,
    }
}
