//! The session's rules and what has become of them: a fate for each event, programs, maps, and the bundle that processes get.
//!
//! Every event is decided about once, before anyone is told its id; and again when a person changes the rules. Processes always get
//! the whole state, so that it does not matter what they had before.

use crate::area::Area;
use crate::areas::Areas;
use crate::error::Error;
use crate::events::Events;
use crate::objects::{self, ObjectFilter};
use crate::options::Options;
use crate::standing::Standing;
use mote_bpf::{Entry, Environment, Insn, Word, environment, helper, verify};
use mote_filter::{
    Compiled, Decision, Diagnostic, Emitted, Maps, Missing, Rule, Session, SharedNames, Side, compile, fits,
};
use mote_layout::cooperation::READABLE_BYTES;
use mote_layout::parse::Description;
use mote_pattern::Pattern;
use mote_sys::fd::{self, Fd};
use mote_sys::mem::sealed_memfd;
use mote_wire::bundle::{Bundle, Fate, Program};
use std::collections::HashSet;

/// Program of an event.
struct Loaded {
    serial: u64,
    insns: Vec<Insn>,
}

/// The rules of a session.
pub(crate) struct Filters {
    rules: Standing,
    objects: Vec<ObjectFilter>,
    exclude: Vec<Pattern>,
    keeps_on_fault: bool,
    pub(crate) maps: Maps,
    fates: Vec<Fate>,
    programs: Vec<Loaded>,
    serial: u64,
    /// The newest bundle, and its number; none while ids alone say everything.
    bundle: Option<Fd>,
    generation: u32,
    /// The bundle is older than the fates.
    stale: bool,
    /// Problems that were told, and how many remarks.
    told: HashSet<String>,
    remarks: usize,
}

/// Finds a place for the maps that are new, and for what is kept aside if rules do that; else says why there is none.
type Place<'p> = dyn FnMut(&Maps, bool) -> Result<(), String> + 'p;

/// Takes an event in by its description, and returns its id.
type Declare<'d> = dyn FnMut(&mut Events, &[u8]) -> Result<u16, String> + 'd;

/// What deciding about events needs of the session.
pub(crate) struct Scene<'s> {
    /// Where what programs keep has its place.
    pub(crate) place: &'s mut Place<'s>,
    pub(crate) events: &'s mut Events,
    /// Takes the event in that a rule emits, and returns its id.
    pub(crate) declare: &'s mut Declare<'s>,
    /// What a person should know, and whether it takes events away.
    pub(crate) say: &'s mut dyn FnMut(String, Weight),
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
    /// The rules of the options; no event is known yet.
    pub(crate) fn new(options: &Options, names: SharedNames) -> Result<Filters, Error> {
        let mut filters = Filters {
            rules: Standing::new(&options.rules),
            objects: Vec::new(),
            exclude: options.exclude.iter().map(|text| Pattern::new(text)).collect(),
            keeps_on_fault: options.keeps_on_fault,
            maps: Maps::with_names(names),
            fates: Vec::new(),
            programs: Vec::new(),
            serial: 0,
            bundle: None,
            generation: 0,
            stale: false,
            told: HashSet::new(),
            remarks: 0,
        };
        if options.kernel.is_some() {
            filters.maps.share_flags();
        }
        for path in &options.objects {
            filters.objects.extend(objects::read(path, &mut filters.maps)?);
        }
        Ok(filters)
    }

    /// Whether any rule asks for the state of threads, thresholds, or kernel events.
    pub(crate) fn asks_kernel(&self) -> bool {
        let helpers = [helper::SET_THRESHOLD, helper::OPEN_KERNEL];
        self.rules.rules().any(Rule::asks_kernel)
            || self.objects.iter().any(|object| helpers.iter().any(|helper| object.calls(*helper)))
    }

    /// Whether any rule keeps records aside.
    pub(crate) fn speculates(&self) -> bool {
        self.rules.rules().any(Rule::speculates)
            || self.objects.iter().any(|object| object.calls(helper::SPECULATE))
    }

    /// Whether any rule asks for snapshots.
    pub(crate) fn snapshots(&self) -> bool {
        self.rules.rules().any(Rule::snapshots)
            || self.objects.iter().any(|object| object.calls(helper::SNAPSHOT))
    }

    /// The rules, for a person.
    pub(crate) fn lines(&self) -> Vec<String> {
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
    pub(crate) fn enable(&mut self, rules: Vec<Rule>, scene: &mut Scene<'_>) {
        self.rules.add(rules);
        self.decide_all(scene);
    }

    /// Takes rules away, or what they do about some events; returns how many patterns meant something.
    pub(crate) fn disable(&mut self, patterns: &[String], scene: &mut Scene<'_>) -> usize {
        let objects = self.objects.len();
        self.objects.retain(|object| !patterns.contains(&object.pattern_text));
        let are_on = |text: &str| {
            let pattern = Pattern::new(text);
            let mut known = scene.events.iter();
            known.any(|(id, event)| self.is_on(id) && pattern.matches(event.provider, event.name))
        };
        let mut rules = self.rules.clone();
        let meant = rules.take_back(patterns, are_on);
        self.rules = rules;
        self.decide_all(scene);
        meant + objects - self.objects.len()
    }

    fn decide_all(&mut self, scene: &mut Scene<'_>) {
        self.programs.clear();
        self.fates.clear();
        (0..scene.events.len()).for_each(|id| self.decide(id, scene));
        // From now on the first answer is not the last word.
        self.stale = true;
    }

    /// Decides what becomes of an event. What rules emit is always on.
    pub(crate) fn decide(&mut self, id: u32, scene: &mut Scene<'_>) {
        let Some(text) = scene.events.text(id).map(<[u8]>::to_vec) else { return };
        let Ok(event) = mote_layout::parse::parse(&text) else { return };
        let fate = if scene.events.is_emitted(id) { Fate::Unfiltered } else { self.fate(&event, scene) };
        let at = id as usize;
        if self.fates.len() <= at {
            self.fates.resize(at + 1, Fate::Unsaid);
        }
        self.stale |= self.bundle.is_some() || matches!(fate, Fate::Filtered(_));
        self.fates[at] = fate;
    }

    fn fate(&mut self, event: &Description<'_>, scene: &mut Scene<'_>) -> Fate {
        let name = (event.provider, event.name);
        if self.exclude.iter().any(|pattern| pattern.matches(name.0, name.1)) {
            return Fate::Off;
        }
        let object = self.objects.iter().find(|object| object.pattern.matches(name.0, name.1));
        if let Some(object) = object.filter(|_| !self.rules.was_taken_back(name.0, name.1)) {
            let insns = object.insns.clone();
            if let Err(why) = self.verify(&insns, event) {
                let (line, name) = (object.line(), format!("{}:{}", event.provider, event.name));
                self.problem(format!("filter {line} is refused for {name}, which stays off: {why}"), scene);
                return Fate::Off;
            }
            return self.load(insns, scene);
        }
        match self.compile(event, scene) {
            None | Some(Decision::Off) => Fate::Off,
            Some(Decision::Record) => Fate::Unfiltered,
            Some(Decision::Run(Compiled { insns, warnings, .. })) => {
                warnings.iter().for_each(|warning| self.remark(warning, scene));
                self.load(insns, scene)
            }
        }
    }

    /// Verifies somebody else's program for an event: the process does so too, and could only say less about it.
    fn verify(&self, insns: &[Insn], event: &Description<'_>) -> Result<(), String> {
        let words: Vec<Word> = mote_layout::context::words(event).collect();
        let maps = self.maps.shapes();
        let environment = Environment {
            entry: Entry::Context(&words),
            maps: &maps,
            helpers: helper::TRACER,
            steps_max: environment::STEPS_MAX,
        };
        let mut workspace = mote_vm::workspace().map_err(|why| why.to_string())?;
        verify::verify_traced(insns, &environment, READABLE_BYTES as u32, &mut workspace)
            .map(drop)
            .map_err(|why| why.to_string())
    }

    /// Compiles all rules together; those that do not fit the event are told of and left out.
    fn compile(&mut self, event: &Description<'_>, scene: &mut Scene<'_>) -> Option<Decision> {
        let rules = self.rules.of(event.provider, event.name);
        match self.try_compile(&rules, event, scene) {
            Ok(decision) => return Some(decision),
            Err(problem) => self.problem(problem.render(), scene),
        }
        let mut fitting = Vec::new();
        for rule in rules {
            match self.try_compile(std::slice::from_ref(&rule), event, scene) {
                Ok(_) => fitting.push(rule),
                Err(problem) => self.problem(problem.render(), scene),
            }
        }
        self.try_compile(&fitting, event, scene).ok()
    }

    fn try_compile(
        &mut self,
        rules: &[Rule],
        event: &Description<'_>,
        scene: &mut Scene<'_>,
    ) -> Result<Decision, Diagnostic> {
        let (events, declare) = (&mut *scene.events, &mut *scene.declare);
        let mut declare = |emitted: &Emitted| declare(events, emitted.description.as_bytes());
        let mut session = Session { side: Side::User, missing: Missing::Never, declare: &mut declare };
        compile(rules, event, &mut session, &mut self.maps)
    }

    fn remark(&mut self, remark: &Diagnostic, scene: &mut Scene<'_>) {
        self.remarks += 1;
        match self.remarks {
            0..=REMARKS_MAX => (scene.say)(remark.render_warning(), Weight::Remark),
            next if next == REMARKS_MAX + 1 => {
                (scene.say)(
                    "rules do not fit more events than these; for them they never hold".to_owned(),
                    Weight::Remark,
                );
            }
            _ => {}
        }
    }

    /// Tells of something that takes events away, once.
    fn problem(&mut self, text: String, scene: &mut Scene<'_>) {
        if self.told.insert(text.clone()) {
            (scene.say)(text, Weight::Problem);
        }
    }

    /// Keeps a program, with memory for its maps.
    fn load(&mut self, insns: Vec<Insn>, scene: &mut Scene<'_>) -> Fate {
        if let Err(why) = (scene.place)(&self.maps, self.speculates()) {
            let text =
                format!("no memory for the maps of filters: {why}; events with these filters stay off");
            self.problem(text, scene);
            return Fate::Off;
        }
        let place = match self.programs.iter().position(|known| known.insns == insns) {
            Some(place) => place,
            None => {
                self.serial += 1;
                self.programs.push(Loaded { serial: self.serial, insns });
                self.programs.len() - 1
            }
        };
        Fate::Filtered(place as u32)
    }

    /// Whether an event is on.
    pub(crate) fn is_on(&self, id: u32) -> bool {
        matches!(self.fates.get(id as usize), Some(Fate::Unfiltered | Fate::Filtered(_)))
    }

    /// Whether there is something to say in a bundle.
    pub(crate) fn has_bundle(&self) -> bool {
        self.stale || self.bundle.is_some()
    }

    /// The newest bundle and its number, made if need be; `None` while there is nothing to say in one.
    pub(crate) fn bundle(&mut self, areas: &Areas<'_>) -> Result<Option<(u32, &Fd)>, Error> {
        if self.stale {
            self.bundle = Some(self.encode(areas)?);
            self.generation += 1;
            self.stale = false;
        }
        Ok(self.bundle.as_ref().map(|bundle| (self.generation, bundle)))
    }

    fn encode(&self, areas: &Areas<'_>) -> Result<Fd, Error> {
        let session = |why| Error::Session { what: "make a file of filters", why };
        let maps = areas.places();
        let keeps_on_fault = self.keeps_on_fault;
        let programs = self.programs.iter().map(|loaded| Program {
            serial: loaded.serial,
            keeps_on_fault,
            insns: loaded.insns.as_slice(),
        });
        let programs: Vec<Program<&[Insn]>> = programs.collect();
        let bundle = Bundle {
            maps_bytes: areas.used(),
            // The same in all bundles, whether a rule speculates by then or not: processes map it once.
            pool: Area::pool_place(),
            maps: &maps,
            fates: &self.fates,
            programs: &programs,
        };
        let mut buffer = vec![0; bundle.bytes()];
        let bytes = bundle.encode(&mut buffer).ok_or_else(|| session(mote_sys::Errno(libc::E2BIG)))?;
        let file = sealed_memfd(c"mote-bundle", bytes.len() as u64).map_err(session)?;
        fd::write_at(&file, bytes, 0).map_err(session)?;
        Ok(file)
    }
}
