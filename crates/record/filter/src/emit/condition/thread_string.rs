//! The thread's name and the program's path: strings on the stack, zeros behind, compared in place.
//!
//! Patterns become a machine of states, each of which is a part of the pattern and the place from which on it is looked
//! for; all of it forward jumps.

use crate::diagnostic::{Diagnostic, Kind, Span};
use crate::emit::code::{Code, Label, Next, Stop, Ways};
use crate::emit::known::Slot;
use crate::emit::string_plan::word_of;
use crate::emit::values::Words;
use crate::string_pattern::StringPattern;
use crate::target::{COMM_BYTES, EXECUTABLE_BYTES};
use crate::typed::StringSource;
use mote_bpf::helper;
use mote_bpf::op::Size;
use mote_builder::{Build, Local};
use mote_layout::tracer;
use std::collections::BTreeMap;

/// Most parts of a pattern behind the first one.
const PARTS_MAX: usize = 8;

impl Code<'_> {
    pub(in crate::emit) fn context_string(
        &mut self,
        string: StringSource,
        patterns: &[StringPattern],
        ways: Ways,
    ) -> Result<(), Stop> {
        let (base, bytes) = self.fill_context(string)?;
        let (holds, not, next) = ways;
        let Some((last, before)) = patterns.split_last() else {
            self.constant_outcome(false, ways);
            return Ok(());
        };
        for pattern in before {
            let on = self.label();
            self.stack_fits(base, bytes, pattern, (holds, on, Next::False))?;
            self.bind(on);
        }
        self.stack_fits(base, bytes, last, (holds, not, next))
    }

    /// Puts the string on the stack, unless it is there.
    fn fill_context(&mut self, string: StringSource) -> Result<(i16, usize), Stop> {
        let (slot, bytes) = match string {
            StringSource::Executable => (Slot::Executable, EXECUTABLE_BYTES),
            _ => (Slot::Comm, COMM_BYTES),
        };
        let base = self.slot(slot);
        if !self.slot_is_filled(slot) {
            self.context_string_to(string, base, bytes)?;
            self.slot_filled(slot);
        }
        Ok((base, bytes as usize))
    }

    /// Writes the string to the stack, zeros behind.
    pub(in crate::emit) fn context_string_to(
        &mut self,
        string: StringSource,
        base: i16,
        bytes: u32,
    ) -> Result<(), Stop> {
        let id = if string == StringSource::Executable {
            tracer::GET_EXECUTABLE
        } else {
            helper::GET_CURRENT_COMM
        };
        for at in (0..bytes as i16).step_by(8) {
            self.put(Local::<u64>::at(base + at), 0);
        }
        self.call_only(id, (Local::<u64>::at(base).address(), bytes))
    }

    fn stack_fits(
        &mut self,
        base: i16,
        bytes: usize,
        pattern: &StringPattern,
        ways: Ways,
    ) -> Result<(), Stop> {
        let (holds, not, next) = ways;
        let parts = pattern.parts();
        let first = parts.first().map_or(&[][..], |part| part);
        // The last byte is a NUL: such a string is never there.
        if pattern.bytes_min() >= bytes {
            self.constant_outcome(false, ways);
            return Ok(());
        }
        let [_, rest @ ..] = parts else { return Ok(()) };
        if rest.is_empty() {
            let mut ended = first.to_vec();
            ended.push(0);
            return self.equal_places(Words::Frame, &aligned(base, &ended), ways);
        }
        if let [behind] = rest
            && behind.is_empty()
        {
            return self.equal_places(Words::Frame, &aligned(base, first), ways);
        }
        // With two parts, each place of the first leads to a state of its own for the second.
        let is_find = matches!(rest, [_, last] if last.is_empty());
        if rest.len() > PARTS_MAX || (rest.len() > 1 && !is_find && bytes > COMM_BYTES as usize) {
            let all = Span::default();
            let problem = Diagnostic::new(Kind::TooLarge, all, "a pattern for a context has too many `*`");
            return Err(Stop::Wrong(Box::new(problem.help("`$exe` takes patterns like `a*b` and `*b*`"))));
        }
        let on = self.label();
        self.equal_places(Words::Frame, &aligned(base, first), (on, not, Next::True))?;
        self.bind(on);
        self.machine(base, bytes, rest, first.len(), (holds, not))?;
        // Whatever comes last in the machine jumped.
        if next == Next::False {
            self.jump(not);
        }
        Ok(())
    }

    /// The parts behind the first `*`, from a place on.
    fn machine(
        &mut self,
        base: i16,
        bytes: usize,
        rest: &[Vec<u8>],
        from: usize,
        (holds, not): (Label, Label),
    ) -> Result<(), Stop> {
        // States by part and place: a state only leads to later ones.
        let mut states: BTreeMap<(usize, usize), Label> = BTreeMap::new();
        let start = self.label();
        states.insert((0, from), start);
        self.bind(start);
        let mut first = true;
        while let Some(((part, from), label)) = states.pop_first() {
            if !first {
                self.bind(label);
            }
            first = false;
            let is_last = part + 1 == rest.len();
            let mut wanted = rest[part].clone();
            if is_last && wanted.is_empty() {
                self.jump(holds);
                continue;
            }
            if is_last {
                wanted.push(0);
            }
            for at in from..(bytes + 1).saturating_sub(wanted.len()) {
                let next = self.label();
                let found = if is_last {
                    holds
                } else {
                    match states.get(&(part + 1, at + wanted.len())) {
                        Some(label) => *label,
                        None => {
                            let label = self.label();
                            states.insert((part + 1, at + wanted.len()), label);
                            label
                        }
                    }
                };
                self.equal_places(
                    Words::Frame,
                    &aligned(base + at as i16, &wanted),
                    (found, next, Next::False),
                )?;
                self.bind(next);
            }
            self.jump(not);
        }
        Ok(())
    }
}

/// How bytes at an offset from the frame's end are read: each word where its size divides its place.
fn aligned(base: i16, bytes: &[u8]) -> Vec<(i32, u64, Size)> {
    let mut out = Vec::new();
    let mut at = 0;
    while at < bytes.len() {
        let place = i32::from(base) + at as i32;
        let fits = |size: &Size| place % size.bytes() as i32 == 0 && at + size.bytes() <= bytes.len();
        let size = [Size::DW, Size::W, Size::H].into_iter().find(fits).unwrap_or(Size::B);
        out.push((place, word_of(bytes, at, size), size));
        at += size.bytes();
    }
    out
}
