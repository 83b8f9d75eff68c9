//! Attributes and extensions of fragments and field classes (CTF2-SPEC-2.0 sections 5.1 and 5.2).

use super::tree::{Node, Object, Parsed, fault};
use crate::error::MetadataFault;
use crate::model::LogLevel;
use serde_json::Value;

/// Checks what every fragment, field class, member and option may have.
///
/// An extension may change the format, so all must be known to a reader; none is known to this one.
pub(super) fn common(object: &Object<'_>) -> Parsed<()> {
    if let Some(node) = object.get("attributes")
        && node.object().is_none()
    {
        return node
            .fault(MetadataFault::BadValue("attributes: it must be an object, with a namespace each"));
    }
    let Some(node) = object.get("extensions") else { return Ok(()) };
    let Some(namespaces) = node.object() else {
        return node
            .fault(MetadataFault::BadValue("extensions: it must be an object, with a namespace each"));
    };
    for (_, node) in &namespaces.properties {
        match node.object() {
            Some(extensions) if extensions.properties.is_empty() => {}
            Some(extensions) => {
                return fault(extensions.at, MetadataFault::Unsupported("extension of the format"));
            }
            None => return node.fault(MetadataFault::BadValue("extensions of a namespace")),
        }
    }
    Ok(())
}

/// Namespaces under which LTTng and babeltrace2 put the attributes that the model knows.
const NAMESPACES: [&str; 2] = ["lttng.org,2009", "babeltrace.org,2020"];

/// The attribute `name` in one of the known namespaces.
pub(super) fn attribute<'n, 't>(fragment: &'n Object<'t>, name: &str) -> Option<&'n Node<'t>> {
    let attributes = fragment.get("attributes")?.object()?;
    NAMESPACES.iter().find_map(|namespace| attributes.get(namespace)?.object()?.get(name))
}

/// A log level by its name or number.
pub(super) fn log_level(node: &Node<'_>) -> Option<LogLevel> {
    match node.text() {
        // babeltrace2 writes `debug-line` where LTTng writes `debug:line`.
        Some(name) => LogLevel::from_name(&name.replace('-', ":")),
        None => node.integer().map(LogLevel),
    }
}

/// The attributes that the model does not know, as JSON text.
pub(super) fn attributes(fragment: &Object<'_>, known: &[&str]) -> Option<String> {
    let mut all = fragment.get("attributes")?.object()?.to_map();
    for namespace in NAMESPACES {
        if let Some(Value::Object(own)) = all.get_mut(namespace) {
            own.retain(|name, _| !known.contains(&name.as_str()));
            if own.is_empty() {
                all.remove(namespace);
            }
        }
    }
    (!all.is_empty()).then(|| Value::Object(all).to_string())
}
