//! What there is of a recording on any kernel: the events that tell what a command maps and runs.

use mote_perfdata::attribute::flag;
use mote_perfdata::record::File;
use mote_perfdata::{Record, SampleFormat};
use mote_pmu::{Command, Linux, Machine, Settings};
use mote_sys::perf_ring::{PerfRing, RECORD_MAX};
use std::time::Duration;

#[test]
fn what_a_command_maps_is_told_from_its_first_moment_on() {
    let mut band = Settings::default().side_band(false);
    band.flags |= flag::INHERIT | flag::ENABLE_ON_EXEC;
    let mut command = Command::stopped(&["sh", "-c", "/bin/true; exit 3"].map(Into::into)).expect("a shell");
    let mut rings = Vec::new();
    for cpu in 0..64 {
        match Linux.open(&band, command.pid(), cpu) {
            Ok(event) => rings.push(PerfRing::new(event, 16).expect("memory")),
            Err(mote_sys::Errno(libc::EACCES | libc::EPERM)) => {
                return mote_skip::skip("perf_event_open(2) is not allowed");
            }
            // There are no more CPUs.
            Err(_) => break,
        }
    }
    Command::go(command.pid());
    while command.status().is_none() {
        std::thread::sleep(Duration::from_millis(1));
    }
    assert_eq!(command.status(), Some(3));
    let mut buffer = vec![0; RECORD_MAX];
    let mut records = Vec::new();
    for ring in &mut rings {
        while let Some(len) = ring.next(&mut buffer) {
            records.push(Record::read(&buffer[..len], SampleFormat::of(&band)));
        }
    }
    records.sort_by_key(|(_, id)| id.time);
    assert!(records.iter().all(|(_, id)| id.time.is_some() && id.cpu.is_some()), "each says when and where");
    let names: Vec<String> = records
        .iter()
        .filter_map(|(record, _)| match record {
            Record::Comm { is_exec: true, name, .. } => Some(name.to_string_lossy().into_owned()),
            _ => None,
        })
        .collect();
    assert_eq!(names, ["sh", "true"]);
    let has = |what: &dyn Fn(&Record) -> bool| records.iter().any(|(record, _)| what(record));
    assert!(has(
        &|record| matches!(record, Record::Mmap(mmap) if matches!(&mmap.file, File::BuildId(id) if id.len() == 20))
    ));
    assert!(has(&|record| matches!(record, Record::Fork(_))));
    assert!(has(&|record| matches!(record, Record::Switch { is_out: false, .. })));
    let pid = command.pid();
    assert!(has(&|record| matches!(record, Record::Exit(gone) if gone.task.pid == pid)));
}

/// Whole CPUs with the kernel's code: what root may.
#[test]
fn whole_cpus_tell_what_the_kernel_changes() {
    let settings = Settings { kernel: true, ..Settings::default() };
    match Linux.open(&settings.side_band(true), -1, 0) {
        Ok(event) => assert!(PerfRing::new(event, 16).is_ok()),
        Err(why) => mote_skip::skip(format_args!("events of whole CPUs are not allowed: {why:?}")),
    }
}
