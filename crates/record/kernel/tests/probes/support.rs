//! A program that is compiled and recorded, and what was recorded of it.

use mote_catalog::event::{Event, Type};
use mote_catalog::stack::{self, Stacks};
use mote_generate::Chosen;
use mote_journal::Map;
use mote_kernel::map::Buffers;
use mote_kernel::session::{Kernel, Request, Targets};
use mote_layout::record::{PREFIX_BYTES, split};
use mote_layout::types::{Integer, Scalar};
use mote_probes::Where;
use mote_ring::Mode;
use mote_ring::reader::Look;
use mote_sampler::mappings::{How, Mappings};
use std::path::{Path, PathBuf};
use std::process::Command;
use tempfile::TempDir;

/// A record, its values as texts.
#[derive(Clone, Debug)]
pub(crate) struct Record {
    /// Index of the event.
    pub(crate) id: usize,
    pub(crate) time: u64,
    pub(crate) fields: Vec<String>,
    pub(crate) sequences: Vec<Vec<u64>>,
}

/// What was recorded.
pub(crate) struct Probed {
    pub(crate) events: Vec<Event>,
    /// In the order of time.
    pub(crate) records: Vec<Record>,
    /// Of the program.
    pub(crate) maps: Vec<Map>,
    pub(crate) pid: u32,
}

/// The program of the tests; `None`, said loudly, without a compiler.
pub(crate) fn program(options: &[&str]) -> Option<(TempDir, PathBuf)> {
    let dir = TempDir::new().expect("a directory");
    let (code, path) = (dir.path().join("app.c"), dir.path().join("app"));
    std::fs::write(&code, include_str!("../../../probes/tests/programs/probed.c"))
        .expect("a directory of the test");
    let Ok(run) = Command::new("gcc").arg(code).arg("-o").arg(&path).args(options).output() else {
        mote_skip::skip("there is no gcc");
        return None;
    };
    assert!(run.status.success(), "{}", String::from_utf8_lossy(&run.stderr));
    Some((dir, path))
}

/// True when the machine lets us load programs; else the test says so and is skipped.
pub(crate) fn can() -> bool {
    let missing = mote_kernel::privilege::check();
    if let Some(missing) = &missing {
        mote_skip::skip(missing);
    }
    missing.is_none()
}

/// The events that patterns (`uprobe work`) mean in the program.
pub(crate) fn events(path: &Path, patterns: &[&str], stacks: Stacks) -> Vec<Event> {
    let place = Where { commands: vec![], libraries: vec![], pid: None };
    let whole = |pattern: &&str| {
        let (kind, name) = pattern.split_once(' ').expect("kind and name");
        format!("{kind}:{}:{name}", path.display())
    };
    let patterns: Vec<String> = patterns.iter().map(whole).collect();
    let mut events =
        mote_probes::select(&patterns, &place, None).unwrap_or_else(|error| panic!("{error}")).events;
    events.iter_mut().for_each(|event| stack::add(event, stacks));
    events
}

pub(crate) fn start(events: &[Event]) -> Kernel {
    let chosen = (0..).zip(events).map(|(id, event)| Chosen { id, event: event.clone(), filter: None });
    let buffers = Buffers { sub_bits: 20, count_bits: 2, mode: Mode::Discard };
    let request = Request {
        events: chosen.collect(),
        targets: Targets::Launch,
        buffers,
        maps: Vec::new(),
        threads: 1024,
    };
    let kernel = Kernel::start(request).unwrap_or_else(|error| panic!("{error}"));
    assert!(kernel.refused().is_empty(), "{:?}", kernel.refused());
    kernel.enable();
    kernel
}

/// Runs the program with so many calls; `None`, said loudly, where that may not be.
pub(crate) fn record(path: &Path, patterns: &[&str], stacks: Stacks, calls: usize) -> Option<Probed> {
    if !can() {
        return None;
    }
    let events = events(path, patterns, stacks);
    let kernel = start(&events);
    let cpus = mote_sys::process::possible_cpus().expect("known");
    let mut mappings =
        Mappings::open(cpus, true).expect("with the right to load programs, mappings can be seen");
    mappings.know(std::process::id(), 0, "test", []);
    let launching = kernel.launching().expect("this thread can be followed");
    let mut child = Command::new(path).arg(calls.to_string()).spawn().expect("it was just compiled");
    drop(launching);
    let pid = child.id();
    assert!(child.wait().expect("it ends").success());
    kernel.disable();
    let losses = kernel.losses();
    assert!(losses.nested == 0 && losses.threads == 0 && losses.texts <= 2, "{losses:?}");
    let news = mappings.news();
    let maps = news.processes.iter().filter(|change| change.pid == pid && change.how != How::Fork);
    let maps = maps.flat_map(|change| &change.maps).map(|map| Map {
        start: map.start,
        end: map.end,
        offset: map.offset,
        path: map.path.clone(),
        build_id: map.build_id.clone(),
    });
    let mut records = read(&kernel, &events);
    records.sort_by_key(|record| record.time);
    Some(Probed { records, maps: maps.collect(), pid, events })
}

fn read(kernel: &Kernel, events: &[Event]) -> Vec<Record> {
    let mut records = Vec::new();
    for ring in 0..kernel.geometry().rings() {
        let mut reader = kernel.channel().reader(ring).expect("there is one");
        assert_eq!(reader.lost().iter().sum::<u64>(), 0);
        while let Look::Ready(chunk) = reader.look() {
            let mut bytes = vec![0; chunk.len()];
            assert!(reader.copy(chunk, &mut bytes));
            reader.release(chunk);
            let mut rest = &bytes[..];
            while !rest.is_empty() {
                let (record, behind) = parse(rest, events);
                records.push(record);
                rest = behind;
            }
        }
    }
    records
}

fn parse<'b>(bytes: &'b [u8], events: &[Event]) -> (Record, &'b [u8]) {
    let (id, time) = split(u64::from_le_bytes(bytes[..8].try_into().expect("8 bytes")));
    let mut rest = &bytes[PREFIX_BYTES..];
    let mut record = Record { id: id.into(), time, fields: Vec::new(), sequences: Vec::new() };
    let mut take = |len: usize| {
        let (value, behind) = rest.split_at(len);
        rest = behind;
        value
    };
    for field in &events[usize::from(id)].fields {
        match &field.ty {
            Type::Scalar(scalar) | Type::Enumeration(scalar, _) => {
                record.fields.push(number(take(scalar.bytes()), *scalar))
            }
            Type::Sequence(scalar, most) => {
                let count = u16::from_le_bytes(take(2).try_into().expect("2 bytes"));
                assert!(count <= *most);
                let words =
                    (0..count).map(|_| u64::from_le_bytes(take(scalar.bytes()).try_into().expect("8 bytes")));
                record.sequences.push(words.collect());
            }
            Type::Text => {
                let mut text = Vec::new();
                loop {
                    match take(1) {
                        [0] => break,
                        byte => text.extend_from_slice(byte),
                    }
                }
                record.fields.push(String::from_utf8(text).expect("text"));
            }
            other => panic!("{other:?}"),
        }
    }
    (record, rest)
}

fn number(bytes: &[u8], scalar: Scalar) -> String {
    let mut word = [0; 8];
    word[..bytes.len()].copy_from_slice(bytes);
    let value = u64::from_le_bytes(word);
    match scalar {
        Scalar::Integer(Integer { bits, signed: true, .. }) => {
            let unused = 64 - u32::from(bits);
            ((value << unused).cast_signed() >> unused).to_string()
        }
        _ => value.to_string(),
    }
}
