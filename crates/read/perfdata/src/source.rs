//! Where the bytes of a file come from.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

/// Bytes by offset: a file, or memory.
pub trait Source {
    /// How many there are.
    ///
    /// # Errors
    /// As stat(2).
    fn len(&self) -> io::Result<u64>;

    /// Reads bytes from an offset on, as many as there is room for and there are; 0 at the end.
    ///
    /// # Errors
    /// As read(2).
    fn read_at(&self, offset: u64, into: &mut [u8]) -> io::Result<usize>;

    /// True when there are none.
    ///
    /// # Errors
    /// As [`Source::len`].
    fn is_empty(&self) -> io::Result<bool> {
        self.len().map(|len| len == 0)
    }
}

impl Source for File {
    fn len(&self) -> io::Result<u64> {
        self.metadata().map(|file| file.len())
    }

    fn read_at(&self, offset: u64, into: &mut [u8]) -> io::Result<usize> {
        let mut done = 0;
        while done < into.len() {
            match FileExt::read_at(self, &mut into[done..], offset.saturating_add(done as u64)) {
                Ok(0) => break,
                Ok(read) => done += read,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(done)
    }
}

impl Source for [u8] {
    fn len(&self) -> io::Result<u64> {
        Ok(self.len() as u64)
    }

    fn read_at(&self, offset: u64, into: &mut [u8]) -> io::Result<usize> {
        let from = usize::try_from(offset).unwrap_or(usize::MAX);
        let bytes = self.get(from..).unwrap_or_default();
        let len = bytes.len().min(into.len());
        into[..len].copy_from_slice(&bytes[..len]);
        Ok(len)
    }
}

impl Source for Vec<u8> {
    fn len(&self) -> io::Result<u64> {
        Source::len(self.as_slice())
    }

    fn read_at(&self, offset: u64, into: &mut [u8]) -> io::Result<usize> {
        self.as_slice().read_at(offset, into)
    }
}

impl<S: Source + ?Sized> Source for &S {
    fn len(&self) -> io::Result<u64> {
        S::len(self)
    }

    fn read_at(&self, offset: u64, into: &mut [u8]) -> io::Result<usize> {
        S::read_at(self, offset, into)
    }
}

/// Reads all of a part, which has to be there.
pub(crate) fn read_exact(
    source: &(impl Source + ?Sized),
    offset: u64,
    into: &mut [u8],
    what: &'static str,
) -> Result<(), crate::Error> {
    if source.read_at(offset, into)? == into.len() {
        return Ok(());
    }
    Err(crate::Error::Cut { len: source.len()?, what })
}
