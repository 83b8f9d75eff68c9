//! Analyses as values: fed with events and losses one after the other, they end as a result.
//!
//! An analysis does not read: it may be fed by a pass over a recording, by a live session, or by a test. So one pass
//! serves many, each written and tested alone:
//!
//! ```no_run
//! # use mote_analysis::{Analysis, Losses, Scheduling, run};
//! # use mote_timeline::{Range, Trace};
//! let trace = Trace::open("recording".as_ref())?;
//! let wanted = (Losses::new(&trace), Some(Scheduling::new(&trace)));
//! let (losses, threads) = run(&mut trace.events(Range::ALL), wanted);
//! # Ok::<(), mote_timeline::OpenError>(())
//! ```

use mote_timeline::{Entry, LossRecord, Record, Source};

/// A function over events that sees each of them once, in the order of time.
///
/// Tuples of analyses are one, and so is an `Option` of one, for what is decided at run time. A `&mut` to an analysis
/// (or to a trait object of one) is fed by a pass and keeps its result to itself.
pub trait Analysis {
    /// The result.
    type Output;

    /// Takes an event.
    ///
    /// # Cost
    /// Called for every event: what does not concern the analysis should be told by [`Record::class`], which costs two
    /// loads.
    fn event(&mut self, record: &Record<'_>);

    /// Takes a loss: of events in one stream, between two moments.
    fn loss(&mut self, _loss: &LossRecord<'_>) {}

    /// Ends it.
    fn finish(self) -> Self::Output
    where
        Self: Sized;
}

/// Feeds an analysis with all entries of `source` that are left, and ends it.
///
/// # Cost
/// That of reading, and of the analysis: the calls are direct.
pub fn run<S: Source + ?Sized, A: Analysis>(source: &mut S, mut analysis: A) -> A::Output {
    while let Some(entry) = source.next() {
        match entry {
            Entry::Event(record) => analysis.event(&record),
            Entry::Loss(loss) => analysis.loss(&loss),
        }
    }
    analysis.finish()
}

impl<A: Analysis + ?Sized> Analysis for &mut A {
    type Output = ();

    #[inline]
    fn event(&mut self, record: &Record<'_>) {
        (**self).event(record);
    }

    fn loss(&mut self, loss: &LossRecord<'_>) {
        (**self).loss(loss);
    }

    fn finish(self) {}
}

impl<A: Analysis> Analysis for Option<A> {
    type Output = Option<A::Output>;

    #[inline]
    fn event(&mut self, record: &Record<'_>) {
        if let Some(analysis) = self {
            analysis.event(record);
        }
    }

    fn loss(&mut self, loss: &LossRecord<'_>) {
        if let Some(analysis) = self {
            analysis.loss(loss);
        }
    }

    fn finish(self) -> Self::Output {
        self.map(A::finish)
    }
}

macro_rules! tuple {
    ($($name:ident $index:tt),*) => {
        impl<$($name: Analysis),*> Analysis for ($($name,)*) {
            type Output = ($($name::Output,)*);

            #[inline]
            fn event(&mut self, record: &Record<'_>) {
                $(self.$index.event(record);)*
            }

            fn loss(&mut self, loss: &LossRecord<'_>) {
                $(self.$index.loss(loss);)*
            }

            fn finish(self) -> Self::Output {
                ($(self.$index.finish(),)*)
            }
        }
    };
}

tuple!(A 0, B 1);
tuple!(A 0, B 1, C 2);
tuple!(A 0, B 1, C 2, D 3);
tuple!(A 0, B 1, C 2, D 3, E 4);
