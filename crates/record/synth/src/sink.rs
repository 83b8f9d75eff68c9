//! Where packets go, and how long they are.

use mote_pt::packet::Packet;
use mote_pt::packet::ip::{Compression, Ip};

/// Takes packets in the order of the trace: an encoder, a list.
pub trait Sink {
    /// One more packet.
    fn packet(&mut self, packet: Packet);
}

impl Sink for Vec<Packet> {
    fn packet(&mut self, packet: Packet) {
        self.push(packet);
    }
}

/// The bytes of a packet (SDM 3C, 33.4.2), of those that the generator makes; of others 0.
pub(crate) fn bytes_of(packet: &Packet) -> u64 {
    match packet {
        Packet::Tnt(tnt) if !tnt.is_long => 1,
        Packet::PsbEnd | Packet::ModeExec { .. } | Packet::ModeTsx { .. } | Packet::Mtc(_) | Packet::Ovf => 2,
        Packet::TraceStop => 2,
        Packet::Tip(ip) | Packet::TipPge(ip) | Packet::TipPgd(ip) | Packet::Fup(ip) => 1 + address_bytes(*ip),
        Packet::Cbr(_) => 4,
        Packet::Ptw { is_wide, .. } => 2 + if *is_wide { 8 } else { 4 },
        Packet::Tma { .. } | Packet::Vmcs(_) => 7,
        Packet::Tnt(_) | Packet::Tsc(_) | Packet::Pip { .. } => 8,
        Packet::Psb => 16,
        Packet::Cyc(cycles) => cyc_bytes(*cycles),
        _ => 0,
    }
}

fn address_bytes(ip: Ip) -> u64 {
    match ip.compression {
        Compression::Suppressed => 0,
        Compression::Update16 => 2,
        Compression::Update32 => 4,
        Compression::Sext48 | Compression::Update48 => 6,
        Compression::Full => 8,
    }
}

/// 5 bits in the first byte, 7 in each more (33.4.2.14).
fn cyc_bytes(cycles: u64) -> u64 {
    let bits = u64::from(64 - cycles.leading_zeros());
    1 + bits.saturating_sub(5).div_ceil(7)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cycle_count_grows_by_7_bits() {
        let lengths = [(0, 1), (31, 1), (32, 2), (4095, 2), (4096, 3), (1 << 19, 4)];
        for (cycles, bytes) in lengths {
            assert_eq!(bytes_of(&Packet::Cyc(cycles)), bytes, "{cycles}");
        }
    }
}
