//! The page with pictures.

use super::found::Found;
use super::marks;
use crate::cmd::pt::slices::slices;
use mote_hardware::paths::Difference;
use mote_view::page::{Page, View};
use mote_words::counted_grouped;
use serde_json::{Value, json};

/// Differences in the table.
const SHOWN: usize = 10_000;

/// The page: the differences, and the paths of both.
pub(super) fn page(found: &Found) -> String {
    let columns = ["difference", "A", "B", "only in", "calls in A", "calls in B", "paths", "path"];
    let mut views = vec![View::Table {
        title: "Differences, in instructions".to_owned(),
        columns: columns.map(str::to_owned).into(),
        rows: found.differences.iter().take(SHOWN).map(row).collect(),
    }];
    for (side, ((read, name), path)) in found.sides.iter().zip(["A", "B"]).zip(&found.paths).enumerate() {
        let mut root = slices(
            (&read.tree, &read.functions),
            name,
            |node| node.instructions,
            |node| counted_grouped(node.calls, "call", "calls"),
            |_| true,
        );
        marks::mark(&mut root, side, &found.differences);
        let title = format!("{name}: {path}");
        views.push(View::Sunburst { title, unit: "instructions".to_owned(), root });
    }
    let about = format!("A: {}, B: {}", found.paths[0], found.paths[1]);
    Page { title: "Differences".to_owned(), about, views }.html()
}

fn row(one: &Difference) -> Vec<Value> {
    let more = i64::try_from(one.more()).unwrap_or(if one.more() < 0 { i64::MIN } else { i64::MAX });
    let path: Vec<&str> = one.path.iter().map(|named| named.name.as_str()).collect();
    let alone = match one.alone() {
        Some(0) => "A",
        Some(_) => "B",
        None => "",
    };
    let [a, b] = one.instructions;
    let [calls_a, calls_b] = one.calls;
    vec![
        json!(more),
        json!(a),
        json!(b),
        json!(alone),
        json!(calls_a),
        json!(calls_b),
        json!(one.paths),
        json!(path.join(" > ")),
    ]
}
