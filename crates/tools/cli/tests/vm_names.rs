//! `mote pt vm` in a recording: what events of the host's kernel say names vCPUs and machines.
//!
//! No machine here has Intel PT, nor guests: packets are those of a schedule (`mote pt synth --vm`), and the events of
//! the scheduler and of the hypervisor are written to fit, as a recording has them.

use mote_ctf::model::{ClockClass, EventClass, FieldClass, IntClass, StringClass, StructClass};
use mote_ctf::write::{plain, tsdl};
use serde_json::Value;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// Two vCPUs of a machine take turns with a program of the host, and with nothing.
const SCHEDULE: &str = "\
vm web 0x10c2e4000
vcpu web/0 0x1f3a6000
vcpu web/1 0x1f3a7000
process web/db 0x6a000
host sshd 0x20a4000
cpu 0
repeat 40
vmm web/0 3us
guest web/0 db 200us
vmm web/0 2us
vmm web/1 3us
guest web/1 db 100us
vmm web/1 2us
host sshd 40us
idle 150us
end
";
const FIRST: &str = "0x1f3a6000";
const SECOND: &str = "0x1f3a7000";
/// Ticks in a second: those of the schedule's processor.
const HZ: u64 = 2_400_000_000;
/// CLOCK_MONOTONIC when the counter was at [`ZERO_TICKS`].
const ZERO_NS: u64 = 5_000_000_000_000;
const ZERO_TICKS: u64 = 0x12_0000_0000;

const PROCESS: i32 = 4700;
const SWITCH: u32 = 0;
const ENTRY: u32 = 1;

fn mote(words: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_mote")).args(words).output().expect("it runs")
}

fn printed(output: &Output) -> String {
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn text(path: &Path) -> &str {
    path.to_str().expect("a path")
}

fn hex(value: &Value) -> u64 {
    let digits = value.as_str().and_then(|text| text.strip_prefix("0x")).expect("a hexadecimal number");
    u64::from_str_radix(digits, 16).expect("a hexadecimal number")
}

fn ns(ticks: u64) -> u64 {
    ZERO_NS + (u128::from(ticks - ZERO_TICKS) * 1_000_000_000 / u128::from(HZ)) as u64
}

/// A recording whose capture is that of the schedule; `events` writes what the kernel has said, given what was so from
/// when on.
struct Recording {
    _keep: tempfile::TempDir,
    dir: PathBuf,
}

impl Recording {
    fn new(events: impl Fn(&mut plain::Stream, usize, u64, &Value)) -> Recording {
        let keep = tempfile::tempdir().expect("a directory");
        let (schedule, dir) = (keep.path().join("schedule.txt"), keep.path().join("trace"));
        fs::create_dir(&dir).expect("a directory");
        fs::write(&schedule, SCHEDULE).expect("it is written");
        printed(&mote(&["pt", "synth", "--vm", text(&schedule), "-o", text(&dir.join("pt"))]));
        let truth = fs::read_to_string(dir.join("pt/truth-vm.jsonl")).expect("the truth");
        let truth: Vec<Value> = truth.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
        let mut stream = plain::Stream::new(0);
        for (number, line) in truth.iter().enumerate() {
            events(&mut stream, number, ns(hex(&line["begin"])), line);
        }
        fs::write(dir.join("channel_0"), stream.finish()).expect("it is written");
        fs::write(dir.join("metadata"), metadata()).expect("it is written");
        let recording = Recording { _keep: keep, dir };
        let last = truth.last().map_or(ZERO_TICKS, |line| hex(&line["end"]));
        recording.note_clocks(&[ZERO_TICKS, last]);
        recording
    }

    /// As a recorder reads the clocks.
    fn note_clocks(&self, all: &[u64]) {
        let path = self.dir.join("pt/sideband.jsonl");
        let mut notes = fs::OpenOptions::new().append(true).open(path).expect("the notes");
        for ticks in all {
            let at = ns(*ticks);
            let line = format!(
                "{{\"pid\":-1,\"tid\":-1,\"time\":\"{ticks:#x}\",\"kind\":\"clock\",\"monotonic_ns\":{at},\
                 \"realtime_ns\":{at},\"error_ns\":20}}"
            );
            writeln!(notes, "{line}").expect("it is written");
        }
    }

    /// The names of vCPUs and machines, and what was said.
    fn vm(&self, more: &[&str]) -> (String, String) {
        let output = mote(&[&["pt", "vm", text(&self.dir)], more].concat());
        (printed(&output), String::from_utf8_lossy(&output.stderr).into_owned())
    }
}

fn metadata() -> String {
    let int = |bits, signed| FieldClass::Int(IntClass::new(bits, signed));
    let event = |id, name: &str, payload| EventClass {
        id: u64::from(id),
        name: name.to_owned(),
        payload: Some(payload),
        ..EventClass::default()
    };
    let switch = StructClass::new([
        ("next_comm", FieldClass::String(StringClass::default())),
        ("next_tid", int(32, true)),
    ]);
    let entry = StructClass::new([("vcpu_id", int(32, false))]);
    let common = StructClass::new([("vpid", int(32, true)), ("vtid", int(32, true))]);
    let clock =
        ClockClass { name: "monotonic".to_owned(), frequency: 1_000_000_000, ..ClockClass::default() };
    let events = vec![event(SWITCH, "sched_switch", switch), event(ENTRY, "kvm_entry", entry)];
    tsdl(&plain::trace_class(Vec::new(), clock, Some(common), events)).expect("metadata")
}

/// The context of an event: its process, and its thread.
fn context(tid: i32) -> [u8; 8] {
    let pid = if tid == 0 { 0 } else { PROCESS };
    let mut bytes = [0; 8];
    bytes[..4].copy_from_slice(&i32::to_le_bytes(pid));
    bytes[4..].copy_from_slice(&tid.to_le_bytes());
    bytes
}

fn switch(stream: &mut plain::Stream, at: u64, comm: &str, tid: i32) {
    let comm = [comm.as_bytes(), &[0]].concat();
    stream.event(SWITCH, at, &[&context(0), &comm, &tid.to_le_bytes()]);
}

/// The thread for what the processor does.
fn thread(line: &Value) -> (&'static str, i32) {
    match (line["state"].as_str(), line["vcpu"].as_str()) {
        (Some("vm" | "vmm"), Some(FIRST)) => ("CPU 0/KVM", 4711),
        (Some("vm" | "vmm"), _) => ("CPU 1/KVM", 4712),
        (Some("host"), _) => ("sshd", 99),
        _ => ("swapper/0", 0),
    }
}

#[test]
fn the_hosts_scheduler_names_vcpus() {
    let recording = Recording::new(|stream, _, at, line| {
        let (comm, tid) = thread(line);
        switch(stream, at, comm, tid);
    });
    let (shown, said) = recording.vm(&[]);
    for part in ["vCPU 0x1f3a6000 CPU 0/KVM (thread 4711)", "vCPU 0x1f3a7000 CPU 1/KVM (thread 4712)"] {
        assert!(shown.contains(part), "{part}: {shown}");
    }
    assert_eq!(said, "", "nothing is in doubt");
    // What a person says goes before.
    let names = recording.dir.join("names.txt");
    fs::write(&names, "vmcs 0x1f3a6000 first\n").expect("it is written");
    let (shown, _) = recording.vm(&["--names", text(&names)]);
    assert!(shown.contains("0x1f3a6000 first") && shown.contains("CPU 1/KVM (thread 4712)"), "{shown}");
    // Programs get the names, too.
    let (objects, _) = recording.vm(&["--format", "json"]);
    assert!(objects.contains("\"CPU 0/KVM (thread 4711)\""), "{objects}");
}

#[test]
fn the_hypervisor_alone_names_vcpus_and_machines() {
    let recording = Recording::new(|stream, _, at, line| {
        let (_, tid) = thread(line);
        if line["state"] == "vmm" {
            stream.event(ENTRY, at, &[&context(tid), &(tid as u32 - 4711).to_le_bytes()]);
        }
    });
    let (shown, said) = recording.vm(&[]);
    let parts = [
        "0x1f3a6000 vCPU 0, thread 4711",
        "0x1f3a7000 vCPU 1, thread 4712",
        "machine 0x10c2e4000 process 4700",
    ];
    assert!(parts.iter().all(|part| shown.contains(part)), "{shown}");
    assert_eq!(said, "");
}

#[test]
fn what_is_not_clear_is_said() {
    let visits = |line: &Value| (line["state"] == "vm" && line["vcpu"] == SECOND).then_some(());
    let recording = Recording::new(|stream, number, at, line| {
        let (comm, tid) = thread(line);
        // A quarter of what the second one does is another thread's by this.
        let is_other = visits(line).is_some() && (number / 8).is_multiple_of(4);
        if is_other { switch(stream, at, "worker", 4713) } else { switch(stream, at, comm, tid) }
    });
    let (shown, said) = recording.vm(&[]);
    assert!(shown.contains("vCPU 0x1f3a7000 CPU 1/KVM (thread 4712)"), "{shown}");
    assert!(
        said.contains("vCPU 0x1f3a7000 may be another thread than CPU 1/KVM") && said.contains(" of 40 "),
        "{said}"
    );
    assert!(!said.contains(FIRST), "{said}");
}
