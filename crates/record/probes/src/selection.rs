//! What patterns have chosen: the events, their names, and how many they may be.

use mote_catalog::event::{Event, Hook};
use std::collections::{HashMap, HashSet};
use std::path::Path;

/// Most functions, or places of static probes, that one pattern may choose.
pub const MATCHES_MAX: usize = 1000;

/// Most functions of the kernel that one pattern may choose: each is attached by itself, and the kernel takes some
/// milliseconds for it.
pub const KERNEL_MATCHES_MAX: usize = 200;

/// What patterns of probes have chosen.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Selection {
    /// The events, each once.
    pub events: Vec<Event>,
    /// What could not be had of them: arguments, places. For people.
    pub notes: Vec<String>,
}

/// Leaves away events of the same place, and numbers those that have one name.
pub(crate) fn tell_apart(events: &mut Vec<Event>) {
    let mut places = HashSet::new();
    events.retain(|event| {
        let (place, offset, returns) = match &event.hook {
            Hook::Uprobe { path, offset, returns, .. } => (path.clone(), *offset, *returns),
            Hook::Kprobe { function, offset, returns } => (function.into(), *offset, *returns),
            Hook::Fentry { function, returns, .. } => (function.into(), 0, *returns),
            _ => return true,
        };
        places.insert((place, offset, returns, event.provider.clone()))
    });
    let mut used: HashMap<String, usize> = HashMap::new();
    for event in events {
        let count = used.entry(event.name.clone()).or_default();
        *count += 1;
        if *count > 1 {
            event.name = format!("{}_{count}", event.name);
        }
    }
}

/// A name for an event, of letters, digits and `_`.
pub(crate) fn event_name(parts: &[&str]) -> String {
    let mut name = String::new();
    for byte in parts.join("_").bytes() {
        let plain = byte.is_ascii_alphanumeric() || byte == b'_';
        if plain || !name.ends_with('_') {
            name.push(if plain { char::from(byte) } else { '_' });
        }
    }
    name.trim_end_matches('_').to_owned()
}

/// The file's name up to the first dot: `libc` for `/lib/libc.so.6`.
pub(crate) fn short(path: &Path) -> String {
    let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    name.split_once(".so").map_or(name.as_str(), |(name, _)| name).to_owned()
}
