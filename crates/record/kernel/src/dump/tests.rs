//! The dump of a process that the test knows, and of everything.

use super::*;
use mote_layout::parse::{FieldType, parse};
use std::collections::HashMap;
use std::io::{Read, Write};
use std::process::{Command, Stdio};

/// A record as names and values.
fn read(record: &Record) -> (String, HashMap<String, String>) {
    let descriptions = descriptions();
    let event = parse(descriptions[record.event].as_bytes()).expect("a description");
    let mut rest = &record.fields[..];
    let mut take = |len: usize| {
        let (now, later) = rest.split_at(len);
        rest = later;
        now.to_vec()
    };
    let mut values = HashMap::new();
    for field in event.fields() {
        let value = match field.ty {
            FieldType::Scalar(scalar)
            | FieldType::Enumeration(scalar, _)
            | FieldType::Labelled(scalar, _)
            | FieldType::Flags(scalar, _) => {
                let mut bytes = [0; 8];
                bytes[..scalar.bytes()].copy_from_slice(&take(scalar.bytes()));
                u64::from_le_bytes(bytes).to_string()
            }
            FieldType::FixedText(len) => {
                String::from_utf8_lossy(&take(len)).trim_end_matches('\0').to_owned()
            }
            FieldType::Str => {
                let mut text = Vec::new();
                loop {
                    match take(1)[0] {
                        0 => break,
                        byte => text.push(byte),
                    }
                }
                String::from_utf8_lossy(&text).into_owned()
            }
            _ => unreachable!("no such type here"),
        };
        values.insert(field.name.to_owned(), value);
    }
    assert!(take(0).is_empty() && rest.is_empty(), "{} has bytes left", event.name);
    (event.name.to_owned(), values)
}

fn all(scope: &Scope) -> Vec<(String, HashMap<String, String>)> {
    let mut records = Vec::new();
    Dump::of(scope.clone()).for_each(|record| records.push(read(&record)));
    records
}

#[test]
fn a_known_process_is_in_the_dump() {
    // It says when it has opened the file, and lives until its input ends.
    let mut child = Command::new("sh")
        .args(["-c", "exec 7</dev/null; echo ready; read -r end"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("sh runs");
    let mut ready = [0; 6];
    child.stdout.as_mut().expect("piped").read_exact(&mut ready).expect("it says so");
    let pid = child.id().to_string();
    let records = all(&Scope::Processes(vec![child.id()]));
    drop(child.stdin.take().map(|mut input| input.write_all(b"\n")));
    child.wait().expect("it ends");

    let named = |name: &str| -> Vec<HashMap<String, String>> {
        let name = format!("lttng_statedump_{name}");
        records.iter().filter(|(is, _)| *is == name).map(|(_, values)| values.clone()).collect()
    };
    assert_eq!(
        (records[0].0.as_str(), records[records.len() - 1].0.as_str()),
        ("lttng_statedump_start", "lttng_statedump_end")
    );
    let states = named("process_state");
    assert_eq!(states.len(), 1);
    assert_eq!((&states[0]["tid"], &states[0]["pid"], &states[0]["name"][..]), (&pid, &pid, "sh"));
    assert_eq!(states[0]["ppid"], std::process::id().to_string());
    assert_eq!((&states[0]["type"][..], &states[0]["file_table_address"]), ("0", &pid));
    let files = named("file_descriptor");
    let null = files.iter().find(|file| file["fd"] == "7").expect("descriptor 7");
    assert_eq!((&null["filename"][..], &null["fmode"][..], &null["pid"]), ("/dev/null", "1", &pid));
    let maps = named("vm_map");
    assert!(maps.iter().any(|map| map["filename"] == "[stack]" && map["flags"] == "3"));
    assert!(maps.iter().all(|map| map["pid"] == pid));
    assert_eq!(named("process_pid_ns")[0]["tid"], pid);
    assert!(named("network_interface").iter().any(|link| link["name"] == "lo"));
    let cpus = std::thread::available_parallelism().map_or(1, usize::from);
    assert!(named("cpu_topology").len() >= cpus);
}

#[test]
fn everything_is_dumped_while_processes_come_and_go() {
    let churn = std::thread::spawn(|| {
        for _ in 0..50 {
            Command::new("true").status().expect("true runs");
        }
    });
    for _ in 0..3 {
        let records = all(&Scope::All);
        assert!(records.iter().any(|(name, state)| name.ends_with("process_state") && state["pid"] == "1"));
    }
    churn.join().expect("no panic");
}

#[test]
fn a_process_that_is_gone_and_a_place_without_anything_are_no_errors() {
    let mut names = Vec::new();
    Dump::of(Scope::Processes(vec![u32::MAX])).for_each(|record| names.push(record.event));
    assert!(!names.contains(&(Kind::Process as usize)));
    let nothing = Path::new("/nonexistent");
    let mut count = 0;
    from(nothing, nothing, &Scope::All, &mut |_| count += 1);
    assert_eq!(count, 2);
}
