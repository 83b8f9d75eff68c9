//! Calls that were counted in processes, and not recorded: from the recording's table of them.

use super::show::Sort;
use super::{Args, Format};
use crate::cmd;
use crate::out::Place;
use mote_filter::Aggregate;
use mote_filter::aggregate::{Content, Row, Value};
use mote_view::{CallCount, CallCountTable};
use mote_words::COLUMNS;
use serde_json::json;
use std::cmp::Reverse;
use std::path::Path;

/// The calls that were counted in a recording; none where calls were recorded.
pub(super) fn of(dir: &Path) -> Vec<CallCount> {
    let all = cmd::aggregates(dir);
    let mut tables = all.as_array().into_iter().flatten().filter_map(Aggregate::of_json);
    let calls = tables.find(|aggregate| aggregate.name == mote_journal::CALLS);
    match calls.map(|calls| calls.content) {
        Some(Content::Counts(table)) => table.rows.iter().filter_map(of_row).collect(),
        _ => Vec::new(),
    }
}

fn of_row(row: &Row) -> Option<CallCount> {
    let (Value::String { text, .. }, rest) = row.values.split_first()? else { return None };
    let under_way = match rest.first() {
        Some(Value::Unsigned(under_way)) => Some(*under_way),
        Some(Value::Signed(under_way)) => u64::try_from(*under_way).ok(),
        _ => None,
    };
    Some(CallCount { name: text.clone(), calls: row.count, under_way })
}

/// Shows the counts as a table, or as JSON.
///
/// # Errors
/// They cannot be written.
pub(super) fn show(args: &Args, mut functions: Vec<CallCount>, place: Place) -> anyhow::Result<()> {
    let by_calls = !matches!(args.sort, Some(Sort::Name));
    functions.sort_by(|a, b| {
        let calls = |function: &CallCount| Reverse(if by_calls { function.calls } else { 0 });
        calls(a).cmp(&calls(b)).then_with(|| a.name.cmp(&b.name))
    });
    let page = match args.format {
        Format::Json => serde_json::to_string_pretty(&json!({ "functions": rows(&functions) }))? + "\n",
        Format::Table => {
            let text = CallCountTable { functions: &functions }.text(place.width().unwrap_or(COLUMNS));
            text.trim_start_matches('\n').to_owned()
        }
    };
    place.print(&page)
}

fn rows(functions: &[CallCount]) -> serde_json::Value {
    let one = |function: &CallCount| {
        let mut one = json!({ "name": function.name, "calls": function.calls });
        if let Some(under_way) = function.under_way {
            one["under_way"] = under_way.into();
        }
        one
    };
    functions.iter().map(one).collect()
}
