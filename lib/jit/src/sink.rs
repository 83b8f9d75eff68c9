//! Bytes on their way into the caller's buffer.

/// A buffer that counts what does not fit instead of failing at once, so that a walk that only measures needs none.
pub(crate) struct Sink<'a> {
    out: &'a mut [u8],
    len: usize,
}

impl<'a> Sink<'a> {
    pub(crate) fn new(out: &'a mut [u8]) -> Sink<'a> {
        Sink { out, len: 0 }
    }

    /// Begins again.
    pub(crate) fn rewind(&mut self) {
        self.len = 0;
    }

    /// Bytes so far.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Whether all of them had room.
    pub(crate) fn fits(&self) -> bool {
        self.len <= self.out.len()
    }

    pub(crate) fn byte(&mut self, byte: u8) {
        self.bytes(&[byte]);
    }

    pub(crate) fn bytes(&mut self, bytes: &[u8]) {
        if let Some(room) = self.out.get_mut(self.len..).and_then(|rest| rest.get_mut(..bytes.len())) {
            room.iter_mut().zip(bytes).for_each(|(to, from)| *to = *from);
        }
        self.len = self.len.saturating_add(bytes.len());
    }

    /// Changes one byte that is there already.
    pub(crate) fn set(&mut self, at: usize, byte: u8) {
        if let Some(room) = self.out.get_mut(at) {
            *room = byte;
        }
    }
}
