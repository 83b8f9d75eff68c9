//! Packets in files, each of which is a valid stream at any moment, also when the recorder is killed inside of a write.
//!
//! A killed process leaves the write that it is in half done, and babeltrace2 refuses a stream that ends in half a
//! packet. So the file is longer than its packets, and the last packet claims what is behind it as its padding (CTF
//! 1.8, section 5.2). A new packet is written into that padding, where no reader sees it; then the packet before is
//! given its own size: one word, which makes the new one visible. The first packet becomes visible by a rename.
//!
//! Only where the file grows, once in [`STEP`] bytes, and at its end, the file's length and the last packet's size
//! change one after the other: a kill between these two calls leaves zeros behind the last packet.

use crate::output::folder::Folder;
use crate::output::sink::{Content, PACKET_SIZE_AT, StreamSink, TraceSink, set_packet_size};
use mote_layout::packet::{CONTENT_SIZE_AT, HEADER_BYTES, TIMESTAMP_END_AT};
use mote_sys::fd::{self, Fd};
use mote_sys::{Errno, Result};
use std::os::fd::IntoRawFd;

/// The file grows by this.
const STEP: u64 = 8 << 20;

/// The directory of a trace.
#[derive(Clone, Debug)]
pub(crate) struct Files {
    /// Where streams are that have a packet.
    pub(crate) directory: Folder,
    /// Where they are until then.
    pub(crate) hidden: Folder,
}

impl TraceSink for Files {
    fn stream(&self, name: &str) -> Result<Box<dyn StreamSink>> {
        Ok(Box::new(Packets::make(&self.directory, &self.hidden, name)?))
    }

    /// They are in the same directory.
    fn tell_metadata(&self, _text: &str) {}
}

/// The file.
#[derive(Debug)]
struct Packets {
    fd: Fd,
    /// Where it lies while it has no packet, where it goes then, and its name.
    hidden: Option<(Folder, Folder, String)>,
    /// It ended without a packet, so there is no file.
    is_discarded: bool,
    /// Bytes of the file.
    len: u64,
    /// Offset of the last packet.
    last: u64,
    /// Offset behind it.
    end: u64,
}

impl Packets {
    /// Makes the file: in `hidden` until it has a packet, then in `directory`.
    ///
    /// # Errors
    /// As open(2).
    fn make(directory: &Folder, hidden: &Folder, name: &str) -> Result<Packets> {
        let fd = Fd::from_raw(hidden.create(name).map_err(errno)?.into_raw_fd());
        let hidden = Some((hidden.clone(), directory.clone(), name.to_owned()));
        Ok(Packets { fd, hidden, is_discarded: false, len: 0, last: 0, end: 0 })
    }

    fn grow(&mut self, len: u64) -> Result<()> {
        fd::truncate(&self.fd, len)?;
        self.len = len;
        if self.hidden.is_none() { self.set_size(len - self.last) } else { Ok(()) }
    }

    /// Sets the size of the last packet.
    fn set_size(&self, bytes: u64) -> Result<()> {
        fd::write_at(&self.fd, &(bytes * 8).to_le_bytes(), self.last + PACKET_SIZE_AT as u64)
    }
}

impl StreamSink for Packets {
    fn add(&mut self, mut header: [u8; HEADER_BYTES], content: &dyn Content) -> Result<u64> {
        let whole = HEADER_BYTES + content.len();
        let (at, end) = (self.end, self.end + whole as u64);
        if end > self.len {
            self.grow(end.next_multiple_of(STEP))?;
        }
        set_packet_size(&mut header, self.len - at);
        if content.write_to(&header, &self.fd, at)? != whole {
            return Err(Errno(libc::ENOSPC));
        }
        match self.hidden.take() {
            Some((hidden, directory, name)) => hidden.rename(&name, &directory, &name).map_err(errno)?,
            None => self.set_size(at - self.last)?,
        }
        (self.last, self.end) = (at, end);
        Ok(at + HEADER_BYTES as u64)
    }

    /// Whether no directory has the file any more, which ought to be in one.
    fn is_removed(&self) -> bool {
        !self.is_discarded && fd::identity(self.fd.raw()).is_ok_and(|file| file.links == 0)
    }

    fn finish(&mut self) {
        let done = match self.hidden.take() {
            Some((hidden, _, name)) => {
                // Somebody else may have removed it before.
                self.is_discarded = !self.is_removed();
                hidden.remove(name);
                Ok(())
            }
            None => self.set_size(self.end - self.last).and_then(|()| fd::truncate(&self.fd, self.end)),
        };
        // When that cannot be done, the stream is as valid as before, and longer.
        let _ = done;
    }

    fn read(&self, offset: u64, into: &mut [u8]) -> Result<usize> {
        fd::read_at(&self.fd, into, offset)
    }

    fn cut(&self, offset: u64, len: usize) -> Result<()> {
        let bits = ((HEADER_BYTES + len) as u64 * 8).to_le_bytes();
        fd::write_at(&self.fd, &bits, offset - (HEADER_BYTES - CONTENT_SIZE_AT) as u64)
    }

    fn end_at(&self, offset: u64, time: u64) -> Result<()> {
        let at = offset - (HEADER_BYTES - TIMESTAMP_END_AT) as u64;
        fd::write_at(&self.fd, &time.to_le_bytes(), at)
    }
}

fn errno(why: std::io::Error) -> Errno {
    Errno(why.raw_os_error().unwrap_or(libc::EIO))
}

#[cfg(test)]
mod tests {
    use super::*;
    use mote_layout::packet::PacketHeader;
    use std::fs;
    use std::path::Path;

    /// Sizes of the packets as a reader finds them, by the headers alone.
    fn sizes(path: &Path) -> Vec<u64> {
        let bytes = fs::read(path).expect("readable");
        let mut sizes = Vec::new();
        let mut at = 0;
        while at < bytes.len() {
            let word = bytes[at + PACKET_SIZE_AT..].first_chunk::<8>().expect("a header");
            sizes.push(u64::from_le_bytes(*word) / 8);
            at += *sizes.last().expect("pushed") as usize;
        }
        assert_eq!(at, bytes.len(), "the packets cover the file");
        sizes
    }

    fn header() -> [u8; HEADER_BYTES] {
        let lost = Default::default();
        PacketHeader {
            uuid: [0; 16],
            stream_class: 0,
            stream: 0,
            begin: 0,
            end: 0,
            content: 0,
            sequence: 0,
            cpu: 0,
            lost,
        }
        .encode()
    }

    /// Content that has something looked at when it is written.
    struct Watched<'c> {
        bytes: &'c [u8],
        looks: &'c dyn Fn(),
    }

    impl Content for Watched<'_> {
        fn len(&self) -> usize {
            self.bytes.len()
        }

        fn write_to(&self, header: &[u8], fd: &Fd, at: u64) -> Result<usize> {
            (self.looks)();
            fd::write_slices_at(fd, [header, self.bytes], at)
        }

        fn copy_to(&self, _into: &mut [u8]) -> bool {
            unreachable!("it goes to a file")
        }
    }

    /// Content that is written in part, as on a full disk.
    struct Short<'c>(&'c [u8]);

    impl Content for Short<'_> {
        fn len(&self) -> usize {
            self.0.len()
        }

        fn write_to(&self, header: &[u8], fd: &Fd, at: u64) -> Result<usize> {
            fd::write_slices_at(fd, [header, &self.0[..99]], at)
        }

        fn copy_to(&self, _into: &mut [u8]) -> bool {
            unreachable!("it goes to a file")
        }
    }

    #[test]
    fn the_packets_cover_the_file_at_any_moment() {
        let directory = std::env::temp_dir().join(format!("mote-packets-{}", std::process::id()));
        let folder = crate::output::path::make(&directory).expect("a directory").folder;
        let path = directory.join("cpu_0");
        let mut packets =
            Packets::make(&folder, &folder.make("inner").expect("made"), "cpu_0").expect("made");
        assert!(!path.exists());
        let content = vec![7; 3 << 20];
        for round in 0..7 {
            // Half way through a write the file is whole, too.
            let content = Watched {
                bytes: &content,
                looks: &|| {
                    if round > 0 {
                        drop(sizes(&path))
                    }
                },
            };
            let offset = packets.add(header(), &content).expect("written");
            assert_eq!(sizes(&path).len(), round + 1);
            let mut byte = [0];
            assert_eq!((packets.read(offset, &mut byte), byte), (Ok(1), [7]));
        }
        let failed = packets.add(header(), &Short(&content));
        assert_eq!(failed, Err(Errno(libc::ENOSPC)));
        assert_eq!(sizes(&path).len(), 7);
        packets.finish();
        assert_eq!(sizes(&path), [(HEADER_BYTES + content.len()) as u64; 7]);
        fs::remove_dir_all(&directory).expect("removed");
    }

    #[test]
    fn a_stream_that_ends_without_a_packet_was_not_removed() {
        let directory = std::env::temp_dir().join(format!("mote-no-packets-{}", std::process::id()));
        let folder = crate::output::path::make(&directory).expect("a directory").folder;
        let hidden = folder.make("hidden").expect("made");
        let mut packets = Packets::make(&folder, &hidden, "stream").expect("made");
        assert_eq!(packets.add(header(), &Short(&[1; 200])), Err(Errno(libc::ENOSPC)));
        packets.finish();
        assert!(!packets.is_removed());
        let mut packets = Packets::make(&folder, &hidden, "stream").expect("made");
        fs::remove_file(directory.join("hidden/stream")).expect("removed");
        assert!(packets.is_removed());
        packets.finish();
        assert!(packets.is_removed());
        fs::remove_dir_all(&directory).expect("removed");
    }
}
