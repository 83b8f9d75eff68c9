//! Tables for people.

use super::measured::{Executed, Found, Measured, Outcome, Row};
use crate::cmd::pt::differences::{path, signed};
use mote_hardware::paths::Difference;
use mote_words::{counted_grouped, grouped};
use std::fmt::{Result, Write};

/// All that was found.
pub(super) fn page(found: &Found) -> String {
    let mut out = String::new();
    // Writing to a string does not fail.
    let _ = write(found, &mut out);
    out
}

fn write(found: &Found, out: &mut String) -> Result {
    let total = found.bare.total();
    writeln!(out, "bare: {}", executed(&found.bare))?;
    if found.again != total {
        let differ = signed(i128::from(found.again) - i128::from(total));
        writeln!(out, "a second bare run differs by {differ}: so much is no tracer's")?;
    }
    let [each, beside] = ["for each", "beside"];
    writeln!(
        out,
        "\n{:<10} {:>12} {:>16} {each:>12} {beside:>14} {:>14}",
        "tracer", "events", "more", "others"
    )?;
    found.rows.iter().try_for_each(|row| line(row, out))?;
    for row in &found.rows {
        if let Outcome::Measured(measured) = &row.outcome {
            writeln!(out)?;
            tracer(found, &row.name, measured, out)?;
        }
    }
    Ok(())
}

/// `101,234 instructions, of them 1,234 in the kernel; 3 threads`
fn executed(one: &Executed) -> String {
    let kernel: u64 = one.threads.iter().map(|thread| thread.kernel).sum();
    let mut text = counted_grouped(one.total(), "instruction", "instructions");
    if kernel > 0 {
        text += &format!(", of them {} in the kernel", grouped(kernel));
    }
    if one.threads.len() > 1 {
        let of = |thread: &super::measured::Thread| grouped(thread.user + thread.kernel);
        let threads: Vec<String> = one.threads.iter().map(of).collect();
        text += &format!("; by thread: {}", threads.join(", "));
    }
    text
}

fn line(row: &Row, out: &mut String) -> Result {
    let name = &row.name;
    match &row.outcome {
        Outcome::Absent(why) => writeln!(out, "{name:<10} {why}"),
        Outcome::Measured(one) => {
            let impact = &one.impact;
            let of_events = impact.of_events();
            let each = impact.for_each(of_events).map_or_else(String::new, |each| format!("{each:.1}"));
            writeln!(
                out,
                "{name:<10} {:>12} {:>16} {each:>12} {:>14} {:>14}",
                grouped(one.recorded.total()),
                signed(impact.more()),
                signed(impact.more() - of_events),
                grouped(one.traced.others),
            )
        }
    }
}

/// The paths of one tracer.
fn tracer(found: &Found, name: &str, one: &Measured, out: &mut String) -> Result {
    writeln!(out, "{name}: {}", executed(&one.traced))?;
    if one.recorded.lost > 0 {
        writeln!(out, "  {} lost", counted_grouped(one.recorded.lost, "event was", "events were"))?;
    }
    if one.traced.status != found.bare.status {
        let [bare, traced] = [found.bare.status, one.traced.status];
        writeln!(out, "  it ended with status {traced}, and {bare} when it was bare")?;
    }
    let user = one.of_user.for_each(one.of_user.of_events());
    if let Some(user) = user.filter(|_| one.traced.threads.iter().any(|thread| thread.kernel > 0)) {
        writeln!(out, "  of those for each event, {user:.1} in the program, the others in the kernel")?;
    }
    for (event, instructions) in &one.linked {
        let instructions = counted_grouped(*instructions, "instruction", "instructions");
        writeln!(
            out,
            "  {event}: {instructions} by a restartable sequence (counted in the linked code: the emulator has none)"
        )?;
    }
    for (is_of_events, title) in [(true, "for each event"), (false, "beside events")] {
        let paths = one.impact.differences.iter().filter(|(_, kind)| *kind == is_of_events);
        let paths: Vec<&Difference> = paths.map(|(one, _)| one).collect();
        if paths.is_empty() {
            continue;
        }
        writeln!(out, "  {:>12} {:>14} {:>10}  path", title, "more", "calls")?;
        for difference in paths.iter().take(found.limit) {
            path_line(one, difference, is_of_events, out)?;
        }
        if let Some(left) = paths.len().checked_sub(found.limit).filter(|left| *left > 0) {
            writeln!(out, "  {:>12} more: -n, or --format json", grouped(left as u64))?;
        }
    }
    Ok(())
}

fn path_line(measured: &Measured, one: &Difference, is_of_events: bool, out: &mut String) -> Result {
    let each = measured.impact.for_each(one.more()).filter(|_| is_of_events);
    let each = each.map_or_else(String::new, |each| format!("{each:.1}"));
    let behind = match one.paths {
        1 => String::new(),
        paths => format!(" (with {} behind it)", grouped(paths - 1)),
    };
    let calls = one.calls[1].map_or_else(|| "-".to_owned(), grouped);
    writeln!(out, "  {each:>14} {:>14} {calls:>10}  {}{behind}", signed(one.more()), path(one))
}
