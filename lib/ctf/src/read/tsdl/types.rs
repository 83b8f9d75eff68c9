//! Type specifiers, declarators, and named types (CTF 1.8 section 4).
//!
//! References are kept as written, in [`FieldRef::path`]; [`super::resolve`] finds what they mean.

use super::lexer::Token;
use super::parser::{Parsed, Parser, Value};
use crate::error::MetadataFault;
use crate::model::{
    Base, ByteOrder, Encoding, EnumClass, FieldClass, FieldRef, FloatClass, IntClass, IntCoding, Length,
    Mapping, Member, OptionClass, Range, Roles, Scope, StringClass, StructClass, TextClass, VariantClass,
};

/// A member before its class is complete: what a declarator says.
struct Declarator {
    name: String,
    lengths: Vec<Length>,
}

impl Parser<'_> {
    /// Whether a declaration of types begins here, as opposed to an assignment.
    pub(super) fn at_declaration(&self) -> bool {
        let assigns = matches!(self.peek_at(1), Token::Punct("=" | ":=" | "."));
        !assigns && matches!(self.peek_ident(), Some("typealias" | "typedef" | "struct" | "variant" | "enum"))
    }

    /// `typealias`, `typedef` or a named type without a field.
    pub(super) fn declaration(&mut self) -> Parsed<()> {
        if self.take_word("typealias") {
            let class = if self.at_specifier() { self.specifier()? } else { self.words_type(":=")? };
            self.expect(":=")?;
            let name = self.words()?;
            self.expect(";")?;
            self.types().aliases.insert(name, class);
            return Ok(());
        }
        let is_typedef = self.take_word("typedef");
        for Member { name, class } in self.fields()? {
            if is_typedef {
                self.types().aliases.insert(name, class);
            }
        }
        Ok(())
    }

    /// `TYPE declarator, declarator;` with no, one or several declarators.
    fn fields(&mut self) -> Parsed<Vec<Member>> {
        let class = if self.at_specifier() {
            self.specifier()?
        } else {
            let words = self.word_list();
            let Some((_, words)) = words.split_last() else {
                return self.fault(MetadataFault::Expected("a type"));
            };
            let class = self.alias(&words.join(" "))?;
            self.skip_words(words.len());
            class
        };
        let mut members = Vec::new();
        while !self.take(";") {
            if !members.is_empty() {
                self.expect(",")?;
            }
            let declarator = self.declarator()?;
            members.push(self.member(declarator, &class)?);
        }
        Ok(members)
    }

    /// `name[length][length]`
    fn declarator(&mut self) -> Parsed<Declarator> {
        let name = self.ident()?.to_owned();
        let mut lengths = Vec::new();
        while self.take("[") {
            lengths.push(match *self.peek() {
                Token::Int(n) => {
                    self.skip();
                    Length::Static(n)
                }
                _ => Length::Dynamic(unresolved(self.path()?)),
            });
            self.expect("]")?;
        }
        Ok(Declarator { name, lengths })
    }

    fn member(&mut self, declarator: Declarator, class: &FieldClass) -> Parsed<Member> {
        let levels = u32::try_from(declarator.lengths.len()).unwrap_or(u32::MAX / 2);
        self.admit_levels(class, levels)?;
        let nest = |element, length| arrayed(length, element);
        let class = declarator.lengths.into_iter().rev().fold(class.clone(), nest);
        Ok(Member { name: declarator.name, class })
    }

    fn at_specifier(&self) -> bool {
        matches!(
            self.peek_ident(),
            Some("integer" | "floating_point" | "string" | "enum" | "struct" | "variant")
        )
    }

    /// A type for `:=` of a scope.
    pub(super) fn scope_type(&mut self) -> Parsed<StructClass> {
        let class = if self.at_specifier() { self.specifier()? } else { self.words_type(";")? };
        match class {
            FieldClass::Struct(class) => Ok(class),
            _ => self.fault_before(MetadataFault::Expected("a structure")),
        }
    }

    fn specifier(&mut self) -> Parsed<FieldClass> {
        let class = self.nested(|p| match p.ident()? {
            "integer" => p.integer_type().map(FieldClass::Int),
            "floating_point" => p.float_type().map(FieldClass::Float),
            "string" => p.string_type(),
            "enum" => p.enum_type().map(FieldClass::Enum),
            "struct" => p.struct_type().map(FieldClass::Struct),
            _ => p.variant_type().map(FieldClass::Variant),
        })?;
        self.admit(class)
    }

    /// The words of a type's name up to something else; takes nothing.
    fn word_list(&self) -> Vec<String> {
        let mut words = Vec::new();
        loop {
            match *self.peek_at(words.len()) {
                Token::Ident(word) => words.push(word.to_owned()),
                Token::Punct("*") => words.push("*".to_owned()),
                _ => return words,
            }
        }
    }

    fn skip_words(&mut self, count: usize) {
        for _ in 0..count {
            self.skip();
        }
    }

    /// The name of a type, of one or several words.
    fn words(&mut self) -> Parsed<String> {
        let words = self.word_list();
        if words.is_empty() {
            return self.fault(MetadataFault::Expected("the name of a type"));
        }
        self.skip_words(words.len());
        Ok(words.join(" "))
    }

    /// A named type before `end`.
    fn words_type(&mut self, end: &'static str) -> Parsed<FieldClass> {
        let words = self.word_list();
        let class = self.alias(&words.join(" "))?;
        self.skip_words(words.len());
        if !matches!(self.peek(), Token::Punct(p) if *p == end) {
            return self.fault(MetadataFault::Expected(end));
        }
        Ok(class)
    }

    fn alias(&mut self, name: &str) -> Parsed<FieldClass> {
        match self.find(|scope| scope.aliases.get(name)) {
            Some(class) => self.admit(class),
            None => self.fault(MetadataFault::Unknown("type")),
        }
    }

    fn integer_type(&mut self) -> Parsed<IntClass> {
        let mut int = IntClass { align: 0, byte_order: self.order, ..IntClass::new(0, false) };
        self.attributes(|p, name, value| {
            match name {
                "signed" => int.signed = p.truth(value)?,
                "byte_order" => int.byte_order = p.byte_order(value)?,
                "size" => int.size = p.number(value)?,
                "align" => int.align = p.number(value)?,
                "base" => int.base = p.base(value)?,
                "encoding" => int.encoding = p.encoding(value)?,
                "map" => int.clock = Some(p.clock_of(value)?),
                _ => {}
            }
            Ok(())
        })?;
        if int.size == 0 || int.size > 64 {
            return self.fault_before(MetadataFault::BadValue("integer size: it must be 1 to 64 bits"));
        }
        if int.align == 0 {
            int.align = if int.size.is_multiple_of(8) { 8 } else { 1 };
        }
        int.coding = IntCoding::Fixed;
        Ok(int)
    }

    fn float_type(&mut self) -> Parsed<FloatClass> {
        let (mut exponent, mut mantissa) = (0_u32, 0_u32);
        let mut float = FloatClass { size: 0, align: 1, byte_order: self.order };
        self.attributes(|p, name, value| {
            match name {
                "exp_dig" => exponent = p.number(value)?,
                "mant_dig" => mantissa = p.number(value)?,
                "byte_order" => float.byte_order = p.byte_order(value)?,
                "align" => float.align = p.number(value)?,
                _ => {}
            }
            Ok(())
        })?;
        float.size = match (exponent, mantissa) {
            (5, 11) => 16,
            (8, 24) => 32,
            (11, 53) => 64,
            _ => {
                return self.fault_before(MetadataFault::Unsupported(
                    "floating point number that is not IEEE 754 binary",
                ));
            }
        };
        Ok(float)
    }

    fn string_type(&mut self) -> Parsed<FieldClass> {
        let mut class = StringClass::default();
        if matches!(self.peek(), Token::Punct("{")) {
            self.attributes(|p, name, value| {
                if name == "encoding" {
                    class.encoding = p.encoding(value)?.unwrap_or_default();
                }
                Ok(())
            })?;
        }
        Ok(FieldClass::String(class))
    }

    /// `{ name = value; ... }`
    fn attributes(&mut self, mut each: impl FnMut(&mut Self, &str, Value) -> Parsed<()>) -> Parsed<()> {
        self.expect("{")?;
        while !self.take("}") {
            let name = self.ident()?;
            self.expect("=")?;
            let value = self.value()?;
            each(self, name, value)?;
            self.expect(";")?;
        }
        Ok(())
    }

    fn enum_type(&mut self) -> Parsed<EnumClass> {
        let name = self.peek_ident();
        if name.is_some() {
            self.skip();
        }
        let container =
            self.take(":").then(|| if self.at_specifier() { self.specifier() } else { self.words_type("{") });
        if !matches!(self.peek(), Token::Punct("{")) {
            let found = name.and_then(|name| self.find(|scope| scope.enums.get(name)));
            return found.map_or_else(|| self.fault_before(MetadataFault::Unknown("enumeration")), Ok);
        }
        let container = match container {
            Some(container) => container?,
            None => self.alias("int")?,
        };
        let FieldClass::Int(int) = container else {
            return self.fault(MetadataFault::Expected("an integer as the enumeration's container"));
        };
        let class = EnumClass { mappings: self.enumerators()?, int };
        if let Some(name) = name {
            self.types().enums.insert(name.to_owned(), class.clone());
        }
        Ok(class)
    }

    /// `{ label = value, label = lower ... upper, label, ... }`
    fn enumerators(&mut self) -> Parsed<Vec<Mapping>> {
        self.expect("{")?;
        let mut mappings: Vec<Mapping> = Vec::new();
        let mut places = std::collections::HashMap::new();
        let mut next = 0_i128;
        while !self.take("}") {
            let label = match self.value()? {
                Value::Str(label) => label,
                Value::Path(path) if path.len() == 1 => path.concat(),
                _ => return self.fault_before(MetadataFault::Expected("a label")),
            };
            let mut range = Range::one(next);
            if self.take("=") {
                range = Range::one(self.integer()?);
                if self.take("...") {
                    range.upper = self.integer()?;
                }
            }
            next = range.upper + 1;
            let place = *places.entry(label.clone()).or_insert(mappings.len());
            match mappings.get_mut(place) {
                Some(mapping) => mapping.ranges.push(range),
                None => mappings.push(Mapping { label, ranges: vec![range] }),
            }
            if !self.take(",") {
                self.expect("}")?;
                break;
            }
        }
        Ok(mappings)
    }

    fn struct_type(&mut self) -> Parsed<StructClass> {
        let name = self.peek_ident().filter(|word| *word != "align");
        if name.is_some() {
            self.skip();
        }
        let mut class = if self.take("{") {
            let class = self.scoped(|p| {
                let mut class = StructClass::default();
                while !p.take("}") {
                    if p.at_alias_declaration() {
                        p.declaration()?;
                    } else {
                        class.members.extend(p.fields()?.into_iter().map(shown));
                    }
                }
                Ok(class)
            })?;
            Some(class)
        } else {
            None
        };
        let mut align = 1;
        if self.take_word("align") {
            self.expect("(")?;
            let value = self.integer()?;
            align = self.narrow(value)?;
            self.expect(")")?;
        }
        if let Some(class) = &mut class {
            class.min_align = align;
            if let Some(name) = name {
                self.types().structs.insert(name.to_owned(), class.clone());
            }
        }
        let class = class.or_else(|| self.find(|scope| scope.structs.get(name?)));
        class.map_or_else(|| self.fault_before(MetadataFault::Unknown("structure")), Ok)
    }

    fn at_alias_declaration(&self) -> bool {
        matches!(self.peek_ident(), Some("typealias" | "typedef"))
    }

    fn variant_type(&mut self) -> Parsed<VariantClass> {
        let name = self.peek_ident();
        if name.is_some() {
            self.skip();
        }
        let mut selector = Vec::new();
        if self.take("<") {
            selector = self.path()?;
            self.expect(">")?;
        }
        if !self.take("{") {
            let found = name.and_then(|name| self.find(|scope| scope.variants.get(name)));
            let Some(mut class) = found else {
                return self.fault_before(MetadataFault::Unknown("variant"));
            };
            if !selector.is_empty() {
                class.selector = unresolved(selector);
            }
            return Ok(class);
        }
        let options = self.scoped(|p| {
            let mut options = Vec::new();
            while !p.take("}") {
                if p.at_alias_declaration() {
                    p.declaration()?;
                } else {
                    let option = |m: Member| OptionClass {
                        name: shown_name(&m.name).to_owned(),
                        ranges: Vec::new(),
                        class: m.class,
                    };
                    options.extend(p.fields()?.into_iter().map(option));
                }
            }
            Ok(options)
        })?;
        let class = VariantClass { selector: unresolved(selector), options };
        if let Some(name) = name {
            self.types().variants.insert(name.to_owned(), class.clone());
        }
        Ok(class)
    }
}

/// Values of attributes.
impl Parser<'_> {
    pub(super) fn narrow<T: TryFrom<i128>>(&self, value: i128) -> Parsed<T> {
        T::try_from(value).or_else(|_| self.fault_before(MetadataFault::BadValue("number")))
    }

    pub(super) fn number<T: TryFrom<i128>>(&self, value: Value) -> Parsed<T> {
        match value {
            Value::Int(value) => self.narrow(value),
            _ => self.fault_before(MetadataFault::Expected("an integer")),
        }
    }

    pub(super) fn word(&self, value: Value) -> Parsed<String> {
        match value {
            Value::Str(text) => Ok(text),
            Value::Path(path) => Ok(path.join(".")),
            Value::Int(_) => self.fault_before(MetadataFault::Expected("a word")),
        }
    }

    pub(super) fn truth(&self, value: Value) -> Parsed<bool> {
        match value {
            Value::Int(value) => Ok(value != 0),
            value => match self.word(value)?.as_str() {
                "true" | "TRUE" => Ok(true),
                "false" | "FALSE" => Ok(false),
                _ => self.fault_before(MetadataFault::BadValue("truth value")),
            },
        }
    }

    pub(super) fn byte_order(&self, value: Value) -> Parsed<ByteOrder> {
        match self.word(value)?.as_str() {
            "native" => Ok(self.order),
            "le" => Ok(ByteOrder::Little),
            "be" | "network" => Ok(ByteOrder::Big),
            _ => self.fault_before(MetadataFault::BadValue("byte_order")),
        }
    }

    fn base(&self, value: Value) -> Parsed<Base> {
        let name = match value {
            Value::Int(base) => base.to_string(),
            value => self.word(value)?,
        };
        match name.as_str() {
            "10" | "decimal" | "dec" | "d" | "i" | "u" => Ok(Base::Decimal),
            "16" | "hexadecimal" | "hex" | "x" | "X" | "p" => Ok(Base::Hexadecimal),
            "8" | "octal" | "oct" | "o" => Ok(Base::Octal),
            "2" | "binary" | "b" => Ok(Base::Binary),
            _ => self.fault_before(MetadataFault::BadValue("base")),
        }
    }

    fn encoding(&self, value: Value) -> Parsed<Option<Encoding>> {
        match self.word(value)?.as_str() {
            "none" => Ok(None),
            "UTF8" | "UTF-8" | "utf8" | "utf-8" | "ASCII" | "ascii" => Ok(Some(Encoding::Utf8)),
            _ => self.fault_before(MetadataFault::BadValue("encoding")),
        }
    }

    /// The index of the clock that `clock.NAME.value` names.
    fn clock_of(&mut self, value: Value) -> Parsed<usize> {
        match value {
            Value::Path(path) => match &path[..] {
                [clock, name, value] if clock == "clock" && value == "value" => Ok(self.clock_index(name)),
                _ => self.fault_before(MetadataFault::Expected("clock.NAME.value")),
            },
            _ => self.fault_before(MetadataFault::Expected("clock.NAME.value")),
        }
    }

    pub(super) fn clock_index(&mut self, name: &str) -> usize {
        if let Some(index) = self.clocks.iter().position(|clock| clock == name) {
            return index;
        }
        self.clocks.push(name.to_owned());
        self.clocks.len() - 1
    }
}

/// A reference as written, but for the underscores.
fn unresolved(path: Vec<String>) -> FieldRef {
    FieldRef { scope: Scope::Payload, path: path.iter().map(|name| shown_name(name).to_owned()).collect() }
}

/// The name that a person sees: producers put an underscore before names, lest they be keywords.
pub(super) fn shown_name(name: &str) -> &str {
    name.strip_prefix('_').unwrap_or(name)
}

fn shown(member: Member) -> Member {
    Member { name: shown_name(&member.name).to_owned(), class: member.class }
}

/// An array of `element`, or a text if the element is a character in a byte.
fn arrayed(length: Length, element: FieldClass) -> FieldClass {
    match element {
        FieldClass::Int(IntClass { size: 8, align: 8, encoding: Some(encoding), clock: None, .. }) => {
            FieldClass::Text(TextClass { length, encoding })
        }
        element => FieldClass::Array(crate::model::ArrayClass {
            length,
            min_align: 1,
            element: Box::new(element),
            roles: Roles::NONE,
        }),
    }
}
