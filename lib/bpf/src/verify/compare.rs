//! Whether a kept state knows no more than the present one: then what follows was walked already.

use super::saved::Reader;
use super::state::{Byte, Slot, State};
use super::value::{Kind, Value};
use crate::insn::Reg;
use crate::table::Table;

/// What is asked of the two.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Question {
    /// The kept one is as the present one, or knows less: it stands for it.
    Covers,
    /// Both know the same: nothing has changed since.
    Equals,
}

/// Most ids of a state that can be told apart; with more of them states differ.
const IDS_MAX: usize = 32;

/// Which id of the present state an id of the kept one stands for.
struct Ids {
    pairs: Table<(u32, u32), IDS_MAX>,
    count: usize,
    /// For what has no id in the present state, but has one in the kept one: counts down, each is another.
    next: u32,
}

impl Ids {
    fn agree(&mut self, old: u32, new: u32) -> bool {
        if old == 0 {
            return true;
        }
        let new = if new == 0 {
            self.next -= 1;
            self.next
        } else {
            new
        };
        if let Some(pair) = self.pairs.first(self.count).iter().find(|pair| pair.0 == old) {
            return pair.1 == new;
        }
        match self.pairs.rest_mut(self.count).first_mut() {
            Some(place) => {
                *place = (old, new);
                self.count += 1;
                true
            }
            None => false,
        }
    }
}

/// What of a frame is looked at.
pub(crate) struct Looked {
    /// Registers whose numbers matter.
    pub(crate) exact: u16,
    /// Slots that were read after the kept state.
    pub(crate) slots: u64,
}

/// Compares the state in `old` with `state`.
pub(crate) fn compare(
    old: &mut Reader<'_>,
    state: &State,
    question: Question,
    looked: impl Fn(usize) -> Looked,
) -> bool {
    let mut ids = Ids { pairs: Table([(0, 0); IDS_MAX]), count: 0, next: u32::MAX };
    if old.counts() != (state.top, state.record_count) {
        return false;
    }
    if !state.held().iter().all(|new| ids.agree(old.word() as u32, *new)) {
        return false;
    }
    for (number, frame) in state.running().iter().enumerate() {
        let head = old.head();
        if (head.function, head.back) != (frame.function, frame.back) {
            return false;
        }
        let looked = looked(number);
        for reg in Reg::WRITABLE.into_iter().filter(|reg| head.registers >> reg.number() & 1 != 0) {
            let exact = looked.exact >> reg.number() & 1 != 0;
            if !value(&old.value(), &frame.registers[reg], exact, question, &mut ids) {
                return false;
            }
        }
        let mut used = head.used;
        while used != 0 {
            let index = used.trailing_zeros() as usize;
            used &= used - 1;
            let kept = old.slot();
            let matters = looked.slots >> index & 1 != 0;
            if matters && !slot(&kept, &frame.slot(index), question, &mut ids) {
                return false;
            }
        }
    }
    true
}

fn value(old: &Value, new: &Value, exact: bool, question: Question, ids: &mut Ids) -> bool {
    if old.kind != new.kind {
        return false;
    }
    if old.kind == Kind::Number && !exact {
        return true;
    }
    let number = match question {
        Question::Covers => old.number.covers(&new.number),
        Question::Equals => old.number == new.number,
    };
    if !number || old.or_null != new.or_null || !ids.agree(old.id, new.id) {
        return false;
    }
    let same = old.object == new.object && old.since == new.since;
    match old.kind {
        // A number that is known as the length of nothing may also be that of something.
        Kind::Number => old.object == 0 || same,
        Kind::Start => same && (old.id == 0) == (new.id == 0) && enough(old, new, question),
        Kind::End => same && enough(old, new, question),
        _ => same,
    }
}

fn enough(old: &Value, new: &Value, question: Question) -> bool {
    match question {
        Question::Covers => old.range <= new.range,
        Question::Equals => old.range == new.range,
    }
}

fn slot(old: &Slot, new: &Slot, question: Question, ids: &mut Ids) -> bool {
    let pointer = new.has_pointer();
    for (old, new) in old.bytes.iter().zip(new.bytes) {
        let fits = match (old, new) {
            (Byte::Nothing, _) => true,
            (Byte::Any, Byte::Any | Byte::Zero) => true,
            (Byte::Any, Byte::Part) => !pointer,
            (old, new) => *old == new,
        };
        if !fits || (question == Question::Equals && *old != new) {
            return false;
        }
    }
    old.bytes[0] != Byte::Part
        || (old.bytes == new.bytes && value(&old.value, &new.value, true, question, ids))
}
