//! Patterns over decoded instructions, as people write them.
//!
//! ```text
//! pattern   sequence | sequence         one or the other
//! sequence  step step                   directly one behind the other
//!           step ... step               with at most 16 other instructions between; ...8: at most 8
//! step      test/test                   an instruction that is one or the other
//!           test+                       a run: again and again, at most 16 others between; +4: at most 4
//! test      cli   j*   *                by mnemonic
//!           mov(cr3,*)   call(malloc)   by operands, as Intel writes them; of a direct branch also the function
//!           lock:xadd   lock:*   rep:*  by prefix
//!           x87   simd                  by what it works on: the x87, MMX and vector registers
//!           cli@native_*                in a function
//!           @malloc                     the first instruction of a function
//!           popf{if}                    unless it is known to leave interrupts disabled
//!           superCLI                    a named pattern
//! ```

use super::names::Names;
use super::operands::Class;
use iced_x86::Mnemonic;
use mote_pattern::{Glob, similar};
use std::fmt;
use thiserror::Error;

/// How many other instructions may lie between two steps of `...`, and of a run, unless something else is said.
const BETWEEN: u32 = 16;
/// Most other instructions that may.
const BETWEEN_MAX: u32 = 1 << 20;
/// Most sequences of a pattern, with those of the names in it.
const SEQUENCES_MAX: usize = 32;
/// Most tests of a step, with those of the names in it.
const TESTS_MAX: usize = 256;
/// Most steps of a pattern: each has a bit.
pub(super) const STEPS_MAX: usize = 64;
/// How deep names may be made of names.
const DEPTH_MAX: u32 = 16;

/// A pattern.
#[derive(Clone, Debug)]
pub struct Pattern {
    text: String,
    pub(super) sequences: Vec<Sequence>,
}

/// Steps, one behind the other.
pub(super) type Sequence = Vec<Step>;

/// An instruction of a sequence, or a run of them.
#[derive(Clone, Debug)]
pub(super) struct Step {
    /// An instruction is this step's if one of these tests holds.
    pub(super) tests: Vec<Test>,
    /// How many other instructions may lie between the step before and it.
    pub(super) between: u32,
    /// It may come again, with at most so many others between.
    pub(super) run: Option<u32>,
}

/// What an instruction is asked.
#[derive(Clone, Debug)]
pub(super) struct Test {
    /// As it was written.
    pub(super) text: String,
    pub(super) prefix: Option<Prefix>,
    pub(super) what: What,
    /// Patterns of its operands, all of them.
    pub(super) operands: Option<Vec<Glob>>,
    /// The function that it lies in.
    pub(super) function: Option<Glob>,
    /// It does not leave interrupts disabled, as far as is known.
    pub(super) enables: bool,
}

/// A prefix of an instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Prefix {
    Lock,
    Rep,
}

/// What an instruction is to be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum What {
    Any,
    /// The first one of its function.
    Entry,
    Class(Class),
    Mnemonics(Vec<Mnemonic>),
}

/// A pattern that is none.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("pattern `{pattern}`, column {column}: {why}")]
pub struct BadPattern {
    pattern: String,
    /// From 1.
    column: usize,
    why: String,
}

impl Pattern {
    /// Reads a pattern, in which `names` may stand.
    ///
    /// # Errors
    /// What is wrong, where, and what would be right.
    pub fn parse(text: &str, names: &Names) -> Result<Pattern, BadPattern> {
        Pattern::nested(text, names, 0)
    }

    fn nested(text: &str, names: &Names, depth: u32) -> Result<Pattern, BadPattern> {
        let mut parser = Parser { text, at: 0, names, depth };
        let sequences = parser.pattern()?;
        let steps: usize = sequences.iter().map(Vec::len).sum();
        if steps > STEPS_MAX {
            parser.at = 0;
            return Err(
                parser.bad(format!("it has {steps} steps with its names, and at most {STEPS_MAX} may be"))
            );
        }
        Ok(Pattern { text: text.trim().to_owned(), sequences })
    }

    /// The tests of all steps of all sequences.
    pub(super) fn tests(&self) -> impl Iterator<Item = &Test> {
        self.sequences.iter().flatten().flat_map(|step| &step.tests)
    }

    /// It is always one instruction, and no more.
    #[must_use]
    pub fn is_single(&self) -> bool {
        self.sequences.iter().all(|steps| is_single(steps))
    }
}

/// Whether a sequence is one instruction, and no more.
fn is_single(steps: &[Step]) -> bool {
    matches!(steps, [step] if step.run.is_none())
}

impl fmt::Display for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

struct Parser<'t> {
    text: &'t str,
    /// How many bytes were read.
    at: usize,
    names: &'t Names,
    depth: u32,
}

/// What may stand for a step.
enum Part {
    Test(Box<Test>),
    /// A name's pattern.
    Named(String, Vec<Sequence>),
}

impl<'t> Parser<'t> {
    fn rest(&self) -> &'t str {
        self.text.get(self.at..).unwrap_or_default()
    }

    fn skip_space(&mut self) {
        self.at = self.text.len() - self.rest().trim_start().len();
    }

    /// Reads a sign, if it comes next.
    fn takes(&mut self, sign: &str) -> bool {
        let is_there = self.rest().starts_with(sign);
        self.at += if is_there { sign.len() } else { 0 };
        is_there
    }

    /// Reads the characters for which `is_part` holds.
    fn take(&mut self, is_part: impl Fn(char) -> bool) -> &'t str {
        let rest = self.rest();
        let end = rest.find(|c| !is_part(c)).unwrap_or(rest.len());
        self.at += end;
        rest.get(..end).unwrap_or_default()
    }

    fn bad(&self, why: impl Into<String>) -> BadPattern {
        let before = self.text.get(..self.at).unwrap_or_default().chars().count();
        BadPattern { pattern: self.text.to_owned(), column: before + 1, why: why.into() }
    }

    fn pattern(&mut self) -> Result<Vec<Sequence>, BadPattern> {
        let mut all = Vec::new();
        loop {
            all.extend(self.sequence()?);
            if all.len() > SEQUENCES_MAX {
                return Err(self.bad(format!("more than {SEQUENCES_MAX} sequences, with those of its names")));
            }
            if !self.takes("|") {
                return Ok(all);
            }
        }
    }

    /// A sequence; several, where a name in it stands for several.
    fn sequence(&mut self) -> Result<Vec<Sequence>, BadPattern> {
        let mut all: Vec<Sequence> = vec![Vec::new()];
        loop {
            self.skip_space();
            let is_first = all.iter().all(Vec::is_empty);
            let begin = self.at;
            let between = if self.takes("...") { Some(self.number(BETWEEN)?) } else { None };
            self.skip_space();
            let is_end = self.rest().is_empty() || self.rest().starts_with('|');
            match (is_first, between, is_end) {
                (false, None, true) => return Ok(all),
                (true, None, true) => return Err(self.bad("an instruction is missing, as in `cli`")),
                (_, Some(_), true) => return Err(self.bad("an instruction is missing behind `...`")),
                (true, Some(_), _) => {
                    self.at = begin;
                    return Err(self.bad("an instruction is missing before `...`, as in `pushf ... cli`"));
                }
                _ => {}
            }
            let step = self.step()?;
            if all.len() * step.len() > SEQUENCES_MAX {
                return Err(self.bad(format!("more than {SEQUENCES_MAX} sequences, with those of its names")));
            }
            let joined = |before: &Sequence, step: &Sequence| {
                let mut steps = step.clone();
                if let Some(first) = steps.first_mut() {
                    first.between = between.unwrap_or(0);
                }
                [before.as_slice(), &steps].concat()
            };
            all = all.iter().flat_map(|before| step.iter().map(move |step| joined(before, step))).collect();
        }
    }

    /// A step, or what a name there stands for.
    fn step(&mut self) -> Result<Vec<Sequence>, BadPattern> {
        let begin = self.at;
        let mut part = self.part()?;
        let is_alone = !self.rest().starts_with(['/', '+']);
        if is_alone && let Part::Named(_, sequences) = part {
            return Ok(sequences);
        }
        let mut tests = Vec::new();
        loop {
            tests.extend(self.tests(part, begin)?);
            if tests.len() > TESTS_MAX {
                self.at = begin;
                return Err(
                    self.bad(format!("more than {TESTS_MAX} tests of a step, with those of its names"))
                );
            }
            if !self.takes("/") {
                break;
            }
            part = self.part()?;
        }
        let run = if self.takes("+") { Some(self.number(BETWEEN)?) } else { None };
        Ok(vec![vec![Step { tests, between: 0, run }]])
    }

    /// The tests of a part of a step that begins there, and has more than the part.
    fn tests(&mut self, part: Part, begin: usize) -> Result<Vec<Test>, BadPattern> {
        let (name, sequences) = match part {
            Part::Test(test) => return Ok(vec![*test]),
            Part::Named(name, sequences) => (name, sequences),
        };
        if !sequences.iter().all(|steps| is_single(steps)) {
            self.at = begin;
            let why = "is more than one instruction, so that neither / nor + may stand with it";
            return Err(self.bad(format!("`{name}` {why}")));
        }
        Ok(sequences.into_iter().flatten().flat_map(|step| step.tests).collect())
    }

    /// The number that stands directly behind, if one does.
    fn number(&mut self, otherwise: u32) -> Result<u32, BadPattern> {
        let begin = self.at;
        let digits = self.take(|c| c.is_ascii_digit());
        if digits.is_empty() {
            return Ok(otherwise);
        }
        match digits.parse() {
            Ok(number) if number <= BETWEEN_MAX => Ok(number),
            _ => {
                self.at = begin;
                Err(self.bad(format!("`{digits}` instructions are too many: at most {BETWEEN_MAX}")))
            }
        }
    }

    /// A test, or a name.
    fn part(&mut self) -> Result<Part, BadPattern> {
        let begin = self.at;
        let mut word = self.take(is_word);
        let mut prefix = None;
        if self.takes(":") {
            prefix = match word {
                "lock" => Some(Prefix::Lock),
                "rep" => Some(Prefix::Rep),
                _ => {
                    self.at = begin;
                    return Err(self.bad(format!(
                        "`{word}:` is no prefix; there are `lock:` and `rep:`, as in `lock:xadd`"
                    )));
                }
            };
            word = self.take(is_word);
        }
        let operands = self.operands()?;
        let function = self.function()?;
        let enables = self.condition()?;
        let is_bare = prefix.is_none() && operands.is_none() && function.is_none() && !enables;
        if let Some(text) = self.names.get(word).filter(|_| is_bare) {
            return self.named(word, text, begin);
        }
        let what = match (word, &function) {
            ("", Some(_)) if prefix.is_none() && operands.is_none() => What::Entry,
            ("", _) => {
                self.at = begin;
                let sign: String = self.rest().chars().take(1).collect();
                return Err(self
                    .bad(format!("`{sign}` where an instruction should be, as `cli`, `lock:*` or `@main`")));
            }
            _ => self.what(word, begin)?,
        };
        let text = self.text.get(begin..self.at).unwrap_or_default().to_owned();
        Ok(Part::Test(Box::new(Test { text, prefix, what, operands, function, enables })))
    }

    fn named(&self, name: &str, text: &str, begin: usize) -> Result<Part, BadPattern> {
        let at_name = Parser { at: begin, ..*self };
        if self.depth == DEPTH_MAX {
            return Err(at_name.bad(format!("`{name}` is made of names that are made of it")));
        }
        let pattern = Pattern::nested(text, self.names, self.depth + 1);
        let pattern = pattern.map_err(|why| at_name.bad(format!("in what `{name}` stands for: {why}")))?;
        Ok(Part::Named(name.to_owned(), pattern.sequences))
    }

    fn what(&mut self, word: &str, begin: usize) -> Result<What, BadPattern> {
        if word == "*" {
            return Ok(What::Any);
        }
        if let Some(class) = Class::of(word) {
            return Ok(What::Class(class));
        }
        let found = mnemonics(word);
        if !found.is_empty() {
            return Ok(What::Mnemonics(found));
        }
        self.at = begin;
        let known: Vec<String> = Mnemonic::values().skip(1).map(lower).collect();
        let known = known.iter().map(String::as_str).chain(self.names.all().map(|(name, _)| name));
        let similar = similar(word, known.chain(Class::ALL.map(|(name, _)| name)));
        let hint = match similar.as_slice() {
            [] => String::new(),
            similar => format!("; did you mean {}?", similar.join(", ")),
        };
        Err(self.bad(format!("`{word}` is no instruction, class or name of a pattern{hint}")))
    }

    /// `(OPERAND,...)`
    fn operands(&mut self) -> Result<Option<Vec<Glob>>, BadPattern> {
        let begin = self.at;
        if !self.takes("(") {
            return Ok(None);
        }
        let inside = self.take(|c| c != ')');
        if !self.takes(")") {
            self.at = begin;
            return Err(self.bad("the `)` of the operands is missing"));
        }
        // Commas within brackets of one operand do not occur in Intel's syntax.
        Ok(Some(inside.split(',').map(|operand| Glob::new(&operand.trim().to_ascii_lowercase())).collect()))
    }

    /// `@FUNCTION`, in quotation marks where its name has signs of ours.
    fn function(&mut self) -> Result<Option<Glob>, BadPattern> {
        let begin = self.at;
        if !self.takes("@") {
            return Ok(None);
        }
        let name = if self.takes("\"") {
            let name = self.take(|c| c != '"');
            if !self.takes("\"") {
                self.at = begin;
                return Err(self.bad("the closing `\"` of the function's name is missing"));
            }
            name
        } else {
            self.take(|c| !c.is_whitespace() && !"|/+{\"".contains(c))
        };
        if name.is_empty() {
            return Err(self.bad("a function's name is missing behind `@`, as in `@malloc`"));
        }
        Ok(Some(Glob::new(name)))
    }

    /// `{if}`
    fn condition(&mut self) -> Result<bool, BadPattern> {
        if self.takes("{if}") {
            return Ok(true);
        }
        if self.rest().starts_with('{') {
            return Err(self.bad("the only condition is `{if}`, as in `popf{if}`"));
        }
        Ok(false)
    }
}

/// Whether a word may have a character.
fn is_word(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '_' | '*' | '?' | '-')
}

/// A mnemonic as it is written.
pub(super) fn lower(mnemonic: Mnemonic) -> String {
    format!("{mnemonic:?}").to_ascii_lowercase()
}

/// The mnemonics that a word means: those of a pattern, or one with the sizes that assemblers leave out.
fn mnemonics(word: &str) -> Vec<Mnemonic> {
    let word = word.to_ascii_lowercase();
    let several: &[&str] = match word.as_str() {
        "pushf" => &["pushf", "pushfd", "pushfq"],
        "popf" => &["popf", "popfd", "popfq"],
        "pusha" => &["pusha", "pushad"],
        "popa" => &["popa", "popad"],
        "iret" => &["iret", "iretd", "iretq"],
        "sysret" => &["sysret", "sysretq"],
        "sysexit" => &["sysexit", "sysexitq"],
        "jz" => &["je"],
        "jnz" => &["jne"],
        "jc" => &["jb"],
        "jnc" => &["jae"],
        _ => &[],
    };
    let glob = Glob::new(&word);
    let is_meant = |mnemonic: &Mnemonic| {
        let name = lower(*mnemonic);
        if several.is_empty() { glob.matches(&name) } else { several.contains(&name.as_str()) }
    };
    // The first one is of bytes that are no instruction.
    Mnemonic::values().skip(1).filter(is_meant).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Pattern, BadPattern> {
        Pattern::parse(text, &Names::parse("either = sti | cli").unwrap())
    }

    /// Sequences as text: tests, how many others may lie before, and of runs between.
    fn shown(text: &str) -> Vec<String> {
        let step = |step: &Step| {
            let tests: Vec<&str> = step.tests.iter().map(|test| test.text.as_str()).collect();
            let run = step.run.map_or_else(String::new, |run| format!("+{run}"));
            format!("{} {}{run}", step.between, tests.join("/"))
        };
        let sequence = |steps: &Sequence| steps.iter().map(step).collect::<Vec<_>>().join(", ");
        parse(text).unwrap().sequences.iter().map(sequence).collect()
    }

    #[test]
    fn patterns_are_sequences_of_steps() {
        for (text, expect) in [
            ("cli", &["0 cli"][..]),
            (" pushf ...8 cli |cli ", &["0 pushf, 8 cli", "0 cli"]),
            ("rdtsc ... rdtsc", &["0 rdtsc, 16 rdtsc"]),
            ("sti/popf{if}", &["0 sti/popf{if}"]),
            ("pause+", &["0 pause+16"]),
            ("lock:* call(*foo)+3", &["0 lock:*, 0 call(*foo)+3"]),
            ("ret@\"a(int, b)\" ... @main", &["0 ret@\"a(int, b)\", 16 @main"]),
            ("superSTI/hlt", &["0 sti/popf{if}/sysret/iret{if}/hlt"]),
            ("nop ... either nop", &["0 nop, 16 sti, 0 nop", "0 nop, 16 cli, 0 nop"]),
            ("superCLI either", &["0 pushf, 8 cli, 0 sti", "0 pushf, 8 cli, 0 cli"]),
        ] {
            assert_eq!(shown(text), expect, "{text}");
        }
        assert!(parse("cli | sti/hlt").unwrap().is_single() && !parse("pause+").unwrap().is_single());
    }

    #[test]
    fn what_is_no_pattern_is_told_with_its_place() {
        for (text, column, part) in [
            ("", 1, "an instruction is missing"),
            ("cli |", 6, "an instruction is missing"),
            ("... cli", 1, "before `...`"),
            ("cli ...", 8, "behind `...`"),
            ("clii", 1, "did you mean cli"),
            ("superCLl", 1, "superCLI"),
            ("nop foo", 5, "`foo` is no instruction"),
            ("nop ...9999999999 cli", 8, "too many"),
            ("mov(cr3", 4, "the `)`"),
            ("look:xadd", 1, "no prefix"),
            ("popf{of}", 5, "{if}"),
            ("ret@", 5, "behind `@`"),
            ("ret@\"a", 4, "closing"),
            ("superCLI+", 1, "more than one instruction"),
            ("cli, sti", 4, "`,` where"),
            ("cli $", 5, "`$` where"),
        ] {
            let why = parse(text).expect_err(text);
            assert!(why.column == column && why.why.contains(part), "{text}: {why}");
        }
    }

    #[test]
    fn names_do_not_go_round_in_circles() {
        let names = Names::parse("a = nop b\nb = a # again\n").unwrap();
        let why = Pattern::parse("a", &names).unwrap_err().to_string();
        assert!(why.contains("made of it"), "{why}");
        let wide = (0..6).map(|n| format!("n{} = n{n} n{n}\n", n + 1)).collect::<String>();
        let names = Names::parse(&format!("n0 = cli|sti\n{wide}")).unwrap();
        assert!(Pattern::parse("n6", &names).unwrap_err().to_string().contains("more than 32 sequences"));
    }

    #[test]
    fn names_do_not_add_up_to_steps_without_end() {
        let twice = (0..14).map(|n| format!("n{} = n{n}/n{n}\n", n + 1)).collect::<String>();
        let names = Names::parse(&format!("n0 = cli\n{twice}")).unwrap();
        assert_eq!(Pattern::parse("n8", &names).unwrap().tests().count(), TESTS_MAX);
        for text in ["n9", "n14", "n8/sti", "sti/n8"] {
            let why = Pattern::parse(text, &names).expect_err(text).to_string();
            assert!(why.contains("more than 256 tests"), "{text}: {why}");
        }
    }

    #[test]
    fn a_mnemonic_has_the_sizes_that_assemblers_leave_out() {
        let is = |word: &str, expect: &[Mnemonic]| assert_eq!(mnemonics(word), expect, "{word}");
        is("popf", &[Mnemonic::Popf, Mnemonic::Popfd, Mnemonic::Popfq]);
        is("CLI", &[Mnemonic::Cli]);
        is("xsavec*", &[Mnemonic::Xsavec, Mnemonic::Xsavec64]);
        is("jz", &[Mnemonic::Je]);
        assert!(mnemonics("frob").is_empty() && mnemonics("invalid").is_empty());
    }
}
