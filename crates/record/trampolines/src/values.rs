//! What the event of a function has besides its duration: fields for people, and where the library takes their values
//! from (`mote_layout::functions::Value`).

use crate::arch::{self, Arguments};
use crate::passed::Passed;
use crate::{Counting, Sampling};
use mote_functions::arguments::ArgumentType;
use mote_layout::functions::{RECORD_MAX, VALUES_MAX, Value, What};
use mote_layout::types::Scalar;
use mote_symbol::functions::{Convention, Kind, Member, Signature, Structure, TextOf};
use std::collections::HashSet;
use std::fmt::Write as _;

/// The fields of a function's event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Fields {
    /// Their lines in the description (`mote_layout::describe`).
    pub(crate) lines: String,
    /// Their values; empty when there is only the duration.
    pub(crate) values: Vec<Value>,
}

impl Default for Fields {
    fn default() -> Fields {
        Fields { lines: format!("{DURATION} u64\n"), values: Vec::new() }
    }
}

/// The field of each event.
const DURATION: &str = "duration";
/// What a function has returned.
const RESULT: &str = "retval";
/// How a call has ended, where there is a result.
const END: &str = "end";
/// Most members that are shown of one structure.
const MEMBERS_MAX: usize = 8;
/// Most characters of a text.
const TEXT_MAX: usize = 200;
/// Most labels of an enumeration: others are numbers.
const LABELS_MAX: usize = 128;
/// Values that are kept free for duration, end, and a result.
const LATE_VALUES: usize = 6;
/// An address.
const ADDRESS: u64 = 8;
/// The object of a method: its members are more than anybody wants to see each time.
const OWN: [&str; 2] = ["this", "self"];
/// What the member is called that leads to a class's virtual functions.
const TABLE: &str = "_vptr";
/// Marks of versions of a function that GCC has made, to which it need not pass what is declared.
const VERSIONS: [&str; 3] = [".isra", ".constprop", ".part"];

/// The fields of a function with this symbol, as its debug information declares them.
pub(crate) fn declared(symbol: Option<&str>, signature: &Signature) -> Fields {
    let mut making = Making::default();
    let is_changed = symbol.is_some_and(|symbol| VERSIONS.iter().any(|mark| symbol.contains(mark)));
    let convention = if is_changed { Convention::Unknown } else { signature.convention };
    let mut arguments = Arguments::new(convention, signature.result.as_ref());
    for (parameter, number) in signature.parameters.iter().zip(1..) {
        let by_convention = arguments.next(&parameter.kind);
        let Some(passed) = arch::declared(&parameter.place).or(by_convention) else { continue };
        let name = if parameter.name.is_empty() { format!("arg{number}") } else { parameter.name.clone() };
        making.add(&name, &parameter.kind, &passed);
    }
    making.late();
    if let Some(kind) = signature.result.as_ref()
        && let Some(passed) = arch::result(convention, kind)
    {
        making.result(kind, &passed);
    }
    making.finish()
}

/// The fields of a function with arguments and a result that a person gave.
pub(crate) fn given(arguments: &[(String, ArgumentType)], result: Option<ArgumentType>) -> Fields {
    let mut making = Making::default();
    let mut places = Arguments::new(Convention::C, None);
    for (name, ty) in arguments {
        let passed = places.next(&kind_of(*ty)).unwrap_or_default();
        if name != "_" {
            making.scalar(name, *ty, &passed);
        }
    }
    making.late();
    if let Some(ty) = result
        && let Some(passed) = arch::result(Convention::C, &kind_of(ty))
    {
        making.end();
        making.scalar(RESULT, ty, &passed);
    }
    making.finish()
}

/// The fields of a call that is a sample.
pub(crate) fn sampled(sampling: &Sampling) -> Fields {
    let parts = [
        (What::Since, "since", Scalar::unsigned(64)),
        (What::Round, "round", Scalar::unsigned(32)),
        (What::Left, "left", Scalar::unsigned(32)),
        (What::Caller, "caller", Scalar::hex(64)),
        (What::Overhead, "overhead", Scalar::unsigned(64)),
        (What::Counted, "counted", Scalar::unsigned(8)),
    ];
    let mut making = Making::default();
    making.late();
    for (what, name, scalar) in parts {
        let value = Value::of_sample(what, scalar.bytes() as u8);
        making.field(name, scalar.name().to_owned(), &[value]);
    }
    for (number, counted) in (0..).zip(&sampling.counters) {
        making.field(&counted.name, "u64".to_owned(), &[Value::counter(number)]);
    }
    making.finish()
}

/// What is counted of calls: their events have no fields, as they never occur.
pub(crate) fn counted(counting: Counting) -> Fields {
    let returns = counting.returns.then_some(Value::RETURNS);
    Fields { lines: String::new(), values: std::iter::once(Value::ENTRIES).chain(returns).collect() }
}

/// How a value of this type is passed.
fn kind_of(ty: ArgumentType) -> Kind {
    match ty {
        ArgumentType::Text => Kind::Text,
        ArgumentType::Scalar(Scalar::F32) => Kind::Float { bytes: 4 },
        ArgumentType::Scalar(Scalar::F64) => Kind::Float { bytes: 8 },
        ArgumentType::Scalar(scalar) => Kind::Integer { bytes: scalar.bytes() as u8, signed: false },
    }
}

/// Fields that are being collected.
#[derive(Default)]
struct Making {
    lines: Vec<(String, String)>,
    values: Vec<Value>,
    is_late: bool,
}

impl Making {
    /// Adds an argument: itself, and what it leads to.
    fn add(&mut self, name: &str, kind: &Kind, passed: &Passed) {
        match kind {
            Kind::Pointer(to) => {
                let pointer = passed.register(0, ADDRESS);
                let behind = pointer
                    .filter(|(_, into)| *into == 0)
                    .map(|(origin, _)| Passed::Behind { origin, offset: 0 });
                let to = to.as_deref().filter(|_| !OWN.contains(&name));
                if let (Some(structure), Some(behind)) = (to, behind) {
                    // A text that it leads to says more than where that is.
                    if structure.text.is_some() && self.text(name, structure, &behind) {
                        return;
                    }
                    self.leaf(name, kind, passed, 0);
                    return self.members(name, structure, &behind);
                }
                self.leaf(name, kind, passed, 0);
            }
            Kind::Aggregate(structure) => {
                if !(structure.text.is_some() && self.text(name, structure, passed)) {
                    self.members(name, structure, passed);
                }
            }
            _ => self.leaf(name, kind, passed, 0),
        }
    }

    fn members(&mut self, name: &str, structure: &Structure, passed: &Passed) {
        let is_shown = |member: &&Member| !member.name.is_empty() && !member.name.starts_with(TABLE);
        let named = structure.members.iter().filter(is_shown);
        for Member { name: member, offset, kind } in named.take(MEMBERS_MAX) {
            let name = format!("{name}_{member}");
            match kind {
                Kind::Aggregate(inner) => {
                    if let Passed::Behind { origin, offset: base } = passed
                        && let Ok(into) = i64::try_from(*offset)
                    {
                        let _ =
                            self.text(&name, inner, &Passed::Behind { origin: *origin, offset: base + into });
                    }
                }
                _ => self.leaf(&name, kind, passed, *offset),
            }
        }
    }

    /// Adds a structure that is a text; false when it is none that can be taken.
    fn text(&mut self, name: &str, structure: &Structure, passed: &Passed) -> bool {
        let values = match structure.text {
            Some(TextOf::Counted { address, count }) => {
                let count = passed.value(What::Count, count, ADDRESS);
                let text = passed.value(What::Text, address, ADDRESS);
                count.zip(text).map(|(count, text)| vec![count, text])
            }
            Some(TextOf::Characters) => {
                let bytes = structure.bytes.min(TEXT_MAX as u64);
                let value = passed.value(What::Characters, 0, bytes);
                value.filter(|value| value.is_behind).map(|value| vec![value])
            }
            None => None,
        };
        let Some(values) = values else { return false };
        self.field(name, "str".to_owned(), &values);
        true
    }

    /// Adds a value at these bytes of what is passed.
    fn leaf(&mut self, name: &str, kind: &Kind, passed: &Passed, offset: u64) {
        let bytes = kind.bytes();
        let what = match kind {
            Kind::Text => What::Text,
            Kind::Float { bytes: 4 | 8 } => What::Float,
            Kind::Integer { signed: true, bytes: 1..=8 } | Kind::Enumeration { signed: true, .. } => {
                What::Signed
            }
            Kind::Integer { bytes: 1..=8, .. } | Kind::Bool | Kind::Pointer(_) | Kind::Enumeration { .. } => {
                What::Unsigned
            }
            Kind::Integer { .. } | Kind::Float { .. } | Kind::Aggregate(_) | Kind::Unknown => return,
        };
        if let Some(value) = passed.value(what, offset, bytes) {
            self.field(name, type_of(kind), &[value]);
        }
    }

    /// Adds a value of a type that a person gave.
    fn scalar(&mut self, name: &str, ty: ArgumentType, passed: &Passed) {
        let (what, bytes, ty) = match ty {
            ArgumentType::Text => (What::Text, ADDRESS, "str"),
            ArgumentType::Scalar(scalar) => {
                let what = match scalar {
                    Scalar::F32 | Scalar::F64 => What::Float,
                    Scalar::Integer(integer) if integer.signed => What::Signed,
                    Scalar::Integer(_) | Scalar::Bool => What::Unsigned,
                };
                (what, scalar.bytes() as u64, scalar.name())
            }
        };
        if let Some(value) = passed.value(what, 0, bytes) {
            self.field(name, ty.to_owned(), &[value]);
        }
    }

    fn field(&mut self, name: &str, ty: String, values: &[Value]) {
        let room = VALUES_MAX - if self.is_late { 0 } else { LATE_VALUES };
        if self.values.len() + values.len() <= room {
            self.lines.push((name.to_owned(), ty));
            self.values.extend_from_slice(values);
        }
    }

    /// What comes now is of when the function has returned.
    fn late(&mut self) {
        self.is_late = true;
        self.field(DURATION, "u64".to_owned(), &[Value::DURATION]);
    }

    /// Adds how the call has ended.
    fn end(&mut self) {
        self.field(END, "enum u8 returned=0 unwound=1".to_owned(), &[Value::END]);
    }

    /// Adds what the function has returned.
    fn result(&mut self, kind: &Kind, passed: &Passed) {
        let mut own = Making { is_late: true, ..Making::default() };
        own.add(RESULT, kind, passed);
        if !own.values.is_empty() && self.values.len() + 1 + own.values.len() <= VALUES_MAX {
            self.end();
            self.lines.append(&mut own.lines);
            self.values.append(&mut own.values);
        }
    }

    fn finish(mut self) -> Fields {
        if let [Value::DURATION] = self.values[..] {
            return Fields::default();
        }
        self.share_out();
        let mut taken = HashSet::from([DURATION.to_owned(), END.to_owned(), RESULT.to_owned()]);
        let mut lines = String::new();
        for ((name, ty), is_late) in self.lines.iter().zip(is_late(&self.lines)) {
            let clean = |c: char| if c.is_ascii_alphanumeric() || c == '_' { c } else { '_' };
            let mut name: String = name.chars().map(clean).collect();
            while !is_late && !taken.insert(name.clone()) {
                name.push('_');
            }
            let _ = writeln!(lines, "{name} {ty}");
        }
        Fields { lines, values: self.values }
    }

    /// Gives texts what room the other values leave them.
    fn share_out(&mut self) {
        let is_text = |value: &Value| matches!(value.what, What::Text | What::Characters);
        let texts = self.values.iter().filter(|value| is_text(value)).count();
        let others: usize =
            self.values.iter().filter(|value| !is_text(value)).map(|value| value.bytes_max()).sum();
        let each = RECORD_MAX.saturating_sub(others + texts).checked_div(texts).unwrap_or(0).min(TEXT_MAX);
        for value in self.values.iter_mut().filter(|value| is_text(value)) {
            let most = if value.what == What::Characters { usize::from(value.bytes) } else { TEXT_MAX };
            value.bytes = u8::try_from(each.min(most)).unwrap_or(u8::MAX);
        }
    }
}

/// Whether each field is the duration, or behind it.
fn is_late(lines: &[(String, String)]) -> impl Iterator<Item = bool> {
    let first = lines.iter().rposition(|(name, _)| name == DURATION).unwrap_or(lines.len());
    (0..lines.len()).map(move |at| at >= first)
}

/// A kind as the type of a field.
fn type_of(kind: &Kind) -> String {
    let integer = |bytes: u8, signed: bool| {
        let bits = bytes.saturating_mul(8).min(64);
        if signed { Scalar::signed(bits).name() } else { Scalar::unsigned(bits).name() }
    };
    match kind {
        Kind::Integer { bytes, signed } => integer(*bytes, *signed).to_owned(),
        Kind::Bool => Scalar::Bool.name().to_owned(),
        Kind::Float { bytes: 4 } => Scalar::F32.name().to_owned(),
        Kind::Float { .. } => Scalar::F64.name().to_owned(),
        Kind::Text => "str".to_owned(),
        Kind::Enumeration { bytes, signed, labels } if labels.len() > LABELS_MAX => {
            integer(*bytes, *signed).to_owned()
        }
        Kind::Enumeration { bytes, signed, labels } => {
            let mut ty = format!("enum {}", integer(*bytes, *signed));
            let is_plain = |name: &str| name.chars().all(|c| c.is_alphanumeric() || c == '_');
            for (name, value) in labels.iter().filter(|(name, _)| is_plain(name)) {
                let _ = write!(ty, " {name}={value}");
            }
            ty
        }
        Kind::Pointer(_) | Kind::Aggregate(_) | Kind::Unknown => Scalar::hex(64).name().to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use mote_layout::functions::Origin;
    use mote_symbol::functions::{Parameter, Place, RegisterPart};

    const LONG: ArgumentType = ArgumentType::Scalar(Scalar::signed(64));

    fn froms(fields: &Fields) -> Vec<(Origin, bool, i32)> {
        fields.values.iter().map(|value| (value.from, value.is_behind, value.offset)).collect()
    }

    #[test]
    fn the_convention_gives_places() {
        let real = ArgumentType::Scalar(Scalar::F32);
        let names = ["a", "b", "x", "c", "d", "e", "f", "g", "_", "h"];
        let types = [LONG, LONG, real, LONG, LONG, LONG, LONG, LONG, LONG, ArgumentType::Text];
        let list: Vec<(String, ArgumentType)> =
            names.iter().zip(types).map(|(name, ty)| ((*name).to_owned(), ty)).collect();
        let fields = given(&list, Some(real));
        let expected = [
            (Origin::Integer(0), false, 0),
            (Origin::Integer(1), false, 0),
            (Origin::Vector(0), false, 0),
            (Origin::Integer(2), false, 0),
            (Origin::Integer(3), false, 0),
            (Origin::Integer(4), false, 0),
            (Origin::Integer(5), false, 0),
            (Origin::Stack, true, 0),
            (Origin::Stack, true, 16),
            (Origin::Stack, false, 0),
            (Origin::Stack, false, 0),
            (Origin::VectorResult(0), false, 0),
        ];
        assert_eq!(froms(&fields), expected);
        let lines: Vec<&str> = fields.lines.lines().collect();
        assert_eq!(lines[8..], ["h str", "duration u64", "end enum u8 returned=0 unwound=1", "retval f32"]);
    }

    #[test]
    fn texts_share_what_room_there_is() {
        let most = |count: usize| {
            let list: Vec<_> = (0..count).map(|number| (format!("t{number}"), ArgumentType::Text)).collect();
            let fields = given(&list, None);
            let all: usize = fields.values.iter().map(|value| value.bytes_max()).sum();
            assert!(all <= RECORD_MAX, "{count} texts: {all} bytes");
            (fields.values.len(), fields.values[0].bytes)
        };
        assert_eq!(most(1), (2, 200));
        assert_eq!(most(4), (5, 117));
        // Others have no room.
        assert_eq!(most(40), (VALUES_MAX - LATE_VALUES + 1, 17));
    }

    #[test]
    fn debug_information_comes_first() {
        let parameter = |name: &str, kind: Kind, place| Parameter { name: name.to_owned(), kind, place };
        let int = || Kind::Integer { bytes: 4, signed: true };
        let register = |register| Place::Registers(vec![RegisterPart { register, bytes: 0 }]);
        let halves = Place::Registers([5, 4].map(|register| RegisterPart { register, bytes: 4 }).into());
        let member = |name: &str, offset| Member { name: name.to_owned(), offset, kind: int() };
        let pair = Structure {
            bytes: 8,
            members: vec![member("x", 0), member("y", 4)],
            is_known: true,
            ..Structure::default()
        };
        let parameters = vec![
            parameter("p", Kind::Aggregate(pair.clone()), halves),
            parameter("retval", int(), register(9)),
            parameter("duration", int(), Place::Nowhere),
            parameter("s", Kind::Aggregate(pair), Place::Behind(7, 24)),
            parameter("q", int(), Place::ByConvention),
        ];
        let of = |convention, symbol| {
            let signature = Signature { parameters: parameters.clone(), result: Some(int()), convention };
            declared(Some(symbol), &signature)
        };
        let expected = [
            (Origin::Integer(0), false, 0),
            (Origin::Integer(1), false, 0),
            (Origin::Integer(5), false, 0),
            (Origin::Stack, true, 16),
            (Origin::Stack, true, 20),
            // The fifth, where each of the others takes one register.
            (Origin::Integer(4), false, 0),
        ];
        let late = [(Origin::Stack, false, 0), (Origin::Stack, false, 0), (Origin::Result(0), false, 0)];
        let fields = of(Convention::C, "f");
        assert_eq!(froms(&fields), [&expected[..], &late].concat());
        let names: Vec<&str> = fields.lines.lines().filter_map(|line| line.split(' ').next()).collect();
        assert_eq!(names, ["p_x", "p_y", "retval_", "s_x", "s_y", "q", "duration", "end", "retval"]);
        // What the compiler has changed is known by debug information only.
        let changed = of(Convention::C, "f.constprop.0");
        assert_eq!(froms(&changed), [&expected[..5], &late[..1]].concat());
        // Rust passes small structures as it likes, and so what comes behind them.
        assert_eq!(froms(&of(Convention::Rust, "f")), [&expected[..5], &late].concat());
    }
}
