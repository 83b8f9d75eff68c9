//! Strings of the event against constants: machine words where that goes, else helpers.

use crate::emit::code::{Code, Held, Label, Next, Stop, Ways};
use crate::emit::string_plan::{Search, WORDS_BYTES_MAX, search, word_of, words};
use crate::emit::values::{Words, ordered};
use crate::string_pattern::StringPattern;
use crate::typed::{Order, StringSource};
use mote_bpf::helper;
use mote_bpf::op::Size;
use mote_builder::{Build, Expr, Value, map_value};

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

    /// The address of the string's beginning and so many bytes more; goes to `not` when that is not as `order` says
    /// against its end. The content is then read backwards from there: one register less, and the fastest shape of
    /// those that were tried. The end comes with it: what the verifier has learned is true of these registers, not of
    /// what is loaded anew.
    fn reach(&mut self, word: u16, len: usize, order: Order, not: Label) -> Result<(Value, Held), Stop> {
        let start = self.word(word)?;
        let reach = self.value(start)?;
        self.set(&reach, &reach + len);
        let end = self.word(word + 1)?;
        let end_value = self.read(end);
        self.jump_if(ordered(order, false, &reach, &end_value), not);
        Ok((reach, end))
    }

    /// Whether a string is one of some that are equally long.
    fn equals_one(&mut self, word: u16, group: &[&[u8]], (holds, not, next): Ways) -> Result<(), Stop> {
        if self.is_kernel() {
            return self.kernel_equals_one(word, group, (holds, not, next));
        }
        let len = group.first().map_or(0, |bytes| bytes.len());
        let (reach, end) = self.reach(word, len, Order::Ne, not)?;
        self.release(end);
        for (at, bytes) in group.iter().enumerate() {
            if at + 1 == group.len() {
                self.equal_words(Words::At(&reach), -(len as i32), bytes, (holds, not, next))?;
            } else {
                let on = self.label();
                self.equal_words(Words::At(&reach), -(len as i32), bytes, (holds, on, Next::False))?;
                self.bind(on);
            }
        }
        Ok(())
    }

    /// Compares bytes that may be read: one branch for a few words.
    pub(in crate::emit) fn equal_words(
        &mut self,
        base: Words<'_>,
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
    fn equal_joined(&mut self, base: Words<'_>, places: &[(i32, u64, Size)], ways: Ways) -> Result<(), Stop> {
        let differs = |(offset, value, size): &(i32, u64, Size)| {
            let word = Expr::from(base.word(*offset, *size));
            match size {
                Size::DW => Expr::from(*value) ^ word,
                _ => (word ^ *value as u32 as i32).low(),
            }
        };
        let Some((first, others)) = places.split_first() else { return Ok(()) };
        let all = self.get(differs(first));
        for place in others {
            self.set(&all, &all | differs(place));
        }
        self.choose(all.eq(0), ways);
        Ok(())
    }

    /// Compares words at offsets from a place.
    pub(in crate::emit) fn equal_places(
        &mut self,
        base: Words<'_>,
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
        base: Words<'_>,
        (offset, value, size): (i32, u64, Size),
        ways: Ways,
    ) -> Result<(), Stop> {
        if !self.is_reachable() {
            return Ok(());
        }
        let word = base.word(offset, size);
        let equal = if size == Size::W { word.eq(value as u32 as i32).of_32_bits() } else { word.eq(value) };
        self.choose(equal, ways);
        Ok(())
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
            let whole = self.string_at(word);
            return self.fits_inside(search, pattern, whole, (holds, not, next));
        }
        let (reach, end) = self.reach(word, outer, Order::Gt, not)?;
        let end_value = self.read(end);
        let (behind, on) = (self.label(), self.label());
        let only_words = search.is_none();
        let last_ways = if only_words { (holds, not, next) } else { (on, not, Next::True) };
        if last.is_empty() {
            self.equal_words(Words::At(&reach), -(outer as i32), first, last_ways)?;
        } else {
            self.equal_words(Words::At(&reach), -(outer as i32), first, (behind, not, Next::True))?;
            self.bind(behind);
            self.equal_words(Words::At(&end_value), -(last.len() as i32), last, last_ways)?;
        }
        self.release(end);
        if only_words {
            return Ok(());
        }
        self.bind(on);
        let string = match search {
            // What is behind the first part.
            Some(Search::Find(_)) => (reach.into(), end_value.into()),
            _ => self.string_at(word),
        };
        self.fits_inside(search, pattern, string, (holds, not, next))
    }

    /// Asks a helper about the string between two addresses.
    fn fits_inside(
        &mut self,
        search: Option<Search<'_>>,
        pattern: &StringPattern,
        string: (Expr, Expr),
        ways: Ways,
    ) -> Result<(), Stop> {
        match search {
            None => self.constant_outcome(true, ways),
            Some(Search::Find(needle)) => {
                let found = self.ask(helper::TEXT_FIND, string, needle)?;
                self.choose(found.ne(-1), ways);
            }
            Some(Search::Glob) => {
                let fits = self.ask(helper::TEXT_GLOB, string, &pattern.to_helper())?;
                self.choose(fits.ne(0), ways);
            }
        }
        Ok(())
    }

    /// Asks a helper about a string, and a constant.
    fn ask(&mut self, id: u32, (start, end): (Expr, Expr), constant: &[u8]) -> Result<Value, Stop> {
        let constant_at = self.needs.constant(constant).map_or(Expr::from(0), |(map, at)| map_value(map, at));
        self.call_with(id, (start, end, constant_at, constant.len()))
    }

    /// A register with the hash of the string that lies in this word of the context.
    pub(in crate::emit) fn string_hash(&mut self, word: u16) -> Result<Value, Stop> {
        if self.is_kernel() {
            return self.kernel_string_hash(word);
        }
        let string = self.string_at(word);
        self.call_with(helper::TEXT_HASH, string)
    }

    /// Where a string begins and ends, as arguments of a helper.
    fn string_at(&mut self, word: u16) -> (Expr, Expr) {
        (self.event_word(word).into(), self.event_word(word + 1).into())
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
            let order = match order {
                Order::Eq | Order::Le => Order::Eq,
                Order::Ne | Order::Gt => Order::Ne,
                Order::Lt | Order::Ge => {
                    self.constant_outcome(order == Order::Ge, ways);
                    return Ok(());
                }
            };
            let (start, end) = (self.word(word)?, self.word(word + 1)?);
            self.with(start, |code, start| {
                code.with(end, |code, end| code.choose(ordered(order, false, start, end), ways));
            });
            return Ok(());
        }
        let string = self.string_at(word);
        let compared = self.ask(helper::TEXT_COMPARE, string, bytes)?;
        self.choose(ordered(order, true, &compared, 0), ways);
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
        let ((a, a_end), (b, b_end)) = (self.string_at(a), self.string_at(b));
        let compared = self.call_with(helper::TEXT_TEXT_COMPARE, (a, a_end, b, b_end))?;
        self.choose(ordered(order, true, &compared, 0), ways);
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
