//! A kernel without BTF: the events of all threads are recorded all the same.

use super::{Kernel, Request, Targets, add};
use crate::Error;
use crate::map::Buffers;
use mote_catalog::event::{Event, Field, Hook, Origin, Type};
use mote_generate::Chosen;
use mote_layout::types::Scalar;
use mote_ring::Mode;
use mote_ring::reader::Look;

fn request(targets: Targets) -> Request {
    let number = |name: &str, bits, from| Field {
        name: name.to_owned(),
        ty: Type::Scalar(Scalar::signed(bits)),
        from,
    };
    let call = |id, hook, fields| {
        let event = Event { provider: "syscalls".to_owned(), name: format!("call{id}"), fields, hook };
        Chosen { id, event, filter: None }
    };
    let tgkill = libc::SYS_tgkill as u32;
    let name = "sched_switch".to_owned();
    let comm = Field { name: "comm".to_owned(), ty: Type::FixedText(16), from: Origin::Comm };
    let events = vec![
        call(
            1,
            Hook::SyscallEntry(tgkill),
            vec![number("a", 32, Origin::Argument(0)), number("b", 32, Origin::Argument(1))],
        ),
        call(
            2,
            Hook::SyscallExit(tgkill),
            vec![number("ret", 32, Origin::Result), number("b", 32, Origin::Argument(1))],
        ),
        call(3, Hook::Raw { name, btf_id: None }, vec![comm]),
    ];
    let buffers = Buffers { sub_bits: 18, count_bits: 3, mode: Mode::Discard };
    Request { events, targets, buffers, maps: Vec::new(), threads: 256 }
}

fn no_types() -> Error {
    mote_generate::Error::Types("the kernel has no BTF".to_owned()).into()
}

/// What is in the rings, in pieces of whole records.
pub(super) fn chunks(kernel: &Kernel) -> Vec<Vec<u8>> {
    let mut found = Vec::new();
    for ring in 0..kernel.geometry().rings() {
        let mut reader = kernel.channel().reader(ring).expect("there is one");
        while let Look::Ready(chunk) = reader.look() {
            let mut bytes = vec![0; chunk.len()];
            reader.copy(chunk, &mut bytes);
            reader.release(chunk);
            found.push(bytes);
        }
    }
    found
}

/// Fields of the calling thread's records with this id; those of switches have 16 bytes, the others 8.
fn read(kernel: &Kernel, wanted: u16) -> Vec<Vec<u8>> {
    let mut found = Vec::new();
    for bytes in chunks(kernel) {
        let mut rest = &bytes[..];
        while !rest.is_empty() {
            let id = u16::from_le_bytes([rest[0], rest[1]]);
            let tid = i32::from_le_bytes(rest[8..12].try_into().expect("four"));
            let len = 12 + if id == 3 { 16 } else { 8 };
            if id == wanted && tid == mote_sys::process::tid() {
                found.push(rest[12..len].to_vec());
            }
            rest = &rest[len..];
        }
    }
    found
}

#[test]
fn without_types_everybody_is_recorded() {
    if let Some(missing) = crate::privilege::check() {
        mote_skip::skip(missing);
        return;
    }
    let kernel = add::start(request(Targets::All), Err(no_types())).expect("it needs none");
    assert_eq!(kernel.refused(), []);
    kernel.enable();
    let minus_seven = [(-7i32).to_le_bytes(), 9i32.to_le_bytes()].concat();
    mote_sys::thread::exists(-7, 9);
    kernel.disable();
    assert_eq!(read(&kernel, 1), [minus_seven]);
    let kernel = add::start(request(Targets::All), Err(no_types())).expect("it needs none");
    kernel.enable();
    mote_sys::thread::exists(-7, 9);
    kernel.disable();
    let refused = [(-libc::EINVAL).to_le_bytes(), 9i32.to_le_bytes()].concat();
    assert_eq!(read(&kernel, 2), [refused]);
    let error =
        add::start(request(Targets::Launch), Err(no_types())).expect_err("no process can be followed");
    assert!(error.to_string().contains("no BTF") && error.to_string().contains("-a"), "{error}");
}
