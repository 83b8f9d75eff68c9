//! A data stream, of which one packet is in memory.

use crate::storage::{Bytes, Storage};
use std::io;

/// Largest packet that is read into memory.
pub(crate) const MAX_PACKET_BYTES: u64 = 256 << 20;

/// Bytes that a search reads at once.
const CHUNK: usize = 64 << 10;

/// The magic number of packets of events as it stands in a file, in both byte orders.
const MAGICS: [[u8; 4]; 2] = [0xc1fc_1fc1_u32.to_le_bytes(), 0xc1fc_1fc1_u32.to_be_bytes()];

/// An open stream and a window on it.
#[derive(Debug)]
pub(crate) struct Window {
    stream: Box<dyn Bytes>,
    size: u64,
    buffer: Vec<u8>,
    /// Where the window begins in the stream.
    at: u64,
    /// Bytes of `buffer` that the window shows.
    len: usize,
}

impl Window {
    pub(crate) fn open(storage: &dyn Storage) -> io::Result<Window> {
        let stream = storage.open()?;
        let size = stream.size();
        Ok(Window { stream, size, buffer: Vec::new(), at: 0, len: 0 })
    }

    /// Looks whether there are more bytes by now; true when there are.
    pub(crate) fn look_again(&mut self) -> bool {
        let before = std::mem::replace(&mut self.size, self.stream.size());
        self.size = self.size.max(before);
        self.size > before
    }

    /// Bytes of the stream when it was looked at last.
    pub(crate) fn size(&self) -> u64 {
        self.size
    }

    /// The window: what the last `load` asked for, less what is behind the stream's end.
    #[inline]
    pub(crate) fn bytes(&self) -> &[u8] {
        self.buffer.get(..self.len).unwrap_or(&[])
    }

    /// Moves the window to `len` bytes from `at`. What it showed already is not read again.
    pub(crate) fn load(&mut self, at: u64, len: usize) -> io::Result<()> {
        let left = usize::try_from(self.size.saturating_sub(at)).unwrap_or(usize::MAX);
        let len = len.min(left);
        let have = if at == self.at { self.len.min(len) } else { 0 };
        self.at = at;
        self.len = have;
        if self.buffer.len() < len {
            self.buffer.resize(len, 0);
        }
        let read = read_full(&*self.stream, &mut self.buffer[have..len], at + have as u64)?;
        self.len = have + read;
        Ok(())
    }

    /// Where the next packet's magic number stands at or behind `from`.
    pub(crate) fn find_magic(&self, from: u64) -> io::Result<Option<u64>> {
        let mut chunk = vec![0; CHUNK];
        let mut at = from;
        while at < self.size {
            let read = read_full(&*self.stream, &mut chunk, at)?;
            if read < MAGICS[0].len() {
                break;
            }
            let bytes = &chunk[..read];
            if let Some(place) = bytes.windows(4).position(|w| w[0] == 0xc1 && MAGICS.iter().any(|m| m == w))
            {
                return Ok(Some(at + place as u64));
            }
            // A magic number may straddle two chunks.
            at += (read - 3) as u64;
        }
        Ok(None)
    }
}

/// Reads until `buffer` is full or the stream ends.
fn read_full(stream: &dyn Bytes, buffer: &mut [u8], at: u64) -> io::Result<usize> {
    let mut done = 0;
    while done < buffer.len() {
        match stream.read_at(&mut buffer[done..], at + done as u64) {
            Ok(0) => break,
            Ok(n) => done += n,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(done)
}
