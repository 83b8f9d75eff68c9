//! From patterns to a plan: the functions of a running process that a person means.

use crate::known::Known;
use crate::left_alone::{is_called_by_code_of_v8, returns_its_own_way};
use crate::values::{Fields, counted, declared, given, sampled};
use crate::{By, CallsAre, Counting, Request, Sampling, Space, plan_jumps};
use mote_functions::{Function, Lists, Object, Pattern, Values, similar_names};
use mote_journal::Map;
use mote_layout::functions::{Counts, PROVIDER, Scope, Value, function_of, write_asked_for};
use mote_symbol::mapped::{self, FileId, Mapped};
use mote_symbol::{Image, demangle, names, separate_symbols};
use std::collections::{BTreeMap, HashMap, HashSet};
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

/// Bytes of code of a function that a plan needs.
const CODE_BYTES: usize = 32;

/// A plan for a process, and what is to be said of it.
#[derive(Clone, Debug, Default)]
pub struct Choice {
    /// For `mote_layout::functions::Plan`.
    pub plan: Vec<u8>,
    /// How many functions it has.
    pub probes: usize,
    /// How many of these are sampled when a rule asks for that.
    pub asked: usize,
    /// Patterns that name a file which is not loaded yet.
    pub awaited: Vec<String>,
    /// The files that the process has code of, those that were known among them.
    pub files: HashSet<FileId>,
    /// How many have none, by why.
    pub refused: BTreeMap<String, usize>,
    /// How many have a probe, but not the values that were wanted: there is no debug information of them.
    pub undeclared: usize,
    /// Where its calls are counted, and of which functions.
    pub counted: Option<CountedFunctions>,
}

/// The functions whose calls a plan counts.
#[derive(Clone, Debug)]
pub struct CountedFunctions {
    /// The memory where the calls are counted.
    pub counts: Counts,
    /// How.
    pub counting: Counting,
    /// Their events' names without the provider, in the order of their words.
    pub names: Vec<String>,
}

/// Why there is no plan.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Nothing {
    /// The process cannot be looked into.
    #[error("it cannot be looked into: it has ended, or belongs to another user")]
    Closed,
    /// A pattern means no function.
    #[error("no function of it is called `{pattern}`{similar}")]
    NoSuch {
        /// The pattern.
        pattern: String,
        /// What may have been meant.
        similar: String,
        /// Other patterns mean some.
        others_do: bool,
    },
    /// A probe list was given for another binary.
    #[error("{0}")]
    OtherBuild(String),
    /// Goroutines' stacks are moved, and the runtime looks through return addresses.
    #[error(
        "it is a Go program: its runtime moves stacks, with the return addresses that probes stand in for"
    )]
    Go,
    /// The processor would not let functions return by their probes.
    #[error(
        "its threads have shadow stacks, against which returns are checked: start it without them \
         (GLIBC_TUNABLES=glibc.cpu.x86_shstk=off)"
    )]
    ShadowStack,
    /// There are too many functions, on too many CPUs.
    #[error("counts of all these functions on all CPUs need more than 1 GiB; choose fewer functions")]
    NoCounts,
    /// None of the functions can have a probe.
    #[error("none of the functions that are meant can have a probe: {0}")]
    AllRefused(String),
}

/// Which patterns have to mean functions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Needs {
    /// Each pattern means a function at least.
    All,
    /// One pattern at least does.
    Any,
}

/// The functions that are wanted of processes.
#[derive(Clone, Copy, Debug)]
pub struct Wanted<'w> {
    /// What they are called, those of `asked` among them.
    pub patterns: &'w [Pattern],
    /// Those of the patterns whose functions are sampled when a rule asks for that, unless another pattern means them,
    /// too.
    pub asked: Asked<'w>,
    /// Those of them whose calls have to be around calls of the others; none where these are wanted anywhere.
    pub callers: &'w [Pattern],
    /// The number by which these callers are known; not 0.
    pub callers_number: u64,
    /// Names for those of stripped binaries.
    pub lists: &'w Lists,
    /// What becomes of their calls: where these are not recorded, they have no arguments and results.
    pub calls: &'w CallsAre,
    /// The number of the next plan, by which its counts are known; not 0.
    pub number: u64,
    /// A tick's nanoseconds, as in [`crate::plan`].
    pub tick: u64,
}

/// Functions that are sampled when a rule asks for that.
#[derive(Clone, Copy, Debug)]
pub struct Asked<'w> {
    /// How many of all patterns they have: the last ones.
    pub patterns: usize,
    /// How they are sampled.
    pub sampling: Option<&'w Sampling>,
}

/// Chooses functions of a process, and plans probes in them: of the files that are not `known`, which were looked at
/// before.
///
/// A pattern that names a file which the process has not loaded yet is awaited. The dynamic linker's own functions are
/// only meant by patterns that name its file.
///
/// # Errors
/// [`Nothing`].
///
/// # Cost
/// Reads and decodes all binaries of the process: some 100 MB/s.
pub fn choose(
    pid: u32,
    wanted: Wanted<'_>,
    needs: Needs,
    known: &HashSet<FileId>,
) -> Result<Choice, Nothing> {
    let Wanted { patterns, asked, callers, callers_number, lists, calls, number, tick } = wanted;
    // Else the process would keep account of samples that it never takes.
    let sampling = asked.sampling.filter(|_| asked.patterns > 0);
    let mut files = known.clone();
    let (objects, _) = Object::of_process(pid, lists, &mut files);
    let objects: Vec<Object> = objects.into_iter().filter(|object| !is_ours(object)).collect();
    if objects.is_empty() {
        let is_closed = known.is_empty() || files.len() == known.len();
        return if is_closed { Err(Nothing::Closed) } else { Ok(Choice { files, ..Choice::default() }) };
    }
    let awaited = missing(&objects, patterns, lists, needs)?;
    if objects.iter().any(|object| object.found.is_go) {
        return Err(Nothing::Go);
    }
    if mapped::has_shadow_stack(pid) {
        return Err(Nothing::ShadowStack);
    }
    let mut chosen = all_meant(&objects, patterns, asked);
    let mut refused: BTreeMap<String, usize> = BTreeMap::new();
    let known = if return_by_stubs(calls, callers) { Known::of(pid, &objects) } else { Known::default() };
    leave_alone(&mut chosen, calls, &known, &mut refused);
    let mut space = Space::of(pid).map_err(|_| Nothing::Closed)?;
    let codes: Vec<Vec<u8>> = chosen.iter().map(|(object, function, _)| code_of(object, function)).collect();
    let (requests, undeclared) = requested(&chosen, &codes, (calls, sampling), callers, &known);
    // A breakpoint would kill a thread that comes by with SIGTRAP blocked.
    let planned = plan_jumps(
        &requests,
        &mut space,
        tick,
        (calls, sampling, number),
        (if callers.is_empty() { 0 } else { callers_number }, known),
    );
    for (_, why) in &planned.refused {
        *refused.entry(why.to_string()).or_default() += 1;
    }
    if planned.done.is_empty() && !refused.is_empty() {
        return Err(Nothing::AllRefused(said(&refused)));
    }
    let counted = match (calls, planned.counts) {
        (CallsAre::Counted(counting), Some(counts)) => {
            let names = names_of(&requests, &planned.done);
            Some(CountedFunctions { counts, counting: *counting, names })
        }
        (CallsAre::Counted(_), None) => return Err(Nothing::NoCounts),
        _ => None,
    };
    let is_asked = |index: usize| matches!(chosen.get(index), Some((_, _, Calls::Asked(_))));
    Ok(Choice {
        probes: planned.done.len(),
        asked: planned.done.iter().filter(|(index, _)| is_asked(*index)).count(),
        plan: planned.bytes,
        awaited,
        files,
        refused,
        undeclared,
        counted,
    })
}

/// Takes away those that cannot have a probe, as their return addresses are looked at; counts them by why.
fn leave_alone(
    chosen: &mut Vec<Chosen<'_>>,
    calls: &CallsAre,
    known: &Known,
    refused: &mut BTreeMap<String, usize>,
) {
    let mut leave = |why: &str, is_left: &dyn Fn(&Chosen<'_>) -> bool| {
        let before = chosen.len();
        chosen.retain(|one| !is_left(one));
        if chosen.len() < before {
            *refused.entry(why.to_owned()).or_default() += before - chosen.len();
        }
    };
    leave("they return in ways of their own", &|(object, function, _)| {
        function.address == object.found.entry
            || object.name().starts_with(UNWINDER)
            || function.name.as_deref().is_some_and(returns_its_own_way)
    });
    // The way of those whose returns are counted, too, does not look where they return to.
    let all = matches!(calls, CallsAre::Counted(Counting { returns: true, .. })) || known.code.is_empty();
    leave("their runtime looks where they return to; --count by itself counts them", &|(
        object,
        function,
        _,
    )| {
        known.is_about(function.address.wrapping_add(object.shift))
            && (all || function.name.as_deref().is_some_and(is_called_by_code_of_v8))
    });
}

/// Whether calls return by stubs: all but those of which only the entries are counted, wherever they are.
fn return_by_stubs(calls: &CallsAre, callers: &[Pattern]) -> bool {
    !callers.is_empty() || !matches!(calls, CallsAre::Counted(Counting { returns: false, .. }))
}

/// The names of planned functions' events, without the provider.
fn names_of(requests: &[Request<'_>], done: &[(usize, By)]) -> Vec<String> {
    let name = |event: &str| event.lines().nth(1).and_then(function_of).unwrap_or_default().to_owned();
    done.iter()
        .map(|(index, _)| requests.get(*index).map_or_else(String::new, |one| name(&one.event)))
        .collect()
}

/// What is to be planned of functions, with their code; and how many have not the values that are wanted.
fn requested<'o>(
    chosen: &[Chosen<'o>],
    codes: &'o [Vec<u8>],
    (calls, sampling): (&CallsAre, Option<&Sampling>),
    callers: &[Pattern],
    known: &Known,
) -> (Vec<Request<'o>>, usize) {
    let mut names = HashSet::new();
    let mut undeclared = 0;
    let mut requests: Vec<Request<'o>> = Vec::new();
    for ((object, function, wanted), code) in chosen.iter().zip(codes) {
        let (mut text, mut scope) = (String::new(), scope_of(object, function, callers));
        let fields = match (wanted, calls) {
            (Calls::Asked(patterns), _) => {
                let _ = write_asked_for(&mut text, patterns.iter());
                scope = Scope::Anywhere;
                sampling.map(sampled)
            }
            (Calls::All(values), CallsAre::Recorded) => fields_of(object, function, values),
            (_, CallsAre::Sampled(sampling)) => Some(sampled(sampling)),
            (_, CallsAre::Counted(counting)) => Some(counted(*counting)),
        };
        undeclared += usize::from(fields.is_none());
        let Fields { lines, mut values } = fields.unwrap_or_default();
        let address = function.probed_at().wrapping_add(object.shift);
        // Calls of a caller, and those that are looked at, go the longer way.
        if (scope == Scope::Caller || known.is_about(address)) && values.is_empty() {
            values.push(Value::DURATION);
        }
        requests.push(Request {
            event: description(object, function, (&text, &lines), &mut names),
            values,
            scope,
            address,
            function,
            code,
            current: None,
        });
    }
    (requests, undeclared)
}

/// Which calls of a function are wanted.
fn scope_of(object: &Object, function: &Function, callers: &[Pattern]) -> Scope {
    let means = |pattern: &Pattern| may_mean(object, pattern) && object.is_meant(function, pattern);
    match callers {
        [] => Scope::Anywhere,
        callers if callers.iter().any(means) => Scope::Caller,
        _ => Scope::Below,
    }
}

/// Those of the patterns that mean no function, as the files which they name are not loaded yet.
///
/// # Errors
/// [`Nothing::NoSuch`], of the others; [`Nothing::OtherBuild`], of a list that is of none of these objects.
fn missing(
    objects: &[Object],
    patterns: &[Pattern],
    lists: &Lists,
    needs: Needs,
) -> Result<Vec<String>, Nothing> {
    let unused = lists.unused(objects.iter().filter_map(|object| object.listed.list.as_ref()));
    let means = |pattern: &&Pattern| {
        let mut own = objects.iter().filter(|object| may_mean(object, pattern));
        own.any(|object| object.found.functions.iter().any(|function| object.is_meant(function, pattern)))
    };
    let (meant, missing): (Vec<&Pattern>, Vec<&Pattern>) = patterns.iter().partition(means);
    let is_loaded = |pattern: &Pattern| objects.iter().any(|object| pattern.fits_file(&object.name()));
    let is_awaited = |pattern: &&Pattern| pattern.has_file() && !is_loaded(pattern);
    let (awaited, missing): (Vec<&Pattern>, Vec<&Pattern>) = missing.into_iter().partition(is_awaited);
    let has_none = meant.is_empty() && awaited.is_empty();
    if let Some(pattern) = missing.first().filter(|_| needs == Needs::All || has_none) {
        let mut similar = similar_names(objects, pattern);
        let remarks = objects.iter().filter_map(|object| object.listed.remark.as_ref());
        remarks.chain(&unused).for_each(|remark| similar += &format!("; {remark}"));
        let others_do = !meant.is_empty();
        return Err(Nothing::NoSuch { pattern: pattern.to_string(), similar, others_do });
    }
    // A list may be of a file that is not loaded yet.
    match unused.filter(|_| needs == Needs::All && awaited.is_empty()) {
        Some(unused) => Err(Nothing::OtherBuild(unused)),
        None => Ok(awaited.iter().map(ToString::to_string).collect()),
    }
}

/// What is wanted of a function's calls.
#[derive(Clone, Debug)]
enum Calls<'o> {
    /// All of them, with these values.
    All(&'o Values),
    /// Samples, when a rule asks for one of these patterns.
    Asked(Vec<&'o Pattern>),
}

/// A function that is meant, and the object that it is of.
type Chosen<'o> = (&'o Object, &'o Function, Calls<'o>);

/// The functions that patterns mean, with what is wanted of each.
fn all_meant<'o>(objects: &'o [Object], patterns: &'o [Pattern], asked: Asked<'_>) -> Vec<Chosen<'o>> {
    let mut chosen = Vec::new();
    let (all, asked) =
        patterns.split_at_checked(patterns.len().saturating_sub(asked.patterns)).unwrap_or_default();
    for object in objects {
        for function in &object.found.functions {
            let meant = |patterns: &'o [Pattern]| -> Vec<&'o Pattern> {
                let patterns = patterns.iter().filter(|pattern| may_mean(object, pattern));
                patterns.filter(|pattern| object.is_meant(function, pattern)).collect()
            };
            let of_all = meant(all);
            let mut values = of_all.iter().map(|pattern| &pattern.values);
            let values = values.find(|values| **values != Values::Nothing).unwrap_or(&Values::Nothing);
            if !of_all.is_empty() {
                chosen.push((object, function, Calls::All(values)));
                continue;
            }
            let asked = meant(asked);
            if !asked.is_empty() {
                chosen.push((object, function, Calls::Asked(asked)));
            }
        }
    }
    chosen
}

/// Which files have functions that some patterns mean, as far as that is known: most programs that a shell or `make`
/// starts have none, and are the same again and again.
#[derive(Debug, Default)]
pub struct Meant(HashMap<FileId, bool>);

impl Meant {
    /// Whether [`choose`] may find functions in a process: only by names, of its files' symbols and of probe lists.
    ///
    /// # Cost
    /// Reads the symbols of each file once: some milliseconds. Patterns of source files mean any program.
    pub fn may_be_in(&mut self, pid: u32, wanted: Wanted<'_>) -> bool {
        mapped::code(pid)
            .iter()
            .any(|mapped| mapped.file.is_some_and(|id| self.is_in(pid, id, &mapped.map, wanted)))
    }

    /// The same of files that a process has code of now, and that are not `known`. Those that have none are known from
    /// now on.
    pub fn may_be_in_others(
        &mut self,
        pid: u32,
        now: &[Mapped],
        known: &mut HashSet<FileId>,
        wanted: Wanted<'_>,
    ) -> bool {
        let mut others = false;
        for mapped in now {
            let Some(id) = mapped.file.filter(|id| !known.contains(id)) else { continue };
            match self.is_in(pid, id, &mapped.map, wanted) {
                true => others = true,
                false => drop(known.insert(id)),
            }
        }
        others
    }

    fn is_in(&mut self, pid: u32, id: FileId, map: &Map, wanted: Wanted<'_>) -> bool {
        *self.0.entry(id).or_insert_with(|| is_any_meant(pid, id, map, wanted.patterns, wanted.lists))
    }
}

/// Whether patterns mean functions of a file that a process has mapped.
fn is_any_meant(pid: u32, id: FileId, map: &Map, patterns: &[Pattern], lists: &Lists) -> bool {
    let name = map.path.rsplit('/').next().unwrap_or_default();
    if name.starts_with(UNWINDER) || !Path::new(&map.path).is_absolute() {
        return false;
    }
    let mut patterns = patterns.iter().filter(|pattern| pattern.has_file() || !name.starts_with(LINKER));
    if patterns.clone().any(Pattern::has_source) {
        return true;
    }
    let Ok(file) = id.open(pid, (map.start, map.end), &map.path) else { return false };
    let Ok(image) = Image::open(&PathBuf::from(format!("/proc/self/fd/{}", file.as_raw_fd()))) else {
        return false;
    };
    let separate = separate_symbols(&image);
    let listed = lists.of_mapped(&image, pid, (id, &file), map).table();
    let tables = [Some(&image.table), separate.as_ref(), Some(&listed)];
    patterns.any(|pattern| {
        let mut symbols = tables.iter().flatten().flat_map(|table| table.iter());
        symbols.any(|symbol| pattern.fits(name, symbol.name, || None))
    })
}

/// `3 are too short, 2 ...`.
fn said(refused: &BTreeMap<String, usize>) -> String {
    let each = refused.iter().map(|(why, count)| format!("{count}: {why}"));
    each.collect::<Vec<_>>().join("; ")
}

impl Choice {
    /// What is to be said of those that have no probe, or not the values that were wanted; empty when all have.
    #[must_use]
    pub fn refusals(&self) -> String {
        let refused = said(&self.refused);
        let awaited = match self.awaited.join(", ") {
            none if none.is_empty() => none,
            some => format!("{some}: no such file is loaded yet"),
        };
        let undeclared = match self.undeclared {
            0 => String::new(),
            count => format!("arguments and results of {count}: there is no debug information of them"),
        };
        [refused, undeclared, awaited]
            .into_iter()
            .filter(|part| !part.is_empty())
            .collect::<Vec<_>>()
            .join("; ")
    }
}

/// Whether an object is in memory only, as our own library is.
fn is_ours(object: &Object) -> bool {
    !object.path.is_absolute()
}

/// Whether a pattern may mean functions of an object.
fn may_mean(object: &Object, pattern: &Pattern) -> bool {
    pattern.has_file() || !object.name().starts_with(LINKER)
}

/// The dynamic linker's file.
const LINKER: &str = "ld-linux";

/// Functions without a name of GCC's unwinder look at their own return addresses, and at those of their callers.
const UNWINDER: &str = "libgcc_s";

/// The first bytes of a function, or of its placeholder, from the file.
fn code_of(object: &Object, function: &Function) -> Vec<u8> {
    let mut code = vec![0; CODE_BYTES];
    let read = object.mapped.as_ref().and_then(|part| {
        let in_part = || function.address.wrapping_add(object.shift).wrapping_sub(part.start);
        let at = function.pad.map_or_else(|| in_part().wrapping_add(part.offset), |pad| pad.offset);
        part.file.read_at(&mut code, at).ok()
    });
    code.truncate(read.unwrap_or(0));
    code
}

/// The fields of a function's event; `None` where values are wanted that are not known.
fn fields_of(object: &Object, function: &Function, values: &Values) -> Option<Fields> {
    match values {
        Values::Nothing => Some(Fields::default()),
        Values::Declared => Some(declared(function.name.as_deref(), &object.signature(function)?)),
        Values::Given { arguments, result } => Some(given(arguments, *result)),
    }
}

/// The description of a function's event. Two functions of one name are told apart by their files, and if that is not
/// enough by their addresses.
fn description(
    object: &Object,
    function: &Function,
    (text, fields): (&str, &str),
    known: &mut HashSet<String>,
) -> String {
    let bare = event_name(function);
    let mut name = bare.clone();
    if known.contains(&name) {
        name = format!("{bare}@{}", object.name());
    }
    if known.contains(&name) {
        name = format!("{bare}@{}+{:#x}", object.name(), function.address);
    }
    known.insert(name.clone());
    let (file, line) = object.place(function).unwrap_or_else(|| (object.name(), 0));
    let file: String = file.chars().map(|c| if c.is_control() { '?' } else { c }).collect();
    format!("mote1\n{PROVIDER}:{name}\n6 {file}:{line}\n{text}\n{fields}")
}

/// A function's name as an event's: without parameters and generic arguments.
fn event_name(function: &Function) -> String {
    let Some(symbol) = &function.name else { return format!("{:#x}", function.address) };
    let plain = names::plain(symbol);
    let demangled = demangle(plain);
    let name = if *demangled == *plain {
        plain.to_owned()
    } else {
        names::without_generics(&names::bare(&demangled))
    };
    let clean = |c: char| if c.is_whitespace() || c.is_control() || c == '"' || c == '\\' { '_' } else { c };
    let name: String = name.chars().take(NAME_MAX).map(clean).collect();
    if name.is_empty() { format!("{:#x}", function.address) } else { name }
}

/// Most characters of a function's name in an event's.
const NAME_MAX: usize = 300;
