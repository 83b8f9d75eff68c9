//! What both threads of the recorder look at of one trace: how to walk its records, and what has come of it so far.

use crate::consumer::walk::Steps;
use mote_words::{counted, size};
use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

/// One trace between the loop, which learns events, and the consumer, which counts records.
#[derive(Debug, Default)]
pub(crate) struct TraceState {
    /// How to walk the records of each event; grows.
    steps: RwLock<Arc<Vec<Steps>>>,
    bytes: AtomicU64,
    events: AtomicU64,
    lost: AtomicU64,
    unknown: AtomicU64,
    waiting: AtomicU64,
    /// Some events had no clock.
    without_clock: AtomicBool,
}

/// What has come of a trace so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Figures {
    /// Bytes on disk.
    pub(crate) bytes: u64,
    /// Events in them, as far as they are counted.
    pub(crate) events: u64,
    /// Lost events, as far as their number is known.
    pub(crate) lost: u64,
    /// How many times more were lost, of which the number is not known.
    pub(crate) unknown: u64,
    /// Bytes in the rings that are not on disk: all that a flight recorder holds.
    pub(crate) waiting: u64,
}

impl fmt::Display for Figures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Figures { bytes, events, lost, unknown, waiting } = self;
        let (events, bytes, waiting) = (counted(*events, "event", "events"), size(*bytes), size(*waiting));
        write!(f, "{events} ({bytes}) on disk, {waiting} in the buffers, ")?;
        match (lost, unknown) {
            (lost, 0) => write!(f, "{lost} lost"),
            (0, _) => f.write_str("an unknown number lost"),
            (lost, _) => write!(f, "{lost} and an unknown number lost"),
        }
    }
}

impl TraceState {
    /// Takes in the event with the next id.
    pub(crate) fn add_event(&self, steps: Steps) {
        let mut all = self.steps.write().unwrap_or_else(PoisonError::into_inner);
        Arc::make_mut(&mut all).push(steps);
    }

    /// How to walk the records of the events that are known by now.
    pub(crate) fn steps(&self) -> Arc<Vec<Steps>> {
        self.steps.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Tells the figures. Each is right by itself; together they may be of different moments.
    pub(crate) fn publish(&self, figures: Figures) {
        self.bytes.store(figures.bytes, Ordering::Relaxed);
        self.events.store(figures.events, Ordering::Relaxed);
        self.lost.store(figures.lost, Ordering::Relaxed);
        self.unknown.store(figures.unknown, Ordering::Relaxed);
        self.waiting.store(figures.waiting, Ordering::Relaxed);
    }

    /// Tells that events were lost because their threads had no clock.
    pub(crate) fn note_without_clock(&self) {
        self.without_clock.store(true, Ordering::Relaxed);
    }

    /// Whether that was told.
    pub(crate) fn is_without_clock(&self) -> bool {
        self.without_clock.load(Ordering::Relaxed)
    }

    /// The figures as they were told last.
    pub(crate) fn figures(&self) -> Figures {
        Figures {
            bytes: self.bytes.load(Ordering::Relaxed),
            events: self.events.load(Ordering::Relaxed),
            lost: self.lost.load(Ordering::Relaxed),
            unknown: self.unknown.load(Ordering::Relaxed),
            waiting: self.waiting.load(Ordering::Relaxed),
        }
    }
}

impl std::ops::Add for Figures {
    type Output = Figures;

    fn add(self, other: Figures) -> Figures {
        Figures {
            bytes: self.bytes + other.bytes,
            events: self.events + other.events,
            lost: self.lost.saturating_add(other.lost),
            unknown: self.unknown.saturating_add(other.unknown),
            waiting: self.waiting.saturating_add(other.waiting),
        }
    }
}
