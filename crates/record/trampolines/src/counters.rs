//! What is counted during calls that are samples: names of events as perf knows them (perf-list(1)).

use mote_layout::functions::{COUNTERS_MAX, Counter};
use mote_pattern::similar;
use mote_sys::Errno;
use mote_sys::perf::{self, Scope};
use std::fs;
use std::path::Path;

/// Calls that are samples, and what is counted during each.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sampling {
    /// What part of the time that a process runs its samples may take, in millionths; 0 for all of it.
    pub budget: u64,
    /// What is counted; at most 8.
    pub counters: Vec<Counted>,
}

/// What part of the time that a process runs its samples take where nothing else is said, in millionths: 5 %.
pub const USUAL_BUDGET: u64 = 50_000;

impl Sampling {
    /// How functions are sampled where nothing else is said.
    #[must_use]
    pub fn usual() -> Sampling {
        Sampling { budget: USUAL_BUDGET, counters: usual_counters().0 }
    }
}

/// Something that is counted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Counted {
    /// As a field of an event.
    pub name: String,
    /// As the library counts it.
    pub counter: Counter,
}

/// `PERF_TYPE_HARDWARE`, `PERF_TYPE_SOFTWARE`, `PERF_TYPE_RAW`.
const HARDWARE: u32 = 0;
const SOFTWARE: u32 = 1;
const RAW: u32 = 4;

/// Events with a name of their own (linux/perf_event.h, `enum perf_hw_id` and `enum perf_sw_ids`).
const NAMED: [(&str, u32, u64); 27] = [
    ("cycles", HARDWARE, 0),
    ("cpu-cycles", HARDWARE, 0),
    ("instructions", HARDWARE, 1),
    ("cache-references", HARDWARE, 2),
    ("cache-misses", HARDWARE, 3),
    ("branches", HARDWARE, 4),
    ("branch-instructions", HARDWARE, 4),
    ("branch-misses", HARDWARE, 5),
    ("bus-cycles", HARDWARE, 6),
    ("stalled-cycles-frontend", HARDWARE, 7),
    ("stalled-cycles-backend", HARDWARE, 8),
    ("ref-cycles", HARDWARE, 9),
    ("task-clock", Counter::OWN, Counter::TASK_CLOCK),
    ("page-faults", Counter::OWN, Counter::PAGE_FAULTS),
    ("faults", Counter::OWN, Counter::PAGE_FAULTS),
    ("minor-faults", Counter::OWN, Counter::MINOR_FAULTS),
    ("major-faults", Counter::OWN, Counter::MAJOR_FAULTS),
    ("context-switches", Counter::OWN, Counter::CONTEXT_SWITCHES),
    ("cs", Counter::OWN, Counter::CONTEXT_SWITCHES),
    ("migrations", SOFTWARE, 4),
    ("cpu-migrations", SOFTWARE, 4),
    ("alignment-faults", SOFTWARE, 7),
    ("emulation-faults", SOFTWARE, 8),
    ("cgroup-switches", SOFTWARE, 11),
    ("L1-dcache-load-misses", CACHE, 0x1_0000),
    ("LLC-load-misses", CACHE, 0x1_0002),
    ("dTLB-load-misses", CACHE, 0x1_0003),
];
/// `PERF_TYPE_HW_CACHE`: the cache, `PERF_COUNT_HW_CACHE_OP_READ` << 8, `PERF_COUNT_HW_CACHE_RESULT_MISS` << 16.
const CACHE: u32 = 3;

/// What is counted where nobody says what, on a processor that counts.
const USUAL: [&str; 4] = ["cycles", "instructions", "cache-misses", "branch-misses"];
/// What is counted then on a processor that does not count.
const USUAL_WITHOUT: [&str; 4] = ["task-clock", "page-faults", "context-switches", "migrations"];

/// Where the kernel describes its counting units.
const UNITS: &str = "/sys/bus/event_source/devices";

/// What is counted where nobody says what; false where the processor does not count, so that it is what the kernel
/// counts.
#[must_use]
pub fn usual_counters() -> (Vec<Counted>, bool) {
    let has_unit = USUAL.iter().all(|name| counter(name).is_ok());
    let names = if has_unit { USUAL } else { USUAL_WITHOUT };
    (names.iter().filter_map(|name| counter(name).ok()).collect(), has_unit)
}

/// Takes the names of events apart: separated by commas outside of `/.../`.
///
/// # Errors
/// For a person: which is none, or is not counted here; there are too many.
pub fn counters(text: &str) -> Result<Vec<Counted>, String> {
    let mut all: Vec<Counted> = Vec::new();
    let mut is_inside = false;
    let names = text.split(|c| {
        is_inside ^= c == '/';
        c == ',' && !is_inside
    });
    for name in names {
        let counted = counter(name.trim())?;
        if !all.iter().any(|known| known.name == counted.name) {
            all.push(counted);
        }
    }
    if all.len() > COUNTERS_MAX {
        return Err(format!("{} events; give {COUNTERS_MAX} at most", all.len()));
    }
    Ok(all)
}

/// The event of this name.
///
/// # Errors
/// As [`counters`].
fn counter(name: &str) -> Result<Counted, String> {
    let counter = named(name)
        .or_else(|| raw(name))
        .or_else(|| of_unit(Path::new(UNITS), name))
        .ok_or_else(|| unknown(name))?;
    if counter.kind != Counter::OWN {
        is_counted(counter).map_err(|why| format!("`{name}` is not counted: {why}"))?;
    }
    let field = name.trim_matches('/').chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '_' });
    Ok(Counted { name: field.collect(), counter })
}

fn named(name: &str) -> Option<Counter> {
    let (_, kind, config) = NAMED.iter().find(|(known, ..)| *known == name)?;
    Some(Counter { kind: *kind, config: *config })
}

/// `r` and a hexadecimal number: what the processor's manual calls it.
fn raw(name: &str) -> Option<Counter> {
    let config = u64::from_str_radix(name.strip_prefix('r')?, 16).ok()?;
    Some(Counter { kind: RAW, config })
}

/// `UNIT/TERM,TERM/`, each `NAME=NUMBER` as the unit's formats have it, or an event of the unit.
fn of_unit(units: &Path, name: &str) -> Option<Counter> {
    let (unit, terms) = name.strip_suffix('/')?.split_once('/')?;
    let folder = units.join(unit).canonicalize().ok()?;
    let read = |path: &Path| Some(fs::read_to_string(path).ok()?.trim().to_owned());
    let kind = read(&folder.join("type"))?.parse().ok()?;
    let events = folder.join("events");
    let is_event = !terms.contains(['=', ',', '/', '.']);
    let terms = if is_event { read(&events.join(terms))? } else { terms.to_owned() };
    let mut config = 0;
    for term in terms.split(',') {
        let (format, value) = term.split_once('=').unwrap_or((term, "1"));
        if format.contains(['/', '.']) {
            return None;
        }
        let value = match value.strip_prefix("0x") {
            Some(digits) => u64::from_str_radix(digits, 16).ok()?,
            None => value.parse().ok()?,
        };
        config |= at_bits(&read(&folder.join("format").join(format))?, value)?;
    }
    Some(Counter { kind, config })
}

/// Puts a value where a format says, as `config:0-7,32-35`.
fn at_bits(format: &str, mut value: u64) -> Option<u64> {
    let mut config = 0;
    for bits in format.strip_prefix("config:")?.split(',') {
        let (first, last) = bits.split_once('-').unwrap_or((bits, bits));
        let (first, last): (u32, u32) = (first.parse().ok()?, last.parse().ok()?);
        let width = last.checked_sub(first)?.checked_add(1).filter(|_| last < 64)?;
        let mask = u64::MAX >> (64 - width);
        config |= (value & mask) << first;
        value = value.checked_shr(width).unwrap_or(0);
    }
    (value == 0).then_some(config)
}

/// Whether an event is counted here, for a thread of ours.
fn is_counted(counter: Counter) -> Result<(), String> {
    let count = |scope| perf::count(counter.kind, counter.config, scope, None).map(drop);
    count(Scope::All).or_else(|_| count(Scope::User)).map_err(|why| match why {
        Errno(libc::ENOENT | libc::EOPNOTSUPP | libc::ENODEV) => {
            "the processor, or the machine that it is a virtual part of, does not count it".to_owned()
        }
        Errno(libc::EACCES | libc::EPERM) => {
            "the kernel does not allow it: set sysctl kernel.perf_event_paranoid to 2 or less, or record as root"
                .to_owned()
        }
        Errno(libc::EINVAL) => "there is no such event".to_owned(),
        why => why.to_string(),
    })
}

fn unknown(name: &str) -> String {
    let similar = similar(name, NAMED.iter().map(|(name, ..)| *name));
    let similar =
        if similar.is_empty() { String::new() } else { format!("; did you mean {}?", similar.join(" or ")) };
    format!("there is no event `{name}`{similar} (see perf-list(1): names, rNNNN, UNIT/EVENT/)")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_perfs() {
        let named = |name| counter(name).map(|counted| (counted.name, counted.counter));
        let own = |config| Counter { kind: Counter::OWN, config };
        assert_eq!(named("task-clock"), Ok(("task_clock".to_owned(), own(Counter::TASK_CLOCK))));
        assert_eq!(named("cs"), Ok(("cs".to_owned(), own(Counter::CONTEXT_SWITCHES))));
        assert_eq!(raw("r01c2"), Some(Counter { kind: RAW, config: 0x1c2 }));
        let why = named("page-fault").unwrap_err();
        assert!(why.contains("did you mean page-faults"), "{why}");
        assert!(named("").unwrap_err().starts_with("there is no event"));
    }

    #[test]
    fn lists_are_taken_apart() {
        let names =
            |text| counters(text).map(|all| all.into_iter().map(|counted| counted.name).collect::<Vec<_>>());
        assert_eq!(names("task-clock, page-faults,task-clock").unwrap(), ["task_clock", "page_faults"]);
        assert!(names("task-clock,nothing").unwrap_err().contains("`nothing`"));
    }

    #[test]
    fn units_say_where_their_numbers_go() {
        let units = std::env::temp_dir().join(format!("mote-units-{}", std::process::id()));
        for (file, text) in [
            ("cpu/type", "4\n"),
            ("cpu/format/event", "config:0-7,32-35\n"),
            ("cpu/format/umask", "config:8-15\n"),
            ("cpu/format/inv", "config:23\n"),
            ("cpu/format/offcore", "config1:0-63\n"),
            ("cpu/events/stalls", "event=0xa2,umask=0x01\n"),
        ] {
            let path = units.join(file);
            fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
            fs::write(path, text).expect("a file");
        }
        let config = |name| of_unit(&units, name).map(|counter| (counter.kind, counter.config));
        assert_eq!(config("cpu/stalls/"), Some((4, 0x01a2)));
        assert_eq!(config("cpu/event=0xfc2,umask=3,inv/"), Some((4, 0xf_0080_03c2)));
        for wrong in [
            "cpu/event=0x1000000/",
            "cpu/offcore=1/",
            "cpu/nothing/",
            "gpu/stalls/",
            "cpu/../type/",
            "cpu/event=x/",
        ] {
            assert_eq!(config(wrong), None, "{wrong}");
        }
        fs::remove_dir_all(&units).expect("it was there");
    }
}
