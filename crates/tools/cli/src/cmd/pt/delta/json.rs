//! Objects for programs. Addresses are strings with hexadecimal numbers; times are [at least, at most] in ns, with null
//! for what no packet tells.

use super::found::Found;
use crate::cmd::pt::times;
use mote_analysis::Histogram;
use mote_capture::Of;
use mote_hardware::delta::{Profile, Sums, Who};
use mote_pt::time::Span;
use serde_json::{Map, Value, json};

/// An object for all, for each stream and thread, each pair of functions, each of the worst.
pub(super) fn objects(found: &Found<'_>) -> Vec<Value> {
    let Found { question, answer, stacks, .. } = found;
    let Profile { all, of, between, worst, again, alone, cut, unplaced, .. } = &answer.profile;
    let mut objects = vec![json!({
        "kind": "all", "from": question.from.to_string(), "to": question.to.as_ref().map(ToString::to_string),
        "found": { "from": answer.profile.found[0], "to": answer.profile.found[1] },
        "again": again, "alone": alone, "cut": cut, "unplaced": unplaced, "sums": sums(all),
    })];
    objects.extend(
        of.iter().map(|(who, of_it)| whose(found, who, json!({ "kind": "of", "sums": sums(of_it) }))),
    );
    objects.extend(between.iter().map(|((from, to), between)| {
        json!({
            "kind": "between", "from": from, "to": to, "intervals": between.count,
            "instructions": between.instructions, "instructions_max": between.instructions_max,
            "ns_max": between.ns_max,
        })
    }));
    objects.extend(worst.iter().zip(stacks).map(|(case, stack)| {
        let names: Vec<&str> = stack.iter().map(|named| named.name.as_str()).collect();
        let object = json!({
            "kind": "worst", "instructions": case.instructions, "ns": times::object(case.ns),
            "time": times::object(found.times.ns(case.from.when)),
            "at": case.from.number, "until": case.to.number,
            "from": format!("{:#x}", case.from.address), "to": format!("{:#x}", case.to.address),
            "untraced": case.is_untraced, "stack": names, "command": found.command(case),
        });
        whose(found, &case.who, object)
    }));
    objects
}

/// An object, with whose it is.
fn whose(found: &Found<'_>, who: &Who, object: Value) -> Value {
    let Value::Object(mut object) = object else { return object };
    let tid = match who.of {
        Of::Thread(tid) => Some(tid),
        Of::Cpu(cpu) => {
            object.insert("cpu".to_owned(), json!(cpu));
            who.tid
        }
    };
    object.insert("tid".to_owned(), json!(tid));
    object.insert("thread".to_owned(), json!(tid.and_then(|tid| found.threads.name(tid))));
    Value::Object(object)
}

fn sums(sums: &Sums) -> Value {
    let Sums { instructions, least_ns, most_ns, untraced } = sums;
    let mut object = Map::new();
    object.insert("intervals".to_owned(), json!(instructions.count()));
    object.insert("untraced".to_owned(), json!(untraced));
    object.insert("instructions".to_owned(), histogram(instructions));
    for (name, histogram_of) in [("at_least_ns", least_ns), ("at_most_ns", most_ns)] {
        object.insert(
            name.to_owned(),
            if histogram_of.count() > 0 { histogram(histogram_of) } else { Value::Null },
        );
    }
    let median = Span { low: least_ns.quantile(500), high: most_ns.quantile(500) };
    object.insert("median_ns".to_owned(), times::object(median));
    Value::Object(object)
}

/// A histogram: its buckets are [first value, last value, how many].
fn histogram(histogram: &Histogram) -> Value {
    let buckets: Vec<_> =
        histogram.buckets().map(|(first, last, count)| json!([first, last, count])).collect();
    json!({
        "count": histogram.count(), "min": histogram.min(), "mean": histogram.mean(),
        "p50": histogram.quantile(500), "p99": histogram.quantile(990), "max": histogram.max(), "buckets": buckets,
    })
}
