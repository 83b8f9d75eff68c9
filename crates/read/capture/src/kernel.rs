//! The kernel's code as it is in memory: patched where it has static keys, and moved where it has modules.
//!
//! `/proc/kcore` is an ELF file with the kernel's memory, for root; `/proc/kallsyms` says where its code is. perf keeps
//! copies of both (`perf record --kcore`). What changes later is told by records, with its bytes (text_poke) or without
//! (programs of eBPF).

use crate::elf;
use crate::note::{Image, What};
use mote_symbol::code_symbol;
use mote_symbol::collect::kallsyms;
use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

/// The kernel's memory.
pub const KCORE: &str = "/proc/kcore";
/// Bytes of code that are copied.
const CODE_MAX: u64 = 128 << 20;
/// Most bytes of code of a module.
const MODULE_MAX: u64 = 16 << 20;
/// What has Intel PT (`EM_X86_64` of elf(5)).
const X86_64: u16 = 62;
/// Bytes of a page.
const PAGE: u64 = 0x1000;

/// The kernel's memory, as an ELF file.
#[derive(Debug)]
pub struct Kcore {
    file: File,
    /// Where it begins, how many bytes it has, and where they are in the file.
    segments: Vec<[u64; 3]>,
}

impl Kcore {
    /// Opens `/proc/kcore`, or a file as it is.
    ///
    /// # Errors
    /// There is none, only root may read it, or it is no such file.
    pub fn open(path: &Path) -> io::Result<Kcore> {
        let file = File::open(path)?;
        let mut header = [0; 64];
        file.read_exact_at(&mut header, 0)?;
        let wrong = || io::Error::new(io::ErrorKind::InvalidData, "it is no ELF file of 64 bits");
        if !header.starts_with(b"\x7fELF\x02\x01") {
            return Err(wrong());
        }
        let word = |at: usize| {
            header.get(at..).and_then(|rest| rest.first_chunk()).map(|bytes| u64::from_le_bytes(*bytes))
        };
        let half = |at: usize| u64::from(u16::from_le_bytes([header[at], header[at + 1]]));
        let (at, each, count) = (word(32).ok_or_else(wrong)?, half(54), half(56));
        if each < 56 {
            return Err(wrong());
        }
        let mut segments = Vec::new();
        for number in 0..count {
            let mut bytes = [0; 56];
            file.read_exact_at(&mut bytes, at.saturating_add(number * each))?;
            let (words, _) = bytes.as_chunks::<8>();
            let word = |number: usize| words.get(number).map_or(0, |word| u64::from_le_bytes(*word));
            // PT_LOAD: offset, address, physical address, bytes in the file.
            if word(0) as u32 == 1 {
                segments.push([word(2), word(4), word(1)]);
            }
        }
        Ok(Kcore { file, segments })
    }

    /// The bytes at an address.
    ///
    /// # Errors
    /// They are not in the file, or cannot be read.
    pub fn read(&self, start: u64, bytes: u64) -> io::Result<Vec<u8>> {
        let has =
            |[at, len, _]: &&[u64; 3]| start >= *at && start - at < *len && *len - (start - at) >= bytes;
        let missing = || io::Error::new(io::ErrorKind::NotFound, format!("it has no memory at {start:#x}"));
        let [at, _, place] = self.segments.iter().find(has).ok_or_else(missing)?;
        let mut code = vec![0; bytes as usize];
        self.file.read_exact_at(&mut code, place + (start - at))?;
        Ok(code)
    }
}

/// The kernel's code, and the names of its functions.
#[derive(Debug)]
pub struct Code {
    parts: Vec<(u64, Vec<u8>)>,
    /// `/proc/kallsyms`.
    symbols: String,
    /// What could not be read, or was too much.
    pub problem: Option<String>,
}

impl Code {
    /// That of this machine.
    ///
    /// # Errors
    /// Its memory or its symbols cannot be read.
    pub fn read(kcore: &Kcore) -> io::Result<Code> {
        Code::by_symbols(kcore, kallsyms()?)
    }

    /// That of a machine whose `/proc/kallsyms` was so.
    ///
    /// # Errors
    /// No symbol says where code is, or its memory cannot be read.
    pub fn by_symbols(kcore: &Kcore, symbols: String) -> io::Result<Code> {
        let (mut parts, mut left, mut problem) = (Vec::new(), CODE_MAX, None);
        for (start, end) in ranges(&symbols) {
            let bytes = end - start;
            let code = if bytes > left {
                Err(io::Error::other(format!("more than {} MiB", CODE_MAX >> 20)))
            } else {
                kcore.read(start, bytes)
            };
            match code {
                Ok(code) => {
                    parts.push((start, code));
                    left -= bytes;
                }
                Err(why) => {
                    problem
                        .get_or_insert_with(|| format!("kernel code at {start:#x} is not recorded: {why}"));
                }
            }
        }
        if parts.is_empty() {
            return Err(io::Error::other(problem.unwrap_or_else(|| "no symbol says where it is".to_owned())));
        }
        Ok(Code { parts, symbols, problem })
    }

    /// The code of the file at `path`, which is [`Code::file`]'s, as notes say it.
    pub fn images(&self, path: &Path) -> impl Iterator<Item = What> {
        let image = move |(start, bytes, offset)| Image {
            start,
            bytes,
            path: path.to_owned(),
            offset,
            build_id: None,
        };
        self.places().map(move |place| What::Image(image(place)))
    }

    /// The parts: where each is, how many bytes it has, and where these are in the file.
    fn places(&self) -> impl Iterator<Item = (u64, u64, u64)> {
        let places = elf::places(&self.parts.iter().map(|(_, code)| code.len()).collect::<Vec<_>>());
        let parts = self.parts.iter().zip(places);
        parts.map(|((start, code), place)| (*start, code.len() as u64, place))
    }

    /// The code as an ELF file.
    #[must_use]
    pub fn file(&self) -> Vec<u8> {
        let parts: Vec<(u64, &[u8])> =
            self.parts.iter().map(|(start, code)| (*start, code.as_slice())).collect();
        let symbols = self.symbols.lines().filter_map(code_symbol);
        let mut functions: Vec<(u64, &str)> = symbols.map(|(address, name, _)| (address, name)).collect();
        // Of several names of a place that by which the kernel's table calls a system call.
        functions.sort_unstable_by_key(|(address, name)| (*address, !name.starts_with("__x64_sys_"), *name));
        functions.dedup_by_key(|(address, _)| *address);
        elf::file(X86_64, &parts, &functions)
    }
}

/// Where code is: from `_stext` to `_etext`, and, in whole pages, from the first function of a module to the last one;
/// of what is no module (`bpf`), the pages of each function. They do not overlap.
fn ranges(kallsyms: &str) -> Vec<(u64, u64)> {
    let (mut text, mut etext) = (None, None);
    let mut modules: BTreeMap<&str, (u64, u64)> = BTreeMap::new();
    let mut all = Vec::new();
    let page = |address: u64| address / PAGE * PAGE;
    for (address, name, module) in kallsyms.lines().filter_map(code_symbol) {
        match (name, module) {
            ("_stext", None) => text = Some(address),
            ("_etext", None) => etext = Some(address),
            (_, None) => {}
            (_, Some(module)) if module == "bpf" || module.starts_with("__builtin") => {
                all.push((page(address), page(address).saturating_add(2 * PAGE)));
            }
            (_, Some(module)) => {
                let (first, last) = modules.entry(module).or_insert((address, address));
                (*first, *last) = ((*first).min(address), (*last).max(address));
            }
        }
    }
    all.extend(text.zip(etext).filter(|(text, etext)| text < etext));
    let small = |(first, last): &&(u64, u64)| last - first < MODULE_MAX;
    let modules = modules.values().filter(small);
    all.extend(modules.map(|(first, last)| (page(*first), page(*last).saturating_add(PAGE))));
    all.sort_unstable();
    let mut joined: Vec<(u64, u64)> = Vec::new();
    for (start, end) in all {
        match joined.last_mut() {
            Some((_, last)) if start <= *last => *last = (*last).max(end),
            _ => joined.push((start, end)),
        }
    }
    joined
}

#[cfg(test)]
mod tests {
    use super::*;
    use mote_symbol::Image;

    const SYMBOLS: &str = "ffffffff81000000 T _stext\nffffffff81000000 T first\nffffffff81000010 t __do_sys_two\n\
        ffffffff81000010 T __x64_sys_two\nffffffff81000040 T _etext\nffffffff82000000 t later\n\
        ffffffffc0000010 t in_module\t[m]\nffffffffc0001020 t end_of_module\t[m]\n\
        ffffffffc0002000 t bpf_prog_1\t[bpf]\n";

    #[test]
    fn code_is_where_symbols_are() {
        let expect =
            [(0xffff_ffff_8100_0000, 0xffff_ffff_8100_0040), (0xffff_ffff_c000_0000, 0xffff_ffff_c000_4000)];
        assert_eq!(ranges(SYMBOLS), expect);
        assert_eq!(ranges(""), []);
    }

    #[test]
    fn it_is_copied_from_memory() {
        let folder = tempfile::tempdir().expect("a directory");
        let path = folder.path().join("kcore");
        // What is an ELF file of some memory is what kcore is.
        let (text, module): (Vec<u8>, Vec<u8>) = ((0..64).collect(), vec![0xcc; 0x4000]);
        let memory = [(0xffff_ffff_8100_0000, text.as_slice()), (0xffff_ffff_c000_0000, module.as_slice())];
        std::fs::write(&path, elf::file(X86_64, &memory, &[])).expect("a file");
        let kcore = Kcore::open(&path).expect("it is opened");
        let code = Code::by_symbols(&kcore, SYMBOLS.to_owned()).expect("code");
        assert_eq!(code.problem, None);
        let places: Vec<_> = code.places().collect();
        assert_eq!(places, [(memory[0].0, 64, 4096), (memory[1].0, 0x4000, 8192)]);
        let bytes = code.file();
        assert_eq!(bytes[4096..4096 + 64], text);
        let image = Image::from_bytes(Path::new("kernel"), &bytes).expect("ELF");
        let names: Vec<String> = image.table.iter().map(|symbol| symbol.name.to_owned()).collect();
        for name in ["__x64_sys_two", "in_module", "end_of_module", "bpf_prog_1"] {
            assert!(names.iter().any(|found| found == name), "{names:?}");
        }
        assert!(!names.iter().any(|found| found == "__do_sys_two" || found == "later"), "{names:?}");
        // A part that is not there is said, and the rest is copied.
        std::fs::write(&path, elf::file(X86_64, &memory[..1], &[])).expect("a file");
        let kcore = Kcore::open(&path).expect("it is opened");
        let code = Code::by_symbols(&kcore, SYMBOLS.to_owned()).expect("code");
        assert_eq!(code.places().count(), 1);
        assert!(code.problem.is_some_and(|problem| problem.contains("0xffffffffc0000000 is not recorded")));
        assert!(Code::by_symbols(&kcore, String::new()).is_err());
        std::fs::write(&path, "text").expect("a file");
        assert!(Kcore::open(&path).is_err());
    }
}
