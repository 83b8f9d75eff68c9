//! What is known of the code of each process, and what is to be said when a block is executed that is not.
//!
//! The kernel's addresses are the same in all of them: its code is apart. A block that a process has executed before is
//! known there, until other code is met at its address. A process that runs in its parent's address space (vfork) has
//! code of its own nevertheless, so that readers need to know only which process runs.

use super::contents::{Code, Part};
use crate::arch::PAGE;
use crate::block::Block;
use crate::observer::{Image, Note};
use std::collections::{BTreeSet, HashMap};
use std::path::{Path, PathBuf};
use std::rc::Rc;

/// Notes about the kernel have this process.
pub(super) const KERNEL: i32 = -1;

/// Instructions' bytes that a block can have at most: those of a page, and an instruction that begins there.
const BLOCK_MAX: u64 = 2 * PAGE as u64;

/// Bytes of a thread's name (TASK_COMM_LEN, less the 0 behind it).
const NAME_MAX: usize = 15;

/// All code.
#[derive(Debug)]
pub(super) struct Spaces {
    /// The kernel's first.
    spaces: Vec<Space>,
    /// Those of processes.
    by_pid: HashMap<i32, usize>,
    /// What each processor runs, and which processor is meant.
    cpus: Vec<Cpu>,
    cpu: usize,
    /// Whose address space it is, by CR3, of those in which programs were executed.
    owners: HashMap<u64, i32>,
    files: Code,
    /// Pages as the plugin has met them last.
    pages: HashMap<u64, (Rc<Part>, u64)>,
}

/// A processor: the process that it runs, where its code is, and its address space.
#[derive(Clone, Copy, Debug)]
struct Cpu {
    pid: i32,
    space: usize,
    cr3: u64,
}

/// An address space.
#[derive(Debug, Default)]
struct Space {
    /// Which blocks are known, by their number.
    known: Vec<bool>,
    /// The same ones, by address.
    by_address: BTreeSet<(u64, u32)>,
    pages: HashMap<u64, Page>,
    images: Vec<(u64, Rc<Part>)>,
}

/// The bytes of a page that are known.
#[derive(Debug)]
struct Page(Box<[Option<u8>; PAGE]>);

/// What code is, beside what is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Found {
    Same,
    New,
    Other,
}

impl Spaces {
    /// Nothing is known but the kernel's code, which is part of a file; of so many processors.
    pub(super) fn new(files: Code, cpus: usize) -> Spaces {
        Spaces {
            spaces: vec![Space::default()],
            by_pid: HashMap::new(),
            cpus: vec![Cpu { pid: KERNEL, space: 0, cr3: 0 }; cpus.max(1)],
            cpu: 0,
            owners: HashMap::new(),
            files,
            pages: HashMap::new(),
        }
    }

    /// The kernel's code is this, at an address.
    pub(super) fn add_kernel(&mut self, start: u64, part: Part) {
        if let Some(kernel) = self.spaces.first_mut() {
            kernel.images.push((start, Rc::new(part)));
        }
    }

    /// What follows is of this processor, which is one of those that there are.
    pub(super) fn turn(&mut self, cpu: usize) {
        self.cpu = cpu;
    }

    fn now(&self) -> Cpu {
        self.cpus[self.cpu]
    }

    /// This process runs.
    pub(super) fn run(&mut self, pid: i32) {
        let next = self.spaces.len();
        let space = *self.by_pid.entry(pid).or_insert(next);
        if space == next {
            self.spaces.push(Space::default());
        }
        let now = &mut self.cpus[self.cpu];
        (now.pid, now.space) = (pid, space);
    }

    /// The process that runs is another program.
    pub(super) fn exec(&mut self) {
        let current = self.now().space;
        if let Some(space) = self.spaces.get_mut(current).filter(|_| current > 0) {
            *space = Space::default();
        }
    }

    /// CR3 has this value.
    pub(super) fn enter(&mut self, cr3: u64) {
        self.cpus[self.cpu].cr3 = cr3;
    }

    /// The address space of this CR3 is no more.
    pub(super) fn free(&mut self, cr3: u64) {
        self.owners.remove(&cr3);
    }

    /// A page of a program was met.
    pub(super) fn page(&mut self, address: u64, bytes: &[u8]) {
        match self.files.find(bytes) {
            Some(found) => self.pages.insert(address, found),
            None => self.pages.remove(&address),
        };
    }

    /// Whether a block is known where it is executed.
    #[inline]
    pub(super) fn knows(&self, id: u32, block: &Block) -> bool {
        let space = self.spaces.get(self.at(block.start));
        space.is_some_and(|space| space.known.get(id as usize) == Some(&true))
    }

    fn at(&self, address: u64) -> usize {
        if address >> 63 == 0 { self.now().space } else { 0 }
    }

    /// What is to be said before a block is executed that is not known there.
    pub(super) fn meet(&mut self, id: u32, block: &Block, mut say: impl FnMut(Note)) {
        let (at, Cpu { pid, cr3, .. }) = (self.at(block.start), self.now());
        let Some(space) = self.spaces.get_mut(at) else { return };
        let pid = if at == 0 { KERNEL } else { pid };
        if at > 0 {
            self.owners.entry(cr3).or_insert_with(|| {
                say(Note::AddressSpace { pid, cr3 });
                pid
            });
        }
        let mut found = space.compare(block);
        let page = block.start & !(PAGE as u64 - 1);
        if let (Found::New, Some((part, behind))) = (found, self.pages.get(&page)) {
            let start = page.wrapping_sub(*behind);
            if space.add_image(start, part) {
                say(Note::Image(Image {
                    pid,
                    start,
                    bytes: part.bytes.len() as u64,
                    path: part.path.clone(),
                    offset: part.offset,
                }));
                found = space.compare(block);
            }
        }
        if found != Found::Same {
            say(Note::Code { pid, start: block.start, bytes: block.bytes.clone() });
            space.replace(block, found);
        }
        space.know(id, block);
    }

    /// The guest's file of a process's name, of which the kernel keeps the first 15 bytes.
    pub(super) fn file(&self, name: &str) -> PathBuf {
        let is_it = |path: &&Path| {
            let file = path.file_name().unwrap_or_default().to_string_lossy();
            file == name || (name.len() == NAME_MAX && file.starts_with(name))
        };
        self.files.paths().filter(is_it).min().map_or_else(|| name.into(), Path::to_owned)
    }
}

impl Space {
    fn compare(&mut self, block: &Block) -> Found {
        let known = (block.start..).zip(&block.bytes).map(|(address, byte)| {
            let page = address & !(PAGE as u64 - 1);
            let images = &self.images;
            let page = self.pages.entry(page).or_insert_with(|| Page::of(page, images));
            match page.0.get((address % PAGE as u64) as usize).copied().flatten() {
                Some(known) if known == *byte => Found::Same,
                Some(_) => Found::Other,
                None => Found::New,
            }
        });
        known.max().unwrap_or(Found::Same)
    }

    /// Adds a part of a file, where nothing is known yet.
    fn add_image(&mut self, start: u64, part: &Rc<Part>) -> bool {
        let end = start.wrapping_add(part.bytes.len() as u64);
        let overlaps =
            |other: &(u64, Rc<Part>)| other.0 < end && start < other.0 + other.1.bytes.len() as u64;
        let is_known =
            |(at, page): (&u64, &Page)| (start..end).contains(at) && page.0.iter().any(Option::is_some);
        if self.images.iter().any(overlaps) || self.pages.iter().any(is_known) {
            return false;
        }
        self.images.push((start, Rc::clone(part)));
        self.pages.retain(|at, _| !(start..end).contains(at));
        true
    }

    /// Has the bytes of a block where others were or none. Blocks that overlap others are not known any more.
    fn replace(&mut self, block: &Block, found: Found) {
        for (address, byte) in (block.start..).zip(&block.bytes) {
            let page = self.pages.get_mut(&(address & !(PAGE as u64 - 1)));
            if let Some(known) = page.and_then(|page| page.0.get_mut((address % PAGE as u64) as usize)) {
                *known = Some(*byte);
            }
        }
        if found != Found::Other {
            return;
        }
        let end = block.start.wrapping_add(block.bytes.len() as u64);
        let around = (block.start.saturating_sub(BLOCK_MAX), 0)..(end, 0);
        let unknown: Vec<_> = self.by_address.range(around).copied().collect();
        for (address, id) in unknown {
            self.by_address.remove(&(address, id));
            if let Some(known) = self.known.get_mut(id as usize) {
                *known = false;
            }
        }
    }

    fn know(&mut self, id: u32, block: &Block) {
        let at = id as usize;
        if self.known.len() <= at {
            self.known.resize(at + 1, false);
        }
        if let Some(known) = self.known.get_mut(at) {
            *known = true;
        }
        self.by_address.insert((block.start, id));
    }
}

impl Page {
    /// What parts of files have there.
    fn of(page: u64, images: &[(u64, Rc<Part>)]) -> Page {
        let mut known = Box::new([None; PAGE]);
        for (start, part) in images {
            let Some(behind) = page.checked_sub(*start) else { continue };
            let bytes = part.bytes.get(behind as usize..).unwrap_or_default();
            known.iter_mut().zip(bytes).for_each(|(known, byte)| *known = Some(*byte));
        }
        Page(known)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn block(start: u64, bytes: &[u8]) -> Block {
        Block::new(start, 0, &vec![1; bytes.len()], bytes).expect("a block")
    }

    /// What is said when a block is executed.
    fn said(spaces: &mut Spaces, id: u32, block: &Block) -> Vec<Note> {
        let mut notes = Vec::new();
        if !spaces.knows(id, block) {
            spaces.meet(id, block, |note| notes.push(note));
        }
        notes
    }

    fn code(pid: i32, start: u64, bytes: &[u8]) -> Note {
        Note::Code { pid, start, bytes: bytes.to_vec() }
    }

    #[test]
    fn code_is_said_once_and_again_when_it_changes() {
        let mut spaces = Spaces::new(Code::default(), 1);
        spaces.run(7);
        spaces.enter(0x1000);
        let (old, new, other) =
            (block(0x40_0000, &[0x90, 0xc3]), block(0x40_0000, &[0xf8, 0xc3]), block(0x50_0000, &[0xc3]));
        let begin = Note::AddressSpace { pid: 7, cr3: 0x1000 };
        assert_eq!(said(&mut spaces, 1, &old), [begin, code(7, 0x40_0000, &[0x90, 0xc3])]);
        assert_eq!(said(&mut spaces, 1, &old), []);
        assert_eq!(said(&mut spaces, 2, &other), [code(7, 0x50_0000, &[0xc3])]);
        assert_eq!(said(&mut spaces, 3, &new), [code(7, 0x40_0000, &[0xf8, 0xc3])]);
        // Back again: the block is known no more. What lies elsewhere is.
        assert_eq!(said(&mut spaces, 1, &old), [code(7, 0x40_0000, &[0x90, 0xc3])]);
        assert_eq!(said(&mut spaces, 2, &other), []);
    }

    #[test]
    fn the_kernel_is_the_same_everywhere_and_programs_are_not() {
        let mut spaces = Spaces::new(Code::default(), 1);
        let start = 0xffff_ffff_8100_0000;
        spaces.add_kernel(start, Part { path: "kernel".into(), offset: 0, bytes: vec![0x90; PAGE] });
        let kernel = block(start + 8, &[0x90]);
        let patched = block(start + 9, &[0xc3]);
        let user = block(0x40_0000, &[0xc3]);
        let of = |pid| code(pid, 0x40_0000, &[0xc3]);
        let space = |pid, cr3| Note::AddressSpace { pid, cr3 };
        spaces.run(7);
        spaces.enter(0x1000);
        assert_eq!(said(&mut spaces, 1, &kernel), []);
        assert_eq!(said(&mut spaces, 2, &patched), [code(KERNEL, start + 9, &[0xc3])]);
        assert_eq!(said(&mut spaces, 3, &user), [space(7, 0x1000), of(7)]);
        // A child in its parent's address space, then in its own as another program.
        spaces.run(8);
        assert_eq!(said(&mut spaces, 2, &patched), []);
        assert_eq!(said(&mut spaces, 3, &user), [of(8)]);
        spaces.exec();
        spaces.enter(0x2000);
        assert_eq!(said(&mut spaces, 3, &user), [space(8, 0x2000), of(8)]);
        // The first one is as it was; and the address space becomes another one's.
        spaces.run(7);
        spaces.enter(0x1000);
        assert_eq!(said(&mut spaces, 3, &user), []);
        spaces.free(0x1000);
        spaces.run(9);
        assert_eq!(said(&mut spaces, 3, &user), [space(9, 0x1000), of(9)]);
    }
}
