//! Checks structures: names, and what lengths and selectors refer to.
//!
//! A length is an unsigned integer, a selector an integer (of an optional field also a truth value); each is
//! decoded before the field that needs it (CTF 1.8 section 7.3.2, CTF2-SPEC-2.0 section 5.3.1).

use crate::error::{MAX_DEPTH, MetadataFault};
use crate::model::{
    FieldClass, FieldRef, Length, OptionClass, OptionalClass, Range, Scope, StructClass, VariantClass,
};
use std::collections::{HashMap, HashSet};

/// The scopes of a packet or event, by their order; `None`: not there, or not decoded yet.
pub(crate) type Scopes<'a> = [Option<&'a StructClass>; 6];

/// What is wrong with a scope.
#[derive(Debug)]
pub(crate) struct Wrong {
    pub(crate) kind: MetadataFault,
    /// The reference that it is about: its number in the scope, in the order of the fields.
    pub(crate) reference: Option<usize>,
}

/// What a field may be that something refers to: a set, because a path can lead into several options.
type Kinds = u8;
const UNSIGNED: Kinds = 1;
const SIGNED: Kinds = 2;
const TRUTH: Kinds = 4;
const OTHER: Kinds = 8;

/// Checks the scope `scope` of `scopes`; gives all targets of its references to `found`.
pub(crate) fn scope<'a>(
    scopes: &Scopes<'a>,
    scope: Scope,
    found: impl FnMut(&'a FieldRef),
) -> Result<(), Wrong> {
    let Some(class) = scopes[scope as usize] else { return Ok(()) };
    let mut walk = Walk { scopes, scope, path: Vec::new(), done: HashMap::new(), count: 0, depth: 0, found };
    walk.structure(class)
}

/// Whether a value of `range` is in a range of another list.
pub(crate) fn overlap<'r>(lists: impl Iterator<Item = &'r [Range]>) -> bool {
    let mut all: Vec<(i128, i128, usize)> = lists
        .enumerate()
        .flat_map(|(list, ranges)| ranges.iter().map(move |range| (range.lower, range.upper, list)))
        .collect();
    all.sort_unstable();
    // The highest value of each of the last two lists is enough: ranges of one list may overlap.
    let mut highest: [Option<(i128, usize)>; 2] = [None; 2];
    for (lower, upper, list) in all {
        if highest.iter().flatten().any(|(value, of)| *of != list && *value >= lower) {
            return true;
        }
        match highest {
            [Some((value, of)), _] if of == list => highest[0] = Some((value.max(upper), of)),
            [first, _] => highest = [Some((upper, list)), first],
        }
    }
    false
}

/// A walk over the fields of a scope, in their order.
struct Walk<'s, 'a, F> {
    scopes: &'s Scopes<'a>,
    scope: Scope,
    path: Vec<&'a str>,
    /// Integers and truth values of the scope so far.
    done: HashMap<Vec<&'a str>, Kinds>,
    count: usize,
    depth: u32,
    found: F,
}

impl<'a, F: FnMut(&'a FieldRef)> Walk<'_, 'a, F> {
    fn structure(&mut self, class: &'a StructClass) -> Result<(), Wrong> {
        let mut names = HashSet::with_capacity(class.members.len());
        for member in &class.members {
            if !names.insert(member.name.as_str()) {
                return wrong(MetadataFault::Duplicate("member of a structure"));
            }
            self.path.push(&member.name);
            self.field(&member.class)?;
            if let Some(kind) = kind(&member.class) {
                *self.done.entry(self.path.clone()).or_insert(0) |= kind;
            }
            self.path.pop();
        }
        Ok(())
    }

    fn field(&mut self, class: &'a FieldClass) -> Result<(), Wrong> {
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return wrong(MetadataFault::TooDeep);
        }
        match class {
            FieldClass::Text(c) => self.length(&c.length)?,
            FieldClass::Blob(c) => self.length(&c.length)?,
            FieldClass::Array(c) => {
                self.length(&c.length)?;
                self.field(&c.element)?;
            }
            FieldClass::Struct(c) => self.structure(c)?,
            FieldClass::Variant(c) => self.variant(c)?,
            FieldClass::Optional(c) => self.optional(c)?,
            _ => {}
        }
        self.depth -= 1;
        Ok(())
    }

    fn length(&mut self, length: &'a Length) -> Result<(), Wrong> {
        match length {
            Length::Static(_) => Ok(()),
            Length::Dynamic(target) => match self.target(target)? {
                UNSIGNED => Ok(()),
                _ => self.wrong(MetadataFault::BadValue("length field: it must be an unsigned integer")),
            },
        }
    }

    fn variant(&mut self, class: &'a VariantClass) -> Result<(), Wrong> {
        match self.target(&class.selector)? {
            UNSIGNED | SIGNED => {}
            _ => return self.wrong(MetadataFault::BadValue("selector field: it must be an integer")),
        }
        if class.options.is_empty() {
            return self.wrong(MetadataFault::Missing("option of a variant"));
        }
        if overlap(class.options.iter().map(|option| &option.ranges[..])) {
            return self.wrong(MetadataFault::AmbiguousOption);
        }
        // The options' members have the same paths, of which one is decoded.
        class.options.iter().try_for_each(|OptionClass { class, .. }| {
            if let Some(kind) = kind(class) {
                *self.done.entry(self.path.clone()).or_insert(0) |= kind;
            }
            self.field(class)
        })
    }

    fn optional(&mut self, class: &'a OptionalClass) -> Result<(), Wrong> {
        match (self.target(&class.selector)?, class.ranges.is_empty()) {
            (TRUTH, true) | (UNSIGNED | SIGNED, false) => {}
            (TRUTH, false) => {
                return self.wrong(MetadataFault::BadValue(
                    "selector-field-ranges: the selector is a truth value, which has none",
                ));
            }
            (UNSIGNED | SIGNED, true) => {
                return self.wrong(MetadataFault::Missing("selector-field-ranges"));
            }
            _ => {
                return self.wrong(MetadataFault::BadValue(
                    "selector field: it must be an integer or a truth value",
                ));
            }
        }
        if let Some(kind) = kind(&class.class) {
            *self.done.entry(self.path.clone()).or_insert(0) |= kind;
        }
        self.field(&class.class)
    }

    /// What the next reference, to `target`, refers to.
    fn target(&mut self, target: &'a FieldRef) -> Result<Kinds, Wrong> {
        self.count += 1;
        (self.found)(target);
        let kinds = if target.scope == self.scope {
            let path: Vec<&str> = target.path.iter().map(String::as_str).collect();
            self.done.get(&path).copied()
        } else if target.scope < self.scope {
            self.scopes[target.scope as usize].map(|root| kinds_in(root, &target.path))
        } else {
            None
        };
        match kinds {
            Some(kinds) if kinds != 0 => Ok(kinds),
            _ => self.wrong(MetadataFault::Unknown("length or selector field before this one")),
        }
    }

    /// A fault of the last reference.
    fn wrong<T>(&self, kind: MetadataFault) -> Result<T, Wrong> {
        Err(Wrong { kind, reference: Some(self.count.saturating_sub(1)) })
    }
}

fn wrong<T>(kind: MetadataFault) -> Result<T, Wrong> {
    Err(Wrong { kind, reference: None })
}

/// What a field is to something that refers to it; `None` where a reference cannot end.
fn kind(class: &FieldClass) -> Option<Kinds> {
    match class {
        FieldClass::Int(int) => Some(if int.signed { SIGNED } else { UNSIGNED }),
        FieldClass::Enum(class) => Some(if class.int.signed { SIGNED } else { UNSIGNED }),
        FieldClass::Bool(_) => Some(TRUTH),
        FieldClass::Struct(_) | FieldClass::Array(_) | FieldClass::Variant(_) | FieldClass::Optional(_) => {
            None
        }
        _ => Some(OTHER),
    }
}

/// What `path` leads to in `class`; 0: nothing.
fn kinds_in(class: &StructClass, path: &[String]) -> Kinds {
    let Some((name, rest)) = path.split_first() else { return 0 };
    class.member(name).map_or(0, |class| kinds_of(class, rest))
}

fn kinds_of(class: &FieldClass, path: &[String]) -> Kinds {
    match class {
        FieldClass::Struct(c) => kinds_in(c, path),
        FieldClass::Array(c) if !path.is_empty() => kinds_of(&c.element, path),
        FieldClass::Optional(c) => kinds_of(&c.class, path),
        FieldClass::Variant(c) => c.options.iter().fold(0, |all, o| all | kinds_of(&o.class, path)),
        class if path.is_empty() => kind(class).unwrap_or(0),
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_of_one_list_may_overlap_each_other_and_no_others() {
        let range = |lower, upper| Range { lower, upper };
        let check = |lists: &[&[Range]]| overlap(lists.iter().copied());
        assert!(!check(&[&[range(1, 5), range(3, 9)], &[range(10, 10)]]));
        assert!(check(&[&[range(1, 5)], &[range(5, 9)]]));
        assert!(check(&[&[range(1, 100), range(20, 30)], &[range(40, 40)]]));
        assert!(check(&[&[range(0, 50)], &[range(-3, -1), range(10, 10)], &[range(60, 60)]]));
        assert!(!check(&[&[range(-4, -4), range(4, 4)], &[range(-3, 3)], &[]]));
    }
}
