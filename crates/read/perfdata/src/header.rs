//! A file's first bytes, and its features: what is said of the machine and of the recording.

use crate::bytes::{Bytes, Out};
use crate::error::Error;
use crate::record::{Header, Record, SampleFormat};
use crate::source::{Source, read_exact};
use std::collections::BTreeMap;

/// `PERFILE2`, `PERFFILE`.
pub(crate) const MAGIC: &[u8; 8] = b"PERFILE2";
const MAGIC_OLD: &[u8; 8] = b"PERFFILE";
/// Bytes of the header of a file, and of what was written to a pipe.
pub(crate) const FILE_HEADER: u64 = 104;
pub(crate) const SHORT_HEADER: u64 = 16;
/// Longest feature that is read.
const FEATURE_MAX: u64 = 16 << 20;

/// Numbers of features (`enum` in tools/perf/util/header.h).
pub mod feature {
    /// Build ids of files.
    pub const BUILD_ID: u32 = 2;
    /// Name of the machine.
    pub const HOSTNAME: u32 = 3;
    /// The kernel's release.
    pub const OSRELEASE: u32 = 4;
    /// Version of perf.
    pub const VERSION: u32 = 5;
    /// The machine's architecture.
    pub const ARCH: u32 = 6;
    /// How many CPUs there are.
    pub const NRCPUS: u32 = 7;
    /// The processor's name.
    pub const CPUDESC: u32 = 8;
    /// The processor: `vendor,family,model,stepping`.
    pub const CPUID: u32 = 9;
    /// The command line.
    pub const CMDLINE: u32 = 11;
    /// Names of events.
    pub const EVENT_DESC: u32 = 12;
}

/// Where a part of the file is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Section {
    pub(crate) offset: u64,
    pub(crate) size: u64,
}

impl Section {
    pub(crate) const BYTES: u64 = 16;

    pub(crate) fn read(bytes: &mut Bytes<'_>) -> Option<Section> {
        Some(Section { offset: bytes.u64()?, size: bytes.u64()? })
    }

    pub(crate) fn write(self, out: &mut Out) {
        out.u64(self.offset).u64(self.size);
    }
}

/// The first bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FileHeader {
    /// Of what was written to a pipe: all else is in records.
    Streamed,
    File {
        attribute_size: u64,
        attributes: Section,
        data: Section,
        features: [u64; 4],
    },
}

impl FileHeader {
    pub(crate) fn read(source: &(impl Source + ?Sized)) -> Result<FileHeader, Error> {
        let mut start = [0; SHORT_HEADER as usize];
        let read = source.read_at(0, &mut start)?;
        let magic = start.first_chunk::<8>().filter(|_| read >= 8);
        let Some(magic) = magic else { return Err(Error::NoPerfData) };
        let mut reversed = *MAGIC;
        reversed.reverse();
        match magic {
            MAGIC => {}
            MAGIC_OLD => return Err(Error::Old),
            other if *other == reversed => return Err(Error::BigEndian),
            _ => return Err(Error::NoPerfData),
        }
        if read < start.len() {
            return Err(Error::Cut { len: source.len()?, what: "header" });
        }
        let size = Bytes(&start[8..]).u64().unwrap_or(0);
        match size {
            SHORT_HEADER => Ok(FileHeader::Streamed),
            // A later version's may be longer.
            FILE_HEADER..=4096 => {
                let mut rest = [0; (FILE_HEADER - SHORT_HEADER) as usize];
                read_exact(source, SHORT_HEADER, &mut rest, "header")?;
                FileHeader::parse(Bytes(&rest)).ok_or(Error::Size { what: "header", size })
            }
            _ => Err(Error::Size { what: "header", size }),
        }
    }

    fn parse(mut bytes: Bytes<'_>) -> Option<FileHeader> {
        let attribute_size = bytes.u64()?;
        let (attributes, data, _) =
            (Section::read(&mut bytes)?, Section::read(&mut bytes)?, Section::read(&mut bytes)?);
        let features = [bytes.u64()?, bytes.u64()?, bytes.u64()?, bytes.u64()?];
        Some(FileHeader::File { attribute_size, attributes, data, features })
    }
}

/// What is said of the machine and of the recording.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Features {
    all: BTreeMap<u32, Vec<u8>>,
}

impl Features {
    /// Reads those of a file, which stand behind its data; those that are cut are left out.
    pub(crate) fn read(
        source: &(impl Source + ?Sized),
        bits: [u64; 4],
        data: Section,
        problems: &mut Vec<String>,
    ) -> Result<Features, Error> {
        let mut features = Features::default();
        let len = source.len()?;
        let Some(mut at) = data.offset.checked_add(data.size) else { return Ok(features) };
        let numbers = (0..256_u32).filter(|bit| bits[*bit as usize / 64] >> (bit % 64) & 1 != 0);
        for number in numbers {
            let mut section = [0; Section::BYTES as usize];
            let read = source.read_at(at, &mut section)?;
            let section = Section::read(&mut Bytes(&section[..read]));
            at = at.saturating_add(Section::BYTES);
            let is_there = |section: &Section| {
                section.offset.checked_add(section.size).is_some_and(|end| end <= len)
                    && section.size <= FEATURE_MAX
            };
            match section.filter(is_there) {
                Some(section) => {
                    let mut bytes = vec![0; section.size as usize];
                    read_exact(source, section.offset, &mut bytes, "features")?;
                    features.all.insert(number, bytes);
                }
                None => problems.push(format!("feature {number} is cut or damaged")),
            }
        }
        Ok(features)
    }

    /// The bytes of a feature.
    #[must_use]
    pub fn bytes(&self, number: u32) -> Option<&[u8]> {
        self.all.get(&number).map(Vec::as_slice)
    }

    /// A feature that is a text.
    #[must_use]
    pub fn text(&self, number: u32) -> Option<String> {
        text(&mut Bytes(self.bytes(number)?))
    }

    /// The command line, in words.
    #[must_use]
    pub fn command(&self) -> Option<Vec<String>> {
        let mut bytes = Bytes(self.bytes(feature::CMDLINE)?);
        let count = bytes.u32()?;
        (0..count.min(1 << 16)).map(|_| text(&mut bytes)).collect()
    }

    /// Build ids of files that samples, or a hardware trace, met: each is a [`Record::BuildId`].
    #[must_use]
    pub fn build_ids(&self) -> Vec<Record> {
        let mut rest = self.bytes(feature::BUILD_ID).unwrap_or_default();
        let mut all = Vec::new();
        while let Some(header) = Header::read(rest)
            && let Some((record, behind)) = rest.split_at_checked(header.size.into())
            && record.len() >= 8
        {
            // Their kind is 0 in old files.
            let mut record = record.to_vec();
            record[..4].copy_from_slice(&crate::record::kind::HEADER_BUILD_ID.to_le_bytes());
            if let (build @ Record::BuildId { .. }, _) = Record::read(&record, SampleFormat::default()) {
                all.push(build);
            }
            rest = behind;
        }
        all
    }

    /// Adds a feature.
    pub fn set(&mut self, number: u32, bytes: Vec<u8>) {
        if number < 256 {
            self.all.insert(number, bytes);
        }
    }

    /// Adds a feature that is a text.
    pub fn set_text(&mut self, number: u32, words: &str) {
        let mut out = Out::default();
        put_text(words, &mut out);
        self.set(number, out.0);
    }

    /// Adds the command line.
    pub fn set_command(&mut self, words: &[&str]) {
        let mut out = Out::default();
        out.u32(words.len() as u32);
        words.iter().for_each(|word| put_text(word, &mut out));
        self.set(feature::CMDLINE, out.0);
    }

    /// Adds the names of a file's events.
    pub fn set_events(&mut self, events: &[crate::Event], names: &[&str]) {
        let mut out = Out::default();
        out.u32(events.len() as u32).u32(crate::attribute::BYTES as u32);
        for (event, name) in events.iter().zip(names) {
            out.bytes(&event.attribute.write()).u32(event.ids.len() as u32);
            put_text(name, &mut out);
            event.ids.iter().for_each(|id| _ = out.u64(*id));
        }
        self.set(feature::EVENT_DESC, out.0);
    }

    pub(crate) fn all(&self) -> impl Iterator<Item = (u32, &[u8])> {
        self.all.iter().map(|(number, bytes)| (*number, bytes.as_slice()))
    }
}

/// `struct perf_header_string`: its length, and so many bytes with NULs behind the text.
fn text(bytes: &mut Bytes<'_>) -> Option<String> {
    let len = bytes.u32()? as usize;
    let mut text = Bytes(bytes.take(len)?);
    Some(text.text().to_string_lossy().into_owned())
}

/// perf fills texts up to 64 bytes.
pub(crate) fn put_text(words: &str, out: &mut Out) {
    let len = (words.len() + 1).next_multiple_of(64);
    let mut bytes = words.as_bytes().to_vec();
    bytes.resize(len, 0);
    out.u32(len as u32).bytes(&bytes);
}
