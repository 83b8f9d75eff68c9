//! Which events are shown.

use crate::known;
use mote_layout::Level;
use mote_pattern::Glob;
use mote_timeline::{ClassId, Record, Trace};

/// A choice of events by provider, name and thread.
///
/// Several patterns of one kind mean "any of them"; different kinds must all fit. No pattern fits everything.
#[derive(Debug)]
pub struct Selection {
    /// Verdicts on event classes, by [`ClassId`]; empty if all are chosen.
    classes: Vec<bool>,
    /// Thread ids; empty if all are chosen.
    tids: Vec<u32>,
}

impl Selection {
    /// The events of `trace` whose provider fits one of `providers`, whose name (or `provider:name`) fits one of
    /// `events`, and which happened in one of `tids`.
    #[must_use]
    pub fn new(trace: &Trace, providers: &[Glob], events: &[Glob], tids: &[u32]) -> Selection {
        let fits = |id: usize| {
            let id = ClassId(u32::try_from(id).unwrap_or(u32::MAX));
            trace.class(id).is_some_and(|(_, class)| {
                let short = class.name.split_once(':').map_or(&*class.name, |(_, name)| name);
                let provider = trace.provider(id);
                let full = format!("{provider}:{short}");
                let event =
                    |glob: &Glob| glob.matches(&class.name) || glob.matches(short) || glob.matches(&full);
                (providers.is_empty() || providers.iter().any(|glob| glob.matches(provider)))
                    && (events.is_empty() || events.iter().any(event))
            })
        };
        let all = providers.is_empty() && events.is_empty();
        let classes = if all { Vec::new() } else { (0..trace.classes()).map(fits).collect() };
        Selection { classes, tids: tids.to_vec() }
    }

    /// The same without the records of the system's state at the start, which mote writes with kernel events.
    #[must_use]
    pub fn without_state(self, trace: &Trace) -> Selection {
        let is_event = |id: usize| {
            let id = ClassId(u32::try_from(id).unwrap_or(u32::MAX));
            trace.provider(id) != mote_journal::STATE
        };
        let chosen = |id: usize| self.classes.is_empty() || self.classes.get(id) == Some(&true);
        let classes: Vec<bool> = (0..trace.classes()).map(|id| chosen(id) && is_event(id)).collect();
        let all = classes.iter().all(|chosen| *chosen);
        Selection { classes: if all { Vec::new() } else { classes }, ..self }
    }

    /// The same without events that are less important than `level`, or have none.
    #[must_use]
    pub fn with_level(mut self, trace: &Trace, level: Level) -> Selection {
        let ids = 0..u32::try_from(trace.classes()).unwrap_or(u32::MAX);
        let fits = |id| {
            trace
                .class(ClassId(id))
                .and_then(|(_, class)| known::level(class))
                .is_some_and(|its| its <= level)
        };
        let before =
            |id: u32| self.classes.is_empty() || self.classes.get(id as usize).is_some_and(|chosen| *chosen);
        self.classes = ids.map(|id| before(id) && fits(id)).collect();
        self
    }

    /// Whether no event class of the trace is chosen, so that there is no need to look.
    #[must_use]
    pub fn is_hopeless(&self) -> bool {
        !self.classes.is_empty() && !self.classes.contains(&true)
    }

    /// Whether exactly one kind of event of `trace` is chosen: of several classes if they have the same names and
    /// members, as the stream classes have that mote writes with and without counts of losses.
    #[must_use]
    pub fn is_one(&self, trace: &Trace) -> bool {
        let ids = 0..u32::try_from(trace.classes()).unwrap_or(u32::MAX);
        let chosen =
            ids.filter(|id| self.classes.is_empty() || self.classes.get(*id as usize) == Some(&true));
        let kind = |id| {
            let (stream, class) = trace.class(ClassId(id))?;
            let members = (&stream.common_context, &class.specific_context, &class.payload);
            Some((trace.provider(ClassId(id)), &class.name, members))
        };
        let mut kinds = chosen.map(kind);
        kinds.next().is_some_and(|first| first.is_some() && kinds.all(|other| other == first))
    }

    /// Whether `record` is chosen.
    #[must_use]
    #[inline]
    pub fn takes(&self, record: &Record<'_>) -> bool {
        (self.classes.is_empty() || self.classes.get(record.class().0 as usize).is_some_and(|chosen| *chosen))
            && (self.tids.is_empty() || record.tid().is_some_and(|tid| self.tids.contains(&tid)))
    }
}
