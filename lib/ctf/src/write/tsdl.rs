//! Prints a lowered trace class as TSDL, in the shape that LTTng gives it.

use crate::model::{
    Base, ByteOrder, ClockClass, EnumClass, EnvValue, EventClass, FieldClass, FieldRef, FloatClass, IntClass,
    Length, Origin, Scope, StreamClass, StructClass, TraceClass, VariantClass,
};
use crate::read::roles::format_uuid;
use std::fmt::Write;

/// Words that cannot be names.
const KEYWORDS: [&str; 28] = [
    "align",
    "callsite",
    "char",
    "clock",
    "const",
    "double",
    "enum",
    "env",
    "event",
    "fields",
    "float",
    "floating_point",
    "int",
    "integer",
    "long",
    "short",
    "signed",
    "stream",
    "string",
    "struct",
    "trace",
    "typealias",
    "typedef",
    "unsigned",
    "variant",
    "void",
    "_Bool",
    "_Complex",
];

/// The metadata text of a trace class that CTF 1.8 can express.
pub(super) fn print(trace: &TraceClass) -> String {
    let mut printer = Printer::new("/* CTF 1.8 */\n\n", trace);
    printer.trace();
    printer.environment();
    trace.clocks.iter().for_each(|clock| printer.clock(clock));
    for stream in &trace.streams {
        printer.stream(stream);
        stream.events.iter().for_each(|event| printer.event(stream, event));
    }
    printer.out
}

/// Its events only.
pub(super) fn print_events(trace: &TraceClass) -> String {
    let mut printer = Printer::new("", trace);
    for stream in &trace.streams {
        stream.events.iter().for_each(|event| printer.event(stream, event));
    }
    printer.out
}

/// `name` as an identifier that is no keyword.
pub(super) fn identifier(name: &str) -> String {
    let mut word: String = name.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '_' }).collect();
    if !is_identifier(&word) {
        word.insert(0, '_');
    }
    word
}

/// Whether `word` is an identifier and no keyword.
pub(super) fn is_identifier(word: &str) -> bool {
    !word.is_empty()
        && word.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
        && !word.starts_with(|c: char| c.is_ascii_digit())
        && !KEYWORDS.contains(&word)
}

/// A text in quotes.
fn quoted(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    out.push('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\t' => out.push_str("\\t"),
            c if c.is_ascii_control() => {
                let _ = write!(out, "\\{:03o}", u32::from(c));
            }
            c => out.push(c),
        }
    }
    out.push('"');
    out
}

/// A structure around the field being printed.
struct Around<'a> {
    class: &'a StructClass,
    /// Its path from the scope's root.
    path: Vec<&'a str>,
    /// Number of its members printed before the current one.
    before: usize,
}

struct Printer<'a> {
    out: String,
    indent: usize,
    trace: &'a TraceClass,
    scope: Scope,
    around: Vec<Around<'a>>,
}

impl<'a> Printer<'a> {
    fn new(out: &str, trace: &'a TraceClass) -> Printer<'a> {
        Printer { out: out.to_owned(), indent: 0, trace, scope: Scope::Payload, around: vec![] }
    }

    fn line(&mut self, text: &str) {
        self.begin();
        self.out.push_str(text);
        self.out.push('\n');
    }

    fn begin(&mut self) {
        self.out.extend(std::iter::repeat_n('\t', self.indent));
    }

    fn block(&mut self, word: &str, inner: impl FnOnce(&mut Self)) {
        self.line(&format!("{word} {{"));
        self.indent += 1;
        inner(self);
        self.indent -= 1;
        self.line("};\n");
    }

    fn trace(&mut self) {
        let trace = self.trace;
        self.block("trace", |p| {
            p.line("major = 1;");
            p.line("minor = 8;");
            if let Some(uuid) = &trace.uuid {
                p.line(&format!("uuid = \"{}\";", format_uuid(uuid)));
            }
            p.line(if trace.byte_order == ByteOrder::Big { "byte_order = be;" } else { "byte_order = le;" });
            p.root("packet.header", Scope::PacketHeader, trace.packet_header.as_ref());
        });
    }

    fn environment(&mut self) {
        let entries = &self.trace.environment;
        if entries.is_empty() {
            return;
        }
        self.block("env", |p| {
            for (name, value) in entries {
                let value = match value {
                    EnvValue::Int(value) => value.to_string(),
                    EnvValue::Str(text) => quoted(text),
                };
                p.line(&format!("{} = {value};", identifier(name)));
            }
        });
    }

    fn clock(&mut self, clock: &ClockClass) {
        self.block("clock", |p| {
            p.line(&format!("name = \"{}\";", identifier(&clock.name)));
            if let Some(uid) = clock.uid.as_deref().and_then(crate::read::roles::parse_uuid) {
                p.line(&format!("uuid = \"{}\";", format_uuid(&uid)));
            }
            if let Some(description) = &clock.description {
                p.line(&format!("description = {};", quoted(description)));
            }
            p.line(&format!("freq = {};", clock.frequency));
            if let Some(precision) = clock.precision {
                p.line(&format!("precision = {precision};"));
            }
            if clock.offset_seconds != 0 {
                p.line(&format!("offset_s = {};", clock.offset_seconds));
            }
            p.line(&format!("offset = {};", clock.offset_cycles));
            if clock.origin == Origin::UnixEpoch {
                p.line("absolute = true;");
            }
        });
    }

    fn stream(&mut self, stream: &'a StreamClass) {
        self.block("stream", |p| {
            p.line(&format!("id = {};", stream.id));
            p.root("packet.context", Scope::PacketContext, stream.packet_context.as_ref());
            p.root("event.header", Scope::EventHeader, stream.event_header.as_ref());
            p.root("event.context", Scope::CommonContext, stream.common_context.as_ref());
        });
    }

    fn event(&mut self, stream: &'a StreamClass, event: &'a EventClass) {
        self.block("event", |p| {
            p.line(&format!("name = {};", quoted(&event.name)));
            p.line(&format!("id = {};", event.id));
            p.line(&format!("stream_id = {};", stream.id));
            if let Some(level) = event.log_level {
                p.line(&format!("loglevel = {};", level.0));
            }
            if let Some(uri) = &event.emf_uri {
                p.line(&format!("model.emf.uri = {};", quoted(uri)));
            }
            p.root("context", Scope::SpecificContext, event.specific_context.as_ref());
            p.root("fields", Scope::Payload, event.payload.as_ref());
        });
    }

    /// `name := struct {...};`
    fn root(&mut self, name: &str, scope: Scope, class: Option<&'a StructClass>) {
        let Some(class) = class else { return };
        self.scope = scope;
        self.begin();
        self.out.push_str(name);
        self.out.push_str(" := ");
        self.structure(class, Vec::new());
        self.out.push_str(";\n");
    }

    fn structure(&mut self, class: &'a StructClass, path: Vec<&'a str>) {
        self.out.push_str("struct {");
        if !class.members.is_empty() {
            self.out.push('\n');
            self.indent += 1;
            self.around.push(Around { class, path, before: 0 });
            let level = self.around.len() - 1;
            for (index, member) in class.members.iter().enumerate() {
                self.around[level].before = index;
                let mut path = self.around[level].path.clone();
                path.push(&member.name);
                self.begin();
                self.field(&member.class, &emitted(&member.name, self.scope), path);
            }
            self.around.pop();
            self.indent -= 1;
            self.begin();
        }
        self.out.push('}');
        if class.min_align > 1 {
            let _ = write!(self.out, " align({})", class.min_align);
        }
    }

    /// `type name[length]...;`
    fn field(&mut self, class: &'a FieldClass, name: &str, path: Vec<&'a str>) {
        let mut lengths = Vec::new();
        let mut base = class;
        while let FieldClass::Array(array) = base {
            lengths.push(&array.length);
            base = &array.element;
        }
        match base {
            FieldClass::Int(int) => self.integer(int),
            FieldClass::Enum(class) => self.enumeration(class),
            FieldClass::Float(float) => self.float(float),
            FieldClass::Text(text) => {
                lengths.push(&text.length);
                self.out.push_str("integer { size = 8; align = 8; encoding = UTF8; }");
            }
            FieldClass::Struct(class) => self.structure(class, path),
            FieldClass::Variant(class) => self.variant(class, &path),
            // Lowering left no other class.
            _ => self.out.push_str("string"),
        }
        self.out.push(' ');
        self.out.push_str(name);
        for length in lengths {
            match length {
                Length::Static(n) => {
                    let _ = write!(self.out, "[{n}]");
                }
                Length::Dynamic(target) => {
                    let target = self.reference(target);
                    let _ = write!(self.out, "[{target}]");
                }
            }
        }
        self.out.push_str(";\n");
    }

    fn integer(&mut self, int: &IntClass) {
        let _ = write!(self.out, "integer {{ size = {}; align = {};", int.size, int.align);
        if int.signed {
            self.out.push_str(" signed = true;");
        }
        self.byte_order(int.byte_order);
        match int.base {
            Base::Decimal => {}
            Base::Binary => self.out.push_str(" base = 2;"),
            Base::Octal => self.out.push_str(" base = 8;"),
            Base::Hexadecimal => self.out.push_str(" base = 16;"),
        }
        if int.encoding.is_some() {
            self.out.push_str(" encoding = UTF8;");
        }
        if let Some(clock) = int.clock.and_then(|index| self.trace.clocks.get(index)) {
            let _ = write!(self.out, " map = clock.{}.value;", identifier(&clock.name));
        }
        self.out.push_str(" }");
    }

    fn byte_order(&mut self, order: ByteOrder) {
        if order != self.trace.byte_order {
            self.out.push_str(if order.is_big() { " byte_order = be;" } else { " byte_order = le;" });
        }
    }

    fn float(&mut self, float: &FloatClass) {
        let (exponent, mantissa) = match float.size {
            16 => (5, 11),
            32 => (8, 24),
            _ => (11, 53),
        };
        let _ = write!(
            self.out,
            "floating_point {{ exp_dig = {exponent}; mant_dig = {mantissa}; align = {};",
            float.align
        );
        self.byte_order(float.byte_order);
        self.out.push_str(" }");
    }

    fn enumeration(&mut self, class: &EnumClass) {
        self.out.push_str("enum : ");
        self.integer(&class.int);
        self.out.push_str(" {\n");
        self.indent += 1;
        for mapping in &class.mappings {
            for range in &mapping.ranges {
                let label = quoted(&mapping.label);
                if range.lower == range.upper {
                    self.line(&format!("{label} = {},", range.lower));
                } else {
                    self.line(&format!("{label} = {} ... {},", range.lower, range.upper));
                }
            }
        }
        self.indent -= 1;
        self.begin();
        self.out.push('}');
    }

    fn variant(&mut self, class: &'a VariantClass, path: &[&'a str]) {
        let selector = self.reference(&class.selector);
        let _ = writeln!(self.out, "variant <{selector}> {{");
        self.indent += 1;
        for option in &class.options {
            self.begin();
            self.field(&option.class, &option.name, path.to_vec());
        }
        self.indent -= 1;
        self.begin();
        self.out.push('}');
    }

    /// A reference as a name looked up from here, or by the name of its scope.
    fn reference(&self, target: &FieldRef) -> String {
        self.relative(target).unwrap_or_else(|| self.absolute(target))
    }

    fn relative(&self, target: &FieldRef) -> Option<String> {
        if target.scope != self.scope {
            return None;
        }
        let holds = |around: &Around<'_>| {
            target.path.len() > around.path.len() && around.path.iter().zip(&target.path).all(|(a, b)| a == b)
        };
        let level = self.around.iter().rposition(holds)?;
        let rest = target.path.get(self.around[level].path.len()..)?;
        let first = rest.first()?;
        let seen =
            |around: &Around<'_>| around.class.members[..around.before].iter().any(|m| m.name == *first);
        let hidden = self.around[level + 1..].iter().any(seen);
        let names = rest.iter().map(|name| emitted(name, self.scope));
        (seen(&self.around[level]) && !hidden).then(|| names.collect::<Vec<_>>().join("."))
    }

    fn absolute(&self, target: &FieldRef) -> String {
        let scope = match target.scope {
            Scope::PacketHeader => "trace.packet.header",
            Scope::PacketContext => "stream.packet.context",
            Scope::EventHeader => "stream.event.header",
            Scope::CommonContext => "stream.event.context",
            Scope::SpecificContext => "event.context",
            Scope::Payload => "event.fields",
        };
        let names = target.path.iter().map(|name| emitted(name, target.scope));
        std::iter::once(scope.to_owned()).chain(names).collect::<Vec<_>>().join(".")
    }
}

/// The printed form of a member's name: in contexts and payloads after an underscore, which readers remove.
fn emitted(name: &str, scope: Scope) -> String {
    let word: String = name.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '_' }).collect();
    let plain = matches!(scope, Scope::PacketHeader | Scope::PacketContext | Scope::EventHeader);
    if plain && !word.starts_with('_') && is_identifier(&word) { word } else { format!("_{word}") }
}
