//! Packets as people read them: a name, fields with values, and what it means in words; for `mote pt dump` and tests.

use super::ip::{Compression, Ip};
use super::{Item, Packet, Tnt};
use std::fmt;

/// A value of a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Value {
    /// A number that counts something.
    Count(u64),
    /// A number that is an address, a time or bits: hexadecimal in text.
    Bits(u64),
    /// A word.
    Word(&'static str),
    /// It is said only where it is true.
    Flag,
    /// Branches: `T` for each that was taken, `N` for each that was not.
    Branches(Tnt),
}

/// A field: its name and its value.
pub type Field = (&'static str, Value);

/// The fields of a packet, in order; at most so many.
type Fields = [Option<Field>; 6];

impl Packet {
    /// Its name in the manual.
    #[must_use]
    pub fn name(&self) -> &'static str {
        self.words().0
    }

    /// What it says, in words.
    #[must_use]
    pub fn meaning(&self) -> &'static str {
        self.words().1
    }

    /// Its fields, in order. A flag is there where it is set.
    pub fn fields(&self) -> impl Iterator<Item = Field> {
        self.values().into_iter().flatten()
    }

    fn words(&self) -> (&'static str, &'static str) {
        match self {
            Packet::Pad => ("PAD", "padding"),
            Packet::Psb => ("PSB", "readers may begin here"),
            Packet::PsbEnd => ("PSBEND", "the processor's state was told"),
            Packet::Tnt(_) => ("TNT", "conditional branches, taken or not"),
            Packet::Tip(_) => ("TIP", "target of an indirect branch, an interrupt or an exception"),
            Packet::TipPge(_) => ("TIP.PGE", "tracing begins"),
            Packet::TipPgd(_) => ("TIP.PGD", "tracing ends"),
            Packet::Fup(_) => ("FUP", "where the processor was"),
            Packet::Pip { .. } => ("PIP", "address space"),
            Packet::ModeExec { .. } => ("MODE.Exec", "size of code"),
            Packet::ModeTsx { .. } => ("MODE.TSX", "transaction"),
            Packet::TraceStop => ("TraceStop", "a region was entered that stops tracing"),
            Packet::Cbr(_) => ("CBR", "core clock by bus clock"),
            Packet::Tsc(_) => ("TSC", "time-stamp counter"),
            Packet::Mtc(_) => ("MTC", "crystal clock"),
            Packet::Tma { .. } => ("TMA", "TSC by crystal clock"),
            Packet::Cyc(_) => ("CYC", "core cycles since the last CYC"),
            Packet::Vmcs(_) => ("VMCS", "virtual machine"),
            Packet::Ovf => ("OVF", "packets were lost"),
            Packet::Mnt(_) => ("MNT", "maintenance"),
            Packet::Ptw { .. } => ("PTW", "PTWRITE"),
            Packet::Exstop { .. } => ("EXSTOP", "execution has stopped"),
            Packet::Mwait { .. } => ("MWAIT", "MWAIT to a C-state"),
            Packet::Pwre { .. } => ("PWRE", "a C-state was entered"),
            Packet::Pwrx { .. } => ("PWRX", "a C-state was left"),
            Packet::Bbp { .. } => ("BBP", "a block of items begins"),
            Packet::Bip { .. } => ("BIP", "item of a block"),
            Packet::Bep { .. } => ("BEP", "a block has ended"),
            Packet::Cfe { .. } => ("CFE", "event of control flow"),
            Packet::Evd { .. } => ("EVD", "data of the event that follows"),
            Packet::Trig { .. } => ("TRIG", "a trigger has fired"),
        }
    }

    fn values(&self) -> Fields {
        let count = |name, value: u8| Some((name, Value::Count(value.into())));
        let bits = |name, value| Some((name, Value::Bits(value)));
        let word = |name, value| Some((name, Value::Word(value)));
        let flag = |name, is_set: bool| is_set.then_some((name, Value::Flag));
        let bytes = |name, is_wide| count(name, if is_wide { 8 } else { 4 });
        match *self {
            Packet::Tnt(tnt) => of([Some(("branches", Value::Branches(tnt))), flag("long", tnt.is_long)]),
            Packet::Tip(ip) | Packet::TipPge(ip) | Packet::TipPgd(ip) | Packet::Fup(ip) => {
                of([address(ip), word("form", form(ip.compression))])
            }
            Packet::Pip { cr3, is_guest } => of([bits("cr3", cr3), flag("guest", is_guest)]),
            Packet::ModeExec { is_64_bit, is_32_bit, interrupts } => {
                let size = if is_64_bit { 64 } else { 16 << u8::from(is_32_bit) };
                of([count("bits", size), flag("interrupts", interrupts)])
            }
            Packet::ModeTsx { in_transaction, is_aborted } => {
                let now = if in_transaction { "begun" } else { "committed" };
                of([word("transaction", if is_aborted { "aborted" } else { now })])
            }
            Packet::Cbr(ratio) => of([count("ratio", ratio)]),
            Packet::Tsc(tsc) => of([bits("tsc", tsc)]),
            Packet::Mtc(ctc) => of([bits("ctc", ctc.into())]),
            Packet::Tma { ctc, fast } => of([bits("ctc", ctc.into()), bits("fast", fast.into())]),
            Packet::Cyc(cycles) => of([Some(("cycles", Value::Count(cycles)))]),
            Packet::Vmcs(base) => of([bits("base", base)]),
            Packet::Mnt(payload) => of([bits("payload", payload)]),
            Packet::Ptw { value, is_wide, has_fup } => {
                of([bits("value", value), bytes("bytes", is_wide), flag("fup", has_fup)])
            }
            Packet::Exstop { has_fup } | Packet::Bep { has_fup } => of([flag("fup", has_fup)]),
            Packet::Mwait { hints, extensions } => {
                of([bits("hints", hints.into()), bits("extensions", extensions.into())])
            }
            Packet::Pwre { c_state, sub_state, is_hardware } => {
                of([count("state", c_state), count("sub_state", sub_state), flag("hardware", is_hardware)])
            }
            Packet::Pwrx { last, deepest, reason } => {
                let woken = |bit: u8, by| flag(by, reason >> bit & 1 != 0);
                let [a, b, c, d] =
                    [woken(0, "interrupt"), woken(1, "timer"), woken(2, "store"), woken(3, "hardware")];
                of([count("last", last), count("deepest", deepest), a, b, c, d])
            }
            Packet::Bbp { is_short, kind } => of([bits("type", kind.into()), bytes("bytes", !is_short)]),
            Packet::Bip { id, value } => of([bits("id", id.into()), bits("value", value)]),
            Packet::Cfe { kind, vector, has_fup } => of([
                bits("type", kind.into()),
                event(kind).and_then(|name| word("event", name)),
                count("vector", vector),
                flag("fup", has_fup),
            ]),
            Packet::Evd { kind, value } => of([
                bits("type", kind.into()),
                data(kind).and_then(|name| word("data", name)),
                bits("value", value),
            ]),
            Packet::Trig { triggers, is_multiple, instructions, has_fup } => of([
                bits("triggers", triggers.into()),
                flag("multiple", is_multiple),
                instructions.map(|count| ("instructions", Value::Count(count.into()))),
                flag("fup", has_fup),
            ]),
            Packet::Pad | Packet::Psb | Packet::PsbEnd | Packet::TraceStop | Packet::Ovf => of([]),
        }
    }
}

fn of<const COUNT: usize>(fields: [Option<Field>; COUNT]) -> Fields {
    let mut all = Fields::default();
    all.iter_mut().zip(fields).for_each(|(to, from)| *to = from);
    all
}

fn address(ip: Ip) -> Option<Field> {
    (ip.compression != Compression::Suppressed).then_some(("ip", Value::Bits(ip.bits)))
}

fn form(compression: Compression) -> &'static str {
    match compression {
        Compression::Suppressed => "suppressed",
        Compression::Update16 => "update16",
        Compression::Update32 => "update32",
        Compression::Sext48 => "sext48",
        Compression::Update48 => "update48",
        Compression::Full => "full",
    }
}

/// SDM 33.4.2.29, table "CFE Packet Type"; the user interrupts are those of libipt 2.2, `enum pt_cfe_type`.
fn event(kind: u8) -> Option<&'static str> {
    Some(match kind {
        0x01 => "INTR",
        0x02 => "IRET",
        0x03 => "SMI",
        0x04 => "RSM",
        0x05 => "SIPI",
        0x06 => "INIT",
        0x07 => "VMENTRY",
        0x08 => "VMEXIT",
        0x09 => "VMEXIT_INTR",
        0x0a => "SHUTDOWN",
        0x0c => "UINTR",
        0x0d => "UIRET",
        _ => return None,
    })
}

/// SDM 33.4.2.30.
fn data(kind: u8) -> Option<&'static str> {
    Some(match kind {
        0x00 => "CR2",
        0x01 => "VMXQ",
        0x02 => "VMXR",
        _ => return None,
    })
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Value::Count(value) => write!(f, "{value}"),
            Value::Bits(value) => write!(f, "{value:#x}"),
            Value::Word(word) => f.write_str(word),
            Value::Flag => f.write_str("yes"),
            Value::Branches(tnt) => {
                let taken = |n: u8| tnt.bits.checked_shr(n.into()).is_some_and(|bits| bits & 1 != 0);
                (0..tnt.count).rev().try_for_each(|n| f.write_str(if taken(n) { "T" } else { "N" }))
            }
        }
    }
}

/// `TIP ip=0x201 form=update16`.
impl fmt::Display for Packet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())?;
        self.fields().try_for_each(|field| match field {
            (name, Value::Flag) => write!(f, " {name}"),
            (name, value) => write!(f, " {name}={value}"),
        })
    }
}

/// `00000010  PAD x 8`, or `00000010  damage of 8 bytes: ...`: the offset, and what is there.
impl fmt::Display for Item {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:08x}  ", self.offset)?;
        match self.what {
            Ok(Packet::Pad) if self.length > 1 => write!(f, "PAD x {}", self.length),
            Ok(packet) => write!(f, "{packet}"),
            Err(damage) => write!(f, "damage of {} bytes: {damage}", self.length),
        }
    }
}
