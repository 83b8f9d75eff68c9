//! The flags that say what to record of which events: `-e` and `-k`, and what belongs to the one before it.
//!
//! Their order matters, which clap's derived structs do not keep; so this reads the places of the flags itself.

use clap::{Arg, ArgAction, ArgMatches, Command, FromArgMatches};
use mote_catalog::FAMILIES;
use mote_filter::{Diagnostic, Rule};
use mote_functions::{DECLARED, Pattern, Values};
use mote_layout::functions::{PROVIDER, function_of};
use mote_pattern::Glob;
use mote_probes::is_probe;
use std::path::PathBuf;

/// What the flags ask for.
#[derive(Clone, Debug, Default)]
pub(crate) struct Rules {
    /// The rules, in order; one that records everything when no flag says which.
    pub(crate) rules: Vec<Rule>,
    /// Those about events of the kernel.
    pub(crate) kernel: Vec<Rule>,
    /// Functions that are to have events of their own; `rules` has what becomes of these.
    pub(crate) functions: Vec<String>,
    /// Those whose calls have to be around calls of the others.
    pub(crate) under: Vec<String>,
    /// No flag says which events of programs; `rules` has all.
    pub(crate) is_default: bool,
    /// Objects with filters that clang has compiled.
    pub(crate) objects: Vec<PathBuf>,
}

/// One flag, in the order of the command line.
enum Flag {
    Event(String),
    Function(String),
    Kernel(String),
    Filter(String),
    Count(String),
    Histogram(String),
    On(String),
}

/// An `-e`, or a `-k`, and what follows it.
#[derive(Default)]
struct Group {
    /// Whose events it is about.
    domain: Domain,
    /// Its patterns; without an `-e` none.
    patterns: Vec<String>,
    filter: Option<String>,
    actions: Vec<Flag>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Domain {
    #[default]
    Processes,
    Kernel,
}

const EVENT: &str = "event";
const FUNCTION: &str = "function";
const UNDER: &str = "under";
const KERNEL: &str = "kernel";
const FILTER: &str = "filter";
const COUNT: &str = "count";
const HISTOGRAM: &str = "hist";
const ON: &str = "on";
const FILE: &str = "filter-file";

fn many(name: &'static str, value: &'static str, help: &'static str) -> Arg {
    Arg::new(name)
        .long(name)
        .value_name(value)
        .action(ArgAction::Append)
        .help(help)
        .allow_hyphen_values(![EVENT, FUNCTION, UNDER, KERNEL].contains(&name))
}

impl clap::Args for Rules {
    fn augment_args(command: Command) -> Command {
        command.args([
            many(EVENT, "PATTERN", "Record the events of programs that match PATTERN; may be given several times \
                                    [default of mote record: all]")
                .short('e'),
            many(
                FUNCTION,
                "PATTERN",
                "Put probes into the functions that match PATTERN (NAME, FILE:NAME or @SOURCE) of a program that need not \
                 know of mote; each call is an event f:NAME, recorded when it returns, with its duration; and with its \
                 arguments, if a rule names one, or PATTERN ends with (..)",
            )
            .short('f'),
            many(
                UNDER,
                "PATTERN",
                "Record calls of the functions of -f only inside of calls of functions that match PATTERN, and these \
                 calls; may be given several times",
            )
            .requires(FUNCTION),
            many(
                KERNEL,
                "PATTERNS",
                "Record kernel events that match, into the same trace: families or names, separated by commas; may be given several times",
            )
            .short('k'),
            many(
                FILTER,
                "EXPR",
                "Record only events for which EXPR holds; applies to the -e or -k before it, or to all events of \
                 programs",
            ),
            many(
                COUNT,
                "by KEYS",
                "Count the events of the -e or -k before it, by keys, instead of recording them",
            ),
            many(
                HISTOGRAM,
                "VALUE by KEYS",
                "Make histograms of a value of the events of the -e or -k before it, by keys, instead of recording \
                 them",
            ),
            many(ON, "RULE", "What to do when an event occurs: PATTERN [if EXPR] do ACTION, ... (record, count, hist, \
                              last, set, clear, emit, snapshot, pt snapshot TIME, profile for TIME, fperf \"FUNCTIONS\" \
                              for TIME, speculate, commit, discard and others: docs/filters.md); for kernel events \
                              give it after a -k, or begin PATTERN with their family (sched:, syscalls:)"),
            many(FILE, "FILE.o", "Filters compiled by clang for bpf, each in a section filter/PATTERN")
                .value_parser(clap::value_parser!(PathBuf)),
        ])
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl FromArgMatches for Rules {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Rules, clap::Error> {
        let mut rules = Rules::default();
        rules.update_from_arg_matches(matches)?;
        Ok(rules)
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        let all = |name: &str| matches.get_many::<String>(name).into_iter().flatten().cloned().collect();
        self.functions = all(FUNCTION);
        self.under = all(UNDER);
        self.objects = matches.get_many::<PathBuf>(FILE).into_iter().flatten().cloned().collect();
        let wrong = |why: String| {
            // clap says that it is an error, too.
            let text = format!("{}\n", why.trim_start_matches("error: "));
            clap::Error::raw(clap::error::ErrorKind::ValueValidation, text)
        };
        let groups = groups(matches).map_err(wrong)?;
        let sides = Sides::of(&groups);
        groups.into_iter().try_for_each(|group| self.add(group, &sides)).map_err(wrong)?;
        self.rules.extend(of_functions(&self.under, None).map_err(wrong)?);
        for function in &mut self.functions {
            *function = with_what_is_named(function, &self.rules).map_err(wrong)?;
        }
        if self.rules.is_empty() && self.objects.is_empty() {
            self.rules.push(Rule::record("*"));
            self.is_default = true;
        }
        Ok(())
    }
}

/// The flags in their order, each with the `-e` or `-k` before it.
fn groups(matches: &ArgMatches) -> Result<Vec<Group>, String> {
    let mut flags = Vec::new();
    let mut collect = |name: &str, make: fn(String) -> Flag| {
        let places = matches.indices_of(name).into_iter().flatten();
        let values = matches.get_many::<String>(name).into_iter().flatten();
        flags.extend(places.zip(values.map(|value| make(value.clone()))));
    };
    collect(EVENT, Flag::Event);
    collect(FUNCTION, Flag::Function);
    collect(KERNEL, Flag::Kernel);
    collect(FILTER, Flag::Filter);
    collect(COUNT, Flag::Count);
    collect(HISTOGRAM, Flag::Histogram);
    collect(ON, Flag::On);
    flags.sort_by_key(|(place, _)| *place);
    let mut groups = vec![Group::default()];
    for (_, flag) in flags {
        let last = groups.last_mut().expect("there is one from the start");
        match flag {
            Flag::Event(pattern) => groups.push(Group { patterns: vec![pattern], ..Group::default() }),
            Flag::Function(pattern) => {
                groups.push(Group { patterns: events_of(&pattern)?, ..Group::default() });
            }
            Flag::Kernel(list) => groups.push(Group {
                domain: Domain::Kernel,
                patterns: mote_pattern::listed(&list).map(str::to_owned).collect(),
                ..Group::default()
            }),
            // Two filters of one pattern: both must hold.
            Flag::Filter(filter) => {
                last.filter = Some(
                    last.filter.take().map_or(filter.clone(), |first| format!("({first}) && ({filter})")),
                );
            }
            other => last.actions.push(other),
        }
    }
    Ok(groups)
}

/// The events of the functions that a pattern means. Of generic functions and parameters they say nothing, and of their
/// files only where there are several of one name.
///
/// # Errors
/// For a person: the pattern is none.
pub(crate) fn events_of(pattern: &str) -> Result<Vec<String>, String> {
    let pattern = Pattern::new(pattern)?;
    Ok(match pattern.name() {
        name if name.is_empty() || name.contains(['<', '(', ' ']) => vec![format!("{PROVIDER}:*")],
        name => vec![format!("{PROVIDER}:{name}"), format!("{PROVIDER}:{name}@*")],
    })
}

/// What events of functions have without their arguments: fields and labels.
const ALWAYS: [&str; 4] = ["duration", "end", "returned", "unwound"];

/// The pattern of functions, with all that debug information has of their arguments if a rule about them names one, and
/// the pattern says nothing of arguments itself.
///
/// # Errors
/// For a person: the pattern is none.
fn with_what_is_named(text: &str, rules: &[Rule]) -> Result<String, String> {
    let pattern = Pattern::new(text)?;
    let events = events_of(text)?;
    let is_about = |rule: &&Rule| {
        let covers = |event: &String| {
            let name = function_of(event).unwrap_or(event);
            let of_rule = function_of(rule.pattern());
            rule.matches(PROVIDER, name) || of_rule.is_some_and(|its| Glob::new(name).matches(its))
        };
        events.iter().any(covers)
    };
    let names_arguments = || rules.iter().filter(is_about).any(|rule| rule.names_others(&ALWAYS));
    Ok(match pattern.values {
        Values::Nothing if names_arguments() => format!("{text}{DECLARED}"),
        _ => text.to_owned(),
    })
}

/// What becomes of the events of functions that these patterns mean: calls of at least `min` nanoseconds are recorded.
///
/// # Errors
/// For a person: a pattern is none.
pub(crate) fn of_functions(patterns: &[String], min: Option<u64>) -> Result<Vec<Rule>, String> {
    let events: Result<Vec<Vec<String>>, String> =
        patterns.iter().map(|pattern| events_of(pattern)).collect();
    let rule = |event: String| match min {
        Some(min) => Rule::filter(&event, &format!("duration >= {min}")).map_err(|why| why.render()),
        None => Ok(Rule::record(&event)),
    };
    events?.into_iter().flatten().map(rule).collect()
}

/// Which side a rule of `--on` is about, where its place does not say it.
struct Sides {
    /// There is a `-k`.
    kernel: bool,
    /// Providers that an `-e` names.
    providers: Vec<String>,
    /// Families, or other words before the colon, that a `-k` names.
    families: Vec<String>,
}

/// Families of kernel events that no program has for a provider.
const KERNEL_ONLY: [&str; 2] = ["sched", "syscalls"];

impl Sides {
    fn of(groups: &[Group]) -> Sides {
        let mut sides = Sides { kernel: false, providers: Vec::new(), families: Vec::new() };
        for group in groups {
            match group.domain {
                Domain::Kernel => {
                    sides.kernel = true;
                    sides.families.extend(group.patterns.iter().map(|one| provider(one).to_owned()));
                }
                Domain::Processes => {
                    sides.providers.extend(group.patterns.iter().map(|one| provider(one).to_owned()))
                }
            }
        }
        sides
    }

    /// Whether the events of this pattern are the kernel's: its family is one of the kernel's, and no `-e` says
    /// otherwise.
    fn is_kernel(&self, pattern: &str) -> bool {
        let provider = provider(pattern);
        let family = || FAMILIES.iter().any(|family| family.name == provider) || is_probe(pattern);
        !self.providers.iter().any(|other| other == provider)
            && (KERNEL_ONLY.contains(&provider) || self.kernel && family())
    }
}

impl Sides {
    /// Whether the events of this pattern, of a rule behind a `-k`, are a program's: it names a provider that nothing
    /// of the kernel has.
    fn is_programs(&self, pattern: &str) -> bool {
        let provider = provider(pattern);
        let is_word = pattern.contains(':') && !provider.contains(['*', '?']);
        is_word && !self.families.iter().any(|other| other == provider) && !self.is_kernel(pattern)
    }
}

/// What stands before the `:` of a pattern.
fn provider(pattern: &str) -> &str {
    pattern.split_once(':').map_or(pattern, |(provider, _)| provider)
}

impl Rules {
    /// Adds a group's rules, in the order of its flags.
    fn add(&mut self, group: Group, sides: &Sides) -> Result<(), String> {
        let said = |why: Diagnostic| why.render();
        let counted = group.actions.iter().any(|flag| matches!(flag, Flag::Count(_) | Flag::Histogram(_)));
        let given = !group.patterns.is_empty();
        if group.domain == Domain::Kernel && !given {
            return Err("-k needs a pattern; `mote list -k` shows what there is".to_owned());
        }
        let all = ["*".to_owned()];
        let patterns = if given { group.patterns.as_slice() } else { &all };
        let mut rules = Vec::new();
        for pattern in patterns {
            match &group.filter {
                _ if counted => {}
                Some(filter) => rules.push(Rule::filter(pattern, filter).map_err(said)?),
                None if given => rules.push(Rule::record(pattern)),
                None => {}
            }
        }
        // A condition of the -e is one of what is done with its events.
        let whole = |text: &str| {
            group.filter.as_ref().map_or(text.to_owned(), |filter| format!("{text} if {filter}"))
        };
        for action in &group.actions {
            if let (Flag::Count(text) | Flag::Histogram(text), Some(_)) = (action, &group.filter)
                && text.split_whitespace().any(|word| word == "if")
            {
                return Err(format!(
                    "'{text}' has a condition, and so has its -e (--filter); give both in --filter, joined by &&"
                ));
            }
            match action {
                Flag::On(text) => {
                    let rule = Rule::parse(text).map_err(said)?;
                    match group.domain {
                        Domain::Processes if sides.is_kernel(rule.pattern()) => self.kernel.push(rule),
                        Domain::Kernel if sides.is_programs(rule.pattern()) => self.rules.push(rule),
                        _ => rules.push(rule),
                    }
                }
                Flag::Count(text) => {
                    for pattern in patterns {
                        rules.push(Rule::count(pattern, &whole(text)).map_err(said)?);
                    }
                }
                Flag::Histogram(text) => {
                    for pattern in patterns {
                        rules.push(Rule::histogram(pattern, &whole(text)).map_err(said)?);
                    }
                }
                Flag::Event(_) | Flag::Function(_) | Flag::Kernel(_) | Flag::Filter(_) => {}
            }
        }
        match group.domain {
            Domain::Processes => self.rules.append(&mut rules),
            Domain::Kernel => self.kernel.append(&mut rules),
        }
        Ok(())
    }
}
