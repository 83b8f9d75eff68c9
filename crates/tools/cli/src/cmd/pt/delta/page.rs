//! The page with pictures.

use super::found::Found;
use crate::cmd::pt::times;
use mote_analysis::Histogram;
use mote_hardware::delta::Profile;
use mote_pt::time::Span;
use mote_view::page::{Page, Series, View};
use mote_words::grouped;
use serde_json::{Value, json};

/// Streams and threads that have bars of their own.
const SERIES: usize = 5;

/// Makes the page of a delta profile, as HTML.
pub(super) fn page(found: &Found<'_>) -> String {
    let profile = &found.answer.profile;
    let mut views = vec![numbers(found, profile)];
    views.extend(histograms(found, profile));
    views.push(worst(found, profile));
    views.push(between(profile));
    let title = match &found.question.to {
        Some(to) => format!("{} to {to}", found.question.from),
        None => found.question.from.to_string(),
    };
    Page { title, about: found.input.capture.display().to_string(), views }.html()
}

fn numbers(found: &Found<'_>, profile: &Profile) -> View {
    let shown = |value: Option<u64>| value.map_or_else(|| "-".to_owned(), grouped);
    let of = &profile.all.instructions;
    let [least, most] = [&profile.all.least_ns, &profile.all.most_ns];
    let time = |permille: u64| {
        let bounds = Span { low: least.quantile(permille), high: most.quantile(permille) };
        if bounds == Span::UNKNOWN { "not known".to_owned() } else { times::duration(bounds) }
    };
    let what = if found.question.to.is_some() { "intervals" } else { "times" };
    let rows = [
        (what, grouped(of.count())),
        ("instructions, median", shown(of.quantile(500))),
        ("instructions, 99 %", shown(of.quantile(990))),
        ("instructions, most", shown(of.max())),
        ("time, median", time(500)),
        ("time, 99 %", time(990)),
        ("without an end", grouped(profile.cut)),
    ];
    let rows = rows.into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
    View::Numbers { title: "In numbers".to_owned(), rows }
}

/// Of all together, and of those who have the most.
fn histograms(found: &Found<'_>, profile: &Profile) -> Vec<View> {
    let series =
        |name: &str, of: &Histogram| Series { name: name.to_owned(), buckets: of.buckets().collect() };
    let view = |title: &str, unit: &str, series: Vec<Series>| View::Histogram {
        title: title.to_owned(),
        unit: unit.to_owned(),
        series,
    };
    let mut whose: Vec<_> = profile.of.iter().filter(|_| profile.of.len() > 1).collect();
    whose.sort_by_key(|(who, sums)| (u64::MAX - sums.instructions.count(), **who));
    let mut instructions = vec![series("all", &profile.all.instructions)];
    for (who, sums) in whose.into_iter().take(SERIES) {
        instructions.push(series(&found.threads.words(who.of, who.tid), &sums.instructions));
    }
    let mut views = vec![view("How many instructions", "instructions", instructions)];
    let [least, most] = [&profile.all.least_ns, &profile.all.most_ns];
    if least.count() + most.count() > 0 {
        views.push(view("How long", "ns", vec![series("at least", least), series("at most", most)]));
    }
    views
}

fn worst(found: &Found<'_>, profile: &Profile) -> View {
    let row = |(case, stack): (&mote_hardware::delta::Case, &Vec<mote_hardware::paths::Named>)| {
        let stack: Vec<&str> = stack.iter().map(|named| named.name.as_str()).collect();
        vec![
            json!(case.instructions),
            json!(case.ns.low),
            json!(case.ns.high),
            json!(found.threads.words(case.who.of, case.who.tid)),
            json!(stack.join(" > ")),
            json!(found.command(case)),
        ]
    };
    let columns = ["instructions", "ns at least", "ns at most", "of", "stack", "to see it"];
    View::Table {
        title: "The worst".to_owned(),
        columns: columns.map(str::to_owned).into(),
        rows: profile.worst.iter().zip(&found.stacks).map(row).collect(),
    }
}

fn between(profile: &Profile) -> View {
    let columns = ["intervals", "instructions", "most", "ns, the longest at least", "from", "to"];
    let row = |((from, to), between): (&(String, String), &mote_hardware::delta::Between)| -> Vec<Value> {
        let counts =
            [Some(between.count), Some(between.instructions), Some(between.instructions_max), between.ns_max];
        counts.into_iter().map(|count| json!(count)).chain([json!(from), json!(to)]).collect()
    };
    let mut rows: Vec<Vec<Value>> = profile.between.iter().map(row).collect();
    rows.sort_by_key(|row| u64::MAX - row.first().and_then(Value::as_u64).unwrap_or(0));
    View::Table { title: "From where to where".to_owned(), columns: columns.map(str::to_owned).into(), rows }
}
