//! What system calls are given, or return, in structures that their arguments point to: fields behind those of the
//! arguments.

use crate::event::{Field, Origin, Part, Socket, Timespec, Type};
use crate::labels;
use mote_layout::types::Scalar;

/// System calls that are given the address of a socket: which argument points to it, and which is its length.
const GIVEN: [(&str, u8, u8); 3] = [("connect", 1, 2), ("bind", 1, 2), ("sendto", 4, 5)];
/// Those that return one: which argument points to it, and which to its length.
const RETURNED: [(&str, u8, u8); 5] =
    [("accept", 1, 2), ("accept4", 1, 2), ("getsockname", 1, 2), ("getpeername", 1, 2), ("recvfrom", 4, 5)];

/// System calls that are given a time: which argument points to it, and what that is called.
const TIMES: [(&str, u8, &str); 14] = [
    ("nanosleep", 0, "rqtp"),
    ("clock_nanosleep", 2, "rqtp"),
    ("clock_settime", 1, "tp"),
    ("ppoll", 2, "tsp"),
    ("pselect6", 4, "tsp"),
    ("epoll_pwait2", 3, "timeout"),
    ("futex", 3, "utime"),
    ("rt_sigtimedwait", 2, "uts"),
    ("recvmmsg", 4, "timeout"),
    ("semtimedop", 3, "timeout"),
    ("io_getevents", 4, "timeout"),
    ("io_pgetevents", 4, "timeout"),
    ("mq_timedsend", 4, "u_abs_timeout"),
    ("mq_timedreceive", 4, "u_abs_timeout"),
];

/// Operations of futex(2) whose fourth argument is a time: `FUTEX_WAIT`, `FUTEX_LOCK_PI`, `FUTEX_WAIT_BITSET`,
/// `FUTEX_WAIT_REQUEUE_PI`, `FUTEX_LOCK_PI2`. Of the others it is a number, or nothing.
const FUTEX_WAITS: u64 = 1 << libc::FUTEX_WAIT
    | 1 << libc::FUTEX_LOCK_PI
    | 1 << libc::FUTEX_WAIT_BITSET
    | 1 << libc::FUTEX_WAIT_REQUEUE_PI
    | 1 << libc::FUTEX_LOCK_PI2;

/// Fields at the entry of this system call.
pub(crate) fn given(call: &str) -> Vec<Field> {
    let mut fields = socket(&GIVEN, call, false);
    fields.extend(TIMES.iter().filter(|(name, ..)| *name == call).map(|(_, argument, name)| {
        let when = (call == "futex").then_some((1, FUTEX_WAITS));
        Field {
            name: format!("{name}_ns"),
            ty: Type::Labelled(Scalar::signed(64), vec![("none".to_owned(), -1, -1)]),
            from: Origin::UserTime(Timespec { argument: *argument, when }),
        }
    }));
    fields
}

/// Fields at its return.
pub(crate) fn returned(call: &str) -> Vec<Field> {
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
