//! Where in a process there is room for code and memory, and where its C library's functions are.

use crate::code::Code;
use crate::error::Error;
use mote_symbol::IN_MEMORY;
use mote_symbol::mapped::{self, Bounded, Mapped};
use object::elf::PF_X;
use object::{Object, ObjectSegment, ObjectSymbol, ReadCache, SegmentFlags};
use std::fs::File;
use std::ops::Range;
use std::os::unix::fs::FileExt;

/// Most bytes that are read of one file, and most files that are looked into.
const READ_MAX: u64 = 64 << 20;
const FILES_MAX: usize = 4096;
/// The lowest address for memory, and the highest.
const LOWEST: u64 = 1 << 32;
const HIGHEST: u64 = 0x7fff_0000_0000;

/// What was found.
pub(crate) struct Image {
    pub(crate) room: Room,
    /// A place where nothing is mapped.
    pub(crate) hole: u64,
}

/// Bytes of executable memory that are part of no program: behind the end of a binary's code, up to the end of its last
/// page, or of the kernel's.
pub(crate) struct Room {
    pub(crate) address: u64,
    /// What is there by the file, whatever an earlier recorder has left in the memory.
    pub(crate) before: Vec<u8>,
    /// Addresses of the functions, in the order in which they were asked for.
    pub(crate) functions: Vec<u64>,
}

/// Looks for room for code whose first `fixed` bytes are always the same, and for functions.
pub(crate) fn read(
    pid: u32,
    memory: &File,
    functions: &[&str],
    (own, fixed): (&[u8], usize),
) -> Result<Image, Error> {
    let left = own.get(..fixed).unwrap_or(own);
    let (mut room, mut found) = (None, None);
    for mapped in mapped::code(pid).iter().take(FILES_MAX) {
        let Some(file) = mapped
            .file
            .and_then(|file| file.open(pid, (mapped.map.start, mapped.map.end), &mapped.map.path).ok())
        else {
            continue;
        };
        let Ok(headers) = file.try_clone().map(|file| Bounded::new(file, READ_MAX)) else { continue };
        let Some(code) = Code::of(&headers, mapped) else { continue };
        room = room.or_else(|| {
            let address = room_behind(&code, mapped, own.len() as u64)?;
            let offset = (address - mapped.map.start).checked_add(mapped.map.offset)?;
            let before = bytes_of(&file, offset, own.len())?;
            let mut now = vec![0; own.len()];
            memory.read_exact_at(&mut now, address).ok()?;
            (now == before || now.starts_with(left)).then_some((address, before))
        });
        found = found.or_else(|| addresses(file, code.bias, functions));
    }
    let functions = found.ok_or(Error::NoLoader)?;
    let (address, before) =
        room.or_else(|| room_in_vdso(pid, memory, own.len(), left)).ok_or(Error::NoRoom)?;
    let hole = hole(pid, &[]).ok_or(Error::NoRoom)?;
    Ok(Image { room: Room { address, before, functions }, hole })
}

/// Where behind the end of a file's code there is room.
fn room_behind(code: &Code, mapped: &Mapped, bytes: u64) -> Option<u64> {
    let from = code.end.next_multiple_of(16);
    let is_there = code.end > mapped.map.start && from.checked_add(bytes)? <= mapped.map.end;
    is_there.then_some(from)
}

/// Where at the end of the kernel's own code in the process there are only zeros, up to the end of its last page: for a
/// static program, whose file may have no room. The kernel has that memory so that debuggers may write there
/// (`VM_MAYWRITE`, arch/x86/entry/vdso/vma.c).
fn room_in_vdso(pid: u32, memory: &File, bytes: usize, left: &[u8]) -> Option<(u64, Vec<u8>)> {
    let maps = mapped::table(&format!("/proc/{pid}/maps"));
    let end = maps.lines().find(|line| line.ends_with("[vdso]")).and_then(mapped::addresses)?.end;
    let address = end.checked_sub(bytes as u64)? & !15;
    let mut now = vec![0; (end - address) as usize];
    memory.read_exact_at(&mut now, address).ok()?;
    let is_free = now.starts_with(left) || now.iter().all(|byte| *byte == 0);
    is_free.then(|| (address, vec![0; bytes]))
}

/// So many bytes of a file, as they are in memory: zeros behind its end.
fn bytes_of(file: &File, mut offset: u64, len: usize) -> Option<Vec<u8>> {
    let mut bytes = vec![0; len];
    let mut left = bytes.as_mut_slice();
    while !left.is_empty() {
        match file.read_at(left, offset).ok()? {
            0 => break,
            read => (left, offset) = (left.get_mut(read..)?, offset + read as u64),
        }
    }
    Some(bytes)
}

/// Where functions are that a file exports; `None` when it has not all of them.
fn addresses(file: File, bias: u64, functions: &[&str]) -> Option<Vec<u64>> {
    let cache = ReadCache::new(file);
    let elf = object::File::parse(&cache).ok()?;
    let mut found = vec![None; functions.len()];
    for symbol in elf.dynamic_symbols().filter(|symbol| symbol.is_definition()) {
        let Ok(name) = symbol.name() else { continue };
        if let Some(to) = functions.iter().position(|wanted| *wanted == name).and_then(|at| found.get_mut(at))
        {
            *to = Some(bias.wrapping_add(symbol.address()));
        }
    }
    found.into_iter().collect()
}

/// Code of libraries that were loaded from memory by recorders: where it is, and from which offset of its file on.
pub(crate) fn ours(pid: u32) -> Vec<(Range<u64>, u64)> {
    let maps = mapped::table(&format!("/proc/{pid}/maps"));
    let one = |line: &str| {
        let words: Vec<&str> = line.split_ascii_whitespace().collect();
        let [_, protection, offset, _, _, path, ..] = words.get(..)? else { return None };
        let is_code = protection.contains('x') && *path == IN_MEMORY;
        is_code.then_some((mapped::addresses(line)?, u64::from_str_radix(offset, 16).ok()?))
    };
    maps.lines().filter_map(one).collect()
}

/// Where these functions of a library of ours are that another recorder has loaded, if it is the same.
pub(crate) fn loaded(pid: u32, memory: &File, library: &[u8], functions: [&str; 2]) -> Option<[u64; 2]> {
    let elf = object::File::parse(library).ok()?;
    let address = |name: &str| {
        let mut symbols = elf.dynamic_symbols().filter(|symbol| symbol.is_definition());
        Some(symbols.find(|symbol| symbol.name() == Ok(name))?.address())
    };
    let code = elf.segments().find(|segment| match segment.flags() {
        SegmentFlags::Elf { p_flags, .. } => p_flags.contains(PF_X),
        _ => false,
    })?;
    let (offset, _) = code.file_range();
    ours(pid).into_iter().find_map(|(range, from)| {
        let begin = range.start.wrapping_sub(from).wrapping_add(offset);
        let own = usize::try_from(offset).ok().and_then(|at| library.get(at..)?.first_chunk::<4096>())?;
        let mut theirs = [0; 4096];
        memory.read_exact_at(&mut theirs, begin).ok()?;
        let bias = begin.wrapping_sub(code.address());
        let found = functions.map(|name| Some(bias.wrapping_add(address(name)?)));
        let [Some(first), Some(second)] = found else { return None };
        (theirs == *own).then_some([first, second])
    })
}

/// Where a process has mapped something, by address.
pub(crate) fn mappings(pid: u32) -> Vec<Range<u64>> {
    mapped::table(&format!("/proc/{pid}/maps")).lines().filter_map(mapped::addresses).collect()
}

/// A place for memory of ours, away from all that is mapped, or will be: what the kernel chooses next lies elsewhere.
pub(crate) fn hole(pid: u32, planned: &[Range<u64>]) -> Option<u64> {
    const AWAY: u64 = 1 << 30;
    let mut taken = mappings(pid);
    if taken.is_empty() {
        return None;
    }
    taken.extend_from_slice(planned);
    taken.sort_unstable_by_key(|range| range.start);
    let mut low = LOWEST;
    for Range { start, end } in taken {
        if start.saturating_sub(low) > 2 * AWAY {
            break;
        }
        low = low.max(end);
    }
    (HIGHEST.saturating_sub(low) > 2 * AWAY).then_some((low + AWAY) & !0xffff)
}
