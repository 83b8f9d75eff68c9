//! The areas of all groups of processes ([`crate::groups`]): each has what it has of the session to itself. All are laid out the same, so that all processes
//! get the same filters; what they hold is added up when it is looked at, with what was in those that are no more.

use crate::area::Area;
use crate::commons::Commons;
use crate::consumer::{Change, Shared};
use crate::error::Error;
use mote_bpf::{MapKind, MapShape};
use mote_filter::Maps;
use mote_filter::aggregate::{Aggregate, Pair, Sum};
use mote_filter::maps::{Entry, Meaning};
use mote_sys::Errno;
use mote_vm::map::{Cursor, Map, Update};
use mote_vm::placed::PlacedMap;
use mote_wire::board;
use mote_wire::bundle::{MapPlace, PAGE, SHARED};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Most bytes of memory in all areas together; the first may take as much as it is long.
const BYTES_MAX: u64 = 256 << 20;

/// All areas.
pub(crate) struct Areas<'r> {
    shared: &'r Shared,
    commons: Commons,
    layout: Layout,
    /// By the number of their group.
    groups: BTreeMap<u64, Held>,
    /// The first group's, until it comes.
    spare: Option<Area>,
    past: Past,
}

/// What lies where in each area.
struct Layout {
    /// How long an area is.
    bytes: u64,
    /// Where the last map ends.
    used: u64,
    /// Rules keep records aside: the pool has memory.
    speculates: bool,
    maps: Vec<(Entry, MapPlace)>,
}

/// A group's area.
struct Held {
    area: Arc<Area>,
    /// Those of the layout that are there; `None` for what all groups share.
    maps: Vec<Option<PlacedMap>>,
    pool_has_memory: bool,
    /// Why not all of the layout is there.
    failed: Option<String>,
}

/// What areas held that are no more.
#[derive(Default)]
struct Past {
    sums: Vec<Sum>,
    faults: Faults,
}

/// What filters could not read of the memory that events gave them.
#[derive(Clone, Debug, Default)]
pub(crate) struct Faults {
    /// How often the event was dropped for it, and how often kept.
    pub(crate) dropped: u64,
    pub(crate) kept: u64,
    /// How often, by event.
    pub(crate) by_event: BTreeMap<u32, u64>,
}

impl<'r> Areas<'r> {
    /// No group's yet. They are told to `shared`.
    ///
    /// # Errors
    /// [`Error::Session`].
    pub(crate) fn new(shared: &'r Shared, commons: Commons) -> Result<Areas<'r>, Error> {
        let area = Area::make().map_err(|why| Error::Session { what: "make memory for filters", why })?;
        let used = area.front_bytes().next_multiple_of(PAGE);
        let layout = Layout { bytes: area.bytes(), used, speculates: false, maps: Vec::new() };
        let (groups, past) = (BTreeMap::new(), Past::default());
        Ok(Areas { shared, commons, layout, groups, spare: Some(area), past })
    }

    /// Makes room for the maps that are new, and for what is kept aside if rules do that.
    ///
    /// # Errors
    /// Why there is none anywhere, for a person. A group whose memory cannot be had is told of when it is asked for.
    pub(crate) fn extend(&mut self, maps: &Maps, speculates: bool) -> Result<(), String> {
        self.layout.speculates |= speculates;
        for entry in maps.entries().iter().skip(self.layout.maps.len()) {
            self.layout.place(entry, &self.commons)?;
        }
        let Areas { layout, groups, .. } = self;
        groups.values_mut().for_each(|held| held.fill(layout));
        Ok(())
    }

    /// The area of a group, made if need be.
    ///
    /// # Errors
    /// Why it cannot be had, for a person.
    pub(crate) fn of(&mut self, group: u64) -> Result<&Area, String> {
        if !self.groups.contains_key(&group) {
            let all = (self.groups.len() as u64 + 1) * self.layout.memory();
            if !self.groups.is_empty() && all > BYTES_MAX {
                return Err(format!("all together would take {} MiB", all >> 20));
            }
            let area = self.spare.take().map_or_else(Area::make, Ok).map_err(|why| why.to_string())?;
            let mut held =
                Held { area: Arc::new(area), maps: Vec::new(), pool_has_memory: false, failed: None };
            held.fill(&self.layout);
            self.shared.change(Change::Area(group, held.area.clone()));
            self.groups.insert(group, held);
        }
        match self.groups.get(&group) {
            Some(Held { area, failed: None, .. }) => Ok(area),
            Some(Held { failed: Some(why), .. }) => Err(why.clone()),
            None => Err("it is no more".to_owned()),
        }
    }

    /// These groups are no more: nobody writes there.
    pub(crate) fn end(&mut self, groups: &[u64]) {
        for held in groups.iter().filter_map(|group| self.groups.remove(group)) {
            self.past.add(&held, &self.layout);
        }
    }

    /// Where the maps are.
    pub(crate) fn places(&self) -> Vec<MapPlace> {
        self.layout.maps.iter().map(|(_, place)| *place).collect()
    }

    /// How many bytes of an area are used.
    pub(crate) fn used(&self) -> u64 {
        self.layout.used
    }

    /// What is counted in all areas.
    pub(crate) fn aggregates(&self, maps: &Maps) -> Vec<Aggregate> {
        let shown =
            self.layout.maps.iter().enumerate().filter(|(_, (entry, _))| Aggregate::is_of(&entry.meaning));
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
    fn add(&mut self, area: &Area) {
        let (dropped, kept) = (area.word(board::FAULTS_DROPPED), area.word(board::FAULTS_KEPT));
        self.dropped = self.dropped.saturating_add(dropped);
        self.kept = self.kept.saturating_add(kept);
        if dropped == 0 && kept == 0 {
            return;
        }
        area.faults().for_each(|(id, count)| *self.by_event.entry(id).or_default() += count);
    }
}

impl Layout {
    /// Finds a place for a map behind all others.
    fn place(&mut self, entry: &Entry, commons: &Commons) -> Result<(), String> {
        let shape = entry.shape;
        if entry.meaning == Meaning::Shared {
            commons.check(&shape)?;
            self.maps.push((entry.clone(), MapPlace { shape, offset: SHARED }));
            return Ok(());
        }
        let offset = self.used;
        let end = offset.checked_add(pages(&shape));
        let end = end.filter(|end| *end <= self.bytes).ok_or_else(|| Errno(libc::ENOSPC).to_string())?;
        self.maps.push((entry.clone(), MapPlace { shape, offset }));
        self.used = end;
        Ok(())
    }

    /// Bytes of memory that an area takes.
    fn memory(&self) -> u64 {
        let pool = if self.speculates { 0 } else { Area::pool_place().sizes.bytes() as u64 };
        self.used - pool
    }
}

impl Held {
    /// Makes what is in the layout and not here yet; notes why if that cannot be.
    fn fill(&mut self, layout: &Layout) {
        self.failed = self.try_fill(layout).err();
    }

    fn try_fill(&mut self, layout: &Layout) -> Result<(), String> {
        if layout.speculates && !self.pool_has_memory {
            let place = Area::pool_place();
            let taken = self.area.allocate(place.offset, place.sizes.bytes() as u64);
            taken.map_err(|why| why.to_string())?;
            self.pool_has_memory = true;
        }
        for (entry, place) in layout.maps.iter().skip(self.maps.len()) {
            let map = if place.offset == SHARED { None } else { Some(self.make(entry, place)?) };
            self.maps.push(map);
        }
        Ok(())
    }

    fn make(&self, entry: &Entry, place: &MapPlace) -> Result<PlacedMap, String> {
        self.area.allocate(place.offset, pages(&place.shape)).map_err(|why| why.to_string())?;
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
        self.sums.resize_with(layout.maps.len().max(self.sums.len()), Sum::default);
        let maps = self.sums.iter_mut().zip(&layout.maps).enumerate();
        for (at, (sum, (entry, _))) in maps.filter(|(_, (_, (entry, _)))| Aggregate::is_of(&entry.meaning)) {
            held.add_to(sum, at, entry);
        }
        self.faults.add(&held.area);
    }
}

/// Bytes of a map, in whole pages.
fn pages(shape: &MapShape) -> u64 {
    (Map::bytes(shape) as u64).next_multiple_of(PAGE)
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
