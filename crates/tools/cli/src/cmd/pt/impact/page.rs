//! The page with pictures.

use super::json::number;
use super::measured::{Found, Measured, Outcome, Row};
use crate::cmd::pt::slices::slices;
use mote_hardware::paths::Side;
use mote_view::page::{Page, View};
use mote_words::counted_grouped;
use serde_json::{Value, json};

/// Paths of a tracer in its table.
const SHOWN: usize = 2_000;

/// The page: what each tracer adds, on which paths, and all paths of its run.
pub(super) fn page(found: &Found) -> String {
    let columns = ["tracer", "events", "for each", "more", "beside", "others", "not measured"];
    let mut views = vec![View::Table {
        title: "What tracers add, in instructions".to_owned(),
        columns: columns.map(str::to_owned).into(),
        rows: found.rows.iter().map(row).collect(),
    }];
    views.push(sunburst("bare".to_owned(), found.bare.side()));
    for Row { name, outcome } in &found.rows {
        let Outcome::Measured(measured) = outcome else { continue };
        views.push(paths(name, measured));
        views.push(sunburst(name.clone(), measured.traced.side()));
    }
    let about = format!(
        "{}: {} bare",
        found.command,
        counted_grouped(found.bare.total(), "instruction", "instructions")
    );
    Page { title: "Impact of tracers".to_owned(), about, views }.html()
}

fn row(Row { name, outcome }: &Row) -> Vec<Value> {
    let one = match outcome {
        Outcome::Absent(why) => {
            let none = || Value::Null;
            return vec![json!(name), none(), none(), none(), none(), none(), json!(why)];
        }
        Outcome::Measured(one) => one,
    };
    let impact = &one.impact;
    let of_events = impact.of_events();
    let beside = impact.more() - of_events;
    vec![
        json!(name),
        json!(one.recorded.total()),
        json!(impact.for_each(of_events)),
        json!(number(impact.more())),
        json!(number(beside)),
        json!(one.traced.others),
        Value::Null,
    ]
}

fn paths(name: &str, one: &Measured) -> View {
    let columns = ["more", "for each", "calls", "path"];
    let rows = one.impact.differences.iter().take(SHOWN).map(|(difference, is_of_events)| {
        let path: Vec<&str> = difference.path.iter().map(|named| named.name.as_str()).collect();
        let each = one.impact.for_each(difference.more()).filter(|_| *is_of_events);
        vec![
            json!(number(difference.more())),
            json!(each),
            json!(difference.calls[1]),
            json!(path.join(" > ")),
        ]
    });
    let rows = rows.collect();
    View::Table { title: format!("{name}: paths"), columns: columns.map(str::to_owned).into(), rows }
}

fn sunburst(title: String, side: Side<'_>) -> View {
    let root = slices(
        (side.tree, side.functions),
        &title,
        |node| node.instructions,
        |node| counted_grouped(node.calls, "call", "calls"),
        |_| true,
    );
    View::Sunburst { title, unit: "instructions".to_owned(), root }
}
