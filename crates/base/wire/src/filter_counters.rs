//! The counters: what the memfd of the maps begins with. Processes count on it, the session reads.
//!
//! ```text
//! byte 0      u64   snapshots that filters have asked for
//! byte 8      u64   faults in filters after which the event was dropped (its ring counts it as lost, too)
//! byte 16     u64   faults in filters after which the event was kept
//! byte 24     u64   keys whose records were to be kept aside, for which there was no room
//! byte 64           requests for packets of the hardware trace (`mote_layout::packet_requests::PacketRequests`)
//! byte 4096   u32   faults by event id, 65,536 of them; they wrap around
//! ```
//! Words are added to, atomically, and never set back, but for the requests; the session must not believe them, only
//! show them.

use mote_layout::packet_requests::PacketRequests;

/// Where the number of requested snapshots is.
pub const SNAPSHOTS: usize = 0;
/// Where the number of faults with dropped events is.
pub const FAULTS_DROPPED: usize = 8;
/// Where the number of faults with kept events is.
pub const FAULTS_KEPT: usize = 16;
/// Where the number of keys is whose records could not be kept aside: they were recorded at once.
pub const KEYS_REFUSED: usize = 24;
/// Where filters ask for packets of the hardware trace.
pub const PACKETS: usize = 64;
const _: () = assert!(PACKETS + size_of::<PacketRequests>() <= FAULTS_BY_EVENT);
/// Where the faults by event begin.
pub const FAULTS_BY_EVENT: usize = 4096;
/// Bytes of the counters, whole pages. The pool of speculations and the maps lie behind it.
pub const BYTES: usize = FAULTS_BY_EVENT + 4 * (1 << mote_layout::record::ID_BITS);

/// Where the faults of an event's filter are counted.
pub const fn faults_of(id: u16) -> usize {
    FAULTS_BY_EVENT + 4 * id as usize
}
