//! What system calls are given, or return, in structures that their arguments point to: fields behind those of the arguments.

use super::labels;
use crate::event::{Field, Origin, Part, Socket, Type};
use mote_layout::types::Scalar;

/// System calls that are given the address of a socket: which argument points to it, and which is its length.
const GIVEN: [(&str, u8, u8); 3] = [("connect", 1, 2), ("bind", 1, 2), ("sendto", 4, 5)];
/// Those that return one: which argument points to it, and which to its length.
const RETURNED: [(&str, u8, u8); 5] =
    [("accept", 1, 2), ("accept4", 1, 2), ("getsockname", 1, 2), ("getpeername", 1, 2), ("recvfrom", 4, 5)];

/// Fields at the entry of this system call.
pub(super) fn given(call: &str) -> Vec<Field> {
    socket(&GIVEN, call, false)
}

/// Fields at its return.
pub(super) fn returned(call: &str) -> Vec<Field> {
    socket(&RETURNED, call, true)
}

/// The parts of a socket's address.
fn socket(calls: &[(&str, u8, u8)], call: &str, returned: bool) -> Vec<Field> {
    let Some((_, address, length)) = calls.iter().find(|(name, ..)| *name == call) else { return Vec::new() };
    let socket = Socket { address: *address, length: *length, returned };
    let field =
        |name: &str, ty, part| Field { name: name.to_owned(), ty, from: Origin::Socket(socket, part) };
    vec![
        field("family", Type::Enumeration(Scalar::unsigned(16), labels::families()), Part::Family),
        field("port", Type::Scalar(Scalar::unsigned(32)), Part::Port),
        field("address", Type::Text, Part::Text),
    ]
}
