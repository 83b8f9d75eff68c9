//! How to unwind through code that was moved (`.eh_frame`; Linux Standard Base, "Exception Frames"; DWARF 4, 6.4).
//!
//! A pad gets the rows that its function has for the same instructions. They stand in a section of their own, and a
//! table of all frames of the file, the old ones and these, takes the place of the old table.

use super::Refusal;
use crate::binary::Binary;
use gimli::{
    BaseAddresses, CallFrameInstruction as Row, CieOrFde, CommonInformationEntry, EhFrame, EndianSlice,
    FrameDescriptionEntry, LittleEndian, Pointer, Register, UnwindSection,
};
use std::collections::HashMap;

type Slice<'d> = EndianSlice<'d, LittleEndian>;
type Fde<'d> = FrameDescriptionEntry<Slice<'d>>;

/// Distances from themselves, of 32 bits (`DW_EH_PE_pcrel | DW_EH_PE_sdata4`).
const FROM_ITSELF: u8 = 0x1b;
/// Distances from the table, of 32 bits (`DW_EH_PE_datarel | DW_EH_PE_sdata4`).
const FROM_TABLE: u8 = 0x3b;
/// Numbers of 32 bits (`DW_EH_PE_udata4`).
const NUMBER: u8 = 0x03;
/// What is left out (`DW_EH_PE_omit`).
const OMITTED: u8 = 0xff;

/// The frames of a file.
pub(crate) struct Frames<'b, 'd> {
    binary: &'b Binary<'d>,
    section: EhFrame<Slice<'d>>,
    bases: BaseAddresses,
    /// By address.
    all: Vec<Fde<'d>>,
    /// Where the section is loaded.
    address: u64,
}

/// A frame for code that was moved.
#[derive(Debug)]
pub(crate) struct Copied {
    at: u64,
    len: u64,
    /// What the first row is, for all frames of one kind.
    common: Vec<u8>,
    rows: Vec<u8>,
}

/// The section of frames and the table, and where each begins.
#[derive(Debug, Default)]
pub(crate) struct Tables {
    pub(crate) bytes: Vec<u8>,
    /// Bytes of the table, before the frames.
    pub(crate) table_bytes: u64,
}

impl<'b, 'd> Frames<'b, 'd> {
    /// Reads them, up to where they are damaged; `None` when the file has none.
    pub(crate) fn of(binary: &'b Binary<'d>) -> Option<Frames<'b, 'd>> {
        let (address, bytes) = binary.section(".eh_frame")?;
        let section = EhFrame::new(bytes, LittleEndian);
        let bases = BaseAddresses::default().set_eh_frame(address);
        let (mut all, mut entries) = (Vec::new(), section.entries(&bases));
        while let Ok(Some(entry)) = entries.next() {
            let CieOrFde::Fde(partial) = entry else { continue };
            let Ok(fde) = partial.parse(EhFrame::cie_from_offset) else { continue };
            if binary.code_at(fde.initial_address()).is_some() {
                all.push(fde);
            }
        }
        all.sort_by_key(FrameDescriptionEntry::initial_address);
        Some(Frames { binary, section, bases, all, address })
    }

    /// The frame for what is moved to `len` bytes at `at`: `steps` are places of instructions, and where each is now.
    /// `None` when these instructions have none.
    ///
    /// # Errors
    /// Rows that mean something else there; exceptions that are caught there.
    pub(crate) fn copied(
        &self,
        (at, len): (u64, u64),
        steps: &[(u64, u64)],
        calls: bool,
    ) -> Result<Option<Copied>, Refusal> {
        let begin = steps.first().map_or(0, |(from, _)| *from);
        let end = steps.last().map_or(begin, |(from, _)| *from);
        let Some(fde) = self.at(begin) else { return Ok(None) };
        self.check_exceptions(fde, begin, end.max(begin + 1), calls)?;
        let mut rows = Vec::new();
        let (mut place, mut new) = (fde.initial_address(), at);
        let mut instructions = fde.instructions(&self.section, &self.bases);
        while let Some(one) = instructions.next().map_err(|_| Refusal::Frame)? {
            if let Row::AdvanceLoc { delta } = one {
                place = place.checked_add(u64::from(delta)).ok_or(Refusal::Frame)?;
                if place <= begin {
                    continue;
                }
                let Some((_, step)) = steps.iter().find(|(from, _)| *from >= place) else { break };
                advance(&mut rows, step - new);
                new = *step;
            } else {
                encode(&mut rows, &one).ok_or(Refusal::Frame)?;
            }
        }
        let common = self.common(fde.cie()).ok_or(Refusal::Frame)?;
        Ok(Some(Copied { at, len, common, rows }))
    }

    fn at(&self, address: u64) -> Option<&Fde<'d>> {
        let behind = self.all.partition_point(|fde| fde.initial_address() <= address);
        self.all.get(behind.checked_sub(1)?).filter(|fde| address - fde.initial_address() < fde.len())
    }

    /// Whether exceptions that come from these instructions are treated by the function: that depends on where in it
    /// they are, so that such instructions have to stay. One without a row ends the program (`noexcept`).
    fn check_exceptions(&self, fde: &Fde<'_>, begin: u64, end: u64, calls: bool) -> Result<(), Refusal> {
        let table = match fde.lsda() {
            None => return Ok(()),
            Some(Pointer::Direct(table)) if !calls => table,
            Some(_) => return Err(Refusal::Exceptions),
        };
        let bytes = self.binary.loaded(table).ok_or(Refusal::Exceptions)?;
        let (from, to) = (begin - fde.initial_address(), end - fde.initial_address());
        let is_caught = catches(bytes, from, to).ok_or(Refusal::Exceptions)?;
        if is_caught { Err(Refusal::Exceptions) } else { Ok(()) }
    }

    /// What stands behind a common entry's length; without the parts that only functions need.
    fn common(&self, cie: &CommonInformationEntry<Slice<'d>>) -> Option<Vec<u8>> {
        let kind: &[u8] = if cie.is_signal_trampoline() { b"zRS\0" } else { b"zR\0" };
        // The entry's own number, and its version.
        let mut bytes = [&[0, 0, 0, 0, 1], kind].concat();
        // Rows are written in bytes of code.
        unsigned(&mut bytes, 1);
        signed(&mut bytes, cie.data_alignment_factor());
        bytes.push(u8::try_from(cie.return_address_register().0).ok()?);
        bytes.extend([1, FROM_ITSELF]);
        let mut instructions = cie.instructions(&self.section, &self.bases);
        while let Some(one) = instructions.next().ok()? {
            encode(&mut bytes, &one)?;
        }
        (cie.code_alignment_factor() == 1).then_some(bytes)
    }

    /// The table, which is to be loaded at `at`, with the frames behind it; `None` when something is too far away.
    pub(crate) fn tables(&self, copies: &[Copied], at: u64) -> Option<Tables> {
        /// Bytes before the table's rows.
        const HEAD: usize = 12;
        /// Bytes of a row.
        const ROW: usize = 8;
        let table_bytes = (HEAD + ROW * (self.all.len() + copies.len())) as u64;
        let frames_at = at.checked_add(table_bytes)?;
        let mut frames = Vec::new();
        let placed = add_frames(&mut frames, copies, frames_at)?;
        let old = self
            .all
            .iter()
            .map(|fde| (fde.initial_address(), self.address.wrapping_add(fde.offset() as u64)));
        let mut rows: Vec<(u64, u64)> = old.chain(placed).collect();
        rows.sort_unstable();
        let mut bytes = vec![1, FROM_ITSELF, NUMBER, FROM_TABLE];
        bytes.extend(distance(self.address, at + 4)?);
        bytes.extend(u32::try_from(rows.len()).ok()?.to_le_bytes());
        for (begin, entry) in rows {
            bytes.extend(distance(begin, at)?);
            bytes.extend(distance(entry, at)?);
        }
        bytes.extend(frames);
        Some(Tables { bytes, table_bytes })
    }
}

/// Adds frames to a section that is loaded at `at`, and returns the begin of each one's code, with its own address.
fn add_frames(bytes: &mut Vec<u8>, copies: &[Copied], at: u64) -> Option<Vec<(u64, u64)>> {
    let mut placed = Vec::new();
    let mut shared: HashMap<&[u8], usize> = HashMap::new();
    for copied in copies {
        let common = *shared.entry(&copied.common).or_insert_with(|| add(bytes, copied.common.clone()));
        let begin = bytes.len();
        // Behind the length: how far the common entry is before this.
        let mut entry = u32::try_from(begin + 4 - common).ok()?.to_le_bytes().to_vec();
        entry.extend(distance(copied.at, at.checked_add(begin as u64 + 8)?)?);
        entry.extend(u32::try_from(copied.len).ok()?.to_le_bytes());
        entry.push(0);
        entry.extend_from_slice(&copied.rows);
        placed.push((copied.at, at + add(bytes, entry) as u64));
    }
    bytes.extend([0; 4]);
    Some(placed)
}

/// Adds an entry with its length, and returns where it begins.
fn add(bytes: &mut Vec<u8>, mut entry: Vec<u8>) -> usize {
    const ALIGNMENT: usize = 8;
    let begin = bytes.len();
    let len = (4 + entry.len()).next_multiple_of(ALIGNMENT) - 4;
    // `DW_CFA_nop`
    entry.resize(len, 0);
    bytes.extend((len as u32).to_le_bytes());
    bytes.extend(entry);
    begin
}

fn distance(to: u64, from: u64) -> Option<[u8; 4]> {
    i32::try_from(to.wrapping_sub(from).cast_signed()).ok().map(i32::to_le_bytes)
}

/// `DW_CFA_advance_loc`, or `DW_CFA_advance_loc4` for what is long.
fn advance(bytes: &mut Vec<u8>, len: u64) {
    match len {
        0 => {}
        1..0x40 => bytes.push(0x40 | len as u8),
        _ => {
            bytes.push(0x04);
            bytes.extend((len as u32).to_le_bytes());
        }
    }
}

/// A row's instruction as bytes; `None` for those that name places or are written elsewhere.
fn encode(bytes: &mut Vec<u8>, one: &Row<usize>) -> Option<()> {
    let mut simple = |code: u8, numbers: &[u64]| {
        bytes.push(code);
        numbers.iter().for_each(|number| unsigned(bytes, *number));
    };
    match *one {
        Row::Nop => {}
        Row::Offset { register: Register(number @ 0..0x40), factored_offset } => {
            simple(0x80 | number as u8, &[factored_offset]);
        }
        Row::DefCfa { register, offset } => simple(0x0c, &[register.0.into(), offset]),
        Row::DefCfaRegister { register } => simple(0x0d, &[register.0.into()]),
        Row::DefCfaOffset { offset } => simple(0x0e, &[offset]),
        Row::Undefined { register } => simple(0x07, &[register.0.into()]),
        Row::SameValue { register } => simple(0x08, &[register.0.into()]),
        Row::Offset { register, factored_offset } => simple(0x05, &[register.0.into(), factored_offset]),
        Row::ValOffset { register, factored_offset } => simple(0x14, &[register.0.into(), factored_offset]),
        Row::Register { dest_register, src_register } => {
            simple(0x09, &[dest_register.0.into(), src_register.0.into()]);
        }
        Row::Restore { register } => simple(0x06, &[register.0.into()]),
        Row::RememberState => simple(0x0a, &[]),
        Row::RestoreState => simple(0x0b, &[]),
        Row::ArgsSize { size } => simple(0x2e, &[size]),
        _ => return None,
    }
    Some(())
}

/// LEB128.
fn unsigned(bytes: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        bytes.push(number as u8 | 0x80);
        number >>= 7;
    }
    bytes.push(number as u8);
}

fn signed(bytes: &mut Vec<u8>, mut number: i64) {
    loop {
        let low = number as u8 & 0x7f;
        number >>= 7;
        let is_last = number == 0 && low & 0x40 == 0 || number == -1 && low & 0x40 != 0;
        bytes.push(if is_last { low } else { low | 0x80 });
        if is_last {
            return;
        }
    }
}

/// Whether a table of exceptions (`.gcc_except_table`) leads from one of these bytes of a function to a handler, or
/// from anywhere to between them; `None` when it is not understood.
fn catches(table: &[u8], from: u64, to: u64) -> Option<bool> {
    let mut table = Numbers(table);
    // Else handlers are not counted from the function's begin.
    if table.byte()? != OMITTED {
        return None;
    }
    if table.byte()? != OMITTED {
        table.leb()?;
    }
    let encoding = table.byte()?;
    let len = usize::try_from(table.leb()?).ok()?;
    let mut rows = Numbers(table.0.get(..len)?);
    while !rows.0.is_empty() {
        let (begin, len) = (rows.number(encoding)?, rows.number(encoding)?);
        let (handler, _) = (rows.number(encoding)?, rows.leb()?);
        let throws = handler != 0 && begin < to && begin.saturating_add(len) > from;
        if throws || handler > from && handler < to {
            return Some(true);
        }
    }
    Some(false)
}

/// Numbers as in tables of exceptions.
struct Numbers<'d>(&'d [u8]);

impl Numbers<'_> {
    fn byte(&mut self) -> Option<u8> {
        let (first, rest) = self.0.split_first()?;
        self.0 = rest;
        Some(*first)
    }

    fn leb(&mut self) -> Option<u64> {
        let mut number = 0;
        for shift in (0..u64::BITS).step_by(7) {
            let byte = self.byte()?;
            number |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return Some(number);
            }
        }
        None
    }

    /// One in this format (`DW_EH_PE_...`), which is no address.
    fn number(&mut self, format: u8) -> Option<u64> {
        let bytes = match format {
            0x01 => return self.leb(),
            0x02 => 2,
            0x03 => 4,
            0x00 | 0x04 => 8,
            _ => return None,
        };
        let (number, rest) = self.0.split_at_checked(bytes)?;
        self.0 = rest;
        Some(number.iter().rev().fold(0, |number, byte| number << 8 | u64::from(*byte)))
    }
}
