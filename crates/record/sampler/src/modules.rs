//! What unwinding needs of a file that is mapped: its frames' descriptions, and where its segments are.

use crate::arch::RESTORER;
use crate::library;
use framehop::{ExplicitModuleSectionInfo, Module};
use mote_journal::Map;
use mote_symbol::mapped::{self, Mapped};
use mote_symbol::{LIBRARY, Segment, Visit, build_id, segments, shift_of_code, with_bytes, with_elf};
use object::{Object, ObjectSection, ReadRef};
use std::cell::LazyCell;
use std::collections::HashMap;
use std::ops::Range;
use std::os::fd::AsRawFd;
use std::path::Path;
use std::sync::Arc;
use std::time::SystemTime;

/// Most bytes of frames of one file.
const FRAMES_MAX: u64 = 256 << 20;
/// Code of more bytes is not searched for where handlers return to: it is of a C library, or of a program that has one
/// in it.
const TEXT_MAX: u64 = 8 << 20;
/// Most such places of one file.
const RESTORERS_MAX: usize = 8;
/// Files that are remembered.
const FILES_MAX: usize = 1024;

/// Bytes that several processes share.
pub(crate) type Bytes = Arc<[u8]>;

/// A file's part in unwinding.
#[derive(Debug, Default)]
pub(crate) struct File {
    pub(crate) text: Option<Range<u64>>,
    pub(crate) header: Option<(Range<u64>, Bytes)>,
    pub(crate) frames: Option<(Range<u64>, Bytes)>,
    pub(crate) segments: Vec<Segment>,
    /// Where handlers of signals return to.
    pub(crate) restorers: Vec<u64>,
    /// What knows of return addresses that were replaced.
    pub(crate) finder: Option<u64>,
}

/// A mapping of code whose frames are known.
pub(crate) struct Known {
    pub(crate) code: Range<u64>,
    pub(crate) module: Module<Bytes>,
    /// Where handlers of signals return to.
    pub(crate) restorers: Vec<u64>,
    /// What knows of return addresses that were replaced.
    pub(crate) finder: Option<u64>,
}

/// Files that were looked at, by path and build id.
#[derive(Debug, Default)]
pub(crate) struct Files(HashMap<(String, String), Option<Arc<File>>>);

impl Files {
    /// What a process has mapped, as the unwinder takes it, but for what has no frames.
    pub(crate) fn modules<'m>(&mut self, pid: u32, maps: impl Iterator<Item = &'m Map>) -> Vec<Known> {
        let now = LazyCell::new(|| mapped::code(pid));
        maps.filter_map(|map| self.module(pid, map, || file_of(pid, map, &now))).collect()
    }

    fn module(&mut self, pid: u32, map: &Map, read: impl FnOnce() -> Option<Option<File>>) -> Option<Known> {
        if self.0.len() >= FILES_MAX {
            self.0.clear();
        }
        // What is in memory may have no build id.
        let is_alike = map.path != LIBRARY || !map.build_id.is_empty();
        let id = if is_alike { map.build_id.clone() } else { format!("{pid} {:x}", map.start) };
        let key = (map.path.clone(), id);
        let file = match self.0.get(&key) {
            Some(known) => known.clone()?,
            None => {
                let file = read()?.map(Arc::new);
                self.0.insert(key, file.clone());
                file?
            }
        };
        let base = shift_of_code(&file.segments, map.start, map.offset)?;
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
        let code = map.start..map.end;
        let restorers = file.restorers.iter().map(|at| at.wrapping_add(base));
        let restorers = restorers.filter(|at| code.contains(at)).collect();
        let finder = file.finder.map(|at| at.wrapping_add(base)).filter(|at| code.contains(at));
        let module = Module::new(map.path.clone(), code.clone(), base, sections);
        Some(Known { code, module, restorers, finder })
    }
}

/// Reads the very file that a process has mapped, whatever has its name, by what it has mapped `now`; when the process
/// is gone the file with its name, if that has its build id. `None` when it cannot be had, `Some(None)` when it has
/// nothing for us.
fn file_of(
    pid: u32,
    map: &Map,
    now: &LazyCell<Vec<Mapped>, impl FnOnce() -> Vec<Mapped>>,
) -> Option<Option<File>> {
    if map.path == "[vdso]" {
        let bytes = mote_symbol::collect::vdso().ok()?;
        return Some(with_bytes(Path::new("[vdso]"), &bytes, Frames { build_id: "" }).ok().flatten());
    }
    if map.path == LIBRARY {
        // It may not be there as a whole yet.
        return library::read(pid, map).map(Some);
    }
    if !map.path.starts_with('/') {
        return Some(None);
    }
    let frames = Frames { build_id: &map.build_id };
    let is_it = |mapped: &&Mapped| mapped.map.start == map.start && mapped.map.path == map.path;
    let found = now.iter().find(is_it);
    let open = |mapped: &Mapped| mapped.file?.open(pid, (map.start, map.end), &map.path).ok();
    // It may have ended in between, too.
    let named = || if map.build_id.is_empty() { None } else { mapped::open_named(&map.path).ok() };
    let opened = found.and_then(open).or_else(named)?;
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
        if !self.build_id.is_empty() && build_id(elf) != self.build_id {
            return Ok(None);
        }
        let mut file = File { segments: segments(elf), ..File::default() };
        let range = |address: u64, len: u64| address..address.saturating_add(len);
        if let Some(text) = elf.section_by_name(".text") {
            file.text = Some(range(text.address(), text.size()));
            if text.size() <= TEXT_MAX {
                let code = text.data()?;
                let found = code.windows(RESTORER.len()).enumerate().filter(|(_, bytes)| *bytes == RESTORER);
                file.restorers =
                    found.take(RESTORERS_MAX).map(|(at, _)| text.address() + at as u64).collect();
            }
        }
        let section = |name: &str| -> Result<Option<(Range<u64>, Bytes)>, object::Error> {
            let Some(found) = elf.section_by_name(name).filter(|found| found.size() <= FRAMES_MAX) else {
                return Ok(None);
            };
            Ok(Some((range(found.address(), found.size()), Arc::from(found.data()?))))
        };
        file.frames = section(".eh_frame")?;
        file.header = section(".eh_frame_hdr")?;
        Ok(Some(file))
    }
}
