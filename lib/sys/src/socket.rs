//! Unix sockets of whole messages (`SOCK_SEQPACKET`) that carry descriptors, and say which process has sent each
//! message.

use crate::arch;
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

/// Connects to the socket at `path` (at most 107 bytes, no NUL), without waiting for a listener that is busy. Later
/// calls on the socket do not block.
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
    /// Returns `EAGAIN` at once.
    No,
}

/// Process, user and group at the other end of a socket, as the kernel vouches for them, in our namespaces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Credentials {
    /// Process id in our namespace, 0 when it is not visible here.
    pub pid: i32,
    /// User id; that of nobody ([`crate::user::overflow`]) when the user has no number here.
    pub uid: u32,
    /// Group id, likewise.
    pub gid: u32,
}

/// A received message: how many bytes, which process has sent it, and the descriptors that came with it.
#[derive(Debug)]
pub struct Received {
    /// Bytes of the message; 0 when the peer has closed.
    pub len: usize,
    /// The message or what came beside it did not fit and was cut.
    pub truncated: bool,
    /// The sender, if [`pass_credentials`] was asked for: its *real* user and group at that time. Of a message that was
    /// sent before that was asked for, process 0 of the overflow user.
    pub sender: Option<Credentials>,
    /// The descriptors, in order, then `None`s. Those that are not taken are closed when this is dropped.
    pub fds: [Option<Fd>; FDS_MAX],
}

/// Receives one message.
///
/// # Errors
/// `EAGAIN` with `wait == Wait::No`, `EINTR`, `ECONNRESET`.
pub fn receive(socket: i32, into: &mut [u8], wait: Wait) -> Result<Received> {
    let mut control = Ancillary([0; ANCILLARY_BYTES]);
    let part = libc::iovec { iov_base: into.as_mut_ptr().cast(), iov_len: into.len() };
    let mut message = empty_message();
    message.msg_iov = (&raw const part).cast_mut();
    message.msg_iovlen = 1;
    message.msg_control = control.0.as_mut_ptr().cast();
    message.msg_controllen = ANCILLARY_BYTES;
    let flags = libc::MSG_CMSG_CLOEXEC | if wait == Wait::No { libc::MSG_DONTWAIT } else { 0 };
    // SAFETY: the kernel writes to `into` and `control` within the lengths given.
    let len = unsafe {
        syscall(libc::SYS_recvmsg, [socket as usize, &raw mut message as usize, flags as usize, 0, 0, 0])
    }?;
    let truncated = message.msg_flags & (libc::MSG_TRUNC | libc::MSG_CTRUNC) != 0;
    let mut received = Received { len, truncated, sender: None, fds: [const { None }; FDS_MAX] };
    received.take_in(control.0.get(..message.msg_controllen).unwrap_or(&[]));
    Ok(received)
}

/// Room for all that may come beside a message: descriptors, credentials, and the descriptor of the sender's process,
/// which the maker of the socket can have asked for (`SO_PASSPIDFD`, Linux 6.5). What is longer the kernel cuts, and
/// closes.
const ANCILLARY_BYTES: usize = 128;
/// Header of each part: its length with this header, level, kind (cmsg(3)).
const PART_HEADER: usize = 16;
/// Kind of a part that is a descriptor of the sender's process (`linux/socket.h`).
const SCM_PIDFD: i32 = 4;

#[repr(C, align(8))]
struct Ancillary([u8; ANCILLARY_BYTES]);

impl Received {
    /// Takes in what came beside the message. Every descriptor that the kernel has given us gets an owner here, or is
    /// closed.
    fn take_in(&mut self, mut parts: &[u8]) {
        while let Some((kind, body)) = next_part(&mut parts) {
            match kind {
                (libc::SOL_SOCKET, libc::SCM_RIGHTS) => {
                    let mut places = self.fds.iter_mut().filter(|place| place.is_none());
                    for raw in words(body) {
                        let fd = Fd::from_raw(raw as i32);
                        // Without a place it is closed.
                        if let Some(place) = places.next() {
                            *place = Some(fd);
                        }
                    }
                }
                (libc::SOL_SOCKET, SCM_PIDFD) => {
                    // An error number below 0 stands for none.
                    words(body).filter(|raw| *raw as i32 >= 0).for_each(|raw| drop(Fd::from_raw(raw as i32)));
                }
                (libc::SOL_SOCKET, libc::SCM_CREDENTIALS) => {
                    let mut words = words(body);
                    if let (Some(pid), Some(uid), Some(gid)) = (words.next(), words.next(), words.next()) {
                        self.sender = Some(Credentials { pid: pid as i32, uid, gid });
                    }
                }
                _ => {}
            }
        }
    }
}

/// The next part of what came beside a message: level and kind, and its bytes.
fn next_part<'p>(parts: &mut &'p [u8]) -> Option<((i32, i32), &'p [u8])> {
    let (header, _) = parts.split_first_chunk::<PART_HEADER>()?;
    let (len, kind) = header.split_first_chunk::<8>()?;
    let len = usize::from_ne_bytes(*len);
    let mut kind = words(kind);
    let kind = (kind.next()? as i32, kind.next()? as i32);
    let body = parts.get(PART_HEADER..len)?;
    // Parts are aligned; the last one need not be filled up.
    *parts = parts.get(len.checked_add(7)? & !7..).unwrap_or(&[]);
    Some((kind, body))
}

fn words(bytes: &[u8]) -> impl Iterator<Item = u32> {
    bytes.as_chunks::<4>().0.iter().map(|word| u32::from_ne_bytes(*word))
}

/// Has the kernel say with each message that is received here which process has sent it ([`Received::sender`]); also
/// with those that are sent from here, whatever the other end has asked for. A socket that listens passes this on to
/// the connections.
///
/// # Errors
/// `ENOTSOCK`, `EBADF`; `EOPNOTSUPP` for what is no unix socket, on newer kernels.
pub fn pass_credentials(socket: i32) -> Result<()> {
    let on = 1i32;
    let (level, name) = (libc::SOL_SOCKET as usize, libc::SO_PASSCRED as usize);
    // SAFETY: the kernel reads the four bytes of `on`.
    unsafe {
        syscall(
            libc::SYS_setsockopt,
            [socket as usize, level, name, &raw const on as usize, size_of_val(&on), 0],
        )
    }
    .map(drop)
}

/// Whether a descriptor is a unix socket of whole messages, as [`pair`] makes them.
pub fn is_messages(socket: i32) -> bool {
    option::<i32>(socket, libc::SO_DOMAIN) == Ok(libc::AF_UNIX)
        && option::<i32>(socket, libc::SO_TYPE) == Ok(libc::SOCK_SEQPACKET)
}

/// Values of options: any bytes are one.
trait Plain: Copy + Default {}
impl Plain for i32 {}
/// `ucred`: process, user, group.
impl Plain for [u32; 3] {}

/// An option of the socket's level.
fn option<T: Plain>(socket: i32, name: i32) -> Result<T> {
    let mut value = T::default();
    let mut len = size_of::<T>() as u32;
    // SAFETY: the kernel writes at most `len` bytes to `value`, of which any bytes are a value (`Plain`), and updates
    // `len`.
    unsafe {
        syscall(
            libc::SYS_getsockopt,
            [
                socket as usize,
                libc::SOL_SOCKET as usize,
                name as usize,
                &raw mut value as usize,
                &raw mut len as usize,
                0,
            ],
        )
    }?;
    Ok(value)
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
    let ready = unsafe { arch::poll(&raw mut poll, 1, millis) }?;
    Ok(ready > 0)
}

/// The process that has connected or listened at the other end, by its *effective* user and group at that time; of a
/// socketpair the one that has made the pair, which need not be the one that holds the end now.
///
/// # Errors
/// `ENOTSOCK`, `EBADF`.
pub fn peer(socket: i32) -> Result<Credentials> {
    let [pid, uid, gid] = option::<[u32; 3]>(socket, libc::SO_PEERCRED)?;
    Ok(Credentials { pid: pid as i32, uid, gid })
}

/// Waits until one of `sockets` can be read or its peer has gone, or `millis` have passed.
/// Returns how many can.
///
/// # Errors
/// `EINTR`, `ENOMEM`.
pub fn wait_any(sockets: &mut [libc::pollfd], millis: i32) -> Result<usize> {
    // SAFETY: the kernel reads and writes the given number of pollfds.
    unsafe { arch::poll(sockets.as_mut_ptr(), sockets.len(), millis) }
}
