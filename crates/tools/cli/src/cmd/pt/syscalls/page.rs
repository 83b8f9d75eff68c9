//! The page with pictures.

use super::weight::{Weight, paths};
use crate::cmd::pt::gather::Gathered;
use crate::cmd::pt::slices::slices;
use crate::cmd::pt::times;
use mote_hardware::paths::{Node, Syscall};
use mote_pt::time::Span;
use mote_view::page::{Page, View};
use mote_words::counted_grouped;
use serde_json::{Value, json};
use std::path::Path;

/// Makes the page of system calls, as HTML.
pub(super) fn page(found: &Gathered, by: Weight, capture: &Path) -> String {
    let is_meant = paths(found);
    let note = |node: &Node| {
        let calls = counted_grouped(node.calls, "call", "calls");
        match found.times.ns_of(node.busy.ticks()) {
            Span { low: None, high: None } => calls,
            ns => format!("{calls}, its own time {}", times::duration(ns)),
        }
    };
    let root = slices(
        (&found.of.tree, &found.functions),
        "system calls",
        |node| by.of(node, found.times),
        note,
        |number| is_meant[number as usize],
    );
    let (unit, title) = match by {
        Weight::Instructions => ("instructions", "Paths, by instructions"),
        Weight::Time => ("ns", "Paths, by what they took at most"),
    };
    let paths = View::Sunburst { title: title.to_owned(), unit: unit.to_owned(), root };
    let about = capture.display().to_string();
    Page { title: "System calls".to_owned(), about, views: vec![paths, table(found)] }.html()
}

fn table(found: &Gathered) -> View {
    let columns =
        ["system call", "calls", "median", "mean", "99 %", "most instructions", "ns at least", "ns at most"];
    let row = |(name, call): (&String, &Syscall)| -> Vec<Value> {
        let of = &call.instructions;
        let numbers = [
            Some(of.count()),
            of.quantile(500),
            of.mean(),
            of.quantile(990),
            of.max(),
            call.least_ns.quantile(500),
            call.most_ns.quantile(500),
        ];
        [json!(name)].into_iter().chain(numbers.map(|number| json!(number))).collect()
    };
    View::Table {
        title: "Each system call; times are medians".to_owned(),
        columns: columns.map(str::to_owned).into(),
        rows: found.of.calls.iter().map(row).collect(),
    }
}
