//! What rules mean, worked out directly from the typed tree: slowly, and with nothing in common with the generated
//! code.
//!
//! For tests: engines are compared with this. It knows conditions and whether the event is recorded; the other actions
//! it passes over.

use crate::diagnostic::Diagnostic;
use crate::rule::Rule;
use crate::session::Missing;
use crate::target::Side;
use crate::typed::float::{key, key_of_single};
use crate::typed::number::compute;
use crate::typed::{
    Action, Cond, Context, Element, Float, Kept, Num, NumKind, Order, Plan, SharedWord, StringSource,
};
use mote_layout::parse::Description;
use std::collections::HashMap;

/// One word of a context, or what two of them enclose.
#[derive(Clone, Debug, PartialEq)]
pub enum Word {
    /// A number, or a double's bits.
    Number(u64),
    /// Bytes of a string, a sequence or an array.
    Bytes(Vec<u8>),
    /// The word behind a string or a sequence.
    End,
}

/// What a program may ask of its surroundings.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Facts {
    /// Process id, `$pid`.
    pub pid: u32,
    /// Thread id, `$tid`.
    pub tid: u32,
    /// Number of the CPU, `$cpu`.
    pub cpu: u16,
    /// The time, `$now`: ns of `CLOCK_MONOTONIC`.
    pub now: u64,
    /// ns since the thread began to speculate, or `u64::MAX`.
    pub elapsed: u64,
    /// The thread's name without a NUL, `$comm`.
    pub comm: Vec<u8>,
    /// Path of the program, `$executable`.
    pub executable: Vec<u8>,
    /// Words of the thread's state, and what lies behind it in its slot.
    pub state: Vec<u64>,
    /// Words that all share, by their names.
    pub shared: HashMap<String, Vec<u64>>,
    /// Until when kernel events of the thread are wanted.
    pub window: u64,
    /// The thread that the session is about.
    pub target: u64,
}

/// The rules of one event, and what they keep.
#[derive(Clone, Debug)]
pub struct Interpreter {
    plan: Plan,
    counters: Vec<u64>,
    threads: HashMap<(u32, u32), Vec<u64>>,
}

/// A condition that fails.
struct Fails;

/// One event.
struct Moment<'a> {
    words: &'a [Word],
    facts: &'a Facts,
    last: Option<Vec<u64>>,
    plan: &'a Plan,
    counters: &'a mut Vec<u64>,
}

impl Interpreter {
    /// The rules that are about the event; `None` when none is.
    ///
    /// # Errors
    /// As [`crate::compile`].
    pub fn new(
        rules: &[Rule],
        event: &Description<'_>,
        missing: Missing,
        side: Side,
    ) -> Result<Option<Interpreter>, Diagnostic> {
        let plan = crate::resolve::plan(rules, event, missing, side)?;
        Ok(plan.map(|plan| Interpreter {
            counters: vec![0; plan.counters.into()],
            threads: HashMap::new(),
            plan,
        }))
    }

    /// Whether the event is recorded.
    pub fn records(&mut self, words: &[Word], facts: &Facts) -> bool {
        let mut moment = Moment {
            words,
            facts,
            last: self.threads.get(&(facts.pid, facts.tid)).cloned(),
            plan: &self.plan,
            counters: &mut self.counters,
        };
        let mut records = false;
        for rule in &self.plan.rules {
            let only_records = |rule: &crate::typed::RulePlan| {
                rule.actions.iter().all(|action| matches!(action, Action::Record))
            };
            if moment.cond(&rule.condition).unwrap_or(false) {
                records |= rule.actions.iter().any(|action| matches!(action, Action::Record));
                if self.plan.thread.is_empty() && self.plan.rules.iter().all(only_records) {
                    break;
                }
            }
        }
        if !self.plan.thread.is_empty() {
            let kept = self.plan.thread.iter().map(|kept| moment.kept_of(*kept)).collect();
            self.threads.insert((facts.pid, facts.tid), kept);
        }
        records
    }
}

impl Moment<'_> {
    fn kept_of(&self, kept: Kept) -> u64 {
        match kept {
            Kept::Time => self.facts.now,
            Kept::Word(word) => self.word(word),
            Kept::StringHash(word) => hash(self.bytes(word)),
            Kept::Published(offset) => self.published(offset),
        }
    }

    fn published(&self, offset: u16) -> u64 {
        self.facts.state.get(usize::from(offset) / 8).copied().unwrap_or(0)
    }

    /// Words of threads are looked for by their names, too.
    fn shared_word(&mut self, word: &SharedWord) -> Result<u64, Fails> {
        let at = usize::try_from(self.num(&word.index)?).unwrap_or(usize::MAX);
        self.facts.shared.get(&word.name).and_then(|words| words.get(at)).copied().ok_or(Fails)
    }

    fn word(&self, word: u16) -> u64 {
        if let Some(Word::Number(value)) = self.words.get(usize::from(word)) { *value } else { 0 }
    }

    fn bytes(&self, word: u16) -> &[u8] {
        if let Some(Word::Bytes(bytes)) = self.words.get(usize::from(word)) { bytes } else { &[] }
    }

    fn string(&self, string: StringSource) -> &[u8] {
        match string {
            StringSource::Field(word) => self.bytes(word),
            StringSource::Comm => &self.facts.comm,
            StringSource::Executable => &self.facts.executable,
        }
    }

    fn cond(&mut self, cond: &Cond) -> Result<bool, Fails> {
        Ok(match cond {
            Cond::Constant(value) => *value,
            Cond::Not(inner) => !self.cond(inner)?,
            Cond::And(list) => {
                for inner in list {
                    if !self.cond(inner)? {
                        return Ok(false);
                    }
                }
                true
            }
            Cond::Or(list) => {
                for inner in list {
                    if self.cond(inner)? {
                        return Ok(true);
                    }
                }
                false
            }
            Cond::Member(num, set) => set.contains(num.value_of(self.num(num)?)),
            Cond::Compare(order, a, b) => {
                let (left, right) = (self.num(a)?, self.num(b)?);
                order.holds(a.value_of(left).cmp(&b.value_of(right)))
            }
            Cond::FloatMember(float, set) => {
                let bits = self.float(float)?;
                set.contains(if float.is_single() { key_of_single(bits as u32) } else { key(bits) })
            }
            Cond::FloatCompare(order, a, b) => {
                let single = a.is_single();
                let (left, right) = (self.float(a)?, self.float(b)?);
                let value = |bits: u64| {
                    if single { f64::from(f32::from_bits(bits as u32)) } else { f64::from_bits(bits) }
                };
                value(left).partial_cmp(&value(right)).map_or(*order == Order::Ne, |found| order.holds(found))
            }
            Cond::StringMatch(string, patterns) => {
                patterns.iter().any(|pattern| pattern.matches(self.string(*string)))
            }
            Cond::StringOrder(order, string, bytes) => order.holds(self.string(*string).cmp(bytes)),
            Cond::StringCompare(order, a, b) => order.holds(self.bytes(*a).cmp(self.bytes(*b))),
            Cond::StringKept(word, kept) => hash(self.bytes(*word)) == self.last(*kept)?,
            Cond::HasLast => self.last.is_some(),
            Cond::Every(n, counter) => self.count(*counter).is_multiple_of(*n),
            Cond::First(n, counter) => self.count(*counter) < *n,
            Cond::Limit(n, ns, counter) => self.limit(*n, *ns, *counter),
            Cond::Sample(part) => *part >= 1 << 32,
            Cond::Window => self.facts.window > self.facts.now,
        })
    }

    /// What the counter was, before 1 was added.
    fn count(&mut self, counter: u16) -> u64 {
        let counter = &mut self.counters[usize::from(counter)];
        *counter += 1;
        *counter - 1
    }

    fn limit(&mut self, n: u32, ns: u64, counter: u16) -> bool {
        let span = (self.facts.now / ns) << 32;
        let counter = &mut self.counters[usize::from(counter)];
        if (*counter >> 32) << 32 != span {
            *counter = span;
        }
        *counter += 1;
        *counter - span <= u64::from(n)
    }

    fn last(&self, kept: u16) -> Result<u64, Fails> {
        self.last.as_ref().and_then(|last| last.get(usize::from(kept))).copied().ok_or(Fails)
    }

    fn num(&mut self, num: &Num) -> Result<u64, Fails> {
        Ok(match &num.kind {
            NumKind::Constant(value) => *value as u64,
            NumKind::Word(word) => self.word(*word),
            NumKind::Element(element) => self.element(element)?,
            NumKind::Length(word, bytes) => self.bytes(*word).len() as u64 / u64::from(*bytes),
            NumKind::Context(context) => self.context(*context)?,
            NumKind::Flag(_) => 0,
            NumKind::NotZero(word) => Some(self.word(*word)).filter(|value| *value != 0).ok_or(Fails)?,
            NumKind::Elapsed(_) => self.context(Context::Elapsed)?,
            NumKind::Last(kept) => self.last(*kept)?,
            NumKind::Published(offset) => self.published(*offset),
            NumKind::Since(kept) => match self.plan.thread.get(usize::from(*kept)) {
                Some(Kept::Published(offset)) => {
                    let (now, last) = (self.published(*offset), self.last(*kept).unwrap_or(0));
                    now - if last > now { 0 } else { last }
                }
                _ => 0,
            },
            NumKind::SharedWord(word) => self.shared_word(word)?,
            NumKind::Neg(inner) => self.num(inner)?.wrapping_neg(),
            NumKind::BitNot(inner) => !self.num(inner)?,
            NumKind::Binary(op, a, b) => {
                let (left, right) = (self.num(a)?, self.num(b)?);
                compute(*op, a, b, left, right).ok_or(Fails)?
            }
            NumKind::Truth(cond) => self.cond(cond)?.into(),
        })
    }

    fn context(&self, context: Context) -> Result<u64, Fails> {
        Ok(match context {
            Context::Tid => self.facts.tid.into(),
            Context::Pid => self.facts.pid.into(),
            Context::Cpu => self.facts.cpu.into(),
            Context::Elapsed => Some(self.facts.elapsed).filter(|ns| *ns != u64::MAX).ok_or(Fails)?,
            Context::Target => self.facts.target,
            Context::Delta => {
                let at = self.plan.thread.iter().position(|kept| *kept == Kept::Time).ok_or(Fails)?;
                self.facts.now.wrapping_sub(self.last(at as u16)?)
            }
        })
    }

    fn float(&mut self, float: &Float) -> Result<u64, Fails> {
        Ok(match float {
            Float::Constant(value) => value.to_bits(),
            Float::Word(word) => self.word(*word),
            Float::Element(element) => self.element(element)?,
            Float::Last(kept) => self.last(*kept)?,
        })
    }

    fn element(&mut self, element: &Element) -> Result<u64, Fails> {
        let index = self.num(&element.index)?;
        let size = element.bytes as usize;
        let at = usize::try_from(index).ok().filter(|at| *at <= 65_535).ok_or(Fails)?;
        let bytes = self.bytes(element.word).get(at * size..(at + 1) * size).ok_or(Fails)?;
        let value = bytes.iter().rev().fold(0u64, |value, byte| value << 8 | u64::from(*byte));
        let unused = 64 - 8 * size as u32;
        Ok(if element.signed { ((value << unused) as i64 >> unused) as u64 } else { value })
    }
}

/// Any function that hardly gives two strings the same number.
fn hash(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash: u64, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
    })
}
