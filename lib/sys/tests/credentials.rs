//! Who has sent a message, and that nothing that came beside one stays open. One test: it counts the process's
//! descriptors.

use mote_sys::fd::{self, Fd};
use mote_sys::socket::{self, Credentials, FDS_MAX, Wait};
use mote_sys::user;

/// `asm-generic/socket.h`, Linux 6.5.
const SO_PASSPIDFD: i32 = 76;

fn descriptors() -> usize {
    std::fs::read_dir("/proc/self/fd").expect("proc").count()
}

/// Sends a byte with so many copies of a descriptor, more than [`socket::send`] takes.
fn send_many(to: &Fd, what: &Fd, count: usize) {
    let fds = vec![what.raw(); count];
    let mut control = vec![0u64; 2 + fds.len().div_ceil(2)];
    let mut part = libc::iovec { iov_base: c"x".as_ptr().cast_mut().cast(), iov_len: 1 };
    // SAFETY: zeros are a message without anything.
    let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
    message.msg_iov = &raw mut part;
    message.msg_iovlen = 1;
    control[0] = 16 + 4 * count as u64;
    control[1] = u64::from(libc::SOL_SOCKET as u32) | u64::from(libc::SCM_RIGHTS as u32) << 32;
    for (word, pair) in control[2..].iter_mut().zip(fds.chunks(2)) {
        *word = pair.iter().rev().fold(0, |word, fd| word << 32 | u64::from(*fd as u32));
    }
    message.msg_control = control.as_mut_ptr().cast();
    message.msg_controllen = 16 + 4 * count;
    // SAFETY: the message points to what lives for the call.
    assert_eq!(unsafe { libc::sendmsg(to.raw(), &raw const message, 0) }, 1);
}

#[test]
fn every_message_says_who_and_nothing_stays_open() {
    let (ours, theirs) = socket::pair().expect("sockets");
    assert!(socket::is_messages(ours.raw()));
    let before = descriptors();
    let mut buffer = [0; 16];
    socket::send(theirs.raw(), b"early", &[], Wait::No).expect("room");
    socket::pass_credentials(ours.raw()).expect("a socket");
    let early = socket::receive(ours.raw(), &mut buffer, Wait::No).expect("a message").sender;
    let nobody = user::overflow();
    assert_eq!(early, Some(Credentials { pid: 0, uid: nobody, gid: nobody }));

    // SAFETY: no arguments, no memory.
    let uid = unsafe { libc::getuid() };
    // SAFETY: as above.
    let gid = unsafe { libc::getgid() };
    let us = Some(Credentials { pid: std::process::id() as i32, uid, gid });
    for count in [0, 1, FDS_MAX] {
        socket::send(theirs.raw(), b"hello", &vec![ours.raw(); count], Wait::No).expect("room");
        let received = socket::receive(ours.raw(), &mut buffer, Wait::No).expect("a message");
        assert_eq!((received.sender, received.truncated), (us, false));
        assert_eq!(received.fds.iter().flatten().count(), count);
        let is_it = |fd: &Fd| fd::identity(fd.raw()) == fd::identity(ours.raw());
        assert!(received.fds.iter().flatten().all(is_it));
    }

    // More than anybody here sends: told, and closed.
    send_many(&theirs, &ours, 200);
    let received = socket::receive(ours.raw(), &mut buffer, Wait::No).expect("a message");
    assert!(received.truncated && received.sender == us);
    drop(received);

    // A socket that somebody else has made may bring what nobody here has asked for.
    let on = 1i32;
    // SAFETY: the kernel reads the four bytes of `on`.
    let asked =
        unsafe { libc::setsockopt(ours.raw(), libc::SOL_SOCKET, SO_PASSPIDFD, (&raw const on).cast(), 4) };
    for _ in 0..4 {
        socket::send(theirs.raw(), b"hello", &[ours.raw()], Wait::No).expect("room");
        let received = socket::receive(ours.raw(), &mut buffer, Wait::No).expect("a message");
        assert_eq!((received.sender, received.fds.iter().flatten().count()), (us, 1), "asked: {asked}");
    }
    assert_eq!(descriptors(), before, "something is still open");

    let file = fd::open(c"/dev/null", libc::O_RDONLY, 0).expect("it is there");
    assert!(!socket::is_messages(file.raw()) && socket::pass_credentials(file.raw()).is_err());
}
