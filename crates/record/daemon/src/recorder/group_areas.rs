//! The areas of all groups of processes ([`mote_session::groups`]): each has what it has of the session to itself. All
//! are laid out the same, so that all processes get the same filters; what they hold is added up when it is looked at,
//! with what was in those that are no more.

use crate::area::group::GroupArea;
use crate::area::packets::Places;
use crate::consumer::{Change, Shared};
use crate::error::Error;
use mote_bpf::MapKind;
use mote_filter::Maps;
use mote_filter::aggregate::{Aggregate, Pair, Sum};
use mote_filter::maps::Entry;
use mote_session::GroupId;
use mote_session::layout::{Layout, map_bytes};
use mote_vm::map::{Cursor, Update};
use mote_vm::placed::PlacedMap;
use mote_wire::bundle::{MapPlace, SHARED};
use mote_wire::filter_counters;
use mote_words::size;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Most bytes of memory in all areas together; the first may take as much as it is long.
const BYTES_MAX: u64 = 256 << 20;

/// All areas.
pub(crate) struct GroupAreas {
    shared: Arc<Shared>,
    /// Where requests for packets of the hardware trace are looked for.
    places: Arc<Places>,
    /// By the number of their group.
    groups: BTreeMap<GroupId, Held>,
    /// The first group's, until it comes.
    spare: Option<GroupArea>,
    past: Past,
}

/// A group's area.
struct Held {
    area: Arc<GroupArea>,
    /// Those of the layout that are there; `None` for what all groups share.
    maps: Vec<Option<PlacedMap>>,
    pool_has_memory: bool,
}

/// What areas held that are no more.
#[derive(Default)]
struct Past {
    sums: Vec<Sum>,
    faults: Faults,
}

/// What filters could not do: read memory that events gave them, keep records aside.
#[derive(Clone, Debug, Default)]
pub(crate) struct Faults {
    /// How often the event was dropped for it, and how often kept.
    pub(crate) dropped: u64,
    pub(crate) kept: u64,
    /// How often, by event.
    pub(crate) by_event: BTreeMap<u32, u64>,
    /// Keys whose records were to be kept aside, for which there was no room.
    pub(crate) keys_refused: u64,
}

impl GroupAreas {
    /// No group's yet, and how they are laid out. They are told to `shared` and to `places`.
    ///
    /// # Errors
    /// [`Error::Session`].
    pub(crate) fn new(shared: Arc<Shared>, places: Arc<Places>) -> Result<(GroupAreas, Layout), Error> {
        let area =
            GroupArea::make().map_err(|why| Error::Session { what: "make memory for filters", why })?;
        let layout = Layout::new(area.bytes(), GroupArea::pool_place());
        let (groups, past) = (BTreeMap::new(), Past::default());
        Ok((GroupAreas { shared, places, groups, spare: Some(area), past }, layout))
    }

    /// The area of a group, made if need be.
    ///
    /// # Errors
    /// Why it cannot be had, for a person.
    pub(crate) fn of(&mut self, group: GroupId, layout: &Layout) -> Result<&GroupArea, String> {
        if !self.groups.contains_key(&group) {
            let all = (self.groups.len() as u64 + 1) * layout.memory();
            if !self.groups.is_empty() && all > BYTES_MAX {
                return Err(format!("all processes together would need {}", size(all)));
            }
            let area = self.spare.take().map_or_else(GroupArea::make, Ok).map_err(|why| why.to_string())?;
            let held = Held { area: Arc::new(area), maps: Vec::new(), pool_has_memory: false };
            self.shared.change(Change::GroupArea(group, held.area.clone()));
            self.places.add(&held.area);
            self.groups.insert(group, held);
        }
        let held = self.groups.get_mut(&group).ok_or("its processes have ended")?;
        held.fill(layout)?;
        Ok(&held.area)
    }

    /// A group is no more: no process writes there.
    pub(crate) fn end(&mut self, group: GroupId, layout: &Layout) {
        if let Some(held) = self.groups.remove(&group) {
            self.past.add(&held, layout);
        }
    }

    /// What is counted in all areas.
    pub(crate) fn aggregates(&self, maps: &Maps, layout: &Layout) -> Vec<Aggregate> {
        let shown =
            layout.maps().iter().enumerate().filter(|(_, (entry, _))| Aggregate::is_of(&entry.meaning));
        let read = shown.filter_map(|(at, (entry, _))| {
            let mut sum = self.past.sums.get(at).cloned().unwrap_or_default();
            self.groups.values().for_each(|held| held.add_to(&mut sum, at, entry));
            sum.read(entry, maps)
        });
        read.collect()
    }

    /// The faults that filters had.
    pub(crate) fn faults(&self) -> Faults {
        let mut faults = self.past.faults.clone();
        self.groups.values().for_each(|held| faults.add(&held.area));
        faults
    }
}

impl Faults {
    /// Adds those of an area.
    fn add(&mut self, area: &GroupArea) {
        let (dropped, kept) =
            (area.word(filter_counters::FAULTS_DROPPED), area.word(filter_counters::FAULTS_KEPT));
        self.dropped = self.dropped.saturating_add(dropped);
        self.kept = self.kept.saturating_add(kept);
        self.keys_refused = self.keys_refused.saturating_add(area.word(filter_counters::KEYS_REFUSED));
        if dropped == 0 && kept == 0 {
            return;
        }
        area.faults().for_each(|(id, count)| *self.by_event.entry(id).or_default() += count);
    }
}

impl Held {
    /// Makes what is in the layout and not here yet.
    ///
    /// # Errors
    /// Why that cannot be, for a person.
    fn fill(&mut self, layout: &Layout) -> Result<(), String> {
        if layout.speculates() && !self.pool_has_memory {
            let place = GroupArea::pool_place();
            let taken = self.area.allocate(place.offset, place.sizes.bytes() as u64);
            taken.map_err(|why| why.to_string())?;
            self.pool_has_memory = true;
        }
        for (entry, place) in layout.maps().iter().skip(self.maps.len()) {
            let map = if place.offset == SHARED { None } else { Some(self.make(entry, place)?) };
            self.maps.push(map);
        }
        Ok(())
    }

    fn make(&self, entry: &Entry, place: &MapPlace) -> Result<PlacedMap, String> {
        self.area.allocate(place.offset, map_bytes(&place.shape)).map_err(|why| why.to_string())?;
        let map = PlacedMap::create(self.area.memfd(), place.offset, &place.shape);
        let map = map.map_err(|why| why.to_string())?;
        if !entry.initial.is_empty() {
            let mut value = entry.initial.clone();
            value.resize(entry.shape.value_bytes as usize, 0);
            map.update(&[0; 4], &value, Update::Any).map_err(|why| why.to_string())?;
        }
        Ok(map)
    }

    /// Adds what is in a map to others'.
    fn add_to(&self, sum: &mut Sum, at: usize, entry: &Entry) {
        if let Some(Some(map)) = self.maps.get(at) {
            sum.add(entry, pairs(entry, map), map.dropped());
        }
    }
}

impl Past {
    /// Takes in what was in an area.
    fn add(&mut self, held: &Held, layout: &Layout) {
        self.sums.resize_with(layout.maps().len().max(self.sums.len()), Sum::default);
        let maps = self.sums.iter_mut().zip(layout.maps()).enumerate();
        for (at, (sum, (entry, _))) in maps.filter(|(_, (_, (entry, _)))| Aggregate::is_of(&entry.meaning)) {
            held.add_to(sum, at, entry);
        }
        self.faults.add(&held.area);
    }
}

/// Copies of a map's keys and values.
fn pairs(entry: &Entry, map: &PlacedMap) -> Vec<Pair> {
    let shape = entry.shape;
    if matches!(shape.kind, MapKind::RingBuffer | MapKind::Programs) {
        return Vec::new();
    }
    let mut cursor = Cursor::default();
    let (mut key, mut value) = (vec![0; shape.key_bytes as usize], vec![0; shape.value_bytes as usize]);
    let mut pairs = Vec::new();
    // Processes write while this reads: more entries than there can be are nobody's.
    while pairs.len() < shape.entries as usize && map.next(&mut cursor, &mut key, &mut value) {
        pairs.push((key.clone(), value.clone()));
    }
    pairs
}
