//! What has come to a recording: new streams, events, names.

use crate::context::Context;
use crate::facts::Facts;
use crate::loss::CounterPlaces;
use crate::origin::{ClassId, Origin, begins_whole};
use crate::storage::Storage;
use crate::trace::{ClassPlace, Trace, number};
use mote_ctf::Schema;
use mote_ctf::model::{EventClass, StreamClass};
use std::path::{Path, PathBuf};

/// What has come to a trace since it was made or has grown last.
#[derive(Debug, Default)]
pub struct Growth {
    /// Its metadata as they are now, if they have grown: with more event classes behind those that were there.
    pub schema: Option<Schema>,
    /// Its journal as it is now, if it has grown.
    pub facts: Option<Facts>,
    /// Its new data streams, each with the path that messages give it.
    pub streams: Vec<(PathBuf, Box<dyn Storage>)>,
}

/// Metadata that are no continuation of what a trace had before.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the new metadata do not continue the trace's former metadata")]
pub struct NoGrowth;

impl Trace {
    /// Takes in what has come to the trace number `origin` since. Ids of classes and indices of streams stay what they
    /// are; new ones come behind them. A reading is put aside meanwhile ([`Events::pause`], [`Trace::go_on`]); packets
    /// that come to a stream that is known need none of this (`mote_live::Growing`).
    ///
    /// # Errors
    /// The metadata are no continuation of those that the trace has; nothing is taken in then.
    ///
    /// # Cost
    /// That of the parts.
    pub fn extend(&mut self, origin: usize, growth: Growth) -> Result<(), NoGrowth> {
        let Growth { schema, facts, streams } = growth;
        let own = self.origins.get_mut(origin).ok_or(NoGrowth)?;
        if let Some(schema) = schema {
            let classes = own.renew(schema, &mut |place| {
                self.classes.push(ClassPlace { origin, ..place });
                ClassId(number(self.classes.len() - 1))
            });
            classes?;
        }
        if facts.is_some() {
            own.facts = facts;
        }
        self.add_streams(Path::new(""), origin, streams);
        self.share_names();
        Ok(())
    }
}

impl Origin {
    /// Takes grown metadata; `number` gives ids to the classes that are new.
    fn renew(
        &mut self,
        schema: Schema,
        number: &mut dyn FnMut(ClassPlace) -> ClassId,
    ) -> Result<(), NoGrowth> {
        let (before, now) = (self.schema.trace(), schema.trace());
        let continues = |(old, new): (&StreamClass, &StreamClass)| {
            let same = |(old, new): (&EventClass, &EventClass)| (old.id, &old.name) == (new.id, &new.name);
            old.id == new.id
                && old.events.len() <= new.events.len()
                && old.events.iter().zip(&new.events).all(same)
        };
        let is_continued = before.uuid == now.uuid
            && before.streams.len() == now.streams.len()
            && before.streams.iter().zip(&now.streams).all(continues);
        if !is_continued {
            return Err(NoGrowth);
        }
        for (stream, (class, ids)) in now.streams.iter().zip(&mut self.ids).enumerate() {
            for event in ids.len()..class.events.len() {
                ids.add(number(ClassPlace { origin: 0, stream, event }));
            }
        }
        self.contexts = now.streams.iter().map(Context::new).collect();
        self.whole_begins = now.streams.iter().map(begins_whole).collect();
        self.counters = CounterPlaces::of(now);
        self.renewals += 1;
        self.schema = schema;
        Ok(())
    }
}
