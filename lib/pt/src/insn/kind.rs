//! What an instruction is, in two bytes: kept of each that was decoded, so that a search for some of them need not
//! decode all of them again.

use iced_x86::{Instruction, Mnemonic};

/// An instruction's mnemonic and prefixes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Kind(u16);

const LOCK: u16 = 1 << 15;
const REP: u16 = 1 << 14;

impl Kind {
    /// More than any mnemonic's number.
    pub const MNEMONICS: usize = REP as usize;

    /// The kind of an instruction.
    #[must_use]
    pub fn of(insn: &Instruction) -> Kind {
        let lock = if insn.has_lock_prefix() { LOCK } else { 0 };
        let is_repeated = insn.has_rep_prefix() || insn.has_repne_prefix();
        Kind(insn.mnemonic() as u16 | lock | if is_repeated { REP } else { 0 })
    }

    /// The number of its mnemonic: one of [`Mnemonic::values`], as a number.
    #[inline]
    #[must_use]
    pub fn mnemonic(self) -> usize {
        usize::from(self.0 & !(LOCK | REP))
    }

    /// It has the prefix LOCK.
    #[inline]
    #[must_use]
    pub fn has_lock(self) -> bool {
        self.0 & LOCK != 0
    }

    /// It has the prefix REP, REPE or REPNE.
    #[inline]
    #[must_use]
    pub fn has_rep(self) -> bool {
        self.0 & REP != 0
    }
}

/// A mnemonic as a word has room for the prefixes.
const _: () = assert!(size_of::<Mnemonic>() == 2);

#[cfg(test)]
mod tests {
    use super::*;
    use iced_x86::{Decoder, DecoderOptions};

    #[test]
    fn mnemonics_leave_room_for_prefixes() {
        assert!(Mnemonic::values().all(|mnemonic| (mnemonic as usize) < Kind::MNEMONICS));
    }

    #[test]
    fn a_kind_has_mnemonic_and_prefixes() {
        let rows: [(&[u8], Mnemonic, bool, bool); 5] = [
            (&[0x48, 0x0f, 0xc1, 0x07], Mnemonic::Xadd, false, false),
            (&[0xf0, 0x48, 0x0f, 0xc1, 0x07], Mnemonic::Xadd, true, false),
            (&[0xf3, 0xa4], Mnemonic::Movsb, false, true),
            (&[0xf2, 0xae], Mnemonic::Scasb, false, true),
            (&[0xf3, 0x90], Mnemonic::Pause, false, false),
        ];
        for (bytes, mnemonic, has_lock, has_rep) in rows {
            let insn = Decoder::with_ip(64, bytes, 0, DecoderOptions::NONE).decode();
            let kind = Kind::of(&insn);
            assert_eq!(
                (kind.mnemonic(), kind.has_lock(), kind.has_rep()),
                (mnemonic as usize, has_lock, has_rep),
                "{bytes:02x?}"
            );
        }
    }
}
