//! What a slow call was about: the file behind its descriptor, its path, the other end of its socket, its lock.

use crate::call_name;
use crate::slow::Slow;
use crate::waits::{Names, names};
use std::collections::HashMap;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::os::unix::fs::MetadataExt;

/// Sockets whose ends are remembered.
const MOST: usize = 4096;
/// Tables of a network namespace, of sockets that have two ends.
const TABLES: [&str; 4] = ["tcp", "tcp6", "udp", "udp6"];

/// Finds out what calls were about; remembers the ends of sockets.
#[derive(Debug, Default)]
pub(crate) struct Subjects {
    /// The ends of sockets, by their inodes.
    sockets: HashMap<String, String>,
}

impl Subjects {
    /// What the call was about; empty when that is not known.
    pub(crate) fn of(&mut self, slow: &Slow) -> String {
        let name = call_name(slow.number);
        match names(&name) {
            Some(Names::Path) => path(&slow.name_bytes),
            Some(Names::Address) => address(&slow.name_bytes).unwrap_or_default(),
            Some(Names::File) => self.file(slow.pid, slow.arguments[0], &slow.name_bytes),
            None if name.starts_with("futex") => format!("futex {:#x}", slow.arguments[0]),
            None => String::new(),
        }
    }

    /// What the descriptor was; `copied` is what the program has read of the file, inode and name. Its path is looked
    /// up now: if the process has another file there by now, or has ended, the file's own name is all there is.
    fn file(&mut self, pid: u32, descriptor: u64, copied: &[u8]) -> String {
        let place = format!("/proc/{pid}/fd/{}", descriptor as u32);
        let inode = copied.first_chunk().map_or(0, |inode| u64::from_ne_bytes(*inode));
        let name = copied.get(8..).map(path).unwrap_or_default();
        let is_same = || std::fs::metadata(&place).is_ok_and(|now| now.ino() == inode);
        if inode != 0 && !is_same() {
            return name;
        }
        let link = std::fs::read_link(&place);
        let link = link.map_or(name, |path| path.to_string_lossy().into_owned());
        let Some(inode) = link.strip_prefix("socket:[").and_then(|rest| rest.strip_suffix(']')) else {
            return link;
        };
        if self.sockets.len() >= MOST {
            self.sockets.clear();
        }
        let known = self.sockets.entry(inode.to_owned());
        let ends = known.or_insert_with(|| ends(pid, inode).unwrap_or_default());
        if ends.is_empty() { link } else { format!("{link} {ends}") }
    }
}

/// A path up to its NUL.
fn path(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes.split(|byte| *byte == 0).next().unwrap_or_default()).into_owned()
}

/// A `struct sockaddr`: `10.0.0.1:80`, `[::1]:80`, the path of a socket of this machine.
fn address(bytes: &[u8]) -> Option<String> {
    let family = u16::from_ne_bytes(*bytes.first_chunk()?);
    let port = u16::from_be_bytes(*bytes.get(2..)?.first_chunk()?);
    match i32::from(family) {
        libc::AF_INET => {
            let address: [u8; 4] = *bytes.get(4..)?.first_chunk()?;
            Some(format!("{}:{port}", Ipv4Addr::from(address)))
        }
        libc::AF_INET6 => {
            let address: [u8; 16] = *bytes.get(8..)?.first_chunk()?;
            Some(format!("[{}]:{port}", Ipv6Addr::from(address)))
        }
        libc::AF_UNIX => match bytes.get(2..)? {
            [0, rest @ ..] => Some(format!("@{}", path(rest))),
            text => Some(path(text)),
        },
        _ => None,
    }
}

/// The two ends of a socket, `127.0.0.1:5000 to 127.0.0.1:80`, or its path, as the process's network namespace has
/// them.
fn ends(pid: u32, inode: &str) -> Option<String> {
    let table = |name: &str| std::fs::read_to_string(format!("/proc/{pid}/net/{name}")).unwrap_or_default();
    for name in TABLES {
        for line in table(name).lines().skip(1) {
            let words: Vec<&str> = line.split_ascii_whitespace().collect();
            if words.get(9) == Some(&inode) {
                let end = |at: usize| end(words.get(at)?);
                return Some(format!("{} to {}", end(1)?, end(2)?));
            }
        }
    }
    let unix = table("unix");
    let line = unix.lines().skip(1).map(|line| line.split_ascii_whitespace());
    line.map(|words| words.skip(6))
        .find_map(|mut words| (words.next() == Some(inode)).then(|| words.next()))?
        .map(str::to_owned)
}

/// An address of proc_net_tcp(5): `0100007F:1F90`, words of the machine's byte order.
fn end(text: &str) -> Option<String> {
    let (address, port) = text.split_once(':')?;
    let port = u16::from_str_radix(port, 16).ok()?;
    let word = |at: usize| u32::from_str_radix(address.get(at..at + 8)?, 16).ok().map(u32::to_ne_bytes);
    if address.len() == 8 {
        return Some(format!("{}:{port}", Ipv4Addr::from(word(0)?)));
    }
    let bytes = [word(0)?, word(8)?, word(16)?, word(24)?].concat();
    Some(format!("[{}]:{port}", Ipv6Addr::from(<[u8; 16]>::try_from(bytes).ok()?)))
}

/// Whether a read from this file waits for another side.
pub(crate) fn waits(file: &str) -> bool {
    let kinds = ["socket:", "pipe:", "/dev/pts/", "/dev/tty", "anon_inode:"];
    // Of what is closed by now only the name is known: terminals are called `0` and `tty1`.
    let terminal = file.starts_with("tty") || file.bytes().all(|byte| byte.is_ascii_digit());
    terminal || file.starts_with('[') || kinds.iter().any(|kind| file.starts_with(kind))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_read_as_people_write_them() {
        let four = [&[2, 0, 0x1f, 0x90, 127, 0, 0, 1][..], &[0; 8]].concat();
        assert_eq!(address(&four).as_deref(), Some("127.0.0.1:8080"));
        let six = [&[10, 0, 0, 80, 0, 0, 0, 0][..], &[0; 15], &[1, 0, 0]].concat();
        assert_eq!(address(&six).as_deref(), Some("[::1]:80"));
        assert_eq!(address(b"\x01\0/run/x\0junk").as_deref(), Some("/run/x"));
        assert_eq!(address(b"\x01\0\0name\0").as_deref(), Some("@name"));
        assert_eq!((address(&[0; 16]), address(&[])), (None, None));
        assert_eq!(end("0100007F:1F90").as_deref(), Some("127.0.0.1:8080"));
        assert_eq!(end("00000000000000000000000001000000:0050").as_deref(), Some("[::1]:80"));
        assert_eq!(end("nonsense"), None);
    }

    #[test]
    fn a_socket_has_two_ends() {
        use std::os::fd::AsRawFd;
        let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
        let there = listener.local_addr().expect("an address");
        let socket = std::net::TcpStream::connect(there).expect("a connection");
        let here = socket.local_addr().expect("an address");
        let now = Subjects::default().file(std::process::id(), socket.as_raw_fd() as u64, &[]);
        let before = Subjects::default().file(
            std::process::id(),
            socket.as_raw_fd() as u64,
            b"\x01\0\0\0\0\0\0\0before\0",
        );
        assert_eq!(before, "before", "the descriptor is another file by now");
        assert!(now.starts_with("socket:[") && now.ends_with(&format!("{here} to {there}")), "{now}");
    }

    #[test]
    fn reads_of_others_wait() {
        assert!(waits("") && waits("[eventfd]") && waits("0") && !waits("0.log"));
        assert!(
            waits("pipe:[12]") && waits("socket:[1] 127.0.0.1:1 to 127.0.0.1:2") && !waits("/var/lib/data")
        );
    }
}
