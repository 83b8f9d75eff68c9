//! perf's directories with virtual machines: code of guests is followed where it is there, and the host's never.

use mote_capture::{Capture, Found, Of, check, elf};
use mote_perfdata::attribute::{flag, sample};
use mote_perfdata::intel_pt::{Clock, Info};
use mote_perfdata::record::{File as Which, IdEntry, Mmap, Mode, Task, Vcpu};
use mote_perfdata::{Attribute, Event, Features, NewPiece, Record, SampleId, Writer};
use mote_pt::packet::ip::{Compression, Ip};
use mote_pt::packet::{Encoder, Packet, Tnt};
use std::fs;
use std::io::Cursor;
use std::path::Path;

/// Where both kernels are, with different code.
const KERNEL: u64 = 0xffff_ffff_8100_0000;
const HOST_CR3: u64 = 0x1000;
const GUEST_CR3: u64 = 0x5000;
/// The process of the VMM, and its thread that is a vCPU.
const VMM: Task = Task { pid: 70, tid: 71 };
/// Ids of the host's event and of the guest's.
const HOST: u64 = 1;
const GUEST: u64 = 50;

fn ip(address: u64) -> Ip {
    Ip { compression: Compression::Full, bits: address }
}

/// The host enters the guest, which leaves it again, twice: in its kernel, and in a program at 0x1000.
fn packets() -> Vec<u8> {
    let mut encoder = Encoder::new();
    let tnt = |bits| Packet::Tnt(Tnt { bits, count: 1, is_long: false });
    let host = Packet::Pip { cr3: HOST_CR3, is_guest: false };
    let guest = Packet::Pip { cr3: GUEST_CR3, is_guest: true };
    let mut packets = vec![
        Packet::Psb,
        Packet::Tsc(5000),
        host,
        Packet::ModeExec { is_64_bit: true, is_32_bit: false, interrupts: false },
        Packet::Fup(ip(KERNEL)),
        Packet::PsbEnd,
    ];
    for (at, left_at) in [(KERNEL + 0x100, KERNEL + 0x104), (0x1000, 0x1003)] {
        // nop; vmresume. Then je, not taken, and nops; hlt leaves the guest. The host does je, taken, and jmp back.
        packets.extend([guest, Packet::Tip(ip(at)), tnt(0), Packet::Fup(ip(left_at)), host]);
        packets.extend([Packet::Tip(ip(KERNEL + 0x200)), tnt(1)]);
    }
    packets.push(Packet::TipPgd(Ip { compression: Compression::Suppressed, bits: 0 }));
    packets.into_iter().for_each(|packet| assert!(encoder.push(packet).is_ok()));
    encoder.bytes().to_vec()
}

/// A kernel whose memory has so many bytes of something else, with these in it.
fn kernel(parts: &[(usize, &[u8])]) -> Vec<u8> {
    let mut text = vec![0xcc; 0x1000];
    for (at, code) in parts {
        text[*at..*at + code.len()].copy_from_slice(code);
    }
    text
}

/// What perf keeps of a kernel: its memory, and its symbols.
fn keep(folder: &Path, text: &[u8]) {
    fs::create_dir(folder).expect("a directory");
    fs::write(folder.join("kcore"), elf::file(62, &[(KERNEL, text)], &[])).expect("a file");
    let (stext, etext) = (KERNEL, KERNEL + 0x1000);
    let symbols = format!("{stext:x} T _stext\n{stext:x} T begin\n{etext:x} T _etext\n");
    fs::write(folder.join("kallsyms"), symbols).expect("a file");
}

fn id(id: u64, task: Task, time: u64, cpu: u32) -> SampleId {
    SampleId { task: Some(task), time: Some(time), id: Some(id), stream: None, cpu: Some(cpu) }
}

/// The records: of the host, whose VMM is a file, and, if it is so, those that `perf inject --guest-data` adds.
fn data(vmm: &Path, has_guest: bool) -> Vec<u8> {
    let sample_type = sample::TID | sample::TIME | sample::CPU | sample::IDENTIFIER;
    let flags = flag::SAMPLE_ID_ALL;
    let attribute = Attribute { kind: 8, config: 0x2401, sample_type, flags, ..Attribute::default() };
    let events = [HOST, GUEST].map(|id| Event { attribute, ids: vec![id] });
    let mut writer = Writer::new(Cursor::new(Vec::new()), &events).expect("memory");
    let clock = Some(Clock { shift: 0, mult: 1, zero: 0 });
    let info = Info { unit: 8, clock, tsc_bit: 0x400, per_cpu: true, ..Info::default() };
    writer.record(&info.write(), &SampleId::default()).expect("memory");
    let entry = |id, guest| IdEntry { id, idx: 0, cpu: 2, tid: VMM.tid.into(), guest };
    if has_guest {
        let vcpu = Vcpu { machine: VMM.pid, number: 0 };
        let index = Record::IdIndex(vec![entry(HOST, None), entry(GUEST, Some(vcpu))]);
        writer.record(&index, &SampleId::default()).expect("memory");
    }
    let switch = Record::Switch { is_out: false, is_preempted: false, other: None };
    writer.record(&switch, &id(HOST, VMM, 1000, 2)).expect("memory");
    let mmap = |task, mode, path: &Path, file| {
        let (start, len, offset, protection, path) = (0x1000, 0x1000, 0, 5, path.to_owned());
        Record::Mmap(Mmap { task, mode, start, len, offset, file, protection, flags: 2, path })
    };
    // The VMM's own code is at the address of the guest's program, which is not meant.
    let unknown = Which::Inode { major: 8, minor: 1, inode: 5, generation: 0 };
    let text = mmap(VMM, Mode::User, vmm, unknown);
    writer.record(&text, &id(HOST, VMM, 1100, 2)).expect("memory");
    if has_guest {
        // As a thread 9 of the guest, which has the numbers of another process of the host.
        let task = Task { pid: 9, tid: 9 };
        writer.record(&switch, &id(GUEST, task, 1200, 2)).expect("memory");
        let build_id = Which::BuildId(vec![10, 11, 12, 13]);
        let text = mmap(task, Mode::GuestUser, Path::new("/no/such/app"), build_id);
        writer.record(&text, &id(GUEST, task, 1300, 2)).expect("memory");
    }
    let packets = packets();
    let piece = NewPiece { tid: -1, cpu: 2, ..NewPiece::default() };
    writer.piece(&piece, packets.len() as u64, packets.as_slice()).expect("memory");
    writer.finish(&Features::default()).expect("memory").into_inner()
}

/// What is found in perf's directory.
fn found(folder: &Path) -> (Found, Vec<String>) {
    let capture = Capture::open(folder).expect("a capture");
    let stream = capture.streams().find(|stream| stream.of == Of::Cpu(2)).expect("packets");
    let found = check(&stream.bytes, &capture.code(stream), None, 1).expect("it is read");
    (found, capture.problems().to_vec())
}

/// nop; vmresume; and where it comes back: je; jmp to the begin.
const OF_HOST: [(usize, &[u8]); 3] =
    [(0, &[0x90, 0x0f, 0x01, 0xc3]), (0x200, &[0x74, 0x02]), (0x204, &[0xe9, 0xf7, 0xfd, 0xff, 0xff])];
/// je; nop; nop; hlt.
const OF_GUEST: [(usize, &[u8]); 1] = [(0x100, &[0x74, 0x02, 0x90, 0x90, 0xf4])];

#[test]
fn guests_are_followed_where_their_code_is_known() {
    let folder = tempfile::tempdir().expect("a directory");
    let path = folder.path().join("perf.data");
    fs::create_dir(&path).expect("a directory");
    let vmm = folder.path().join("vmm");
    fs::write(&vmm, kernel(&[(0, OF_GUEST[0].1)])).expect("a file");
    fs::write(path.join("data"), data(&vmm, true)).expect("a file");
    keep(&path.join("kcore_dir"), &kernel(&OF_HOST));
    keep(&path.join("kcore_dir__70"), &kernel(&OF_GUEST));
    let (with, problems) = found(&path);
    // nop, vmresume, and twice je, jmp, nop, vmresume: tracing ends with the last one.
    let host = 2 + 2 * 4;
    // je, nop, nop of the kernel. Nobody has the guest's program.
    assert_eq!((with.instructions.count, with.damaged), (host + 3, 0), "{:?}", with.gaps);
    assert!(with.guest_gaps > 0 && with.guest_gaps == with.gap_count, "{:?}", with.gaps);
    assert!(with.gaps.iter().all(|gap| gap.to_string().contains("of a virtual machine")), "{:?}", with.gaps);
    assert_eq!(problems, [""; 0]);
    // Without the guest's kernel, nothing of it is followed, though the host has code there.
    fs::remove_dir_all(path.join("kcore_dir__70")).expect("it was there");
    let (without, _) = found(&path);
    assert_eq!(without.instructions.count, host);
    assert!(without.guest_gaps > with.guest_gaps && without.guest_gaps == without.gap_count);
    // Nor where nobody speaks of guests at all.
    fs::write(path.join("data"), data(&vmm, false)).expect("a file");
    let (silent, _) = found(&path);
    assert_eq!((silent.instructions.count, silent.gaps), (host, without.gaps));
}

#[test]
fn what_cannot_be_read_beside_is_said() {
    let folder = tempfile::tempdir().expect("a directory");
    let path = folder.path().join("perf.data");
    fs::create_dir(&path).expect("a directory");
    let vmm = folder.path().join("vmm");
    fs::write(&vmm, kernel(&[(0, OF_GUEST[0].1)])).expect("a file");
    fs::write(path.join("data"), data(&vmm, true)).expect("a file");
    fs::create_dir(path.join("kcore_dir")).expect("a directory");
    let (found, problems) = found(&path);
    assert_eq!(found.instructions.count, 0);
    assert!(matches!(problems.as_slice(), [why] if why.contains("kcore_dir is not known")), "{problems:?}");
    fs::write(path.join("data"), b"something else").expect("a file");
    assert!(Capture::open(&path).is_err());
}
