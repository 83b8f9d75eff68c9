//! Filters: what they look at put on the stack, their functions appended and called.

use crate::chosen::{Filter, Outcome};
use crate::code::Code;
use crate::copy::To;
use crate::error::Error;
use crate::inline::Inline;
use crate::relocate::asks_ids;
use crate::state;
use crate::{FILTER_WORDS_MAX, slot};
use mote_bpf::op::Size;
use mote_bpf::{Reg, helper};
use mote_builder::{Build, Expr, Local, Memory, Value};
use mote_catalog::event::{Event, Field, Origin, TEXT_MAX, Type};
use mote_filter::ContextWord;

/// Bytes of scratch for each text: what a filter may read where one begins, and more.
const TEXT_ROOM: u32 = 512;

/// Words of a field in the context of filters (`mote_layout::context`).
fn words(ty: &Type) -> usize {
    match ty {
        Type::Text | Type::FixedText(_) | Type::Sequence(..) => 2,
        _ => 1,
    }
}

/// The field of a word, and which of the field's words it is.
fn field_of(event: &Event, word: usize) -> Option<(usize, usize)> {
    let mut first = 0;
    for (index, field) in event.fields.iter().enumerate() {
        if word < first + words(&field.ty) {
            return Some((index, word - first));
        }
        first += words(&field.ty);
    }
    None
}

/// Whether the filter is asked with a ring claimed: it looks at bytes, which lie in the ring's scratch area, or at a
/// duration, which the ring's times bound.
pub(crate) fn needs_ring(event: &Event, filter: &Filter) -> bool {
    let is_duration = |word: &ContextWord| match word {
        ContextWord::Field(word) => field_of(event, usize::from(*word))
            .and_then(|(index, _)| event.fields.get(index))
            .is_some_and(|field| field.from == Origin::Duration),
        ContextWord::Event(_) => false,
    };
    looks_at_bytes(event, filter) || filter.words.iter().any(is_duration)
}

/// Whether the filter, or what it has for foreign events, looks at bytes, which lie in the scratch area then.
pub(crate) fn needs_scratch(event: &Event, filter: &Filter) -> bool {
    let foreign = match filter.foreign.as_deref() {
        Some(Outcome::Filtered(foreign)) => looks_at_bytes(event, foreign),
        Some(Outcome::Off | Outcome::Recorded) | None => false,
    };
    foreign || looks_at_bytes(event, filter)
}

/// Whether the filter looks at bytes.
pub(crate) fn looks_at_bytes(event: &Event, filter: &Filter) -> bool {
    filter.words.iter().any(|word| match word {
        ContextWord::Field(word) => field_of(event, usize::from(*word)).is_some_and(|(index, _)| {
            event.fields.get(index).is_some_and(|field| {
                matches!(field.ty, Type::Text | Type::FixedText(_) | Type::Array(..) | Type::Sequence(..))
            })
        }),
        ContextWord::Event(_) => false,
    })
}

impl Code<'_> {
    /// As [`Code::filtered`]; of an event that happens in another thread than the one that it was chosen for, by what
    /// the filter has for such events.
    ///
    /// # Errors
    /// As [`Code::filter`].
    pub(crate) fn decided(&mut self, event: &Event, filter: Option<&Filter>) -> Result<(), Error> {
        let outcome = filter.and_then(|filter| filter.foreign.as_deref()).filter(|_| self.may_be_foreign);
        let Some(outcome) = outcome else { return self.filtered(event, filter) };
        let (foreign, both) = (self.label(), self.label());
        self.if_foreign(foreign);
        self.filtered(event, filter)?;
        let is_recorded = filter.is_some_and(|filter| filter.records);
        if is_recorded {
            self.jump(both);
        }
        self.bind(foreign);
        (self.claimed, self.timed) = (false, false);
        match outcome {
            Outcome::Off => self.jump(self.out),
            Outcome::Recorded => self.filtered(event, None)?,
            Outcome::Filtered(filter) => self.filtered(event, Some(filter))?,
        }
        if is_recorded {
            self.bind(both);
            self.claimed = true;
        }
        // What one of both has read already, the other one may not have.
        self.kept.clear();
        self.timed = false;
        Ok(())
    }

    /// Asks the filter, if there is one, and goes on with a ring claimed when the event is to be recorded. A filter
    /// that needs no ring is asked first.
    ///
    /// # Errors
    /// As [`Code::filter`].
    pub(crate) fn filtered(&mut self, event: &Event, filter: Option<&Filter>) -> Result<(), Error> {
        let Some(filter) = filter else {
            self.claim_once(false);
            return Ok(());
        };
        if needs_ring(event, filter) {
            self.claim_once(true);
        }
        self.filter(event, filter)?;
        if filter.records {
            self.claim_once(false);
        }
        Ok(())
    }

    fn claim_once(&mut self, looks: bool) {
        if !self.claimed {
            self.claim(looks);
        }
    }

    /// Asks the filter; ends the program when the event is not to be recorded, and releases the ring if one was
    /// claimed.
    ///
    /// # Errors
    /// [`Error::Event`] when the filter looks at more than it can be shown.
    pub(crate) fn filter(&mut self, event: &Event, filter: &Filter) -> Result<(), Error> {
        self.kept = vec![None; event.fields.len()];
        if filter.words.len() > FILTER_WORDS_MAX {
            let why = format!(
                "its filter uses {} values, more than the {FILTER_WORDS_MAX} that are possible",
                filter.words.len()
            );
            return Err(Error::event(&event.name, why));
        }
        for (place, word) in filter.words.iter().enumerate() {
            let to = slot::WORDS + 8 * place as i16;
            let value = self
                .filter_word(event, *word)
                .map_err(|why| Error::event(&event.name, format!("its filter: {why}")))?;
            self.put(Local::<u64>::at(to), value);
        }
        let no = if self.claimed { self.release } else { self.out };
        let namespace = self.plan.namespace.filter(|_| asks_ids(&filter.insns));
        if let Some(namespace) = namespace {
            self.keep_recorder_ids(namespace.offsets);
        }
        let words = Local::<u64>::at(slot::WORDS).address();
        if let Some(inline) = Inline::of(&filter.insns) {
            // What is put in place was compiled before, for these registers.
            self.b.mov(Reg::R1, Reg::R10);
            self.b.add(Reg::R1, i32::from(slot::WORDS));
            self.b.mov(Reg::R2, self.saved.entry.register());
            let yes = self.b.label();
            inline.put(&mut self.b, if filter.records { yes } else { no }, no, namespace.is_some());
            if filter.records {
                self.b.bind(yes);
            }
            return Ok(());
        }
        // Events that differ in the words only have the same function: a program has at most 256.
        let known = self.filters.iter().find(|(_, insns)| *insns == filter.insns).map(|(label, _)| *label);
        let label = known.unwrap_or_else(|| {
            let label = self.b.label();
            self.filters.push((label, filter.insns.clone()));
            label
        });
        let entry = Expr::from(&self.saved.entry);
        let outcome = self.invoke_function(label, (words, entry));
        if filter.records {
            self.jump_if(outcome.eq(0), no);
        } else {
            self.jump(no);
        }
        Ok(())
    }

    fn filter_word(&mut self, event: &Event, word: ContextWord) -> Result<Value, String> {
        match word {
            ContextWord::Event(number) => Ok(self.get(number as i32)),
            ContextWord::Field(word) => {
                let none = || format!("word {word} is of no field");
                let (index, part) = field_of(event, usize::from(word)).ok_or_else(none)?;
                let field = event.fields.get(index).ok_or_else(none)?;
                self.field_word(index, field, part).map_err(|why| format!("field {}: {why}", field.name))
            }
        }
    }

    fn field_word(&mut self, index: usize, field: &Field, part: usize) -> Result<Value, &'static str> {
        let kept = self.kept.get(index).copied().flatten();
        match (&field.ty, kept) {
            (Type::Text | Type::FixedText(_), Some(offset)) => Ok(self.kept_word(offset, part)),
            (Type::Text | Type::FixedText(_), None) => {
                let offset = self.room_for(index)?;
                self.keep_text(field, offset)?;
                Ok(self.kept_word(offset, part))
            }
            (Type::Array(scalar, count), None) => {
                let bytes = scalar.bytes() as u32 * u32::from(*count);
                let offset = self.room_for(index)?;
                if bytes > TEXT_ROOM {
                    return Err("it is too long for a filter");
                }
                self.bytes(&field.from, bytes, To::Scratch(offset))?;
                Ok(self.kept_word(offset, 0))
            }
            (Type::Array(..), Some(offset)) => Ok(self.kept_word(offset, 0)),
            (Type::Sequence(..), _) => Err("filters do not look at sequences in the kernel"),
            _ => Ok(self.word(field)),
        }
    }

    /// A part of the scratch area for this field. The last 8 bytes of it hold a text's length.
    fn room_for(&mut self, index: usize) -> Result<u32, &'static str> {
        let used = self.kept.iter().flatten().count() as u32;
        let offset = used * TEXT_ROOM;
        if offset + TEXT_ROOM > state::SCRATCH_BYTES {
            return Err("there is no room for more texts in a filter");
        }
        *self.kept.get_mut(index).ok_or("it is of no field")? = Some(offset);
        Ok(offset)
    }

    fn keep_text(&mut self, field: &Field, offset: u32) -> Result<(), &'static str> {
        let to = To::Scratch(offset);
        let length = match (&field.ty, &field.from) {
            (Type::FixedText(bytes), from) => {
                // Copied once, and once more up to its NUL, which says where that is.
                let bytes = u32::from(*bytes).min(TEXT_MAX - 8);
                self.bytes(from, bytes, to)?;
                self.put(self.part_of(to, bytes, Size::B), 0);
                self.copy_text(helper::PROBE_READ_KERNEL_STR, slot::SCRATCH + offset, bytes + 1, to)
            }
            (_, from) => self.text(from, to)?,
        };
        self.put(kept_length(offset), length - 1);
        Ok(())
    }

    /// Where a kept text begins, or how long it is.
    fn kept_word(&mut self, offset: u32, part: usize) -> Value {
        if part == 0 {
            return self.get(slot::SCRATCH + offset);
        }
        let length = self.get(kept_length(offset));
        self.when(length.gt(TEXT_MAX - 1), |code| code.set(&length, 0));
        length
    }
}

/// Where the length of a text lies that is kept at this offset of the scratch area.
fn kept_length(offset: u32) -> Memory {
    Memory::new(slot::SCRATCH, (offset + TEXT_ROOM - 8) as i32, Size::DW)
}
