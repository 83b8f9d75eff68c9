//! Writes packets as a processor does: bits are collected, addresses compressed and perhaps deferred.

use super::clock::Clock;
use super::random::Random;
use mote_pt::packet::ip::{Compression, Ip, LastIp};
use mote_pt::packet::{Packet, Tnt};

/// What a processor may do in one way or another.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Habits {
    /// Most bits of a packet: 6 or 47.
    pub(crate) bits_max: usize,
    /// TIPs wait for the bits of branches behind them.
    pub(crate) defers: bool,
    /// Returns are compressed.
    pub(crate) compresses_returns: bool,
    /// No return is compressed whose call was before TIP.PGD.
    pub(crate) forgets_calls: bool,
    /// Packets that say nothing about the flow: one in so many places.
    pub(crate) noise: usize,
    /// Bits are written before they are as many as fit: one in so many branches.
    pub(crate) partial: usize,
}

pub(crate) struct Writer {
    pub(crate) packets: Vec<Packet>,
    pub(crate) habits: Habits,
    pub(crate) clock: Option<Clock>,
    last_ip: LastIp,
    bits: Vec<bool>,
    tips: Vec<u64>,
    /// Addresses behind calls, of which a processor knows the last 64.
    calls: Vec<u64>,
}

impl Writer {
    pub(crate) fn new(habits: Habits) -> Self {
        Writer {
            packets: Vec::new(),
            habits,
            clock: None,
            last_ip: LastIp::default(),
            bits: Vec::new(),
            tips: Vec::new(),
            calls: Vec::new(),
        }
    }

    /// A packet as it is, with what may stand before it.
    pub(crate) fn put(&mut self, random: &mut Random, packet: Packet) {
        while random.once_in(self.habits.noise) {
            let noise = match random.below(7) {
                0 => Packet::Pad,
                1 => Packet::Cyc(random.next() & 0xfff),
                2 => Packet::Mtc(random.next() as u8),
                3 => Packet::Tsc(random.next() >> 8),
                4 => Packet::Cbr(random.next() as u8),
                5 => Packet::Mnt(random.next()),
                _ => Packet::Tma { ctc: random.next() as u16, fast: 3 },
            };
            self.packets.push(noise);
        }
        if let Some(clock) = &mut self.clock {
            self.packets.extend(clock.before(&packet));
        }
        self.packets.push(packet);
    }

    /// A packet with an address; none where it is not to be known.
    pub(crate) fn put_ip(&mut self, random: &mut Random, kind: fn(Ip) -> Packet, address: Option<u64>) {
        let ip = match address {
            // A processor may also compress less.
            Some(address) if random.once_in(4) => {
                let ip = Ip { compression: Compression::Full, bits: address };
                self.last_ip.update(ip);
                ip
            }
            Some(address) => self.last_ip.compress(address),
            None => Ip { compression: Compression::Suppressed, bits: 0 },
        };
        self.put(random, kind(ip));
    }

    /// A conditional branch or compressed return. Returns whether packets were written up to it.
    pub(crate) fn bit(&mut self, random: &mut Random, is_taken: bool) -> bool {
        if let Some(clock) = self.clock.as_mut().filter(|_| self.bits.is_empty()) {
            clock.note_first_bit();
        }
        self.bits.push(is_taken);
        let is_full = self.bits.len() == self.habits.bits_max || random.once_in(self.habits.partial);
        if is_full {
            self.flush(random);
        }
        is_full
    }

    /// An indirect branch. Returns whether packets were written up to it.
    pub(crate) fn tip(&mut self, random: &mut Random, to: u64) -> bool {
        if self.habits.defers && !self.bits.is_empty() {
            self.tips.push(to);
            return false;
        }
        self.flush(random);
        self.put_ip(random, Packet::Tip, Some(to));
        true
    }

    pub(crate) fn call(&mut self, address: u64) {
        self.calls.push(address);
        if self.calls.len() > 64 {
            self.calls.remove(0);
        }
    }

    /// A return. Returns whether packets were written up to it.
    pub(crate) fn ret(&mut self, random: &mut Random, to: u64) -> bool {
        if self.calls.pop() == Some(to) && self.habits.compresses_returns {
            return self.bit(random, true);
        }
        self.flush(random);
        self.put_ip(random, Packet::Tip, Some(to));
        true
    }

    /// Tracing is disabled or enabled.
    pub(crate) fn turn(&mut self) {
        if self.habits.forgets_calls {
            self.calls.clear();
        }
    }

    pub(crate) fn forget_calls(&mut self) {
        self.calls.clear();
    }

    pub(crate) fn has_bits(&self) -> bool {
        !self.bits.is_empty()
    }

    /// Writes what was collected.
    pub(crate) fn flush(&mut self, random: &mut Random) {
        let count = self.bits.len() as u8;
        if count != 0 {
            let bits = self.bits.drain(..).fold(0, |bits, is_taken| bits << 1 | u64::from(is_taken));
            let is_long = count > 6;
            self.put(random, Packet::Tnt(Tnt { bits, count, is_long }));
        }
        for to in std::mem::take(&mut self.tips) {
            // They were executed before: no CYC is of them.
            let clock = self.clock.take();
            self.put_ip(random, Packet::Tip, Some(to));
            self.clock = clock;
        }
    }

    /// Forgets what was collected, as in an overflow.
    pub(crate) fn drop_collected(&mut self) {
        self.bits.clear();
        self.tips.clear();
    }

    pub(crate) fn reset_ip(&mut self) {
        self.last_ip.reset();
    }
}
