//! What the tests share: requests, child processes, and records read back.

use mote_catalog::event::{Event, Field, Hook, Origin, Type};
use mote_generate::Chosen;
use mote_kernel::map::Buffers;
use mote_kernel::session::{Kernel, Request, Targets};
use mote_layout::record::{PREFIX_BYTES, split};
use mote_layout::types::Scalar;
use mote_ring::Mode;
use mote_ring::reader::Look;
use std::process::Command;

/// A record as it was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Record {
    pub(crate) ring: u32,
    pub(crate) id: u16,
    pub(crate) time: u64,
    pub(crate) tid: u32,
    /// Position of its fields in `bytes`.
    pub(crate) fields: Vec<u8>,
}

/// True when the machine lets us load programs; else the test says so and is skipped.
pub(crate) fn can() -> bool {
    match mote_kernel::privilege::check() {
        None => true,
        Some(missing) => {
            mote_skip::skip(missing);
            false
        }
    }
}

pub(crate) fn request(events: Vec<Chosen>, targets: Targets) -> Request {
    let buffers = Buffers { sub_bits: 18, count_bits: 3, mode: Mode::Discard };
    Request { events, targets, buffers, maps: Vec::new(), threads: 1024 }
}

pub(crate) fn start(request: Request) -> Kernel {
    let kernel = Kernel::start(request).unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(kernel.refused(), []);
    kernel
}

pub(crate) fn chosen(id: u16, event: Event) -> Chosen {
    Chosen { id, event, filter: None }
}

pub(crate) fn number(name: &str, bits: u8, from: Origin) -> Field {
    Field { name: name.to_owned(), ty: Type::Scalar(Scalar::signed(bits)), from }
}

pub(crate) fn text(name: &str, from: Origin) -> Field {
    Field { name: name.to_owned(), ty: Type::Text, from }
}

pub(crate) fn entry(number: i64, fields: Vec<Field>) -> Event {
    let (provider, name) = ("syscalls".to_owned(), format!("syscall_entry_{number}"));
    Event { provider, name, fields, hook: Hook::SyscallEntry(number as u32) }
}

pub(crate) fn exit(number: i64, fields: Vec<Field>) -> Event {
    let (provider, name) = ("syscalls".to_owned(), format!("syscall_exit_{number}"));
    Event { provider, name, fields, hook: Hook::SyscallExit(number as u32) }
}

/// All that can be read now, by rings; records of one size for each id (`size` answers the bytes of the fields).
pub(crate) fn read(kernel: &Kernel, size: impl Fn(u16, &[u8]) -> usize) -> Vec<Record> {
    let geometry = kernel.geometry();
    let mut records = Vec::new();
    for ring in 0..geometry.rings() {
        let mut reader = kernel.channel().reader(ring).expect("there is one");
        loop {
            match reader.look() {
                Look::Ready(chunk) => {
                    let mut bytes = vec![0; chunk.len()];
                    assert!(reader.copy(chunk, &mut bytes));
                    reader.release(chunk);
                    parse(ring, &bytes, &size, &mut records);
                }
                Look::Overwritten(_) => {}
                Look::Empty => break,
                Look::Damaged => panic!("ring {ring} is damaged"),
            }
        }
    }
    records
}

fn parse(ring: u32, mut bytes: &[u8], size: impl Fn(u16, &[u8]) -> usize, records: &mut Vec<Record>) {
    while !bytes.is_empty() {
        let (id, time) = split(u64::from_le_bytes(bytes[..8].try_into().unwrap()));
        let tid = u32::from_le_bytes(bytes[8..12].try_into().unwrap());
        let fields = &bytes[PREFIX_BYTES..];
        let len = size(id, fields);
        records.push(Record { ring, id, time, tid, fields: fields[..len].to_vec() });
        bytes = &fields[len..];
    }
}

/// Lost events of all rings.
pub(crate) fn lost(kernel: &Kernel) -> [u64; 2] {
    let rings = (0..kernel.geometry().rings()).map(|ring| kernel.channel().reader(ring).unwrap().lost());
    rings.fold([0; 2], |sum, lost| [sum[0] + lost[0], sum[1] + lost[1..].iter().sum::<u64>()])
}

/// A shell that runs this script, followed.
pub(crate) fn run(kernel: &Kernel, program: &str, arguments: &[&str]) -> u32 {
    let launching = kernel.launching().unwrap();
    let mut child = Command::new(program).args(arguments).spawn().unwrap();
    drop(launching);
    let pid = child.id();
    assert!(child.wait().unwrap().success());
    pid
}
