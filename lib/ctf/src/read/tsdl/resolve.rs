//! Finds what lengths and selectors refer to (CTF 1.8 section 7.3.2).
//!
//! A reference begins with the name of a scope (`stream.event.header.v.id`), or its first name is looked up
//! among the members before it in its own structure, then in the structures around, then in the scopes
//! decoded before. A first walk finds all targets, a second one writes them down in the same order.

use super::types::shown_name;
use crate::error::{MetadataError, MetadataFault};
use crate::model::{
    EnumClass, FieldClass, FieldRef, Length, OptionClass, Range, Scope, StructClass, TraceClass, VariantClass,
};

type Resolved<T> = Result<T, MetadataError>;

/// The scopes by their order; those not there or not decoded yet are `None`.
type Context<'a> = [Option<&'a StructClass>; 6];

const SCOPES: [(Scope, &[&str]); 6] = [
    (Scope::PacketHeader, &["trace", "packet", "header"]),
    (Scope::PacketContext, &["stream", "packet", "context"]),
    (Scope::EventHeader, &["stream", "event", "header"]),
    (Scope::CommonContext, &["stream", "event", "context"]),
    (Scope::SpecificContext, &["event", "context"]),
    (Scope::Payload, &["event", "fields"]),
];

/// Resolves all references of `trace`.
pub(super) fn resolve(trace: &mut TraceClass) -> Resolved<()> {
    resolve_scope(&mut trace.packet_header, Scope::PacketHeader, [None; 6])?;
    for stream in &mut trace.streams {
        let mut context: Context<'_> = [trace.packet_header.as_ref(), None, None, None, None, None];
        resolve_scope(&mut stream.packet_context, Scope::PacketContext, context)?;
        context[1] = stream.packet_context.as_ref();
        resolve_scope(&mut stream.event_header, Scope::EventHeader, context)?;
        context[2] = stream.event_header.as_ref();
        resolve_scope(&mut stream.common_context, Scope::CommonContext, context)?;
        context[3] = stream.common_context.as_ref();
        for event in &mut stream.events {
            resolve_scope(&mut event.specific_context, Scope::SpecificContext, context)?;
            let mut context = context;
            context[4] = event.specific_context.as_ref();
            resolve_scope(&mut event.payload, Scope::Payload, context)?;
        }
    }
    Ok(())
}

fn resolve_scope(class: &mut Option<StructClass>, scope: Scope, before: Context<'_>) -> Resolved<()> {
    let Some(class) = class else { return Ok(()) };
    let found = {
        let mut context: Context<'_> = before;
        context[scope as usize] = Some(class);
        let mut finder = Finder { scope, context, around: Vec::new(), path: Vec::new(), found: Vec::new() };
        finder.structure(class)?;
        finder.found
    };
    apply_struct(class, &mut found.into_iter());
    Ok(())
}

/// What a reference means.
struct Found {
    target: FieldRef,
    /// Of a variant: the values that choose each option.
    ranges: Vec<Vec<Range>>,
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
    context: Context<'a>,
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
        if let Length::Dynamic(written) = length {
            let target = self.target(&written.path)?;
            self.found.push(Found { target, ranges: Vec::new() });
        }
        Ok(())
    }

    fn selector(&mut self, class: &VariantClass) -> Resolved<()> {
        if class.selector.path.is_empty() {
            return Err(MetadataError::nowhere(MetadataFault::Missing("selector of a variant")));
        }
        let target = self.target(&class.selector.path)?;
        let root = self.context[target.scope as usize];
        let Some(selector) = root.and_then(|root| struct_enum(root, &target.path)) else {
            return Err(MetadataError::nowhere(MetadataFault::Expected(
                "an enumeration as a variant's selector",
            )));
        };
        let ranges = class.options.iter().map(|option| label_ranges(selector, option)).collect();
        self.found.push(Found { target, ranges });
        Ok(())
    }

    fn target(&self, written: &[String]) -> Resolved<FieldRef> {
        let found =
            self.absolute(written).or_else(|| self.lexical(written)).or_else(|| self.dynamic(written));
        found.ok_or(MetadataError::nowhere(MetadataFault::Unknown("length or selector field")))
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
        if let Length::Dynamic(target) = length
            && let Some(next) = found.next()
        {
            *target = next.target;
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
                c.selector = next.target;
                for (option, ranges) in c.options.iter_mut().zip(next.ranges) {
                    option.ranges = ranges;
                }
            }
            c.options.iter_mut().for_each(|option| apply(&mut option.class, found));
        }
        _ => {}
    }
}
