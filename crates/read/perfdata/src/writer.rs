//! A file that is written: events first, then records one after the other, features at the end.

use crate::bytes::Out;
use crate::error::Error;
use crate::header::{FILE_HEADER, Features, MAGIC, Section};
use crate::reader::Event;
use crate::record::{Auxtrace, Record, SampleFormat, SampleId};
use crate::{Attribute, attribute};
use std::io::{self, Read, Seek, SeekFrom, Write};

/// Writes a file.
#[derive(Debug)]
pub struct Writer<W> {
    to: W,
    format: SampleFormat,
    attributes: Section,
    data: Section,
}

/// A piece of a hardware trace that is to be written: its `size` is that of the bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NewPiece {
    /// See [`Auxtrace`].
    pub offset: u64,
    /// See [`Auxtrace`].
    pub reference: u64,
    /// See [`Auxtrace`].
    pub idx: u32,
    /// See [`Auxtrace`].
    pub tid: i32,
    /// See [`Auxtrace`].
    pub cpu: i32,
}

impl<W: Write + Seek> Writer<W> {
    /// Begins a file with these events. Records are those of the first one, which says what stands behind them.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn new(mut to: W, events: &[Event]) -> Result<Writer<W>, Error> {
        let mut out = Out(vec![0; FILE_HEADER as usize]);
        let mut ids = Vec::new();
        for event in events {
            ids.push(Section { offset: out.0.len() as u64, size: 8 * event.ids.len() as u64 });
            event.ids.iter().for_each(|id| _ = out.u64(*id));
        }
        let offset = out.0.len() as u64;
        for (event, ids) in events.iter().zip(ids) {
            out.bytes(&event.attribute.write());
            ids.write(&mut out);
        }
        let attributes = Section { offset, size: out.0.len() as u64 - offset };
        to.write_all(&out.0)?;
        let first = events.first().map_or(Attribute::default(), |event| event.attribute);
        let data = Section { offset: out.0.len() as u64, size: 0 };
        Ok(Writer { to, format: SampleFormat::of(&first), attributes, data })
    }

    /// Writes a record.
    ///
    /// # Errors
    /// It is too long, or cannot be written.
    pub fn record(&mut self, record: &Record, id: &SampleId) -> Result<(), Error> {
        let bytes = record.write(id, self.format)?;
        self.to.write_all(&bytes)?;
        self.data.size += bytes.len() as u64;
        Ok(())
    }

    /// Writes a piece of a hardware trace, which is filled up with zeros to 8 bytes (of Intel PT: padding).
    ///
    /// # Errors
    /// It cannot be read or written; it has not so many bytes.
    pub fn piece(&mut self, piece: &NewPiece, size: u64, bytes: impl Read) -> Result<(), Error> {
        let NewPiece { offset, reference, idx, tid, cpu } = *piece;
        let whole = size.next_multiple_of(8);
        let record = Record::Auxtrace(Auxtrace { size: whole, offset, reference, idx, tid, cpu });
        self.record(&record, &SampleId::default())?;
        let copied = io::copy(&mut bytes.take(size), &mut self.to)?;
        if copied < size {
            return Err(Error::Cut { len: copied, what: "hardware trace" });
        }
        self.to.write_all(&[0; 8][..(whole - size) as usize])?;
        self.data.size += whole;
        Ok(())
    }

    /// Writes the features, and the header in front of everything.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn finish(mut self, features: &Features) -> Result<W, Error> {
        let mut table = Out::default();
        let mut bits = [0_u64; 4];
        let count = features.all().count() as u64;
        let mut at = self.data.offset + self.data.size + count * Section::BYTES;
        for (number, bytes) in features.all() {
            bits[number as usize / 64] |= 1 << (number % 64);
            Section { offset: at, size: bytes.len() as u64 }.write(&mut table);
            at += bytes.len() as u64;
        }
        self.to.write_all(&table.0)?;
        for (_, bytes) in features.all() {
            self.to.write_all(bytes)?;
        }
        let mut header = Out::default();
        header.bytes(MAGIC).u64(FILE_HEADER).u64(attribute::BYTES as u64 + Section::BYTES);
        self.attributes.write(&mut header);
        self.data.write(&mut header);
        Section::default().write(&mut header);
        bits.iter().for_each(|bits| _ = header.u64(*bits));
        self.to.seek(SeekFrom::Start(0))?;
        self.to.write_all(&header.0)?;
        self.to.flush()?;
        Ok(self.to)
    }
}
