//! Random trace classes, and random events of them, encoded by the crate's own encoder.
#![allow(dead_code, unreachable_pub)]

use crate::common::{Random, Trace};
use mote_ctf::model::*;
use mote_ctf::write::encode::{BitWriter, encode_struct};
use mote_ctf::{Value, write};
use std::collections::HashMap;

/// What a referenced integer may be.
#[derive(Clone)]
enum Choice {
    Length,
    OneOf(Vec<i64>),
}

pub struct Generator {
    pub random: Random,
    /// Only what CTF 1.8 can express without a change of the text.
    pub ctf1: bool,
    order: ByteOrder,
    /// Some fields have their bits reversed.
    reverses: bool,
    choices: HashMap<FieldRef, Choice>,
    names: usize,
}

const TEXTS: [&[u8]; 6] = [
    b"",
    b"a",
    b"hello world",
    b"\xc3\xa9t\xc3\xa9",
    b"tab\there \"quoted\" \\",
    b"0123456789abcdef0123456789abcdef",
];

impl Generator {
    pub fn new(seed: u64, ctf1: bool) -> Generator {
        let mut random = Random(seed | 1);
        for _ in 0..8 {
            random.next();
        }
        let order = if random.below(2) == 0 { ByteOrder::Little } else { ByteOrder::Big };
        let reverses = !ctf1 && random.below(2) == 0;
        Generator { random, ctf1, order, reverses, choices: HashMap::new(), names: 0 }
    }

    fn int(&mut self) -> IntClass {
        let byte_sized = self.random.below(3) > 0;
        // babeltrace2 2.0.4 prints negative numbers of 61 to 63 bits in base 16 as 0 (it shifts by 64).
        let size =
            if byte_sized { [8, 16, 32, 64][self.random.below(4)] } else { 1 + self.random.below(60) as u32 };
        let align = if byte_sized {
            [8, 8, 16, 32][self.random.below(4)]
        } else {
            [1, 1, 2, 8][self.random.below(4)]
        };
        let signed = self.random.below(2) == 0;
        let base = [Base::Decimal, Base::Decimal, Base::Hexadecimal, Base::Octal, Base::Binary]
            [self.random.below(5)];
        let coding =
            if !self.ctf1 && self.random.below(6) == 0 { IntCoding::Leb128 } else { IntCoding::Fixed };
        let byte_order = self.bit_order();
        let mut int = IntClass { align, base, coding, byte_order, ..IntClass::new(size, signed) };
        if coding == IntCoding::Leb128 {
            (int.size, int.align, int.byte_order) = (64, 8, ByteOrder::Little);
        }
        int
    }

    /// The order of bytes, in CTF 2 sometimes with the bits reversed.
    fn bit_order(&mut self) -> ByteOrder {
        match self.order {
            order if !self.reverses || self.random.below(4) > 0 => order,
            ByteOrder::Big => ByteOrder::BigReversed,
            _ => ByteOrder::LittleReversed,
        }
    }

    fn name(&mut self) -> String {
        self.names += 1;
        let base = ["value", "int", "x", "_hidden", "struct", "len"][self.random.below(6)];
        format!("{base}{}", self.names)
    }

    /// Adds a member of a random class, after the length or selector that it needs.
    fn member(&mut self, members: &mut Vec<Member>, scope: Scope, path: &mut Vec<String>, depth: usize) {
        let kinds = if depth == 0 { 6 } else { 12 };
        let name = self.name();
        path.push(name.clone());
        let class = match self.random.below(kinds) {
            0 | 1 => FieldClass::Int(self.int()),
            2 => {
                let int = self.int();
                FieldClass::enumeration(int, [("zero", 0), ("one", 1), ("also one", 1)])
            }
            3 => FieldClass::string(),
            4 => FieldClass::Float(FloatClass {
                size: [32, 64][self.random.below(2)],
                align: 8,
                byte_order: self.bit_order(),
            }),
            5 if !self.ctf1 => match self.random.below(3) {
                0 => FieldClass::bool(),
                1 => FieldClass::blob(Length::Static(self.random.below(5) as u64)),
                _ => FieldClass::BitMap(BitMapClass {
                    size: 7,
                    align: 1,
                    byte_order: self.bit_order(),
                    flags: vec![],
                }),
            },
            5 => FieldClass::text(Length::Static(1 + self.random.below(40) as u64)),
            6 | 7 => {
                let mut inner = Vec::new();
                for _ in 0..self.random.below(4) {
                    self.member(&mut inner, scope, path, depth - 1);
                }
                FieldClass::Struct(StructClass {
                    members: inner,
                    min_align: [1, 1, 8, 32][self.random.below(4)],
                })
            }
            8 => {
                let element = self.element(scope, path, depth);
                FieldClass::array(Length::Static(self.random.below(40) as u64), element)
            }
            9 => {
                let length = self.referenced(members, path, scope, false, Choice::Length);
                let element = self.element(scope, path, depth);
                FieldClass::array(Length::Dynamic(length), element)
            }
            10 if !self.ctf1 && self.random.below(2) == 0 => {
                let selector = self.referenced(members, path, scope, false, Choice::OneOf(vec![0, 1, 5]));
                let class = Box::new(self.element(scope, path, depth));
                FieldClass::Optional(OptionalClass {
                    selector,
                    ranges: vec![Range { lower: 1, upper: 3 }],
                    class,
                })
            }
            _ => {
                let selector = self.referenced(members, path, scope, true, Choice::OneOf(vec![0, 1]));
                let options = ["zero", "one"].iter().enumerate().map(|(i, name)| OptionClass {
                    name: (*name).to_owned(),
                    ranges: vec![Range::one(i as i64)],
                    class: self.element(scope, path, depth),
                });
                FieldClass::Variant(VariantClass { selector, options: options.collect() })
            }
        };
        path.pop();
        members.push(Member { name, class });
    }

    /// Adds the integer that a member at `path` refers to.
    fn referenced(
        &mut self,
        members: &mut Vec<Member>,
        path: &[String],
        scope: Scope,
        labelled: bool,
        choice: Choice,
    ) -> FieldRef {
        let mut int = self.int();
        int.signed = false;
        int.size = int.size.max(4);
        let name = self.name();
        let mut target = path[..path.len() - 1].to_vec();
        target.push(name.clone());
        let class = if labelled {
            FieldClass::enumeration(int, [("zero", 0), ("one", 1)])
        } else {
            FieldClass::Int(int)
        };
        members.push(Member { name, class });
        let target = FieldRef { scope, path: target };
        self.choices.insert(target.clone(), choice);
        target
    }

    fn element(&mut self, scope: Scope, path: &mut Vec<String>, depth: usize) -> FieldClass {
        let mut members = Vec::new();
        self.member(&mut members, scope, path, depth - 1);
        match members.pop() {
            // One that needs another before it comes in a structure.
            Some(last) if !members.is_empty() => {
                let _ = last;
                FieldClass::uint(8)
            }
            Some(Member { class: FieldClass::Struct(_), .. }) | None => FieldClass::string(),
            Some(member) => member.class,
        }
    }

    fn structure(&mut self, scope: Scope, most: usize) -> StructClass {
        let mut members = Vec::new();
        for _ in 0..self.random.below(most + 1) {
            // babeltrace2 2.0.4 dies of an assertion on a sequence in the context of one event class.
            let depth = if self.ctf1 && scope == Scope::SpecificContext { 0 } else { 2 };
            self.member(&mut members, scope, &mut Vec::new(), depth);
        }
        StructClass { members, min_align: 1 }
    }

    pub fn trace_class(&mut self) -> TraceClass {
        let u = |bits| IntClass { byte_order: self.order, ..IntClass::new(bits, false) };
        let header = StructClass::new([
            ("magic", FieldClass::Int(u(32).with_roles(Roles::PACKET_MAGIC).with_base(Base::Hexadecimal))),
            ("stream_id", FieldClass::Int(u(32).with_roles(Roles::STREAM_CLASS_ID))),
        ]);
        let context = StructClass::new([
            ("timestamp_begin", FieldClass::Int(u(64).with_roles(Roles::TIMESTAMP).with_clock(0))),
            ("content_size", FieldClass::Int(u(64).with_roles(Roles::CONTENT_LENGTH))),
            ("packet_size", FieldClass::Int(u(64).with_roles(Roles::TOTAL_LENGTH))),
            ("cpu_id", FieldClass::Int(u(32))),
        ]);
        let event_header = StructClass::new([
            ("id", FieldClass::Int(u(16).with_roles(Roles::EVENT_CLASS_ID))),
            ("timestamp", FieldClass::Int(u(40).with_roles(Roles::TIMESTAMP).with_clock(0))),
        ]);
        let mut stream = StreamClass {
            id: 3,
            clock: Some(0),
            packet_context: Some(context),
            event_header: Some(event_header),
            ..StreamClass::default()
        };
        stream.common_context = (self.random.below(2) == 0).then(|| self.structure(Scope::CommonContext, 3));
        for id in 0..3 {
            // Choices of an event's own scopes are remembered for all events: names never repeat.
            stream.events.push(EventClass {
                id,
                name: format!("test:event {id}"),
                log_level: Some(LogLevel(id as i64)),
                specific_context: (self.random.below(3) == 0)
                    .then(|| self.structure(Scope::SpecificContext, 3)),
                payload: Some(self.structure(Scope::Payload, 6)),
                ..EventClass::default()
            });
        }
        TraceClass {
            byte_order: self.order,
            packet_header: Some(header),
            clocks: vec![ClockClass { name: "ticks".into(), ..ClockClass::default() }],
            streams: vec![stream],
            ..TraceClass::default()
        }
    }

    /// One packet of `count` random events.
    pub fn packet(&mut self, trace: &TraceClass, count: u64) -> Vec<u8> {
        let stream = &trace.streams[0];
        let mut events = BitWriter::new();
        // Twice: the sizes are known when the content is.
        let seed = self.random.0;
        let mut content = 0;
        for _ in 0..2 {
            self.random.0 = seed;
            events = BitWriter::new();
            let packet = content_packet(content);
            let magic = [Value::U64(0xc1fc_1fc1), Value::U64(3)];
            encode_struct(trace.packet_header.as_ref().unwrap(), &magic, &mut events).unwrap();
            let context = [Value::U64(1 << 40), Value::U64(content), Value::U64(packet), Value::U64(1)];
            encode_struct(stream.packet_context.as_ref().unwrap(), &context, &mut events).unwrap();
            for index in 0..count {
                self.event(stream, index, &mut events);
            }
            content = events.bit();
        }
        events.pad_to((content_packet(content) / 8) as usize);
        events.into_bytes()
    }

    fn event(&mut self, stream: &StreamClass, index: u64, out: &mut BitWriter) {
        let id = self.random.below(stream.events.len());
        let header = [Value::U64(id as u64), Value::U64(index * 1000)];
        encode_struct(stream.event_header.as_ref().unwrap(), &header, out).unwrap();
        let event = &stream.events[id];
        for (scope, class) in [
            (Scope::CommonContext, &stream.common_context),
            (Scope::SpecificContext, &event.specific_context),
            (Scope::Payload, &event.payload),
        ] {
            if let Some(class) = class {
                let mut values = Vec::new();
                let mut chosen = HashMap::new();
                for member in &class.members {
                    self.values(
                        &member.class,
                        scope,
                        &mut vec![member.name.clone()],
                        &mut chosen,
                        &mut values,
                    );
                }
                encode_struct(class, &values, out).unwrap();
            }
        }
    }

    /// A value of a class that is neither an integer nor made of others.
    fn leaf(&mut self, class: &FieldClass) -> Value<'static> {
        match class {
            FieldClass::Float(c) => {
                let value = (self.random.next() as f64 / 1e15).trunc() / 8.0;
                Value::F64(if c.size == 64 { value } else { f64::from(value as f32) })
            }
            FieldClass::Bool(_) => Value::Bool(self.random.below(2) == 0),
            FieldClass::BitMap(c) => Value::U64(self.random.next() >> (64 - c.size)),
            FieldClass::String(_) => {
                // babeltrace2 2.0.4 shows an empty text as that field's text in the event before: none in
                // CTF 1.8.
                let first = usize::from(self.ctf1);
                Value::Str(TEXTS[first + self.random.below(TEXTS.len() - first)])
            }
            FieldClass::Text(TextClass { length: Length::Static(most), .. }) => {
                let text = TEXTS[1 + self.random.below(TEXTS.len() - 1)];
                Value::Str(if text.len() as u64 <= *most { text } else { b"b" })
            }
            FieldClass::Blob(BlobClass { length: Length::Static(n), .. }) => {
                Value::Bytes(&b"\x01\x02\x03\x04\x05"[..*n as usize])
            }
            _ => panic!("the generator knows this class elsewhere"),
        }
    }

    fn values(
        &mut self,
        class: &FieldClass,
        scope: Scope,
        path: &mut Vec<String>,
        chosen: &mut HashMap<FieldRef, i64>,
        out: &mut Vec<Value<'static>>,
    ) {
        match class {
            FieldClass::Int(int) | FieldClass::Enum(EnumClass { int, .. }) => {
                let place = FieldRef { scope, path: path.clone() };
                let choice = self.choices.get(&place).cloned();
                let value = match choice {
                    Some(Choice::Length) => self.random.below(6) as i64,
                    Some(Choice::OneOf(values)) => values[self.random.below(values.len())],
                    None if self.random.below(4) == 0 => (self.random.next() & 1) as i64,
                    None => self.random.next() as i64,
                };
                chosen.insert(place, value);
                let drop = 64 - int.size;
                out.push(if int.signed {
                    Value::I64(value << drop >> drop)
                } else {
                    Value::U64(value.cast_unsigned() << drop >> drop)
                });
            }
            FieldClass::Struct(c) => {
                for member in &c.members {
                    path.push(member.name.clone());
                    self.values(&member.class, scope, path, chosen, out);
                    path.pop();
                }
            }
            FieldClass::Array(c) => {
                let count = match &c.length {
                    Length::Static(n) => *n,
                    Length::Dynamic(target) => {
                        let count = chosen[target];
                        out.push(Value::Count(count as u32));
                        count as u64
                    }
                };
                (0..count).for_each(|_| self.values(&c.element, scope, path, chosen, out));
            }
            FieldClass::Variant(c) => {
                let value = chosen[&c.selector];
                let index =
                    c.options.iter().position(|o| o.ranges.iter().any(|r| r.contains(value.into()))).unwrap();
                out.push(Value::Selected(index as u32));
                self.values(&c.options[index].class, scope, path, chosen, out);
            }
            FieldClass::Optional(c) => {
                let there = c.ranges.iter().any(|r| r.contains(chosen[&c.selector].into()));
                out.push(Value::Count(u32::from(there)));
                if there {
                    self.values(&c.class, scope, path, chosen, out);
                }
            }
            leaf => out.push(self.leaf(leaf)),
        }
    }
}

fn content_packet(content: u64) -> u64 {
    content.next_multiple_of(64) + 64
}

/// A random trace as CTF 1.8 (when it can be) or CTF 2.
pub fn trace(seed: u64, ctf1: bool, events: u64) -> (TraceClass, Trace) {
    let mut generator = Generator::new(seed, ctf1);
    let class = generator.trace_class();
    let streams = vec![generator.packet(&class, events)];
    let metadata = if ctf1 { write::tsdl(&class).unwrap() } else { write::json(&class) };
    (class, Trace { metadata: metadata.into_bytes(), streams })
}
