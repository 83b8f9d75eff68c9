//! Addresses in packets, and how they are compressed (SDM 3C, 33.4.2.2, table "FUP/TIP IP Reconstruction").

/// An address as a packet has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Ip {
    /// How it was written.
    pub compression: Compression,
    /// The bytes that were written, above them 0.
    pub bits: u64,
}

/// IPBytes: how many bytes of an address were written, and where the others come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Compression {
    /// 000: no address: it is out of context, or not to be told.
    Suppressed = 0,
    /// 001: the low 16 bits; the rest is the last address's.
    Update16 = 1,
    /// 010: the low 32 bits; the rest is the last address's.
    Update32 = 2,
    /// 011: the low 48 bits, whose highest one is that of all above.
    Sext48 = 3,
    /// 100: the low 48 bits; the rest is the last address's.
    Update48 = 4,
    /// 110: all of it.
    Full = 6,
}

/// The last address that a packet had, from which compressed ones are made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LastIp(u64);

impl LastIp {
    /// After PSB: no address yet, which counts as 0.
    pub fn reset(&mut self) {
        *self = LastIp::default();
    }

    /// The address that a packet means, which is the last one from now on; `None` where it has none.
    pub fn update(&mut self, ip: Ip) -> Option<u64> {
        self.0 = match ip.compression {
            Compression::Suppressed => return None,
            Compression::Update16 => self.0 & !0xffff | ip.bits & 0xffff,
            Compression::Update32 => self.0 & !0xffff_ffff | ip.bits & 0xffff_ffff,
            Compression::Sext48 => ((ip.bits << 16) as i64 >> 16) as u64,
            Compression::Update48 => self.0 & !0xffff_ffff_ffff | ip.bits & 0xffff_ffff_ffff,
            Compression::Full => ip.bits,
        };
        Some(self.0)
    }

    /// The shortest form of `address` that a reader whose last address is this one understands; the last address from
    /// now on.
    pub fn compress(&mut self, address: u64) -> Ip {
        let differs = self.0 ^ address;
        self.0 = address;
        let is_extended = ((address << 16) as i64 >> 16) as u64 == address;
        let (compression, mask) = match () {
            () if differs >> 16 == 0 => (Compression::Update16, 0xffff),
            () if differs >> 32 == 0 => (Compression::Update32, 0xffff_ffff),
            () if is_extended => (Compression::Sext48, 0xffff_ffff_ffff),
            () if differs >> 48 == 0 => (Compression::Update48, 0xffff_ffff_ffff),
            () => (Compression::Full, u64::MAX),
        };
        Ip { compression, bits: address & mask }
    }
}
