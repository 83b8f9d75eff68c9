//! Packets as files: `TID.pt` or `cpuN.pt` in a directory, the bytes that a processor would have written for one thread
//! or for all that it ran.

use crate::error::{Error, cannot};
use crate::sink::Sink;
use crate::trace::Streams;
use mote_capture::{Of, name_of};
use mote_pt::packet::{Encoder, Packet};
use std::fs::File;
use std::path::PathBuf;

/// Bytes that are written at once.
const CHUNK: usize = 64 << 10;

/// A file for each stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Files {
    folder: PathBuf,
}

/// The file of a stream.
#[derive(Debug)]
pub struct Stream {
    encoder: Encoder,
    file: File,
    failure: Option<Error>,
}

impl Files {
    /// In a directory, which must be there.
    pub fn new(folder: impl Into<PathBuf>) -> Files {
        Files { folder: folder.into() }
    }
}

impl Streams for Files {
    type Sink = Stream;

    fn open(&mut self, of: Of) -> Result<Stream, Error> {
        let path = self.folder.join(name_of(of));
        let file = File::create_new(&path).map_err(cannot(format!("make {}", path.display())))?;
        Ok(Stream { encoder: Encoder::new(), file, failure: None })
    }

    fn close(&mut self, _: Of, mut stream: Stream) -> Result<(), Error> {
        stream.write();
        stream.failure.map_or(Ok(()), Err)
    }
}

impl Sink for Stream {
    fn packet(&mut self, packet: Packet) {
        if let Err(why) = self.encoder.push(packet) {
            self.failure.get_or_insert(Error::Packet(why));
        }
        if self.encoder.bytes().len() >= CHUNK {
            self.write();
        }
    }
}

impl Stream {
    fn write(&mut self) {
        if let Err(why) = self.encoder.write_to(&mut self.file) {
            self.failure.get_or_insert_with(|| cannot("write packets")(why));
        }
    }
}
