//! The header of one packet of a data stream, which is also CTF's packet header and context.

use mote_loss::{Cause, Lost};

/// First word of every packet (CTF 1.8, section 5.1).
pub const MAGIC: u32 = 0xc1fc_1fc1;
/// Stream class of rings written with restartable sequences: one ring is one CPU.
pub const STREAM_PER_CPU: u32 = 0;
/// Stream class of rings written with atomic operations, by threads of any CPU.
pub const STREAM_SHARED: u32 = 1;

/// What a packet begins with, before the encoding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PacketHeader {
    /// UUID of the trace, the same as in its metadata.
    pub uuid: [u8; 16],
    /// [`STREAM_PER_CPU`] or [`STREAM_SHARED`].
    pub stream_class: u32,
    /// Number of the ring in its channel.
    pub stream: u32,
    /// Time of the first record, in ticks.
    pub begin: u64,
    /// Not before the time of the last record, in ticks.
    pub end: u64,
    /// Bytes of the records behind the header.
    pub content: u64,
    /// Number of the packet in its stream, from 0.
    pub sequence: u64,
    /// CPU of the ring; for shared rings the ring's number.
    pub cpu: u32,
    /// Events of this stream lost since the recording began.
    pub lost: ReportedLoss,
}

/// What a packet tells of lost events.
///
/// Those of a full ring were lost between the end of the packet before and the end of this one, which are the times of
/// the last event before and of the first one after: such a packet is empty. Of the others it is known only between
/// which two looks of the recorder they were counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReportedLoss {
    /// By cause, since the recording began.
    pub events: Lost,
    /// When the recorder had looked before it saw what this packet tells beside a full ring's losses, in ticks; 0 when
    /// it tells nothing else.
    pub since: u64,
    /// When the recorder had seen it, in ticks.
    pub until: u64,
    /// How many times it is not known how many events were lost, because a process has overwritten the counters; since
    /// the recording began.
    pub unknown: u64,
}

impl ReportedLoss {
    /// What CTF's counter says: all losses, and one for each of unknown size.
    pub fn discarded(&self) -> u64 {
        self.events.iter().fold(self.unknown, |sum, lost| sum.wrapping_add(*lost))
    }
}

/// Names, in order, of the fields of the packet context, with their bits.
pub const CONTEXT_FIELDS: [(&str, u32); 7] = [
    ("timestamp_begin", 64),
    ("timestamp_end", 64),
    ("content_size", 64),
    ("packet_size", 64),
    ("packet_seq_num", 64),
    ("events_discarded", 64),
    ("cpu_id", 32),
];

/// Names, in order, of the counters behind those of the causes, 64 bits each.
pub const LOSS_FIELDS: [&str; 3] = ["since", "until", "unknown"];

/// Byte offset of the counters of loss in the encoded header: behind magic, uuid, stream class and stream.
///
/// They lie in what is padding to CTF: viewers print all that the metadata call a field of the packet context
/// with each event, and warn of what they call one of the packet header.
pub const LOSS_AT: usize = 4 + 16 + 4 + 4;
/// Byte offset of the packet context in the encoded header, and its alignment in bytes.
pub const CONTEXT_AT: usize = (LOSS_AT + 8 * (Cause::ALL.len() + LOSS_FIELDS.len())).next_power_of_two();
/// Byte offset of `timestamp_end` in the encoded header.
pub const TIMESTAMP_END_AT: usize = CONTEXT_AT + 8;
/// Byte offset of `content_size` in the encoded header.
pub const CONTENT_SIZE_AT: usize = CONTEXT_AT + 2 * 8;
/// Bytes of the encoded header.
pub const HEADER_BYTES: usize = CONTEXT_AT + 6 * 8 + 4;

/// Name of the entry in the trace's environment that says [`LOSS_AT`].
pub const LOSS_AT_ENTRY: &str = "loss_counters_at";
/// Name of the entry in the trace's environment that names the counters there, in order, with blanks between:
/// causes ([`Cause::name`]), then [`LOSS_FIELDS`].
pub const LOSS_NAMES_ENTRY: &str = "loss_counters";

impl PacketHeader {
    /// Encodes it, little-endian and packed.
    pub fn encode(&self) -> [u8; HEADER_BYTES] {
        let mut out = [0; HEADER_BYTES];
        let mut places = out.iter_mut();
        let mut put = |bytes: &[u8]| bytes.iter().zip(&mut places).for_each(|(from, to)| *to = *from);
        let bits = (HEADER_BYTES as u64 + self.content) * 8;
        put(&MAGIC.to_le_bytes());
        put(&self.uuid);
        put(&self.stream_class.to_le_bytes());
        put(&self.stream.to_le_bytes());
        let ReportedLoss { events, since, until, unknown } = self.lost;
        for word in events.into_iter().chain([since, until, unknown]) {
            put(&word.to_le_bytes());
        }
        put(&[0; CONTEXT_AT - LOSS_AT - 8 * (Cause::ALL.len() + LOSS_FIELDS.len())]);
        put(&self.begin.to_le_bytes());
        put(&self.end.to_le_bytes());
        put(&bits.to_le_bytes());
        put(&bits.to_le_bytes());
        put(&self.sequence.to_le_bytes());
        put(&self.lost.discarded().to_le_bytes());
        put(&self.cpu.to_le_bytes());
        out
    }
}
