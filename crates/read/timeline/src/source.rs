//! What gives events and losses in the order of time, whatever it reads them from.

use crate::Range;
use crate::problem::Problems;
use crate::record::Entry;
use crate::trace::Trace;

/// Events and losses in the order of time.
///
/// [`crate::Events`] is the one for everything that consists of packets: recordings, traces of other tracers, and,
/// through [`crate::Storage`], packets that are made or received while they are read. Streams of any number of these
/// are merged there at no cost for an event. Another source (one that filters, joins or replays) implements this trait
/// around it; analyses and views take any source.
///
/// The trait can be a trait object: then an entry costs one indirect call, and still no allocation. Functions that take
/// `&mut S` with `S: Source + ?Sized` cost nothing for a source that is known.
pub trait Source {
    /// What the events are of: classes, streams, clocks, names of threads, what the journal says.
    fn trace(&self) -> &Trace;

    /// The next entry; `None` when there is none now. A source that grows may have one later.
    ///
    /// # Cost
    /// No allocation. The entry borrows from the source: values are decoded when they are asked for.
    fn next(&mut self) -> Option<Entry<'_>>;

    /// Goes to the first entry in `range`, also backward; nothing behind the range comes after it.
    ///
    /// # Cost
    /// One small read for each packet that was not seen yet and lies before the range; see [`crate::Events::seek`].
    fn seek(&mut self, range: Range);

    /// What was wrong so far. Each is told once, also when its place is read again.
    fn problems(&self) -> &Problems;
}

impl<S: Source + ?Sized> Source for &mut S {
    fn trace(&self) -> &Trace {
        (**self).trace()
    }

    #[inline]
    fn next(&mut self) -> Option<Entry<'_>> {
        (**self).next()
    }

    fn seek(&mut self, range: Range) {
        (**self).seek(range);
    }

    fn problems(&self) -> &Problems {
        (**self).problems()
    }
}
