//! Users who try to get at recordings that are not theirs, by every way in. They run beside a recording, not in one,
//! but for those that say so.

use crate::hostile::{encode, hello, pair};
use crate::processes::in_child;
use crate::words::Words;
use mote_wire::{Hello, How, Message};
use nix::cmsg_space;
use nix::poll::{PollFd, PollFlags, poll};
use nix::sys::signal::{Signal, kill};
use nix::sys::socket::{
    AddressFamily, Backlog, ControlMessage, ControlMessageOwned, MsgFlags, SockFlag, SockType, UnixAddr,
    UnixCredentials, accept, bind, connect, listen, recv, recvmsg, send, sendmsg, socket,
};
use nix::sys::wait::waitpid;
use nix::unistd::{Gid, Uid, setresgid, setresuid};
use std::io::{IoSlice, IoSliceMut, Write};
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::process::Command;
use std::time::Duration;

/// How long an answer is waited for that must not come, in milliseconds: somebody who is refused is refused at once.
const SILENCE_MS: u16 = 5000;

fn become_user(id: u32) {
    let (user, group) = (Uid::from_raw(id), Gid::from_raw(id));
    nix::unistd::setgroups(&[]).expect("root");
    setresgid(group, group, group).expect("root");
    setresuid(user, user, user).expect("root");
}

/// `liar DIRECTORY`: plays a recorder: listens at `control` in a directory that it makes, says what it is sent, and
/// that it has done what was asked.
pub(crate) fn liar(words: &Words) {
    let directory = Path::new(words.text(0));
    std::fs::create_dir(directory).expect("a directory");
    let listener = UnixListener::bind(directory.join("control")).expect("a socket");
    for (path, mode) in [(directory.to_owned(), 0o755), (directory.join("control"), 0o777)] {
        std::fs::set_permissions(path, PermissionsExt::from_mode(mode)).expect("our own");
    }
    println!("listening 1");
    for mut stream in listener.incoming().map(|stream| stream.expect("a visitor")) {
        let (mut bytes, mut fds) = (Vec::new(), 0);
        // The whole request: who is not listened to asks again.
        while !bytes.contains(&b'\n') {
            let Some((piece, beside)) = piece(&stream) else { break };
            bytes.extend(piece);
            fds += beside.len();
        }
        let _ = stream.write_all(b"{\"done\":true,\"text\":\"\"}\n");
        println!("heard {}\nmailboxes {fds}", bytes.len());
    }
}

/// Some bytes, and the descriptors that came with them; `None` at the end.
fn piece(from: &impl AsRawFd) -> Option<(Vec<u8>, Vec<RawFd>)> {
    let mut bytes = [0; 4096];
    let mut beside = cmsg_space!(UnixCredentials, [RawFd; 8]);
    let mut part = [IoSliceMut::new(&mut bytes)];
    let message = recvmsg::<()>(from.as_raw_fd(), &mut part, Some(&mut beside), MsgFlags::empty()).ok()?;
    let rights = |part| match part {
        ControlMessageOwned::ScmRights(fds) => Some(fds),
        _ => None,
    };
    let fds = message.cmsgs().into_iter().flatten().find_map(rights).unwrap_or_default();
    let len = message.bytes;
    (len > 0).then(|| (bytes[..len].to_vec(), fds))
}

/// `pretend USER`, in a recording: a child that becomes another user says that it is its parent, and goes. Then the
/// parent emits.
pub(crate) fn pretend(words: &Words) {
    let own = std::process::id();
    let child = in_child(|| {
        become_user(words.number(0) as u32);
        let (ours, theirs) = pair();
        let hello = Hello { how: How::Library, pid: own, parent: 1, comm: *b"pretender\0\0\0\0\0\0\0" };
        let rights = [theirs.as_raw_fd()];
        let rights = [ControlMessage::ScmRights(&rights)];
        let letter = encode(&Message::Hello(hello));
        let parts = [IoSlice::new(&letter)];
        let mailbox = crate::hostile::mailbox();
        sendmsg::<()>(mailbox, &parts, &rights, MsgFlags::empty(), None).expect("there is room");
        drop(theirs);
        println!("answered {}", answered(&ours));
    });
    waitpid(child, None).expect("our child");
    for seq in 0..10u64 {
        mote::event!(e2e::honest, seq: u64 = seq);
    }
}

/// What comes as an answer: its bytes, 0 at the end of the connection, or when nothing comes.
fn answered(socket: &OwnedFd) -> usize {
    let mut polled = [PollFd::new(socket.as_fd(), PollFlags::POLLIN)];
    match poll(&mut polled, SILENCE_MS) {
        Ok(1) => recv(socket.as_raw_fd(), &mut [0; 4096], MsgFlags::empty()).unwrap_or(0),
        _ => 0,
    }
}

fn reach(path: &str, kind: SockType) -> Option<OwnedFd> {
    let called = socket(AddressFamily::Unix, kind, SockFlag::SOCK_CLOEXEC, None).expect("a socket");
    connect(called.as_raw_fd(), &UnixAddr::new(path).expect("a path")).ok().map(|()| called)
}

/// `knock USER PATH`: as another user, says hello at the path of a session.
pub(crate) fn knock(words: &Words) {
    become_user(words.number(0) as u32);
    let reached = reach(words.text(1), SockType::SeqPacket);
    println!("reached {}", u8::from(reached.is_some()));
    let answer = reached.map_or(0, |socket| {
        let _ = send(socket.as_raw_fd(), &hello(How::Start), MsgFlags::MSG_NOSIGNAL);
        answered(&socket)
    });
    println!("answered {answer}");
}

/// `ask-as USER PATH`: as another user, asks a recorder how it is.
pub(crate) fn ask_as(words: &Words) {
    become_user(words.number(0) as u32);
    let reached = reach(words.text(1), SockType::Stream);
    println!("reached {}", u8::from(reached.is_some()));
    let answer = reached.map_or(0, |socket| {
        let _ = send(socket.as_raw_fd(), b"{\"ask\":\"status\"}\n", MsgFlags::MSG_NOSIGNAL);
        answered(&socket)
    });
    println!("answered {answer}");
}

/// `intrude USER PID`: takes the mailbox of a recorded process, becomes another user, and says hello.
pub(crate) fn intrude(words: &Words) {
    let environment = std::fs::read(format!("/proc/{}/environ", words.number(1))).expect("it runs");
    let variables = environment.split(|byte| *byte == 0);
    let session =
        variables.into_iter().find_map(|variable| variable.strip_prefix(b"MOTE_SESSION=".as_slice()));
    let session = String::from_utf8(session.expect("it is recorded").to_vec()).expect("text");
    let number: i32 = session.split(',').nth(1).and_then(|number| number.parse().ok()).expect("a number");
    // SAFETY: takes no memory.
    let pid = unsafe { libc::syscall(libc::SYS_pidfd_open, words.number(1), 0) };
    // SAFETY: takes no memory.
    let taken = unsafe { libc::syscall(libc::SYS_pidfd_getfd, pid, number, 0) };
    assert!(taken >= 0, "{}", std::io::Error::last_os_error());
    // SAFETY: just made, and nobody else's.
    let mailbox = unsafe { OwnedFd::from_raw_fd(taken as RawFd) };
    become_user(words.number(0) as u32);
    let (ours, theirs) = pair();
    let rights = [theirs.as_raw_fd()];
    let rights = [ControlMessage::ScmRights(&rights)];
    let letter = hello(How::Start);
    let parts = [IoSlice::new(&letter)];
    sendmsg::<()>(mailbox.as_raw_fd(), &parts, &rights, MsgFlags::empty(), None).expect("there is room");
    drop(theirs);
    println!("answered {}", answered(&ours));
}

/// `trickle PATH`: begins a request, and sends a byte of it now and then, until it is sent away.
pub(crate) fn trickle(words: &Words) {
    let mut stream = UnixStream::connect(words.text(0)).expect("somebody listens");
    stream.write_all(b"{").expect("somebody listens");
    println!("started 1");
    while stream.write_all(b" ").is_ok() {
        std::thread::sleep(Duration::from_millis(20));
    }
    println!("sent-away 1");
}

/// `flood USER PROGRAMS`, in a recording: a child that becomes another user fills the mailbox, and its own connections,
/// for as long as it lives; meanwhile programs start, one after the other.
pub(crate) fn flood(words: &Words) {
    let (user, programs) = (words.number(0) as u32, words.number(1));
    let flooders: Vec<_> = (0..2).map(|_| in_child(|| pour(user))).collect();
    let own = std::env::current_exe().expect("known");
    for _ in 0..programs {
        let status = Command::new(&own).args(["count", "100"]).status().expect("it starts");
        assert!(status.success());
    }
    for pid in flooders {
        kill(pid, Signal::SIGKILL).expect("our child");
        waitpid(pid, None).expect("our child");
    }
}

fn pour(user: u32) {
    become_user(user);
    let mailbox = crate::hostile::mailbox();
    let mut connections = Vec::new();
    let nonsense = vec![b'x'; 200];
    let texts = b"\0".repeat(30_000);
    let events = encode(&Message::Events { count: 30_000, has_more: false, texts: &texts });
    for turn in 0u64.. {
        let (ours, theirs) = pair();
        let rights = [theirs.as_raw_fd()];
        let rights = [ControlMessage::ScmRights(&rights)];
        let how = if turn % 2 == 0 { How::Fork } else { How::Library };
        let letter = if turn % 3 == 0 { nonsense.clone() } else { hello(how) };
        let sent = sendmsg::<()>(mailbox, &[IoSlice::new(&letter)], &rights, MsgFlags::MSG_DONTWAIT, None);
        if sent.is_ok() && connections.len() < 20 {
            connections.push(ours);
        }
        for to in &connections {
            let _ = send(to.as_raw_fd(), &events, MsgFlags::MSG_NOSIGNAL | MsgFlags::MSG_DONTWAIT);
        }
    }
}

/// `hoard USER CONNECTIONS PROGRAMS`, in a recording: a child that becomes another user says hello so many times and
/// keeps all connections; then programs start.
pub(crate) fn hoard(words: &Words) {
    let (user, connections, programs) = (words.number(0) as u32, words.number(1), words.number(2));
    let (said, heard) = pair();
    let child = in_child(move || {
        become_user(user);
        let mailbox = crate::hostile::mailbox();
        let mut kept = Vec::new();
        for _ in 0..connections {
            let (ours, theirs) = pair();
            let rights = [theirs.as_raw_fd()];
            let rights = [ControlMessage::ScmRights(&rights)];
            let letter = hello(How::Fork);
            sendmsg::<()>(mailbox, &[IoSlice::new(&letter)], &rights, MsgFlags::empty(), None).expect("room");
            kept.push(ours);
        }
        let _ = send(said.as_raw_fd(), b"all", MsgFlags::empty());
        std::thread::sleep(Duration::from_secs(60));
    });
    let _ = recv(heard.as_raw_fd(), &mut [0; 8], MsgFlags::empty());
    let own = std::env::current_exe().expect("known");
    for _ in 0..programs {
        let status = Command::new(&own).args(["count", "100"]).status().expect("it starts");
        assert!(status.success());
    }
    kill(child, Signal::SIGKILL).expect("our child");
    waitpid(child, None).expect("our child");
}

/// `hush PATH CONNECTIONS`: connects so many times to a session, and says nothing.
pub(crate) fn hush(words: &Words) {
    let connected: Vec<_> =
        (0..words.number(1)).filter_map(|_| reach(words.text(0), SockType::SeqPacket)).collect();
    println!("connected {}", connected.len());
    std::thread::sleep(Duration::from_secs(60));
}

/// `false-session DIRECTORY`: plays a session: listens at `session` in a directory that it makes, and says what it is
/// sent.
pub(crate) fn false_session(words: &Words) {
    let directory = Path::new(words.text(0));
    std::fs::create_dir(directory).expect("a directory");
    let path = directory.join("session");
    let listener = socket(AddressFamily::Unix, SockType::SeqPacket, SockFlag::SOCK_CLOEXEC, None);
    let listener = listener.expect("a socket");
    bind(listener.as_raw_fd(), &UnixAddr::new(&path).expect("a path")).expect("our own");
    listen(&listener, Backlog::new(8).expect("few")).expect("a socket");
    for (path, mode) in [(directory, 0o755), (&path, 0o777)] {
        std::fs::set_permissions(path, PermissionsExt::from_mode(mode)).expect("our own");
    }
    println!("listening 1");
    while let Ok(visitor) = accept(listener.as_raw_fd()) {
        // SAFETY: just made, and nobody else's.
        let visitor = unsafe { OwnedFd::from_raw_fd(visitor) };
        println!("visited 1");
        println!("heard {}", answered(&visitor));
    }
}

/// `false-mailbox USER PROGRAM WORDS...`: becomes a program whose mailbox is another user's, who welcomes it and says
/// what it answers.
pub(crate) fn false_mailbox(words: &Words) {
    let (ours, theirs) = pair();
    let child = in_child(|| {
        become_user(words.number(0) as u32);
        println!("answered-with {}", welcome(&ours));
    });
    drop(ours);
    let inode = nix::sys::stat::fstat(&theirs).expect("it is open").st_ino;
    // SAFETY: the number is open, and stays so.
    unsafe { libc::fcntl(theirs.as_raw_fd(), libc::F_SETFD, 0) };
    let place = format!("{},{},{inode},", mote_wire::VERSION, theirs.as_raw_fd());
    let mut command = Command::new(words.text(1));
    command.args((2..).map(|index| words.text(index)).take_while(|word| !word.is_empty()));
    let status = command.env(mote_wire::ENVIRONMENT, place).status().expect("it starts");
    println!("status {}", status.code().unwrap_or(-1));
    waitpid(child, None).expect("our child");
}

/// Welcomes who says hello in a mailbox; the kind of message that is the answer to it, 0 for none.
fn welcome(mailbox: &OwnedFd) -> u32 {
    let (_, fds) = piece(mailbox).expect("somebody says hello");
    let socket = *fds.first().expect("a socket");
    // Whatever comes beside it: it must not be looked at.
    let null = std::fs::File::open("/dev/null").expect("it is there");
    let letter = encode(&Message::Stop);
    let rights = [null.as_raw_fd()];
    let rights = [ControlMessage::ScmRights(&rights)];
    sendmsg::<()>(socket, &[IoSlice::new(&letter)], &rights, MsgFlags::empty(), None).expect("it waits");
    let mut answer = [0; 4096];
    match recv(socket, &mut answer, MsgFlags::empty()) {
        Ok(len) if len >= 4 => u32::from_le_bytes([answer[0], answer[1], answer[2], answer[3]]),
        _ => 0,
    }
}
