//! Nothing is shared with the session but the channel.

use crate::channel::Channel;
use mote_layout::context::DROP;
use mote_loss::Cause;

/// Nothing is there to be hidden.
pub(crate) fn hide(_session: usize) {}

/// Nothing is mapped.
///
/// # Safety
/// None; as with filters.
pub(crate) unsafe fn unmap(_session: usize) {}

/// Counts an occurrence that cannot be judged, and says what becomes of it.
pub(crate) fn faulted(channel: &Channel, _id: u16, _keep: bool) -> u64 {
    channel.writer.lose(Cause::FilterFault);
    DROP
}
