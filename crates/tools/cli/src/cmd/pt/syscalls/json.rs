//! Objects for programs. Times are [at least, at most] in ns, with null for what no packet tells.

use super::weight::paths;
use crate::cmd::pt::gather::Gathered;
use crate::cmd::pt::times;
use mote_analysis::Histogram;
use mote_hardware::paths::Named;
use mote_pt::time::Span;
use serde_json::{Value, json};

/// An object for each system call, and for each path.
pub(super) fn objects(found: &Gathered) -> Vec<Value> {
    let tree = &found.of.tree;
    let mut objects: Vec<Value> = Vec::new();
    for (name, call) in &found.of.calls {
        let time = |permille: u64| {
            let bounds = [&call.least_ns, &call.most_ns].map(|histogram| histogram.quantile(permille));
            times::object(Span { low: bounds[0], high: bounds[1] })
        };
        objects.push(json!({
            "kind": "syscall", "name": name, "calls": call.instructions.count(),
            "instructions": sums(&call.instructions),
            "p50_ns": time(500), "p99_ns": time(990),
        }));
    }
    let totals = tree.totals();
    for (number, _) in paths(found).iter().enumerate().filter(|(_, is_meant)| **is_meant) {
        let node = &tree.nodes()[number];
        let path: Vec<Value> = tree.path(number as u32, &found.functions).into_iter().map(function).collect();
        objects.push(json!({
            "kind": "path", "path": path, "calls": node.calls, "self": node.instructions, "total": totals[number],
            "self_ns": times::object(found.times.ns_of(node.busy.ticks())),
        }));
    }
    objects
}

/// A function of a path.
fn function(named: &Named) -> Value {
    json!(named.folded())
}

fn sums(histogram: &Histogram) -> Value {
    json!({
        "min": histogram.min(), "mean": histogram.mean(), "p50": histogram.quantile(500),
        "p99": histogram.quantile(990), "max": histogram.max(),
    })
}
