//! Aggregates as JSON, for programs.

use super::{Aggregate, Content, Histogram, Table, Value};
use serde_json::{Map, Value as Json, json};

impl Aggregate {
    /// One object: `name`, `kind` (`counts`, `histograms`, `last`, `flag`), `dropped`, and by kind: `rows` (keys by
    /// name, and `count`, or `number` of the event), `histograms` (keys, `count`, `buckets` of first, last, count), or
    /// `set`.
    pub fn json(&self) -> Json {
        let (kind, field, content) = match &self.content {
            Content::Counts(table) => ("counts", "rows", rows(table, "count")),
            Content::Last(table) => ("last", "rows", rows(table, "number")),
            Content::Histograms { keys, list, .. } => {
                ("histograms", "histograms", list.iter().map(|one| histogram(keys, one)).collect())
            }
            Content::Flag(set) => ("flag", "set", Json::Bool(*set)),
        };
        let mut out = json!({ "name": self.name, "kind": kind, "dropped": self.dropped });
        if let Content::Histograms { value, .. } = &self.content {
            out["value"] = json!(value);
        }
        out[field] = content;
        out
    }
}

fn rows(table: &Table, number: &str) -> Json {
    let row = |row: &super::Row| json!({ "keys": object(&table.columns, &row.values), number: row.count });
    table.rows.iter().map(row).collect()
}

fn histogram(keys: &[String], one: &Histogram) -> Json {
    // 128 bits do not fit JSON's numbers; all values but those of the largest unsigned bucket fit 64.
    let number =
        |value: i128| i64::try_from(value).map_or_else(|_| json!(value.max(0) as u64), |value| json!(value));
    let buckets: Json = one
        .buckets
        .iter()
        .map(|(first, last, count)| json!([number(*first), number(*last), count]))
        .collect();
    json!({ "keys": object(keys, &one.keys), "count": one.count(), "buckets": buckets })
}

fn object(names: &[String], values: &[Value]) -> Map<String, Json> {
    names.iter().cloned().zip(values.iter().map(plain)).collect()
}

fn plain(value: &Value) -> Json {
    match value {
        Value::Signed(value) => json!(value),
        Value::Unsigned(value) | Value::Nanos(value) => json!(value),
        Value::Float(value) => json!(value),
        Value::Bool(value) => json!(value),
        Value::Label(None, value) => json!(value),
        Value::Hex(_) | Value::String { .. } | Value::Label(Some(_), _) => json!(value.to_string()),
    }
}
