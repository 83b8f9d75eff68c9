//! What unwinding needs of a file that is mapped: its frames' descriptions, and where its segments are.

use framehop::{ExplicitModuleSectionInfo, Module};
use mote_symbol::{Visit, mapped, with_bytes, with_elf};
use object::{Object, ObjectSection, ObjectSegment, ReadRef, SegmentFlags};
use std::collections::HashMap;
use std::ops::Range;
use std::os::fd::AsRawFd;
use std::path::Path;
use std::sync::Arc;
use std::time::SystemTime;

use crate::mappings::Mapped;

/// Most bytes of frames of one file.
const FRAMES_MAX: u64 = 256 << 20;
/// Files that are remembered.
const FILES_MAX: usize = 1024;

/// Bytes that several processes share.
pub(crate) type Bytes = Arc<[u8]>;

/// A file's part in unwinding.
#[derive(Debug, Default)]
struct File {
    text: Option<Range<u64>>,
    header: Option<(Range<u64>, Bytes)>,
    frames: Option<(Range<u64>, Bytes)>,
    /// Address and offset of each segment with code.
    segments: Vec<(u64, Range<u64>)>,
}

/// Files that were looked at, by path and build id.
#[derive(Debug, Default)]
pub(crate) struct Files(HashMap<(String, String), Option<Arc<File>>>);

impl Files {
    /// What a process has mapped there, as the unwinder takes it; `None` when it has no frames.
    pub(crate) fn module(&mut self, pid: u32, map: &Mapped) -> Option<Module<Bytes>> {
        if self.0.len() >= FILES_MAX {
            self.0.clear();
        }
        let key = (map.path.clone(), map.build_id.clone());
        let file = match self.0.get(&key) {
            Some(known) => known.clone()?,
            None => {
                let file = read(pid, map)?.map(Arc::new);
                self.0.insert(key, file.clone());
                file?
            }
        };
        let (address, _) = file.segments.iter().find(|(_, offsets)| offsets.contains(&map.offset))?;
        let offsets = file.segments.iter().find(|(at, _)| at == address).map(|(_, offsets)| offsets.start)?;
        let base = map.start.wrapping_sub(address.wrapping_add(map.offset.wrapping_sub(offsets)));
        let section = |part: &Option<(Range<u64>, Bytes)>| match part {
            Some((range, bytes)) => (Some(range.clone()), Some(bytes.clone())),
            None => (None, None),
        };
        let (eh_frame_svma, eh_frame) = section(&file.frames);
        let (eh_frame_hdr_svma, eh_frame_hdr) = section(&file.header);
        let sections = ExplicitModuleSectionInfo {
            text_svma: file.text.clone(),
            eh_frame_svma,
            eh_frame,
            eh_frame_hdr_svma,
            eh_frame_hdr,
            ..ExplicitModuleSectionInfo::default()
        };
        Some(Module::new(map.path.clone(), map.start..map.end, base, sections))
    }
}

/// Reads the very file that a process has mapped, whatever has its name; `None` when the process is gone, and it cannot
/// be had, `Some(None)` when it has nothing for us.
fn read(pid: u32, map: &Mapped) -> Option<Option<File>> {
    if map.path == "[vdso]" {
        let bytes = mote_symbol::collect::vdso().ok()?;
        return Some(with_bytes(Path::new("[vdso]"), &bytes, Frames { build_id: "" }).ok().flatten());
    }
    if !map.path.starts_with('/') {
        return Some(None);
    }
    let frames = Frames { build_id: &map.build_id };
    let opened = mapped::code(pid).into_iter().find(|mapped| mapped.map.start == map.start);
    let opened = opened.and_then(|mapped| mapped.file?.open(pid, (map.start, map.end), &map.path).ok())?;
    let read = with_elf(Path::new(&format!("/proc/self/fd/{}", opened.as_raw_fd())), frames);
    Some(read.ok().flatten())
}

/// Reads the frames of a file with this build id, or of any.
struct Frames<'b> {
    build_id: &'b str,
}

impl Visit for Frames<'_> {
    type Answer = Option<File>;

    fn visit<'d, R: ReadRef<'d>>(
        &self,
        _: &Path,
        elf: &object::File<'d, R>,
        _: Option<SystemTime>,
    ) -> Result<Option<File>, object::Error> {
        let build_id = elf.build_id()?.unwrap_or_default();
        let build_id: String = build_id.iter().map(|byte| format!("{byte:02x}")).collect();
        if !self.build_id.is_empty() && build_id != self.build_id {
            return Ok(None);
        }
        let mut file = File::default();
        let range = |address: u64, len: u64| address..address.saturating_add(len);
        if let Some(text) = elf.section_by_name(".text") {
            file.text = Some(range(text.address(), text.size()));
        }
        let section = |name: &str| -> Result<Option<(Range<u64>, Bytes)>, object::Error> {
            let Some(found) = elf.section_by_name(name).filter(|found| found.size() <= FRAMES_MAX) else {
                return Ok(None);
            };
            Ok(Some((range(found.address(), found.size()), Arc::from(found.data()?))))
        };
        file.frames = section(".eh_frame")?;
        file.header = section(".eh_frame_hdr")?;
        for segment in elf.segments() {
            if let SegmentFlags::Elf { p_flags, .. } = segment.flags()
                && p_flags.0 & object::elf::PF_X.0 != 0
            {
                let (offset, len) = segment.file_range();
                // Mappings begin where a page does.
                let before = segment.address() % mote_sys::mem::PAGE_BYTES as u64;
                let first = offset.saturating_sub(before);
                file.segments.push((segment.address() - before, range(first, len.saturating_add(before))));
            }
        }
        Ok(Some(file))
    }
}
