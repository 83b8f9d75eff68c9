//! Where the bytes of a data stream lie: a file, memory, packets that arrive (`live`), later a decoder that
//! makes packets on demand.
//!
//! A reader asks for a packet's header and then for the whole packet, so that an implementation is called twice for
//! thousands of events, and an event costs the same wherever it comes from.

use std::fmt::Debug;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::sync::{Arc, LazyLock};

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
    /// Number of bytes: when the stream was opened, or, of one that grows, now. It never becomes less, and a stream
    /// that grows does so by whole packets: what was given once stays as it is.
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
        let share = Arc::clone(&KEPT);
        // Of the shares, one is that of the static itself.
        if Arc::strong_count(&share) <= KEPT_MAX + 1 {
            return Ok(Box::new(OpenFile { file, size, _share: share }));
        }
        Ok(Box::new(ClosedFile { path: self.clone(), size }))
    }
}

/// Files that readers keep open at the same time; the others are opened for each read. A recording can have more
/// streams than a process may have descriptors, of which a shell gives 1,024.
const KEPT_MAX: usize = 256;

/// Counts the files that are kept open: each has a share of it.
static KEPT: LazyLock<Arc<()>> = LazyLock::new(Arc::default);

/// A file and its size when it was opened: what is appended later belongs to a later reading.
#[derive(Debug)]
struct OpenFile {
    file: File,
    size: u64,
    _share: Arc<()>,
}

/// The same of a file that is opened for each read.
#[derive(Debug)]
struct ClosedFile {
    path: PathBuf,
    size: u64,
}

impl Bytes for ClosedFile {
    fn size(&self) -> u64 {
        self.size
    }

    fn read_at(&self, buffer: &mut [u8], at: u64) -> io::Result<usize> {
        File::open(&self.path)?.read_at(buffer, at)
    }
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
        Ok(copy_at(&self.0, buffer, at))
    }
}

/// Copies what stands at byte `at` into the front of `buffer`, for a storage in memory. Returns how many bytes.
pub fn copy_at(bytes: &[u8], buffer: &mut [u8], at: u64) -> usize {
    let rest = usize::try_from(at).ok().and_then(|at| bytes.get(at..)).unwrap_or(&[]);
    let len = rest.len().min(buffer.len());
    buffer[..len].copy_from_slice(&rest[..len]);
    len
}
