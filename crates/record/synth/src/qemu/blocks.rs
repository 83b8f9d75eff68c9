//! What is known of a process's code: blocks of instructions as qemu translates them, and where they come from
//! (`PID.blocks`; `plugin.c` has the format).

use crate::block::Block;
use std::collections::HashMap;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::rc::Rc;

const FORKED: u32 = 1;
const BLOCK: u32 = 2;
const IMAGE: u32 = 3;
const PROGRAM: u32 = 4;
const PAGE: u32 = 5;

/// A part of a file, by the number that blocks have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Part {
    pub(super) start: u64,
    pub(super) end: u64,
    pub(super) offset: u64,
    pub(super) path: PathBuf,
}

/// The blocks and images of a process.
#[derive(Clone, Debug, Default)]
pub(super) struct Blocks {
    /// By their id, less 1.
    blocks: Vec<Option<Rc<Block>>>,
    images: HashMap<u32, Part>,
    /// What it has become.
    programs: HashMap<u32, PathBuf>,
    /// Whether the file of each block was looked at.
    mapped: Vec<bool>,
    /// Which parts of files the observer knows of.
    reported: Vec<Part>,
    /// Counts how often what threads have said of code came to count no more.
    generation: u32,
    /// Where code was met that is not what its file has there: from, and to.
    changed: Vec<(u64, u64)>,
    /// Files that were opened; nothing where one is not there.
    files: HashMap<PathBuf, Option<Rc<File>>>,
    /// Code of no file as it was copied, in that order.
    pages: Vec<Page>,
}

/// Code that was copied when it became executable, or was executed for the first time since it had been written to.
#[derive(Clone, Debug)]
pub(super) struct Page {
    /// The block that was translated next.
    pub(super) before: u32,
    pub(super) start: u64,
    pub(super) bytes: Rc<[u8]>,
}

/// A process that was forked, and had so many blocks then.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Forked {
    pub(super) parent: i32,
    pub(super) blocks: usize,
}

/// Ids that are believed: more blocks than any program has.
const BLOCKS_MAX: usize = 1 << 26;

impl Blocks {
    /// The block of this id.
    pub(super) fn get(&self, id: u32) -> Option<&Rc<Block>> {
        self.blocks.get((id as usize).checked_sub(1)?)?.as_ref()
    }

    /// The code that was copied behind the first `seen` copies, and before a block was translated.
    pub(super) fn pages(&self, seen: usize, block: u32) -> impl Iterator<Item = &Page> {
        self.pages.iter().skip(seen).take_while(move |page| page.before <= block)
    }

    /// Of one generation, what a thread has said of code counts.
    pub(super) fn generation(&self) -> u32 {
        self.generation
    }

    /// How much code was copied so far.
    pub(super) fn pages_count(&self) -> usize {
        self.pages.len()
    }

    /// The part of a file that a block is of, where the block is executed for the first time, and the part is new, or
    /// mapped again where another one was since. Whichever thread comes first says so for all.
    pub(super) fn new_part(&mut self, id: u32, number: u32) -> Option<Part> {
        let is_mapped = self.mapped.get_mut((id as usize).checked_sub(1)?)?;
        if std::mem::replace(is_mapped, true) {
            return None;
        }
        let part = self.images.get(&number).filter(|part| !self.reported.contains(part))?.clone();
        self.reported.retain(|other| other.end <= part.start || part.end <= other.start);
        let changes = self.changed.len();
        self.changed.retain(|(from, to)| *to <= part.start || part.end <= *from);
        if self.changed.len() < changes {
            // What threads have said of it counts no more.
            self.generation += 1;
        }
        self.reported.push(part.clone());
        Some(part)
    }

    /// Whether the code of a block has to be said: it is of no file; or it was changed in memory, or changed back.
    pub(super) fn is_own_code(&mut self, block: &Block) -> bool {
        let Some(part) = self.images.get(&block.image) else { return true };
        let end = block.start.wrapping_add(block.bytes.len() as u64);
        let of_file = self.files.entry(part.path.clone());
        let file = of_file.or_insert_with_key(|path| File::open(path).ok().map(Rc::new));
        let Some(file) = file else { return false };
        let mut there = vec![0; block.bytes.len()];
        let at = part.offset.wrapping_add(block.start.wrapping_sub(part.start));
        let is_as_file = file.read_exact_at(&mut there, at).is_err() || there == block.bytes;
        let was_changed = self.changed.iter().any(|(from, to)| *from < end && block.start < *to);
        if !is_as_file && !was_changed {
            self.changed.push((block.start, end));
        }
        !is_as_file || was_changed
    }

    /// The process has become the program of this number: what was mapped is gone.
    pub(super) fn exec(&mut self, number: u32) -> PathBuf {
        self.reported.clear();
        self.changed.clear();
        self.programs.get(&number).cloned().unwrap_or_default()
    }

    /// What a process has that is forked with so many blocks.
    pub(super) fn fork(&self, blocks: usize) -> Blocks {
        let mut child = self.clone();
        child.blocks.truncate(blocks);
        child.mapped = vec![false; child.blocks.len()];
        child.pages.retain(|page| page.before as usize <= blocks);
        child.reported.clear();
        child.changed.clear();
        child
    }

    /// Takes the records at the begin of `bytes`, as far as they are whole. Returns how many bytes they have, and the
    /// parent, where one of them names it: it is the first one then, and nothing behind it has been taken.
    ///
    /// # Errors
    /// What is wrong with them.
    pub(super) fn take(&mut self, bytes: &[u8]) -> Result<(usize, Option<Forked>), &'static str> {
        let mut rest = bytes;
        while let Some((kind, body, behind)) = record(rest) {
            rest = behind;
            match kind {
                FORKED => {
                    let forked = forked(body).ok_or("a fork is not described")?;
                    return Ok((bytes.len() - rest.len(), Some(forked)));
                }
                BLOCK => self.add(body).ok_or("a block is not described as it should be")?,
                IMAGE => {
                    let (number, part) = part(body).ok_or("an image is not described as it should be")?;
                    self.images.insert(number, part);
                }
                PAGE => self.pages.push(page(body).ok_or("a page is not described as it should be")?),
                PROGRAM => {
                    let (number, path) = u32_of(body).ok_or("a program is not described as it should be")?;
                    self.programs.insert(number, String::from_utf8_lossy(path).into_owned().into());
                }
                _ => return Err("a record is of no kind that is known"),
            }
        }
        Ok((bytes.len() - rest.len(), None))
    }

    fn add(&mut self, body: &[u8]) -> Option<()> {
        let (start, body) = u64_of(body)?;
        let (id, body) = u32_of(body)?;
        let (image, body) = u32_of(body)?;
        let (count, body) = u32_of(body)?;
        let (lengths, bytes) = body.split_at_checked(count as usize)?;
        let at = (id as usize).checked_sub(1).filter(|at| *at < BLOCKS_MAX)?;
        let block = Block::new(start, image, lengths, bytes)?;
        if self.blocks.len() <= at {
            self.blocks.resize(at + 1, None);
            self.mapped.resize(at + 1, false);
        }
        *self.blocks.get_mut(at)? = Some(Rc::new(block));
        Some(())
    }
}

fn record(bytes: &[u8]) -> Option<(u32, &[u8], &[u8])> {
    let (kind, rest) = u32_of(bytes)?;
    let (length, rest) = u32_of(rest)?;
    let (body, behind) = rest.split_at_checked(length as usize)?;
    Some((kind, body, behind))
}

fn forked(body: &[u8]) -> Option<Forked> {
    let (parent, body) = u32_of(body)?;
    let (next, _) = u32_of(body)?;
    Some(Forked { parent: parent as i32, blocks: (next as usize).checked_sub(1)? })
}

fn part(body: &[u8]) -> Option<(u32, Part)> {
    let (start, body) = u64_of(body)?;
    let (end, body) = u64_of(body)?;
    let (offset, body) = u64_of(body)?;
    let (number, path) = u32_of(body)?;
    Some((number, Part { start, end, offset, path: String::from_utf8_lossy(path).into_owned().into() }))
}

fn page(body: &[u8]) -> Option<Page> {
    let (start, body) = u64_of(body)?;
    let (before, bytes) = u32_of(body)?;
    Some(Page { before, start, bytes: bytes.into() })
}

fn u32_of(bytes: &[u8]) -> Option<(u32, &[u8])> {
    bytes.split_first_chunk().map(|(word, rest)| (u32::from_le_bytes(*word), rest))
}

fn u64_of(bytes: &[u8]) -> Option<(u64, &[u8])> {
    bytes.split_first_chunk().map(|(word, rest)| (u64::from_le_bytes(*word), rest))
}
