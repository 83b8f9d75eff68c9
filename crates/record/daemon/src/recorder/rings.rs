//! The rings of all groups of processes: made as the session says, and handed to the consumer.

use crate::consumer::{Change, Shared};
use crate::error::Error;
use crate::recorder::spare::Spare;
use mote_ring::Geometry;
use mote_ring::reader::{Channel, MakeError};
use mote_session::{GroupId, Make};
use std::collections::BTreeMap;
use std::sync::Arc;

/// All rings of processes.
pub(crate) struct Rings {
    shared: Arc<Shared>,
    /// CPUs whose rings' memory is taken at once.
    online: u32,
    made: BTreeMap<GroupId, Arc<Channel>>,
    /// Those for the next group.
    ahead: Option<Spare>,
}

impl Rings {
    /// None yet, but those for the first group, of these sizes, are made ahead.
    ///
    /// # Errors
    /// [`Error::Memory`], [`Error::Geometry`].
    pub(crate) fn new(first: Geometry, online: u32, shared: Arc<Shared>) -> Result<Rings, Error> {
        let made = Channel::make(first, 0..online).map_err(|error| match error {
            MakeError::Geometry(bad) => Error::Geometry(bad),
            MakeError::System(why) => Error::Memory { bytes: first.ring_bytes() * u64::from(online), why },
        })?;
        Ok(Rings { shared, online, made: BTreeMap::new(), ahead: Some(Spare::Made(made)) })
    }

    /// Makes the rings of a group; false when they cannot be had.
    pub(crate) fn make(&mut self, Make { group, sizes, is_ahead }: Make) -> bool {
        let channel = match is_ahead {
            true => self.ahead.take().and_then(Spare::take),
            false => Channel::make(sizes, 0..self.online).ok(),
        };
        let Some(channel) = channel.map(Arc::new) else { return false };
        self.shared.change(Change::Come(group, channel.clone()));
        self.made.insert(group, channel);
        true
    }

    /// Begins to make rings ahead; false when that cannot be.
    pub(crate) fn prepare(&mut self, sizes: Geometry) -> bool {
        self.ahead = Spare::begin(sizes, self.online);
        self.ahead.is_some()
    }

    /// The rings of a group.
    pub(crate) fn of(&self, group: GroupId) -> Option<&Arc<Channel>> {
        self.made.get(&group)
    }

    /// Lets go of a group's rings.
    pub(crate) fn forget(&mut self, group: GroupId) {
        self.made.remove(&group);
    }
}
