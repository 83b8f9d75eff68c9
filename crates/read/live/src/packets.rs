//! Packets that arrive: a storage in memory to which whoever receives or makes them adds.

use mote_timeline::{Bytes, Storage, copy_at};
use std::io;
use std::sync::{Arc, PoisonError, RwLock};

/// Packets that arrive while they are read, in memory. Copies are the same stream: one is the reader's, another belongs
/// to whoever receives or makes the packets.
#[derive(Clone, Debug, Default)]
pub struct Growing(Arc<RwLock<Vec<u8>>>);

impl Growing {
    /// A stream without a packet.
    #[must_use]
    pub fn new() -> Growing {
        Growing::default()
    }

    /// Adds whole packets. Readers see all of them or none.
    pub fn add(&self, packets: &[u8]) {
        self.0.write().unwrap_or_else(PoisonError::into_inner).extend_from_slice(packets);
    }
}

impl Storage for Growing {
    fn open(&self) -> io::Result<Box<dyn Bytes>> {
        Ok(Box::new(self.clone()))
    }
}

impl Bytes for Growing {
    fn size(&self) -> u64 {
        self.0.read().unwrap_or_else(PoisonError::into_inner).len() as u64
    }

    fn read_at(&self, buffer: &mut [u8], at: u64) -> io::Result<usize> {
        Ok(copy_at(&self.0.read().unwrap_or_else(PoisonError::into_inner), buffer, at))
    }
}
