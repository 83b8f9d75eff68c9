//! An event that a program carries, its sites and their state.

use mote_layout::Level;
use mote_layout::parse::{Description, FieldType, Labels};
use mote_layout::types::Scalar;
use std::path::PathBuf;

/// A program or library that carries events.
#[derive(Clone, Debug)]
pub struct Carrier {
    /// The file.
    pub path: PathBuf,
    /// Its events, by provider and name.
    pub events: Vec<Event>,
    /// Descriptions that could not be read, in words for a person.
    pub problems: Vec<String>,
}

/// One event.
#[derive(Clone, Debug)]
pub struct Event {
    /// Provider.
    pub provider: String,
    /// Name.
    pub name: String,
    /// Level.
    pub level: Level,
    /// Source file; may be empty.
    pub file: String,
    /// Source line, 0 when unknown.
    pub line: u32,
    /// What it means; may be empty.
    pub text: String,
    /// Its fields, in order.
    pub fields: Vec<Field>,
    /// Its description, as `mote_layout::parse` reads it.
    pub description: Vec<u8>,
    /// The places in the code that emit it.
    pub sites: Vec<Site>,
}

/// A field.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Field {
    /// Name.
    pub name: String,
    /// Type, as descriptions have it: `u32`, `str`, `u8[6]`, `enum u8 IDLE=0 BUSY=1..3`.
    pub ty: String,
}

/// A place in the code that emits an event. Addresses are those of the file, without load bias.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Site {
    /// The five bytes that are patched; `None` when the site tests a byte instead.
    pub code: Option<u64>,
    /// Where the jump leads that these are while the event is on.
    pub leads_to: Option<u64>,
    /// The event's state in memory.
    pub event: u64,
    /// Whether it is on; `None` when that is not known: of a file, or of a process that may not be read.
    pub state: Option<State>,
    /// The filter that decides about the event there, if it is on.
    pub filter: Option<Engine>,
}

/// What runs a filter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Engine {
    /// Machine code.
    Jit,
    /// The interpreter: machine code could not be made.
    Interpreter,
}

/// Whether a site is on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// It records.
    On,
    /// The event is off: its site is a NOP.
    Off,
    /// It is being switched just now.
    Changing,
    /// It holds other code.
    Foreign,
}

impl Event {
    /// The event of a description, without sites.
    pub(crate) fn new(text: &[u8], read: &Description<'_>) -> Event {
        Event {
            description: text.to_vec(),
            provider: read.provider.to_owned(),
            name: read.name.to_owned(),
            level: read.level,
            file: printable(read.file),
            line: read.line,
            text: printable(read.text),
            fields: read
                .fields()
                .map(|field| Field { name: field.name.to_owned(), ty: type_name(field.ty) })
                .collect(),
            sites: Vec::new(),
        }
    }

    /// `provider:name`.
    pub fn full_name(&self) -> String {
        format!("{}:{}", self.provider, self.name)
    }

    /// How many sites are on; `None` when no site's state is known.
    pub fn sites_on(&self) -> Option<usize> {
        let on = self.sites.iter().filter(|site| site.state == Some(State::On)).count();
        self.sites.iter().any(|site| site.state.is_some()).then_some(on)
    }

    /// In a word or two: `on`, `off`, `2/3 on`, `changing`, `other code`, `-` when not known.
    pub fn state_text(&self) -> String {
        let has = |state| self.sites.iter().any(|site| site.state == Some(state));
        match self.sites_on() {
            None => "-".to_owned(),
            Some(on) if on == self.sites.len() => "on".to_owned(),
            Some(on) if on > 0 => format!("{on}/{} on", self.sites.len()),
            Some(_) if has(State::Changing) => "changing".to_owned(),
            Some(_) if has(State::Foreign) => "other code".to_owned(),
            Some(_) => "off".to_owned(),
        }
    }

    /// The engine of its filter: `jit` or `interpreter`; `None` when it has no filter, or that is not known.
    pub fn filter_text(&self) -> Option<&'static str> {
        self.sites.iter().find_map(|site| site.filter).map(|engine| match engine {
            Engine::Jit => "jit",
            Engine::Interpreter => "interpreter",
        })
    }

    /// How it is switched: `patched` (a NOP in the code) or `tested` (a byte that is tested each time).
    pub fn switch_text(&self) -> &'static str {
        let patched = self.sites.iter().filter(|site| site.code.is_some()).count();
        match patched {
            0 => "tested",
            _ if patched == self.sites.len() => "patched",
            _ => "patched and tested",
        }
    }
}

/// Text from a file that is not trusted, on its way to a terminal; doc comments begin with a blank.
fn printable(text: &str) -> String {
    text.trim().replace(char::is_control, "?")
}

/// The type as its description has it.
fn type_name(ty: FieldType<'_>) -> String {
    match ty {
        FieldType::Scalar(scalar) => scalar.name().to_owned(),
        FieldType::Str => "str".to_owned(),
        FieldType::Bytes => "bytes".to_owned(),
        FieldType::Array(scalar, len) => format!("{}[{len}]", scalar.name()),
        FieldType::Sequence(scalar) => format!("{}[]", scalar.name()),
        FieldType::Enumeration(scalar, labels) => labelled("enum", scalar, labels),
        FieldType::Flags(scalar, labels) => labelled("flags", scalar, labels),
        FieldType::Labelled(scalar, labels) => labelled("labelled", scalar, labels),
        FieldType::FixedText(len) => format!("char[{len}]"),
    }
}

fn labelled(kind: &str, scalar: Scalar, labels: Labels<'_>) -> String {
    let labels: Vec<String> = labels
        .iter()
        .map(|(label, first, last)| match first == last {
            true => format!("{label}={first}"),
            false => format!("{label}={first}..{last}"),
        })
        .collect();
    format!("{kind} {} {}", scalar.name(), labels.join(" ")).trim_end().to_owned()
}
