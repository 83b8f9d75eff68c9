//! Reads a trace by babeltrace2, whose text is read back.

use super::{Event, has_tool, output_of, skip};
use serde_json::{Map, Value};
use std::path::Path;
use std::process::Command;

/// The events as babeltrace2 shows them; `None` where it is not installed. Panics if it complains.
#[track_caller]
pub(crate) fn read(path: &Path) -> Option<Vec<Event>> {
    if !has_tool("babeltrace2") {
        return None;
    }
    let mut command = Command::new("babeltrace2");
    command.args(["--clock-seconds", "--no-delta"]).arg(path);
    let text = output_of(&mut command);
    assert!(!text.contains("discarded_"), "our counters of loss are printed with each event");
    Some(text.lines().map(|line| event(line).unwrap_or_else(|| panic!("not understood: {line}"))).collect())
}

/// How many events of each name there are; `None` where babeltrace2 is not installed. Panics if it complains.
#[track_caller]
pub(crate) fn names(path: &Path) -> Option<std::collections::BTreeMap<String, u64>> {
    if !has_tool("babeltrace2") {
        return None;
    }
    let mut command = Command::new("babeltrace2");
    command.args(["--clock-seconds", "--no-delta"]).arg(path);
    let mut names = std::collections::BTreeMap::new();
    for line in output_of(&mut command).lines() {
        let name = line.split(' ').nth(2).and_then(|word| word.strip_suffix(':'));
        let name = name.unwrap_or_else(|| panic!("not understood: {line}"));
        *names.entry(name.to_owned()).or_default() += 1;
    }
    Some(names)
}

/// A loss as babeltrace2 warns of it.
#[derive(Debug)]
pub(crate) struct Discarded {
    pub(crate) events: u64,
    pub(crate) since: u64,
    pub(crate) until: u64,
    /// Name of the stream's file.
    pub(crate) stream: String,
}

/// The losses that babeltrace2 warns of; `None` where it is not installed. Panics at any other warning.
#[track_caller]
pub(crate) fn discarded(path: &Path) -> Option<Vec<Discarded>> {
    if !has_tool("babeltrace2") || !knows_format_of(path) {
        return None;
    }
    let output = Command::new("babeltrace2").arg("--clock-seconds").arg(path).output().expect("it runs");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    Some(said.lines().map(|line| warning(line).unwrap_or_else(|| panic!("a warning: {line}"))).collect())
}

/// Whether this babeltrace2 reads the trace's version of CTF: 2.0 reads 1.8 only.
fn knows_format_of(path: &Path) -> bool {
    let metadata = std::fs::read(path.join("metadata")).expect("metadata");
    let knows = metadata.starts_with(b"/* CTF 1")
        || !output_of(Command::new("babeltrace2").arg("--version")).starts_with("Babeltrace 2.0");
    if !knows {
        skip("this babeltrace2 does not read CTF 2");
    }
    knows
}

/// `WARNING: Tracer discarded N events between [SECONDS.NANOS] and [SECONDS.NANOS] in trace ... within stream "PATH"
/// (...).`
fn warning(line: &str) -> Option<Discarded> {
    let (events, rest) = line.strip_prefix("WARNING: Tracer discarded ")?.split_once(" event")?;
    let mut times = rest.split(['[', ']']).filter_map(|word| {
        let (seconds, nanos) = word.split_once('.')?;
        Some(seconds.parse::<u64>().ok()? * 1_000_000_000 + nanos.parse::<u64>().ok()?)
    });
    let (_, stream) = rest.split_once("within stream \"")?;
    let path = Path::new(stream.split_once('"')?.0);
    Some(Discarded {
        events: events.parse().ok()?,
        since: times.next()?,
        until: times.next()?,
        stream: path.file_name()?.to_str()?.to_owned(),
    })
}

/// Asserts that babeltrace2 reads a trace to its end without complaint, if it is installed.
#[track_caller]
pub(crate) fn assert_valid(path: &Path) {
    if has_tool("babeltrace2") {
        output_of(Command::new("babeltrace2").args(["-o", "dummy"]).arg(path));
    }
}

/// `[SECONDS.NANOS] HOST PROVIDER:NAME: { PACKET }, { CONTEXT }, { FIELDS }`
fn event(line: &str) -> Option<Event> {
    let (time, rest) = line.strip_prefix('[')?.split_once("] ")?;
    let (seconds, nanos) = time.split_once('.')?;
    let (_host, rest) = rest.split_once(' ')?;
    let (name, rest) = rest.split_once(": { ")?;
    let mut text = Text(rest);
    let _packet = text.members()?;
    text.eat(", { ")?;
    let context = text.members()?;
    text.eat(", { ")?;
    let fields = text.members()?;
    Some(Event {
        time: seconds.parse::<u64>().ok()? * 1_000_000_000 + nanos.parse::<u64>().ok()?,
        name: name.to_owned(),
        tid: context.get("vtid").or_else(|| context.get("tid"))?.as_u64()?,
        pid: None,
        thread: None,
        fields,
    })
}

/// The rest of a line.
struct Text<'l>(&'l str);

impl<'l> Text<'l> {
    fn eat(&mut self, word: &str) -> Option<()> {
        self.0 = self.0.strip_prefix(word)?;
        Some(())
    }

    fn until(&mut self, end: &str) -> Option<&'l str> {
        let (word, rest) = self.0.split_once(end)?;
        self.0 = rest;
        Some(word)
    }

    /// `NAME = VALUE, ... }`
    fn members(&mut self) -> Option<Map<String, Value>> {
        let mut members = Map::new();
        while self.eat("}").is_none() {
            let name = self.until(" = ")?.to_owned();
            members.insert(name, self.value()?);
            self.eat(", ").or_else(|| self.eat(" "))?;
        }
        Some(members)
    }

    fn value(&mut self) -> Option<Value> {
        if self.eat("\"").is_some() {
            return self.string().map(Value::from);
        }
        if self.eat("[ ").is_some() {
            return self.elements().map(Value::from);
        }
        if self.eat("{ ").is_some() {
            return self.members().map(Value::from);
        }
        if self.eat("( ").is_some() {
            let label = self.until(" : container = ")?.trim_matches('"').to_owned();
            let number = self.until(" )")?;
            return if label == "<unknown>" {
                number.parse::<i64>().ok().map(Value::from)
            } else {
                Some(label.into())
            };
        }
        let end = self.0.find([',', ' ']).unwrap_or(self.0.len());
        let (word, rest) = self.0.split_at(end);
        self.0 = rest;
        number(word)
    }

    /// `[INDEX] = VALUE, ... ]`
    fn elements(&mut self) -> Option<Vec<Value>> {
        let mut elements = Vec::new();
        while self.eat("]").is_none() {
            self.eat("[")?;
            self.until("] = ")?;
            elements.push(self.value()?);
            self.eat(", ").or_else(|| self.eat(" "))?;
        }
        Some(elements)
    }

    /// The rest of a string in quotes.
    fn string(&mut self) -> Option<String> {
        let mut out = String::new();
        let mut chars = self.0.char_indices();
        while let Some((at, letter)) = chars.next() {
            match letter {
                '"' => {
                    self.0 = &self.0[at + 1..];
                    return Some(out);
                }
                '\\' => out.push(match chars.next()?.1 {
                    'n' => '\n',
                    't' => '\t',
                    'r' => '\r',
                    other => other,
                }),
                letter => out.push(letter),
            }
        }
        None
    }
}

fn number(word: &str) -> Option<Value> {
    if let Some(digits) = word.strip_prefix("0x") {
        return u64::from_str_radix(digits, 16).ok().map(Value::from);
    }
    let whole = word.parse::<u64>().map(Value::from).or_else(|_| word.parse::<i64>().map(Value::from));
    whole.ok().or_else(|| word.parse::<f64>().ok().map(Value::from))
}
