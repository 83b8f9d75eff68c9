//! Names for the addresses of a whole recording.

use crate::collect;
use crate::debug::DebugFiles;
use crate::jit::PerfMap;
use crate::kernel::Kernel;
use crate::location::{Doubt, Function, Location};
use crate::module::{Expected, Module};
use crate::space::{Begun, LIBRARY, MapRef, Spaces};
use mote_journal::Map;
use mote_layout::stack::End;
use rustc_hash::FxHashMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

/// Where things are looked for.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Binaries are looked for below this directory; `None`: `/`.
    pub root: Option<PathBuf>,
    /// Where separate debug information is looked for.
    pub debug: DebugFiles,
    /// When the recording ended: a file without a build id that was written later is another one.
    pub not_after: Option<SystemTime>,
}

/// Names for addresses: of the kernel, and of processes at some time.
///
/// # Cost
/// The first address of a file reads its symbols and opens its debug information; an address that was asked for before
/// is two lookups in hash tables.
pub struct Symbols {
    options: Options,
    kernel: Result<Kernel, Doubt>,
    spaces: Spaces,
    files: Vec<Lazy>,
    by_name: FxHashMap<(String, String), u32>,
    compiled: FxHashMap<u32, PerfMap>,
    kernel_known: FxHashMap<(u64, bool), Arc<Location>>,
    known: FxHashMap<(u32, u32, u64, bool), Arc<Location>>,
    doubts: FxHashMap<Doubt, u64>,
}

/// A file that is opened when it is asked for an address.
struct Lazy {
    path: String,
    build_id: String,
    module: Option<Module>,
}

/// What functions are called that `mote.h` makes.
const OF_THE_HEADER: &str = "mote_write_";

/// No mapping.
const NOWHERE: MapRef = MapRef { start: 0, end: 0, offset: 0, module: u32::MAX };

impl Symbols {
    /// Knows no kernel and no process yet.
    #[must_use]
    pub fn new(options: Options) -> Symbols {
        Symbols {
            options,
            kernel: Err(Doubt::NoKernelSymbols),
            spaces: Spaces::default(),
            files: Vec::new(),
            by_name: FxHashMap::default(),
            compiled: FxHashMap::default(),
            kernel_known: FxHashMap::default(),
            known: FxHashMap::default(),
            doubts: FxHashMap::default(),
        }
    }

    /// Reads what the recorder kept in `dir` (names as in [`collect`]); what is not there is not known.
    ///
    /// # Errors
    /// A file is there but cannot be read.
    pub fn read_kept(&mut self, dir: &Path) -> io::Result<()> {
        if let Some(text) = read(&dir.join(collect::KALLSYMS))? {
            self.set_kernel(&String::from_utf8_lossy(&text));
        }
        if let Some(bytes) = read(&dir.join(collect::VDSO))? {
            self.set_vdso(&bytes);
        }
        let Ok(entries) = fs::read_dir(dir) else { return Ok(()) };
        for entry in entries {
            let entry = entry?;
            let Some(pid) = collect::pid_of_perf_map(&entry.file_name()) else { continue };
            if let Some(text) = read(&entry.path())? {
                self.add_perf_map(pid, &String::from_utf8_lossy(&text));
            }
        }
        Ok(())
    }

    /// Takes the kernel's symbols, as [`collect::kallsyms`] made them.
    pub fn set_kernel(&mut self, kallsyms: &str) {
        self.kernel = Kernel::parse(kallsyms).map_err(crate::KernelError::doubt);
    }

    /// Takes the vdso of the machine.
    pub fn set_vdso(&mut self, bytes: &[u8]) {
        let index = self.file("[vdso]", "");
        if let Some(file) = self.files.get_mut(index as usize) {
            file.module = Some(Module::of_bytes("[vdso]", bytes));
        }
    }

    /// Takes the table that a run-time compiler in process `pid` wrote.
    pub fn add_perf_map(&mut self, pid: u32, text: &str) {
        self.compiled.insert(pid, PerfMap::parse(text));
    }

    /// Takes mappings that process `pid` had at `time`.
    pub fn add_process(&mut self, pid: u32, time: i64, begun: Begun, maps: &[Map]) {
        let place = |map: &Map, module| MapRef { start: map.start, end: map.end, offset: map.offset, module };
        let maps = maps.iter().map(|map| place(map, self.file(&map.path, &map.build_id))).collect();
        self.spaces.add(pid, time, begun, maps);
    }

    /// Index of a file; the same path with another build id is another file.
    fn file(&mut self, path: &str, build_id: &str) -> u32 {
        let next = self.files.len() as u32;
        let key = (path.to_owned(), build_id.to_owned());
        let index = *self.by_name.entry(key).or_insert(next);
        if index == next {
            self.files.push(Lazy { path: path.to_owned(), build_id: build_id.to_owned(), module: None });
        }
        index
    }

    /// A stack of the kernel, the innermost frame first; the frames of the tracer's own program are left away.
    pub fn kernel_stack(&mut self, addresses: impl IntoIterator<Item = u64>) -> Vec<Arc<Location>> {
        let mut addresses = addresses.into_iter();
        let mut stack = Vec::new();
        for address in addresses.by_ref() {
            let location = self.kernel_address(address, false);
            let own = location
                .functions
                .first()
                .is_some_and(|function| is_tracer(&location.module, &function.name));
            if !own {
                stack.push(location);
                break;
            }
        }
        stack.extend(addresses.map(|address| self.kernel_address(address, true)));
        stack
    }

    /// A stack of process `pid` at `time`, the innermost frame first. Where it leads to an address that is no code, as
    /// it does behind a function without frame pointers, or to an [`End`], it is cut: the last [`Location`] says why.
    /// What `mote.h` makes of an event in a function of its own is left away.
    pub fn user_stack(
        &mut self,
        pid: u32,
        time: i64,
        addresses: impl IntoIterator<Item = u64>,
    ) -> Vec<Arc<Location>> {
        let (mut stack, mut is_first) = (Vec::new(), true);
        for address in addresses.into_iter().take_while(|address| *address != 0) {
            let returns = !std::mem::replace(&mut is_first, false);
            let why = match End::of(address) {
                Some(End::Copy) => Some(Doubt::Copy),
                Some(End::Code) => Some(Doubt::NoFrames),
                Some(End::Frames) => Some(Doubt::Deep),
                Some(End::Stack) => Some(Doubt::OtherStack),
                None => (returns && self.is_no_code(pid, time, address)).then_some(Doubt::Cut),
            };
            if let Some(why) = why {
                let cut = Location::unknown(address, &Arc::from(""), 0, why);
                stack.push(self.note(cut));
                break;
            }
            let location = self.user_address(pid, time, address, returns);
            let is_ours = location.functions.last().is_some_and(|it| it.name.starts_with(OF_THE_HEADER));
            if stack.is_empty() && is_ours {
                continue;
            }
            stack.push(location);
        }
        stack
    }

    /// Whether the process had nothing executable at an address that a call is said to return to. False when its
    /// mappings are not known.
    fn is_no_code(&self, pid: u32, time: i64, address: u64) -> bool {
        let mapped = |address| self.spaces.find(pid, time, address).is_some();
        // A call may be the last instruction of a mapping.
        let maps = self.spaces.knows(pid) && !mapped(address) && !mapped(address - 1);
        maps && self.compiled.get(&pid).is_none_or(|table| in_table(table, address, 1).is_none())
    }

    /// An address of the kernel; `returns` when it is one that a call returns to, so that the call before it is meant.
    pub fn kernel_address(&mut self, address: u64, returns: bool) -> Arc<Location> {
        if let Some(known) = self.kernel_known.get(&(address, returns)) {
            return known.clone();
        }
        let location = match &self.kernel {
            Ok(kernel) => kernel.locate(address, address.saturating_sub(u64::from(returns))),
            Err(doubt) => Location::unknown(address, &Arc::from("kernel"), 0, doubt.clone()),
        };
        let location = self.note(location);
        self.kernel_known.insert((address, returns), location.clone());
        location
    }

    /// An address of process `pid` at `time`.
    pub fn user_address(&mut self, pid: u32, time: i64, address: u64, returns: bool) -> Arc<Location> {
        let map = self.spaces.find(pid, time, address).unwrap_or(NOWHERE);
        let key = (pid, map.module, address, returns);
        if let Some(known) = self.known.get(&key) {
            return known.clone();
        }
        let location = self.resolve(pid, map, address, u64::from(returns));
        let location = self.note(location);
        self.known.insert(key, location.clone());
        location
    }

    fn resolve(&mut self, pid: u32, map: MapRef, address: u64, back: u64) -> Location {
        let compiled =
            |symbols: &Symbols| symbols.compiled.get(&pid).and_then(|table| in_table(table, address, back));
        let Symbols { files, options, .. } = self;
        let Some(file) = files.get_mut(map.module as usize) else {
            let doubt = if self.spaces.knows(pid) { Doubt::NotMapped } else { Doubt::NoProcess(pid) };
            return compiled(self).unwrap_or_else(|| Location::unknown(address, &Arc::from(""), 0, doubt));
        };
        let offset = address - map.start;
        if file.path == "[anon]" {
            let found = compiled(self);
            return found.unwrap_or_else(|| {
                Location::unknown(address, &Arc::from("[anon]"), offset, Doubt::Generated)
            });
        }
        let module = file.module.get_or_insert_with(|| open(&file.path, &file.build_id, options));
        let offset = offset.wrapping_add(map.offset);
        let known = module.at(offset, back);
        Location {
            address,
            module: module.label.clone(),
            module_offset: offset,
            functions: known.functions.clone(),
            begin: known.begin,
            doubt: known.doubt.clone(),
        }
    }

    fn note(&mut self, location: Location) -> Arc<Location> {
        if let Some(doubt) = &location.doubt {
            *self.doubts.entry(doubt.clone()).or_default() += 1;
        }
        Arc::new(location)
    }

    /// Why addresses have no name, and how many different ones, the most frequent reason first.
    #[must_use]
    pub fn doubts(&self) -> Vec<(&Doubt, u64)> {
        let mut doubts: Vec<(&Doubt, u64)> =
            self.doubts.iter().map(|(doubt, count)| (doubt, *count)).collect();
        doubts.sort_by_key(|(doubt, count)| (u64::MAX - count, doubt.to_string()));
        doubts
    }
}

fn open(path: &str, build_id: &str, options: &Options) -> Module {
    if path == LIBRARY {
        return Module::unknown(path, Doubt::Ours);
    }
    if path.starts_with('[') {
        return Module::unknown(path, Doubt::Missing(Arc::from(path)));
    }
    let expected = Expected { path, build_id, not_after: options.not_after };
    Module::open(expected, options.root.as_deref(), &options.debug)
}

fn in_table(table: &PerfMap, address: u64, back: u64) -> Option<Location> {
    let (name, offset) = table.find(address.saturating_sub(back))?;
    let function = Function { name: Arc::from(name), offset: Some(offset + back), line: None };
    let module = Arc::from("[jit]");
    Some(Location { address, module, module_offset: 0, functions: vec![function], begin: None, doubt: None })
}

/// Functions between a tracepoint and the program that runs there.
fn is_tracer(module: &str, name: &str) -> bool {
    module == "bpf"
        || [
            "bpf_prog_",
            "bpf_trace_run",
            "__bpf_",
            "bpf_get_stack",
            "__traceiter_",
            "bpf_trampoline_",
            "trace_call_bpf",
        ]
        .iter()
        .any(|start| name.starts_with(start))
}

fn read(path: &Path) -> io::Result<Option<Vec<u8>>> {
    match fs::read(path) {
        Ok(bytes) => Ok(Some(bytes)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn map(start: u64, end: u64) -> Map {
        Map { start, end, offset: 0, path: "/no/such/program".to_owned(), build_id: String::new() }
    }

    #[test]
    fn a_stack_that_leads_to_no_code_ends_there() {
        let mut symbols = Symbols::new(Options::default());
        symbols.add_process(7, 0, Begun::Anew, &[map(0x1000, 0x2000), map(0x8000, 0x9000)]);
        let mut lines = |pid, addresses: &[u64]| -> Vec<String> {
            let stack = symbols.user_stack(pid, 1, addresses.iter().copied());
            stack.iter().flat_map(|location| location.lines()).collect()
        };
        let (first, second) = ("0x1010 [program+0x10]", "0x8020 [program+0x20]");
        assert_eq!(lines(7, &[0x1010, 0x8020]), [first, second], "all of it is code");
        assert_eq!(lines(7, &[0x1010, 0x8020, 0x5, 0x1020]), [first, second, "[cut short]"]);
        assert_eq!(
            lines(7, &[0x1010, 0x2000, 0x7fff_0000]),
            [first, "0x2000", "[cut short]"],
            "behind a last call"
        );
        for end in [End::Code, End::Copy, End::Frames, End::Stack] {
            assert_eq!(lines(7, &[0x1010, 0x8020, end as u64]), [first, second, "[cut short]"]);
            assert_eq!(lines(8, &[end as u64]), ["[cut short]"], "nothing is known of it");
        }
        assert_eq!(lines(7, &[0x5, 0x1010]), ["0x5", "0x1010 [program+0x10]"], "it is where the program is");
        assert_eq!(lines(8, &[0x1010, 0x5]), ["0x1010", "0x5"], "nothing is known of it");
        symbols.add_perf_map(7, "5000 100 js:price\n");
        let stack = symbols.user_stack(7, 1, [0x1010, 0x5010, 0x6000]);
        let folded: Vec<String> = stack.iter().flat_map(|location| location.folded()).collect();
        assert_eq!(folded, ["[program]", "js:price", "[cut]"]);
        assert!(symbols.doubts().iter().any(|(doubt, count)| **doubt == Doubt::Cut && *count == 3));
    }
}
