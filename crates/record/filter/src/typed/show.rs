//! Trees as string, one node a line.

use super::{
    Action, Cond, Context, Element, Float, Kept, KeyPlan, KeyValue, Link, Num, NumKind, Plan, Speculated,
    SpeculationKey, SpeculationValue, StringSource,
};
use std::fmt::{self, Write};

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let show = Show { plan: self };
        for (at, kept) in self.thread.iter().enumerate() {
            let what = match kept {
                Kept::Time => "the time".to_owned(),
                Kept::Word(word) => show.word(*word),
                Kept::StringHash(word) => format!("hash of {}", show.word(*word)),
                Kept::Published(offset) => format!("word {} of the thread's state", offset / 8),
            };
            writeln!(f, "kept {at} in each thread: {what}")?;
        }
        for rule in &self.rules {
            writeln!(f, "if")?;
            show.cond(f, &rule.condition, 1)?;
            writeln!(f, "do")?;
            rule.actions.iter().try_for_each(|action| show.action(f, action))?;
        }
        for Speculated { key, link } in &self.speculated_by {
            let link = match link {
                Link::None => String::new(),
                Link::Parent(word) => format!(", or that of {}, which it joins", show.word(*word)),
                Link::Leave => ", and leave it".to_owned(),
            };
            writeln!(f, "what is recorded: aside with the speculation{}{link}", show.by(Some(key)))?;
        }
        Ok(())
    }
}

struct Show<'a> {
    plan: &'a Plan,
}

impl Show<'_> {
    fn word(&self, word: u16) -> String {
        self.plan.words.get(usize::from(word)).map_or_else(|| format!("word {word}"), String::clone)
    }

    fn cond(&self, f: &mut fmt::Formatter<'_>, cond: &Cond, depth: usize) -> fmt::Result {
        let (head, below): (&str, &[Cond]) = match cond {
            Cond::And(list) => ("and", list),
            Cond::Or(list) => ("or", list),
            Cond::Not(inner) => ("not", std::slice::from_ref(inner)),
            leaf => {
                return writeln!(f, "{}{}", "  ".repeat(depth), self.leaf(leaf));
            }
        };
        writeln!(f, "{}{head}", "  ".repeat(depth))?;
        below.iter().try_for_each(|inner| self.cond(f, inner, depth + 1))
    }

    fn leaf(&self, cond: &Cond) -> String {
        match cond {
            Cond::Constant(value) => value.to_string(),
            Cond::Member(num, set) => format!("{} in {set}", self.typed(num)),
            Cond::Compare(order, a, b) => format!("{} {} {}", self.typed(a), order.sign(), self.typed(b)),
            Cond::FloatMember(float, set) => {
                let not = if set.others { "not in" } else { "in" };
                let key = |key: i64| if float.is_single() { single(key) } else { double(key) };
                format!("{} {not} {}..{}", self.float(float), key(set.low), key(set.high))
            }
            Cond::FloatCompare(order, a, b) => {
                format!("{} {} {}", self.float(a), order.sign(), self.float(b))
            }
            Cond::StringMatch(string, patterns) => {
                let patterns: Vec<_> = patterns.iter().map(ToString::to_string).collect();
                format!("{} fits {}", self.string(*string), patterns.join(" | "))
            }
            Cond::StringOrder(order, string, bytes) => {
                let bytes = crate::string_pattern::StringPattern::exact(bytes);
                format!("{} {} {bytes}", self.string(*string), order.sign())
            }
            Cond::StringCompare(order, a, b) => {
                format!("{} {} {}", self.word(*a), order.sign(), self.word(*b))
            }
            Cond::StringKept(word, kept) => format!("hash of {} == kept {kept}", self.word(*word)),
            Cond::HasLast => "not the thread's first".to_owned(),
            Cond::Every(n, counter) => format!("every {n} by counter {counter}"),
            Cond::First(n, counter) => format!("first {n} by counter {counter}"),
            Cond::Limit(n, ns, counter) => format!("limit {n} in {ns} ns by counter {counter}"),
            Cond::Sample(part) => format!("sample {part} of 2^32"),
            Cond::Window => "$window".to_owned(),
            Cond::And(_) | Cond::Or(_) | Cond::Not(_) => {
                let mut out = String::new();
                let _ = write!(out, "({})", self.inline(cond));
                out
            }
        }
    }

    /// A condition within a number.
    fn inline(&self, cond: &Cond) -> String {
        let list = |list: &[Cond], sign: &str| {
            let parts: Vec<_> = list.iter().map(|cond| self.inline(cond)).collect();
            format!("({})", parts.join(sign))
        };
        match cond {
            Cond::And(all) => list(all, " && "),
            Cond::Or(all) => list(all, " || "),
            Cond::Not(inner) => format!("!{}", self.inline(inner)),
            leaf => self.leaf(leaf),
        }
    }

    /// A number with its type, which its range says.
    fn typed(&self, num: &Num) -> String {
        match num.as_constant() {
            Some(value) => value.to_string(),
            None => format!("{}: {}", self.num(num), if num.is_signed() { "i64" } else { "u64" }),
        }
    }

    fn num(&self, num: &Num) -> String {
        match &num.kind {
            NumKind::Constant(value) => value.to_string(),
            NumKind::Word(word) => self.word(*word),
            NumKind::Element(element) => self.element(element),
            NumKind::Length(word, _) => format!("len({})", self.word(*word)),
            NumKind::Context(context) => context.name().to_owned(),
            NumKind::Flag(name) => format!("$flag.{name}"),
            NumKind::NotZero(word) => format!("{} unless 0", self.word(*word)),
            NumKind::Elapsed(key) => format!("$elapsed{}", self.by(Some(&**key))),
            NumKind::Last(kept) => format!("kept {kept}"),
            NumKind::Published(offset) => format!("word {} of the thread's state", offset / 8),
            NumKind::Since(kept) => format!("growth since kept {kept}"),
            NumKind::SharedWord(word) => {
                let of = if word.each_thread { "thread" } else { "shared" };
                format!("${of}.{}[{}]", word.name, self.num(&word.index))
            }
            NumKind::Neg(inner) => format!("-{}", self.num(inner)),
            NumKind::BitNot(inner) => format!("~{}", self.num(inner)),
            NumKind::Binary(op, a, b) => format!("({} {} {})", self.num(a), op.sign(), self.num(b)),
            NumKind::Truth(cond) => self.inline(cond),
        }
    }

    fn by(&self, key: Option<&SpeculationKey>) -> String {
        match key.map(|key| &key.value) {
            None => String::new(),
            Some(SpeculationValue::Number(num)) => format!(" by {}", self.typed(num)),
            Some(SpeculationValue::String(word)) => format!(" by hash of {}", self.word(*word)),
        }
    }

    fn element(&self, element: &Element) -> String {
        format!("{}[{}]", self.word(element.word), self.num(&element.index))
    }

    fn float(&self, float: &Float) -> String {
        match float {
            Float::Constant(value) => format!("{value:?}"),
            Float::Word(word) => format!("{}: f64", self.word(*word)),
            Float::Element(element) => format!("{}: f{}", self.element(element), element.bytes * 8),
            Float::Last(kept) => format!("kept {kept}: f64"),
        }
    }

    fn string(&self, string: StringSource) -> String {
        match string {
            StringSource::Field(word) => self.word(word),
            StringSource::Comm => "$comm".to_owned(),
            StringSource::Executable => "$exe".to_owned(),
        }
    }

    fn action(&self, f: &mut fmt::Formatter<'_>, action: &Action) -> fmt::Result {
        let keys = |keys: &[KeyPlan]| keys.iter().map(|key| self.key(key)).collect::<Vec<_>>().join(", ");
        match action {
            Action::Record => writeln!(f, "  record"),
            Action::Count { keys: by, .. } => writeln!(f, "  count by [{}]", keys(by)),
            Action::Histogram { value, keys: by, .. } => {
                writeln!(f, "  hist {} by [{}]", self.key(value), keys(by))
            }
            Action::Last { entries, fields, .. } => writeln!(f, "  last {entries} [{}]", keys(fields)),
            Action::Set(flag) => writeln!(f, "  set {flag}"),
            Action::Clear(flag) => writeln!(f, "  clear {flag}"),
            Action::Emit { event, .. } => writeln!(f, "  emit {}:{}", event.provider, event.name),
            Action::OpenKernel { ns, of } => writeln!(f, "  open kernel for {ns} ns of {of:?}"),
            Action::Snapshot => writeln!(f, "  snapshot"),
            Action::SnapshotPackets { ns } => writeln!(f, "  pt snapshot of {ns} ns"),
            Action::Profile { ns } => writeln!(f, "  profile for {ns} ns"),
            Action::SampleFunctions { pattern, ns } => writeln!(f, "  fperf {pattern:?} for {ns} ns"),
            Action::Threshold { syscall, ns } => writeln!(f, "  threshold of call {syscall}: {ns} ns"),
            Action::Speculate(key) => writeln!(f, "  speculate{}", self.by(key.as_ref())),
            Action::Commit(key) => writeln!(f, "  commit{}", self.by(key.as_ref())),
            Action::Discard(key) => writeln!(f, "  discard{}", self.by(key.as_ref())),
        }
    }

    fn key(&self, key: &KeyPlan) -> String {
        match &key.value {
            KeyValue::Number(num) => self.typed(num),
            KeyValue::Float(float) => self.float(float),
            KeyValue::String(string, bytes) => format!("{}: {bytes} bytes", self.string(*string)),
            KeyValue::Event => "$event".to_owned(),
        }
    }
}

impl Context {
    /// As it is written.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Context::Tid => "$tid",
            Context::Pid => "$pid",
            Context::Cpu => "$cpu",
            Context::Delta => "$delta",
            Context::Elapsed => "$elapsed",
            Context::Target => "$target",
        }
    }
}

/// The float of a key; the function that makes keys undoes itself.
fn double(key: i64) -> String {
    format!("{:?}", f64::from_bits(super::float::key(key as u64) as u64))
}

fn single(key: i64) -> String {
    format!("{:?}", f32::from_bits(super::float::key_of_single(key as u32) as u32))
}
