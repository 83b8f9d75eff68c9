//! Type specifiers, declarators, and named types (CTF 1.8 section 4).
//!
//! References are kept as written, with their place before ([`unresolved`]); [`super::resolve`] finds what
//! they mean.

use super::lexer::Token;
use super::parser::{Parsed, Parser, TypeScope, Value};
use crate::check;
use crate::decode::compile::MAX_ALIGN;
use crate::error::{MetadataFault, Oddity};
use crate::model::int_limits;
use crate::model::{
    EnumClass, FieldClass, FieldRef, FloatClass, IntClass, IntCoding, Length, Mapping, Member, OptionClass,
    Range, Roles, Scope, StringClass, StructClass, TextClass, VariantClass,
};
use std::collections::{HashMap, HashSet};

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
            let at = self.here();
            let name = self.words()?;
            self.expect(";")?;
            return self.add_alias(at, name, class);
        }
        if self.take_word("typedef") {
            let at = self.here();
            let members = self.fields()?;
            return members.into_iter().try_for_each(|m| self.add_alias(at, m.name, m.class));
        }
        self.specifier()?;
        let declares =
            self.peek_ident().is_some() && matches!(self.peek_at(1), Token::Punct(";" | "," | "["));
        if declares {
            self.declarators(&FieldClass::string())?;
        } else if !self.take(";") {
            self.oddities.note(self.here(), Oddity::MissingSemicolon);
        }
        Ok(())
    }

    /// Gives `class` a name, which is at byte `at`.
    fn add_alias(&mut self, at: usize, name: String, class: FieldClass) -> Parsed<()> {
        if name.split(' ').any(|word| SPECIFIERS.contains(&word) || BLOCKS.contains(&word)) {
            return self.fault_at(at, MetadataFault::Expected("the name of a type, found a keyword"));
        }
        self.name_type(at, name, class, |scope| &mut scope.aliases)
    }

    /// Adds a named type to the current scope, where the name must be new.
    fn name_type<T>(
        &mut self,
        at: usize,
        name: String,
        class: T,
        table: impl FnOnce(&mut TypeScope) -> &mut HashMap<String, T>,
    ) -> Parsed<()> {
        match table(self.types()).insert(name, class) {
            None => Ok(()),
            Some(_) => self.fault_at(at, MetadataFault::Duplicate("type")),
        }
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
        self.declarators(&class)
    }

    /// `declarator, declarator;`
    fn declarators(&mut self, class: &FieldClass) -> Parsed<Vec<Member>> {
        let mut members = Vec::new();
        while !self.take(";") {
            if !members.is_empty() {
                self.expect(",")?;
            }
            let declarator = self.declarator()?;
            members.push(self.member(declarator, class)?);
        }
        Ok(members)
    }

    /// `name[length][length]`
    fn declarator(&mut self) -> Parsed<Declarator> {
        let name = self.ident()?.to_owned();
        if KEYWORDS.contains(&&name[..]) {
            return self.fault_before(MetadataFault::Expected("a name, found a keyword"));
        }
        let mut lengths = Vec::new();
        while self.take("[") {
            lengths.push(match *self.peek() {
                Token::Int(n) => {
                    self.skip();
                    Length::Static(n)
                }
                _ => Length::Dynamic(unresolved(self.here(), self.path()?)),
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
        self.peek_ident().is_some_and(|word| SPECIFIERS.contains(&word))
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
                "align" => int.align = p.alignment(value)?,
                "base" => int.base = p.base(value)?,
                "encoding" => int.encoding = p.encoding(value)?,
                "map" => int.clock = Some(p.clock_of(value)?),
                _ => return Ok(false),
            }
            Ok(true)
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
                "align" => float.align = p.alignment(value)?,
                _ => return Ok(false),
            }
            Ok(true)
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
                Ok(name == "encoding")
            })?;
        }
        Ok(FieldClass::String(class))
    }

    /// `{ name = value; ... }`; `each` tells whether it knows the name.
    fn attributes(&mut self, mut each: impl FnMut(&mut Self, &str, Value) -> Parsed<bool>) -> Parsed<()> {
        self.expect("{")?;
        let mut names = Vec::new();
        while !self.take("}") {
            let at = self.here();
            let name = self.ident()?;
            self.expect("=")?;
            let value = self.value()?;
            if !each(self, name, value)? {
                return self.fault_at(at, MetadataFault::UnknownProperty("this type"));
            }
            if names.contains(&name) {
                return self.fault_at(at, MetadataFault::Duplicate("attribute"));
            }
            names.push(name);
            self.expect(";")?;
        }
        Ok(())
    }

    /// A value that is an alignment in bits.
    fn alignment(&self, value: Value) -> Parsed<u32> {
        let align: u32 = self.number(value)?;
        if align.is_power_of_two() && align <= MAX_ALIGN {
            return Ok(align);
        }
        self.fault_before(MetadataFault::BadValue("alignment: it must be a power of two up to 65536"))
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
        let at = self.here();
        let class = EnumClass { mappings: self.enumerators(&int)?, int };
        if overlaps(&class) {
            // Section 4.1.8 leaves to the reader what such a value means; as a tag it would choose two options.
            return self.fault_at(at, MetadataFault::BadValue("enumeration: ranges of two labels overlap"));
        }
        if let Some(name) = name {
            self.name_type(at, name.to_owned(), class.clone(), |scope| &mut scope.enums)?;
        }
        Ok(class)
    }

    /// `{ label = value, label = lower ... upper, label, ... }`
    fn enumerators(&mut self, int: &IntClass) -> Parsed<Vec<Mapping>> {
        self.expect("{")?;
        if matches!(self.peek(), Token::Punct("}")) {
            return self.fault(MetadataFault::Expected("a label"));
        }
        let mut mappings: Vec<Mapping> = Vec::new();
        let mut places = std::collections::HashMap::new();
        let mut next = 0_i128;
        while !self.take("}") {
            let at = self.here();
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
            if range.upper < range.lower {
                return self.fault_before(MetadataFault::BadValue("range: its end is before its begin"));
            }
            let limits = int_limits(int);
            if range.lower < limits.lower || range.upper > limits.upper {
                self.oddities.note(at, Oddity::UnreachableLabel);
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
        let at = self.here();
        let name = self.peek_ident().filter(|word| *word != "align");
        if name.is_some() {
            self.skip();
        }
        let mut class = if self.take("{") {
            Some(StructClass { members: self.scoped(Parser::members)?, min_align: 1 })
        } else {
            None
        };
        let mut align = 1;
        if self.take_word("align") {
            self.expect("(")?;
            let value = self.value()?;
            align = self.alignment(value)?;
            self.expect(")")?;
        }
        if let Some(class) = &mut class {
            class.min_align = align;
            if let Some(name) = name {
                self.name_type(at, name.to_owned(), class.clone(), |scope| &mut scope.structs)?;
            }
        }
        let class = class.or_else(|| self.find(|scope| scope.structs.get(name?)));
        class.map_or_else(|| self.fault_before(MetadataFault::Unknown("structure")), Ok)
    }

    /// Members of a structure or options of a variant, up to the `}`.
    fn members(&mut self) -> Parsed<Vec<Member>> {
        let mut members: Vec<Member> = Vec::new();
        let mut names = HashSet::new();
        while !self.take("}") {
            if self.at_alias_declaration() {
                self.declaration()?;
                continue;
            }
            let at = self.here();
            for member in self.fields()? {
                let name = shown_name(&member.name).to_owned();
                if !names.insert(name.clone()) {
                    return self.fault_at(at, MetadataFault::Duplicate("member of a structure or variant"));
                }
                members.push(Member { name, class: member.class });
            }
        }
        Ok(members)
    }

    fn at_alias_declaration(&self) -> bool {
        matches!(self.peek_ident(), Some("typealias" | "typedef"))
    }

    fn variant_type(&mut self) -> Parsed<VariantClass> {
        let name = self.peek_ident();
        if name.is_some() {
            self.skip();
        }
        let at = self.here();
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
                class.selector = unresolved(at, selector);
            }
            return Ok(class);
        }
        let option = |m: Member| OptionClass { name: m.name, ranges: Vec::new(), class: m.class };
        let options: Vec<OptionClass> = self.scoped(Parser::members)?.into_iter().map(option).collect();
        if options.is_empty() {
            return self.fault_before(MetadataFault::Expected("an option of the variant"));
        }
        let class = VariantClass { selector: unresolved(at, selector), options };
        if let Some(name) = name {
            self.name_type(at, name.to_owned(), class.clone(), |scope| &mut scope.variants)?;
        }
        Ok(class)
    }
}

/// Words that begin a type.
const SPECIFIERS: [&str; 6] = ["integer", "floating_point", "string", "enum", "struct", "variant"];
/// Words that begin a block or a declaration.
const BLOCKS: [&str; 9] =
    ["trace", "stream", "event", "clock", "env", "callsite", "typealias", "typedef", "align"];
/// Words that cannot be the name of a field (CTF 1.8 appendix C).
const KEYWORDS: [&str; 20] = [
    "integer",
    "floating_point",
    "string",
    "enum",
    "struct",
    "variant",
    "typealias",
    "typedef",
    "const",
    "char",
    "double",
    "float",
    "int",
    "long",
    "short",
    "signed",
    "unsigned",
    "void",
    "_Bool",
    "_Complex",
];

/// A reference as written, but for the underscores, until [`super::resolve`] knows its target: its place in
/// bytes, then its names; no names where a variant has no selector.
fn unresolved(at: usize, path: Vec<String>) -> FieldRef {
    let names = path.iter().map(|name| shown_name(name).to_owned());
    FieldRef { scope: Scope::Payload, path: std::iter::once(at.to_string()).chain(names).collect() }
}

/// Place and names of a reference that [`unresolved`] made.
pub(super) fn written(reference: &FieldRef) -> (usize, &[String]) {
    match reference.path.split_first() {
        Some((at, names)) => (at.parse().unwrap_or(0), names),
        None => (0, &[]),
    }
}

/// Whether ranges of two labels overlap; two names for one value, as in C, do not.
fn overlaps(class: &EnumClass) -> bool {
    let mut values = HashSet::new();
    let mut is_first = |range: &Range| range.lower < range.upper || values.insert(range.lower);
    let ranges = class.mappings.iter().map(|mapping| {
        mapping.ranges.iter().copied().filter(|range| is_first(range)).collect::<Vec<Range>>()
    });
    let ranges: Vec<Vec<Range>> = ranges.collect();
    check::overlap(ranges.iter().map(Vec::as_slice))
}

/// The name that a person sees: producers put an underscore before names, lest they be keywords.
pub(super) fn shown_name(name: &str) -> &str {
    name.strip_prefix('_').unwrap_or(name)
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
