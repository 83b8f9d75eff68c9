//! Compiles the field classes of a scope to a [`Program`], and checks them on the way.

use super::program::{Bits, Choice, Count, Effect, Kind, Op, Program, Run, Scalar};
use crate::error::{MAX_DEPTH, MetadataFault};
use crate::model::{
    ArrayClass, ByteOrder, FieldClass, FieldRef, IntClass, IntCoding, Length, Range, Roles, Scope,
    StructClass,
};
use crate::value::Tag;
use std::collections::BTreeMap;

/// Registers of all references of a trace; those into packet scopes come first.
pub(crate) type Registers = BTreeMap<FieldRef, u16>;

/// Longest static array of integers that becomes part of a run.
const UNROLL: u64 = 32;
/// Most operations and run fields in one program.
const MAX_OPS: usize = 1 << 18;
/// Largest alignment in bits.
pub(crate) const MAX_ALIGN: u32 = 1 << 16;

type Checked<T> = Result<T, MetadataFault>;

pub(crate) fn fault<T>(kind: MetadataFault) -> Checked<T> {
    Err(kind)
}

/// Compiles scopes one after the other into one program.
pub(crate) struct Compiler<'a> {
    registers: &'a Registers,
    /// Whether roles of the default clock have a clock to act on.
    has_clock: bool,
    scope: Scope,
    path: Vec<&'a str>,
    depth: u32,
    size: usize,
    ops: Vec<Op>,
    run: Option<OpenRun>,
}

/// A run that may still grow.
struct OpenRun {
    align: u64,
    bits: u64,
    window: usize,
    fields: Vec<Scalar>,
    effects: Vec<(u32, Effect)>,
}

impl OpenRun {
    /// The run, its two commonest effects in places of their own if there is one of each.
    fn finish(mut self) -> Run {
        let mut take = |wanted: fn(&Effect) -> bool| {
            let places: Vec<usize> =
                (0..self.effects.len()).filter(|i| wanted(&self.effects[*i].1)).collect();
            let [place] = places[..] else { return None };
            let field = *self.fields.get(self.effects[place].0 as usize)?;
            (field.tag == Tag::U64).then(|| (field, self.effects.remove(place).1))
        };
        let event_class = take(|effect| *effect == Effect::EventClass).map(|(field, _)| field);
        let clock = match take(|effect| matches!(effect, Effect::Clock { .. })) {
            Some((field, Effect::Clock { bits })) => Some((field, bits)),
            _ => None,
        };
        Run {
            align: self.align,
            bits: self.bits,
            window: self.window,
            fields: self.fields.into(),
            event_class,
            clock,
            effects: self.effects.into(),
        }
    }
}

/// A fixed-size field before its place is known.
#[derive(Clone, Copy)]
struct Fixed {
    size: u32,
    align: u32,
    order: ByteOrder,
    kind: Kind,
}

impl<'a> Compiler<'a> {
    pub(crate) fn new(registers: &'a Registers, has_clock: bool) -> Compiler<'a> {
        Compiler {
            registers,
            has_clock,
            scope: Scope::PacketHeader,
            path: Vec::new(),
            depth: 0,
            size: 0,
            ops: Vec::new(),
            run: None,
        }
    }

    /// Appends the fields of a scope.
    pub(crate) fn scope(&mut self, scope: Scope, class: Option<&'a StructClass>) -> Checked<()> {
        self.scope = scope;
        self.path.clear();
        class.map_or(Ok(()), |class| self.structure(class))
    }

    /// Marks the end of scope number `index` in the values.
    pub(crate) fn end_scope(&mut self, index: usize) {
        self.close();
        self.ops.push(Op::EndScope(index));
    }

    pub(crate) fn finish(mut self) -> Program {
        self.close();
        self.ops.into_boxed_slice()
    }

    fn structure(&mut self, class: &'a StructClass) -> Checked<()> {
        check_align(class.min_align)?;
        self.align_to(class.align())?;
        for member in &class.members {
            self.path.push(&member.name);
            self.field(&member.class)?;
            self.path.pop();
        }
        Ok(())
    }

    fn field(&mut self, class: &'a FieldClass) -> Checked<()> {
        self.depth += 1;
        self.size += 1;
        if self.depth > MAX_DEPTH {
            return fault(MetadataFault::TooDeep);
        }
        if self.size > MAX_OPS {
            return fault(MetadataFault::TooBig);
        }
        match class {
            FieldClass::Int(int) => self.int(int)?,
            FieldClass::Enum(class) => self.int(&class.int)?,
            FieldClass::Float(c) => {
                let kind = float_kind(c.size)?;
                self.fixed(Fixed { size: c.size, align: c.align, order: c.byte_order, kind }, vec![])?;
            }
            FieldClass::Bool(c) => {
                let field = Fixed { size: c.size, align: c.align, order: c.byte_order, kind: Kind::Bool };
                let effects = self.saved();
                self.fixed(field, effects)?;
            }
            FieldClass::BitMap(c) => {
                let field = Fixed { size: c.size, align: c.align, order: c.byte_order, kind: Kind::Unsigned };
                self.fixed(field, vec![])?;
            }
            FieldClass::String(c) => self.simple(Op::Terminated { unit: unit(c.encoding.unit()) }),
            FieldClass::Text(c) => {
                let length = self.count(&c.length)?;
                self.simple(Op::Text { length, unit: unit(c.encoding.unit()) });
            }
            FieldClass::Blob(c) => {
                let length = self.count(&c.length)?;
                if c.roles.contains(Roles::METADATA_UUID) {
                    self.uuid(&c.length)?;
                }
                self.simple(Op::Blob { length });
            }
            FieldClass::Array(c) => self.array(c)?,
            FieldClass::Struct(c) => self.structure(c)?,
            FieldClass::Variant(c) => {
                let selector = self.register(&c.selector)?;
                let mut options = Vec::with_capacity(c.options.len());
                for option in &c.options {
                    options.push(Choice { ranges: ranges(&option.ranges), body: self.body(&option.class)? });
                }
                self.simple(Op::Variant { selector, options: options.into() });
            }
            FieldClass::Optional(c) => {
                let selector = self.register(&c.selector)?;
                let body = self.body(&c.class)?;
                let ranges = (!c.ranges.is_empty()).then(|| ranges(&c.ranges));
                self.simple(Op::Optional { selector, ranges, body });
            }
        }
        self.depth -= 1;
        Ok(())
    }

    fn int(&mut self, int: &IntClass) -> Checked<()> {
        let kind = if int.signed { Kind::Signed } else { Kind::Unsigned };
        let effects = self.effects(int);
        match int.coding {
            IntCoding::Leb128 => {
                check_align(int.align)?;
                let align = u64::from(int.effective_align());
                self.simple(Op::Leb128 { align, kind, effects: effects.into() });
                Ok(())
            }
            IntCoding::Fixed => {
                self.fixed(Fixed { size: int.size, align: int.align, order: int.byte_order, kind }, effects)
            }
        }
    }

    /// Adds a fixed-size field to the open run if its distance is known, else opens a run or goes bit by bit.
    fn fixed(&mut self, field: Fixed, effects: Vec<Effect>) -> Checked<()> {
        if field.size == 0 || field.size > 64 {
            return fault(MetadataFault::BadValue("size: it must be 1 to 64 bits"));
        }
        check_align(field.align)?;
        let align = u64::from(field.align);
        if field.align >= 8 && self.run.as_ref().is_none_or(|run| run.align < align) {
            self.open(align);
        }
        // Reversed bits are rare: no run has them.
        let run = self.run.as_mut().filter(|run| run.align >= align && !field.order.is_reversed());
        if let Some(run) = run {
            let at = run.bits.next_multiple_of(align);
            if let Some(scalar) = place(field, at) {
                let index = u32::try_from(run.fields.len()).unwrap_or(u32::MAX);
                run.fields.push(scalar);
                run.effects.extend(effects.into_iter().map(|effect| (index, effect)));
                run.bits = at + u64::from(field.size);
                run.window = run.window.max(scalar.byte as usize + 8);
                return Ok(());
            }
        }
        let (big, reversed) = (field.order.is_big(), field.order.is_reversed());
        let bits = Bits { align, size: field.size, big, reversed, kind: field.kind, effects: effects.into() };
        self.simple(Op::Bits(bits));
        Ok(())
    }

    fn array(&mut self, class: &'a ArrayClass) -> Checked<()> {
        check_align(class.min_align)?;
        let length = self.count(&class.length)?;
        self.align_to(class.min_align.max(class.element.align()))?;
        if class.roles.contains(Roles::METADATA_UUID) {
            self.uuid(&class.length)?;
        }
        let scalar = plain_scalar(&class.element)?;
        match (length, scalar) {
            (Count::Static(0), _) => {
                // Nothing to decode; the element is still checked.
                self.body(&class.element)?;
            }
            (Count::Static(n), Some(field)) if n <= UNROLL => {
                for _ in 0..n {
                    self.fixed(field, vec![])?;
                }
                self.size += usize::try_from(n).unwrap_or(0);
            }
            (_, Some(field)) if field.align >= 8 && field.size.is_multiple_of(field.align) => {
                if let Some(scalar) = place(field, 0) {
                    self.simple(Op::Scalars { length, scalar, stride: field.size / 8 });
                }
            }
            _ => {
                let body = self.body(&class.element)?;
                let min_bits = min_bits(&class.element);
                if matches!(length, Count::Register(_)) || !body.is_empty() {
                    self.simple(Op::Array { length, min_bits, body });
                }
            }
        }
        Ok(())
    }

    /// Compiles a field that begins at an unknown position to a program of its own.
    fn body(&mut self, class: &'a FieldClass) -> Checked<Program> {
        let run = self.run.take();
        let outer = std::mem::take(&mut self.ops);
        self.field(class)?;
        self.close();
        self.run = run;
        Ok(std::mem::replace(&mut self.ops, outer).into_boxed_slice())
    }

    fn uuid(&mut self, length: &Length) -> Checked<()> {
        if *length != Length::Static(16) {
            return fault(MetadataFault::BadValue("UUID field: it must have 16 bytes"));
        }
        self.align_to(8)?;
        self.simple(Op::PeekUuid);
        Ok(())
    }

    fn align_to(&mut self, align: u32) -> Checked<()> {
        check_align(align)?;
        let bits = u64::from(align);
        match &mut self.run {
            Some(run) if run.align >= bits => run.bits = run.bits.next_multiple_of(bits),
            _ if align >= 8 => self.open(bits),
            _ if align > 1 => self.simple(Op::Align(bits)),
            _ => {}
        }
        Ok(())
    }

    fn open(&mut self, align: u64) {
        self.close();
        self.run = Some(OpenRun { align, bits: 0, window: 0, fields: Vec::new(), effects: Vec::new() });
    }

    fn close(&mut self) {
        let Some(run) = self.run.take() else { return };
        if run.fields.is_empty() {
            self.ops.push(Op::Align(run.align));
            return;
        }
        self.ops.push(Op::Run(run.finish()));
    }

    /// Ends the open run and appends `op`.
    fn simple(&mut self, op: Op) {
        self.close();
        self.ops.push(op);
    }

    fn count(&self, length: &Length) -> Checked<Count> {
        match length {
            Length::Static(n) => Ok(Count::Static(*n)),
            Length::Dynamic(target) => Ok(Count::Register(self.register(target)?)),
        }
    }

    fn register(&self, target: &FieldRef) -> Checked<u16> {
        match self.registers.get(target) {
            Some(register) if target.scope <= self.scope => Ok(*register),
            _ => fault(MetadataFault::Unknown("length or selector field")),
        }
    }

    /// The effect of keeping the current field's value, if something refers to it.
    fn saved(&self) -> Vec<Effect> {
        if self.registers.is_empty() {
            return Vec::new();
        }
        let path = self.path.iter().map(|name| (*name).to_owned()).collect();
        let register = self.registers.get(&FieldRef { scope: self.scope, path });
        register.map(|r| Effect::Save(*r)).into_iter().collect()
    }

    fn effects(&self, int: &IntClass) -> Vec<Effect> {
        let mut effects = self.saved();
        let bits = if int.coding == IntCoding::Leb128 { 64 } else { int.size };
        let in_packet = self.scope <= Scope::PacketContext;
        let mut add = |wanted: bool, role: Roles, effect: Effect| {
            if wanted && int.roles.contains(role) {
                effects.push(effect);
            }
        };
        add(in_packet, Roles::PACKET_MAGIC, Effect::Magic);
        add(in_packet, Roles::STREAM_CLASS_ID, Effect::StreamClass);
        add(in_packet, Roles::STREAM_ID, Effect::StreamId);
        add(in_packet, Roles::CONTENT_LENGTH, Effect::ContentBits);
        add(in_packet, Roles::TOTAL_LENGTH, Effect::PacketBits);
        add(in_packet, Roles::SEQUENCE_NUMBER, Effect::SequenceNumber);
        add(in_packet, Roles::DISCARDED, Effect::Discarded);
        add(in_packet, Roles::PACKET_END_TIMESTAMP, Effect::EndClock { bits });
        add(!in_packet, Roles::EVENT_CLASS_ID, Effect::EventClass);
        add(self.has_clock, Roles::TIMESTAMP, Effect::Clock { bits });
        if self.scope == Scope::PacketContext && self.path == ["cpu_id"] {
            effects.push(Effect::Cpu);
        }
        effects
    }
}

fn unit(bytes: usize) -> u8 {
    u8::try_from(bytes).unwrap_or(1)
}

fn ranges(ranges: &[Range]) -> Box<[(i128, i128)]> {
    ranges.iter().map(|r| (r.lower, r.upper)).collect()
}

fn check_align(align: u32) -> Checked<()> {
    if align.is_power_of_two() && align <= MAX_ALIGN {
        return Ok(());
    }
    fault(MetadataFault::BadValue("alignment: it must be a power of two up to 65536"))
}

fn float_kind(size: u32) -> Checked<Kind> {
    match size {
        16 => Ok(Kind::F16),
        32 => Ok(Kind::F32),
        64 => Ok(Kind::F64),
        _ => fault(MetadataFault::Unsupported("floating point number of other than 16, 32 or 64 bits")),
    }
}

/// The load for a field `at` so many bits behind an aligned base; `None` if it spans nine bytes.
fn place(field: Fixed, at: u64) -> Option<Scalar> {
    let inside = u32::try_from(at % 8).ok()?;
    let spare = 64_u32.checked_sub(inside + field.size)?;
    let big = field.order.is_big();
    let left = if big { inside } else { spare };
    Some(Scalar {
        byte: u32::try_from(at / 8).ok()?,
        left: u8::try_from(left).ok()?,
        right: u8::try_from(64 - field.size).ok()?,
        big,
        tag: field.kind.tag(),
        small_float: matches!(field.kind, Kind::F16 | Kind::F32),
        sign: if field.kind == Kind::Signed { 1 << (field.size - 1) } else { 0 },
    })
}

/// The element as a fixed-size field nothing can refer to; `None` if it is something else.
///
/// Integers inside arrays cannot be lengths or selectors: a reference ends at a structure's member.
fn plain_scalar(class: &FieldClass) -> Checked<Option<Fixed>> {
    let kind = |int: &IntClass| if int.signed { Kind::Signed } else { Kind::Unsigned };
    Ok(match class {
        FieldClass::Int(int) | FieldClass::Enum(crate::model::EnumClass { int, .. }) => {
            let plain = int.coding == IntCoding::Fixed && !int.byte_order.is_reversed();
            (plain && (1..=64).contains(&int.size) && int.align.is_power_of_two()).then(|| Fixed {
                size: int.size,
                align: int.align,
                order: int.byte_order,
                kind: kind(int),
            })
        }
        FieldClass::Float(c) if c.align.is_power_of_two() && !c.byte_order.is_reversed() => {
            Some(Fixed { size: c.size, align: c.align, order: c.byte_order, kind: float_kind(c.size)? })
        }
        _ => None,
    })
}

/// Least number of bits that a field can take.
fn min_bits(class: &FieldClass) -> u64 {
    match class {
        FieldClass::Int(int) => {
            if int.coding == IntCoding::Leb128 {
                8
            } else {
                u64::from(int.size)
            }
        }
        FieldClass::Enum(c) => {
            if c.int.coding == IntCoding::Leb128 {
                8
            } else {
                u64::from(c.int.size)
            }
        }
        FieldClass::Float(c) => c.size.into(),
        FieldClass::Bool(c) => c.size.into(),
        FieldClass::BitMap(c) => c.size.into(),
        FieldClass::String(c) => 8 * c.encoding.unit() as u64,
        FieldClass::Text(c) => static_bits(&c.length, 8),
        FieldClass::Blob(c) => static_bits(&c.length, 8),
        FieldClass::Array(c) => static_bits(&c.length, min_bits(&c.element)),
        FieldClass::Struct(c) => c.members.iter().fold(0, |sum, m| sum.saturating_add(min_bits(&m.class))),
        FieldClass::Variant(c) => c.options.iter().map(|o| min_bits(&o.class)).min().unwrap_or(0),
        FieldClass::Optional(_) => 0,
    }
}

fn static_bits(length: &Length, element: u64) -> u64 {
    match length {
        Length::Static(n) => n.saturating_mul(element),
        Length::Dynamic(_) => 0,
    }
}

/// Number of values of a structure, if it is always the same.
pub(crate) fn static_values(class: Option<&StructClass>) -> Option<u32> {
    class.map_or(Some(0), |class| {
        class.members.iter().try_fold(0_u32, |sum, m| sum.checked_add(static_field_values(&m.class)?))
    })
}

fn static_field_values(class: &FieldClass) -> Option<u32> {
    match class {
        FieldClass::Struct(c) => static_values(Some(c)),
        FieldClass::Array(ArrayClass { length: Length::Static(n), element, .. }) => {
            static_field_values(element)?.checked_mul(u32::try_from(*n).ok()?)
        }
        FieldClass::Array(_) | FieldClass::Variant(_) | FieldClass::Optional(_) => None,
        _ => Some(1),
    }
}
