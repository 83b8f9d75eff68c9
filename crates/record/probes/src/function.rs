//! Probes of functions: which ones a pattern means, and what their arguments are.

use crate::error::{Wrong, similar};
use crate::pattern::{Kind, Spec, number};
use crate::selection::{MATCHES_MAX, Selection, event_name, short};
use crate::{arch, pinned};
use mote_catalog::event::{Event, Field, Hook, Operand, Origin, Type};
use mote_functions::arguments::ArgumentType;
use mote_layout::types::Scalar;
use mote_pattern::Glob;
use mote_symbol::functions::{Convention, Functions, Kind as Value, Signature};
use mote_symbol::{Image, Symbol, demangle, names};
use std::collections::HashSet;

/// Adds the events of the functions that `spec` means.
pub(crate) fn add(spec: &Spec, image: &Image, selection: &mut Selection) -> Result<(), Wrong> {
    let debug = Functions::of(image, &pinned::opened(&image.path));
    let chosen = match spec.name.strip_prefix("0x").and_then(|_| number(&spec.name)) {
        Some(address) => vec![(address, at_address(image, address)?)],
        None => named(spec, image, &mut selection.notes)?,
    };
    let returns = spec.kind == Kind::Uretprobe;
    for (address, name) in chosen {
        // What lies on the stack there is no return address, and must not be replaced by the kernel's.
        if returns && address == image.entry {
            match spec.is_glob() {
                true => continue,
                false => return Err(Wrong::NoReturn { path: image.path.clone(), name }),
            }
        }
        let signature = debug.as_ref().and_then(|debug| debug.signature(address));
        let place = address.wrapping_add(spec.offset);
        let Some(offset) = image.offset_of(place) else {
            return Err(Wrong::NoAddress { path: image.path.clone(), address: place });
        };
        let mut event_of =
            Builder { spec, notes: &mut selection.notes, name: &name, passed: Passed::Registers };
        let fields =
            if returns { event_of.result(signature.as_ref()) } else { event_of.entry(signature.as_ref()) };
        let suffix = if spec.offset > 0 { format!("{:x}", spec.offset) } else { String::new() };
        let parts = [spec.kind.name(), &short(&image.path), &name, &suffix];
        let hook = Hook::Uprobe { path: image.path.clone(), offset, semaphore: 0, returns };
        selection.events.push(Event {
            provider: spec.kind.name().to_owned(),
            name: event_name(&parts),
            fields,
            hook,
        });
    }
    Ok(())
}

/// A name for the code at an address that a person gave.
fn at_address(image: &Image, address: u64) -> Result<String, Wrong> {
    let code = image.segments.iter().filter(|segment| segment.executable);
    let mut code = code.filter(|s| address.checked_sub(s.address).is_some_and(|into| into < s.len));
    if code.next().is_none() {
        return Err(Wrong::NoAddress { path: image.path.clone(), address });
    }
    Ok(format!("{address:x}"))
}

/// Address and name of the functions that the name or pattern means.
fn named(spec: &Spec, image: &Image, notes: &mut Vec<String>) -> Result<Vec<(u64, String)>, Wrong> {
    let path = || image.path.clone();
    if image.table.is_empty() {
        return Err(Wrong::Stripped { path: path() });
    }
    let glob = spec.is_glob().then(|| Glob::new(&spec.name));
    let fits = |symbol: &Symbol<'_>| {
        let is = |name: &str| name == spec.name || glob.as_ref().is_some_and(|glob| glob.matches(name));
        names::fits(symbol.name, is)
    };
    let fitting: Vec<Symbol<'_>> = image.table.iter().filter(fits).collect();
    let all = || image.table.iter().map(|symbol| names::plain(symbol.name));
    if fitting.is_empty() {
        let readable: Vec<String> = all().map(|name| names::bare(&demangle(name))).collect();
        let similar = similar(&spec.name, readable.iter().map(String::as_str));
        return Err(Wrong::NoFunction { path: path(), name: spec.name.clone(), similar });
    }
    let mut places = HashSet::new();
    let direct = fitting.iter().filter(|symbol| !symbol.indirect && places.insert(symbol.address));
    let chosen: Vec<(u64, String)> =
        direct.map(|symbol| (symbol.address, names::bare(&demangle(names::plain(symbol.name))))).collect();
    if chosen.is_empty() {
        let others = all().filter(|name| *name != spec.name);
        return Err(Wrong::Indirect {
            path: path(),
            name: spec.name.clone(),
            similar: similar(&spec.name, others),
        });
    }
    if glob.is_none() && fitting.iter().any(|symbol| symbol.indirect) {
        notes.push(format!(
            "`{}` of {} is chosen when a program starts (STT_GNU_IFUNC); what is probed is the version for old \
             programs",
            spec.name,
            image.path.display()
        ));
    }
    if chosen.len() > MATCHES_MAX {
        return Err(Wrong::TooMany { path: path(), count: chosen.len() });
    }
    Ok(chosen)
}

pub(crate) fn ip() -> Field {
    let from = Origin::Operand(Operand::Register(arch::IP));
    Field { name: "ip".to_owned(), ty: Type::Scalar(Scalar::hex(64)), from }
}

fn registers() -> impl Iterator<Item = Field> {
    (1..).zip(arch::ARGUMENTS).map(|(number, offset)| Field {
        name: format!("arg{number}"),
        ty: Type::Scalar(Scalar::hex(64)),
        from: Origin::Operand(Operand::Register(offset)),
    })
}

/// How a function's arguments are passed, and what their addresses mean.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Passed {
    /// As C's calling convention says; texts lie in the process.
    Registers,
    /// The same; texts lie in the process or in the kernel.
    KernelRegisters,
    /// A word each.
    Words,
}

/// Makes the fields of one function's event.
pub(crate) struct Builder<'a> {
    pub(crate) spec: &'a Spec,
    pub(crate) notes: &'a mut Vec<String>,
    pub(crate) name: &'a str,
    pub(crate) passed: Passed,
}

impl Builder<'_> {
    pub(crate) fn entry(&mut self, signature: Option<&Signature>) -> Vec<Field> {
        let mut fields = vec![ip()];
        if let Some(given) = &self.spec.arguments {
            let types = given.iter().map(|(name, ty)| (name.as_str(), given_type(*ty)));
            fields.extend(types.zip(0..).map(|((name, ty), at)| self.field(name, ty, at)));
        } else if self.spec.offset > 0 {
            // In the middle of a function it is not known what the registers hold.
            fields.extend(registers());
        } else {
            match signature.filter(|signature| signature.convention == Convention::C) {
                Some(signature) => fields.extend(self.typed(signature)),
                None => fields.extend(registers()),
            }
        }
        apart(&mut fields);
        fields
    }

    fn field(&self, name: &str, ty: Type, at: usize) -> Field {
        let from = match self.passed {
            Passed::Registers if ty == Type::Text => Origin::OperandText(integer_argument(at)),
            Passed::Registers => Origin::Operand(integer_argument(at)),
            Passed::KernelRegisters => anywhere(Origin::Operand(integer_argument(at)), &ty),
            Passed::Words => anywhere(word(at, &ty), &ty),
        };
        Field { name: name.to_owned(), ty, from }
    }

    /// The parameters where the calling convention of C puts them, or in a word each.
    pub(crate) fn typed(&mut self, signature: &Signature) -> Vec<Field> {
        let mut fields = Vec::new();
        // A large result is written where the hidden first argument says.
        let mut at = usize::from(
            matches!(&signature.result, Some(Value::Aggregate(structure)) if structure.bytes > 16),
        );
        for (index, parameter) in signature.parameters.iter().enumerate() {
            let name = match parameter.name.as_str() {
                "" => format!("arg{}", index + 1),
                name => event_name(&[name]),
            };
            let ty = match &parameter.kind {
                Value::Integer { bytes: 16, .. } => {
                    at += 2;
                    self.left_out(&name, "an integer of 128 bits");
                    continue;
                }
                Value::Float { .. } => {
                    self.left_out(
                        &name,
                        "a floating point number, in a register that the kernel does not show",
                    );
                    continue;
                }
                Value::Aggregate(structure) if self.passed == Passed::Words => {
                    at += words(structure.bytes);
                    self.left_out(&name, "a structure by value");
                    continue;
                }
                // Small structures are in registers, or not, by the types of their members; the stack holds the others.
                Value::Aggregate(structure) if structure.bytes > 16 => {
                    self.left_out(&name, "a structure by value");
                    continue;
                }
                Value::Aggregate(_) | Value::Unknown => {
                    self.left_out(
                        &name,
                        "its type may be passed in several ways; those after it are not recorded \
                                          either",
                    );
                    break;
                }
                kind => type_of(kind),
            };
            fields.push(self.field(&name, ty, at));
            at += 1;
        }
        fields
    }

    fn left_out(&mut self, name: &str, why: &str) {
        self.notes.push(format!("argument `{name}` of {} is not recorded: {why}", self.name));
    }

    pub(crate) fn result(&mut self, signature: Option<&Signature>) -> Vec<Field> {
        let ty = match signature.map(|signature| &signature.result) {
            Some(None) => return Vec::new(),
            Some(Some(Value::Float { .. })) => {
                self.left_out("ret", "a floating point number, in a register that the kernel does not show");
                return Vec::new();
            }
            // A `char *` result is an address too: what it points to may be freed later, but not yet here.
            Some(Some(kind)) if !matches!(kind, Value::Aggregate(_) | Value::Unknown) => type_of(kind),
            _ => Type::Scalar(Scalar::hex(64)),
        };
        let from = match (&ty, self.passed) {
            (Type::Text, Passed::KernelRegisters) => {
                anywhere(Origin::Operand(Operand::Register(arch::RETURNED)), &ty)
            }
            (Type::Text, _) => Origin::OperandText(Operand::Register(arch::RETURNED)),
            _ => Origin::Result,
        };
        vec![Field { name: "ret".to_owned(), ty, from }]
    }
}

pub(crate) fn given_type(given: ArgumentType) -> Type {
    match given {
        ArgumentType::Scalar(scalar) => Type::Scalar(scalar),
        ArgumentType::Text => Type::Text,
    }
}

/// What is at `place`; of a text the address, in the process or in the kernel.
pub(crate) fn anywhere(place: Origin, ty: &Type) -> Origin {
    if *ty == Type::Text { Origin::AnyText(Box::new(place)) } else { place }
}

/// Words of a value of so many bytes.
pub(crate) const fn words(bytes: u64) -> usize {
    bytes.div_ceil(8) as usize
}

/// Word `at` of a function's context: what has the type of an address is read as one.
pub(crate) fn word(at: usize, ty: &Type) -> Origin {
    let at = u8::try_from(at).unwrap_or(u8::MAX);
    match ty {
        Type::Text => Origin::Address(at),
        Type::Scalar(scalar) if *scalar == Scalar::hex(64) => Origin::Address(at),
        _ => Origin::Argument(at),
    }
}

fn integer(bytes: u8, signed: bool) -> Scalar {
    let bits = bytes.saturating_mul(8).min(64);
    if signed { Scalar::signed(bits) } else { Scalar::unsigned(bits) }
}

pub(crate) fn type_of(kind: &Value) -> Type {
    match kind {
        Value::Integer { bytes, signed } => Type::Scalar(integer(*bytes, *signed)),
        Value::Bool => Type::Scalar(Scalar::Bool),
        Value::Text => Type::Text,
        Value::Enumeration { bytes, signed, labels } => {
            let labels = labels.iter().map(|(name, value)| (name.clone(), *value, *value)).collect();
            Type::Enumeration(integer(*bytes, *signed), labels)
        }
        Value::Pointer(_) | Value::Float { .. } | Value::Aggregate(_) | Value::Unknown => {
            Type::Scalar(Scalar::hex(64))
        }
    }
}

/// Where the integer argument number `at` is when a function begins.
fn integer_argument(at: usize) -> Operand {
    match arch::ARGUMENTS.get(at) {
        Some(offset) => Operand::Register(*offset),
        None => {
            let behind = at - arch::ARGUMENTS.len();
            let displacement = arch::STACK_ARGUMENTS + 8 * i64::try_from(behind).unwrap_or(0);
            Operand::Memory { base: arch::SP, index: None, displacement, bytes: 8 }
        }
    }
}

/// Gives fields of one name names of their own.
pub(crate) fn apart(fields: &mut [Field]) {
    let mut taken = HashSet::new();
    for field in fields {
        while !taken.insert(field.name.clone()) {
            field.name.push('_');
        }
    }
}
