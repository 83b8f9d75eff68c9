//! Placeholders for binaries that were built without any: the entry of a function becomes a jump to a pad, which has a
//! placeholder, the instructions that made room for the jump, and the way back.
//!
//! | the entry | becomes |
//! |---|---|
//! | one instruction of five bytes or more, or several that nothing jumps between | a jump to the pad |
//! | two bytes or more | a short jump to padding nearby, that no function uses; there, a jump to the pad |
//! | neither | as it was ([`Refusal`]) |
//!
//! Instructions are moved as they do for running programs (instruction punning: Chamith et al., PLDI 2017; padding and
//! what to do about it: Duck et al., E9Patch, PLDI 2020). But nothing runs meanwhile, so that no thread can stand
//! between them; the recorder later changes one NOP, which is aligned. What was shown to be possible is done: a
//! function that something may jump into, or whose exceptions are treated by where they come from, stays as it is.

mod elf;
mod frames;

use crate::arch::{self, Pad};
use crate::binary::Binary;
use crate::error::Error;
use crate::names::Names;
use elf::{Added, HIGHEST, Place};
use frames::{Copied, Frames, Tables};
use mote_functions::{BUILTINS_OF_V8, Code, Function, Pattern, Reason, Way, Window};
use mote_probelist::{Kind, PADS, Placeholder, Was};
use std::collections::BTreeMap;
use std::path::Path;

/// The functions that get a placeholder in the file.
#[derive(Clone, Copy, Debug)]
pub enum Rewrite<'p> {
    /// Those that patterns mean and for which a running process has only a breakpoint, or nothing. Others have room for
    /// a jump ([`Way`]), so that a placeholder would serve them no better, and cost while nothing is recorded.
    Needed(&'p [Pattern]),
    /// All that patterns mean: also where threads that block SIGTRAP forbid to write a jump over several instructions.
    All(&'p [Pattern]),
}

impl<'p> Rewrite<'p> {
    pub(crate) fn patterns(self) -> &'p [Pattern] {
        let (Rewrite::Needed(patterns) | Rewrite::All(patterns)) = self;
        patterns
    }

    /// True when a function that a pattern means is left as it is, since it can be probed by a jump.
    fn spares(self, function: &Function) -> bool {
        let is_room = matches!(function.way, Way::Jump | Way::Punned { .. } | Way::Window { .. });
        is_room && matches!(self, Rewrite::Needed(_))
    }
}

/// Why a function stays as it was.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, thiserror::Error)]
pub enum Refusal {
    /// It has one of its compiler's.
    #[error("it has a placeholder already")]
    HasOne,
    /// The kernel or the dynamic linker jumps there.
    #[error("the program begins there, and nobody calls it")]
    Begin,
    /// V8 maps the file's builtins once more for each isolate (`CodeRange::RemapEmbeddedBuiltins`), and a jump from
    /// there would lead to somewhere else.
    #[error("the program runs copies of it at other places")]
    MappedAgain,
    /// There is not enough in it.
    #[error("it is shorter than a jump, and no padding is near")]
    Short,
    /// A jump would lie over what something jumps to.
    #[error("something jumps between its first instructions, and no padding is near")]
    JumpedInto,
    /// A call would return between what was moved.
    #[error("a call in its first bytes would return between them, and no padding is near")]
    Call,
    /// They are none.
    #[error("its first instructions cannot be decoded")]
    Undecodable,
    /// They work only where they are.
    #[error("its first instructions cannot be moved")]
    Immovable,
    /// A compiler, or a macro, has left something there.
    #[error("a placeholder is among its first instructions")]
    Overlaps,
    /// How to unwind from there cannot be said of another place.
    #[error("its unwinding information cannot be moved")]
    Frame,
    /// Handlers of exceptions are found by where these come from.
    #[error("exceptions that come from its first instructions have handlers")]
    Exceptions,
}

impl From<Reason> for Refusal {
    fn from(reason: Reason) -> Refusal {
        match reason {
            Reason::Short => Refusal::Short,
            Reason::JumpedInto => Refusal::JumpedInto,
            Reason::Call => Refusal::Call,
            Reason::Undecodable => Refusal::Undecodable,
        }
    }
}

/// A function that stays as it was.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refused {
    /// Where it begins, in the file's own address space.
    pub address: u64,
    /// Name as in the symbol table, if it has one.
    pub name: Option<String>,
    /// Why.
    pub why: Refusal,
}

/// What became of the functions that were chosen.
#[derive(Debug, Default)]
pub(crate) struct Rewritten {
    pub(crate) bytes: Vec<u8>,
    pub(crate) placeholders: Vec<Placeholder>,
    pub(crate) refused: Vec<Refused>,
    pub(crate) unneeded: usize,
}

/// Rewrites the functions that `what` means. `whole` is the file with its symbols, `bytes` the one that is changed,
/// perhaps without them; what is loaded of them is the same.
pub(crate) fn rewrite(
    path: &Path,
    (whole, bytes): (&[u8], &[u8]),
    known: &[Placeholder],
    what: Rewrite<'_>,
    names: &Names,
) -> Result<Rewritten, Error> {
    let binary = Binary::of(path, whole, arch::ARCHITECTURE)?;
    if binary.has_section(PADS) {
        return Err(Error::Rewritten { path: path.to_owned() });
    }
    if binary.code.iter().any(|code| code.end() > HIGHEST) {
        return Err(Error::damaged(path, "a section of code lies outside of memory"));
    }
    let place = Place::of(path, bytes)?;
    let code = Code::of(path, whole, names.table())?;
    let file = path.file_name().unwrap_or_default().to_string_lossy();
    let is_meant = |function: &&Function| {
        let symbol = function.name.as_deref().unwrap_or_default();
        let source = || names.source(function.address);
        what.patterns()
            .iter()
            .any(|pattern| pattern.fits_size(function.len) && pattern.fits(&file, symbol, source))
    };
    let meant = code.functions.functions.iter().filter(is_meant);
    let (spared, chosen): (Vec<&Function>, Vec<&Function>) =
        meant.partition(|function| what.spares(function));
    let frames = Frames::of(&binary);
    let mut plan = Plan {
        code: &code,
        binary: &binary,
        place: &place,
        frames: frames.as_ref(),
        known,
        holes: Holes(code.padding().into_iter().map(|hole| (hole.start, hole.end)).collect()),
        made: Made::default(),
    };
    let done = plan.all(&chosen);
    let made = plan.made;
    let tables = |at: u64| match &frames {
        None => Some(Tables::default()),
        Some(frames) => frames.tables(&made.frames, at),
    };
    let mut rewritten = Rewritten { bytes: bytes.to_vec(), unneeded: spared.len(), ..Rewritten::default() };
    for (function, done) in chosen.iter().zip(done) {
        let Function { address, ref name, .. } = **function;
        match done {
            Ok(pad) => rewritten.placeholders.push(placeholder(function, pad, &place, names)),
            Err(why) => rewritten.refused.push(Refused { address, name: name.clone(), why }),
        }
    }
    if !rewritten.placeholders.is_empty() {
        let added = Added { edits: &made.edits, code: &made.code, frames: &tables };
        rewritten.bytes = place.add(&added).ok_or_else(|| Error::NoPlace { path: path.to_owned() })?;
    }
    Ok(rewritten)
}

fn placeholder(function: &Function, pad: u64, place: &Place<'_>, names: &Names) -> Placeholder {
    let (file, line) = names.place(function.address).0.unzip();
    Placeholder {
        offset: pad - place.base(),
        address: pad,
        size: arch::PLACEHOLDER.len() as u64,
        kind: Kind::Rewritten,
        was: Was::Nop,
        function: function.name.clone(),
        file,
        line,
        inlined: Vec::new(),
        event: None,
        entry: Some(function.address),
    }
}

/// What is made for the functions.
#[derive(Debug, Default)]
struct Made {
    code: Vec<u8>,
    /// By place in the file.
    edits: Vec<(u64, Vec<u8>)>,
    frames: Vec<Copied>,
}

struct Plan<'p, 'd> {
    code: &'p Code,
    binary: &'p Binary<'d>,
    place: &'p Place<'p>,
    frames: Option<&'p Frames<'p, 'd>>,
    /// Placeholders that are there already, by address.
    known: &'p [Placeholder],
    holes: Holes,
    made: Made,
}

/// A function's new entry, before it is written.
struct Entry {
    window: Window,
    pad: Pad,
    frame: Option<Copied>,
}

impl Plan<'_, '_> {
    /// Rewrites all of these functions that can be: where each one's placeholder is, or why it has none.
    ///
    /// Those that need no padding come first, as some lie over their own. A call that was moved returns to the pad,
    /// which debuggers do not know: that is done last.
    fn all(&mut self, chosen: &[&Function]) -> Vec<Result<u64, Refusal>> {
        let first: Vec<Result<u64, Refusal>> =
            chosen.iter().map(|function| self.at_entry(function)).collect();
        let each = chosen.iter().zip(first);
        each.map(|(function, done)| match done {
            Err(Refusal::HasOne | Refusal::Begin | Refusal::MappedAgain) | Ok(_) => done,
            Err(why) => self.by_hole(function).or_else(|_| self.with_call(function).ok_or(why)?),
        })
        .collect()
    }

    /// A jump to the pad at the entry itself, over instructions that call nothing.
    fn at_entry(&mut self, function: &Function) -> Result<u64, Refusal> {
        if function.way == Way::Placeholder {
            return Err(Refusal::HasOne);
        }
        if function.address == self.code.functions.entry {
            return Err(Refusal::Begin);
        }
        if function.name.as_deref().is_some_and(|name| name.starts_with(BUILTINS_OF_V8)) {
            return Err(Refusal::MappedAgain);
        }
        let entry = self.entry(function, arch::JUMP_BYTES)?;
        if entry.pad.calls {
            return Err(Refusal::Exceptions);
        }
        let (begin, end) = (function.address + function.len, entry.window.begin + arch::JUMP_BYTES);
        let pad = self.write(entry, None)?;
        self.holes.take(begin, end);
        Ok(pad)
    }

    /// A short jump to padding, and from there to the pad.
    fn by_hole(&mut self, function: &Function) -> Result<u64, Refusal> {
        let entry = self.entry(function, arch::SHORT_BYTES)?;
        if entry.pad.calls {
            return Err(Refusal::Call);
        }
        let hole = self.holes.reached_from(entry.window.begin).ok_or(Refusal::Short)?;
        let pad = self.write(entry, Some(hole))?;
        self.holes.take(hole, hole + arch::JUMP_BYTES);
        Ok(pad)
    }

    /// A jump at the entry over a call; `None` when there is none.
    fn with_call(&mut self, function: &Function) -> Option<Result<u64, Refusal>> {
        let entry = self.entry(function, arch::JUMP_BYTES).ok().filter(|entry| entry.pad.calls)?;
        Some(self.write(entry, None))
    }

    /// A function's first instructions of so many bytes, moved to the next pad.
    fn entry(&self, function: &Function, bytes: u64) -> Result<Entry, Refusal> {
        let window = self.code.window(function.address, bytes)?;
        let (begin, end) = (window.begin, window.begin + bytes.max(window.bytes.into()));
        let behind = self.known.partition_point(|place| place.address + place.size <= begin);
        if self.known.get(behind).is_some_and(|place| place.address < end) {
            return Err(Refusal::Overlaps);
        }
        let code = self.binary.code_at(begin).and_then(|code| code.from(begin)?.get(..window.bytes.into()));
        let at = self.place.code_at() + self.made.code.len() as u64;
        let pad = arch::pad(code.ok_or(Refusal::Undecodable)?, begin, at).ok_or(Refusal::Immovable)?;
        let frame = match self.frames {
            None => None,
            Some(frames) => frames.copied((at, pad.bytes.len() as u64), &pad.steps, pad.calls)?,
        };
        Ok(Entry { window, pad, frame })
    }

    /// Writes a function's jumps and its pad, and returns where that is.
    fn write(&mut self, entry: Entry, hole: Option<u64>) -> Result<u64, Refusal> {
        let Entry { window, pad, frame } = entry;
        let at = self.place.code_at() + self.made.code.len() as u64;
        let mut jump = match hole {
            None => arch::jump(window.begin, at),
            Some(hole) => arch::short_jump(window.begin, hole),
        }
        .ok_or(Refusal::Immovable)?;
        // No instruction of the function begins there any more.
        jump.resize(jump.len().max(window.bytes.into()), arch::NEVER_RUN);
        let mut edits = vec![self.edit(window.begin, jump)?];
        if let Some(hole) = hole {
            edits.push(self.edit(hole, arch::jump(hole, at).ok_or(Refusal::Immovable)?)?);
            let frames = self
                .frames
                .map(|frames| frames.copied((hole, arch::JUMP_BYTES), &[(window.begin, hole)], false));
            self.made.frames.extend(frames.transpose()?.flatten());
        }
        self.made.edits.append(&mut edits);
        self.made.frames.extend(frame);
        self.made.code.extend(pad.bytes);
        let aligned = self.made.code.len().next_multiple_of(arch::PAD_ALIGNMENT as usize);
        self.made.code.resize(aligned, arch::NEVER_RUN);
        Ok(at)
    }

    /// A change of code, by its place in the file.
    fn edit(&self, address: u64, bytes: Vec<u8>) -> Result<(u64, Vec<u8>), Refusal> {
        let offset = self.binary.offset_of(address).ok_or(Refusal::Undecodable)?;
        let is_code = self.place.is_code(address, offset, bytes.len() as u64);
        is_code.then_some((offset, bytes)).ok_or(Refusal::Undecodable)
    }
}

/// Padding that is left, by address: begin and end.
struct Holes(BTreeMap<u64, u64>);

impl Holes {
    /// Where a jump to a pad can be that a short jump from `from` reaches.
    fn reached_from(&self, from: u64) -> Option<u64> {
        let (first, last) = arch::short_reach(from);
        let before = self.0.range(..first).next_back();
        before.into_iter().chain(self.0.range(first..=last)).find_map(|(begin, end)| {
            let at = first.max(*begin);
            (at <= last && at + arch::JUMP_BYTES <= *end).then_some(at)
        })
    }

    /// Takes a part of a hole; what is none is left alone.
    fn take(&mut self, from: u64, to: u64) {
        let Some((begin, end)) = self.0.range(..=from).next_back().map(|(begin, end)| (*begin, *end)) else {
            return;
        };
        if from >= to || end <= from {
            return;
        }
        self.0.remove(&begin);
        for (begin, end) in [(begin, from), (to, end)] {
            if begin < end {
                self.0.insert(begin, end);
            }
        }
    }
}
