//! A file: its events, and its records one after the other.

use crate::Attribute;
use crate::attribute;
use crate::bytes::Bytes;
use crate::error::Error;
use crate::header::{FILE_HEADER, Features, FileHeader, SHORT_HEADER, Section};
use crate::record::{HEADER, Header, Record, SampleFormat, SampleId, Sampled, kind};
use crate::source::{Source, read_exact};
use crate::unpack::{self, Unpacker};
use std::collections::HashMap;

/// Bytes that are read at once; more than the longest record.
const WINDOW: usize = 256 << 10;
/// Events of a file, and ids of one, at most: more are not believed.
const EVENTS_MAX: u64 = 1 << 16;
const IDS_MAX: u64 = 1 << 20;

/// An event of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// The attribute by which the event was opened.
    pub attribute: Attribute,
    /// Its ids: one for each thread or CPU.
    pub ids: Vec<u64>,
}

/// A file of perf.
#[derive(Debug)]
pub struct PerfData<S> {
    source: S,
    data: Section,
    is_streamed: bool,
    events: Vec<Event>,
    features: Features,
    problems: Vec<String>,
}

/// A part of the file, with a piece of a hardware trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Piece {
    /// Where in the file.
    pub offset: u64,
    /// Bytes that are there: fewer than the record says where the file is cut.
    pub len: u64,
}

/// A record, and where it stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Where in the file; of one that was compressed, where the last compressed ones stand that were read.
    pub offset: u64,
    /// Bytes of the record itself.
    pub size: u16,
    /// The record itself.
    pub record: Record,
    /// Of whom it is.
    pub id: SampleId,
    /// What follows it: of [`Record::Auxtrace`] its bytes.
    pub piece: Option<Piece>,
    /// Where in the file the part of a hardware trace lies that a sample has; nothing of one that was compressed.
    pub sampled: Option<Piece>,
    /// It was compressed.
    pub was_compressed: bool,
}

impl<S: Source> PerfData<S> {
    /// Opens a file, or what was written to a pipe and kept.
    ///
    /// A file that perf could not finish has no features; all records up to its end are read.
    ///
    /// # Errors
    /// It is no file of perf, or of a kind that is not read, or ends before its records.
    pub fn open(source: S) -> Result<PerfData<S>, Error> {
        let len = source.len()?;
        let mut problems = Vec::new();
        match FileHeader::read(&source)? {
            FileHeader::Streamed => {
                let data = Section { offset: SHORT_HEADER, size: len.saturating_sub(SHORT_HEADER) };
                let mut file = PerfData {
                    source,
                    data,
                    is_streamed: true,
                    events: Vec::new(),
                    features: Features::default(),
                    problems,
                };
                file.read_front();
                Ok(file)
            }
            FileHeader::File { attribute_size, attributes, mut data, features } => {
                let events = events(&source, attribute_size, attributes)?;
                let there = len.saturating_sub(data.offset);
                let is_finished = data.size > 0 || features == [0; 4];
                if !is_finished || data.size > there {
                    let why = if is_finished { "is cut" } else { "was not finished: perf has been killed" };
                    problems.push(format!("the file {why}; all that there is of it was read"));
                    data.size = there;
                }
                let is_whole = data.offset >= FILE_HEADER && problems.is_empty();
                let features = if is_whole {
                    Features::read(&source, features, data, &mut problems)?
                } else {
                    Features::default()
                };
                Ok(PerfData { source, data, is_streamed: false, events, features, problems })
            }
        }
    }

    /// Of a file from a pipe: events and features, which stand before the first record that is of an event. Where it
    /// ends or is damaged before, the records say so.
    fn read_front(&mut self) {
        let mut events = Vec::new();
        let mut features = Features::default();
        for entry in self.records().map_while(Result::ok) {
            match entry.record {
                Record::Attribute { attribute, ids } => events.push(Event { attribute, ids }),
                Record::Feature { number, bytes } => {
                    features.set(u32::try_from(number).unwrap_or(u32::MAX), bytes);
                }
                // perf may have synthesized some before it says of which event they are.
                record if record.kind() < kind::OF_PERF && !events.is_empty() => break,
                _ => {}
            }
        }
        (self.events, self.features) = (events, features);
    }

    /// The events that the file has records of.
    #[must_use]
    pub fn events(&self) -> &[Event] {
        &self.events
    }

    /// What is said of the machine and of the recording.
    #[must_use]
    pub fn features(&self) -> &Features {
        &self.features
    }

    /// What is wrong with the file, as sentences.
    #[must_use]
    pub fn problems(&self) -> &[String] {
        &self.problems
    }

    /// Whether it was written to a pipe.
    #[must_use]
    pub fn is_streamed(&self) -> bool {
        self.is_streamed
    }

    /// Where it comes from: what [`Piece`]s are read of.
    pub fn source(&self) -> &S {
        &self.source
    }

    /// Its records, in the order of the file: that of time for each CPU only. Those that were compressed come in their
    /// order, too, but perhaps behind others that stand behind them. After an error there are no more.
    ///
    /// # Cost
    /// 256 KiB of memory; the bytes of pieces are passed over. For compressed records, as much as their packer has
    /// used: 8 MiB, and 128 MiB at most, however long they become.
    pub fn records(&self) -> Records<'_, S> {
        let formats = Formats::new(&self.events);
        let end = self.data.offset.saturating_add(self.data.size);
        Records {
            source: &self.source,
            formats,
            at: self.data.offset,
            end,
            window: Vec::new(),
            begin: 0,
            is_done: false,
            unpacker: None,
            packed_at: 0,
        }
    }
}

/// The events of a file.
fn events(source: &impl Source, size: u64, section: Section) -> Result<Vec<Event>, Error> {
    let most = (attribute::BYTES_MAX as u64) + Section::BYTES;
    if !(attribute::BYTES_MIN as u64 + Section::BYTES..=most).contains(&size) {
        return Err(Error::Size { what: "attribute", size });
    }
    let count = section.size / size;
    if count > EVENTS_MAX {
        return Err(Error::Size { what: "table of events", size: section.size });
    }
    let mut bytes = vec![0; size as usize];
    let mut events = Vec::new();
    for number in 0..count {
        let at = section.offset.saturating_add(number * size);
        read_exact(source, at, &mut bytes, "events")?;
        let (attribute, ids) = bytes.split_at((size - Section::BYTES) as usize);
        let ids = Section::read(&mut Bytes(ids)).unwrap_or_default();
        let attribute = Attribute::read(attribute).ok_or(Error::Size { what: "attribute", size })?;
        events.push(Event { attribute, ids: read_ids(source, ids)? });
    }
    Ok(events)
}

fn read_ids(source: &impl Source, section: Section) -> Result<Vec<u64>, Error> {
    if section.size / 8 > IDS_MAX {
        return Err(Error::Size { what: "table of ids", size: section.size });
    }
    let mut bytes = vec![0; section.size as usize / 8 * 8];
    read_exact(source, section.offset, &mut bytes, "ids")?;
    let mut bytes = Bytes(&bytes);
    Ok(std::iter::from_fn(|| bytes.u64()).collect())
}

/// What stands behind the records of which event.
#[derive(Clone, Debug, Default)]
struct Formats {
    first: SampleFormat,
    by_id: HashMap<u64, SampleFormat>,
}

impl Formats {
    fn new(events: &[Event]) -> Formats {
        let mut formats = Formats::default();
        events.iter().for_each(|event| formats.add(event));
        formats
    }

    fn add(&mut self, event: &Event) {
        let format = SampleFormat::of(&event.attribute);
        if self.by_id.is_empty() && self.first == SampleFormat::default() {
            self.first = format;
        }
        self.by_id.extend(event.ids.iter().map(|id| (*id, format)));
    }

    /// That of a record's event: the first one's where its id says nothing, as of records that perf has made.
    fn of(&self, of: u32, body: &[u8]) -> SampleFormat {
        let id =
            if of == kind::SAMPLE { self.first.id_in_sample(body) } else { self.first.id_behind(of, body) };
        id.and_then(|id| self.by_id.get(&id)).copied().unwrap_or(self.first)
    }
}

/// The records of a file.
#[derive(Debug)]
pub struct Records<'p, S> {
    source: &'p S,
    formats: Formats,
    at: u64,
    end: u64,
    /// Bytes of the file from `begin` on.
    window: Vec<u8>,
    begin: u64,
    is_done: bool,
    /// Where there are compressed records.
    unpacker: Option<Box<Unpacker>>,
    /// Where the last of them stand.
    packed_at: u64,
}

impl<S: Source> Records<'_, S> {
    /// Bytes from `at` on; fewer at the end.
    fn bytes(&mut self, len: usize) -> Result<&[u8], Error> {
        let start = self.at.wrapping_sub(self.begin);
        let is_there = start <= self.window.len() as u64 && self.window.len() as u64 - start >= len as u64;
        if !is_there {
            let want = self.end.saturating_sub(self.at).min(WINDOW as u64) as usize;
            self.window.resize(want, 0);
            let read = self.source.read_at(self.at, &mut self.window)?;
            self.window.truncate(read);
            self.begin = self.at;
        }
        let start = (self.at - self.begin) as usize;
        let rest = self.window.get(start..).unwrap_or_default();
        Ok(rest.get(..len).unwrap_or(rest))
    }

    fn entry(&mut self) -> Result<Option<Entry>, Error> {
        loop {
            if let Some(bytes) = self.unpacked()? {
                let entry = self.read(&bytes, self.packed_at);
                return Ok(Some(Entry { was_compressed: true, ..entry }));
            }
            let offset = self.at;
            if offset >= self.end {
                if self.end_packed()? {
                    continue;
                }
                return Ok(None);
            }
            let (kind, bytes) = self.next_bytes()?;
            self.at += bytes.len() as u64;
            if matches!(kind, kind::COMPRESSED | kind::COMPRESSED2) {
                self.unpack(kind, &bytes, offset)?;
                continue;
            }
            let mut entry = self.read(&bytes, offset);
            entry.piece = self.piece(&entry.record);
            entry.sampled = sampled(&entry);
            return Ok(Some(entry));
        }
    }

    /// The next record of the file, as bytes, and its kind.
    fn next_bytes(&mut self) -> Result<(u32, Vec<u8>), Error> {
        let offset = self.at;
        let cut = Error::Cut { len: self.end, what: "records" };
        let Some(header) = Header::read(self.bytes(HEADER)?) else { return Err(cut) };
        let size = usize::from(header.size);
        if size < HEADER {
            return Err(Error::Record { offset, size: header.size });
        }
        let bytes = self.bytes(size)?;
        if bytes.len() < size {
            return Err(cut);
        }
        Ok((header.kind, bytes.to_vec()))
    }

    fn read(&mut self, bytes: &[u8], offset: u64) -> Entry {
        let kind = Header::read(bytes).map_or(0, |header| header.kind);
        let format = self.formats.of(kind, bytes.get(HEADER..).unwrap_or_default());
        let (record, id) = Record::read(bytes, format);
        if let Record::Attribute { attribute, ids } = &record {
            self.formats.add(&Event { attribute: *attribute, ids: ids.clone() });
        }
        Entry {
            offset,
            size: bytes.len() as u16,
            record,
            id,
            piece: None,
            sampled: None,
            was_compressed: false,
        }
    }

    /// The next record of those that were compressed.
    fn unpacked(&mut self) -> Result<Option<Vec<u8>>, Error> {
        let Some(unpacker) = &mut self.unpacker else { return Ok(None) };
        let offset = self.packed_at;
        loop {
            let record = unpacker.record().map_err(|size| Error::Record { offset, size })?;
            if record.is_some() || !unpacker.go_on().map_err(|why| Error::Compressed { offset, why })? {
                return Ok(record);
            }
        }
    }

    fn unpack(&mut self, kind: u32, bytes: &[u8], offset: u64) -> Result<(), Error> {
        self.packed_at = offset;
        let packed = unpack::packed(bytes.get(HEADER..).unwrap_or_default(), kind == kind::COMPRESSED2);
        let packed = packed.ok_or_else(|| "there are fewer bytes than it says".to_owned());
        let done = packed.and_then(|packed| self.unpacker.get_or_insert_default().add(packed));
        done.map_err(|why| Error::Compressed { offset, why })
    }

    /// The file has ended; whether compressed records are left.
    fn end_packed(&mut self) -> Result<bool, Error> {
        let Some(unpacker) = &mut self.unpacker else { return Ok(false) };
        if unpacker.is_finished() {
            let cut = Error::Cut { len: self.end, what: "compressed records" };
            return if unpacker.is_whole() { Ok(false) } else { Err(cut) };
        }
        let offset = self.packed_at;
        unpacker.finish().map_err(|why| Error::Compressed { offset, why })?;
        Ok(true)
    }

    /// Passes over what follows a record.
    fn piece(&mut self, record: &Record) -> Option<Piece> {
        let len = match record {
            Record::Auxtrace(piece) => piece.size,
            // Its size, filled up to 8 bytes.
            Record::Other { kind: kind::HEADER_TRACING_DATA, bytes } => {
                u64::from(Bytes(bytes).u32()?).next_multiple_of(8)
            }
            _ => return None,
        };
        let piece = Piece { offset: self.at, len: len.min(self.end.saturating_sub(self.at)) };
        self.at = self.at.saturating_add(len);
        Some(piece)
    }
}

/// Where the bytes are that a sample has of a hardware trace.
fn sampled(entry: &Entry) -> Option<Piece> {
    let Record::Sample { sampled: Some(Sampled { at, len }), .. } = entry.record else { return None };
    Some(Piece { offset: entry.offset + (HEADER + at) as u64, len: len as u64 })
}

impl<S: Source> Iterator for Records<'_, S> {
    type Item = Result<Entry, Error>;

    fn next(&mut self) -> Option<Result<Entry, Error>> {
        if self.is_done {
            return None;
        }
        let entry = self.entry();
        // The bytes of a piece may be cut, too.
        let entry = match entry {
            Ok(None) if self.at > self.end => Err(Error::Cut { len: self.end, what: "hardware trace" }),
            other => other,
        };
        self.is_done = !matches!(entry, Ok(Some(_)));
        entry.transpose()
    }
}
