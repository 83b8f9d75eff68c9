//! The packets of one processor.

use super::script::{How, Timing};
use super::unplayable::Unplayable;
use mote_pt::packet::ip::{Compression, Ip, LastIp};
use mote_pt::packet::{Encoder, Packet, Tnt};

/// The base address that a VMCS packet has when no VMCS is loaded.
const NO_VMCS: u64 = 0x000f_ffff_ffff_f000;
/// Most bytes of a processor's packets.
const BYTES_MAX: usize = 1 << 30;
/// A code address, for packets that need one.
const HOST_CODE: u64 = 0xffff_ffff_8100_0000;

/// Where the processor is.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Place {
    /// CR3.
    pub(super) cr3: u64,
    /// It is in a guest.
    pub(super) is_guest: bool,
    /// The VMCS that is loaded.
    pub(super) vmcs: Option<u64>,
    /// What the guest's time-stamp counter is ahead.
    pub(super) tsc_offset: u64,
}

/// Writes packets while time passes.
pub(super) struct Writer {
    timing: Timing,
    encoder: Encoder,
    last_ip: LastIp,
    /// The time-stamp counter, without the skew.
    now: u64,
    skew: u64,
    next_branch: u64,
    /// Packets of branches so far.
    branches: u64,
    /// When the last CYC packet was written.
    last_cyc: u64,
    next_psb: u64,
    place: Place,
    /// Why no packets are written.
    lost: Option<How>,
    is_off: bool,
    failed: Option<Unplayable>,
}

impl Writer {
    pub(super) fn new(timing: Timing, skew: u64, begin: u64) -> Writer {
        Writer {
            timing,
            encoder: Encoder::new(),
            last_ip: LastIp::default(),
            now: begin,
            skew,
            next_branch: begin,
            branches: 0,
            last_cyc: begin,
            next_psb: 0,
            place: Place::default(),
            lost: None,
            is_off: false,
            failed: None,
        }
    }

    /// The processor's time-stamp counter.
    pub(super) fn tsc(&self) -> u64 {
        self.now.wrapping_add(self.skew)
    }

    pub(super) fn len(&self) -> usize {
        self.encoder.bytes().len()
    }

    pub(super) fn finish(self) -> Result<Vec<u8>, Unplayable> {
        self.failed.map_or_else(|| Ok(self.encoder.into_bytes()), Err)
    }

    /// The trace begins here: PSB+.
    pub(super) fn begin(&mut self, place: Place) {
        self.place = place;
        self.psb();
    }

    /// The processor executes for so long.
    pub(super) fn execute(&mut self, ticks: u64) {
        let end = self.now.saturating_add(ticks);
        while self.now < end && self.failed.is_none() {
            let mtc = self.next_mtc();
            let next = end.min(self.next_branch).min(mtc.unwrap_or(u64::MAX)).max(self.now);
            self.now = next;
            if self.len() as u64 >= self.next_psb {
                self.psb();
            }
            if mtc == Some(next) {
                let count = (self.art() >> self.timing.mtc.unwrap_or_default()) as u8;
                self.push(Packet::Mtc(count));
            }
            if next == self.next_branch {
                self.next_branch = next + self.timing.ticks(self.timing.branch_ns).max(1);
                self.branch();
            }
        }
    }

    /// Six conditional branches, or each fourth time an indirect one.
    fn branch(&mut self) {
        self.branches = self.branches.wrapping_add(1);
        match self.branches % 4 {
            0 => self.address(Packet::Tip),
            _ => self.push(Packet::Tnt(Tnt { bits: self.now & 0x3f, count: 6, is_long: false })),
        }
    }

    /// The processor rests for so long.
    pub(super) fn rest(&mut self, ticks: u64, is_reported: bool) {
        if is_reported {
            self.push(Packet::Mwait { hints: 0x20, extensions: 1 });
            self.push(Packet::Pwre { c_state: 2, sub_state: 0, is_hardware: false });
            self.push(Packet::Exstop { has_fup: true });
            self.address(Packet::Fup);
        }
        self.now = self.now.saturating_add(ticks);
        (self.next_branch, self.last_cyc) = (self.now, self.now);
        self.time();
        self.cbr();
        if is_reported {
            self.push(Packet::Pwrx { last: 2, deepest: 2, reason: 1 });
        }
    }

    /// Another address space, of the host or the guest: MOV to CR3.
    pub(super) fn move_to(&mut self, cr3: u64) {
        self.place.cr3 = cr3;
        self.push(Packet::Pip { cr3, is_guest: self.place.is_guest });
    }

    /// VMPTRLD.
    pub(super) fn load(&mut self, vmcs: u64) {
        self.place.vmcs = Some(vmcs);
        self.push(Packet::Vmcs(vmcs));
    }

    /// VMCLEAR of what is loaded.
    pub(super) fn clear(&mut self) {
        self.place.vmcs = None;
    }

    /// VM entry, or exit.
    pub(super) fn cross(&mut self, place: Place) {
        self.place = place;
        if !place.is_guest {
            self.address(Packet::Fup);
        }
        self.push(Packet::Pip { cr3: place.cr3, is_guest: place.is_guest });
        self.mode();
        self.address(Packet::Tip);
    }

    /// Packets are lost from here on.
    pub(super) fn lose(&mut self, how: How) {
        self.lost = Some(how);
    }

    /// Packets are written again.
    pub(super) fn resume(&mut self) {
        let Some(how) = self.lost.take() else { return };
        (self.next_branch, self.last_cyc) = (self.now.max(self.next_branch), self.now);
        self.last_ip = LastIp::default();
        if how != How::Dropped {
            self.push(Packet::Ovf);
        }
        if how != How::Overflow {
            self.psb();
        }
        if how != How::Dropped {
            self.address(Packet::Fup);
        }
    }

    /// TraceEn is cleared.
    pub(super) fn off(&mut self) {
        self.push(Packet::TipPgd(Ip { compression: Compression::Suppressed, bits: 0 }));
        self.is_off = true;
    }

    /// TraceEn is set (SDM 3C, table 33-50, case 2d).
    pub(super) fn on(&mut self) {
        self.is_off = false;
        (self.next_branch, self.last_cyc) = (self.now, self.now);
        self.time();
        self.cbr();
        self.mode();
        self.address(Packet::TipPge);
    }

    /// Bytes that are no packets.
    pub(super) fn damage(&mut self, bytes: usize) {
        let mut all = std::mem::take(&mut self.encoder).into_bytes();
        // No packet begins with this byte.
        all.extend(std::iter::repeat_n(0x05, bytes.max(1)));
        self.encoder = Encoder::appending(all);
    }

    fn psb(&mut self) {
        if self.lost.is_some() || self.is_off {
            return;
        }
        self.next_psb = self.len() as u64 + self.timing.psb_bytes;
        self.write(Packet::Psb);
        self.last_ip = LastIp::default();
        self.time();
        self.cbr();
        let Place { cr3, is_guest, vmcs, .. } = self.place;
        self.write(Packet::Pip { cr3, is_guest });
        self.write(Packet::Vmcs(vmcs.unwrap_or(NO_VMCS)));
        self.write(Packet::ModeExec { is_64_bit: true, is_32_bit: false, interrupts: false });
        self.address(Packet::Fup);
        self.write(Packet::PsbEnd);
    }

    /// TSC and TMA. A guest's counter is its own.
    fn time(&mut self) {
        if !self.timing.tsc {
            return;
        }
        let offset = if self.place.is_guest { self.place.tsc_offset } else { 0 };
        self.write(Packet::Tsc(self.tsc().wrapping_add(offset) & ((1 << 56) - 1)));
        if self.timing.mtc.is_some() {
            let art = self.art();
            let fast = self.now.saturating_sub(self.when(art)) as u16 & 0x1ff;
            self.write(Packet::Tma { ctc: art as u16, fast });
        }
    }

    fn cbr(&mut self) {
        self.write(Packet::Cbr(self.timing.core_ratio));
    }

    fn mode(&mut self) {
        self.push(Packet::ModeExec { is_64_bit: true, is_32_bit: false, interrupts: false });
    }

    fn address(&mut self, of: fn(Ip) -> Packet) {
        let at = HOST_CODE + (self.now & 0xffff);
        let ip = if self.lost.is_none() && !self.is_off { self.last_ip.compress(at) } else { return };
        self.push(of(ip));
    }

    /// A packet that CYC stands before, where there are CYC packets.
    fn push(&mut self, packet: Packet) {
        if self.timing.cyc && self.lost.is_none() && !self.is_off {
            let cycles = self.cycles(self.now) - self.cycles(self.last_cyc);
            if cycles > 0 {
                self.last_cyc = self.now;
                self.write(Packet::Cyc(cycles));
            }
        }
        self.write(packet);
    }

    fn write(&mut self, packet: Packet) {
        if self.lost.is_some() || self.is_off {
            return;
        }
        if let Err(why) = self.encoder.push(packet) {
            self.failed.get_or_insert(Unplayable::Packet(why));
        }
        if self.encoder.bytes().len() > BYTES_MAX {
            self.failed.get_or_insert(Unplayable::TooLong(BYTES_MAX >> 20));
        }
    }

    fn cycles(&self, tsc: u64) -> u64 {
        let hz = u128::from(self.timing.core_ratio) * 100_000_000;
        (u128::from(tsc) * hz / u128::from(self.timing.tsc_hz().max(1))) as u64
    }

    /// The crystal clock's count.
    fn art(&self) -> u64 {
        let (numerator, denominator) = self.timing.tsc_per_art;
        (u128::from(self.now) * u128::from(denominator) / u128::from(numerator.max(1))) as u64
    }

    /// When the crystal clock's count becomes `art`.
    fn when(&self, art: u64) -> u64 {
        let (numerator, denominator) = self.timing.tsc_per_art;
        (u128::from(art) * u128::from(numerator)).div_ceil(u128::from(denominator.max(1))) as u64
    }

    fn next_mtc(&self) -> Option<u64> {
        let shift = self.timing.mtc?;
        Some(self.when(((self.art() >> shift) + 1) << shift))
    }
}
