//! The flags that say what to record of which events: `-e`, and what belongs to the `-e` before it.
//!
//! Their order matters, which clap's derived structs do not keep; so this reads the places of the flags itself.

use clap::{Arg, ArgAction, ArgMatches, Command, FromArgMatches};
use mote_filter::{Diagnostic, Rule};
use std::path::PathBuf;

/// What the flags ask for.
#[derive(Clone, Debug, Default)]
pub(crate) struct Rules {
    /// The rules, in order; one that records everything when no flag says which.
    pub(crate) rules: Vec<Rule>,
    /// Objects with filters that clang has compiled.
    pub(crate) objects: Vec<PathBuf>,
}

/// One flag, in the order of the command line.
enum Flag {
    Event(String),
    Filter(String),
    Count(String),
    Histogram(String),
    On(String),
}

/// An `-e` and what follows it.
#[derive(Default)]
struct Group {
    pattern: Option<String>,
    filter: Option<String>,
    actions: Vec<Flag>,
}

const EVENT: &str = "event";
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
        .allow_hyphen_values(name != EVENT)
}

impl clap::Args for Rules {
    fn augment_args(command: Command) -> Command {
        command.args([
            many(EVENT, "PATTERN", "Record events that match; may be given several times [default: all]")
                .short('e'),
            many(
                FILTER,
                "EXPR",
                "Of the events of the -e before it (without: of all), only those for which this holds",
            ),
            many(
                COUNT,
                "by KEYS",
                "Count the events of the -e before it in the program, by keys, instead of recording them",
            ),
            many(
                HISTOGRAM,
                "VALUE by KEYS",
                "Make histograms of a value in the program, by keys, instead of recording",
            ),
            many(ON, "RULE", "A rule: PATTERN [if EXPR] do ACTION, ..."),
            many(FILE, "FILE.o", "Filters that clang compiled for bpf, each in a section filter/PATTERN")
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
        self.objects = matches.get_many::<PathBuf>(FILE).into_iter().flatten().cloned().collect();
        let wrong = |why: String| {
            // clap says that it is an error, too.
            let text = format!("{}\n", why.trim_start_matches("error: "));
            clap::Error::raw(clap::error::ErrorKind::ValueValidation, text)
        };
        groups(matches).into_iter().try_for_each(|group| self.add(group)).map_err(wrong)?;
        if self.rules.is_empty() && self.objects.is_empty() {
            self.rules.push(Rule::record("*"));
        }
        Ok(())
    }
}

/// The flags in their order, each with the `-e` before it.
fn groups(matches: &ArgMatches) -> Vec<Group> {
    let mut flags = Vec::new();
    let mut collect = |name: &str, make: fn(String) -> Flag| {
        let places = matches.indices_of(name).into_iter().flatten();
        let values = matches.get_many::<String>(name).into_iter().flatten();
        flags.extend(places.zip(values.map(|value| make(value.clone()))));
    };
    collect(EVENT, Flag::Event);
    collect(FILTER, Flag::Filter);
    collect(COUNT, Flag::Count);
    collect(HISTOGRAM, Flag::Histogram);
    collect(ON, Flag::On);
    flags.sort_by_key(|(place, _)| *place);
    let mut groups = vec![Group::default()];
    for (_, flag) in flags {
        let last = groups.last_mut().expect("there is one from the start");
        match flag {
            Flag::Event(pattern) => groups.push(Group { pattern: Some(pattern), ..Group::default() }),
            // Two filters of one pattern: both must hold.
            Flag::Filter(filter) => {
                last.filter = Some(
                    last.filter.take().map_or(filter.clone(), |first| format!("({first}) && ({filter})")),
                );
            }
            other => last.actions.push(other),
        }
    }
    groups
}

impl Rules {
    /// Adds a group's rules, in the order of its flags.
    fn add(&mut self, group: Group) -> Result<(), String> {
        let said = |why: Diagnostic| why.render();
        let pattern = group.pattern.as_deref().unwrap_or("*");
        let counted = group.actions.iter().any(|flag| matches!(flag, Flag::Count(_) | Flag::Histogram(_)));
        match &group.filter {
            _ if counted => {}
            Some(filter) => self.rules.push(Rule::filter(pattern, filter).map_err(said)?),
            None if group.pattern.is_some() => self.rules.push(Rule::record(pattern)),
            None => {}
        }
        // A condition of the -e is one of what is done with its events.
        let whole =
            |text: String| group.filter.as_ref().map_or(text.clone(), |filter| format!("{text} if {filter}"));
        for action in group.actions {
            if let (Flag::Count(text) | Flag::Histogram(text), Some(_)) = (&action, &group.filter)
                && text.split_whitespace().any(|word| word == "if")
            {
                return Err(format!("'{text}' has a condition, and so has its -e; give both in --filter"));
            }
            self.rules.push(match action {
                Flag::Count(text) => Rule::count(pattern, &whole(text)).map_err(said)?,
                Flag::Histogram(text) => Rule::histogram(pattern, &whole(text)).map_err(said)?,
                Flag::On(text) => Rule::parse(&text).map_err(said)?,
                Flag::Event(_) | Flag::Filter(_) => continue,
            });
        }
        Ok(())
    }
}
