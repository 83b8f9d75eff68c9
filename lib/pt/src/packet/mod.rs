//! The packets of a trace (SDM 3C, 33.4.2), as values.
//!
//! A packet here is what one packet of the trace says, and nothing more: an address is the bytes that were written and
//! how they are compressed. What is known from packets before, the last address for instance, is kept by the reader of
//! packets ([`ip::LastIp`]).

pub mod decode;
pub mod encode;
pub mod ip;
mod parse;
pub mod print;
mod psb;

pub use decode::{Damage, Decoder, Item, Reserved};
pub use encode::{Encoder, Unfit};
use ip::Ip;

/// What items of a block look like, while a reader is between BBP and BEP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Block {
    /// Items of 4 bytes.
    Short,
    /// Items of 8 bytes.
    Wide,
}

impl Block {
    /// The block that a reader is in after `packet`, if it was in `block` before.
    ///
    /// Between BBP and BEP there are items, timing and power packets, FUP and MNT only (33.4.2.26 to 33.4.2.28): any
    /// other packet means that BEP was lost. `perf` holds it the same way (tools/perf/util/intel-pt-decoder,
    /// Linux 6.1).
    fn after(block: Option<Block>, packet: &Packet) -> Option<Block> {
        match packet {
            Packet::Bbp { is_short: true, .. } => Some(Block::Short),
            Packet::Bbp { is_short: false, .. } => Some(Block::Wide),
            Packet::Pad | Packet::Bip { .. } | Packet::Fup(_) | Packet::Mnt(_) => block,
            Packet::Tsc(_) | Packet::Tma { .. } | Packet::Mtc(_) | Packet::Cyc(_) | Packet::Cbr(_) => block,
            Packet::Exstop { .. } | Packet::Pwre { .. } | Packet::Pwrx { .. } => block,
            _ => None,
        }
    }
}

/// One packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Packet {
    /// PAD (33.4.2.20): nothing, one byte.
    Pad,
    /// PSB (33.4.2.17): where a reader may begin. Packets up to PSBEND say where the processor is.
    Psb,
    /// PSBEND (33.4.2.18).
    PsbEnd,
    /// TNT (33.4.2.1): conditional branches that were taken (1) or not (0), or returns as their compression said (1).
    Tnt(Tnt),
    /// TIP (33.4.2.2): where an indirect branch, an exception, an interrupt or a return has led to.
    Tip(Ip),
    /// TIP.PGE (33.4.2.4): tracing begins here.
    TipPge(Ip),
    /// TIP.PGD (33.4.2.5): tracing ends; the address, where there is one, is that of the branch's target.
    TipPgd(Ip),
    /// FUP (33.4.2.6): where the processor was when what the next packets say happened.
    Fup(Ip),
    /// PIP (33.4.2.7): a new address space.
    Pip {
        /// CR3, with its low 5 bits as 0.
        cr3: u64,
        /// NR: the processor is in VMX non-root operation, in a guest.
        is_guest: bool,
    },
    /// MODE.Exec (33.4.2.8).
    ModeExec {
        /// CS.L and EFER.LMA: 64-bit code.
        is_64_bit: bool,
        /// CS.D: 32-bit code, where it is not 64-bit; otherwise 16-bit.
        is_32_bit: bool,
        /// IF, of processors with event trace.
        interrupts: bool,
    },
    /// MODE.TSX (33.4.2.8).
    ModeTsx {
        /// InTX: a transaction has begun; otherwise it has ended.
        in_transaction: bool,
        /// TXAbort: it was aborted.
        is_aborted: bool,
    },
    /// TraceStop (33.4.2.9).
    TraceStop,
    /// CBR (33.4.2.10): the ratio of the core's clock to the bus clock.
    Cbr(u8),
    /// TSC (33.4.2.11): the low 56 bits of the time-stamp counter.
    Tsc(u64),
    /// MTC (33.4.2.12): 8 bits of the crystal clock's count (ART).
    Mtc(u8),
    /// TMA (33.4.2.13): what relates the TSC packet before it to the crystal clock.
    Tma {
        /// The low 16 bits of the crystal clock's count.
        ctc: u16,
        /// TSC ticks since that count, 9 bits.
        fast: u16,
    },
    /// CYC (33.4.2.14): core cycles since the last CYC.
    Cyc(u64),
    /// VMCS (33.4.2.15): the physical address of the VMCS that is used, bits 12 to 51.
    Vmcs(u64),
    /// OVF (33.4.2.16): packets were lost.
    Ovf,
    /// MNT (33.4.2.19): a payload of the manufacturer's.
    Mnt(u64),
    /// PTW (33.4.2.21): the operand of PTWRITE.
    Ptw {
        /// The operand.
        value: u64,
        /// It has 8 bytes, not 4.
        is_wide: bool,
        /// A FUP with the instruction's address follows.
        has_fup: bool,
    },
    /// EXSTOP (33.4.2.22): execution has stopped.
    Exstop {
        /// A FUP follows.
        has_fup: bool,
    },
    /// MWAIT (33.4.2.23).
    Mwait {
        /// EAX\[7:0\].
        hints: u8,
        /// ECX\[1:0\].
        extensions: u8,
    },
    /// PWRE (33.4.2.24): a C-state is entered.
    Pwre {
        /// The thread's C-state.
        c_state: u8,
        /// Its sub-state.
        sub_state: u8,
        /// The hardware has begun it.
        is_hardware: bool,
    },
    /// PWRX (33.4.2.25): a C-state was left.
    Pwrx {
        /// The core's last C-state.
        last: u8,
        /// Its deepest C-state.
        deepest: u8,
        /// What woke it, 4 bits: interrupt, timer, store to the monitored address, hardware.
        reason: u8,
    },
    /// BBP (33.4.2.26): a block of items begins (PEBS).
    Bbp {
        /// Items have 4 bytes, not 8.
        is_short: bool,
        /// What they are about, 5 bits.
        kind: u8,
    },
    /// BIP (33.4.2.27): one item of a block.
    Bip {
        /// Which one, 5 bits.
        id: u8,
        /// Its value; of 4 bytes in a block of short items.
        value: u64,
    },
    /// BEP (33.4.2.28): a block has ended.
    Bep {
        /// A FUP follows.
        has_fup: bool,
    },
    /// CFE (33.4.2.29): an event of control flow, of processors with event trace.
    Cfe {
        /// What it is, 5 bits: see 33.4.2.29, table "CFE Packet Type".
        kind: u8,
        /// The vector.
        vector: u8,
        /// A FUP follows.
        has_fup: bool,
    },
    /// EVD (33.4.2.30): data of the CFE that follows.
    Evd {
        /// What it is, 6 bits: CR2, VM-exit qualification, VM-exit reason.
        kind: u8,
        /// The data.
        value: u64,
    },
    /// TRIG (of processors with trigger tracing): triggers have fired.
    Trig {
        /// TRBV: one bit for each trigger that has.
        triggers: u8,
        /// MULT: others have fired, too, which no packet reports.
        is_multiple: bool,
        /// ICNT, where ICNTV says that it is there: instructions since the last FUP, TIP or TNT.
        instructions: Option<u16>,
        /// A FUP follows, from whose address instructions count.
        has_fup: bool,
    },
}

/// What a TNT packet says: the branches in the order in which they were met.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Tnt {
    /// The branches; the one that was met first is the highest of `count` bits.
    pub bits: u64,
    /// How many: 1 to 6 in a short packet, 1 to 47 in a long one.
    pub count: u8,
    /// It was written as a long packet (TNT-64).
    pub is_long: bool,
}
