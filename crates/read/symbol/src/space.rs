//! Address spaces of processes over time: what was mapped where, when.

use mote_journal::Map;
use rustc_hash::FxHashMap;

/// What the recording says of the memory of its processes.
#[derive(Debug, Default)]
pub(crate) struct Spaces {
    processes: FxHashMap<u32, Vec<Seen>>,
}

/// The mappings of a process, as they were seen at some moment.
#[derive(Debug)]
struct Seen {
    /// In nanoseconds; the recording's clock.
    from: i64,
    begun: Begun,
    maps: Vec<MapRef>,
}

/// What a look at a process's mappings means for those before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Begun {
    /// They are still there, as far as nothing was mapped over them.
    Before,
    /// They are gone: the process is new, or runs another program.
    Anew,
    /// They are another process's: it was forked by the process with this id, whose mappings it has.
    Fork(u32),
}

impl Begun {
    fn is_new(self) -> bool {
        self != Begun::Before
    }
}

/// Longest chain of forks without an exec that is followed.
const FORKS_MAX: usize = 64;

/// A mapping: a part of a module.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct MapRef {
    pub(crate) start: u64,
    pub(crate) end: u64,
    pub(crate) offset: u64,
    /// Index of the module.
    pub(crate) module: u32,
}

impl Spaces {
    /// The mappings that `pid` had at `from`.
    pub(crate) fn add(&mut self, pid: u32, from: i64, begun: Begun, maps: Vec<MapRef>) {
        let seen = self.processes.entry(pid).or_default();
        let at = seen.partition_point(|other| other.from <= from);
        seen.insert(at, Seen { from, begun, maps });
    }

    pub(crate) fn knows(&self, pid: u32) -> bool {
        self.processes.contains_key(&pid)
    }

    /// What lay at `address` of `pid` at `time`: as it was seen last before, else as it was seen next, for what is
    /// mapped between two looks; the program that ran before an exec, or runs after the next one, is not asked. A
    /// process that was forked has what its parent had then.
    pub(crate) fn find(&self, pid: u32, time: i64, address: u64) -> Option<MapRef> {
        let (mut pid, mut time) = (pid, time);
        for _ in 0..FORKS_MAX {
            match self.find_own(pid, time, address)? {
                Found::Map(map) => return Some(map),
                Found::Parent(parent, at) => (pid, time) = (parent, at),
            }
        }
        None
    }

    fn find_own(&self, pid: u32, time: i64, address: u64) -> Option<Found> {
        let seen = self.processes.get(&pid)?;
        // A process that is first seen when it traces existed before.
        let now = seen.partition_point(|seen| seen.from <= time).max(1);
        let (before, after) = seen.split_at_checked(now)?;
        let within =
            |seen: &Seen| seen.maps.iter().rev().find(|map| (map.start..map.end).contains(&address)).copied();
        let first = before.iter().rposition(|seen| seen.begun.is_new()).unwrap_or(0);
        let earlier = before.get(first..)?.iter().rev().find_map(within);
        let found = earlier.or_else(|| after.iter().take_while(|seen| !seen.begun.is_new()).find_map(within));
        match (found, before.get(first)) {
            (Some(map), _) => Some(Found::Map(map)),
            // At the same time at the earliest: a process cannot be its own ancestor.
            (None, Some(Seen { begun: Begun::Fork(parent), from, .. })) if *parent != pid => {
                Some(Found::Parent(*parent, (*from).min(time)))
            }
            _ => None,
        }
    }
}

/// Where an address was found, or has to be looked for.
enum Found {
    Map(MapRef),
    /// In this process, at that time.
    Parent(u32, i64),
}

/// What mappings call our library where a recorder has loaded it from memory, as the kernel says it.
pub const IN_MEMORY: &str = "/memfd:libmote.so";
/// The path that it has here.
pub const LIBRARY: &str = "[libmote.so]";

/// Parses a line of `/proc/PID/maps` (proc_pid_maps(5)) when the mapping holds code.
///
/// Code without a file has the path `[anon]`; the kernel's pages in a process have their names, `[vdso]`; our library,
/// which recorders load from memory, is [`LIBRARY`].
pub(crate) fn code_map(line: &str) -> Option<Map> {
    let mut words = line.splitn(6, ' ');
    let (start, end) = words.next()?.split_once('-')?;
    let executable = words.next()?.as_bytes().get(2) == Some(&b'x');
    let offset = words.next()?;
    let path = words.nth(2).unwrap_or_default().trim_start();
    if !executable {
        return None;
    }
    let hex = |digits: &str| u64::from_str_radix(digits, 16).ok();
    let path = match path {
        "" => "[anon]",
        path if path.starts_with(IN_MEMORY) => LIBRARY,
        path if path.starts_with("[anon:") || path.starts_with("/memfd:") || path.starts_with("//anon") => {
            "[anon]"
        }
        path => path,
    };
    Some(Map {
        start: hex(start)?,
        end: hex(end)?,
        offset: hex(offset)?,
        path: path.to_owned(),
        build_id: String::new(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn map(start: u64, module: u32) -> MapRef {
        MapRef { start, end: start + 0x1000, offset: 0, module }
    }

    #[test]
    fn mappings_of_the_time() {
        let mut spaces = Spaces::default();
        spaces.add(7, 100, Begun::Anew, vec![map(0x1000, 0)]);
        spaces.add(7, 200, Begun::Before, vec![map(0x1000, 0), map(0x5000, 1)]);
        spaces.add(7, 300, Begun::Anew, vec![map(0x1000, 2)]);
        let find = |time, address| spaces.find(7, time, address).map(|map| map.module);
        assert_eq!(find(150, 0x1800), Some(0));
        assert_eq!(find(50, 0x1800), Some(0), "before it was first seen");
        assert_eq!(find(150, 0x5000), Some(1), "mapped between two looks");
        assert_eq!(find(300, 0x1800), Some(2), "another program");
        assert_eq!(find(300, 0x5000), None, "of the program before");
        assert_eq!(find(150, 0x2000), None, "behind the last byte");
        assert_eq!(spaces.find(8, 0, 0x1000), None);
        assert!(spaces.knows(7) && !spaces.knows(8));
        spaces.add(9, 250, Begun::Fork(7), vec![]);
        spaces.add(9, 260, Begun::Before, vec![map(0x9000, 3)]);
        spaces.add(10, 400, Begun::Fork(9), vec![]);
        let find = |pid, time, address| spaces.find(pid, time, address).map(|map| map.module);
        assert_eq!(find(9, 280, 0x5000), Some(1), "what its parent had");
        assert_eq!(find(10, 900, 0x9000), Some(3), "what the parent of a parent had");
        assert_eq!(find(10, 900, 0x1000), Some(0), "not what the parent ran later");
        spaces.add(11, 400, Begun::Fork(11), vec![]);
        assert_eq!(spaces.find(11, 900, 0x2000), None);
    }

    #[test]
    fn lines_of_maps() {
        assert!(code_map("55d0-55d1 r--p 0 00:00 0 /x").is_none());
        assert!(code_map("").is_none());
        let map = code_map("10-20 r-xp 30 fe:00 7      /a b (deleted)").expect("code");
        assert_eq!((map.start, map.end, map.offset, map.path.as_str()), (16, 32, 48, "/a b (deleted)"));
        assert_eq!(code_map("10-20 rwxp 0 00:00 0 ").map(|map| map.path).as_deref(), Some("[anon]"));
        let library = code_map("10-20 r-xp 1000 00:01 7    /memfd:libmote.so (deleted)");
        assert_eq!(library.map(|map| map.path).as_deref(), Some(LIBRARY));
        assert_eq!(code_map("10-20 r-xp 0 00:00 0    [vdso]").map(|map| map.path).as_deref(), Some("[vdso]"));
    }
}
