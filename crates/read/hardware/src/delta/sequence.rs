//! Sequences of executed instructions: where a pattern is, given the instructions that are its steps.

use super::pattern::{Pattern, Sequence};
use mote_pt::image::Space;
use mote_pt::time::Span;

/// An instruction that was executed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct At {
    /// How many instructions its stream has executed before.
    pub number: u64,
    /// The version of code that it is of.
    pub space: Space,
    /// Its address.
    pub address: u64,
    /// When it was executed, in ticks of the time stamp counter.
    pub when: Span,
}

/// Where a pattern was: its first instruction and its last one, which are the same for many.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Match {
    pub(super) first: At,
    pub(super) last: At,
}

/// What an instruction means for a pattern.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Found {
    /// The pattern is there.
    Match(Match),
    /// The run at its end goes on.
    Longer(At),
}

/// Looks for a pattern in what is executed.
///
/// Of several instructions that a sequence could go on from, it is the last one. No instruction is of two matches of
/// one sequence; of several sequences that end at an instruction it is the longest.
#[derive(Debug)]
pub(super) struct Finder<'p> {
    chains: Vec<Chain<'p>>,
}

/// What is there of a sequence.
#[derive(Debug)]
struct Chain<'p> {
    steps: &'p Sequence,
    /// The bit of its first step.
    bit: usize,
    /// Behind each step: where the last part of a sequence is that ends with it.
    open: Vec<Option<Match>>,
}

impl<'p> Finder<'p> {
    pub(super) fn new(pattern: &'p Pattern) -> Finder<'p> {
        let mut bit = 0;
        let chain = |steps: &'p Sequence| {
            let chain = Chain { steps, bit, open: vec![None; steps.len()] };
            bit += steps.len();
            chain
        };
        Finder { chains: pattern.sequences.iter().map(chain).collect() }
    }

    /// Code is missing here: nothing goes on.
    pub(super) fn cut(&mut self) {
        self.chains.iter_mut().for_each(|chain| chain.open.fill(None));
    }

    /// Takes an instruction that is these steps.
    pub(super) fn take(&mut self, steps: u64, at: At) -> Option<Found> {
        let mut found = None;
        if steps == 0 {
            return found;
        }
        for chain in &mut self.chains {
            found = match (found, chain.take(steps, at)) {
                (Some(Found::Match(one)), Some(Found::Match(other))) => {
                    Some(Found::Match(if one.first.number <= other.first.number { one } else { other }))
                }
                // A run that goes on is no new match, whatever the others say.
                (Some(longer @ Found::Longer(_)), _) | (_, Some(longer @ Found::Longer(_))) => Some(longer),
                (one, other) => one.or(other),
            };
        }
        found
    }
}

impl Chain<'_> {
    #[inline]
    fn take(&mut self, steps: u64, at: At) -> Option<Found> {
        match self.steps.as_slice() {
            [step] if step.run.is_none() => {
                (steps >> self.bit & 1 != 0).then_some(Found::Match(Match { first: at, last: at }))
            }
            _ => self.go_on(steps, at),
        }
    }

    /// The same of a sequence that has more than one instruction.
    fn go_on(&mut self, steps: u64, at: At) -> Option<Found> {
        let is = |step: usize| steps >> (self.bit + step) & 1 != 0;
        let last = self.steps.len().checked_sub(1)?;
        let mut found = None;
        // From the end, so that an instruction is one step only.
        for (number, step) in self.steps.iter().enumerate().rev() {
            if !is(number) {
                continue;
            }
            let within = |open: Option<Match>, between: u32| {
                open.filter(|open| at.number - open.last.number <= u64::from(between) + 1)
            };
            let here = self.open.get(number).copied().flatten();
            if let Some(longer) = step.run.and_then(|run| within(here, run)) {
                self.open[number] = Some(Match { last: at, ..longer });
                if number == last {
                    return Some(Found::Longer(at));
                }
                continue;
            }
            let begun = match number.checked_sub(1) {
                None => Some(Match { first: at, last: at }),
                Some(before) => {
                    let before = self.open.get_mut(before)?;
                    let begun = within(*before, step.between).map(|open| Match { last: at, ..open });
                    if begun.is_some() {
                        *before = None;
                    }
                    begun
                }
            };
            let Some(begun) = begun else { continue };
            self.open[number] = Some(begun);
            if number == last {
                found = Some(Found::Match(begun));
                // Only a run is still to go on.
                if step.run.is_none() {
                    self.open[number] = None;
                }
                break;
            }
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::delta::Names;

    /// Instructions as letters, one each; what a pattern of `cli` (c), `sti` (s), `nop` (n), `pause` (p) finds.
    fn check(pattern: &str, executed: &str, expect: &[&str]) {
        let pattern = Pattern::parse(pattern, &Names::default()).expect(pattern);
        let letter = |text: &str| text.chars().next().unwrap_or(' ');
        let mut finder = Finder::new(&pattern);
        let mut found: Vec<(u64, u64)> = Vec::new();
        for (number, executed) in (0..).zip(executed.chars()) {
            let steps = pattern.sequences.iter().flatten().enumerate();
            let steps =
                steps.filter(|(_, step)| step.tests.iter().any(|test| letter(&test.text) == executed));
            let steps = steps.fold(0, |steps, (bit, _)| steps | 1 << bit);
            let at = At { number, space: Space::ANY, address: number, when: Span::UNKNOWN };
            if executed == '!' {
                finder.cut();
            }
            match finder.take(steps, at) {
                Some(Found::Match(found_there)) => {
                    found.push((found_there.first.number, found_there.last.number))
                }
                Some(Found::Longer(last)) => found.last_mut().expect("a run").1 = last.number,
                None => {}
            }
        }
        let found: Vec<String> = found.iter().map(|(first, last)| format!("{first}-{last}")).collect();
        assert_eq!(found, expect, "{pattern} in {executed}");
    }

    #[test]
    fn single_instructions_are_each_one() {
        check("cli", ".c.cc", &["1-1", "3-3", "4-4"]);
        check("cli/sti", "c.s", &["0-0", "2-2"]);
        check("cli | sti", "c.s", &["0-0", "2-2"]);
    }

    #[test]
    fn sequences_are_as_near_as_they_say() {
        check("cli sti", "c.s cs", &["4-5"]);
        check("cli ...1 sti", "c..s c.s", &["5-7"]);
        // The last one that it can go on from, and each only once.
        check("cli ... sti", "c.c.s.s", &["2-4"]);
        check("cli ... cli", "cccc", &["0-1", "2-3"]);
        check("cli ... nop ... sti", "cnns", &["0-3"]);
        check("cli ... sti", "c!s", &[]);
        check("nop ... cli | cli", "n.c.c", &["0-2", "4-4"]);
    }

    #[test]
    fn runs_go_on_as_long_as_they_may() {
        check("pause+2", "p..p..p...p", &["0-6", "10-10"]);
        check("pause+", "pppp", &["0-3"]);
        check("cli pause+1 ... sti", "cppp.s", &["0-5"]);
        check("cli ... pause+1", "c.pp.p..p", &["0-5"]);
        check("pause/nop+0", "pn.p", &["0-1", "3-3"]);
    }
}
