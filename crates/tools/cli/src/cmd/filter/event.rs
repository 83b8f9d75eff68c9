//! The event that a filter is for: of a program, a process, a recording, or made up.

use anyhow::{anyhow, bail};
use mote_catalog::Catalog;
use mote_ctf::model::{EventClass, FieldClass, IntClass, Length, Mapping, StructClass};
use mote_filter::Side;
use mote_inspect::target::Target;
use mote_inspect::{file, process};
use mote_layout::describe::VERSION;
use mote_pattern::similar;
use mote_timeline::Trace;
use std::ffi::OsStr;
use std::fmt::Write;
use std::path::Path;

/// Most names of events that a hint has.
const NAMES_MAX: usize = 12;

/// Its description, as `mote_layout::parse` reads it, and on which side it is.
pub(super) fn description(
    name: Option<&str>,
    target: Option<&OsStr>,
    fields: Option<&str>,
) -> anyhow::Result<(Vec<u8>, Side)> {
    let name = name.unwrap_or("any:event");
    if let Some(fields) = fields {
        return made_up(name, fields).map(|text| (text, Side::User));
    }
    let Some(target) = target else { return of_kernel(name).map(|text| (text, Side::Kernel)) };
    let carried = if Path::new(target).is_dir() { recorded(Path::new(target))? } else { carried(target)? };
    let is_it = |full: &str| full == name || full.split_once(':').is_some_and(|(_, short)| short == name);
    match carried.iter().find(|(full, _)| is_it(full)) {
        Some((_, description)) => Ok((description.clone(), Side::User)),
        None => {
            let target = target.to_string_lossy();
            let all = || carried.iter().map(|(full, _)| full.as_str());
            let hint = match similar(name, all()) {
                names if !names.is_empty() => format!("similar names: {}", names.join(", ")),
                _ => format!("there are {}", all().take(NAMES_MAX).collect::<Vec<_>>().join(", ")),
            };
            bail!("no event {name} in {target}; {hint}")
        }
    }
}

/// An event of the kernel.
fn of_kernel(name: &str) -> anyhow::Result<Vec<u8>> {
    let catalog = Catalog::open().with_durations();
    let found = catalog.select(&[name]).map_err(|why| {
        anyhow!("{why}\nfor an event of a program, give the program, a process, or a recording of it")
    })?;
    match (found.events.first(), found.left_out.first()) {
        (Some(event), _) => Ok(event.description().into_bytes()),
        (None, Some(why)) => bail!("{why}"),
        (None, None) => bail!("no event {name} in the kernel"),
    }
}

/// Names and descriptions of the events of a program or a process.
fn carried(target: &OsStr) -> anyhow::Result<Vec<(String, Vec<u8>)>> {
    let carriers = match Target::find(target)? {
        Target::Process(pid) => process::read(pid)?.carriers,
        Target::File(path) => vec![file::read(&path)?],
    };
    let events = carriers.into_iter().flat_map(|carrier| carrier.events);
    Ok(events.map(|event| (event.full_name(), event.description)).collect())
}

/// `len: u32, proto: str` as a description.
fn made_up(name: &str, fields: &str) -> anyhow::Result<Vec<u8>> {
    let name = if name.contains(':') { name.to_owned() } else { format!("any:{name}") };
    let mut text = format!("{VERSION}\n{name}\n6 :0\n\n");
    for field in fields.split(',').map(str::trim).filter(|field| !field.is_empty()) {
        let (name, ty) = field
            .split_once(':')
            .ok_or_else(|| anyhow!("field `{field}` has no type; give for example `len: u32, proto: str`"))?;
        let line = format!("{} {}\n", name.trim(), ty.split_whitespace().collect::<Vec<_>>().join(" "));
        if mote_layout::parse::parse(format!("{VERSION}\na:b\n6 :0\n\n{line}").as_bytes()).is_err() {
            bail!(
                "`{field}` is not a field; give NAME: TYPE with a type as in mote list: u32, str, u8[6], enum u8 IDLE=0 BUSY=1..3"
            );
        }
        text.push_str(&line);
    }
    mote_layout::parse::parse(text.as_bytes())
        .map_err(|_| anyhow!("`{name}` is not the name of an event"))?;
    Ok(text.into_bytes())
}

/// Names and descriptions of the events of a recording, from its metadata. Of traces that other tools made, fields that
/// no mote event could have are left out.
fn recorded(dir: &Path) -> anyhow::Result<Vec<(String, Vec<u8>)>> {
    let trace = Trace::open(dir)?;
    let classes = trace.origins().iter().flat_map(|origin| &origin.schema.trace().streams);
    Ok(classes.flat_map(|stream| &stream.events).map(|event| (event.name.clone(), of_class(event))).collect())
}

fn of_class(event: &EventClass) -> Vec<u8> {
    let name = if event.name.contains(':') { event.name.clone() } else { format!("any:{}", event.name) };
    let mut text = format!("{VERSION}\n{name}\n6 :0\n\n");
    let empty = StructClass::default();
    for member in &event.payload.as_ref().unwrap_or(&empty).members {
        let lengths = format!("{}_length", member.name);
        let _ = match field_type(&member.class) {
            // What says how long a sequence is belongs to it.
            _ if event
                .payload
                .iter()
                .flat_map(|all| &all.members)
                .any(|other| is_length_of(&member.name, &other.class, &other.name)) =>
            {
                Ok(())
            }
            Some(ty) if lengths != member.name => writeln!(text, "{} {ty}", member.name),
            _ => Ok(()),
        };
    }
    text.into_bytes()
}

fn is_length_of(name: &str, class: &FieldClass, of: &str) -> bool {
    matches!(class, FieldClass::Array(array) if matches!(array.length, Length::Dynamic(_)))
        && name == format!("{of}_length")
}

fn field_type(class: &FieldClass) -> Option<String> {
    Some(match class {
        FieldClass::Int(int) => integer(int)?,
        FieldClass::Float(float) if matches!(float.size, 32 | 64) => format!("f{}", float.size),
        FieldClass::Bool(_) => "bool".to_owned(),
        FieldClass::String(_) => "str".to_owned(),
        FieldClass::Enum(of) => {
            let labels: Vec<_> = of.mappings.iter().filter_map(label).collect();
            format!("enum {} {}", integer(&of.int)?, labels.join(" "))
        }
        FieldClass::Array(array) => {
            let element = field_type(&array.element)?;
            match array.length {
                Length::Static(count) => format!("{element}[{count}]"),
                Length::Dynamic(_) => format!("{element}[]"),
            }
        }
        _ => return None,
    })
}

fn integer(int: &IntClass) -> Option<String> {
    let kind = if int.signed { 'i' } else { 'u' };
    matches!(int.size, 8 | 16 | 32 | 64).then(|| format!("{kind}{}", int.size))
}

fn label(mapping: &Mapping) -> Option<String> {
    let range = mapping.ranges.first()?;
    let ends = i64::try_from(range.lower).ok().zip(i64::try_from(range.upper).ok())?;
    (!mapping.label.contains(char::is_whitespace))
        .then(|| format!("{}={}..{}", mapping.label, ends.0, ends.1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_made_up() {
        let (text, _) =
            description(Some("in"), None, Some("len: u32, state:enum u8 IDLE=0 BUSY=1..3,")).unwrap();
        assert_eq!(text, b"mote1\nany:in\n6 :0\n\nlen u32\nstate enum u8 IDLE=0 BUSY=1..3\n");
        for bad in ["len", "len: u33", ": u8", "a b: u8"] {
            assert!(description(None, None, Some(bad)).is_err(), "{bad}");
        }
        assert!(description(Some("a b"), None, Some("len: u8")).is_err());
    }

    #[test]
    fn classes_of_recordings_become_fields() {
        let array = FieldClass::array(Length::Static(2), FieldClass::uint(16));
        let payload =
            StructClass::new([("n", FieldClass::int(64)), ("name", FieldClass::string()), ("two", array)]);
        let event = EventClass { name: "net:in".to_owned(), payload: Some(payload), ..EventClass::default() };
        assert_eq!(of_class(&event), b"mote1\nnet:in\n6 :0\n\nn i64\nname str\ntwo u16[2]\n");
    }
}
