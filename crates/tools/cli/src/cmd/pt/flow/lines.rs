//! What was executed as lines: of text for people, or JSON.

use crate::cmd::pt::shown::Format;
use crate::cmd::pt::times::{self, Times};
use iced_x86::{Decoder, DecoderOptions, Formatter, IntelFormatter};
use mote_capture::{Code, Place};
use mote_pattern::Glob;
use mote_pt::image::Space;
use mote_pt::insn::Mode;
use mote_pt::time::Span;
use serde_json::json;
use std::collections::HashMap;
use std::io::{self, Write};
use std::rc::Rc;

/// What lines are about, and how they look.
#[derive(Clone, Copy)]
pub(super) struct Look<'l> {
    pub(super) code: &'l Code,
    pub(super) tid: i32,
    pub(super) cpu: Option<u32>,
    pub(super) functions: &'l [Glob],
    pub(super) format: Format,
    pub(super) times: Times,
}

/// Some of what was executed, in its order.
#[derive(Default)]
pub(super) struct Chunk {
    pub(super) items: Vec<Item>,
    /// Of the instructions of all items.
    pub(super) lengths: Vec<u8>,
    /// Gaps, whether they are among the items or not.
    pub(super) gaps: u64,
}

/// Something that lines are about.
pub(super) enum Item {
    /// Instructions, one behind the other.
    Code { address: u64, instructions: usize, mode: Mode, space: Space, when: Span },
    /// What happened between them.
    Between { kind: &'static str, text: String, when: Span },
}

/// What was printed.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Printed {
    pub(super) instructions: u64,
    pub(super) gaps: u64,
}

impl Printed {
    pub(super) fn add(&mut self, more: Printed) {
        self.instructions += more.instructions;
        self.gaps += more.gaps;
    }
}

/// Makes lines.
pub(super) struct Lines<'l> {
    look: Look<'l>,
    formatter: IntelFormatter,
    /// Where instructions are.
    known: HashMap<(Space, u64), Option<Rc<Place>>>,
    /// How many instructions may still be printed.
    left: u64,
    printed: Printed,
}

impl<'l> Lines<'l> {
    /// Of so many instructions at most.
    pub(super) fn new(look: Look<'l>, left: u64) -> Lines<'l> {
        let (formatter, known) = (IntelFormatter::new(), HashMap::new());
        Lines { look, formatter, known, left, printed: Printed::default() }
    }

    /// Whether more may be printed.
    pub(super) fn goes_on(&self) -> bool {
        self.left > 0
    }

    /// How much it was so far.
    pub(super) fn printed(&self) -> Printed {
        self.printed
    }

    /// Prints a chunk.
    pub(super) fn print(&mut self, chunk: &Chunk, to: &mut impl Write) -> io::Result<()> {
        self.printed.gaps += chunk.gaps;
        let mut lengths = chunk.lengths.as_slice();
        for item in &chunk.items {
            match item {
                Item::Code { address, instructions, mode, space, when } => {
                    let (own, rest) = lengths.split_at(*instructions);
                    lengths = rest;
                    let mut address = *address;
                    for length in own {
                        self.instruction((*space, address), *length, *mode, *when, to)?;
                        address = address.wrapping_add(u64::from(*length));
                    }
                }
                Item::Between { kind, text, when } => self.between(kind, text, *when, to)?,
            }
        }
        Ok(())
    }

    /// Whether a place is in one of the functions that are meant.
    fn is_meant(&self, place: Option<&Place>) -> bool {
        let name = place.map_or("", |place| &place.function);
        let functions = self.look.functions;
        functions.is_empty() || functions.iter().any(|glob| glob.matches(name))
    }

    /// The column with the time, if there are times.
    fn column(&self, when: Span) -> String {
        if self.look.times.are_known { format!("{:<20}  ", times::text(when)) } else { String::new() }
    }

    fn instruction(
        &mut self,
        at: (Space, u64),
        length: u8,
        mode: Mode,
        when: Span,
        to: &mut impl Write,
    ) -> io::Result<()> {
        let Look { code, tid, cpu, format, .. } = self.look;
        if self.left == 0 {
            return Ok(());
        }
        let (space, address) = at;
        let place = self.known.entry(at).or_insert_with(|| code.place(space, address).map(Rc::new)).clone();
        if !self.is_meant(place.as_deref()) {
            return Ok(());
        }
        self.left -= 1;
        self.printed.instructions += 1;
        let bytes = code.bytes(space, address).and_then(|bytes| bytes.get(..length.into()));
        let text = self.words(address, bytes.unwrap_or_default(), mode);
        let place = place.as_ref();
        match format {
            Format::Text => {
                let name = |place: &Rc<Place>| format!("{}+{:#x}", place.function, place.offset);
                let (time, at) = (self.column(when), place.map_or_else(String::new, name));
                writeln!(to, "{time}{address:#014x}  {at:<32} {text}")
            }
            Format::Json => {
                let line = json!({
                    "tid": tid,
                    "cpu": cpu,
                    "time": times::object(when),
                    "address": format!("{address:#x}"),
                    "function": place.map(|place| &place.function),
                    "offset": place.map(|place| place.offset),
                    "file": place.map(|place| place.file.to_string_lossy()),
                    "instruction": text,
                });
                writeln!(to, "{line}")
            }
        }
    }

    fn words(&mut self, address: u64, bytes: &[u8], mode: Mode) -> String {
        let instruction = Decoder::with_ip(mode.bits(), bytes, address, DecoderOptions::NONE).decode();
        let mut text = String::new();
        self.formatter.format(&instruction, &mut text);
        text
    }

    fn between(&self, kind: &str, text: &str, when: Span, to: &mut impl Write) -> io::Result<()> {
        if self.left == 0 {
            return Ok(());
        }
        let Look { tid, cpu, format, .. } = self.look;
        match format {
            Format::Text => writeln!(to, "{}  -- {text}", self.column(when)),
            Format::Json => {
                let line = json!({ "tid": tid, "cpu": cpu, "time": times::object(when), kind: text });
                writeln!(to, "{line}")
            }
        }
    }
}
