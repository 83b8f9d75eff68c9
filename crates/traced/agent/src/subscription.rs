//! What a session wants of the process's events: where they go, which are on, and the filters before them. With the
//! control path held.

use crate::channel::Channel;
use crate::event_ids::EventIds;
use crate::filters::Filters;

/// One session's.
pub(crate) struct Subscription {
    /// While the process is in the session.
    pub(crate) channel: Option<&'static Channel>,
    pub(crate) filters: Filters,
    /// The ids that it has told.
    pub(crate) ids: EventIds,
}

impl Subscription {
    /// Nothing, of the session of this number. All of it are zeros for number 0.
    pub(crate) const fn new(session: usize) -> Subscription {
        Subscription { channel: None, filters: Filters::new(session), ids: EventIds::new() }
    }
}
