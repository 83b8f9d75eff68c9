//! What a program will need, found out before it is written: uses of values, maps, constants for helpers.

use crate::emit::known::{Cached, Slot};
use crate::emit::string_plan;
use crate::maps::{EVENTS, Entry, Maps};
use crate::target::{COMM_BYTES, EXECUTABLE_BYTES, Side};
use crate::typed::{
    Action, Cond, Context, Element, EmittedField, Float, Kept, KeyValue, Num, NumKind, Plan, SpeculationKey,
    SpeculationValue, StringSource,
};
use std::collections::HashMap;

/// What a program will need.
pub(in crate::emit) struct Needs {
    /// How often each value is named.
    pub(in crate::emit) uses: HashMap<Cached, u32>,
    /// Slots of the stack that will be filled, and their bytes.
    pub(in crate::emit) slots: Vec<(Slot, u32)>,
    /// The map of constants, and where each one is in it.
    constants: Option<u32>,
    places: HashMap<Vec<u8>, u32>,
    bytes: Vec<u8>,
    /// The map of counters.
    pub(in crate::emit) counters: Option<u32>,
    /// The map of what is kept for each thread.
    pub(in crate::emit) threads: Option<u32>,
    /// Whether the state of the thread is read.
    pub(in crate::emit) state: bool,
    /// Whether a window is looked for.
    pub(in crate::emit) window: bool,
    /// For the kernel's side: constants are in instructions.
    kernel: bool,
}

impl Needs {
    pub(in crate::emit) fn of(plan: &Plan, maps: &mut Maps) -> Needs {
        let mut needs = Needs {
            uses: HashMap::new(),
            slots: Vec::new(),
            constants: None,
            places: HashMap::new(),
            bytes: Vec::new(),
            counters: None,
            threads: None,
            state: plan.thread.iter().any(|kept| matches!(kept, Kept::Published(_))),
            window: false,
            kernel: plan.side == Side::Kernel,
        };
        for rule in &plan.rules {
            needs.cond(&rule.condition);
            rule.actions.iter().for_each(|action| needs.action(action));
        }
        plan.speculated_by.iter().for_each(|speculation| needs.speculation_key(&speculation.key));
        needs.slots_of_contexts();
        let rules: Vec<&str> = plan.rules.iter().map(|rule| rule.source.as_str()).collect();
        // On the kernel's side all events of the same rules have the same map, so that their programs are the same.
        let of = if needs.kernel { String::new() } else { format!(" of {}", plan.event) };
        let name = format!("state{of} for {}", rules.join(" | "));
        let events = if needs.kernel { EVENTS } else { 1 };
        if plan.counters > 0 {
            needs.counters = Some(maps.shared(Entry::state(&name, events * u32::from(plan.counters) * 8)));
        }
        if !plan.thread.is_empty() {
            let bytes = plan.thread.len() as u32 * 8;
            let entry = if needs.kernel {
                Entry::threads_of_events(&name, bytes)
            } else {
                Entry::threads(&name, bytes)
            };
            needs.threads = Some(maps.shared(entry));
        }
        if !needs.bytes.is_empty() {
            needs.constants = Some(maps.shared(Entry::constants(std::mem::take(&mut needs.bytes))));
        }
        needs
    }

    /// The map and the place of a constant that was foreseen.
    pub(in crate::emit) fn constant(&self, bytes: &[u8]) -> Option<(u32, u32)> {
        self.constants.zip(self.places.get(bytes).copied())
    }

    fn add_constant(&mut self, bytes: Vec<u8>) {
        if !bytes.is_empty() && !self.places.contains_key(&bytes) {
            let at = self.bytes.len() as u32;
            self.bytes.extend_from_slice(&bytes);
            self.places.insert(bytes, at);
        }
    }

    fn slots_of_contexts(&mut self) {
        for (value, slot) in [
            (Cached::PidTgid, Slot::PidTgid),
            (Cached::Context(Context::Cpu), Slot::Cpu),
            (Cached::Context(Context::Elapsed), Slot::Elapsed),
        ] {
            if self.uses.get(&value).is_some_and(|uses| *uses > 1) {
                self.slots.push((slot, 8));
            }
        }
    }

    fn used(&mut self, value: Cached) {
        *self.uses.entry(value).or_default() += 1;
    }

    fn cond(&mut self, cond: &Cond) {
        match cond {
            Cond::And(list) | Cond::Or(list) => list.iter().for_each(|inner| self.cond(inner)),
            Cond::Not(inner) => self.cond(inner),
            Cond::Member(num, _) => self.num(num),
            Cond::Compare(_, a, b) => {
                self.num(a);
                self.num(b);
            }
            Cond::FloatMember(float, _) => self.float(float),
            Cond::FloatCompare(_, a, b) => {
                self.float(a);
                self.float(b);
            }
            Cond::StringMatch(string, patterns) => {
                self.string(*string);
                if let (StringSource::Field(_), false) = (string, self.kernel) {
                    patterns
                        .iter()
                        .filter_map(string_plan::helper_constant)
                        .for_each(|bytes| self.add_constant(bytes));
                }
            }
            Cond::StringOrder(_, string, bytes) => {
                self.string(*string);
                if !self.kernel {
                    self.add_constant(bytes.clone());
                }
            }
            Cond::StringCompare(_, a, b) => {
                self.string(StringSource::Field(*a));
                self.string(StringSource::Field(*b));
            }
            Cond::Window => self.window = true,
            Cond::StringKept(word, _) => self.string(StringSource::Field(*word)),
            _ => {}
        }
    }

    fn string(&mut self, string: StringSource) {
        let slot = match string {
            StringSource::Field(word) => {
                self.used(Cached::Word(word));
                self.used(Cached::Word(word + 1));
                return;
            }
            StringSource::Comm => (Slot::Comm, COMM_BYTES),
            StringSource::Executable => (Slot::Executable, EXECUTABLE_BYTES),
        };
        if !self.slots.contains(&slot) {
            self.slots.push(slot);
        }
    }

    fn num(&mut self, num: &Num) {
        match &num.kind {
            NumKind::Word(word) | NumKind::NotZero(word) => self.used(Cached::Word(*word)),
            NumKind::Elapsed(key) => self.speculation_key(key),
            NumKind::Length(word, _) => {
                self.used(Cached::Word(*word));
                self.used(Cached::Word(word + 1));
            }
            NumKind::Element(element) => self.element(element),
            NumKind::Context(Context::Tid | Context::Pid) => self.used(Cached::PidTgid),
            NumKind::Context(context) => self.used(Cached::Context(*context)),
            NumKind::Neg(inner) | NumKind::BitNot(inner) => self.num(inner),
            NumKind::Binary(_, a, b) => {
                self.num(a);
                self.num(b);
            }
            NumKind::Truth(inner) => self.cond(inner),
            NumKind::Published(_) => self.state = true,
            NumKind::SharedWord(word) => {
                self.state |= word.each_thread;
                self.num(&word.index);
            }
            NumKind::Constant(_) | NumKind::Flag(_) | NumKind::Last(_) | NumKind::Since(_) => {}
        }
    }

    fn speculation_key(&mut self, key: &SpeculationKey) {
        if let SpeculationValue::Number(num) = &key.value {
            self.num(num);
        }
    }

    fn element(&mut self, element: &Element) {
        self.used(Cached::Word(element.word));
        if element.count.is_none() {
            self.used(Cached::Word(element.word + 1));
        }
        self.num(&element.index);
    }

    fn float(&mut self, float: &Float) {
        match float {
            Float::Word(word) => self.used(Cached::Word(*word)),
            Float::Element(element) => self.element(element),
            Float::Constant(_) | Float::Last(_) => {}
        }
    }

    fn action(&mut self, action: &Action) {
        let (value, keys) = match action {
            Action::Count { keys, .. } => (None, keys),
            Action::Last { fields, .. } => {
                self.used(Cached::PidTgid);
                (None, fields)
            }
            Action::Histogram { value, keys, .. } => (Some(value), keys),
            Action::Emit { fields, .. } => {
                for field in fields {
                    match field {
                        EmittedField::Number(num, _) => self.num(num),
                        EmittedField::Float(float) => self.float(float),
                        EmittedField::String(..) => {}
                    }
                }
                return;
            }
            Action::Speculate(Some(key)) | Action::Commit(Some(key)) | Action::Discard(Some(key)) => {
                self.speculation_key(key);
                return;
            }
            _ => return,
        };
        for key in value.into_iter().chain(keys) {
            match &key.value {
                KeyValue::Number(num) => self.num(num),
                KeyValue::Float(float) => self.float(float),
                KeyValue::String(..) | KeyValue::Event => {}
            }
        }
    }
}
