//! Which event classes tell of calls of functions.
//!
//! A call is one event, when it returns: `f:NAME`, with a field `duration` in nanoseconds. It began so long before the
//! event. Function probes write such events; any program may.

use mote_ctf::model::FieldClass;
use mote_layout::functions::function_of;
use mote_timeline::{ClassId, Record, Trace};
use rustc_hash::FxHashMap;

/// Name of the field with the nanoseconds that a call took.
const DURATION: &str = "duration";

/// Whether a field of an event says how long a call took.
#[must_use]
pub fn is_duration(event: &str, field: &str) -> bool {
    function_of(event).is_some() && field.trim_start_matches('_') == DURATION
}

/// A call of a function that has returned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Call {
    /// Number of the function, see [`CallClasses::name`].
    pub function: usize,
    /// When it began, in nanoseconds since 1970.
    pub begin: i64,
    /// When it returned.
    pub end: i64,
}

impl Call {
    /// How long it took, in nanoseconds.
    #[must_use]
    pub fn duration(&self) -> u64 {
        self.end.abs_diff(self.begin)
    }

    /// Whether what its thread has done before, from `begin` to `end`, lies inside of it. What overlaps with a call
    /// does, too: calls of a thread nest, and durations are measured a little less exactly than they would have to be.
    #[must_use]
    pub fn holds(&self, begin: i64, end: i64) -> bool {
        begin >= self.begin || end > self.begin
    }
}

/// The functions whose calls a trace has.
#[derive(Debug)]
pub struct CallClasses {
    /// By [`ClassId`]: the function's number.
    functions: Vec<Option<usize>>,
    names: Vec<String>,
}

impl CallClasses {
    /// Finds out which events of `trace` are calls.
    #[must_use]
    pub fn new(trace: &Trace) -> CallClasses {
        let mut numbers: FxHashMap<&str, usize> = FxHashMap::default();
        let mut names: Vec<String> = Vec::new();
        let mut function = |id| {
            let (_, class) = trace.class(ClassId(id))?;
            let name = function_of(&class.name)?;
            let mut members = class.payload.iter().flat_map(|payload| &payload.members);
            members.find(|member| {
                is_duration(&class.name, &member.name) && matches!(member.class, FieldClass::Int(_))
            })?;
            Some(*numbers.entry(name).or_insert_with(|| {
                names.push(name.to_owned());
                names.len() - 1
            }))
        };
        let ids = 0..u32::try_from(trace.classes()).unwrap_or(u32::MAX);
        let functions = ids.map(&mut function).collect();
        CallClasses { functions, names }
    }

    /// Whether `record` is a call.
    #[inline]
    #[must_use]
    pub fn is_call(&self, record: &Record<'_>) -> bool {
        self.functions.get(record.class().0 as usize).is_some_and(Option::is_some)
    }

    /// The call that `record` is, if it is one.
    #[inline]
    #[must_use]
    pub fn call(&self, record: &Record<'_>) -> Option<Call> {
        let function = (*self.functions.get(record.class().0 as usize)?)?;
        let duration = record.event()?.payload().integer(DURATION).unwrap_or(0);
        let (end, duration) = (record.time(), i64::try_from(duration).unwrap_or(i64::MAX).max(0));
        Some(Call { function, begin: end.saturating_sub(duration), end })
    }

    /// The name of a function, as `db::open`.
    #[must_use]
    pub fn name(&self, function: usize) -> &str {
        self.names.get(function).map_or("", String::as_str)
    }

    /// The function whose calls the events of a class are.
    #[must_use]
    pub fn function_of(&self, class: ClassId) -> Option<usize> {
        *self.functions.get(class.0 as usize)?
    }

    /// Number of functions; 0 when the trace has no calls.
    #[must_use]
    pub fn functions(&self) -> usize {
        self.names.len()
    }
}

/// The thread of a record: its session and id. Events that do not tell count as those of thread 0.
#[must_use]
pub fn thread_of(record: &Record<'_>) -> (usize, u32) {
    (record.origin().session(), record.tid().unwrap_or(0))
}
