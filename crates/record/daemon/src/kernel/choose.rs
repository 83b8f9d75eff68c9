//! Which events of the kernel, and what is decided about each before it is recorded.

use crate::area::session::SessionArea;
use crate::error::Error;
use crate::options::{KernelOptions, Options};
use mote_catalog::event::Event;
use mote_catalog::{Catalog, stack};
use mote_filter::{Rule, Side, fits};
use mote_generate::{Facts, Filter, Outcome};
use mote_kernel::map::Map;
use mote_kernel::rules::Rules;
use mote_kernel::{attach, privilege};
use mote_layout::parse::{Description, parse};
use mote_pattern::Pattern;
use mote_probes::Where;
use mote_session::filters::more_events;
use mote_session::objects::{self, ObjectFilter};
use mote_session::rules::{Entry, RuleList};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Patterns of rules as they were given, and the names of the events that each has chosen.
pub(super) type Patterns = Vec<(String, Vec<String>)>;

/// What is asked of the kernel's events while a recording runs, and what has become of it.
pub(crate) struct Wanting {
    /// The rules.
    pub(super) rule_list: RuleList,
    /// Programs that clang has compiled, as filters.
    objects: Vec<ObjectFilter>,
    /// What rules keep in the kernel.
    pub(crate) rules: Rules,
    /// Full names of the events that each pattern means.
    pub(super) patterns: Patterns,
    /// Full names of the events that are recorded, or looked at.
    pub(super) on: BTreeSet<String>,
}

/// The events with their filters.
pub(super) struct Choice {
    pub(super) events: Vec<(Event, Option<Filter>)>,
    /// The filters' maps.
    pub(super) maps: Vec<Arc<Map>>,
    /// What a person should know.
    pub(super) remarks: Vec<String>,
    /// What programs need to know of this kernel.
    pub(super) facts: Option<Facts>,
}

/// Remarks of one kind that are told.
const REMARKS_MAX: usize = 5;
/// Remarks of all kinds that are told.
const MANY_REMARKS: usize = 20;

impl Wanting {
    /// Whether rules ask for the packets of the hardware trace before events.
    pub(crate) fn snapshots_packets(&self) -> bool {
        self.rule_list.rules().any(Rule::snapshots_packets)
    }

    /// What the options ask for.
    ///
    /// # Errors
    /// An object that cannot be read; a right that is missing.
    pub(super) fn new(
        wanted: &KernelOptions,
        options: &Options,
        session_area: &SessionArea,
    ) -> Result<Wanting, Error> {
        if let Some(missing) = privilege::check() {
            return Err(Error::Kernel(missing.to_string()));
        }
        let mut rules = Rules::new(session_area.names().clone());
        let mut objects = Vec::new();
        for (path, bytes) in crate::objects::read(&options.objects)? {
            let read = objects::read(&path.display().to_string(), &bytes, rules.maps_mut());
            objects.extend(read.map_err(|why| Error::Object(path, why))?);
        }
        let rule_list = RuleList::new(&wanted.rules);
        Ok(Wanting { rule_list, objects, rules, patterns: Vec::new(), on: BTreeSet::new() })
    }

    /// Chooses by the rules that stand. There may be no events.
    ///
    /// # Errors
    /// [`Error::Kernel`] when a pattern matches nothing, or a rule does not fit its events.
    pub(super) fn choose(
        &mut self,
        wanted: &KernelOptions,
        options: &Options,
        session_area: &SessionArea,
    ) -> Result<Choice, Error> {
        let mut found = Found::of(&self.rule_list, options)?;
        let excluded: Vec<Pattern> = options.exclude.iter().map(|text| Pattern::new(text)).collect();
        found.events.retain(|_, (event, _)| {
            !excluded.iter().any(|pattern| pattern.matches(&event.provider, &event.name))
        });
        let mut warnings = Vec::new();
        let mut events = Vec::new();
        for (mut event, rules) in found.events.into_values() {
            stack::add(&mut event, wanted.stacks);
            if let Some(filter) = self.filter(&event, &rules, &mut warnings)? {
                events.push((event, filter));
            }
        }
        let mut remarks = found.remarks;
        warnings.dedup();
        let more = warnings.len().saturating_sub(REMARKS_MAX);
        remarks.extend(warnings.into_iter().take(REMARKS_MAX).chain(more_events(more)));
        let maps = self.rules.create(session_area.kernel()?).map_err(|why| Error::Kernel(why.to_string()))?;
        self.patterns = found.patterns;
        self.on = events.iter().map(|(event, _)| event.full_name()).collect();
        Ok(Choice { events, maps, remarks, facts: found.facts })
    }

    /// What decides about an event; `None` when nothing is to be done with it.
    fn filter(
        &mut self,
        event: &Event,
        rules: &[Rule],
        warnings: &mut Vec<String>,
    ) -> Result<Option<Option<Filter>>, Error> {
        let object = self.objects.iter().find(|object| object.pattern.matches(&event.provider, &event.name));
        if let Some(object) = object {
            let refused =
                |why| Error::Kernel(format!("filter {} cannot run in the kernel: {why}", object.line()));
            return Ok(Some(Some(self.rules.program(&object.insns, event).map_err(refused)?)));
        }
        let (outcome, new) = self.rules.decide(rules, event).map_err(|why| Error::Kernel(why.render()))?;
        warnings.extend(new.iter().map(|warning| warning.render_warning()));
        Ok(match outcome {
            Outcome::Off => None,
            Outcome::Recorded => Some(None),
            Outcome::Filtered(filter) => Some(Some(filter)),
        })
    }

    /// Whether a pattern means an event that is on.
    pub(super) fn is_on(&self, pattern: &str, options: &Options) -> bool {
        let catalog = Catalog::open().with_durations();
        let place = place(options);
        let events = select(&catalog, &place, pattern).map_or_else(|_| Vec::new(), |(events, _)| events);
        events.iter().any(|event| self.on.contains(&event.full_name()))
    }
}

/// Events by their full names, each with the rules that are about it.
struct Found {
    events: BTreeMap<String, (Event, Vec<Rule>)>,
    patterns: Patterns,
    remarks: Vec<String>,
    facts: Option<Facts>,
}

fn place(options: &Options) -> Where {
    Where::here(options.attach.first().map(|pid| pid.unsigned_abs()))
}

/// The events that a pattern means, and what there is to say about it.
fn select(catalog: &Catalog, place: &Where, pattern: &str) -> Result<(Vec<Event>, Vec<String>), Error> {
    if mote_probes::is_probe(pattern) {
        let selection = mote_probes::select(&[pattern], place, catalog.btf().map(attach::types))
            .map_err(|why| Error::Kernel(why.to_string()))?;
        return Ok((selection.events, selection.notes));
    }
    let selection = catalog.select(&[pattern]).map_err(|why| Error::Kernel(why.to_string()))?;
    Ok((selection.events, selection.left_out))
}

impl Found {
    fn of(rule_list: &RuleList, options: &Options) -> Result<Found, Error> {
        let catalog = Catalog::open().with_durations();
        let remarks = catalog.notes().to_vec();
        // What needs them says what is missing.
        let facts = catalog.btf().and_then(|btf| Facts::of(btf).ok());
        let mut found = Found { events: BTreeMap::new(), patterns: Vec::new(), remarks, facts };
        let place = place(options);
        for entry in rule_list.entries() {
            match entry {
                Entry::Rule(rule) => {
                    let (events, notes) = select(&catalog, &place, rule.pattern())?;
                    let more = notes.len().saturating_sub(REMARKS_MAX);
                    found.remarks.extend(notes.into_iter().take(REMARKS_MAX));
                    if more > 0 {
                        found.remarks.push(format!("and {more} more like these"));
                    }
                    found.add(rule, events)?;
                }
                Entry::Not(pattern) => {
                    for event in select(&catalog, &place, pattern)?.0 {
                        found.events.remove(&event.full_name());
                    }
                }
            }
        }
        Ok(found)
    }

    fn add(&mut self, rule: &Rule, events: Vec<Event>) -> Result<(), Error> {
        let texts: Vec<String> = events.iter().map(Event::description).collect();
        let described: Vec<Description<'_>> =
            texts.iter().filter_map(|text| parse(text.as_bytes()).ok()).collect();
        // A family may have events without the field of a condition, but not only such.
        fits(&rule.about("*"), described.into_iter(), Side::Kernel)
            .map_err(|why| Error::Kernel(why.render()))?;
        let mut names = Vec::new();
        for mut event in events {
            if self.tell_apart(&mut event)
                && let Some(place) = event.hook.place()
            {
                self.remarks.push(format!(
                    "several events would have one name: {} is the one at {place}",
                    event.name
                ));
                self.remarks.truncate(MANY_REMARKS);
            }
            let name = event.full_name();
            // The catalogue understands names that the event itself does not have.
            let rule = rule.about(&name);
            names.push(name.clone());
            self.events.entry(name).or_insert_with(|| (event, Vec::new())).1.push(rule);
        }
        self.patterns.push((rule.pattern().to_owned(), names));
        Ok(())
    }
}

impl Found {
    /// Numbers an event that has the name of another one: functions of two programs may be called alike. Returns
    /// whether it did.
    fn tell_apart(&self, event: &mut Event) -> bool {
        let base = event.name.clone();
        for number in 2.. {
            match self.events.get(&event.full_name()) {
                Some((known, _)) if known.hook != event.hook => event.name = format!("{base}_{number}"),
                _ => break,
            }
        }
        event.name != base
    }
}
