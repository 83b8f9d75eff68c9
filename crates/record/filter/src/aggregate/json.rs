//! Aggregates as JSON, for programs, and read back from it.

use super::{Aggregate, Content, Histogram, Row, Table, Value};
use crate::maps::KeyType;
use serde_json::{Map, Value as Json, json};

impl Aggregate {
    /// One object: `name`, `kind` (`counts`, `histograms`, `last`, `flag`), `dropped`, and by kind: `columns` (`name`
    /// and `type` of the keys, in their order), `rows` (`keys` by name, and `count`, or `number` of the event),
    /// `histograms` (`keys`, `count`, `buckets` of first, last, count) with what is measured (`value`, `type`), or
    /// `set`.
    pub fn json(&self) -> Json {
        let mut out = json!({ "name": self.name, "dropped": self.dropped });
        let content = match &self.content {
            Content::Counts(table) => of_table("counts", table, "count"),
            Content::Last(table) => of_table("last", table, "number"),
            Content::Histograms { value, keys, list } => {
                let first = list.first();
                json!({
                    "kind": "histograms",
                    "value": value,
                    "type": first.map_or("signed", |one| type_of_key(&one.ty)),
                    "labels": first.and_then(|one| labels(&one.ty)),
                    "columns": columns(keys, first.map(|one| &one.keys)),
                    "histograms": list.iter().map(|one| histogram(keys, one)).collect::<Json>(),
                })
            }
            Content::Flag(set) => json!({ "kind": "flag", "set": set }),
        };
        if let (Some(out), Json::Object(mut content)) = (out.as_object_mut(), content) {
            out.append(&mut content);
        }
        out
    }

    /// What [`Aggregate::json`] has made, as far as [`Aggregate::text`] shows it; `None` when it is of another version,
    /// or broken.
    pub fn of_json(json: &Json) -> Option<Aggregate> {
        let content = match json["kind"].as_str()? {
            "counts" => Content::Counts(table(json, "count")?),
            "last" => Content::Last(table(json, "number")?),
            "histograms" => {
                let (keys, types) = names(&json["columns"])?;
                let ty = match json["type"].as_str()? {
                    "label" => KeyType::Labels(serde_json::from_value(json["labels"].clone()).ok()?),
                    "ns" => KeyType::Nanos,
                    "hex" => KeyType::Hex,
                    _ => KeyType::Signed,
                };
                let one = |one: &Json| {
                    let buckets =
                        one["buckets"].as_array()?.iter().map(bucket).collect::<Option<Vec<_>>>()?;
                    Some(Histogram { keys: values(&keys, &types, &one["keys"])?, buckets, ty: ty.clone() })
                };
                let list = json["histograms"].as_array()?.iter().map(one).collect::<Option<Vec<_>>>()?;
                Content::Histograms { value: json["value"].as_str()?.to_owned(), keys, list }
            }
            "flag" => Content::Flag(json["set"].as_bool()?),
            _ => return None,
        };
        Some(Aggregate {
            name: json["name"].as_str()?.to_owned(),
            content,
            dropped: json["dropped"].as_u64()?,
        })
    }
}

fn of_table(kind: &str, table: &Table, number: &str) -> Json {
    let row = |row: &Row| json!({ "keys": object(&table.columns, &row.values), number: row.count });
    json!({
        "kind": kind,
        "columns": columns(&table.columns, table.rows.first().map(|row| &row.values)),
        "rows": table.rows.iter().map(row).collect::<Json>(),
    })
}

/// Names and types of columns; the types are those of one row's values.
fn columns(names: &[String], values: Option<&Vec<Value>>) -> Json {
    let ty = |at: usize| values.and_then(|values| values.get(at)).map_or("text", type_of);
    names.iter().enumerate().map(|(at, name)| json!({ "name": name, "type": ty(at) })).collect()
}

const fn type_of(value: &Value) -> &'static str {
    match value {
        Value::Signed(_) => "signed",
        Value::Unsigned(_) => "unsigned",
        Value::Hex(_) => "hex",
        Value::Float(_) => "float",
        Value::Bool(_) => "bool",
        Value::Nanos(_) => "ns",
        Value::String { .. } => "text",
        Value::Label(..) => "label",
    }
}

/// The same of what a histogram measures.
const fn type_of_key(ty: &KeyType) -> &'static str {
    match ty {
        KeyType::Hex => "hex",
        KeyType::Nanos => "ns",
        KeyType::Labels(_) => "label",
        _ => "signed",
    }
}

fn labels(ty: &KeyType) -> Option<&Vec<(String, i64, i64)>> {
    if let KeyType::Labels(labels) = ty { Some(labels) } else { None }
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

fn table(json: &Json, number: &str) -> Option<Table> {
    let (columns, types) = names(&json["columns"])?;
    let row = |row: &Json| {
        Some(Row { values: values(&columns, &types, &row["keys"])?, count: row[number].as_u64()? })
    };
    let rows = json["rows"].as_array()?.iter().map(row).collect::<Option<Vec<_>>>()?;
    Some(Table { columns, rows })
}

/// Names and types of columns.
fn names(columns: &Json) -> Option<(Vec<String>, Vec<String>)> {
    let text = |column: &Json, key: &str| column[key].as_str().map(str::to_owned);
    columns.as_array()?.iter().map(|column| Some((text(column, "name")?, text(column, "type")?))).collect()
}

fn values(names: &[String], types: &[String], keys: &Json) -> Option<Vec<Value>> {
    names.iter().zip(types).map(|(name, ty)| value(ty, &keys[name.as_str()])).collect()
}

fn value(ty: &str, json: &Json) -> Option<Value> {
    let label = || Some(Value::Label(Some(json.as_str()?.to_owned()), 0));
    Some(match ty {
        "signed" => Value::Signed(json.as_i64()?),
        "unsigned" => Value::Unsigned(json.as_u64()?),
        "hex" => Value::Hex(u64::from_str_radix(json.as_str()?.trim_start_matches("0x"), 16).ok()?),
        // What is no number is null.
        "float" => Value::Float(json.as_f64().unwrap_or(f64::NAN)),
        "bool" => Value::Bool(json.as_bool()?),
        "ns" => Value::Nanos(json.as_u64()?),
        "label" => label().or_else(|| Some(Value::Label(None, json.as_i64()?)))?,
        _ => Value::String { text: json.as_str()?.to_owned(), cut: false },
    })
}

fn bucket(json: &Json) -> Option<(i128, i128, u64)> {
    let [first, last, count] = json.as_array()?.as_slice() else { return None };
    let wide = |json: &Json| json.as_i64().map(i128::from).or_else(|| json.as_u64().map(i128::from));
    Some((wide(first)?, wide(last)?, count.as_u64()?))
}
