//! What becomes of each event by the rules: a verdict, the filter programs, their maps, and the bundle that processes
//! get.
//!
//! Every event is decided once, before any process is told its id, and again when a person changes the rules. Processes
//! always get the whole state, so that it does not matter which one they had before.

use crate::Settings;
use crate::events::Events;
use crate::layout::Layout;
use crate::memory::SharedWords;
use crate::objects::{self, ObjectFilter};
use crate::rules::RuleList;
use mote_bpf::{Entry, Environment, Insn, Word, environment, verify};
use mote_filter::{Compiled, Decision, Diagnostic, Emitted, Maps, Missing, Rule, Side, compile, fits};
use mote_layout::cooperation::READABLE_BYTES;
use mote_layout::functions::{PROVIDER, asked_for};
use mote_layout::parse::Description;
use mote_layout::tracer;
use mote_pattern::Pattern;
use mote_wire::bundle::{Bundle, Disposition, MapPlace, Program};
use std::collections::HashSet;
use std::path::PathBuf;

/// Program of an event.
struct Loaded {
    serial: u64,
    insns: Vec<Insn>,
}

/// The filters of a session.
pub struct Filters {
    rules: RuleList,
    objects: Vec<ObjectFilter>,
    exclude: Vec<Pattern>,
    keeps_on_fault: bool,
    /// The maps of all rules.
    pub maps: Maps,
    /// Patterns of functions that are sampled now, as rules have asked for that.
    sampled: Vec<String>,
    dispositions: Vec<Disposition>,
    programs: Vec<Loaded>,
    serial: u64,
    /// Number of the newest bundle; 0 while ids alone say everything.
    generation: u32,
    /// The newest bundle is older than the dispositions.
    stale: bool,
    /// Problems that were reported, and how many remarks.
    reported: HashSet<String>,
    remarks: usize,
    /// Remarks that are to be told of as a number.
    more_remarks: usize,
}

/// What deciding about events reads and changes of the session.
pub(crate) struct Scope<'s> {
    pub(crate) layout: &'s mut Layout,
    pub(crate) words: &'s SharedWords,
    pub(crate) events: &'s mut Events,
    /// Events that rules emit, and that are new.
    pub(crate) emitted: &'s mut Vec<u32>,
    /// What a person should know.
    pub(crate) reports: &'s mut Vec<(String, Weight)>,
}

impl Scope<'_> {
    /// Takes in the event that a rule emits, and returns its id.
    fn declare(events: &mut Events, emitted: &mut Vec<u32>, text: &[u8]) -> Result<u16, String> {
        use crate::events::Announced;
        match events.announce(text) {
            Announced::New(id) => {
                events.note_emitted(id);
                emitted.push(id);
                Ok(id as u16)
            }
            Announced::Known(id) => Ok(id as u16),
            Announced::Malformed(why) => Err(why.to_string()),
            Announced::TooMany => Err("the recording has as many kinds of events as it can hold".to_owned()),
        }
    }
}

/// How much a message weighs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Weight {
    /// It is good to know.
    Remark,
    /// Something that was asked for is not done.
    Problem,
}

/// Remarks about rules that are told; a pattern may bring in hundreds of events that do not have a field.
const REMARKS_MAX: usize = 5;

impl Filters {
    /// The rules of a session that begins; no event is known yet.
    ///
    /// # Errors
    /// An object with filters that cannot be used, and why.
    pub(crate) fn new(settings: &Settings) -> Result<Filters, (PathBuf, String)> {
        let mut filters = Filters {
            rules: RuleList::new(&settings.rules),
            objects: Vec::new(),
            exclude: settings.exclude.iter().map(|text| Pattern::new(text)).collect(),
            keeps_on_fault: settings.keeps_on_fault,
            maps: Maps::with_names(settings.names.clone()),
            sampled: Vec::new(),
            dispositions: Vec::new(),
            programs: Vec::new(),
            serial: 0,
            generation: 0,
            stale: false,
            reported: HashSet::new(),
            remarks: 0,
            more_remarks: 0,
        };
        if settings.has_kernel {
            filters.maps.share_flags();
        }
        for (path, bytes) in &settings.objects {
            let read = objects::read(&path.display().to_string(), bytes, &mut filters.maps);
            filters.objects.extend(read.map_err(|why| (path.clone(), why))?);
        }
        Ok(filters)
    }

    /// Whether any rule asks for the state of threads, thresholds, or kernel events.
    pub fn asks_kernel(&self) -> bool {
        let helpers = [tracer::SET_THRESHOLD, tracer::OPEN_KERNEL];
        self.rules.rules().any(Rule::asks_kernel)
            || self.objects.iter().any(|object| helpers.iter().any(|helper| object.calls(*helper)))
    }

    /// Whether any rule keeps records aside.
    pub fn speculates(&self) -> bool {
        self.rules.rules().any(Rule::speculates)
            || [tracer::SPECULATE, tracer::SPECULATE_BY]
                .into_iter()
                .any(|id| self.objects.iter().any(|object| object.calls(id)))
    }

    /// Whether any rule asks for snapshots.
    pub fn snapshots(&self) -> bool {
        self.rules.rules().any(Rule::snapshots)
            || self.objects.iter().any(|object| object.calls(tracer::SNAPSHOT))
    }

    /// Whether any rule asks for the packets of the hardware trace before an event.
    pub fn snapshots_packets(&self) -> bool {
        self.rules.rules().any(Rule::snapshots_packets)
            || self.objects.iter().any(|object| object.calls(tracer::SNAPSHOT_PACKETS))
    }

    /// Whether any rule asks for samples of threads.
    pub fn profiles(&self) -> bool {
        self.rules.rules().any(Rule::profiles)
    }

    /// The name of an event that programs have a number for.
    pub fn event(&self, number: u64) -> Option<&str> {
        self.maps.event(number)
    }

    /// The pattern of functions that programs have a number for.
    pub fn function_pattern(&self, number: u64) -> Option<&str> {
        self.maps.function_pattern(number)
    }

    /// Whether any rule names words that all processes share.
    pub(crate) fn names_shared_words(&self) -> bool {
        let with_flags = self.maps.flags_are_shared();
        self.rules.rules().any(|rule| rule.names_shared_words(with_flags))
    }

    /// Takes the rules away that name such words.
    pub(crate) fn forget_shared_words(&mut self) {
        let with_flags = self.maps.flags_are_shared();
        self.rules.retain(|rule| !rule.names_shared_words(with_flags));
    }

    /// The rules, for a person.
    pub fn lines(&self) -> Vec<String> {
        self.rules.lines().chain(self.objects.iter().map(ObjectFilter::line)).collect()
    }

    /// The patterns that rules name.
    pub(crate) fn patterns(&self) -> impl Iterator<Item = &str> {
        self.rules
            .rules()
            .map(Rule::pattern)
            .chain(self.objects.iter().map(|object| object.pattern_text.as_str()))
    }

    /// Whether each of these rules fits some of the events that it is about, if there are any.
    ///
    /// # Errors
    /// What is wrong with one, for a person.
    pub(crate) fn check(rules: &[Rule], events: &Events) -> Result<(), String> {
        let known = || events.iter().map(|(_, event)| event);
        rules.iter().try_for_each(|rule| fits(rule, known(), Side::User)).map_err(|why| why.render())
    }

    /// Adds rules. One that only records takes the place of those that recorded the same pattern.
    pub(crate) fn enable(&mut self, rules: Vec<Rule>, scope: &mut Scope<'_>) {
        self.rules.add(rules);
        self.decide_all(scope);
    }

    /// Takes rules away, or what they do about some events; returns how many patterns meant something.
    pub(crate) fn disable(&mut self, patterns: &[String], scope: &mut Scope<'_>) -> usize {
        let objects = self.objects.len();
        self.objects.retain(|object| !patterns.contains(&object.pattern_text));
        let are_on = |text: &str| {
            let pattern = Pattern::new(text);
            let mut known = scope.events.iter();
            known.any(|(id, event)| self.is_on(id) && pattern.matches(event.provider, event.name))
        };
        let mut rules = self.rules.clone();
        let meant = rules.take_back(patterns, are_on);
        self.rules = rules;
        self.decide_all(scope);
        meant + objects - self.objects.len()
    }

    /// Has the functions of these patterns sampled from now on, and no others.
    pub(crate) fn sample(&mut self, patterns: Vec<String>, scope: &mut Scope<'_>) {
        self.sampled = patterns;
        for id in 0..scope.events.len() {
            let text = scope.events.text(id).unwrap_or_default();
            let wanted = mote_layout::parse::parse(text).ok().and_then(|event| self.as_asked_for(&event));
            let place = self.dispositions.get_mut(id as usize);
            if let (Some(wanted), Some(place)) = (wanted, place.filter(|place| Some(**place) != wanted)) {
                *place = wanted;
                self.stale = true;
            }
        }
    }

    /// What becomes of an event of a function that is sampled when a rule asks for that; `None` of other events.
    fn as_asked_for(&self, event: &Description<'_>) -> Option<Disposition> {
        let mut patterns = asked_for(event.text).filter(|_| event.provider == PROVIDER)?;
        let is_asked_for = patterns.any(|pattern| self.sampled.iter().any(|wanted| wanted == pattern));
        let (provider, name) = (event.provider, event.name);
        let is_excluded = || self.exclude.iter().any(|pattern| pattern.matches(provider, name));
        let is_on = is_asked_for && !is_excluded() && !self.rules.was_taken_back(provider, name);
        Some(if is_on { Disposition::Unfiltered } else { Disposition::Off })
    }

    fn decide_all(&mut self, scope: &mut Scope<'_>) {
        self.programs.clear();
        self.dispositions.clear();
        (0..scope.events.len()).for_each(|id| self.decide(id, scope));
        // From now on the first answer is not the last word.
        self.stale = true;
    }

    /// Decides what becomes of an event. What rules emit is always on.
    pub(crate) fn decide(&mut self, id: u32, scope: &mut Scope<'_>) {
        let Some(text) = scope.events.text(id).map(<[u8]>::to_vec) else { return };
        let Ok(event) = mote_layout::parse::parse(&text) else { return };
        let disposition = if scope.events.is_emitted(id) {
            Disposition::Unfiltered
        } else {
            self.disposition(&event, scope)
        };
        let at = id as usize;
        if self.dispositions.len() <= at {
            self.dispositions.resize(at + 1, Disposition::Unsaid);
        }
        self.stale |= self.generation > 0 || matches!(disposition, Disposition::Filtered(_));
        self.dispositions[at] = disposition;
    }

    fn disposition(&mut self, event: &Description<'_>, scope: &mut Scope<'_>) -> Disposition {
        if let Some(disposition) = self.as_asked_for(event) {
            return disposition;
        }
        let name = (event.provider, event.name);
        if self.exclude.iter().any(|pattern| pattern.matches(name.0, name.1)) {
            return Disposition::Off;
        }
        let object = self.objects.iter().find(|object| object.pattern.matches(name.0, name.1));
        if let Some(object) = object.filter(|_| !self.rules.was_taken_back(name.0, name.1)) {
            let insns = object.insns.clone();
            if let Err(why) = self.verify(&insns, event) {
                let (line, name) = (object.line(), format!("{}:{}", event.provider, event.name));
                self.problem(format!("filter {line} is refused for {name}, which stays off: {why}"), scope);
                return Disposition::Off;
            }
            return self.load(insns, scope);
        }
        match self.compile(event, scope) {
            None | Some(Decision::Off) => Disposition::Off,
            Some(Decision::Record) => Disposition::Unfiltered,
            Some(Decision::Run(Compiled { insns, warnings, .. })) => {
                warnings.iter().for_each(|warning| self.remark(warning, scope));
                self.load(insns, scope)
            }
        }
    }

    /// Verifies a program that was compiled elsewhere for an event: the process does so too, and could only say less
    /// about it.
    fn verify(&self, insns: &[Insn], event: &Description<'_>) -> Result<(), String> {
        let words: Vec<Word> = mote_layout::context::words(event).collect();
        let maps = self.maps.shapes();
        let environment = Environment {
            entry: Entry::Context(&words),
            maps: &maps,
            helpers: tracer::HELPERS,
            steps_max: environment::STEPS_MAX,
        };
        let mut workspace = mote_vm::workspace().map_err(|why| why.to_string())?;
        verify::verify_traced(insns, &environment, READABLE_BYTES as u32, &mut workspace)
            .map(drop)
            .map_err(|why| why.to_string())
    }

    /// Compiles all rules together; those that do not fit the event are told of and left out.
    fn compile(&mut self, event: &Description<'_>, scope: &mut Scope<'_>) -> Option<Decision> {
        let rules = self.rules.of(event.provider, event.name);
        match self.try_compile(&rules, event, scope) {
            Ok(decision) => return Some(decision),
            Err(problem) => self.problem(problem.render(), scope),
        }
        let mut fitting = Vec::new();
        for rule in rules {
            match self.try_compile(std::slice::from_ref(&rule), event, scope) {
                Ok(_) => fitting.push(rule),
                Err(problem) => self.problem(problem.render(), scope),
            }
        }
        self.try_compile(&fitting, event, scope).ok()
    }

    fn try_compile(
        &mut self,
        rules: &[Rule],
        event: &Description<'_>,
        scope: &mut Scope<'_>,
    ) -> Result<Decision, Diagnostic> {
        let (events, emitted) = (&mut *scope.events, &mut *scope.emitted);
        let mut declare = |event: &Emitted| Scope::declare(events, emitted, event.description.as_bytes());
        let mut session =
            mote_filter::Session { side: Side::User, missing: Missing::Never, declare: &mut declare };
        compile(rules, event, &mut session, &mut self.maps)
    }

    fn remark(&mut self, remark: &Diagnostic, scope: &mut Scope<'_>) {
        self.remarks += 1;
        match self.remarks {
            0..=REMARKS_MAX => scope.reports.push((remark.render_warning(), Weight::Remark)),
            _ => self.more_remarks += 1,
        }
    }

    /// Tells how many remarks were not told one by one, if there were any since this was asked last.
    pub(crate) fn tell_more(&mut self, reports: &mut Vec<(String, Weight)>) {
        let more = std::mem::take(&mut self.more_remarks);
        reports.extend(more_events(more).map(|text| (text, Weight::Remark)));
    }

    /// Tells of something that takes events away, once.
    fn problem(&mut self, text: String, scope: &mut Scope<'_>) {
        if self.reported.insert(text.clone()) {
            scope.reports.push((text, Weight::Problem));
        }
    }

    /// Keeps a program, with memory for its maps.
    fn load(&mut self, insns: Vec<Insn>, scope: &mut Scope<'_>) -> Disposition {
        let speculates = self.speculates();
        if let Err(why) = scope.layout.extend(&self.maps, speculates, scope.words) {
            let text = format!(
                "no memory for what filters count and keep: {why}; events with these filters stay off"
            );
            self.problem(text, scope);
            return Disposition::Off;
        }
        let place = match self.programs.iter().position(|known| known.insns == insns) {
            Some(place) => place,
            None => {
                self.serial += 1;
                self.programs.push(Loaded { serial: self.serial, insns });
                self.programs.len() - 1
            }
        };
        Disposition::Filtered(place as u32)
    }

    /// Whether an event is on.
    pub fn is_on(&self, id: u32) -> bool {
        matches!(self.dispositions.get(id as usize), Some(Disposition::Unfiltered | Disposition::Filtered(_)))
    }

    /// Whether processes need a bundle: their ids alone do not say everything.
    pub(crate) fn has_bundle(&self) -> bool {
        self.stale || self.generation > 0
    }

    /// Number of the newest bundle; 0 when there is none.
    pub(crate) fn generation(&self) -> u32 {
        self.generation
    }

    /// The bundle as it is now, if there is a newer one than was encoded last.
    pub(crate) fn renew(&mut self, layout: &Layout) -> Option<Vec<u8>> {
        if !std::mem::take(&mut self.stale) {
            return None;
        }
        self.generation += 1;
        Some(self.encode(layout))
    }

    fn encode(&self, layout: &Layout) -> Vec<u8> {
        let keeps_on_fault = self.keeps_on_fault;
        let programs = self.programs.iter().map(|loaded| Program {
            serial: loaded.serial,
            keeps_on_fault,
            insns: loaded.insns.as_slice(),
        });
        let programs: Vec<Program<&[Insn]>> = programs.collect();
        let maps: Vec<MapPlace> = layout.maps().iter().map(|(_, place)| *place).collect();
        let bundle = Bundle {
            maps_bytes: layout.used(),
            // The same in all bundles, whether a rule speculates by then or not: processes map it once.
            pool: layout.pool(),
            maps: &maps,
            dispositions: &self.dispositions,
            programs: &programs,
        };
        let mut bytes = vec![0; bundle.bytes()];
        // It has as many bytes as it takes.
        let encoded = bundle.encode(&mut bytes).map_or(0, <[u8]>::len);
        bytes.truncate(encoded);
        bytes
    }
}

/// What is said of so many events that lack a field, where others were told of one by one.
pub fn more_events(more: usize) -> Option<String> {
    match more {
        0 => None,
        1 => Some("1 more event lacks a field that a rule uses, and is not recorded by that rule".to_owned()),
        _ => Some(format!(
            "{more} more events lack fields that rules use, and are not recorded by those rules"
        )),
    }
}
