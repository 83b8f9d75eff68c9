//! The events of running processes, and whether they are on.
//!
//! All objects that a process has mapped are looked at: its program and the libraries that it has loaded so far. The
//! state of a site is read from the process's memory through `/proc/PID/mem`, which does not stop or disturb it.

use crate::arch::{SITE_BYTES, state_of};
use crate::error::Error;
use crate::event::{Carrier, Engine, Event, Site, State};
use crate::file::{self, Image, Segment};
use mote_layout::site::{PROBED, STACK, SWITCH_OFFSET, Switch};
use mote_symbol::collect;
use mote_symbol::mapped::{self, FileId};
use mote_sys::mem::PAGE_BYTES;
use std::collections::HashMap;
use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::rc::Rc;

/// A process that carries events.
#[derive(Clone, Debug)]
pub struct Process {
    /// Its id.
    pub pid: u32,
    /// Its name.
    pub comm: String,
    /// The program and libraries in it that carry events.
    pub carriers: Vec<Carrier>,
    /// Why the state of its sites is not known, if it is not.
    pub state_unknown: Option<String>,
}

impl Process {
    /// Number of its events.
    pub fn events(&self) -> usize {
        self.carriers.iter().map(|carrier| carrier.events.len()).sum()
    }

    /// Number of its events that are on, at one site at least; `None` when not known.
    pub fn events_on(&self) -> Option<usize> {
        let all = self.carriers.iter().flat_map(|carrier| &carrier.events);
        self.state_unknown.is_none().then(|| all.filter(|event| event.sites_on() > Some(0)).count())
    }
}

/// The events of the process `pid`; one that carries none has no carriers.
///
/// # Errors
/// There is no such process, or it may not be looked into.
pub fn read(pid: u32) -> Result<Process, Error> {
    Files::default().process(pid)
}

/// All other processes that carry events, by id, and the number of processes that may not be looked into.
///
/// # Cost
/// Reads the memory map of each process, and the headers of each file that is mapped as code, once.
pub fn all() -> (Vec<Process>, usize) {
    let mut files = Files::default();
    let mut found = Vec::new();
    let mut forbidden = 0;
    let mut pids: Vec<u32> = collect::processes().filter(|pid| *pid != std::process::id()).collect();
    pids.sort_unstable();
    for pid in pids {
        match files.process(pid) {
            Ok(process) if process.carriers.is_empty() => {}
            Ok(process) => found.push(process),
            Err(Error::Forbidden(_)) => forbidden += 1,
            // It has ended meanwhile, or is a kernel thread.
            Err(_) => {}
        }
    }
    (found, forbidden)
}

/// Files that were read already; `None` for those that carry nothing.
#[derive(Default)]
struct Files(HashMap<FileId, Option<Rc<Image>>>);

impl Files {
    fn process(&mut self, pid: u32) -> Result<Process, Error> {
        let of_process = |path: &Path, error| Error::of_process(pid, path.to_owned(), error);
        let path = PathBuf::from(format!("/proc/{pid}/maps"));
        let maps = mapped::read_table(&path).map_err(|error| of_process(&path, error))?;
        let maps: Vec<Map> = maps.lines().filter_map(Map::parse).collect();
        let memory = PathBuf::from(format!("/proc/{pid}/mem"));
        let memory = File::open(&memory).map_err(|error| of_process(&memory, error));
        let mut carriers = Vec::new();
        let mut seen = Vec::new();
        for map in maps.iter().filter(|map| map.is_code) {
            if seen.contains(&&map.file) {
                continue;
            }
            seen.push(&map.file);
            if let Some(image) = self.image(pid, map) {
                let mut carrier = image.carrier.clone();
                carrier.path = PathBuf::from(&map.path);
                let bias =
                    maps.iter().filter(|of| of.file == map.file).find_map(|of| of.bias(&image.segments));
                if let (Ok(memory), Some(bias)) = (&memory, bias) {
                    let sites = carrier.events.iter_mut().flat_map(|event: &mut Event| &mut event.sites);
                    sites.for_each(|site| {
                        site.state = state(memory, bias, site);
                        site.filter = filter(memory, bias, site);
                    });
                }
                carriers.push(carrier);
            }
        }
        let comm = fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
        let state_unknown = memory.err().map(|error| error.to_string());
        Ok(Process { pid, comm: comm.trim_end().to_owned(), carriers, state_unknown })
    }

    /// The file behind a mapping, if it carries events.
    fn image(&mut self, pid: u32, map: &Map) -> Option<Rc<Image>> {
        let known = self.0.entry(map.file).or_insert_with(|| {
            let path = if map.is_deleted { "" } else { &map.path };
            let open = map.file.open(pid, (map.start, map.end), path).ok()?;
            let image = file::is_elf(&open).then(|| file::image(Path::new(&map.path), &open))?;
            image.ok().filter(|image| !image.carrier.events.is_empty()).map(Rc::new)
        });
        known.clone()
    }
}

/// One line of `/proc/PID/maps` that maps a file.
#[derive(Debug, PartialEq, Eq)]
struct Map {
    start: u64,
    end: u64,
    offset: u64,
    is_code: bool,
    file: FileId,
    path: String,
    is_deleted: bool,
}

impl Map {
    fn parse(line: &str) -> Option<Map> {
        let mut rest = line;
        let mut word = || {
            let (word, behind) = rest.trim_start().split_once(' ')?;
            rest = behind;
            Some(word)
        };
        let (range, flags, offset, _, _) = (word()?, word()?, word()?, word()?, word()?);
        let (start, end) = range.split_once('-')?;
        let hex = |text| u64::from_str_radix(text, 16).ok();
        let path = rest.trim_start();
        let is_deleted = path.ends_with(" (deleted)");
        Some(Map {
            start: hex(start)?,
            end: hex(end)?,
            offset: hex(offset)?,
            is_code: flags.contains('x'),
            file: FileId::parse(line)?,
            path: path.trim_end_matches(" (deleted)").to_owned(),
            is_deleted,
        })
    }

    /// What to add to addresses of the file, when this mapping is of one of its segments.
    fn bias(&self, segments: &[Segment]) -> Option<u64> {
        let down = |address: u64| address & !(PAGE_BYTES as u64 - 1);
        let segment = segments.iter().find(|segment| down(segment.offset) == self.offset)?;
        Some(self.start.wrapping_sub(down(segment.address)))
    }
}

/// The word of the site's event that says whether it is on.
fn switch(memory: &File, bias: u64, site: &Site) -> Option<u32> {
    let mut switch = [0; 4];
    let at = bias.wrapping_add(site.event).wrapping_add(SWITCH_OFFSET as u64);
    memory.read_exact_at(&mut switch, at).ok()?;
    Some(u32::from_le_bytes(switch))
}

/// What runs the filter of the site's event.
fn filter(memory: &File, bias: u64, site: &Site) -> Option<Engine> {
    let word = switch(memory, bias, site)?;
    match word & !(PROBED | STACK) {
        word if word == Switch::Filtered as u32 => Some(Engine::Jit),
        word if word == Switch::Interpreted as u32 => Some(Engine::Interpreter),
        _ => None,
    }
}

/// Reads whether a site is on.
fn state(memory: &File, bias: u64, site: &Site) -> Option<State> {
    let Some(code) = site.code else {
        return Some(if switch(memory, bias, site)? == 0 { State::Off } else { State::On });
    };
    let mut bytes = [0; SITE_BYTES];
    memory.read_exact_at(&mut bytes, bias.wrapping_add(code)).ok()?;
    Some(state_of(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_a_map_are_read() {
        let map = Map::parse("55d0-55f0 r-xp 00001000 fe:00 1234                       /opt/a b (deleted)")
            .expect("a map");
        assert_eq!((map.start, map.end, map.offset, map.is_code), (0x55d0, 0x55f0, 0x1000, true));
        assert_eq!((map.path.as_str(), map.is_deleted), ("/opt/a b", true));
        assert_eq!(map.file, FileId { device: (0xfe, 0), inode: 1234 });
        assert_eq!(Map::parse("7ffd-7fff rw-p 00000000 00:00 0    [stack]"), None);
        assert_eq!(Map::parse("nonsense"), None);
        assert_eq!(Map::parse(""), None);
    }

    #[test]
    fn the_bias_is_that_of_the_segment_with_the_same_offset() {
        let segments = [
            Segment { offset: 0, address: 0, len: 0x900 },
            Segment { offset: 0x900, address: 0x1900, len: 0x900 },
            Segment { offset: 0x2100, address: 0x5100, len: 0x10 },
        ];
        let map = |start, offset| Map {
            start,
            end: start + 0x1000,
            offset,
            is_code: true,
            file: FileId { device: (0, 0), inode: 1 },
            path: String::new(),
            is_deleted: false,
        };
        assert_eq!(map(0x7000_5000, 0x2000).bias(&segments), Some(0x7000_0000));
        assert_eq!(map(0x7000_0000, 0x3000).bias(&segments), None);
    }
}
