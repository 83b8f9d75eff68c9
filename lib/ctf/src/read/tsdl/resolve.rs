//! Finds what lengths and selectors refer to (CTF 1.8 section 7.3.2).
//!
//! A reference begins with the name of a scope (`stream.event.header.v.id`), or its first name is looked up
//! among the members before it in its own structure, then in the structures around, then in the scopes
//! decoded before. A first walk finds all targets, a second one writes them down in the same order.

use super::types::{shown_name, written};
use crate::check::{self, Scopes};
use crate::error::MetadataFault;
use crate::model::{
    EnumClass, EnvValue, FieldClass, FieldRef, Length, OptionClass, Range, Scope, StructClass, TraceClass,
    VariantClass,
};
use crate::read::{ClassPlaces, Part};

/// A fault has its place in bytes.
type Resolved<T> = Result<T, (MetadataFault, usize)>;

type Environment = Vec<(String, EnvValue)>;

const SCOPES: [(Scope, &[&str]); 6] = [
    (Scope::PacketHeader, &["trace", "packet", "header"]),
    (Scope::PacketContext, &["stream", "packet", "context"]),
    (Scope::EventHeader, &["stream", "event", "header"]),
    (Scope::CommonContext, &["stream", "event", "context"]),
    (Scope::SpecificContext, &["event", "context"]),
    (Scope::Payload, &["event", "fields"]),
];

/// Resolves all references of `trace`.
pub(super) fn resolve(trace: &mut TraceClass, places: &ClassPlaces) -> Resolved<()> {
    let TraceClass { packet_header, streams, environment, .. } = trace;
    let resolver = |part| Resolver { environment, place: places.of(part) };
    resolver(Part::Trace).scope(packet_header, Scope::PacketHeader, [None; 6])?;
    for (index, stream) in streams.iter_mut().enumerate() {
        let mut context: Scopes<'_> = [packet_header.as_ref(), None, None, None, None, None];
        let resolver_of_stream = resolver(Part::Stream(index));
        resolver_of_stream.scope(&mut stream.packet_context, Scope::PacketContext, context)?;
        context[1] = stream.packet_context.as_ref();
        resolver_of_stream.scope(&mut stream.event_header, Scope::EventHeader, context)?;
        context[2] = stream.event_header.as_ref();
        resolver_of_stream.scope(&mut stream.common_context, Scope::CommonContext, context)?;
        context[3] = stream.common_context.as_ref();
        for (number, event) in stream.events.iter_mut().enumerate() {
            let resolver = resolver(Part::Event(index, number));
            resolver.scope(&mut event.specific_context, Scope::SpecificContext, context)?;
            let mut context = context;
            context[4] = event.specific_context.as_ref();
            resolver.scope(&mut event.payload, Scope::Payload, context)?;
        }
    }
    Ok(())
}

/// Resolves scopes of one block, which is at byte `place`.
struct Resolver<'a> {
    environment: &'a Environment,
    place: usize,
}

impl Resolver<'_> {
    fn scope(&self, class: &mut Option<StructClass>, scope: Scope, before: Scopes<'_>) -> Resolved<()> {
        let Some(class) = class else { return Ok(()) };
        let found = {
            let mut context: Scopes<'_> = before;
            context[scope as usize] = Some(class);
            let (around, path, found) = (Vec::new(), Vec::new(), Vec::new());
            let environment = self.environment;
            let mut finder = Finder { scope, context, environment, around, path, found };
            finder.structure(class)?;
            finder.found
        };
        let is_field = |found: &&Found| !matches!(found.target, Target::Count(_));
        let places: Vec<usize> = found.iter().filter(is_field).map(|found| found.at).collect();
        apply_struct(class, &mut found.into_iter());
        let mut scopes: Scopes<'_> = before;
        scopes[scope as usize] = Some(class);
        check::scope(&scopes, scope, |_| {}).map_err(|wrong| {
            let at = wrong.reference.and_then(|index| places.get(index).copied());
            (wrong.kind, at.unwrap_or(self.place))
        })
    }
}

/// What a reference means.
struct Found {
    /// Where it is written.
    at: usize,
    target: Target,
    /// Of a variant: the values that choose each option.
    ranges: Vec<Vec<Range>>,
}

/// What a length or selector is.
enum Target {
    Field(FieldRef),
    /// An integer of the environment.
    Count(u64),
}

/// A structure around the current field.
struct Around<'a> {
    class: &'a StructClass,
    /// Number of its members that come before the current field.
    before: usize,
    /// Length of its path.
    depth: usize,
}

struct Finder<'a> {
    scope: Scope,
    context: Scopes<'a>,
    environment: &'a Environment,
    around: Vec<Around<'a>>,
    path: Vec<&'a str>,
    found: Vec<Found>,
}

impl<'a> Finder<'a> {
    fn structure(&mut self, class: &'a StructClass) -> Resolved<()> {
        let place = self.around.len();
        self.around.push(Around { class, before: 0, depth: self.path.len() });
        for (index, member) in class.members.iter().enumerate() {
            if let Some(around) = self.around.get_mut(place) {
                around.before = index;
            }
            self.path.push(&member.name);
            self.field(&member.class)?;
            self.path.pop();
        }
        self.around.truncate(place);
        Ok(())
    }

    fn field(&mut self, class: &'a FieldClass) -> Resolved<()> {
        match class {
            FieldClass::Text(c) => self.length(&c.length),
            FieldClass::Blob(c) => self.length(&c.length),
            FieldClass::Array(c) => {
                self.length(&c.length)?;
                self.field(&c.element)
            }
            FieldClass::Struct(c) => self.structure(c),
            FieldClass::Variant(c) => {
                self.selector(c)?;
                c.options.iter().try_for_each(|option| self.field(&option.class))
            }
            _ => Ok(()),
        }
    }

    fn length(&mut self, length: &Length) -> Resolved<()> {
        let Length::Dynamic(reference) = length else { return Ok(()) };
        let (at, names) = written(reference);
        let target = match names {
            [env, name @ ..] if env == "env" => Target::Count(self.count(&name.join("."), at)?),
            names => Target::Field(self.target(names, at)?),
        };
        self.found.push(Found { at, target, ranges: Vec::new() });
        Ok(())
    }

    /// The integer `name` of the environment.
    fn count(&self, name: &str, at: usize) -> Resolved<u64> {
        match self.environment.iter().find(|(known, _)| known == name) {
            Some((_, EnvValue::Int(count))) => u64::try_from(*count)
                .map_err(|_| (MetadataFault::BadValue("length in the environment: it is negative"), at)),
            Some(_) => Err((MetadataFault::BadValue("length in the environment: it is no integer"), at)),
            None => Err((MetadataFault::Unknown("environment entry"), at)),
        }
    }

    fn selector(&mut self, class: &VariantClass) -> Resolved<()> {
        let (at, names) = written(&class.selector);
        if names.is_empty() {
            return Err((MetadataFault::Expected("a selector of the variant"), at));
        }
        let target = self.target(names, at)?;
        let root = self.context[target.scope as usize];
        let Some(selector) = root.and_then(|root| struct_enum(root, &target.path)) else {
            return Err((MetadataFault::Expected("an enumeration as a variant's selector"), at));
        };
        let ranges = class.options.iter().map(|option| label_ranges(selector, option)).collect();
        self.found.push(Found { at, target: Target::Field(target), ranges });
        Ok(())
    }

    fn target(&self, written: &[String], at: usize) -> Resolved<FieldRef> {
        let found =
            self.absolute(written).or_else(|| self.lexical(written)).or_else(|| self.dynamic(written));
        found.ok_or((MetadataFault::Unknown("length or selector field before this one"), at))
    }

    fn absolute(&self, written: &[String]) -> Option<FieldRef> {
        let names =
            |prefix: &[&str]| written.len() > prefix.len() && prefix.iter().zip(written).all(|(p, w)| p == w);
        let (scope, prefix) = SCOPES.into_iter().find(|(_, prefix)| names(prefix))?;
        let path = integer_path(self.context[scope as usize]?, written.get(prefix.len()..)?)?;
        Some(FieldRef { scope, path })
    }

    fn lexical(&self, written: &[String]) -> Option<FieldRef> {
        self.around.iter().rev().find_map(|around| {
            let before = around.class.members.get(..around.before)?;
            before.iter().find(|member| Some(&member.name) == written.first())?;
            let mut path: Vec<String> =
                self.path.get(..around.depth)?.iter().map(|n| (*n).to_owned()).collect();
            path.extend(integer_path(around.class, written)?);
            Some(FieldRef { scope: self.scope, path })
        })
    }

    fn dynamic(&self, written: &[String]) -> Option<FieldRef> {
        SCOPES.into_iter().rev().filter(|(scope, _)| *scope < self.scope).find_map(|(scope, _)| {
            let path = integer_path(self.context[scope as usize]?, written)?;
            Some(FieldRef { scope, path })
        })
    }
}

/// Values of the selector that have the option's name as a label.
fn label_ranges(selector: &EnumClass, option: &OptionClass) -> Vec<Range> {
    let named = |label: &str| label == option.name || shown_name(label) == option.name;
    let labels = selector.mappings.iter().filter(|mapping| named(&mapping.label));
    labels.flat_map(|mapping| mapping.ranges.iter().copied()).collect()
}

/// `written` as a path of members to an integer, without the names of options.
fn integer_path(class: &StructClass, written: &[String]) -> Option<Vec<String>> {
    let (name, rest) = written.split_first()?;
    let tail = integer_tail(class.member(name)?, rest)?;
    Some(std::iter::once(name.clone()).chain(tail).collect())
}

fn integer_tail(class: &FieldClass, written: &[String]) -> Option<Vec<String>> {
    match class {
        FieldClass::Int(_) | FieldClass::Enum(_) => written.is_empty().then(Vec::new),
        FieldClass::Struct(c) => integer_path(c, written),
        FieldClass::Array(c) if !written.is_empty() => integer_tail(&c.element, written),
        FieldClass::Variant(c) => {
            let named = c.options.iter().find(|option| Some(&option.name) == written.first());
            let named = named.and_then(|option| integer_tail(&option.class, written.get(1..)?));
            named.or_else(|| c.options.iter().find_map(|option| integer_tail(&option.class, written)))
        }
        _ => None,
    }
}

/// The enumeration at `path`.
fn struct_enum<'a>(class: &'a StructClass, path: &[String]) -> Option<&'a EnumClass> {
    let (name, rest) = path.split_first()?;
    field_enum(class.member(name)?, rest)
}

fn field_enum<'a>(class: &'a FieldClass, path: &[String]) -> Option<&'a EnumClass> {
    match class {
        FieldClass::Enum(class) => path.is_empty().then_some(class),
        FieldClass::Struct(c) => struct_enum(c, path),
        FieldClass::Array(c) => field_enum(&c.element, path),
        FieldClass::Variant(c) => c.options.iter().find_map(|option| field_enum(&option.class, path)),
        _ => None,
    }
}

fn apply_struct(class: &mut StructClass, found: &mut impl Iterator<Item = Found>) {
    for member in &mut class.members {
        apply(&mut member.class, found);
    }
}

fn apply(class: &mut FieldClass, found: &mut impl Iterator<Item = Found>) {
    let mut length = |length: &mut Length| {
        if matches!(length, Length::Dynamic(_))
            && let Some(next) = found.next()
        {
            *length = match next.target {
                Target::Field(target) => Length::Dynamic(target),
                Target::Count(count) => Length::Static(count),
            };
        }
    };
    match class {
        FieldClass::Text(c) => length(&mut c.length),
        FieldClass::Blob(c) => length(&mut c.length),
        FieldClass::Array(c) => {
            length(&mut c.length);
            apply(&mut c.element, found);
        }
        FieldClass::Struct(c) => apply_struct(c, found),
        FieldClass::Variant(c) => {
            if let Some(next) = found.next() {
                if let Target::Field(target) = next.target {
                    c.selector = target;
                }
                for (option, ranges) in c.options.iter_mut().zip(next.ranges) {
                    option.ranges = ranges;
                }
            }
            c.options.iter_mut().for_each(|option| apply(&mut option.class, found));
        }
        _ => {}
    }
}
