//! Strings by pointer and length.
//!
//! The kernel's verifier follows a loop over a string's places one by one: what counts them is a constant in each
//! round, and what bounds them is at most [`STRING_LEN_MAX`]. What it has seen it does not look at again, if it knows
//! no more and no less then. So a length is read anew each time, and cut to its bits: what a way through the program
//! tells of that number is forgotten behind it.

use crate::emit::code::{Code, Held, Label, Next, Stop, Ways};
use crate::emit::string_plan::word_of;
use crate::string_pattern::StringPattern;
use crate::target::STRING_LEN_MAX;
use crate::typed::Order;
use mote_bpf::Reg;
use mote_bpf::op::{Cond, Order as Bytes, Size, Width};

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
        let length = self.string_length(word)?;
        if len == 0 {
            self.decide(Cond::Eq, length.reg, 0, ways);
            self.release(length);
            return Ok(());
        }
        self.branch(Cond::Ne, length.reg, len as i32, not);
        self.release(length);
        let start = self.word(word)?;
        for (at, bytes) in group.iter().enumerate() {
            if at + 1 == group.len() {
                self.equal_words(start.reg, 0, bytes, (holds, not, next))?;
            } else {
                let on = self.label();
                self.equal_words(start.reg, 0, bytes, (holds, on, Next::False))?;
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
        let length = self.string_length(word)?;
        self.branch(Cond::Lt, length.reg, least as i32, not);
        self.first_part(word, first, not)?;
        self.last_part(word, length, last, not)?;
        if middle.is_empty() {
            self.release(length);
        } else {
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
        let on = self.label();
        self.equal_words(start.reg, 0, first, (on, not, Next::True))?;
        self.bind(on);
        self.release(start);
        Ok(())
    }

    fn last_part(&mut self, word: u16, length: Held, last: &[u8], not: Label) -> Result<(), Stop> {
        if last.is_empty() {
            return Ok(());
        }
        let start = self.word(word)?;
        let end = self.own(start)?;
        self.b.add(end.reg, length.reg);
        let on = self.label();
        self.equal_words(end.reg, -(last.len() as i32), last, (on, not, Next::True))?;
        self.bind(on);
        self.release(end);
        Ok(())
    }

    /// Looks for one part behind the other; the leftmost place is always right.
    fn middle_parts(
        &mut self,
        word: u16,
        length: Held,
        (first, last): (usize, usize),
        middle: &[Vec<u8>],
        not: Label,
    ) -> Result<(), Stop> {
        let limit = self.own(length)?;
        if last > 0 {
            self.b.sub(limit.reg, last as i32);
        }
        let start = self.word(word)?;
        let place = self.own(start)?;
        let mut before = first as i32;
        // Where the part ends if it is at `place`.
        let end = self.alloc()?;
        self.b.mov(end.reg, first as i32);
        for part in middle {
            if before > 0 {
                self.b.add(place.reg, before);
            }
            self.b.add(end.reg, part.len() as i32);
            before = part.len() as i32;
            self.forget_for_loop();
            self.checkpoint();
            let (head, found, next) = (self.label(), self.label(), self.label());
            self.bind(head);
            // Each round begins with the same knowledge of the limit. What is compared with a constant stands on the
            // left: Linux 6.1's verifier does not see otherwise that a loop ends.
            let most = self.alloc()?;
            self.b.mov(most.reg, limit.reg);
            self.b.and(most.reg, LEN_MAX);
            self.branch(Cond::Lt, most.reg, end.reg, not);
            self.release(most);
            self.equal_words(place.reg, 0, part, (found, next, Next::False))?;
            self.bind(next);
            self.b.add(place.reg, 1);
            self.b.add(end.reg, 1);
            self.jump(head);
            self.bind(found);
        }
        self.release(end);
        self.release(place);
        self.release(limit);
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
        let (length, start) = (self.string_length(word)?, self.word(word)?);
        let read = bytes.len().min(STRING_LEN_MAX as usize + 1);
        for at in (0..read).step_by(8) {
            // It ends, and the bytes do not.
            self.branch(Cond::Le, length.reg, at as i32, less);
            let found = self.alloc()?;
            self.b.load(Size::DW, found.reg, start.reg, at as i16);
            self.b.byte_order(Bytes::Big, 64, found.reg);
            let whole = self.label();
            self.branch(Cond::Ge, length.reg, at as i32 + 8, whole);
            let excess = self.alloc()?;
            self.b.mov(excess.reg, length.reg);
            self.b.sub(excess.reg, at as i32);
            self.bits_behind(excess.reg);
            self.b.rsh(found.reg, excess.reg);
            self.b.lsh(found.reg, excess.reg);
            self.release(excess);
            self.bind(whole);
            let wanted = word_of(bytes, at, Size::DW).swap_bytes();
            let (not_greater, on) = (self.label(), self.label());
            self.against(Cond::Gt, found.reg, wanted, (greater, not_greater, Next::False))?;
            self.bind(not_greater);
            self.against(Cond::Lt, found.reg, wanted, (less, on, Next::False))?;
            self.bind(on);
            self.release(found);
        }
        self.release(start);
        let bytes = bytes.len().min(i32::MAX as usize) as i32;
        self.branch(Cond::Lt, length.reg, bytes, less);
        self.branch(Cond::Gt, length.reg, bytes, greater);
        self.release(length);
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
        let (left, right, rest, one, two, excess) = (Reg::R0, Reg::R1, Reg::R2, Reg::R3, Reg::R4, Reg::R5);
        // As far as both go.
        let (shorter, head, whole, same) = (self.label(), self.label(), self.label(), self.label());
        self.load_length(rest, a);
        self.load_length(one, b);
        self.branch(Cond::Le, rest, one, shorter);
        self.b.mov(rest, one);
        self.bind(shorter);
        self.load_word(left, a);
        self.load_word(right, b);
        self.forget_for_loop();
        self.checkpoint();
        self.bind(head);
        self.branch(Cond::SLe, rest, 0, same);
        for (to, from) in [(one, left), (two, right)] {
            self.b.load(Size::DW, to, from, 0);
            self.b.byte_order(Bytes::Big, 64, to);
        }
        self.branch(Cond::SGe, rest, 8, whole);
        self.b.mov(excess, rest);
        self.bits_behind(excess);
        self.b.rsh(one, excess);
        self.b.rsh(two, excess);
        self.bind(whole);
        self.branch(Cond::Gt, one, two, greater);
        self.branch(Cond::Lt, one, two, less);
        self.b.add(left, 8);
        self.b.add(right, 8);
        self.b.sub(rest, 8);
        self.jump(head);
        self.bind(same);
        self.load_length(one, a);
        self.load_length(two, b);
        self.branch(Cond::Gt, one, two, greater);
        self.branch(Cond::Lt, one, two, less);
        self.forget_for_loop();
        self.jump(equal);
        Ok(())
    }

    /// Any function of a string that hardly gives two the same number, into `r0`.
    pub(in crate::emit) fn kernel_string_hash(&mut self, word: u16) -> Result<(), Stop> {
        self.needs_all_registers()?;
        let (hash, place, rest, found, excess) = (Reg::R0, Reg::R1, Reg::R2, Reg::R3, Reg::R4);
        self.forget_for_loop();
        self.load_word(place, word);
        self.load_length(rest, word);
        let (head, whole, end) = (self.label(), self.label(), self.label());
        // Not 0 for an empty one: that is the hash of none.
        self.b.mov(hash, rest);
        self.b.add(hash, 0x5bd1_e995);
        self.forget_for_loop();
        self.checkpoint();
        self.bind(head);
        self.branch(Cond::SLe, rest, 0, end);
        self.b.load(Size::DW, found, place, 0);
        self.branch(Cond::SGe, rest, 8, whole);
        self.b.mov(excess, rest);
        self.bits_behind(excess);
        self.b.lsh(found, excess);
        self.bind(whole);
        self.b.xor(hash, found);
        // Odd, and extended by its sign: the product's upper half depends on all bits.
        self.b.mul(hash, 0x9e37_79b1_u32 as i32);
        self.b.mov(found, hash);
        self.b.rsh(found, 32);
        self.b.xor(hash, found);
        self.b.add(place, 8);
        self.b.sub(rest, 8);
        self.jump(head);
        self.bind(end);
        Ok(())
    }

    /// The first `bytes` of a string into a space on the stack, zeros behind.
    pub(in crate::emit) fn kernel_string_to(
        &mut self,
        word: u16,
        bytes: u32,
        space: u32,
        at: i16,
    ) -> Result<(), Stop> {
        let (length, start) = (self.string_length(word)?, self.word(word)?);
        let (found, excess) = (self.alloc()?, self.alloc()?);
        for from in (0..space as i32).step_by(8) {
            let wanted = (bytes as i32 - from).clamp(0, 8);
            let (store, whole) = (self.label(), self.label());
            self.b.mov(found.reg, 0);
            // Nothing behind the longest string.
            if wanted > 0 && from < LEN_MAX {
                self.branch(Cond::Le, length.reg, from, store);
                self.b.load(Size::DW, found.reg, start.reg, from as i16);
                self.b.mov(excess.reg, 64 - 8 * wanted);
                self.branch(Cond::Ge, length.reg, from + wanted, whole);
                self.b.mov(excess.reg, length.reg);
                self.b.sub(excess.reg, from);
                self.bits_behind(excess.reg);
                self.bind(whole);
                self.b.lsh(found.reg, excess.reg);
                self.b.rsh(found.reg, excess.reg);
            }
            self.bind(store);
            self.b.store(Size::DW, Reg::R10, at + from as i16, found.reg);
        }
        [found, excess, start, length].into_iter().for_each(|held| self.release(held));
        Ok(())
    }

    /// A string's length.
    pub(in crate::emit) fn string_length(&mut self, word: u16) -> Result<Held, Stop> {
        let length = self.alloc()?;
        self.load_length(length.reg, word);
        Ok(length)
    }

    fn load_length(&mut self, dst: Reg, word: u16) {
        self.load_word(dst, word + 1);
        self.b.and(dst, LEN_MAX);
    }

    /// From how many bytes of a word are a string's (1 to 7): how many bits are not.
    fn bits_behind(&mut self, reg: Reg) {
        self.b.lsh(reg, 3);
        self.b.neg(Width::W64, reg);
        self.b.add(reg, 64);
    }
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
