//! Traced processes that lie: garbage in the rings, garbage in the handshake.

use crate::words::Words;
use mote_wire::{Hello, How, MESSAGE_MAX, Message, Ready};
use nix::sched::{CpuSet, sched_setaffinity};
use nix::sys::socket::{
    AddressFamily, ControlMessage, MsgFlags, Shutdown, SockFlag, SockType, recv, send, sendmsg, setsockopt,
    shutdown, socketpair, sockopt::PassCred,
};
use nix::unistd::Pid;
use std::io::IoSlice;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::time::Duration;

/// A sequence of numbers that depends on nothing but its seed.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn below(&mut self, bound: usize) -> usize {
        (self.next() % bound.max(1) as u64) as usize
    }
}

/// Where the session's channel is mapped, found as any program could find it.
fn channel() -> Option<(usize, usize)> {
    let maps = std::fs::read_to_string("/proc/self/maps").ok()?;
    let line = maps.lines().find(|line| line.contains("mote-channel"))?;
    let (from, to) = line.split_once(' ')?.0.split_once('-')?;
    Some((usize::from_str_radix(from, 16).ok()?, usize::from_str_radix(to, 16).ok()?))
}

/// `scribble SEED HOW`: emits, and meanwhile writes garbage into the channel: all over (`all`), into the control words
/// (`control`), or into what was just written (`records`).
pub(crate) fn scribble(words: &Words) {
    let mut random = Random(words.number(0) | 1);
    let (from, to) = channel().expect("the channel is mapped");
    // The thread table is 128 KiB, the control words follow; data comes after at least one page of them.
    let (low, high) = match words.text(1) {
        "control" => (128 << 10, (128 << 10) + 8192),
        "records" => ((128 << 10) + 4096, (to - from).min(1 << 20)),
        _ => (0, to - from),
    };
    println!("mapped {}", to - from);
    for seq in 0..2000u64 {
        mote::event!(e2e::scribbled, seq: u64 = seq, text: &str = "good");
        for _ in 0..20 {
            let at = from + low + random.below(high - low - 8) / 8 * 8;
            let value = match random.next() % 4 {
                0 => random.next(),
                1 => u64::MAX,
                2 => random.next() % 70_000,
                _ => 0,
            };
            // SAFETY: inside the mapping, which stays; that it is not ours to write to is the point.
            unsafe { std::ptr::with_exposed_provenance_mut::<u64>(at).write_volatile(value) };
        }
        if seq % 100 == 0 {
            std::thread::sleep(Duration::from_millis(2));
        }
    }
}

/// Bytes of a ring's control words, behind the thread table: 256, and 64 for each sub-buffer.
fn control_bytes(sub_buffers: usize) -> usize {
    (256 + 64 * sub_buffers).next_multiple_of(128)
}

/// `scribble-counts SUB_BUFFERS VALUE`: emits, writes a value into the counters of lost events of all rings of CPUs,
/// which have so many sub-buffers, and emits again.
pub(crate) fn scribble_counts(words: &Words) {
    let (from, _) = channel().expect("the channel is mapped");
    let cpus = std::thread::available_parallelism().map_or(1, usize::from);
    let control = control_bytes(words.number(0) as usize);
    (0..100u64).for_each(|seq| mote::event!(e2e::scribbled, seq: u64 = seq));
    for (ring, cause) in (0..cpus).flat_map(|ring| [(ring, 0), (ring, 1)]) {
        let at = from + (128 << 10) + ring * control + 64 + 8 * cause;
        // SAFETY: inside the mapping, which stays; that it is not ours to write to is the point.
        unsafe { std::ptr::with_exposed_provenance_mut::<u64>(at).write_volatile(words.number(1)) };
    }
    (100..200u64).for_each(|seq| mote::event!(e2e::scribbled, seq: u64 = seq));
    println!("emitted 200");
}

/// Number of the session's mailbox.
pub(crate) fn mailbox() -> RawFd {
    let session = std::env::var("MOTE_SESSION").expect("traced");
    session.split(',').nth(1).and_then(|number| number.parse().ok()).expect("a number")
}

/// Sockets as a process of a session makes them: each message says who has sent it.
pub(crate) fn pair() -> (OwnedFd, OwnedFd) {
    let pair = socketpair(AddressFamily::Unix, SockType::SeqPacket, None, SockFlag::SOCK_CLOEXEC);
    let (ours, theirs) = pair.expect("a pair");
    setsockopt(&ours, PassCred, &true).expect("it is a socket");
    (ours, theirs)
}

/// Puts bytes into the mailbox, with descriptors.
fn post(bytes: &[u8], fds: &[RawFd]) {
    let rights = [ControlMessage::ScmRights(fds)];
    let rights = if fds.is_empty() { &rights[..0] } else { &rights[..] };
    for _ in 0..60_000 {
        match sendmsg::<()>(mailbox(), &[IoSlice::new(bytes)], rights, MsgFlags::MSG_DONTWAIT, None) {
            Err(nix::errno::Errno::EAGAIN) => std::thread::sleep(Duration::from_millis(1)),
            _ => return,
        }
    }
}

pub(crate) fn hello(how: How) -> Vec<u8> {
    encode(&Message::Hello(Hello {
        how,
        pid: std::process::id(),
        parent: 1,
        comm: *b"liar\xff\xfe\n\"\\ 456789",
    }))
}

pub(crate) fn encode(message: &Message<'_>) -> Vec<u8> {
    let mut buffer = vec![0; MESSAGE_MAX];
    message.encode(&mut buffer).expect("it fits").to_vec()
}

/// Says hello as a process of its own; returns its end, behind the welcome.
fn introduce(how: How) -> OwnedFd {
    let (ours, theirs) = pair();
    post(&hello(how), &[theirs.as_raw_fd()]);
    if how == How::Start {
        let mut buffer = [0; 256];
        let _ = recv(ours.as_raw_fd(), &mut buffer, MsgFlags::empty());
    }
    ours
}

fn say(to: &OwnedFd, bytes: &[u8]) {
    let _ = send(to.as_raw_fd(), bytes, MsgFlags::MSG_NOSIGNAL | MsgFlags::MSG_DONTWAIT);
}

fn say_events(to: &OwnedFd, count: u32, texts: &[u8]) {
    say(to, &encode(&Message::Events { count, has_more: false, texts }));
}

/// Every lie in the handshake that we could think of; then honest events.
pub(crate) fn lie() {
    lie_at_the_door();
    lie_inside();
    for seq in 0..100u64 {
        mote::event!(e2e::honest, seq: u64 = seq);
    }
}

fn lie_at_the_door() {
    let null = std::fs::File::open("/dev/null").expect("it is there");
    let mut random = Random(4711);
    for len in [0, 1, 3, 4, 36, 255, 256, 257, 5000] {
        let noise: Vec<u8> = (0..len).map(|_| random.next() as u8).collect();
        post(&noise, &[]);
        post(&noise, &[null.as_raw_fd()]);
        let (_ours, theirs) = pair();
        post(&noise, &[theirs.as_raw_fd()]);
    }
    for how in [How::Start, How::Fork, How::Library] {
        post(&hello(how), &[]);
        post(&hello(how), &[null.as_raw_fd()]);
        post(&hello(how), &[null.as_raw_fd(); 8]);
        let (ours, theirs) = pair();
        drop(ours);
        post(&hello(how), &[theirs.as_raw_fd()]);
    }
    let mut other_version = hello(How::Start);
    other_version[4] = 99;
    let (_ours, theirs) = pair();
    post(&other_version, &[theirs.as_raw_fd()]);
}

fn lie_inside() {
    let text = b"mote1\nliar:one\n6 f.rs:1\n\na u32\n\0";
    // Counts that are wrong, texts that are none, text without an end.
    let peer = introduce(How::Start);
    say_events(&peer, u32::MAX, text);
    say_events(&peer, 0, text);
    say_events(&peer, 3, b"");
    say_events(&peer, 1, b"mote1\nliar:endless");
    say_events(&peer, 4, b"\0\0\xff\xfe\0mote9\nx\0");
    say(
        &peer,
        &encode(&Message::Ready(Ready {
            sites: 1,
            armed: u32::MAX,
            failed: u32::MAX,
            errno: u32::MAX,
            replaces: 0x1000,
            late_ms: 0,
        })),
    );
    say(&peer, &hello(How::Start));
    // Messages that are the session's to send, and empty ones.
    for message in [Message::Stop, Message::Ids(&[1, 2, 3])] {
        say(&introduce(How::Fork), &encode(&message));
    }
    say(&introduce(How::Library), &[]);
    // One who says everything and listens to nothing.
    let deaf = introduce(How::Start);
    for _ in 0..500 {
        say_events(&deaf, 1, text);
    }
    // Crowds that come and say nothing.
    let crowd: Vec<(OwnedFd, OwnedFd)> = (0..100).map(|_| pair()).collect();
    crowd.iter().for_each(|(_, theirs)| post(&hello(How::Library), &[theirs.as_raw_fd()]));
    std::thread::sleep(Duration::from_millis(50));
}

/// `nag COUNT`: so many events that nobody can record; then another process has one such event, too.
pub(crate) fn nag(words: &Words) {
    let peer = introduce(How::Start);
    let bad = encode(&Message::Events { count: 1, has_more: false, texts: b"mote9\nx\0" });
    for _ in 0..words.number(0) {
        let _ = send(peer.as_raw_fd(), &bad, MsgFlags::MSG_NOSIGNAL);
    }
    println!("pid {}", std::process::id());
    if words.number(0) > 1 {
        let own = std::env::current_exe().expect("known");
        let mut other = std::process::Command::new(own).args(["nag", "1"]).spawn().expect("it starts");
        println!("other {}", other.id());
        let _ = other.wait();
    }
}

/// Descriptions that are well formed, but whose names and types a trace format could stumble over.
pub(crate) fn odd_names() {
    let peer = introduce(How::Start);
    let fields = "struct u8\n1st u16\nint u32\n__x u64\né u8\na.b u8\na-b u8\nevent u8\nstream i8\n; i8\n}; i8\n_ i8\nstring str\n";
    let odd: Vec<String> = [
        "liar:same\n6 f.rs:1\n\na u32\na u32\na_length u8\na u8[]\n",
        "liar:/*comment\n6 f.rs:1\n*/\nx u8\n",
        "liar:é{};=\n6 f.rs:1\n\n",
        "a:b:c:d\n0 \":9\n\"\\\nx u8\n",
        "liar:labels\n14 f:1\n\ne enum u8 a=0 a=1 b=0..255 struct=-5 é;=7\n",
        "liar:wide\n14 f:1\n\ne enum x64 all=-9223372036854775808..9223372036854775807\n",
        "liar:empty_enum\n14 f:1\n\ne enum i8 \n",
        "liar:large\n14 f:1\n\na u8[65536]\nb u8[0]\nc f64[3]\n",
        &format!("liar:fields\n6 f:1\n\n{fields}"),
    ]
    .iter()
    .map(|text| format!("mote1\n{text}\0"))
    .collect();
    for text in &odd {
        say_events(&peer, 1, text.as_bytes());
    }
    std::thread::sleep(Duration::from_millis(100));
    println!("announced {}", odd.len());
    for seq in 0..10u64 {
        mote::event!(e2e::honest, seq: u64 = seq);
    }
}

/// Shuts the mailbox for everybody, then starts another program, which must find its way in; and stays for a while,
/// in which the recorder must not spin.
pub(crate) fn silent() {
    let _ = shutdown(mailbox(), Shutdown::Both);
    let own = std::env::current_exe().expect("known");
    let status = std::process::Command::new(own).args(["count", "10"]).status().expect("it starts");
    std::thread::sleep(Duration::from_millis(700));
    println!("status {}", status.code().unwrap_or(-1));
}

/// `neighbours USER HOW`, in rings of eight sub-buffers: a program of a user, if that is another one, and a child of it
/// that damages the rings that both share: punches a hole into them (`hole`), or sets their positions back (`back`).
/// Meanwhile the program numbers its events; it stops with SIGTERM, and then emits a thousand others.
pub(crate) fn neighbours(words: &Words) {
    crate::sessions::begin();
    if words.number(0) != 0 {
        crate::privileges::become_user(words.number(0) as u32);
    }
    // What the rings are shared by is a program of the user: this one came as root.
    if std::env::var_os("MOTE_NEIGHBOUR").is_none() {
        let own = std::env::current_exe().expect("known");
        let mut command = std::process::Command::new(own);
        command.args(["neighbours", "0", words.text(1)]).env("MOTE_NEIGHBOUR", "1");
        panic!("{}", std::os::unix::process::CommandExt::exec(&mut command));
    }
    stay_on_first_cpu();
    let emit = |seq| mote::event!(e2e::honest, seq: u64 = seq);
    (0..1000).for_each(emit);
    let how = words.text(1).to_owned();
    let child = crate::processes::in_child(|| damage(&how));
    nix::sys::wait::waitpid(child, None).expect("a child");
    let mut seq = 1000;
    // Some of them in any case: those before may all be gone.
    while seq < 3000 || !crate::sessions::is_over() {
        emit(seq);
        seq += 1;
        std::thread::sleep(Duration::from_micros(200));
    }
    println!("honest {seq}");
    (0..1000u64).for_each(|seq| mote::event!(e2e::afterwards, seq: u64 = seq));
}

/// Writes to the first ring only from now on.
fn stay_on_first_cpu() {
    let mut first = CpuSet::new();
    first.set(0).expect("a CPU's number");
    sched_setaffinity(Pid::from_raw(0), &first).expect("CPU 0 is ours, too");
}

fn damage(how: &str) {
    let (from, to) = channel().expect("the channel is mapped");
    // Until it is noticed, whatever was read by then.
    for _ in 0..20 {
        if how == "hole" {
            let at = std::ptr::with_exposed_provenance_mut(from);
            // SAFETY: a mapping that stays; others' data in it is the point.
            unsafe { libc::madvise(at, to - from, libc::MADV_REMOVE) };
        } else {
            // The first ring's control words begin behind the thread table of 128 KiB.
            let at = std::ptr::with_exposed_provenance_mut::<u64>(from + (128 << 10));
            // SAFETY: inside of the mapping; that it is not ours to write to is the point.
            let now = unsafe { at.read_volatile() };
            // SAFETY: as above.
            unsafe { at.write_volatile(now / 2) };
        }
        std::thread::sleep(Duration::from_millis(10));
    }
}
