//! The values of an event, packed as `mote_layout::types` says, and the shape that they have together.

use mote_layout::record::FIELDS_MAX;
use std::cell::Cell;
use std::error::Error;
use std::fmt::{self, Write};
use tracing_core::field::{Field, Visit};

/// The type of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    I64,
    U64,
    F64,
    Bool,
    Str,
    Bytes,
}

/// Which fields of a callsite have values, by their number, and of which type.
pub(crate) type Shape = [(u16, Kind)];

/// Values in the making.
#[derive(Debug, Default)]
pub(crate) struct Values {
    bytes: Vec<u8>,
    shape: Vec<(u16, Kind)>,
    /// The context of a filter, made when there is one.
    words: Vec<u64>,
}

impl Kind {
    /// Bytes that a packed value takes at the start of `rest`.
    fn len(self, rest: &[u8]) -> usize {
        let len = match self {
            Kind::I64 | Kind::U64 | Kind::F64 => 8,
            Kind::Bool => 1,
            Kind::Str => rest.iter().position(|byte| *byte == 0).map_or(rest.len(), |end| end + 1),
            Kind::Bytes => {
                let count = rest.first_chunk().map_or(0, |count| u16::from_le_bytes(*count));
                2 + usize::from(count)
            }
        };
        len.min(rest.len())
    }
}

/// Where bytes begin and end; nothing is at no place.
fn range(bytes: Option<&[u8]>) -> [u64; 2] {
    let range = bytes.unwrap_or(&[]).as_ptr_range();
    [range.start.expose_provenance() as u64, range.end.expose_provenance() as u64]
}

/// Zeros behind the values: the ring reads whole words.
const SLACK: [u8; 8] = [0; 8];

thread_local! {
    /// The thread's buffers, absent while it fills them: a value's `Debug` may emit events itself.
    static BUFFERS: Cell<Values> =
        const { Cell::new(Values { bytes: Vec::new(), shape: Vec::new(), words: Vec::new() }) };
}

impl Values {
    /// Runs `fill_and_use` with buffers that the thread keeps from event to event.
    ///
    /// # Cost
    /// Allocates for the first events of a thread, and for one that is larger than those before.
    pub(crate) fn with(fill_and_use: impl FnOnce(&mut Values)) {
        // A thread that is ending has no buffers any more, and gets new ones.
        let mut values = BUFFERS.try_with(Cell::take).unwrap_or_default();
        values.bytes.clear();
        values.shape.clear();
        fill_and_use(&mut values);
        let _ = BUFFERS.try_with(|buffers| buffers.set(values));
    }

    /// Adds a number that is not of the callsite: a span's id.
    pub(crate) fn add_id(&mut self, id: u64) {
        self.bytes.extend_from_slice(&id.to_le_bytes());
    }

    /// The shape so far.
    pub(crate) fn shape(&self) -> &Shape {
        &self.shape
    }

    /// The context of a filter (`mote_layout::context`): `ids` numbers that are not of the callsite, then the values.
    /// It is made of the packed values, because tracing gives each once; valid until the next value is added.
    pub(crate) fn words(&mut self, ids: usize) -> &[u64] {
        self.words.clear();
        let mut rest = self.bytes.as_slice();
        let ids = std::iter::repeat_n(Kind::U64, ids);
        for kind in ids.chain(self.shape.iter().map(|(_, kind)| *kind)) {
            let (field, behind) = rest.split_at_checked(kind.len(rest)).unwrap_or((rest, &[]));
            match kind {
                Kind::I64 | Kind::U64 | Kind::F64 | Kind::Bool => {
                    let mut word = [0; 8];
                    word.iter_mut().zip(field).for_each(|(to, byte)| *to = *byte);
                    self.words.push(u64::from_le_bytes(word));
                }
                Kind::Str => self.words.extend(range(field.get(..field.len().saturating_sub(1)))),
                Kind::Bytes => self.words.extend(range(field.get(2..))),
            }
            rest = behind;
        }
        &self.words
    }

    /// The values packed, and how many of the bytes they take: the others are there to be read.
    pub(crate) fn packed(&mut self) -> (&[u8], usize) {
        let len = self.bytes.len();
        self.bytes.extend_from_slice(&SLACK);
        (&self.bytes, len)
    }

    fn add(&mut self, field: &Field, kind: Kind, bytes: &[u8]) {
        // Fields beyond the 65,536th cannot be in one event of 64 KiB.
        let Ok(index) = u16::try_from(field.index()) else { return };
        self.shape.push((index, kind));
        self.bytes.extend_from_slice(bytes);
    }

    fn add_text(&mut self, field: &Field, text: fmt::Arguments<'_>) {
        self.add(field, Kind::Str, &[]);
        let mut to = Text { to: &mut self.bytes, ended: false };
        // An error is one of the value's own, or our answer to a text that is too long: the record is then too big,
        // and will be counted as lost.
        let _ = to.write_fmt(text);
        self.bytes.push(0);
    }
}

impl Visit for Values {
    fn record_i64(&mut self, field: &Field, value: i64) {
        self.add(field, Kind::I64, &value.to_le_bytes());
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.add(field, Kind::U64, &value.to_le_bytes());
    }

    fn record_f64(&mut self, field: &Field, value: f64) {
        self.add(field, Kind::F64, &value.to_le_bytes());
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.add(field, Kind::Bool, &[u8::from(value)]);
    }

    fn record_i128(&mut self, field: &Field, value: i128) {
        self.add_text(field, format_args!("{value}"));
    }

    fn record_u128(&mut self, field: &Field, value: u128) {
        self.add_text(field, format_args!("{value}"));
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.add_text(field, format_args!("{value}"));
    }

    fn record_bytes(&mut self, field: &Field, value: &[u8]) {
        let count = u16::try_from(value.len()).unwrap_or(u16::MAX);
        self.add(field, Kind::Bytes, &count.to_le_bytes());
        // More than can be counted is too big for an event: what is left makes it so.
        self.bytes.extend_from_slice(value.get(..=FIELDS_MAX).unwrap_or(value));
    }

    fn record_error(&mut self, field: &Field, value: &(dyn Error + 'static)) {
        self.add_text(field, format_args!("{value}"));
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.add_text(field, format_args!("{value:?}"));
    }
}

/// Text up to its first NUL, which would end it for the reader of the trace.
struct Text<'a> {
    to: &'a mut Vec<u8>,
    ended: bool,
}

impl Write for Text<'_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        if self.ended {
            return Ok(());
        }
        let bytes = text.as_bytes();
        let end = bytes.iter().position(|byte| *byte == 0);
        self.ended = end.is_some();
        let bytes = bytes.get(..end.unwrap_or(bytes.len())).unwrap_or(bytes);
        let room = (FIELDS_MAX + 1).saturating_sub(self.to.len());
        self.to.extend_from_slice(bytes.get(..room).unwrap_or(bytes));
        if bytes.len() > room { Err(fmt::Error) } else { Ok(()) }
    }
}
