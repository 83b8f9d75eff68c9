//! What a trace looks like, in one vocabulary for CTF 1.8 and CTF 2.
//!
//! A [`TraceClass`] owns clocks and stream classes; a [`StreamClass`] owns event classes; each of these
//! describes its scopes with [`StructClass`]es. It is plain data: build it by hand (the recorder does),
//! read it with [`crate::read::metadata`], print it with [`crate::write::tsdl`] or [`crate::write::json`].
//! Nothing in it is checked until [`crate::Schema::new`] compiles it for decoding.
//!
//! Names are the ones a person sees: the one leading underscore that CTF 1.8 producers put before
//! identifiers is removed on reading and put back on writing.

mod clock;
mod field;

pub use clock::{ClockClass, ClockScale, Origin};
pub(crate) use field::int_limits;
pub use field::{
    ArrayClass, Base, BitMapClass, BlobClass, BoolClass, ByteOrder, Encoding, EnumClass, FieldClass,
    FieldRef, FloatClass, IntClass, IntCoding, Length, Mapping, Member, OptionClass, OptionalClass, Range,
    Roles, Scope, StringClass, StructClass, TextClass, VariantClass,
};

/// A whole trace: everything that its metadata says.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct TraceClass {
    /// CTF 1.8: the trace's UUID; CTF 2: the UUID of the metadata stream (preamble). Packets repeat it.
    pub uuid: Option<[u8; 16]>,
    /// Namespace of the trace class (CTF 2).
    pub namespace: Option<String>,
    /// Name of the trace class (CTF 2).
    pub name: Option<String>,
    /// Unique identifier within namespace and name (CTF 2).
    pub uid: Option<String>,
    /// Native byte order (CTF 1.8); what the TSDL writer leaves unsaid in fields.
    pub byte_order: ByteOrder,
    /// The environment, in the order of the metadata.
    pub environment: Vec<(String, EnvValue)>,
    /// Structure of the header of every packet of the trace.
    pub packet_header: Option<StructClass>,
    /// Clock classes, referred to by index.
    pub clocks: Vec<ClockClass>,
    /// Data stream classes, in the order of the metadata.
    pub streams: Vec<StreamClass>,
    /// User attributes of the trace class as JSON text (CTF 2).
    pub attributes: Option<String>,
}

/// A value of the trace's environment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EnvValue {
    /// An integer.
    Int(i64),
    /// A text.
    Str(String),
}

/// A data stream class: what packets and events of one kind of stream share.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct StreamClass {
    /// Number by which packets name this class; 0 if they do not.
    pub id: u64,
    /// What the trace is called (CTF 2).
    pub name: Option<String>,
    /// Namespace of `name` and `uid` (CTF 2).
    pub namespace: Option<String>,
    /// Identifier that no other trace of the namespace has (CTF 2).
    pub uid: Option<String>,
    /// Index of the default clock in [`TraceClass::clocks`].
    pub clock: Option<usize>,
    /// Packet context: `content_size`, `timestamp_begin`, `cpu_id`...
    pub packet_context: Option<StructClass>,
    /// Header of each event, with the number of its class (`id`) and its time (`timestamp`).
    pub event_header: Option<StructClass>,
    /// Context that every event has (`stream.event.context`).
    pub common_context: Option<StructClass>,
    /// Event classes of this stream, in the order of the metadata.
    pub events: Vec<EventClass>,
    /// User attributes as JSON text (CTF 2).
    pub attributes: Option<String>,
}

/// One kind of event, as the metadata declares it.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct EventClass {
    /// Number by which event headers name this class, unique in its stream class; 0 if they do not.
    pub id: u64,
    /// Name, usually `provider:event`.
    pub name: String,
    /// Namespace of `name` and `uid` (CTF 2).
    pub namespace: Option<String>,
    /// Identifier that no other event class of the namespace has (CTF 2).
    pub uid: Option<String>,
    /// Severity, if the tracer gives one.
    pub log_level: Option<LogLevel>,
    /// Address of a model of the event (`model.emf.uri`).
    pub emf_uri: Option<String>,
    /// Context of this class alone (`event.context`).
    pub specific_context: Option<StructClass>,
    /// The event's own fields (`event.fields`); `None` when it has none.
    pub payload: Option<StructClass>,
    /// User attributes other than the log level as JSON text (CTF 2).
    pub attributes: Option<String>,
}

impl TraceClass {
    /// The environment's value of `name`.
    #[must_use]
    pub fn env(&self, name: &str) -> Option<&EnvValue> {
        self.environment.iter().find(|(n, _)| n == name).map(|(_, v)| v)
    }

    /// The environment's text of `name`; `None` also if it is an integer.
    #[must_use]
    pub fn env_str(&self, name: &str) -> Option<&str> {
        match self.env(name) {
            Some(EnvValue::Str(text)) => Some(text),
            _ => None,
        }
    }

    /// The default clock of a stream class of this trace.
    #[must_use]
    pub fn clock_of(&self, stream: &StreamClass) -> Option<&ClockClass> {
        self.clocks.get(stream.clock?)
    }
}

impl StreamClass {
    /// The event class with number `id`. Costs a scan; the decoder has its own table.
    #[must_use]
    pub fn event(&self, id: u64) -> Option<&EventClass> {
        self.events.iter().find(|e| e.id == id)
    }
}

impl EventClass {
    /// The part of the name before its first colon (`sched` of `sched:switch`), empty without a colon.
    #[must_use]
    pub fn provider(&self) -> &str {
        self.name.split_once(':').map_or("", |(provider, _)| provider)
    }
}

/// LTTng's severities, 0 (emergency) to 14 (debug); other numbers are kept as they are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LogLevel(pub i64);

/// Names of the log levels 0 to 14, as CTF 2 metadata of LTTng spells them.
const LOG_LEVELS: [&str; 15] = [
    "emergency",
    "alert",
    "critical",
    "error",
    "warning",
    "notice",
    "info",
    "debug:system",
    "debug:program",
    "debug:process",
    "debug:module",
    "debug:unit",
    "debug:function",
    "debug:line",
    "debug",
];

impl LogLevel {
    /// Critical conditions, for instance of a device (`LOG_CRIT` of syslog(3)).
    pub const CRITICAL: LogLevel = LogLevel(2);
    /// What failed (`LOG_ERR` of syslog(3)).
    pub const ERROR: LogLevel = LogLevel(3);
    /// What may become an error (`LOG_WARNING` of syslog(3)).
    pub const WARNING: LogLevel = LogLevel(4);
    /// Normal but significant conditions (`LOG_NOTICE` of syslog(3)).
    pub const NOTICE: LogLevel = LogLevel(5);
    /// What is worth to be known (`LOG_INFO` of syslog(3)).
    pub const INFO: LogLevel = LogLevel(6);
    /// Debug information, line level: LTTng's default.
    pub const DEBUG_LINE: LogLevel = LogLevel(13);
    /// What only developers need; levels 7 to 13 say of what (LTTng).
    pub const DEBUG: LogLevel = LogLevel(14);

    /// The name that CTF 2 metadata uses; `None` outside 0..=14.
    #[must_use]
    pub fn name(self) -> Option<&'static str> {
        usize::try_from(self.0).ok().and_then(|i| LOG_LEVELS.get(i).copied())
    }

    /// The level of a CTF 2 name.
    #[must_use]
    pub fn from_name(name: &str) -> Option<LogLevel> {
        let index = LOG_LEVELS.iter().position(|l| *l == name)?;
        Some(LogLevel(i64::try_from(index).unwrap_or(0)))
    }
}
