//! Little-endian words in a byte buffer, with every bound checked.

use crate::Error;

/// Puts words and bytes into a buffer; notes when it is too small instead of failing at once.
#[derive(Debug)]
pub struct Writer<'a> {
    buffer: &'a mut [u8],
    len: usize,
    overflow: bool,
}

impl<'a> Writer<'a> {
    /// Writes from the start of `buffer`.
    pub fn new(buffer: &'a mut [u8]) -> Writer<'a> {
        Writer { buffer, len: 0, overflow: false }
    }

    /// Appends 32-bit words, little-endian.
    pub fn words(&mut self, words: &[u32]) {
        for word in words {
            self.bytes(&word.to_le_bytes());
        }
    }

    /// Puts two words, the low one first.
    pub fn long(&mut self, long: u64) {
        self.bytes(&long.to_le_bytes());
    }

    /// Appends bytes; when they do not fit, [`Writer::finish`] returns nothing.
    pub fn bytes(&mut self, bytes: &[u8]) {
        match self.buffer.get_mut(self.len..).and_then(|rest| rest.get_mut(..bytes.len())) {
            Some(to) => {
                to.iter_mut().zip(bytes).for_each(|(to, from)| *to = *from);
                self.len += bytes.len();
            }
            None => self.overflow = true,
        }
    }

    /// What was written, or `None` when something did not fit.
    pub fn finish(self) -> Option<&'a [u8]> {
        if self.overflow { None } else { self.buffer.get(..self.len) }
    }
}

/// Takes words and bytes from a buffer.
#[derive(Debug)]
pub struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    /// Reads from the start of `bytes`.
    pub fn new(bytes: &'a [u8]) -> Reader<'a> {
        Reader(bytes)
    }

    /// Takes a word.
    ///
    /// # Errors
    /// [`Error::Length`] when the buffer ends first.
    pub fn word(&mut self) -> Result<u32, Error> {
        self.array().map(u32::from_le_bytes)
    }

    /// Takes a word that is 0 or 1.
    ///
    /// # Errors
    /// [`Error::Length`]; [`Error::Value`] when it is another one.
    pub fn flag(&mut self) -> Result<bool, Error> {
        match self.word()? {
            0 => Ok(false),
            1 => Ok(true),
            _ => Err(Error::Value),
        }
    }

    /// Takes `N` bytes.
    ///
    /// # Errors
    /// [`Error::Length`] when the buffer ends first.
    pub fn array<const N: usize>(&mut self) -> Result<[u8; N], Error> {
        let (head, tail) = self.0.split_first_chunk::<N>().ok_or(Error::Length)?;
        self.0 = tail;
        Ok(*head)
    }

    /// Takes two words.
    ///
    /// # Errors
    /// [`Error::Length`] when the buffer ends first.
    pub fn long(&mut self) -> Result<u64, Error> {
        self.array().map(u64::from_le_bytes)
    }

    /// Takes `count` pieces of `N` bytes.
    ///
    /// # Errors
    /// [`Error::Length`] when the buffer ends first.
    pub fn chunks<const N: usize>(&mut self, count: u32) -> Result<&'a [[u8; N]], Error> {
        let bytes = (count as usize).checked_mul(N).ok_or(Error::Length)?;
        let (head, tail) = self.0.split_at_checked(bytes).ok_or(Error::Length)?;
        self.0 = tail;
        Ok(head.as_chunks::<N>().0)
    }

    /// Takes everything that is left.
    pub fn rest(&mut self) -> &'a [u8] {
        core::mem::take(&mut self.0)
    }
}
