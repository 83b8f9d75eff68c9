//! What is shown of calls: the table, histograms, trees, JSON.

use super::{Args, Format};
use crate::out::{self, Place};
use anyhow::Context;
use clap::ValueEnum;
use mote_analysis::{CallSums, Choice, FunctionCount, Histogram};
use mote_filter::Aggregate;
use mote_layout::functions::PROVIDER;
use mote_pattern::Glob;
use mote_timeline::{Source, Trace};
use mote_view::{FunctionTable, Selection, TimeStyle, Tree, pump};
use mote_words::{COLUMNS, counted};
use serde_json::{Value, json};
use std::cmp::Reverse;
use std::io::{self, Write};

/// What functions are ordered by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Sort {
    Calls,
    Total,
    #[value(name = "self")]
    Own,
    Min,
    Mean,
    P50,
    P99,
    Max,
    Name,
}

impl Sort {
    fn number(self, function: &FunctionCount) -> u64 {
        match self {
            Sort::Calls => function.calls,
            Sort::Total => function.total_ns,
            Sort::Own => function.total_self_ns,
            Sort::Min => function.duration_ns.min,
            Sort::Mean => function.duration_ns.mean,
            Sort::P50 => function.duration_ns.p50,
            Sort::P99 => function.duration_ns.p99,
            Sort::Max => function.duration_ns.max,
            Sort::Name => 0,
        }
    }
}

/// Shows the sums as a table, as histograms, or as JSON; returns whether there is a call.
///
/// # Errors
/// They cannot be written.
pub(super) fn sums(args: &Args, trace: &Trace, sums: CallSums, place: Place) -> anyhow::Result<bool> {
    let CallSums { mut functions, estimates } = sums;
    let sort = args.sort.unwrap_or(if args.count { Sort::Calls } else { Sort::Total });
    functions.sort_by(|(a, _), (b, _)| {
        Reverse(sort.number(a)).cmp(&Reverse(sort.number(b))).then_with(|| a.name.cmp(&b.name))
    });
    let histogram = args.hist.map(|_| histograms(&functions));
    let found = !functions.is_empty();
    let functions: Vec<FunctionCount> = functions.into_iter().map(|(function, _)| function).collect();
    let width = place.width();
    let page = match (args.format, &histogram) {
        (Format::Json, _) => {
            let lost = (!trace.lost_unknown()).then(|| trace.lost());
            let mut all = json!({ "functions": functions, "estimates": estimates, "lost": lost });
            if let Some(histogram) = histogram {
                all["histogram"] = histogram;
            }
            serde_json::to_string_pretty(&all)? + "\n"
        }
        (Format::Table, Some(histogram)) if found => Aggregate::of_json(histogram)
            .map_or_else(String::new, |all| all.text(width.unwrap_or(COLUMNS), usize::MAX)),
        (Format::Table, _) => {
            let table =
                FunctionTable { functions: &functions, estimates, rows: usize::MAX, counts_only: args.count };
            table.text(width.unwrap_or(COLUMNS)).trim_start_matches('\n').to_owned()
        }
    };
    place.print(&page)?;
    Ok(found)
}

/// The durations of each function, as what filters have counted is in recordings.
fn histograms(functions: &[(FunctionCount, Histogram)]) -> Value {
    let one = |(function, durations): &(FunctionCount, Histogram)| {
        let buckets: Vec<(u64, u64, u64)> = durations.buckets().collect();
        json!({ "keys": { "function": function.name }, "count": function.calls, "buckets": buckets })
    };
    json!({
        "name": "duration of calls",
        "kind": "histograms",
        "value": "duration",
        "type": "ns",
        "labels": null,
        "columns": [{ "name": "function", "type": "text" }],
        "histograms": functions.iter().map(one).collect::<Value>(),
        "dropped": 0,
    })
}

/// Shows the calls as trees; returns whether there is one.
///
/// # Errors
/// They cannot be written.
pub(super) fn graph<S: Source>(
    trace: &Trace,
    events: &mut S,
    choice: Choice,
    depth: usize,
    place: Place,
) -> anyhow::Result<bool> {
    let selection = Selection::new(trace, &[], &[Glob::new(&format!("{PROVIDER}:*"))], &[]);
    let mut tree = Tree::new(trace, TimeStyle::Absolute, false).of_calls(choice, depth);
    let mut to = Counted { to: writer(place), bytes: 0 };
    pump(events, &selection, None, &mut tree, &mut to).context("cannot write the calls")?;
    Ok(to.bytes > 0)
}

fn writer(place: Place) -> Box<dyn Write> {
    match place {
        Place::Output => Box::new(out::lock()),
        Place::Error => Box::new(io::stderr()),
    }
}

/// Writes, and counts.
struct Counted {
    to: Box<dyn Write>,
    bytes: usize,
}

impl Write for Counted {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.to.write(bytes)?;
        self.bytes += written;
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.to.flush()
    }
}

/// A trace that lost events says so everywhere that it is shown.
pub(super) fn tell_loss(trace: &Trace) {
    if trace.lost_unknown() {
        say!("an unknown number of events were lost while recording; `mote report` says why");
    } else if trace.lost() > 0 {
        let events = counted(trace.lost(), "event was", "events were");
        say!(
            "{events} lost while recording; what they called counts as their callers' own; `mote report` says why"
        );
    }
}
