//! Elements that are published in turn, and how old they are when a reader looks at them.

use super::random::Random;
use mote_reclaim::{Flavor, Guard, Head, Pointer};
use mote_sync::Padded;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU64, Ordering::Relaxed};

/// How old an element was when a section had ended with it: 0 when it was published by an update whose grace period was
/// not over, 1 while it was still the newest of those, more when a grace period was over that should have waited.
/// [`AGES`] when it had another version than at the section's beginning.
#[derive(Clone, Copy)]
pub struct Age(pub usize);

/// Ages that are counted; older is counted as the last.
pub const AGES: usize = 11;
/// Pointers of a storm, each with an updater that waits in its own way.
pub const TRACKS: usize = 4;
/// See [`World::noise`].
pub const NOISE: usize = 24;
/// Threads that may be sent signals.
pub const TARGETS: usize = 16;

/// What readers look at.
#[repr(C)]
#[derive(Default)]
pub struct Element {
    pub head: Head,
    /// Number of the update that has published it.
    version: AtomicU64,
    /// Set by the callback of an updater that waits by one.
    pub passed: AtomicBool,
}

/// One pointer and its elements.
pub struct Track {
    published: Pointer<Element>,
    elements: Vec<Element>,
    /// Updates whose grace period is over.
    pub updates: AtomicU64,
}

/// All that a round has in common.
pub struct World {
    pub tracks: Vec<Track>,
    pub stop: AtomicBool,
    /// Sections by the age of what they saw at their end.
    pub ages: [AtomicU64; AGES],
    pub in_handlers: AtomicU64,
    /// Sections in which an element was used again, and threads that panicked.
    pub broken: AtomicU64,
    pub lives: AtomicU64,
    pub deaths_inside: AtomicU64,
    pub forks: AtomicU64,
    pub failed_forks: AtomicU64,
    /// Thread ids, 0 for none.
    pub targets: [AtomicI32; TARGETS],
    /// Lines that a racing reader and an updater both write, so that a store has to wait for its line behind others.
    pub noise: [Padded<AtomicU64>; NOISE],
}

impl Track {
    fn new() -> Track {
        let elements: Vec<Element> = (0..AGES + 2).map(|_| Element::default()).collect();
        let published = Pointer::new(std::ptr::from_ref(&elements[0]).cast_mut());
        Track { published, elements, updates: AtomicU64::new(0) }
    }

    /// Publishes the oldest element, lets `wait` wait for a grace period with the one before, and counts. Nothing comes
    /// between the publication and the wait that would give a reader time.
    pub fn update(&self, wait: impl FnOnce(&Element)) {
        let update = self.updates.load(Relaxed) as usize;
        let count = self.elements.len();
        let (old, new) = (&self.elements[update % count], &self.elements[(update + 1) % count]);
        new.version.store(update as u64 + 1, Relaxed);
        self.published.swap(std::ptr::from_ref(new).cast_mut());
        wait(old);
        self.updates.store(update as u64 + 1, Relaxed);
    }
}

impl World {
    pub fn new(tracks: usize) -> World {
        World {
            tracks: (0..tracks).map(|_| Track::new()).collect(),
            stop: AtomicBool::new(false),
            ages: [const { AtomicU64::new(0) }; AGES],
            in_handlers: AtomicU64::new(0),
            broken: AtomicU64::new(0),
            lives: AtomicU64::new(0),
            deaths_inside: AtomicU64::new(0),
            forks: AtomicU64::new(0),
            failed_forks: AtomicU64::new(0),
            noise: [const { Padded(AtomicU64::new(0)) }; NOISE],
            targets: [const { AtomicI32::new(0) }; TARGETS],
        }
    }

    pub fn stopped(&self) -> bool {
        self.stop.load(Relaxed)
    }

    /// The body of a section: looks at what a track has published, stays for a while, returns how old it has become.
    pub fn look<F: Flavor>(
        &self,
        guard: &Guard<'_, F>,
        random: &mut Random,
        stay: impl FnOnce(&mut Random),
    ) -> Age {
        let place = random.below(self.tracks.len() as u64) as usize;
        let track = &self.tracks[place];
        // SAFETY: elements live as long as the world, and are atomics.
        let element = unsafe { track.published.dereference(guard) }.expect("never null");
        let version = element.version.load(Relaxed);
        stay(random);
        let over = track.updates.load(Relaxed);
        let age = (over + 1).saturating_sub(version).min(AGES as u64 - 1) as usize;
        Age(if element.version.load(Relaxed) == version { age } else { AGES })
    }

    /// Counts a section.
    pub fn count(&self, Age(age): Age) {
        self.ages.get(age).unwrap_or(&self.broken).fetch_add(1, Relaxed);
    }

    /// Sections that saw what they must not see.
    pub fn violations(&self) -> u64 {
        let old: u64 = self.ages[2..].iter().map(|count| count.load(Relaxed)).sum();
        old + self.broken.load(Relaxed) + self.failed_forks.load(Relaxed)
    }

    /// Counts by age.
    pub fn histogram(&self) -> [u64; AGES] {
        std::array::from_fn(|age| self.ages[age].load(Relaxed))
    }

    /// Registers the calling thread as a target of signals until the answer is dropped.
    pub fn target(&self) -> Target<'_> {
        // SAFETY: gettid(2) has no conditions.
        let tid = unsafe { libc::gettid() };
        let free = |place: &&AtomicI32| place.compare_exchange(0, tid, Relaxed, Relaxed).is_ok();
        Target(self.targets.iter().find(free))
    }
}

/// A thread that may be sent signals.
pub struct Target<'a>(Option<&'a AtomicI32>);

impl Drop for Target<'_> {
    fn drop(&mut self) {
        if let Some(place) = self.0 {
            place.store(0, Relaxed);
        }
    }
}
