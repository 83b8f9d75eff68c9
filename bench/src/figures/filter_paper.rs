//! The paper's three experiments: (a) fifty tests that hold, evaluated ever more often; (b) one that fails, ever
//! deeper; (c) one to nine tests at an event's site, beside LTTng's interpreter.

use super::effort::Effort;
use super::figure::Figure;
use super::filter::{Bench, strings};
use super::filter_fifty::{Engine, Fifty};
use super::rcu_plot::{Plot, Series};
use anyhow::Context;
use std::path::Path;

/// Runs them, and draws them where `MOTE_BENCH_PLOTS` says.
pub(super) fn figures(bench: &mut Bench, effort: Effort) -> anyhow::Result<Vec<Figure>> {
    let mut fifty = Fifty::new()?;
    let mut figures = Vec::new();
    for plot in [often(&fifty, effort)?, deep(&mut fifty, effort)?, many(bench, effort)?] {
        figures.extend(plot.figures);
        if let Some(directory) = std::env::var_os("MOTE_BENCH_PLOTS") {
            let path = Path::new(&directory).join(format!("filter-{}.svg", plot.name));
            std::fs::write(&path, plot.plot.svg())
                .with_context(|| format!("cannot write {}", path.display()))?;
        }
    }
    Ok(figures)
}

struct Experiment {
    name: &'static str,
    figures: Vec<Figure>,
    plot: Plot,
}

fn often(fifty: &Fifty, effort: Effort) -> anyhow::Result<Experiment> {
    let counts = effort.choose(&[100_000u64, 1_000_000][..], &[1_000_000, 10_000_000, 100_000_000]);
    let mut figures = Vec::new();
    let mut series = Vec::new();
    for engine in Engine::ALL {
        let mut points = Vec::new();
        for count in counts {
            let seconds = fifty.cost(engine, *count, true)? * *count as f64 / 1e9;
            figures.push(Figure::new(&format!("often/{count}/{}", engine.name()), "s", &[seconds]));
            points.push((*count as f64, seconds));
        }
        series.push(Series { name: engine.name().to_owned(), points });
    }
    let (title, x, y) = ("fifty texts compared, all equal", "evaluations", "seconds");
    Ok(Experiment { name: "often", figures, plot: Plot { title, x, y, series } })
}

fn deep(fifty: &mut Fifty, effort: Effort) -> anyhow::Result<Experiment> {
    let turns = effort.choose(50_000, 1_000_000);
    let mut figures = Vec::new();
    let mut series = Vec::new();
    for engine in Engine::ALL {
        let mut points = Vec::new();
        for depth in (5..=40).step_by(5) {
            fifty.fail_at(depth);
            let mut values = Vec::new();
            for _ in 0..5 {
                values.push(fifty.cost(engine, turns, false)?);
            }
            figures.push(Figure::new(&format!("deep/{depth}/{}", engine.name()), "ns", &values));
            values.sort_by(f64::total_cmp);
            points.push((depth as f64, values[2]));
        }
        series.push(Series { name: engine.name().to_owned(), points });
    }
    fifty.fail_at(0);
    let (title, x, y) = ("fifty texts, of which one differs", "the one that differs", "ns an evaluation");
    Ok(Experiment { name: "deep", figures, plot: Plot { title, x, y, series } })
}

fn many(bench: &mut Bench, effort: Effort) -> anyhow::Result<Experiment> {
    let (counts, rounds) = effort.choose((&[1, 9][..], 3), (&[1, 2, 3, 4, 5, 6, 7, 8, 9][..], 5));
    let cases = [("false", "fox"), ("recorded", "foo")];
    for _ in 0..rounds {
        for (name, last) in cases {
            for count in counts {
                let (case, filter) = (format!("many/{count}/{name}"), strings(*count, last));
                bench.site(&case, "nine_strings", &filter)?;
                bench.interpreted(&format!("{case}/interpreter"), "nine_strings", &filter)?;
                bench.peer(&case, "nine_strings", Some(&filter))?;
            }
        }
    }
    let mut figures = Vec::new();
    let mut series = Vec::new();
    for (name, _) in cases {
        let mut lines = [("jit", Vec::new()), ("interpreter", Vec::new()), ("lttng-ust", Vec::new())];
        for count in counts {
            let case = format!("many/{count}/{name}");
            let interpreted = format!("{case}/interpreter");
            for own in [&case, &interpreted] {
                figures.push(Figure::new(own, "ns", bench.samples.of(own)));
            }
            figures.push(bench.theirs(&case));
            for ((_, points), from) in lines.iter_mut().zip([&case, &interpreted, &format!("lttng/{case}")]) {
                points.extend(bench.samples.median(from).map(|ns| (*count as f64, ns)));
            }
        }
        series.extend(lines.map(|(engine, points)| Series { name: format!("{engine}, {name}"), points }));
    }
    series.retain(|series| !series.points.is_empty());
    let (title, x, y) = ("an event with nine texts", "texts that are compared", "ns an event");
    Ok(Experiment { name: "many", figures, plot: Plot { title, x, y, series } })
}
