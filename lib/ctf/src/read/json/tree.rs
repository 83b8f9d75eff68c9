//! JSON with places: `serde_json` reads it, and this keeps where each object and property stands.
//!
//! A place is known from texts that lie in the metadata as they are: names of properties do, unless they have
//! escapes. Where it is not known, the nearest place before stands for it.

use crate::error::MetadataFault;
use serde::de::{DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor};
use std::borrow::Cow;
use std::cell::Cell;
use std::collections::HashSet;
use std::fmt;

/// A fault and where it is, in bytes from the start of the text.
#[derive(Debug)]
pub(super) struct Fault {
    pub(super) kind: MetadataFault,
    pub(super) at: usize,
}

/// What is read of a part of the metadata, or its fault.
pub(super) type Parsed<T> = Result<T, Fault>;

pub(super) fn fault<T>(at: usize, kind: MetadataFault) -> Parsed<T> {
    Err(Fault { kind, at })
}

/// A JSON value and where it begins, or for a property's value where its name does.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Node<'t> {
    pub(super) at: usize,
    pub(super) value: Json<'t>,
}

/// A JSON value.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Json<'t> {
    Null,
    Truth(bool),
    Int(i128),
    Float(f64),
    Text(Cow<'t, str>),
    Array(Vec<Node<'t>>),
    Object(Object<'t>),
}

/// A JSON object: its properties in their order.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Object<'t> {
    /// Where it begins.
    pub(super) at: usize,
    pub(super) properties: Vec<(Cow<'t, str>, Node<'t>)>,
}

impl<'t> Node<'t> {
    pub(super) fn text(&self) -> Option<&str> {
        if let Json::Text(text) = &self.value { Some(text) } else { None }
    }

    pub(super) fn integer<T: TryFrom<i128>>(&self) -> Option<T> {
        if let Json::Int(value) = self.value { T::try_from(value).ok() } else { None }
    }

    pub(super) fn array(&self) -> Option<&[Node<'t>]> {
        if let Json::Array(elements) = &self.value { Some(elements) } else { None }
    }

    pub(super) fn object(&self) -> Option<&Object<'t>> {
        if let Json::Object(object) = &self.value { Some(object) } else { None }
    }

    /// Refuses the value at this place of the text.
    pub(super) fn fault<T>(&self, kind: MetadataFault) -> Parsed<T> {
        fault(self.at, kind)
    }

    /// The same for others to keep, without places.
    pub(super) fn to_value(&self) -> serde_json::Value {
        match &self.value {
            Json::Null => serde_json::Value::Null,
            Json::Truth(truth) => (*truth).into(),
            Json::Int(value) => match u64::try_from(*value) {
                Ok(value) => value.into(),
                Err(_) => i64::try_from(*value).unwrap_or(i64::MIN).into(),
            },
            Json::Float(value) => (*value).into(),
            Json::Text(text) => text.as_ref().into(),
            Json::Array(elements) => elements.iter().map(Node::to_value).collect(),
            Json::Object(object) => object.to_map().into(),
        }
    }
}

impl<'t> Object<'t> {
    pub(super) fn get(&self, name: &str) -> Option<&Node<'t>> {
        self.properties.iter().find(|(known, _)| known == name).map(|(_, node)| node)
    }

    /// The property `name`, which must be there.
    pub(super) fn needed(&self, name: &'static str) -> Parsed<&Node<'t>> {
        self.get(name).map_or_else(|| fault(self.at, MetadataFault::Missing(name)), Ok)
    }

    /// The text property `name`.
    pub(super) fn text(&self, name: &'static str) -> Parsed<Option<&str>> {
        let Some(node) = self.get(name) else { return Ok(None) };
        node.text().map_or_else(|| node.fault(MetadataFault::BadValue(name)), |text| Ok(Some(text)))
    }

    /// The text property `name` for the model to keep.
    pub(super) fn owned(&self, name: &'static str) -> Parsed<Option<String>> {
        Ok(self.text(name)?.map(str::to_owned))
    }

    /// The integer property `name`.
    pub(super) fn number<T: TryFrom<i128>>(&self, name: &'static str) -> Parsed<Option<T>> {
        let Some(node) = self.get(name) else { return Ok(None) };
        node.integer().map_or_else(|| node.fault(MetadataFault::BadValue(name)), |value| Ok(Some(value)))
    }

    /// Refuses properties other than `known` and those that every object may have.
    ///
    /// `kind` names the object.
    pub(super) fn only(&self, kind: &'static str, known: &[&str]) -> Parsed<()> {
        let unknown = self.properties.iter().find(|(name, _)| !known.contains(&name.as_ref()));
        match unknown {
            Some((_, node)) => node.fault(MetadataFault::UnknownProperty(kind)),
            None => Ok(()),
        }
    }

    /// The properties for others to keep, without places.
    pub(super) fn to_map(&self) -> serde_json::Map<String, serde_json::Value> {
        self.properties.iter().map(|(name, node)| (name.to_string(), node.to_value())).collect()
    }
}

/// Reads values of one text.
#[derive(Debug)]
pub(super) struct Places<'t> {
    text: &'t str,
    /// Behind the last text or object whose place is known.
    last: Cell<usize>,
    /// Where a name stands that its object has already.
    duplicate: Cell<Option<usize>>,
}

impl<'t> Places<'t> {
    pub(super) fn new(text: &'t str) -> Places<'t> {
        Places { text, last: Cell::new(0), duplicate: Cell::new(None) }
    }

    /// Where a property stands that its object has twice; forgets it.
    pub(super) fn take_duplicate(&self) -> Option<usize> {
        self.duplicate.take()
    }

    /// Values that begin at `at` or behind are next.
    pub(super) fn move_to(&self, at: usize) {
        self.last.set(at);
    }

    /// Notes a text that lies in the metadata; returns where its quotes begin.
    fn note(&self, text: &'t str) -> usize {
        let at = (text.as_ptr() as usize).wrapping_sub(self.text.as_ptr() as usize);
        self.last.set(at.saturating_add(text.len() + 1));
        at.saturating_sub(1)
    }

    /// Where the next `bracket` stands.
    fn find(&self, bracket: u8) -> usize {
        let last = self.last.get();
        let rest = self.text.as_bytes().get(last..).unwrap_or(&[]);
        let at = last + memchr::memchr(bracket, rest).unwrap_or(0);
        self.last.set(at + 1);
        at
    }
}

/// Reads a value.
#[derive(Clone, Copy)]
pub(super) struct ValueSeed<'p, 't>(pub(super) &'p Places<'t>);

impl<'de> DeserializeSeed<'de> for ValueSeed<'_, 'de> {
    type Value = Node<'de>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Node<'de>, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'p, 'de> ValueSeed<'p, 'de> {
    fn here(self, value: Json<'de>) -> Node<'de> {
        Node { at: self.0.last.get(), value }
    }
}

impl<'de> Visitor<'de> for ValueSeed<'_, 'de> {
    type Value = Node<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_unit<E>(self) -> Result<Node<'de>, E> {
        Ok(self.here(Json::Null))
    }

    fn visit_bool<E>(self, truth: bool) -> Result<Node<'de>, E> {
        Ok(self.here(Json::Truth(truth)))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Node<'de>, E> {
        Ok(self.here(Json::Int(value.into())))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Node<'de>, E> {
        Ok(self.here(Json::Int(value.into())))
    }

    fn visit_f64<E>(self, value: f64) -> Result<Node<'de>, E> {
        Ok(self.here(Json::Float(value)))
    }

    fn visit_str<E>(self, text: &str) -> Result<Node<'de>, E> {
        Ok(self.here(Json::Text(Cow::Owned(text.to_owned()))))
    }

    fn visit_borrowed_str<E>(self, text: &'de str) -> Result<Node<'de>, E> {
        Ok(Node { at: self.0.note(text), value: Json::Text(Cow::Borrowed(text)) })
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut elements: A) -> Result<Node<'de>, A::Error> {
        let at = self.0.find(b'[');
        let mut all = Vec::new();
        while let Some(element) = elements.next_element_seed(self)? {
            all.push(element);
        }
        Ok(Node { at, value: Json::Array(all) })
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Node<'de>, A::Error> {
        let at = self.0.find(b'{');
        let mut properties = Vec::new();
        while let Some(name) = members.next_key_seed(self)? {
            let Json::Text(text) = name.value else { continue };
            let node = members.next_value_seed(self)?;
            properties.push((text, Node { at: name.at, ..node }));
        }
        let mut names = HashSet::with_capacity(properties.len());
        let twice = properties.iter().find(|(name, _)| !names.insert(name.as_ref()));
        if let (Some((_, node)), None) = (twice, self.0.duplicate.get()) {
            self.0.duplicate.set(Some(node.at));
        }
        Ok(Node { at, value: Json::Object(Object { at, properties }) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> (Node<'_>, Places<'_>) {
        let places = Places::new(text);
        let mut reader = serde_json::Deserializer::from_str(text);
        let node = ValueSeed(&places).deserialize(&mut reader).expect("JSON");
        (node, places)
    }

    #[test]
    fn properties_and_objects_know_their_place() {
        let text = r#"{"a": {"b": [{}, {"c": 1}, {"d": "{\"x\"}"}, {"e": {}}]}, "f": [[0, 1]]}"#;
        let (node, places) = read(text);
        assert_eq!(places.take_duplicate(), None);
        let place = |word: &str| text.find(word).expect(word);
        let root = node.object().unwrap();
        assert_eq!((root.at, root.get("a").unwrap().at), (0, place("\"a\"")));
        let b = root.get("a").unwrap().object().unwrap().get("b").unwrap();
        let elements: Vec<&Object<'_>> = b.array().unwrap().iter().map(|e| e.object().unwrap()).collect();
        assert_eq!(elements[0].at, place("{}, {\"c"));
        assert_eq!((elements[1].at, elements[1].get("c").unwrap().at), (place("{\"c"), place("\"c\"")));
        assert_eq!(elements[3].get("e").unwrap().at, place("\"e\""));
        assert_eq!(root.get("f").unwrap().at, place("\"f\""));
        assert_eq!(root.get("f").unwrap().array().unwrap()[0].at, place("[0, 1]"));
    }

    #[test]
    fn a_property_that_is_there_twice_is_told() {
        let text = r#"[{"a": 1, "b": {"c": 1, "c": 2}}]"#;
        let (_, places) = read(text);
        assert_eq!(places.take_duplicate(), text.rfind("\"c\""));
        assert_eq!(places.take_duplicate(), None);
    }
}
