//! Where the packets of a trace go. Streams know nothing of files: a sink may be a directory
//! ([`crate::output::packets`]), memory ([`crate::output::memory`]), a connection. A new one is a file here, and a line
//! in [`crate::output::streams`].

use mote_layout::packet::{CONTENT_SIZE_AT, HEADER_BYTES};
use mote_ring::reader::{Chunk, Reader};
use mote_sys::Result;
use mote_sys::fd::{self, Fd};
use std::fmt::Debug;

/// Where the streams of a trace go.
pub(crate) trait TraceSink: Debug + Send + Sync {
    /// Begins a stream of this name.
    ///
    /// # Errors
    /// As making a file.
    fn stream(&self, name: &str) -> Result<Box<dyn StreamSink>>;

    /// Tells the metadata as they are now, before the first packet that needs them. They are in the recording's
    /// directory already.
    fn tell_metadata(&self, text: &str);
}

/// Where the packets of one stream go.
pub(crate) trait StreamSink: Debug + Send {
    /// Adds a packet. Its size is filled in. Returns where its content lies, by which it can be read back and amended.
    ///
    /// # Errors
    /// `ENOSPC` when there is no room for all of it, and what the sink says. The packet is not in the stream then.
    fn add(&mut self, header: [u8; HEADER_BYTES], content: &dyn Content) -> Result<u64>;

    /// Reads content of a packet back. Returns how many bytes.
    ///
    /// # Errors
    /// As pread(2).
    fn read(&self, at: u64, into: &mut [u8]) -> Result<usize>;

    /// Says that of the packet whose content is at `at` only `len` bytes are good.
    ///
    /// # Errors
    /// As pwrite(2).
    fn cut(&self, at: u64, len: usize) -> Result<()>;

    /// Says that the packet whose content is at `at` ends at this time, in ticks.
    ///
    /// # Errors
    /// As pwrite(2).
    fn end_at(&self, at: u64, time: u64) -> Result<()>;

    /// Whether what was written cannot be found any more.
    fn is_removed(&self) -> bool;

    /// Ends the stream behind its last packet.
    fn finish(&mut self);
}

/// The content of a packet, where it lies.
pub(crate) trait Content {
    /// Its bytes.
    fn len(&self) -> usize;

    /// Writes `header` and the content with one system call. Returns the bytes written.
    ///
    /// # Errors
    /// As pwritev(2).
    fn write_to(&self, header: &[u8], fd: &Fd, at: u64) -> Result<usize>;

    /// Copies the content, all of it. False when writers have overwritten it meanwhile: then it is not to be used.
    fn copy_to(&self, into: &mut [u8]) -> bool;
}

/// Sets the size of a whole packet in its header.
pub(crate) fn set_packet_size(header: &mut [u8; HEADER_BYTES], bytes: u64) {
    header[PACKET_SIZE_AT..PACKET_SIZE_AT + 8].copy_from_slice(&(bytes * 8).to_le_bytes());
}

/// Byte offset of `packet_size` in a packet's header.
pub(crate) const PACKET_SIZE_AT: usize = CONTENT_SIZE_AT + 8;

/// Bytes in memory.
pub(crate) struct Bytes<'b>(pub(crate) &'b [u8]);

impl Content for Bytes<'_> {
    fn len(&self) -> usize {
        self.0.len()
    }

    fn write_to(&self, header: &[u8], fd: &Fd, at: u64) -> Result<usize> {
        fd::write_slices_at(fd, [header, self.0], at)
    }

    fn copy_to(&self, into: &mut [u8]) -> bool {
        into.copy_from_slice(self.0);
        true
    }
}

/// A part of a ring: goes to a file without a copy.
pub(crate) struct InRing<'r> {
    pub(crate) reader: &'r Reader<'static>,
    pub(crate) chunk: Chunk,
}

impl Content for InRing<'_> {
    fn len(&self) -> usize {
        self.chunk.len()
    }

    fn write_to(&self, header: &[u8], fd: &Fd, at: u64) -> Result<usize> {
        self.reader.write_to(self.chunk, header, fd, at)
    }

    fn copy_to(&self, into: &mut [u8]) -> bool {
        self.reader.copy(self.chunk, into)
    }
}
