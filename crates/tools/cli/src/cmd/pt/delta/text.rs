//! Tables and histograms for people.

use super::found::Found;
use crate::cmd::pt::times;
use mote_analysis::Histogram;
use mote_hardware::delta::{Case, Profile, Sums};
use mote_hardware::paths::Named;
use mote_pt::time::Span;
use mote_words::{bar, counted_grouped, fitted, grouped};
use std::collections::BTreeMap;
use std::fmt::{Result, Write};

/// Rows of a histogram.
const ROWS: usize = 20;
/// Streams and threads that are shown, and pairs of functions.
const SHOWN: usize = 20;
/// Columns of a histogram's bars.
const BAR: usize = 40;
/// Functions of a stack that are shown.
const STACK: usize = 24;

/// All that was found.
pub(super) fn page(found: &Found<'_>) -> String {
    let mut page = Page { found, out: String::new() };
    // Writing to a string does not fail.
    let _ = page.all();
    page.out
}

struct Page<'f> {
    found: &'f Found<'f>,
    out: String,
}

impl Page<'_> {
    fn all(&mut self) -> Result {
        self.head()?;
        let profile = &self.found.answer.profile;
        if profile.all.instructions.count() == 0 {
            return Ok(());
        }
        self.sums(profile)?;
        self.histograms(&profile.all)?;
        self.between(profile)?;
        self.worst(profile)
    }

    /// How many there were, and what became no interval.
    fn head(&mut self) -> Result {
        let Found { question, answer, .. } = self.found;
        let Profile { all, found, again, alone, cut, .. } = &answer.profile;
        let count = all.instructions.count();
        let Some(to) = &question.to else {
            let times = counted_grouped(count, "time", "times");
            return writeln!(self.out, "{}: {times}", question.from);
        };
        let intervals = counted_grouped(count, "interval", "intervals");
        writeln!(self.out, "{} -> {to}: {intervals}", question.from)?;
        let [from_count, to_count] = found.map(|count| counted_grouped(count, "time", "times"));
        writeln!(self.out, "  {}: {from_count}; {to}: {to_count}", question.from)?;
        let how = if question.restarts { "the interval began anew" } else { "the interval went on" };
        for (count, what) in [
            (*again, format!("{} came again within an interval: {how}", question.from)),
            (*alone, format!("{to} came outside of one")),
            (*cut, "intervals have no end: code is missing there, or the capture ends".to_owned()),
        ] {
            if count > 0 {
                writeln!(self.out, "  {:>9}  {what}", grouped(count))?;
            }
        }
        Ok(())
    }

    fn has_times(&self) -> bool {
        self.found.answer.profile.all.most_ns.count() + self.found.answer.profile.all.least_ns.count() > 0
    }

    /// It is asked how often an instruction was, and nothing has a length.
    fn is_count(&self) -> bool {
        self.found.question.to.is_none() && self.found.question.from.is_single()
    }

    fn sums(&mut self, profile: &Profile) -> Result {
        if self.is_count() {
            writeln!(self.out, "\n{:>12}  of", "times")?;
            return self.rows(profile, |sums| format!("{:>12}", grouped(sums.instructions.count())));
        }
        let times =
            if self.has_times() { format!(" {:>22} {:>22}", "time: median", "99 %") } else { String::new() };
        let head = ["intervals", "median", "mean", "99 %", "most instructions"];
        let [count, median, mean, high, max] = head;
        writeln!(self.out, "\n{count:>12} {median:>9} {mean:>9} {high:>9} {max:>18}{times}  of")?;
        let has_times = self.has_times();
        self.rows(profile, |sums| row(sums, has_times))?;
        if profile.all.untraced > 0 {
            let untraced = counted_grouped(profile.all.untraced, "interval has", "intervals have");
            writeln!(
                self.out,
                "{untraced} a part that was not traced: its time counts, its instructions do not"
            )?;
        }
        Ok(())
    }

    /// A row for all, and for each stream and thread, those with the most intervals first.
    fn rows(&mut self, profile: &Profile, row: impl Fn(&Sums) -> String) -> Result {
        if profile.of.len() != 1 {
            writeln!(self.out, "{}  all", row(&profile.all))?;
        }
        let mut all: Vec<_> = profile.of.iter().collect();
        all.sort_by_key(|(who, sums)| (u64::MAX - sums.instructions.count(), **who));
        for (who, sums) in all.iter().take(SHOWN) {
            writeln!(self.out, "{}  {}", row(sums), self.found.threads.words(who.of, who.tid))?;
        }
        self.left_out(all.len())
    }

    fn left_out(&mut self, all: usize) -> Result {
        match all.checked_sub(SHOWN).filter(|left| *left > 0) {
            Some(left) => writeln!(self.out, "{:>12}  more: --format json has all", grouped(left as u64)),
            None => Ok(()),
        }
    }

    fn histograms(&mut self, sums: &Sums) -> Result {
        if sums.instructions.max() == sums.instructions.min() && !self.has_times() {
            return Ok(());
        }
        writeln!(self.out, "\n{:>22} {:>12}", "instructions", "intervals")?;
        let rows = sums.instructions.rows(ROWS);
        let most = rows.iter().map(|row| row.2).max().unwrap_or(0);
        for (first, last, count) in rows {
            let range =
                if first == last { grouped(first) } else { format!("{}..{}", grouped(first), grouped(last)) };
            writeln!(self.out, "{range:>22} {:>12}  {}", grouped(count), bar(count, most, BAR))?;
        }
        if self.has_times() { self.times(sums) } else { Ok(()) }
    }

    /// How many took at least and at most so long.
    fn times(&mut self, sums: &Sums) -> Result {
        let [least, most] = [&sums.least_ns, &sums.most_ns];
        let rows = together(least, most);
        writeln!(self.out, "\n{:>22} {:>12} {:>12}", "time", "at least", "at most")?;
        let longest = rows.iter().map(|row| row.3).max().unwrap_or(0);
        for (first, last, at_least, at_most) in rows {
            let range = times::duration(Span { low: Some(first), high: Some(last) });
            let [at_least, shown] = [at_least, at_most].map(grouped);
            writeln!(self.out, "{range:>22} {at_least:>12} {shown:>12}  {}", bar(at_most, longest, BAR))?;
        }
        let untimed = sums.instructions.count() - most.count();
        if untimed > 0 {
            writeln!(self.out, "{:>22} {:>12} {:>12}", "not known", "", grouped(untimed))?;
        }
        Ok(())
    }

    /// Where they begin and end.
    fn between(&mut self, profile: &Profile) -> Result {
        let mut all: Vec<_> = profile.between.iter().collect();
        all.sort_by_key(|(names, between)| (u64::MAX - between.count, *names));
        let is_one = self.found.question.to.is_none();
        let place = if is_one { "in" } else { "from, to" };
        let count = if is_one { "times" } else { "intervals" };
        writeln!(self.out, "\n{count:>12} {:>14} {:>14}  {place}", "instructions", "most")?;
        for ((from, to), between) in all.iter().take(SHOWN) {
            let names = if from == to {
                fitted(from, 60)
            } else {
                format!("{}, {}", fitted(from, 40), fitted(to, 40))
            };
            let [count, sum, max] =
                [between.count, between.instructions, between.instructions_max].map(grouped);
            writeln!(self.out, "{count:>12} {sum:>14} {max:>14}  {names}")?;
        }
        if profile.unplaced > 0 {
            writeln!(self.out, "{:>12}  in places that are too many", grouped(profile.unplaced))?;
        }
        self.left_out(all.len())
    }

    fn worst(&mut self, profile: &Profile) -> Result {
        if self.is_count() {
            return Ok(());
        }
        for (number, (case, stack)) in (1..).zip(profile.worst.iter().zip(&self.found.stacks)) {
            let Case { who, from, to, instructions, ns, .. } = case;
            let count = counted_grouped(*instructions, "instruction", "instructions");
            let time =
                if *ns == Span::UNKNOWN { String::new() } else { format!(", {}", times::duration(*ns)) };
            let when = self.found.times.ns(from.when);
            let when =
                if when == Span::UNKNOWN { String::new() } else { format!(", at {}", times::text(when)) };
            let whose = self.found.threads.words(who.of, who.tid);
            writeln!(self.out, "\n{number}. {count}{time}{when}, {whose}")?;
            writeln!(self.out, "   from {:#x} to {:#x}, where it begins in", from.address, to.address)?;
            self.stack(stack)?;
            writeln!(self.out, "   {}", self.found.command(case))?;
        }
        Ok(())
    }

    /// A stack, the innermost function first.
    fn stack(&mut self, stack: &[Named]) -> Result {
        for named in stack.iter().rev().take(STACK) {
            let kernel = if named.is_kernel { " [kernel]" } else { "" };
            writeln!(self.out, "     {}{kernel}", fitted(&named.name, 90))?;
        }
        match stack.len().checked_sub(STACK).filter(|left| *left > 0) {
            Some(left) => writeln!(self.out, "     ... {left} more"),
            None => Ok(()),
        }
    }
}

fn row(sums: &Sums, has_times: bool) -> String {
    let Sums { instructions, least_ns, most_ns, .. } = sums;
    let shown = |value: Option<u64>| value.map_or_else(|| "-".to_owned(), grouped);
    let [median, mean, high, max] =
        [instructions.quantile(500), instructions.mean(), instructions.quantile(990), instructions.max()]
            .map(shown);
    let times = if has_times {
        let time =
            |permille: u64| Span { low: least_ns.quantile(permille), high: most_ns.quantile(permille) };
        let [median, high] = [500, 990].map(|permille| times::duration(time(permille)));
        format!(" {median:>22} {high:>22}")
    } else {
        String::new()
    };
    format!("{:>12} {median:>9} {mean:>9} {high:>9} {max:>18}{times}", grouped(instructions.count()))
}

/// Rows of two histograms: the same buckets, with the counts of both.
fn together(one: &Histogram, other: &Histogram) -> Vec<(u64, u64, u64, u64)> {
    let [one, other] = Histogram::same_rows([one, other], ROWS);
    let mut all = BTreeMap::<(u64, u64), (u64, u64)>::new();
    one.iter().for_each(|(first, last, count)| all.entry((*first, *last)).or_default().0 += count);
    other.iter().for_each(|(first, last, count)| all.entry((*first, *last)).or_default().1 += count);
    all.into_iter().map(|((first, last), (one, other))| (first, last, one, other)).collect()
}
