//! What the kernel says of a process: executable, mappings, build ids.

use mote_journal::Map;
use object::{Object, ReadCache};
use std::collections::HashMap;
use std::fs::{self, OpenOptions};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

/// Path of the executable; empty when the process has gone or may not be looked at.
pub(crate) fn executable(pid: i32) -> String {
    fs::read_link(format!("/proc/{pid}/exe"))
        .map_or_else(|_| String::new(), |path| path.display().to_string())
}

/// The executable mappings of a process, without build ids.
pub(crate) fn maps(pid: i32) -> Vec<Map> {
    let text = fs::read_to_string(format!("/proc/{pid}/maps")).unwrap_or_default();
    text.lines().filter_map(executable_map).collect()
}

/// A line of `/proc/PID/maps` (proc_pid_maps(5)) when the mapping is executable and of a file.
fn executable_map(line: &str) -> Option<Map> {
    let mut words = line.splitn(6, ' ');
    let (start, end) = words.next()?.split_once('-')?;
    let executable = words.next()?.contains('x');
    let offset = words.next()?;
    let path = words.nth(2)?.trim_start();
    if !executable || !path.starts_with('/') {
        return None;
    }
    let hex = |digits: &str| u64::from_str_radix(digits, 16).ok();
    Some(Map {
        start: hex(start)?,
        end: hex(end)?,
        offset: hex(offset)?,
        path: path.to_owned(),
        build_id: String::new(),
    })
}

/// Build ids of files, each read once.
#[derive(Debug, Default)]
pub(crate) struct BuildIds(HashMap<String, String>);

impl BuildIds {
    /// Puts the build ids into `maps`.
    pub(crate) fn fill(&mut self, maps: &mut [Map]) {
        for map in maps {
            let known = self.0.entry(map.path.clone()).or_insert_with(|| read(Path::new(&map.path)));
            map.build_id.clone_from(known);
        }
    }
}

fn read(path: &Path) -> String {
    // The mapping's name is the process's choice: it may be a pipe that nobody writes to.
    let careful = libc::O_NONBLOCK | libc::O_NOCTTY;
    let file = OpenOptions::new().read(true).custom_flags(careful).open(path).ok();
    let Some(file) = file.filter(|file| file.metadata().is_ok_and(|data| data.is_file())) else {
        return String::new();
    };
    let cache = ReadCache::new(file);
    let id = object::File::parse(&cache).ok().and_then(|elf| Some(elf.build_id().ok()??.to_vec()));
    id.unwrap_or_default().iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn maps_of_this_process() {
        let maps = maps(std::process::id() as i32);
        let own = std::env::current_exe().expect("known");
        assert!(maps.iter().any(|map| Path::new(&map.path) == own), "{maps:?}");
        assert!(executable_map("55d0-55d1 r--p 0 00:00 0 /x").is_none());
        assert!(executable_map("").is_none());
        let map = executable_map("10-20 r-xp 30 fe:00 7      /a b").expect("executable");
        assert_eq!((map.start, map.end, map.offset, map.path.as_str()), (16, 32, 48, "/a b"));
    }
}
