//! Unix sockets of whole messages (`SOCK_SEQPACKET`) that carry descriptors.

use crate::fd::Fd;
use crate::raw::syscall;
use crate::{Errno, Result};
use core::mem::MaybeUninit;

/// Most descriptors that one message carries here.
pub const FDS_MAX: usize = 8;

/// Ancillary data of one message: a header and up to [`FDS_MAX`] descriptors (cmsg(3)).
#[repr(C, align(8))]
struct Control {
    len: usize,
    level: i32,
    kind: i32,
    fds: [i32; FDS_MAX],
}

const CONTROL_HEADER: usize = core::mem::offset_of!(Control, fds);
const _: () = assert!(CONTROL_HEADER == 16);

/// Makes two connected sockets.
///
/// # Errors
/// `EMFILE`, `ENFILE`, `ENOMEM`.
pub fn pair() -> Result<(Fd, Fd)> {
    let mut fds = [0i32; 2];
    let kind = (libc::SOCK_SEQPACKET | libc::SOCK_CLOEXEC) as usize;
    // SAFETY: the kernel writes two ints to `fds`.
    unsafe {
        syscall(libc::SYS_socketpair, [libc::AF_UNIX as usize, kind, 0, fds.as_mut_ptr() as usize, 0, 0])
    }?;
    Ok((Fd::from_raw(fds[0]), Fd::from_raw(fds[1])))
}

fn address(path: &[u8]) -> Result<(libc::sockaddr_un, usize)> {
    let mut address = libc::sockaddr_un { sun_family: libc::AF_UNIX as u16, sun_path: [0; 108] };
    if path.is_empty() || path.len() >= address.sun_path.len() || path.contains(&0) {
        return Err(Errno(libc::EINVAL));
    }
    for (to, from) in address.sun_path.iter_mut().zip(path) {
        *to = *from as libc::c_char;
    }
    Ok((address, 2 + path.len() + 1))
}

fn socket(flags: i32) -> Result<Fd> {
    let kind = (libc::SOCK_SEQPACKET | libc::SOCK_CLOEXEC | flags) as usize;
    // SAFETY: socket(2) touches no memory.
    let raw = unsafe { syscall(libc::SYS_socket, [libc::AF_UNIX as usize, kind, 0, 0, 0, 0]) }?;
    Ok(Fd::from_raw(raw as i32))
}

/// Connects to the socket at `path` (at most 107 bytes, no NUL), without waiting for a listener that is busy. Later calls
/// on the socket do not block.
///
/// # Errors
/// `EAGAIN` when too many wait there already, `ENOENT`, `ECONNREFUSED`, `EACCES`; `EINVAL` for an unusable path.
pub fn connect(path: &[u8]) -> Result<Fd> {
    let (address, len) = address(path)?;
    let fd = socket(libc::SOCK_NONBLOCK)?;
    // SAFETY: the kernel reads `len` bytes of `address`, which is larger.
    unsafe { syscall(libc::SYS_connect, [fd.raw() as usize, &raw const address as usize, len, 0, 0, 0]) }?;
    Ok(fd)
}

/// Binds to `path` and listens.
///
/// # Errors
/// `EADDRINUSE`, `EACCES`, `ENOENT`; `EINVAL` for a path over 107 bytes.
pub fn listen(path: &[u8]) -> Result<Fd> {
    let (address, len) = address(path)?;
    let fd = socket(0)?;
    // SAFETY: the kernel reads `len` bytes of `address`, which is larger.
    unsafe { syscall(libc::SYS_bind, [fd.raw() as usize, &raw const address as usize, len, 0, 0, 0]) }?;
    // SAFETY: listen(2) touches no memory.
    unsafe { syscall(libc::SYS_listen, [fd.raw() as usize, 128, 0, 0, 0, 0]) }?;
    Ok(fd)
}

/// Accepts one waiting connection.
///
/// # Errors
/// `EAGAIN` never (the socket blocks), `EINTR`, `EMFILE`.
pub fn accept(listener: &Fd) -> Result<Fd> {
    let flags = libc::SOCK_CLOEXEC as usize;
    // SAFETY: null address pointers are allowed: the peer's address is not asked for.
    let raw = unsafe { syscall(libc::SYS_accept4, [listener.raw() as usize, 0, 0, flags, 0, 0]) }?;
    Ok(Fd::from_raw(raw as i32))
}

/// Sends one message with the descriptors `fds` (at most [`FDS_MAX`]).
///
/// The descriptor is raw because the traced process sends through one that it inherited and does
/// not own. No SIGPIPE is raised.
///
/// # Errors
/// `EPIPE`/`ECONNRESET` when the peer has gone, `EMSGSIZE`, `EAGAIN` with `wait == Wait::No`.
pub fn send(socket: i32, bytes: &[u8], fds: &[i32], wait: Wait) -> Result<()> {
    if fds.len() > FDS_MAX {
        return Err(Errno(libc::EINVAL));
    }
    let mut control = Control {
        len: CONTROL_HEADER + size_of_val(fds),
        level: libc::SOL_SOCKET,
        kind: libc::SCM_RIGHTS,
        fds: [-1; FDS_MAX],
    };
    for (to, from) in control.fds.iter_mut().zip(fds) {
        *to = *from;
    }
    let part = libc::iovec { iov_base: bytes.as_ptr().cast_mut().cast(), iov_len: bytes.len() };
    let mut message = empty_message();
    message.msg_iov = (&raw const part).cast_mut();
    message.msg_iovlen = 1;
    if !fds.is_empty() {
        message.msg_control = (&raw mut control).cast();
        message.msg_controllen = (control.len + 7) & !7;
    }
    let flags = libc::MSG_NOSIGNAL | if wait == Wait::No { libc::MSG_DONTWAIT } else { 0 };
    // SAFETY: `message` points to `part` and `control`, which outlive the call and are only read.
    unsafe {
        syscall(libc::SYS_sendmsg, [socket as usize, &raw const message as usize, flags as usize, 0, 0, 0])
    }
    .map(drop)
}

/// Whether a call may block.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Wait {
    /// Blocks until it can go on.
    Yes,
    /// Answers `EAGAIN` at once.
    No,
}

/// A received message: how many bytes, and the descriptors that came with it.
#[derive(Debug)]
pub struct Received {
    /// Bytes of the message; 0 when the peer has closed.
    pub len: usize,
    /// The message did not fit and was cut.
    pub truncated: bool,
    /// The descriptors, in order, then `None`s.
    pub fds: [Option<Fd>; FDS_MAX],
}

/// Receives one message.
///
/// # Errors
/// `EAGAIN` with `wait == Wait::No`, `EINTR`, `ECONNRESET`.
pub fn receive(socket: i32, into: &mut [u8], wait: Wait) -> Result<Received> {
    let mut control = MaybeUninit::<Control>::zeroed();
    let part = libc::iovec { iov_base: into.as_mut_ptr().cast(), iov_len: into.len() };
    let mut message = empty_message();
    message.msg_iov = (&raw const part).cast_mut();
    message.msg_iovlen = 1;
    message.msg_control = control.as_mut_ptr().cast();
    message.msg_controllen = size_of::<Control>();
    let flags = libc::MSG_CMSG_CLOEXEC | if wait == Wait::No { libc::MSG_DONTWAIT } else { 0 };
    // SAFETY: the kernel writes to `into` and `control` within the lengths given.
    let len = unsafe {
        syscall(libc::SYS_recvmsg, [socket as usize, &raw mut message as usize, flags as usize, 0, 0, 0])
    }?;
    // SAFETY: zeroed at first, and any bytes are a valid Control.
    let control = unsafe { control.assume_init() };
    let mut fds = [const { None }; FDS_MAX];
    let carried = message.msg_controllen >= CONTROL_HEADER
        && control.level == libc::SOL_SOCKET
        && control.kind == libc::SCM_RIGHTS;
    if carried {
        let count = control.len.saturating_sub(CONTROL_HEADER) / size_of::<i32>();
        for (to, raw) in fds.iter_mut().zip(control.fds.iter().take(count)) {
            *to = Some(Fd::from_raw(*raw));
        }
    }
    Ok(Received { len, truncated: message.msg_flags & libc::MSG_TRUNC != 0, fds })
}

fn empty_message() -> libc::msghdr {
    // SAFETY: all zero bytes are a valid msghdr: null pointers with zero lengths.
    unsafe { MaybeUninit::<libc::msghdr>::zeroed().assume_init() }
}

/// Waits until `socket` can be read or its peer has gone; false when `millis` passed first.
///
/// # Errors
/// `EINTR`.
pub fn wait_readable(socket: i32, millis: i32) -> Result<bool> {
    let mut poll = libc::pollfd { fd: socket, events: libc::POLLIN, revents: 0 };
    // SAFETY: the kernel reads and writes one pollfd.
    let ready =
        unsafe { syscall(libc::SYS_poll, [&raw mut poll as usize, 1, millis as isize as usize, 0, 0, 0]) }?;
    Ok(ready > 0)
}

/// Process, user and group of the peer as the kernel vouches for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Peer {
    /// Process id in our namespace, 0 when it is not visible here.
    pub pid: i32,
    /// User id.
    pub uid: u32,
    /// Group id.
    pub gid: u32,
}

/// Who is at the other end (for a socketpair: who made the pair).
///
/// # Errors
/// `ENOTSOCK`, `EBADF`.
pub fn peer(socket: i32) -> Result<Peer> {
    let mut cred = libc::ucred { pid: 0, uid: 0, gid: 0 };
    let mut len = size_of::<libc::ucred>() as u32;
    // SAFETY: the kernel writes at most `len` bytes to `cred`, and updates `len`.
    unsafe {
        syscall(
            libc::SYS_getsockopt,
            [
                socket as usize,
                libc::SOL_SOCKET as usize,
                libc::SO_PEERCRED as usize,
                &raw mut cred as usize,
                &raw mut len as usize,
                0,
            ],
        )
    }?;
    Ok(Peer { pid: cred.pid, uid: cred.uid, gid: cred.gid })
}

/// Waits until one of `sockets` can be read or its peer has gone, or `millis` have passed.
/// Answers how many can.
///
/// # Errors
/// `EINTR`, `ENOMEM`.
pub fn wait_any(sockets: &mut [libc::pollfd], millis: i32) -> Result<usize> {
    // SAFETY: the kernel reads and writes the given number of pollfds.
    unsafe {
        syscall(
            libc::SYS_poll,
            [sockets.as_mut_ptr() as usize, sockets.len(), millis as isize as usize, 0, 0, 0],
        )
    }
}
