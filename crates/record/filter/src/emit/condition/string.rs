//! Strings of the event against constants: machine words where that goes, else helpers.

use crate::emit::code::{Code, Held, Label, Next, Stop, Ways};
use crate::emit::condition::branch_of;
use crate::emit::string_plan::{Search, WORDS_BYTES_MAX, search, word_of, words};
use crate::string_pattern::StringPattern;
use crate::typed::{Order, StringSource};
use mote_bpf::Reg;
use mote_bpf::helper;
use mote_bpf::op::{Cond, Size};

/// Words that are compared by one branch.
const WORDS_A_BRANCH: usize = 4;

impl Code<'_> {
    /// Whether a string fits one of some patterns.
    pub(in crate::emit) fn string(
        &mut self,
        string: StringSource,
        patterns: &[StringPattern],
        ways: Ways,
    ) -> Result<(), Stop> {
        let StringSource::Field(word) = string else { return self.context_string(string, patterns, ways) };
        let (holds, not, next) = ways;
        // Those without a `*`, by length: so that the length is looked at once.
        let mut exact: Vec<&[u8]> = patterns.iter().filter_map(StringPattern::as_exact).collect();
        exact.retain(|bytes| bytes.len() <= WORDS_BYTES_MAX);
        exact.sort_by_key(|bytes| bytes.len());
        let others: Vec<_> = patterns
            .iter()
            .filter(|pattern| pattern.as_exact().is_none_or(|bytes| bytes.len() > WORDS_BYTES_MAX))
            .collect();
        let groups: Vec<&[&[u8]]> = exact.chunk_by(|a, b| a.len() == b.len()).collect();
        for (at, group) in groups.iter().enumerate() {
            if at + 1 == groups.len() && others.is_empty() {
                return self.equals_one(word, group, ways);
            }
            let on = self.label();
            self.equals_one(word, group, (holds, on, Next::False))?;
            self.bind(on);
        }
        for (at, pattern) in others.iter().enumerate() {
            if at + 1 == others.len() {
                return self.fits(word, pattern, (holds, not, next));
            }
            let on = self.label();
            self.fits(word, pattern, (holds, on, Next::False))?;
            self.bind(on);
        }
        self.constant_outcome(false, ways);
        Ok(())
    }

    /// A register with the string's beginning and so many bytes more; goes to `not` when that is not as `cond` says
    /// against its end. The content is then read backwards from there: one register less, and the fastest shape of
    /// those that were tried. The end comes with it: what the verifier has learned is true of these registers, not of
    /// what is loaded anew.
    fn reach(&mut self, word: u16, len: usize, cond: Cond, not: Label) -> Result<(Held, Held), Stop> {
        let start = self.word(word)?;
        let reach = self.own(start)?;
        self.b.add(reach.reg, len as i32);
        let end = self.word(word + 1)?;
        self.branch(cond, reach.reg, end.reg, not);
        Ok((reach, end))
    }

    /// Whether a string is one of some that are equally long.
    fn equals_one(&mut self, word: u16, group: &[&[u8]], (holds, not, next): Ways) -> Result<(), Stop> {
        if self.is_kernel() {
            return self.kernel_equals_one(word, group, (holds, not, next));
        }
        let len = group.first().map_or(0, |bytes| bytes.len());
        let (reach, end) = self.reach(word, len, Cond::Ne, not)?;
        self.release(end);
        for (at, bytes) in group.iter().enumerate() {
            if at + 1 == group.len() {
                self.equal_words(reach.reg, -(len as i32), bytes, (holds, not, next))?;
            } else {
                let on = self.label();
                self.equal_words(reach.reg, -(len as i32), bytes, (holds, on, Next::False))?;
                self.bind(on);
            }
        }
        self.release(reach);
        Ok(())
    }

    /// Compares bytes that may be read: one branch for a few words.
    pub(in crate::emit) fn equal_words(
        &mut self,
        base: Reg,
        offset: i32,
        bytes: &[u8],
        ways: Ways,
    ) -> Result<(), Stop> {
        let places: Vec<_> = words(bytes.len())
            .into_iter()
            .map(|(at, size)| (offset + at as i32, word_of(bytes, at, size), size))
            .collect();
        let mut groups = places.chunks(WORDS_A_BRANCH).peekable();
        if groups.peek().is_none() {
            self.constant_outcome(true, ways);
        }
        while let Some(group) = groups.next() {
            let on = self.label();
            let ways = if groups.peek().is_some() { (on, ways.1, Next::True) } else { ways };
            match group {
                [one] => self.equal_word(base, *one, ways)?,
                several => self.equal_joined(base, several, ways)?,
            }
            self.bind(on);
        }
        Ok(())
    }

    /// Compares several words at once: what differs is gathered by `^` and `|`.
    fn equal_joined(&mut self, base: Reg, places: &[(i32, u64, Size)], ways: Ways) -> Result<(), Stop> {
        let mut all: Option<Held> = None;
        for (offset, value, size) in places {
            let word = self.alloc()?;
            let differs = match size {
                Size::DW => {
                    let constant = self.alloc()?;
                    self.b.constant(constant.reg, *value);
                    self.b.load(*size, word.reg, base, *offset as i16);
                    self.b.xor(constant.reg, word.reg);
                    self.release(word);
                    constant
                }
                _ => {
                    self.b.load(*size, word.reg, base, *offset as i16);
                    self.b.xor32(word.reg, *value as u32 as i32);
                    word
                }
            };
            match all {
                None => all = Some(differs),
                Some(all) => {
                    self.b.or(all.reg, differs.reg);
                    self.release(differs);
                }
            }
        }
        if let Some(all) = all {
            self.decide(Cond::Eq, all.reg, 0, ways);
            self.release(all);
        }
        Ok(())
    }

    /// Compares words at offsets from a register.
    pub(in crate::emit) fn equal_places(
        &mut self,
        base: Reg,
        places: &[(i32, u64, Size)],
        ways: Ways,
    ) -> Result<(), Stop> {
        let (holds, not, next) = ways;
        let Some((last, before)) = places.split_last() else {
            self.constant_outcome(true, ways);
            return Ok(());
        };
        let on = self.label();
        for place in before {
            self.equal_word(base, *place, (on, not, Next::True))?;
        }
        self.bind(on);
        self.equal_word(base, *last, (holds, not, next))
    }

    fn equal_word(
        &mut self,
        base: Reg,
        (offset, value, size): (i32, u64, Size),
        ways: Ways,
    ) -> Result<(), Stop> {
        if !self.is_reachable() {
            return Ok(());
        }
        let word = self.alloc()?;
        self.b.load(size, word.reg, base, offset as i16);
        if size == Size::W {
            let value = value as u32 as i32;
            match ways.2 {
                Next::True => self.branch32(Cond::Ne, word.reg, value, ways.1),
                Next::False => self.branch32(Cond::Eq, word.reg, value, ways.0),
            }
        } else {
            self.against(Cond::Eq, word.reg, value, ways)?;
        }
        self.release(word);
        Ok(())
    }

    /// Where a string begins and ends.
    fn ends(&mut self, word: u16) -> Result<(Held, Held), Stop> {
        Ok((self.word(word)?, self.word(word + 1)?))
    }

    /// Whether a string fits a pattern with a `*`, or a long one without.
    fn fits(&mut self, word: u16, pattern: &StringPattern, (holds, not, next): Ways) -> Result<(), Stop> {
        if self.is_kernel() {
            return self.kernel_fits(word, pattern, (holds, not, next));
        }
        let (first, last): (&[u8], &[u8]) = match pattern.parts() {
            [first, .., last] if first.len().max(last.len()) <= WORDS_BYTES_MAX => (first, last),
            _ => (&[], &[]),
        };
        let search = search(pattern);
        let outer = first.len() + last.len();
        if outer == 0 {
            self.load_string(word);
            return self.fits_inside(search, pattern, (holds, not, next));
        }
        let (reach, end) = self.reach(word, outer, Cond::Gt, not)?;
        let (behind, on) = (self.label(), self.label());
        let only_words = search.is_none();
        let last_ways = if only_words { (holds, not, next) } else { (on, not, Next::True) };
        if last.is_empty() {
            self.equal_words(reach.reg, -(outer as i32), first, last_ways)?;
        } else {
            self.equal_words(reach.reg, -(outer as i32), first, (behind, not, Next::True))?;
            self.bind(behind);
            self.equal_words(end.reg, -(last.len() as i32), last, last_ways)?;
        }
        self.release(reach);
        self.release(end);
        if only_words {
            return Ok(());
        }
        self.bind(on);
        match search {
            // What is behind the first part.
            Some(Search::Find(_)) => self.move_string(reach.reg, end.reg),
            _ => self.load_string(word),
        }
        self.fits_inside(search, pattern, (holds, not, next))
    }

    /// Asks a helper, the string being in `r1` and `r2`.
    fn fits_inside(
        &mut self,
        search: Option<Search<'_>>,
        pattern: &StringPattern,
        ways: Ways,
    ) -> Result<(), Stop> {
        match search {
            None => {
                self.constant_outcome(true, ways);
                Ok(())
            }
            Some(Search::Find(needle)) => {
                self.ask(helper::TEXT_FIND, needle)?;
                self.decide(Cond::Ne, Reg::R0, -1, ways);
                Ok(())
            }
            Some(Search::Glob) => {
                self.ask(helper::TEXT_GLOB, &pattern.to_helper())?;
                self.decide(Cond::Ne, Reg::R0, 0, ways);
                Ok(())
            }
        }
    }

    /// Two registers into `r1` and `r2`.
    fn move_string(&mut self, start: Reg, end: Reg) {
        let moves: &[(Reg, Reg)] = match (start, end) {
            (Reg::R2, Reg::R1) => &[(Reg::R0, end), (Reg::R1, start), (Reg::R2, Reg::R0)],
            (_, Reg::R1) => &[(Reg::R2, end), (Reg::R1, start)],
            _ => &[(Reg::R1, start), (Reg::R2, end)],
        };
        for &(to, from) in moves.iter().filter(|(to, from)| to != from) {
            self.changed(to);
            self.b.mov(to, from);
        }
    }

    /// Asks a helper about the string in `r1` and `r2`, and a constant.
    fn ask(&mut self, id: u32, constant: &[u8]) -> Result<(), Stop> {
        if let Some((map, at)) = self.needs.constant(constant) {
            self.changed(Reg::R3);
            self.b.map_value(Reg::R3, map, at);
        }
        self.changed(Reg::R4);
        self.b.mov(Reg::R4, constant.len() as i32);
        self.call(id)
    }

    /// The hash of a string into `r0`.
    pub(in crate::emit) fn string_hash(&mut self, word: u16) -> Result<(), Stop> {
        if self.is_kernel() {
            return self.kernel_string_hash(word);
        }
        self.load_string(word);
        self.call(helper::TEXT_HASH)
    }

    /// A string into `r1` and `r2`.
    pub(in crate::emit) fn load_string(&mut self, word: u16) {
        self.load_word(Reg::R1, word);
        self.load_word(Reg::R2, word + 1);
    }

    pub(in crate::emit) fn string_order(
        &mut self,
        order: Order,
        string: StringSource,
        bytes: &[u8],
        ways: Ways,
    ) -> Result<(), Stop> {
        let StringSource::Field(word) = string else { return Err(Stop::NoRegister) };
        if self.is_kernel() {
            return self.kernel_string_order(order, word, bytes, ways);
        }
        if bytes.is_empty() {
            // A helper is given at least one byte.
            let (start, end) = self.ends(word)?;
            let cond = match order {
                Order::Eq | Order::Le => Cond::Eq,
                Order::Ne | Order::Gt => Cond::Ne,
                Order::Lt | Order::Ge => {
                    self.release(start);
                    self.release(end);
                    self.constant_outcome(order == Order::Ge, ways);
                    return Ok(());
                }
            };
            self.decide(cond, start.reg, end.reg, ways);
            self.release(start);
            self.release(end);
            return Ok(());
        }
        self.load_string(word);
        self.ask(helper::TEXT_COMPARE, bytes)?;
        self.decide(branch_of(order, true), Reg::R0, 0, ways);
        Ok(())
    }

    pub(in crate::emit) fn string_compare(
        &mut self,
        order: Order,
        a: u16,
        b: u16,
        ways: Ways,
    ) -> Result<(), Stop> {
        if self.is_kernel() {
            return self.kernel_string_compare(order, a, b, ways);
        }
        self.load_string(a);
        self.load_word(Reg::R3, b);
        self.load_word(Reg::R4, b + 1);
        self.call(helper::TEXT_TEXT_COMPARE)?;
        self.decide(branch_of(order, true), Reg::R0, 0, ways);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_cover_each_byte_and_no_other() {
        for len in 0..40 {
            let mut covered = vec![false; len];
            for (at, size) in words(len) {
                covered[at..at + size.bytes()].fill(true);
            }
            assert!(covered.iter().all(|covered| *covered), "{len}");
            assert!(words(len).len() <= len / 8 + 2);
        }
        assert_eq!(word_of(b"abcd", 1, Size::H), 0x6362);
    }
}
