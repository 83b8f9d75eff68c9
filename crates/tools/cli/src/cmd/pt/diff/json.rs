//! Objects for programs.

use super::found::Found;
use mote_hardware::paths::Difference;
use serde_json::{Value, json};
use std::collections::BTreeSet;

/// An object for both as a whole, for each system call, and each path that differs.
pub(super) fn objects(found: &Found) -> Vec<Value> {
    let [a, b] = [0, 1].map(|side| found.sides[side].tree.total());
    let mut objects = vec![json!({ "kind": "all", "instructions": [a, b] })];
    let calls = [0, 1].map(|side| &found.sides[side].calls);
    let names: BTreeSet<&String> = calls.iter().flat_map(|calls| calls.keys()).collect();
    for name in names {
        let of = calls.map(|calls| calls.get(name));
        objects.push(json!({
            "kind": "syscall", "name": name,
            "calls": of.map(|call| call.map_or(0, |call| call.instructions.count())),
            "mean": of.map(|call| call.and_then(|call| call.instructions.mean())),
        }));
    }
    objects.extend(found.differences.iter().map(difference));
    objects
}

fn difference(one: &Difference) -> Value {
    let path: Vec<String> = one.path.iter().map(|named| named.folded()).collect();
    let alone = one.alone().map(|side| if side == 0 { "A" } else { "B" });
    json!({
        "kind": "path", "path": path, "only": alone, "calls": one.calls, "instructions": one.instructions,
        "paths": one.paths,
    })
}
