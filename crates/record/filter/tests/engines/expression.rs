//! Random expressions, as text.

use crate::event::Event;
use crate::random::Random;
use mote_filter::Side;
use mote_layout::parse::{Field, FieldType};
use mote_layout::types::Scalar;

/// Fields by what can be done with them.
struct Fields<'a> {
    side: Side,
    numbers: Vec<String>,
    /// Arrays and sequences of integers, texts.
    arrays: Vec<String>,
    floats: Vec<String>,
    float_arrays: Vec<String>,
    texts: Vec<String>,
    labels: Vec<(String, Vec<&'a str>)>,
    scalars: Vec<String>,
}

/// A condition about the event's fields.
pub(crate) fn condition(event: &Event, side: Side, random: &mut Random) -> String {
    let fields: Vec<Field<'_>> = event.description().fields().collect();
    let fields = Fields::of(&fields, side);
    let depth = 1 + random.below(4);
    fields.condition(depth, random)
}

impl<'a> Fields<'a> {
    fn of(all: &[Field<'a>], side: Side) -> Fields<'a> {
        let state: &[&str] = match side {
            Side::User => &["$kernel.switches", "$kernel.last_syscall", "$kernel.offcpu_since_last_event"],
            Side::Kernel => &[],
        };
        let last = if side == Side::Kernel { "$target" } else { "$elapsed" };
        let mut fields = Fields {
            side,
            numbers: ["$tid", "$pid", "$cpu", "$delta", last]
                .iter()
                .chain(state)
                .map(|name| (*name).to_owned())
                .collect(),
            arrays: Vec::new(),
            floats: Vec::new(),
            float_arrays: Vec::new(),
            texts: Vec::new(),
            labels: Vec::new(),
            scalars: Vec::new(),
        };
        for field in all {
            let name = field.name.to_owned();
            let is_float = |scalar| matches!(scalar, Scalar::F32 | Scalar::F64);
            match field.ty {
                FieldType::Scalar(scalar) if is_float(scalar) => {
                    fields.scalars.push(name.clone());
                    fields.floats.push(name);
                }
                FieldType::Scalar(_) => {
                    // More often than contexts.
                    fields.numbers.extend([
                        name.clone(),
                        name.clone(),
                        name.clone(),
                        format!("$last.{name}"),
                    ]);
                    fields.scalars.push(name);
                }
                FieldType::Enumeration(_, labels)
                | FieldType::Flags(_, labels)
                | FieldType::Labelled(_, labels) => {
                    fields.numbers.push(name.clone());
                    fields.scalars.push(name.clone());
                    fields.labels.push((name, labels.iter().map(|label| label.0).collect()));
                }
                FieldType::Str | FieldType::FixedText(_) => {
                    fields.arrays.push(name.clone());
                    fields.texts.push(name);
                }
                FieldType::Bytes => fields.arrays.push(name),
                FieldType::Sequence(scalar) | FieldType::Array(scalar, _) if is_float(scalar) => {
                    fields.float_arrays.push(name);
                }
                FieldType::Sequence(_) | FieldType::Array(..) => fields.arrays.push(name),
            }
        }
        fields
    }

    fn condition(&self, depth: u64, random: &mut Random) -> String {
        let kind = if depth == 0 { 4 + random.below(8) } else { random.below(12) };
        match kind {
            0 | 1 => self.joined(" && ", depth, random),
            2 => self.joined(" || ", depth, random),
            3 => format!("!({})", self.condition(depth - 1, random)),
            4 | 5 => {
                let order = random.pick(&["==", "!=", "<", "<=", ">", ">="]);
                let (a, b) = (self.number(depth, random), self.number(depth, random));
                format!("{a} {order} {b}")
            }
            6 => self.member(random),
            7 | 8 if !self.texts.is_empty() => self.text(random),
            9 if !self.floats.is_empty() || !self.float_arrays.is_empty() => self.float(depth, random),
            10 if !self.labels.is_empty() => {
                let (name, labels) = random.pick(&self.labels).clone();
                let (label, order) = (random.pick(&labels), random.pick(&["==", "!=", "<=", ">"]));
                if random.one_in(2) {
                    format!("{name} {order} {label}")
                } else {
                    format!("{name} {order} \"{label}\"")
                }
            }
            11 if self.side == Side::Kernel && random.one_in(4) => "$window".to_owned(),
            11 => self.stateful(random),
            _ if self.side == Side::Kernel => {
                format!("$comm {} {}", random.pick(&["==", "!="]), pattern(random, false))
            }
            _ => {
                let subject = random.pick(&["$comm", "$exe"]);
                format!("{subject} {} {}", random.pick(&["==", "!="]), pattern(random, subject == &"$exe"))
            }
        }
    }

    fn joined(&self, sign: &str, depth: u64, random: &mut Random) -> String {
        let parts: Vec<_> =
            (0..2 + random.below(3)).map(|_| format!("({})", self.condition(depth - 1, random))).collect();
        parts.join(sign)
    }

    fn stateful(&self, random: &mut Random) -> String {
        match random.below(4) {
            0 => format!("every({})", 1 + random.below(4)),
            1 => format!("first({})", 1 + random.below(4)),
            2 => format!("limit({}/s)", 1 + random.below(3)),
            _ if self.scalars.is_empty() => "first(2)".to_owned(),
            _ => format!("changed({})", random.pick(&self.scalars)),
        }
    }

    fn member(&self, random: &mut Random) -> String {
        let mut members = Vec::new();
        let base = random.number() >> random.below(64);
        for _ in 0..1 + random.below(9) {
            let from = if random.one_in(3) { random.number() } else { base.wrapping_add(random.below(90)) };
            members.push(match random.below(3) {
                0 => format!("{from}..{}", from.saturating_add(random.below(9))),
                1 => format!("-{}", from >> 1),
                _ => from.to_string(),
            });
        }
        format!("{} in ({})", self.number(1, random), members.join(", "))
    }

    fn text(&self, random: &mut Random) -> String {
        let text = random.pick(&self.texts);
        match random.below(9) {
            0 => format!(
                "{text} {} {}",
                random.pick(&["==", "!=", "<", "<=", ">", ">="]),
                random.pick(&self.texts)
            ),
            1 => format!("{text} {} {}", random.pick(&["<", "<=", ">", ">="]), exact(random)),
            2 => format!(
                "{}({text}, {})",
                random.pick(&["starts_with", "ends_with", "contains", "matches"]),
                pattern(random, false)
            ),
            3 => {
                let list: Vec<_> = (0..1 + random.below(6)).map(|_| pattern(random, false)).collect();
                format!("{text} in ({})", list.join(", "))
            }
            4 => format!("{text} {} $last.{text}", random.pick(&["==", "!="])),
            _ => format!("{text} {} {}", random.pick(&["==", "!="]), pattern(random, false)),
        }
    }

    fn float(&self, depth: u64, random: &mut Random) -> String {
        let order = *random.pick(&["==", "!=", "<", "<=", ">", ">="]);
        let constant = random.float();
        let constant = if constant.is_finite() { constant } else { 0.25 };
        match random.below(4) {
            0 if !self.float_arrays.is_empty() => {
                let array = random.pick(&self.float_arrays);
                let index = if random.one_in(2) {
                    random.below(3).to_string()
                } else {
                    self.number(depth.min(1), random)
                };
                format!("{array}[{index}] {order} {constant:?}")
            }
            1 if self.floats.len() > 1 => {
                format!("{} {order} {}", random.pick(&self.floats), random.pick(&self.floats))
            }
            2 if self.float_arrays.len() > 1 => {
                format!(
                    "{}[{}] {order} {}[0]",
                    random.pick(&self.float_arrays),
                    random.below(2),
                    random.pick(&self.float_arrays)
                )
            }
            _ if !self.floats.is_empty() => format!("{} {order} {constant:?}", random.pick(&self.floats)),
            _ => format!("{}[0] {order} {}", random.pick(&self.float_arrays), random.below(3)),
        }
    }

    fn number(&self, depth: u64, random: &mut Random) -> String {
        if depth == 0 || random.one_in(2) {
            return match random.below(4) {
                0 => random.number().to_string(),
                1 if !self.arrays.is_empty() => {
                    format!("{}[{}]", random.pick(&self.arrays), random.below(4))
                }
                _ => random.pick(&self.numbers).clone(),
            };
        }
        match random.below(9) {
            0 => format!("-({})", self.number(depth - 1, random)),
            1 => format!("~({})", self.number(depth - 1, random)),
            2 if !self.arrays.is_empty() => {
                format!("{}[{}]", random.pick(&self.arrays), self.number(depth - 1, random))
            }
            3 if !self.arrays.is_empty() => format!("len({})", random.pick(&self.arrays)),
            4 => format!("({})", self.condition(depth - 1, random)),
            _ => {
                let op = random.pick(&["+", "-", "*", "/", "%", "&", "|", "^", "<<", ">>"]);
                let (a, b) = (self.number(depth - 1, random), self.number(depth - 1, random));
                format!("({a} {op} {b})")
            }
        }
    }
}

/// A text in quotes, without a `*` that means any text.
fn exact(random: &mut Random) -> String {
    let bytes = random.text(24);
    format!("\"{}\"", escaped(&bytes))
}

fn pattern(random: &mut Random, short: bool) -> String {
    let parts = if random.one_in(3) { 1 } else { 1 + random.below(if short { 3 } else { 4 }) };
    let parts: Vec<_> = (0..parts).map(|_| escaped(&random.text(if short { 3 } else { 18 }))).collect();
    format!("\"{}\"", parts.join("*"))
}

fn escaped(bytes: &[u8]) -> String {
    bytes
        .iter()
        .map(|byte| match byte {
            b'*' | b'\\' => format!("\\{}", char::from(*byte)),
            byte => char::from(*byte).to_string(),
        })
        .collect()
}
