//! Which events of the kernel, and what is decided about each before it is recorded.

use crate::commons::Commons;
use crate::error::Error;
use crate::objects;
use crate::options::{KernelOptions, Options};
use mote_filter::{Rule, Side, fits};
use mote_kernel::catalog::Catalog;
use mote_kernel::event::Event;
use mote_kernel::generate::Facts;
use mote_kernel::probe::{self, Where};
use mote_kernel::rules::{Fate, Rules};
use mote_kernel::session::{Filter, Map};
use mote_kernel::{privilege, stack};
use mote_layout::parse::{Description, parse};
use mote_pattern::Pattern;
use std::collections::BTreeMap;
use std::sync::Arc;

/// The events with their filters.
pub(super) struct Choice {
    pub(super) events: Vec<(Event, Option<Filter>)>,
    /// The filters' maps.
    pub(super) maps: Vec<Arc<Map>>,
    /// What they are for.
    pub(super) rules: Rules,
    /// Full names of the events that each pattern means.
    pub(super) patterns: Vec<(String, Vec<String>)>,
    /// What a person should know.
    pub(super) remarks: Vec<String>,
    /// What programs need to know of this kernel.
    pub(super) facts: Facts,
}

/// Remarks of one kind that are told.
const REMARKS_MAX: usize = 5;

/// Chooses by the rules.
///
/// # Errors
/// [`Error::Kernel`] when a right is missing, a pattern matches nothing, or a rule does not fit its events.
pub(super) fn events(wanted: &KernelOptions, options: &Options, commons: &Commons) -> Result<Choice, Error> {
    if let Some(missing) = privilege::check() {
        return Err(Error::Kernel(missing.to_string()));
    }
    let mut found = Found::of(wanted, options)?;
    let excluded: Vec<Pattern> = options.exclude.iter().map(|text| Pattern::new(text)).collect();
    found.events.retain(|_, (event, _)| {
        !excluded.iter().any(|pattern| pattern.matches(&event.provider, &event.name))
    });
    let mut decided = Rules::new(commons.names().clone());
    let mut objects = Vec::new();
    for path in &options.objects {
        objects.extend(objects::read(path, decided.maps_mut())?);
    }
    let mut warnings = Vec::new();
    let mut events = Vec::new();
    for (mut event, rules) in found.events.into_values() {
        stack::add(&mut event, wanted.stacks);
        let object = objects.iter().find(|object| object.pattern.matches(&event.provider, &event.name));
        if let Some(object) = object {
            let refused =
                |why| Error::Kernel(format!("filter {} cannot run in the kernel: {why}", object.line()));
            let filter = decided.program(&object.insns, &event).map_err(refused)?;
            events.push((event, Some(filter)));
            continue;
        }
        let (fate, new) = decided.decide(&rules, &event).map_err(|why| Error::Kernel(why.render()))?;
        warnings.extend(new.iter().map(|warning| warning.render_warning()));
        match fate {
            Fate::Off => {}
            Fate::Recorded => events.push((event, None)),
            Fate::Filtered(filter) => events.push((event, Some(filter))),
        }
    }
    if events.is_empty() && wanted.latency.is_none() {
        return Err(Error::Kernel(
            "nothing is left of the events that -k chooses: -x leaves them out, or no rule can hold for them"
                .to_owned(),
        ));
    }
    let mut remarks = found.remarks;
    warnings.dedup();
    remarks.extend(warnings.into_iter().take(REMARKS_MAX));
    let maps = decided.create(commons.kernel()?).map_err(|why| Error::Kernel(why.to_string()))?;
    Ok(Choice { events, maps, rules: decided, patterns: found.patterns, remarks, facts: found.facts })
}

/// What the patterns mean.
struct Found {
    /// By full name, each with the rules that are about it.
    events: BTreeMap<String, (Event, Vec<Rule>)>,
    patterns: Vec<(String, Vec<String>)>,
    remarks: Vec<String>,
    facts: Facts,
}

impl Found {
    fn of(wanted: &KernelOptions, options: &Options) -> Result<Found, Error> {
        let catalog = Catalog::open().with_durations();
        let remarks = catalog.notes().to_vec();
        let facts = catalog.btf().map_or_else(Facts::of_kernel, Facts::of);
        let facts = facts.map_err(|why| Error::Kernel(why.to_string()))?;
        let mut found = Found { events: BTreeMap::new(), patterns: Vec::new(), remarks, facts };
        let place = Where::here(options.attach.first().map(|pid| pid.unsigned_abs()));
        for rule in &wanted.rules {
            let pattern = rule.pattern();
            let (events, notes) = if probe::is_probe(pattern) {
                let selection =
                    probe::select(&[pattern], &place).map_err(|why| Error::Kernel(why.to_string()))?;
                (selection.events, selection.notes)
            } else {
                let selection = catalog.select(&[pattern]).map_err(|why| Error::Kernel(why.to_string()))?;
                (selection.events, selection.left_out)
            };
            found.remarks.extend(notes.into_iter().take(REMARKS_MAX));
            found.add(rule, events)?;
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
            self.tell_apart(&mut event);
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
    /// Numbers an event that has the name of another one: functions of two programs may be called alike.
    fn tell_apart(&self, event: &mut Event) {
        let base = event.name.clone();
        for number in 2.. {
            match self.events.get(&event.full_name()) {
                Some((known, _)) if known.hook != event.hook => event.name = format!("{base}_{number}"),
                _ => return,
            }
        }
    }
}
