//! Where the bytes of a data stream lie: a file, memory, later a socket or a decoder that makes packets on demand.
//!
//! A reader asks for a packet's header and then for the whole packet, so that an implementation is called twice for
//! thousands of events, and an event costs the same wherever it comes from.

use std::fmt::Debug;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::sync::Arc;

/// A data stream that can be read more than once, from several places at the same time.
///
/// A trace with thousands of streams holds one of these for each, so it keeps no descriptor open.
pub trait Storage: Debug + Send + Sync {
    /// Opens the stream for one reader.
    ///
    /// # Errors
    /// The stream cannot be read.
    fn open(&self) -> io::Result<Box<dyn Bytes>>;
}

/// The bytes of an open data stream: packets one behind the other, as CTF lays them out.
pub trait Bytes: Debug + Send {
    /// Number of bytes when the stream was opened.
    fn size(&self) -> u64;

    /// Reads into the front of `buffer` what stands at byte `at`; returns the number of bytes, 0 at the end.
    ///
    /// # Errors
    /// The bytes cannot be read; `Interrupted` is tried again.
    fn read_at(&self, buffer: &mut [u8], at: u64) -> io::Result<usize>;
}

/// A file, by its path.
impl Storage for PathBuf {
    fn open(&self) -> io::Result<Box<dyn Bytes>> {
        let file = File::open(self)?;
        let size = file.metadata()?.len();
        Ok(Box::new(OpenFile { file, size }))
    }
}

/// A file and its size when it was opened: what is appended later belongs to a later reading.
#[derive(Debug)]
struct OpenFile {
    file: File,
    size: u64,
}

impl Bytes for OpenFile {
    fn size(&self) -> u64 {
        self.size
    }

    fn read_at(&self, buffer: &mut [u8], at: u64) -> io::Result<usize> {
        self.file.read_at(buffer, at)
    }
}

/// Packets in memory.
impl Storage for Arc<[u8]> {
    fn open(&self) -> io::Result<Box<dyn Bytes>> {
        Ok(Box::new(Memory(Arc::clone(self))))
    }
}

#[derive(Debug)]
struct Memory(Arc<[u8]>);

impl Bytes for Memory {
    fn size(&self) -> u64 {
        self.0.len() as u64
    }

    fn read_at(&self, buffer: &mut [u8], at: u64) -> io::Result<usize> {
        let rest = usize::try_from(at).ok().and_then(|at| self.0.get(at..)).unwrap_or(&[]);
        let len = rest.len().min(buffer.len());
        buffer[..len].copy_from_slice(&rest[..len]);
        Ok(len)
    }
}
