//! `filter`: what a filter costs: at an event's site, alone, to be made; the paper's three experiments (Sharma &
//! Dagenais 2016).
//!
//! With the variable `MOTE_BENCH_PLOTS` the experiments are drawn into that directory.

use super::effort::Effort;
use super::figure::{Figure, Samples};
use super::session::{Lab, flight_buffers, workload};
use super::{filter_fifty, lttng, native};
use anyhow::Context;
use mote_daemon::options::Mode;
use mote_filter::Rule;
use std::ffi::OsString;
use std::path::Path;

/// How figures of LTTng-UST are called.
pub(super) const LTTNG: &str = "lttng-ust";

/// A case that is measured at a site: our rules for an event, and LTTng's expression.
struct Case {
    name: &'static str,
    /// The event, and the case of the workload that emits it.
    event: &'static str,
    filter: String,
}

/// Events that are recorded while a rule of the session speculates: none is open, or each is kept aside and forgotten.
const SPECULATIONS: [(&str, &str); 4] = [
    ("aside_by_thread/none", "bench:two_ints if i < 0 do speculate"),
    ("aside_by_key/none", "bench:two_ints if i < 0 do speculate by v"),
    ("aside_by_thread/kept", "bench:two_ints if i & 63 == 0 do speculate"),
    ("aside_by_key/kept", "bench:two_ints if i & 63 == 0 do speculate by (v & 0)"),
];

/// A test of nine strings, of which the last is compared with `last`.
pub(super) fn strings(count: usize, last: &str) -> String {
    let names = ["a", "b", "c", "d", "e", "f", "g", "h", "i"];
    let test =
        |(at, name): (usize, &&str)| format!("{name} == \"{}\"", if at + 1 == count { last } else { "foo" });
    names.iter().take(count).enumerate().map(test).collect::<Vec<_>>().join(" && ")
}

fn cases() -> Vec<Case> {
    let case = |name, event, filter: &str| Case { name, event, filter: filter.to_owned() };
    vec![
        case("int_false", "two_ints", "i < 0"),
        case("int_true", "two_ints", "i >= 0"),
        case("four_ints_false", "two_ints", "i >= 0 && v >= 0 && i < 2000000000 && v < 0"),
        case("nine_last_false", "nine_strings", &strings(9, "fox")),
        case("nine_true", "nine_strings", &strings(9, "foo")),
    ]
}

/// The bench while it runs.
pub(super) struct Bench {
    pub(super) lab: Lab,
    pub(super) samples: Samples,
    pub(super) events: u64,
    pub(super) repetitions: u64,
    /// Why LTTng is not measured.
    pub(super) missing: Option<String>,
}

/// Measures all cases in turns.
pub(super) fn run(effort: Effort) -> anyhow::Result<Vec<Figure>> {
    let (events, rounds, repetitions) = effort.choose((250_000, 5, 2), (2_000_000, 7, 3));
    let lab = Lab::new()?;
    // While this one lives, its daemon serves the others.
    let daemon = lttng::Peer::filtered(&lab, &[]);
    let missing = daemon.as_ref().err().map(|why| format!("{why:#}"));
    let c = native::build(&lab);
    let mut bench = Bench { lab, samples: Samples::default(), events, repetitions, missing };
    let cases = cases();
    for round in 0..rounds {
        bench.floors()?;
        for case in &cases {
            bench.site(case.name, case.event, &case.filter)?;
            // LTTng's differ by little, and take long.
            if round < effort.choose(3, rounds) {
                bench.peer(case.name, case.event, Some(&case.filter))?;
            }
        }
        bench.actions()?;
        if let Ok(program) = &c {
            bench.native(program)?;
        }
    }
    let mut figures = bench.figures(&cases);
    figures.push(match c {
        Ok(_) => Figure::new("int_false/c", "ns", bench.samples.of("int_false/c")),
        Err(why) => Figure::absent("int_false/c", "ns", &format!("{why:#}")),
    });
    figures.extend(filter_fifty::figures(effort)?);
    figures.extend(super::filter_paper::figures(&mut bench, effort)?);
    Ok(figures)
}

impl Bench {
    fn cost(&self) -> anyhow::Result<Vec<OsString>> {
        workload("filtered", &[self.events, self.repetitions])
    }

    /// The events without a filter, and an empty loop.
    fn floors(&mut self) -> anyhow::Result<()> {
        let command = self.cost()?;
        let rules = vec![Rule::record("bench:*")];
        let text = self.lab.fly_by(rules, command)?;
        self.samples.read(&text, |case| Some(format!("none/{case}")))?;
        if self.missing.is_none() {
            let mut peer = lttng::Peer::filtered(&self.lab, &[("two_ints", None), ("nine_strings", None)])?;
            peer.measure(&mut self.samples, self.events, self.repetitions)?;
        }
        Ok(())
    }

    /// An event's site with a filter.
    pub(super) fn site(&mut self, name: &str, event: &str, filter: &str) -> anyhow::Result<()> {
        let rules = vec![rule(Rule::filter(&format!("bench:{event}"), filter))?];
        let command = self.cost()?;
        let text = self.lab.fly_by(rules, command)?;
        self.samples.read(&text, |case| (case == event).then(|| name.to_owned()))
    }

    /// The same in a process that may not make machine code; nothing where the kernel cannot forbid it.
    pub(super) fn interpreted(&mut self, name: &str, event: &str, filter: &str) -> anyhow::Result<()> {
        let rules = vec![rule(Rule::filter(&format!("bench:{event}"), filter))?];
        let command = workload("interpreted", &[self.events, self.repetitions])?;
        // The recorder says that filters are interpreted.
        let (recorded, text) = self.lab.record_by(rules, (Mode::Overwrite, flight_buffers()), command)?;
        std::fs::remove_dir_all(&recorded.directory).context("cannot remove a recording")?;
        self.samples.read(&text, |case| (case == event).then(|| name.to_owned()))
    }

    /// Has LTTng-UST record the same event by a filter of its own language.
    pub(super) fn peer(
        &mut self,
        name: &str,
        event: &'static str,
        filter: Option<&str>,
    ) -> anyhow::Result<()> {
        if self.missing.is_some() {
            return Ok(());
        }
        let mut peer = lttng::Peer::filtered(&self.lab, &[(event, filter)])?;
        let mut all = Samples::default();
        peer.measure(&mut all, self.events, self.repetitions)?;
        for value in all.of(&format!("lttng/{event}")) {
            self.samples.add(&format!("lttng/{name}"), *value);
        }
        Ok(())
    }

    /// An event of C whose filter says no.
    fn native(&mut self, program: &Path) -> anyhow::Result<()> {
        let rules = vec![rule(Rule::filter("bench:two_ints", "i < 0"))?];
        let text = self.lab.fly_by(rules, native::command(program, self.events, self.repetitions))?;
        self.samples.read(&text, |case| (case == "two_ints").then(|| "int_false/c".to_owned()))
    }

    /// Events that are counted instead of recorded.
    fn actions(&mut self) -> anyhow::Result<()> {
        let actions = [
            ("count_by", rule(Rule::count("bench:packet", "by proto"))?),
            ("hist", rule(Rule::histogram("bench:packet", "len by proto"))?),
        ];
        for (name, rule) in actions {
            let command = self.cost()?;
            let text = self.lab.fly_by(vec![rule], command)?;
            self.samples.read(&text, |case| (case == "packet").then(|| name.to_owned()))?;
        }
        for (name, action) in SPECULATIONS {
            let rules = vec![Rule::record("bench:two_ints"), rule(Rule::parse(action))?];
            let command = self.cost()?;
            let text = self.lab.fly_by(rules, command)?;
            self.samples.read(&text, |case| (case == "two_ints").then(|| name.to_owned()))?;
        }
        Ok(())
    }

    fn figures(&self, cases: &[Case]) -> Vec<Figure> {
        let ns = |case: &str, from: &str| Figure::new(case, "ns", self.samples.of(from));
        let mut figures = vec![
            ns("empty", "none/empty"),
            ns("calls", "none/calls"),
            ns("two_ints", "none/two_ints"),
            ns("nine_strings", "none/nine_strings"),
        ];
        figures.extend(cases.iter().map(|case| ns(case.name, case.name)));
        figures.extend(["count_by", "hist"].map(|case| ns(case, case)));
        figures.extend(SPECULATIONS.map(|(case, _)| ns(case, case)));
        let unfiltered = ["two_ints", "nine_strings"];
        let names = unfiltered.into_iter().chain(cases.iter().map(|case| case.name));
        figures.extend(names.map(|name| self.theirs(name)));
        figures
    }

    /// A figure that LTTng-UST gave in the same run.
    pub(super) fn theirs(&self, name: &str) -> Figure {
        let figure = match &self.missing {
            None => Figure::new(name, "ns", self.samples.of(&format!("lttng/{name}"))),
            Some(why) => Figure::absent(name, "ns", why),
        };
        figure.of_peer(LTTNG)
    }
}

/// A rule of the bench; that it is wrong is our mistake.
fn rule(made: Result<Rule, mote_filter::Diagnostic>) -> anyhow::Result<Rule> {
    made.map_err(|why| anyhow::anyhow!("a rule of the bench is wrong: {}", why.render()))
}
