//! What rules ask for of the hardware trace (`pt snapshot`) and of samples (`profile for`, `fperf`): requests in the
//! memory that groups of processes, and the kernel's programs, share with the recorder
//! ([`mote_layout::packet_requests`]).

use super::group::GroupArea;
use super::session::SessionArea;
use crate::output::records::now;
use mote_layout::packet_requests::{
    FREE, FUNCTIONS, PROFILE, PacketRequest, PacketRequests, READY, SLOT_BYTES, SLOTS, slot_at,
    wanted_functions,
};
use std::mem::offset_of;
use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError, Weak};

/// Which side's event asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Asker {
    /// An event of a process.
    Process,
    /// An event of the kernel.
    Kernel,
}

/// A request. All of it may be nonsense: processes write it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Request {
    pub(crate) asker: Asker,
    /// When the event was, in nanoseconds of CLOCK_MONOTONIC: not later than it was taken.
    pub(crate) time_ns: u64,
    /// Process and thread, as they know themselves.
    pub(crate) pid: u32,
    pub(crate) tid: u32,
    pub(crate) cpu: u32,
    /// The event, by the number that the rules of its side have for it.
    pub(crate) event: u64,
    /// The packets of how long before, in nanoseconds.
    pub(crate) duration_ns: u64,
}

/// Samples of functions that are wanted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct FunctionsRequest {
    pub(crate) asker: Asker,
    /// The pattern, by the number that the rules of its side have for it.
    pub(crate) pattern: u64,
    /// For how long, in nanoseconds.
    pub(crate) ns: u64,
}

/// Memory with requests, by offsets in [`PacketRequests`].
pub(super) trait Slots {
    /// Reads bytes; zeros where that cannot be.
    fn read(&self, offset: usize, to: &mut [u8]);

    /// Writes a word.
    fn write(&self, offset: usize, word: u64);
}

/// All memory where requests may be. The loop adds to it, the thread of packets reads.
pub(crate) struct Places {
    session: SessionArea,
    groups: Mutex<Vec<Weak<GroupArea>>>,
}

/// Most requests that wait for whoever serves them.
const WAITING_MAX: usize = 1 << 10;

/// How the threads of packets and of samples read them.
pub(crate) struct Requests {
    places: Arc<Places>,
    /// Those of groups that are there; kept until they were read once more than others need them.
    groups: Vec<Arc<GroupArea>>,
    /// What was refused in those that are no more.
    past: u64,
    refused: u64,
    /// Those for packets that were read and not taken yet.
    packets: Vec<Request>,
    /// Those for samples: from when until when, in nanoseconds of CLOCK_MONOTONIC.
    samples: Vec<Range<u64>>,
    /// Those for samples of functions.
    functions: Vec<FunctionsRequest>,
}

impl Places {
    /// That of the kernel's programs, if there is one, and none of groups yet.
    pub(crate) fn new(session: SessionArea) -> Places {
        Places { session, groups: Mutex::default() }
    }

    /// A group of processes has an area.
    pub(crate) fn add(&self, area: &Arc<GroupArea>) {
        let mut groups = self.groups.lock().unwrap_or_else(PoisonError::into_inner);
        groups.retain(|group| group.strong_count() > 0);
        groups.push(Arc::downgrade(area));
    }
}

impl Requests {
    /// None was read yet.
    pub(crate) fn new(places: Arc<Places>) -> Requests {
        let (groups, packets, samples, functions) = Default::default();
        Requests { places, groups, past: 0, refused: 0, packets, samples, functions }
    }

    /// Takes all those for packets that there are, in the order of their events.
    ///
    /// # Cost
    /// Reads 2 KiB for each group of processes, and of the kernel's programs.
    pub(crate) fn take(&mut self) -> Vec<Request> {
        self.read();
        std::mem::take(&mut self.packets)
    }

    /// Takes all those for samples: the times that are wanted, in the order of their begin.
    ///
    /// # Cost
    /// As [`Requests::take`].
    pub(crate) fn take_samples(&mut self) -> Vec<Range<u64>> {
        self.read();
        std::mem::take(&mut self.samples)
    }

    /// Takes all those for samples of functions, in the order of their events.
    ///
    /// # Cost
    /// As [`Requests::take`].
    pub(crate) fn take_functions(&mut self) -> Vec<FunctionsRequest> {
        self.read();
        std::mem::take(&mut self.functions)
    }

    fn read(&mut self) {
        let new = std::mem::take(&mut *self.places.groups.lock().unwrap_or_else(PoisonError::into_inner));
        self.groups.extend(new.iter().filter_map(Weak::upgrade));
        let mut all = Vec::new();
        let kernel =
            self.places.session.packet_slots().map_or(0, |slots| take(slots, Asker::Kernel, &mut all));
        self.refused = self.past + kernel;
        let mut past = 0;
        self.groups.retain(|group| {
            // Looked at first: what was asked for before the others let it go is read now.
            let is_ours_alone = Arc::strong_count(group) == 1;
            let refused = take(&**group, Asker::Process, &mut all);
            self.refused = self.refused.saturating_add(refused);
            past += if is_ours_alone { refused } else { 0 };
            !is_ours_alone
        });
        self.past = self.past.saturating_add(past);
        all.sort_by_key(|request| request.time_ns);
        for request in all {
            let Request { asker, time_ns, duration_ns, .. } = request;
            if duration_ns & PROFILE != 0 {
                self.samples.push(time_ns..time_ns.saturating_add(duration_ns & !PROFILE));
            } else if duration_ns & FUNCTIONS != 0 {
                let (pattern, ns) = wanted_functions(duration_ns);
                self.functions.push(FunctionsRequest { asker, pattern, ns });
            } else {
                self.packets.push(request);
            }
        }
        // A process may ask for what nothing serves.
        self.samples.truncate(WAITING_MAX);
        self.packets.truncate(WAITING_MAX);
        self.functions.truncate(WAITING_MAX);
    }

    /// How many requests there was no slot for, when it was looked last.
    pub(crate) fn refused(&self) -> u64 {
        self.refused
    }
}

/// Takes the requests of one memory, and frees their slots. Returns how many were refused there.
fn take(slots: &dyn Slots, asker: Asker, to: &mut Vec<Request>) -> u64 {
    let mut all = [0; size_of::<PacketRequests>()];
    slots.read(0, &mut all);
    for slot in 0..SLOTS {
        let at = slot_at(slot);
        if word(&all, at + offset_of!(PacketRequest, state)) != READY {
            continue;
        }
        // Behind the look at its state: before that the words may not have been there.
        let mut own = [0; SLOT_BYTES];
        slots.read(at, &mut own);
        let thread = word(&own, offset_of!(PacketRequest, thread));
        to.push(Request {
            asker,
            time_ns: word(&own, offset_of!(PacketRequest, time)).min(now()),
            pid: (thread >> 32) as u32,
            tid: thread as u32,
            cpu: word(&own, offset_of!(PacketRequest, cpu)) as u32,
            event: word(&own, offset_of!(PacketRequest, event)),
            duration_ns: word(&own, offset_of!(PacketRequest, duration)),
        });
        slots.write(at + offset_of!(PacketRequest, state), FREE);
    }
    word(&all, offset_of!(PacketRequests, refused))
}

fn word(bytes: &[u8], at: usize) -> u64 {
    bytes.get(at..).and_then(|bytes| bytes.first_chunk()).map_or(0, |word| u64::from_le_bytes(*word))
}

#[cfg(test)]
mod tests {
    use super::*;
    use mote_layout::packet_requests::{TAKEN, functions_wanted};

    /// Writes a request as a process does.
    fn ask(area: &GroupArea, cpu: u64, state: u64, time: u64) {
        ask_for(area, cpu, (state, time), 5_000_000);
    }

    fn ask_for(area: &GroupArea, cpu: u64, (state, time): (u64, u64), duration: u64) {
        let at = slot_at(cpu as usize);
        for (offset, word) in [
            (offset_of!(PacketRequest, time), time),
            (offset_of!(PacketRequest, thread), 7 << 32 | 8),
            (offset_of!(PacketRequest, cpu), cpu),
            (offset_of!(PacketRequest, event), 3),
            (offset_of!(PacketRequest, duration), duration),
            (offset_of!(PacketRequest, state), state),
        ] {
            Slots::write(area, at + offset, word);
        }
    }

    #[test]
    fn samples_and_packets_are_asked_for_by_the_same_slots() {
        let places = Arc::new(Places::new(SessionArea::new(false)));
        let mut requests = Requests::new(places.clone());
        let area = Arc::new(GroupArea::make().expect("memory"));
        places.add(&area);
        ask(&area, 1, READY, 300);
        ask_for(&area, 2, (READY, 200), PROFILE | 50);
        ask_for(&area, 3, (READY, 100), u64::MAX);
        ask_for(&area, 4, (READY, 150), functions_wanted(9, 30));
        // Each is for one of three, whichever reads it.
        let functions = FunctionsRequest { asker: Asker::Process, pattern: 9, ns: 30 };
        assert_eq!(requests.take_functions(), [functions]);
        assert_eq!(requests.take_samples(), [100..100 + (u64::MAX >> 1), 200..250]);
        assert_eq!(requests.take().iter().map(|request| request.time_ns).collect::<Vec<_>>(), [300]);
        assert!(requests.take_samples().is_empty() && requests.take().is_empty());
    }

    #[test]
    fn requests_are_taken_once_in_the_order_of_their_events() {
        let places = Arc::new(Places::new(SessionArea::new(false)));
        let mut requests = Requests::new(places.clone());
        assert_eq!(requests.take(), []);
        let areas = [0, 1].map(|_| Arc::new(GroupArea::make().expect("memory")));
        areas.iter().for_each(|area| places.add(area));
        ask(&areas[0], 1, READY, 300);
        ask(&areas[0], 2, TAKEN, 100);
        ask(&areas[1], 33, READY, 200);
        Slots::write(&*areas[1], offset_of!(PacketRequests, refused), 4);
        let taken = requests.take();
        let seen = taken.iter().map(|request| (request.time_ns, request.cpu)).collect::<Vec<_>>();
        assert_eq!(seen, [(200, 33), (300, 1)]);
        let Request { asker, pid, tid, event, duration_ns, .. } = taken[0];
        assert_eq!((asker, pid, tid, event, duration_ns), (Asker::Process, 7, 8, 3, 5_000_000));
        assert_eq!((requests.take().len(), requests.refused()), (0, 4));
        // No event is of the time to come, whatever a process says.
        ask(&areas[0], 1, READY, u64::MAX);
        assert!(requests.take().iter().all(|request| request.time_ns <= now()));
        // What is asked for last is heard, also where the group has ended.
        ask(&areas[1], 33, READY, 400);
        Slots::write(&*areas[1], offset_of!(PacketRequests, refused), 5);
        drop(areas);
        assert_eq!(requests.take().len(), 1);
        assert!(requests.groups.is_empty());
        assert_eq!((requests.take().len(), requests.refused()), (0, 5));
    }
}
