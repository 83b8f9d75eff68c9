//! `mote list -k`: the events that the kernel has.

use super::{Format, print_json};
use crate::{cmd, out};
use anyhow::Context;
use mote_catalog::Catalog;
use mote_catalog::event::{Event, Hook, Type};
use mote_kernel::attach;
use mote_probes::Where;
use mote_words::{COLUMNS, wrapped};
use serde_json::{Value, json};
use std::io::{self, Write};
use std::process::ExitCode;

/// Names of values that are shown of each field, when there is more than one event.
const NAMES_SHOWN: usize = 4;

/// Lists the families, or the events that fit the patterns.
pub(super) fn run(patterns: &[String], format: Format) -> anyhow::Result<ExitCode> {
    let catalog = Catalog::open();
    catalog.notes().iter().for_each(|note| say!("{note}"));
    let width = out::width().unwrap_or(usize::MAX);
    let out = io::BufWriter::new(out::lock());
    let written = if patterns.is_empty() {
        match format {
            Format::Text => print_groups(out, &catalog, width),
            Format::Json => print_json(out, &groups_json(&catalog)),
        }
    } else {
        let (events, left_out) = match select(&catalog, patterns) {
            Ok(selected) => selected,
            Err(why) => {
                say!("{why}");
                return Ok(cmd::NOTHING.into());
            }
        };
        left_out.iter().for_each(|why| say!("{why}"));
        match format {
            Format::Text => print_events(out, &events, width),
            Format::Json => {
                let events: Vec<Value> = events.iter().map(event_json).collect();
                print_json(out, &json!({ "events": events }))
            }
        }
    };
    written.context("cannot write the list to standard output")?;
    Ok(ExitCode::SUCCESS)
}

/// The events that the patterns mean, in the catalogue or in binaries, and what could not be had of them.
fn select(catalog: &Catalog, patterns: &[String]) -> Result<(Vec<Event>, Vec<String>), String> {
    let (probes, others): (Vec<&String>, Vec<&String>) =
        patterns.iter().partition(|pattern| mote_probes::is_probe(pattern));
    let (mut events, mut left_out) = (Vec::new(), Vec::new());
    if !others.is_empty() {
        let selection = catalog.select(&others).map_err(|why| why.to_string())?;
        (events, left_out) = (selection.events, selection.left_out);
    }
    let selection = mote_probes::select(&probes, &Where::here(None), catalog.btf().map(attach::types))
        .map_err(|why| why.to_string())?;
    events.extend(selection.events);
    left_out.extend(selection.notes);
    Ok((events, left_out))
}

fn print_groups(mut out: impl Write, catalog: &Catalog, width: usize) -> io::Result<()> {
    let (families, others): (Vec<_>, Vec<_>) =
        catalog.groups().into_iter().partition(|group| !group.about.is_empty());
    writeln!(out, "{:<10}  {:>6}  ABOUT", "FAMILY", "EVENTS")?;
    for family in families {
        let line = format!("{:<10}  {:>6}  {}", family.name, family.events, family.about);
        writeln!(out, "{}", wrapped(&line, width, 20))?;
    }
    if !others.is_empty() {
        writeln!(out, "\nAlso, with the number of events:")?;
        let others: Vec<String> =
            others.iter().map(|group| format!("{} {}", group.name, group.events)).collect();
        writeln!(out, "{}", wrapped(&format!("  {}", others.join(", ")), width.min(COLUMNS), 2))?;
    }
    out.flush()
}

fn print_events(mut out: impl Write, events: &[Event], width: usize) -> io::Result<()> {
    let names = if events.len() == 1 { usize::MAX } else { NAMES_SHOWN };
    for (index, family) in events.chunk_by(|a, b| a.provider == b.provider).enumerate() {
        let gap = if index > 0 { "\n" } else { "" };
        writeln!(out, "{gap}{}", family.first().map_or("", |event| &event.provider))?;
        for event in family {
            let origin = match origin(event) {
                Some(origin) if origin.rsplit(':').next() != Some(&event.name) => format!(" ({origin})"),
                _ => String::new(),
            };
            writeln!(out, "  {}{origin}", event.name)?;
            for field in &event.fields {
                let line = format!("      {}: {}", field.name, short(&field.ty, names));
                writeln!(out, "{}", wrapped(&line, width, 8))?;
            }
        }
    }
    out.flush()
}

/// A type in which at most so many values are named.
fn short(ty: &Type, most: usize) -> String {
    let text = ty.to_string();
    let (Type::Enumeration(..) | Type::Flags(..) | Type::Labelled(..)) = ty else { return text };
    let mut words = text.split(' ');
    let (kind, base) = (words.next().unwrap_or(""), words.next().unwrap_or(""));
    let labels: Vec<&str> = words.collect();
    let shown = labels.iter().take(most).copied().collect::<Vec<_>>().join(" ");
    let kind = if kind == "labelled" { String::new() } else { format!("{kind} ") };
    match labels.len().saturating_sub(most) {
        0 => format!("{kind}{base} {shown}"),
        more => format!("{kind}{base} {shown} and {more} more"),
    }
}

/// The kernel's own name, as its trace events have it.
fn origin(event: &Event) -> Option<String> {
    match &event.hook {
        Hook::Raw { name, .. } => Some(name.clone()),
        Hook::Tracepoint { path, .. } => Some(path.replacen('/', ":", 1)),
        _ => None,
    }
}

fn groups_json(catalog: &Catalog) -> Value {
    let group = |group: &mote_catalog::Group| json!({ "name": group.name, "events": group.events, "about": group.about });
    json!({ "families": catalog.groups().iter().map(group).collect::<Vec<_>>() })
}

fn event_json(event: &Event) -> Value {
    let fields: Vec<Value> = event
        .fields
        .iter()
        .map(|field| json!({ "name": field.name, "type": field.ty.to_string() }))
        .collect();
    let mut value = json!({ "provider": event.provider, "name": event.name, "fields": fields });
    if let Some(object) = value.as_object_mut() {
        let (hook, key, what) = match &event.hook {
            Hook::Raw { name, .. } => ("raw_tracepoint", "tracepoint", Value::from(name.as_str())),
            Hook::Tracepoint { path, .. } => ("tracepoint", "tracepoint", path.replacen('/', ":", 1).into()),
            Hook::SyscallEntry(number) => ("syscall_entry", "number", (*number).into()),
            Hook::SyscallExit(number) => ("syscall_exit", "number", (*number).into()),
            Hook::Uprobe { path, .. } => ("uprobe", "path", path.to_string_lossy().into()),
            Hook::Kprobe { function, .. } => ("kprobe", "function", function.as_str().into()),
            Hook::Fentry { function, .. } => ("fentry", "function", function.as_str().into()),
        };
        object.insert("hook".to_owned(), hook.into());
        object.insert(key.to_owned(), what);
    }
    value
}
