//! Objects for programs.

use super::measured::{Executed, Found, Measured, Outcome, Row, Thread};
use serde_json::{Value, json};

/// An object for the bare run, for each tracer, and for each path on which one adds something.
pub(super) fn objects(found: &Found) -> Vec<Value> {
    let bare = &found.bare;
    let mut objects = vec![json!({
        "kind": "bare", "command": found.command, "instructions": bare.total(), "again": found.again,
        "threads": threads(bare), "status": bare.status,
    })];
    for row in &found.rows {
        objects.push(tracer(row));
        if let Outcome::Measured(measured) = &row.outcome {
            objects.extend(paths(&row.name, measured));
        }
    }
    objects
}

fn threads(one: &Executed) -> Vec<Value> {
    let object =
        |thread: &Thread| json!({ "name": thread.name, "user": thread.user, "kernel": thread.kernel });
    one.threads.iter().map(object).collect()
}

fn tracer(Row { name, outcome }: &Row) -> Value {
    let one = match outcome {
        Outcome::Absent(why) => return json!({ "kind": "tracer", "name": name, "why": why }),
        Outcome::Measured(one) => one,
    };
    let (impact, traced) = (&one.impact, &one.traced);
    let of_events = impact.of_events();
    json!({
        "kind": "tracer", "name": name, "events": one.recorded.total(), "by_event": one.recorded.events,
        "lost": one.recorded.lost, "instructions": traced.total(), "more": number(impact.more()),
        "of_events": number(of_events), "for_each": impact.for_each(of_events),
        "for_each_user": one.of_user.for_each(one.of_user.of_events()),
        "beside": number(impact.more() - of_events), "others": traced.others, "linked": one.linked,
        "threads": threads(traced),
        "status": traced.status,
    })
}

fn paths(name: &str, one: &Measured) -> Vec<Value> {
    let object = |(difference, is_of_events): &(_, bool)| {
        let difference: &mote_hardware::paths::Difference = difference;
        let path: Vec<String> = difference.path.iter().map(|named| named.folded()).collect();
        json!({
            "kind": "path", "tracer": name, "path": path, "of_events": is_of_events, "calls": difference.calls,
            "instructions": difference.instructions, "paths": difference.paths,
        })
    };
    one.impact.differences.iter().map(object).collect()
}

/// As programs read it: JSON has no larger ones.
pub(super) fn number(value: i128) -> i64 {
    i64::try_from(value).unwrap_or(if value < 0 { i64::MIN } else { i64::MAX })
}
