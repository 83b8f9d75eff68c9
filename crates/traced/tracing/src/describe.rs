//! Names and descriptions of the events that come from a callsite.

use crate::values::{Kind, Shape};
use mote_layout::Level;
use mote_layout::describe::VERSION;
use std::ffi::CString;
use std::fmt::Write;
use tracing_core::Metadata;

/// What happens at a callsite: each is an event of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Point {
    /// An event.
    Event,
    /// A span is made.
    New,
    /// A thread goes into it.
    Enter,
    /// A thread leaves it.
    Exit,
    /// The last reference to it is gone.
    Close,
    /// It gets values later.
    Record,
    /// It follows from another one.
    Follows,
}

impl Point {
    /// How many there are.
    pub(crate) const COUNT: usize = 7;

    const fn suffix(self) -> &'static str {
        match self {
            Point::Event => "",
            Point::New => "_new",
            Point::Enter => "_enter",
            Point::Exit => "_exit",
            Point::Close => "_close",
            Point::Record => "_record",
            Point::Follows => "_follows",
        }
    }

    /// The fields before those of the callsite: ids of spans.
    pub(crate) const fn ids(self) -> &'static [&'static str] {
        match self {
            Point::New => &["span", "parent"],
            Point::Follows => &["span", "follows"],
            _ => &["span"],
        }
    }
}

/// The description (`mote_layout::describe`) of the event at `point` whose values have `shape`.
pub(crate) fn describe(metadata: &Metadata<'_>, point: Point, shape: &Shape) -> CString {
    let file = metadata.file().unwrap_or_default();
    let mut text = format!(
        "{VERSION}\n{provider}:{name}{suffix}\n{level} {file}:{line}\n{note}\n",
        provider = provider(metadata.target()),
        name = name(metadata),
        suffix = point.suffix(),
        level = level(*metadata.level()) as u8,
        file = file.replace(|c: char| c.is_control(), " "),
        line = metadata.line().unwrap_or(0),
        note = if metadata.is_span() { "a span of tracing" } else { "an event of tracing" },
    );
    let mut used: Vec<String> = Vec::new();
    for id in point.ids() {
        let _ = writeln!(text, "{id} u64");
        used.push((*id).to_owned());
    }
    for (index, kind) in shape {
        let field = metadata.fields().iter().nth(usize::from(*index));
        let name = unused(identifier(field.as_ref().map_or("field", |field| field.name())), &used);
        let _ = writeln!(text, "{name} {}", kind_name(*kind));
        used.push(name);
    }
    // No NUL is left in it: names are made of letters, and controls were replaced.
    CString::new(text).unwrap_or_default()
}

const fn kind_name(kind: Kind) -> &'static str {
    match kind {
        Kind::I64 => "i64",
        Kind::U64 => "u64",
        Kind::F64 => "f64",
        Kind::Bool => "bool",
        Kind::Str => "str",
        Kind::Bytes => "bytes",
    }
}

/// `app::net` is the provider `app.net`: a colon ends a provider's name.
fn provider(target: &str) -> String {
    let name: String = target
        .replace("::", ".")
        .chars()
        .map(|c| if c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_') { c } else { '_' })
        .collect();
    if name.is_empty() { "tracing".to_owned() } else { name }
}

/// The name that the program gave, or the place: tracing itself calls an event `event src/main.rs:12`.
fn name(metadata: &Metadata<'_>) -> String {
    match (metadata.name().starts_with("event ") && metadata.is_event(), metadata.file(), metadata.line()) {
        (true, Some(file), Some(line)) => {
            let stem = std::path::Path::new(file).file_stem().and_then(|stem| stem.to_str());
            format!("{}_{line}", identifier(stem.unwrap_or("event")))
        }
        _ => identifier(metadata.name()),
    }
}

/// `name` with everything but letters, digits and `_` replaced.
fn identifier(name: &str) -> String {
    let name: String = name.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '_' }).collect();
    if name.is_empty() { "_".to_owned() } else { name }
}

/// `name`, with `_` added until it is none of `used`.
fn unused(mut name: String, used: &[String]) -> String {
    while used.contains(&name) {
        name.push('_');
    }
    name
}

/// The level with room between `DEBUG` and `TRACE`, so that one can be chosen without the other.
fn level(level: tracing_core::Level) -> Level {
    match level {
        tracing_core::Level::ERROR => Level::Error,
        tracing_core::Level::WARN => Level::Warning,
        tracing_core::Level::INFO => Level::Info,
        tracing_core::Level::DEBUG => Level::DebugFunction,
        tracing_core::Level::TRACE => Level::DebugLine,
    }
}
