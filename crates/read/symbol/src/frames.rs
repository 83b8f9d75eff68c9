//! The frames that a file describes for unwinding (`.eh_frame`): stripped files have them, too.

use crate::arch::{ENTRY_OFFSET, RETURN_ADDRESS, STACK_POINTER};
use crate::image::Visit;
use gimli::RegisterRule;
use gimli::{BaseAddresses, CfaRule, CieOrFde, EhFrame, LittleEndian, UnwindContext, UnwindSection};
use object::{Object, ObjectSection, ReadRef};
use std::path::Path;
use std::time::SystemTime;

/// The description of a frame: of a function, or of a part of one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Frame {
    /// Where it begins, in the file's own address space.
    pub address: u64,
    /// Bytes.
    pub len: u64,
    /// It begins as a function does: only the return address lies on the stack.
    pub is_entry: bool,
}

/// Reads the section, which is loaded at `address`, up to where it is damaged.
///
/// # Cost
/// Linear in it: some 10 million frames a second.
#[must_use]
pub fn read(bytes: &[u8], address: u64) -> Vec<Frame> {
    let section = EhFrame::new(bytes, LittleEndian);
    let bases = BaseAddresses::default().set_eh_frame(address);
    let mut context = UnwindContext::new();
    let (mut frames, mut entries) = (Vec::new(), section.entries(&bases));
    while let Ok(Some(entry)) = entries.next() {
        let CieOrFde::Fde(partial) = entry else { continue };
        let Ok(fde) = partial.parse(EhFrame::cie_from_offset) else { continue };
        let mut rows = fde.rows(&section, &bases, &mut context);
        let first = rows.as_mut().ok().and_then(|rows| rows.next_row().ok().flatten());
        let is_entry = first.is_none_or(|row| {
            let has_address = !matches!(row.register(RETURN_ADDRESS), Some(RegisterRule::Undefined));
            let at_entry = CfaRule::RegisterAndOffset { register: STACK_POINTER, offset: ENTRY_OFFSET };
            has_address && *row.cfa() == at_entry
        });
        frames.push(Frame { address: fde.initial_address(), len: fde.len(), is_entry });
    }
    frames
}

/// Reads the frames of a file, by address.
pub(crate) struct OfFile;

impl Visit for OfFile {
    type Answer = Vec<Frame>;

    fn visit<'d, R: ReadRef<'d>>(
        &self,
        _: &Path,
        elf: &object::File<'d, R>,
        _: Option<SystemTime>,
    ) -> Result<Vec<Frame>, object::Error> {
        let Some(section) = elf.section_by_name(".eh_frame") else { return Ok(Vec::new()) };
        let mut frames = read(section.data()?, section.address());
        frames.sort_by_key(|frame| frame.address);
        Ok(frames)
    }
}
