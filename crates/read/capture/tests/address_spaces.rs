//! Streams of a processor that say themselves whose address space is entered, and nobody else does.

use mote_capture::{Capture, Of, check};
use mote_pt::packet::ip::{Compression, Ip};
use mote_pt::packet::{Encoder, Packet, Tnt};
use std::fs;

/// Packets of a visit to 0x1000 in an address space: so many conditional branches, of which the last is not taken.
fn visit(encoder: &mut Encoder, time: u64, cr3: u64, branches: u8) {
    let ip = |compression, bits| Ip { compression, bits };
    let bits = (1 << branches) - 2;
    for packet in [
        Packet::Psb,
        Packet::Tsc(time),
        Packet::Pip { cr3, is_guest: false },
        Packet::PsbEnd,
        Packet::TipPge(ip(Compression::Full, 0x1000)),
        Packet::Tnt(Tnt { bits, count: branches, is_long: false }),
        Packet::TipPgd(ip(Compression::Suppressed, 0)),
    ] {
        let _ = encoder.push(packet).expect("a packet");
    }
}

#[test]
fn packets_say_which_process_runs() {
    let folder = tempfile::tempdir().expect("a directory");
    // dec ecx; jne -4; syscall; and the same with a nop before.
    let notes = [
        r#"{"kind":"processor","tsc":true}"#,
        r#"{"pid":7,"tid":7,"kind":"code","start":"0x1000","code":"ffc975fc0f05"}"#,
        r#"{"pid":8,"tid":8,"kind":"code","start":"0x1000","code":"90ffc975fb0f05"}"#,
        r#"{"pid":7,"tid":7,"time":"0x5","kind":"address_space","cr3":"0x4000"}"#,
        r#"{"pid":8,"tid":8,"time":"0x6","kind":"address_space","cr3":"0x8000"}"#,
        // The first is another program from here on, which is the second one's.
        r#"{"pid":7,"tid":7,"time":"0x12c","kind":"exec","path":"other"}"#,
        r#"{"pid":7,"tid":7,"time":"0x12c","kind":"code","start":"0x1000","code":"90ffc975fb0f05"}"#,
    ];
    fs::write(folder.path().join("sideband.jsonl"), notes.join("\n") + "\n").expect("a file");
    let mut encoder = Encoder::new();
    // A program's page table lies behind that of the kernel (page table isolation).
    for (time, cr3, branches) in
        [(100, 0x4000, 3), (200, 0x9000, 2), (250, 0x5000, 4), (260, 0x8000, 5), (400, 0x4000, 2)]
    {
        visit(&mut encoder, time, cr3, branches);
    }
    fs::write(folder.path().join("cpu0.pt"), encoder.bytes()).expect("a file");
    let capture = Capture::open(folder.path()).expect("a capture");
    let stream = capture.streams().find(|stream| stream.of == Of::Cpu(0)).expect("packets");
    let found = check(&stream.bytes, &capture.code(stream), None, 1).expect("it is read");
    assert_eq!((found.gaps.as_slice(), found.damaged), ([].as_slice(), 0));
    let [two, three] = [|branches: u64| 2 * branches + 1, |branches: u64| 3 * branches + 1];
    assert_eq!(found.instructions.count, two(3) + three(2) + two(4) + three(5) + three(2));
}
