//! Strings by pointer and length.
//!
//! The kernel's verifier follows a loop over a string's places one by one: what counts them is a constant in each
//! round, and what bounds them is at most [`STRING_LEN_MAX`]. What it has seen it does not look at again, if it knows
//! no more and no less then. So a length is read anew each time, and cut to its bits: what a way through the program
//! tells of that number is forgotten behind it.

use crate::emit::code::{Code, Held, Label, Next, Stop, Ways};
use crate::emit::string_plan::word_of;
use crate::emit::values::Words;
use crate::string_pattern::StringPattern;
use crate::target::STRING_LEN_MAX;
use crate::typed::Order;
use mote_bpf::op::Size;
use mote_builder::{Build, Expr, Local, Memory, Value};

/// Longest string, as an operand.
const LEN_MAX: i32 = STRING_LEN_MAX as i32;

impl Code<'_> {
    /// Whether a string is one of some that are equally long.
    pub(in crate::emit) fn kernel_equals_one(
        &mut self,
        word: u16,
        group: &[&[u8]],
        ways: Ways,
    ) -> Result<(), Stop> {
        let (holds, not, next) = ways;
        let len = group.first().map_or(0, |bytes| bytes.len());
        if len > STRING_LEN_MAX as usize {
            self.constant_outcome(false, ways);
            return Ok(());
        }
        let length = self.length_of(word);
        if len == 0 {
            self.choose(length.eq(0), ways);
            return Ok(());
        }
        self.jump_if(length.ne(len), not);
        drop(length);
        let start = self.word(word)?;
        let start_value = self.read(start);
        for (at, bytes) in group.iter().enumerate() {
            if at + 1 == group.len() {
                self.equal_words(Words::At(&start_value), 0, bytes, (holds, not, next))?;
            } else {
                let on = self.label();
                self.equal_words(Words::At(&start_value), 0, bytes, (holds, on, Next::False))?;
                self.bind(on);
            }
        }
        self.release(start);
        Ok(())
    }

    /// Whether a string fits a pattern with a `*`, or a long one without.
    pub(in crate::emit) fn kernel_fits(
        &mut self,
        word: u16,
        pattern: &StringPattern,
        ways: Ways,
    ) -> Result<(), Stop> {
        let not = ways.1;
        let [first, middle @ .., last] = pattern.parts() else {
            // It is longer than any string.
            self.constant_outcome(false, ways);
            return Ok(());
        };
        let least = pattern.bytes_min();
        if least > STRING_LEN_MAX as usize {
            self.constant_outcome(false, ways);
            return Ok(());
        }
        if !middle.is_empty() {
            self.needs_all_registers()?;
        }
        let length = self.length_of(word);
        self.jump_if(length.lt(least), not);
        self.first_part(word, first, not)?;
        self.last_part(word, &length, last, not)?;
        if !middle.is_empty() {
            self.middle_parts(word, length, (first.len(), last.len()), middle, not)?;
        }
        self.constant_outcome(true, ways);
        Ok(())
    }

    fn first_part(&mut self, word: u16, first: &[u8], not: Label) -> Result<(), Stop> {
        if first.is_empty() {
            return Ok(());
        }
        let start = self.word(word)?;
        let start_value = self.read(start);
        let on = self.label();
        self.equal_words(Words::At(&start_value), 0, first, (on, not, Next::True))?;
        self.bind(on);
        self.release(start);
        Ok(())
    }

    fn last_part(&mut self, word: u16, length: &Value, last: &[u8], not: Label) -> Result<(), Stop> {
        if last.is_empty() {
            return Ok(());
        }
        let start = self.word(word)?;
        let end = self.value(start)?;
        self.set(&end, &end + length);
        let on = self.label();
        self.equal_words(Words::At(&end), -(last.len() as i32), last, (on, not, Next::True))?;
        self.bind(on);
        Ok(())
    }

    /// Looks for one part behind the other; the leftmost place is always right.
    fn middle_parts(
        &mut self,
        word: u16,
        limit: Value,
        (first, last): (usize, usize),
        middle: &[Vec<u8>],
        not: Label,
    ) -> Result<(), Stop> {
        self.set(&limit, &limit - last);
        let start = self.word(word)?;
        let place = self.value(start)?;
        let mut before = first;
        // Where the part ends if it is at `place`.
        let end = self.get(first);
        for part in middle {
            self.set(&place, &place + before);
            self.set(&end, &end + part.len());
            before = part.len();
            self.forget_for_loop();
            self.checkpoint();
            let (head, found, next) = (self.label(), self.label(), self.label());
            self.bind(head);
            // Each round begins with the same knowledge of the limit. What is compared with a constant stands on the
            // left: Linux 6.1's verifier does not see otherwise that a loop ends.
            self.jump_if((&limit & LEN_MAX).lt(&end), not);
            self.equal_words(Words::At(&place), 0, part, (found, next, Next::False))?;
            self.bind(next);
            self.set(&place, &place + 1);
            self.set(&end, &end + 1);
            self.jump(head);
            self.bind(found);
        }
        Ok(())
    }

    /// How a string is ordered against bytes.
    pub(in crate::emit) fn kernel_string_order(
        &mut self,
        order: Order,
        word: u16,
        bytes: &[u8],
        ways: Ways,
    ) -> Result<(), Stop> {
        let (less, equal, greater) = outcomes(order, ways);
        let (length, start) = (self.length_of(word), self.word(word)?);
        let start_value = self.read(start);
        let read = bytes.len().min(STRING_LEN_MAX as usize + 1);
        for at in (0..read).step_by(8) {
            // It ends, and the bytes do not.
            self.jump_if(length.le(at), less);
            let found = self.get(in_order(&start_value, at as i32));
            self.when(length.lt(at + 8), |code| {
                let excess = code.get(bits_behind(&length - at));
                code.set(&found, &found >> &excess);
                code.set(&found, &found << excess);
            });
            let wanted = word_of(bytes, at, Size::DW).swap_bytes();
            self.jump_if(found.gt(wanted), greater);
            self.jump_if(found.lt(wanted), less);
        }
        self.release(start);
        let bytes = bytes.len().min(i32::MAX as usize);
        self.jump_if(length.lt(bytes), less);
        self.jump_if(length.gt(bytes), greater);
        self.jump(equal);
        Ok(())
    }

    /// How two strings are ordered.
    pub(in crate::emit) fn kernel_string_compare(
        &mut self,
        order: Order,
        a: u16,
        b: u16,
        ways: Ways,
    ) -> Result<(), Stop> {
        self.needs_all_registers()?;
        let (less, equal, greater) = outcomes(order, ways);
        self.forget_for_loop();
        // As far as both go.
        let (rest, other) = (self.length_of(a), self.length_of(b));
        self.when(rest.gt(&other), |code| code.set(&rest, other));
        let (left, right) = (self.event_word(a), self.event_word(b));
        let (left, right) = (self.get(left), self.get(right));
        self.forget_for_loop();
        self.checkpoint();
        let (head, same) = (self.label(), self.label());
        self.bind(head);
        self.jump_if(rest.sle(0), same);
        let (one, two) = (self.get(in_order(&left, 0)), self.get(in_order(&right, 0)));
        self.when(rest.slt(8), |code| {
            let excess = code.get(bits_behind(&rest));
            code.set(&one, &one >> &excess);
            code.set(&two, &two >> excess);
        });
        self.jump_if(one.gt(&two), greater);
        self.jump_if(one.lt(&two), less);
        for (value, by) in [(&left, 8), (&right, 8), (&rest, -8)] {
            self.set(value, value + by);
        }
        self.jump(head);
        self.bind(same);
        let (one, two) = (self.length_of(a), self.length_of(b));
        self.jump_if(one.gt(&two), greater);
        self.jump_if(one.lt(&two), less);
        self.forget_for_loop();
        self.jump(equal);
        Ok(())
    }

    /// Any function of a string that hardly gives two the same number.
    pub(in crate::emit) fn kernel_string_hash(&mut self, word: u16) -> Result<Value, Stop> {
        self.needs_all_registers()?;
        self.forget_for_loop();
        let start = self.event_word(word);
        let (place, rest) = (self.get(start), self.length_of(word));
        // Not 0 for an empty one: that is the hash of none.
        let hash = self.get(&rest + 0x5bd1_e995);
        self.forget_for_loop();
        self.checkpoint();
        let (head, end) = (self.label(), self.label());
        self.bind(head);
        self.jump_if(rest.sle(0), end);
        let found = self.get(Memory::new(&place, 0, Size::DW));
        self.when(rest.slt(8), |code| {
            let excess = code.get(bits_behind(&rest));
            code.set(&found, &found << excess);
        });
        self.set(&hash, &hash ^ &found);
        // Odd, and extended by its sign: the product's upper half depends on all bits.
        self.set(&hash, &hash * 0x9e37_79b1_u32 as i32);
        self.set(&found, &hash >> 32);
        self.set(&hash, &hash ^ found);
        self.set(&place, &place + 8);
        self.set(&rest, &rest - 8);
        self.jump(head);
        self.bind(end);
        Ok(hash)
    }

    /// The first `bytes` of a string into a space on the stack, zeros behind.
    pub(in crate::emit) fn kernel_string_to(
        &mut self,
        word: u16,
        bytes: u32,
        space: u32,
        at: i16,
    ) -> Result<(), Stop> {
        let (length, start) = (self.length_of(word), self.word(word)?);
        let start_value = self.read(start);
        for from in (0..space as i32).step_by(8) {
            let wanted = (bytes as i32 - from).clamp(0, 8);
            let found = self.get(0);
            // Nothing behind the longest string.
            if wanted > 0 && from < LEN_MAX {
                self.when(length.gt(from), |code| {
                    code.set(&found, Memory::new(&start_value, from, Size::DW));
                    let excess = code.get(64 - 8 * wanted);
                    code.when(length.lt(from + wanted), |code| {
                        code.set(&excess, bits_behind(&length - from));
                    });
                    code.set(&found, &found << &excess);
                    code.set(&found, &found >> excess);
                });
            }
            self.put(Local::<u64>::at(at + from as i16), found);
        }
        self.release(start);
        Ok(())
    }

    /// A string's length, in a register that is to be held.
    pub(in crate::emit) fn string_length(&mut self, word: u16) -> Held {
        let length = self.length_of(word);
        self.held(length)
    }

    pub(in crate::emit) fn length_of(&mut self, word: u16) -> Value {
        let length = Expr::from(self.event_word(word + 1));
        self.get(length & LEN_MAX)
    }
}

/// 8 bytes at an offset, as a number that is ordered as they are.
fn in_order(start: &Value, at: i32) -> Expr {
    Expr::from(Memory::new(start, at, Size::DW)).big_endian(64)
}

/// From how many bytes of a word are a string's (1 to 7): how many bits are not.
fn bits_behind(bytes: impl Into<Expr>) -> Expr {
    -(bytes.into() << 3) + 64
}

/// Where it goes on when a string is less than another, equal, greater.
fn outcomes(order: Order, (holds, not, _): Ways) -> (Label, Label, Label) {
    let to = |orders: [Order; 3]| if orders.contains(&order) { holds } else { not };
    (
        to([Order::Lt, Order::Le, Order::Ne]),
        to([Order::Eq, Order::Le, Order::Ge]),
        to([Order::Gt, Order::Ge, Order::Ne]),
    )
}
