//! From a program to its trace: packets, truth, sideband.

mod support;

use mote_capture::Of;
use mote_pt::packet::ip::{Compression, Ip};
use mote_pt::packet::{Packet, Tnt};
use mote_synth::trace::{Detail, Streams, Trace, Written};
use mote_synth::{Digest, Error, Observer, Options, qemu, step};
use std::collections::BTreeMap;
use std::ffi::OsString;
use support::Program;

/// Keeps packets.
#[derive(Default)]
struct Kept(BTreeMap<Of, Vec<Packet>>);

impl Streams for Kept {
    type Sink = Vec<Packet>;

    fn open(&mut self, _: Of) -> Result<Vec<Packet>, Error> {
        Ok(Vec::new())
    }

    fn close(&mut self, of: Of, packets: Vec<Packet>) -> Result<(), Error> {
        self.0.insert(of, packets);
        Ok(())
    }
}

type Engine = fn(&[OsString], &mut dyn Observer) -> Result<i32, Error>;

struct Traced {
    packets: BTreeMap<Of, Vec<Packet>>,
    written: Written,
    truth: Vec<serde_json::Value>,
    sideband: Vec<serde_json::Value>,
    folder: tempfile::TempDir,
    status: i32,
}

fn traced(engine: Engine, program: &Program, options: Options) -> Traced {
    let folder = tempfile::tempdir().expect("a directory");
    let mut trace = Trace::new(options, folder.path(), Detail::Runs, Kept::default()).expect("files");
    let status = engine(&program.words(), &mut trace).expect("a run");
    let (written, Kept(packets)) = trace.finish().expect("written");
    let lines = |name| -> Vec<serde_json::Value> {
        let text = std::fs::read_to_string(folder.path().join(name)).expect(name);
        text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect()
    };
    let (truth, sideband) = (lines("truth.jsonl"), lines("sideband.jsonl"));
    Traced { packets, written, truth, sideband, folder, status }
}

fn engines() -> Vec<Engine> {
    let mut engines: Vec<Engine> = vec![step::run];
    match qemu::check() {
        Ok(()) => engines.push(|words, observer| qemu::run(words, qemu::Code::Executed, observer)),
        Err(why) => mote_skip::skip(why),
    }
    engines
}

/// The packets of a program that is known, by both engines, and by hand.
#[test]
fn a_known_program() {
    let Some(program) = Program::compile_with("tiny", &["-nostdlib"]) else { return };
    let tnt = |bits, count| Packet::Tnt(Tnt { bits, count, is_long: false });
    let low = |name| Ip { compression: Compression::Update16, bits: program.symbol(name) & 0xffff };
    let start = Ip { compression: Compression::Update32, bits: program.symbol("_start") };
    let disabled = Packet::TipPgd(Ip { compression: Compression::Suppressed, bits: 0 });
    // MOV of 5 bytes, SYSCALL of 2.
    let behind = Ip { bits: low("h").bits + 7, ..low("h") };
    let expected = [
        Packet::Psb,
        Packet::Cbr(24),
        Packet::PsbEnd,
        Packet::ModeExec { is_64_bit: true, is_32_bit: false, interrupts: false },
        Packet::TipPge(start),
        // 9 rounds of the loop, its end, the return of f.
        tnt(0b11_1111, 6),
        tnt(0b1_1101, 5),
        Packet::Tip(low("g")),
        tnt(1, 1),
        Packet::Tip(low("h")),
        disabled,
        Packet::TipPge(behind),
        disabled,
    ];
    for engine in engines() {
        let options = Options { tsc: false, mtc: None, ..Options::default() };
        let traced = traced(engine, &program, options);
        assert_eq!(traced.status, 5);
        let packets: Vec<_> = traced.packets.into_values().collect();
        assert_eq!(packets, [expected]);
        assert_eq!(traced.written.instructions, 1 + 20 + 2 + 3 + 2 + 5);
    }
}

#[test]
fn truth_and_sideband_say_what_was_executed() {
    let Some(program) = Program::compile_with("tiny", &["-nostdlib"]) else { return };
    for engine in engines() {
        let traced = traced(engine, &program, Options::default());
        let [truth] = traced.truth.as_slice() else { panic!("{:?}", traced.truth) };
        assert_eq!(truth["instructions"], traced.written.instructions);
        let tid = truth["tid"].as_i64().expect("a number");
        let runs = std::fs::read(traced.folder.path().join(format!("{tid}.runs"))).expect("runs");
        assert_eq!(runs.len() % 12, 0);
        let first = u64::from_le_bytes(*runs.first_chunk().expect("a run"));
        assert_eq!(first, program.symbol("_start"));
        let digest: Digest = addresses(&program).into_iter().collect();
        assert_eq!(truth["digest"], format!("{:016x}", digest.value));
        let kinds: Vec<_> =
            traced.sideband.iter().map(|line| line["kind"].as_str().expect("a kind")).collect();
        let has = |kind| kinds.contains(&kind);
        assert!(kinds[0] == "processor" && has("thread") && has("image") && has("exit"), "{kinds:?}");
    }
}

/// The addresses that the program executes, by hand.
fn addresses(program: &Program) -> Vec<u64> {
    let [start, f, g, h] = ["_start", "f", "g", "h"].map(|name| program.symbol(name));
    let mut addresses = vec![start];
    addresses.extend([start + 5, start + 7].repeat(10));
    // CALL of 5 bytes, LEA of 7, CALL of 2, LEA of 7, JMP.
    addresses.extend([start + 9, f, start + 14, start + 21, g, start + 23, start + 30]);
    addresses.extend([h, h + 5, h + 7, h + 12, h + 17]);
    addresses
}

/// Whatever a processor may have, with overflows and interrupts: the engine's facts go through, and what is lost is
/// said.
#[test]
fn options_change_packets_and_not_the_truth() {
    let Some(program) = Program::compile("loops") else { return };
    let Some(engine) = engines().pop() else { return };
    let plain = traced(engine, &program, Options::default());
    let options = Options {
        return_compression: false,
        long_tnt: true,
        cyc: Some(0),
        psb_bytes: 512,
        interrupt_every: Some(1000),
        overflows: vec![3000..5000, 20_000..20_001],
        ..Options::default()
    };
    let other = traced(engine, &program, options);
    let count = |packets: &BTreeMap<Of, Vec<Packet>>, wanted: fn(&Packet) -> bool| {
        packets.values().flatten().filter(|packet| wanted(packet)).count()
    };
    assert_eq!(count(&other.packets, |packet| *packet == Packet::Ovf), 2);
    assert!(count(&other.packets, |packet| matches!(packet, Packet::Cyc(_))) > 1000);
    assert_eq!(count(&plain.packets, |packet| matches!(packet, Packet::Cyc(_))), 0);
    assert!(count(&other.packets, |packet| *packet == Packet::Psb) > 10);
    let lost = other.truth[0]["lost"].as_array().expect("losses");
    assert_eq!(lost.len(), 2);
    assert!(lost[0][0].as_u64() <= Some(3000) && lost[0][1].as_u64() >= Some(5000), "{lost:?}");
}
