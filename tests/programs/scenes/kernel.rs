//! What the kernel sees of a program.

use crate::words::Words;
use nix::sys::socket::{
    AddressFamily, Backlog, SockFlag, SockType, SockaddrIn6, UnixAddr, bind, connect, listen, socket,
};
use std::io::Write;
use std::net::{SocketAddrV6, TcpListener, TcpStream, UdpSocket};
use std::os::fd::AsRawFd;
use std::time::Duration;

/// A system call that nobody else makes.
fn call() {
    let _ = nix::unistd::getsid(None);
}

/// `calls N`: an event, a system call, an event; says when it has come to a thousand.
pub(crate) fn calls(words: &Words) {
    println!("pid {}", std::process::id());
    for seq in 0..words.number(0) {
        if seq == 1000 {
            println!("thousand 1");
        }
        mote::event!(e2e::before, seq: u64 = seq);
        call();
        mote::event!(e2e::after, seq: u64 = seq);
    }
}

/// `numbered-calls THREADS CALLS`: each thread stays on a CPU, and seeks in files that are not there, to 0 and on.
pub(crate) fn numbered_calls(words: &Words) {
    let (threads, calls) = (words.number(0), words.number(1));
    let cpus = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        for who in 0..threads {
            scope.spawn(move || {
                crate::threads::pin(&[who as usize % cpus]);
                for seq in 0..calls {
                    // SAFETY: it takes numbers, and there is no such file.
                    unsafe { libc::lseek(1_000_000 + who as i32, seq as i64, libc::SEEK_SET) };
                }
            });
        }
    });
    println!("each {calls}");
}

/// `naps N SLOW`: an event, a sleep of 1 ms (that number SLOW of 40 ms), an event.
pub(crate) fn naps(words: &Words) {
    println!("pid {}", std::process::id());
    for seq in 0..words.number(0) {
        mote::event!(e2e::before, seq: u64 = seq);
        std::thread::sleep(Duration::from_millis(if seq == words.number(1) { 40 } else { 1 }));
        mote::event!(e2e::after, seq: u64 = seq);
    }
}

/// `calls-until-killed`: a system call each millisecond.
pub(crate) fn until_killed() {
    println!("pid {}", std::process::id());
    loop {
        call();
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// `calling-threads N CALLS`: threads that live at the same time, each with its calls.
pub(crate) fn calling_threads(words: &Words) {
    let (threads, calls) = (words.number(0), words.number(1));
    let all = std::sync::Barrier::new(threads as usize);
    std::thread::scope(|scope| {
        for _ in 0..threads {
            let thread = std::thread::Builder::new().stack_size(64 << 10);
            let run = || {
                all.wait();
                (0..calls).for_each(|_| call());
                all.wait();
            };
            thread.spawn_scoped(scope, run).expect("a thread");
        }
    });
    println!("calls {}", threads * calls);
}

/// `calls-while PATH`: two threads make calls while the file is there.
pub(crate) fn calls_while(words: &Words) {
    let calls = || {
        let mut calls = 0;
        while std::path::Path::new(words.text(0)).exists() {
            (0..64).for_each(|_| call());
            calls += 64;
            std::thread::sleep(Duration::from_millis(1));
        }
        calls
    };
    println!("pid {}", std::process::id());
    let _ = std::io::stdout().flush();
    let sum: u64 = std::thread::scope(|scope| {
        let other = scope.spawn(calls);
        calls() + other.join().expect("it counts")
    });
    println!("calls {sum}");
}

/// `as-process PID CALLS`: has a child with that id make the calls.
pub(crate) fn as_process(words: &Words) {
    let pid = words.number(0) as libc::pid_t;
    let set_tid = [pid];
    let mut arguments = libc::clone_args {
        flags: 0,
        pidfd: 0,
        child_tid: 0,
        parent_tid: 0,
        exit_signal: libc::SIGCHLD as u64,
        stack: 0,
        stack_size: 0,
        tls: 0,
        set_tid: set_tid.as_ptr() as u64,
        set_tid_size: 1,
        cgroup: 0,
    };
    // SAFETY: as fork(2): no stack is given, no memory is shared; the scene has one thread.
    let child = unsafe { libc::syscall(libc::SYS_clone3, &raw mut arguments, size_of_val(&arguments)) };
    if child == 0 {
        (0..words.number(1)).for_each(|_| call());
        // SAFETY: ends the child without running the parent's exit handlers twice.
        unsafe { libc::_exit(0) }
    }
    assert_eq!(child, i64::from(pid), "clone3: {}", std::io::Error::last_os_error());
    nix::sys::wait::waitpid(nix::unistd::Pid::from_raw(pid), None).expect("a child");
    println!("child {pid}");
}

/// `opens PATH`: opens it for reading, then something that is not there.
pub(crate) fn opens(words: &Words) {
    println!("pid {}", std::process::id());
    let _ = std::io::stdout().flush();
    let _ = std::fs::File::open(words.text(0));
    let _ = std::fs::File::open("/no/such/file");
}

/// `sockets PATH NAME ADDRESS...`: connections over the internet's families, over a unix socket there, and to one with
/// this name, of which the client has one, too; datagrams; then attempts to reach these IPv6 addresses, and one that is
/// not in its memory. Says its ports.
pub(crate) fn sockets(words: &Words) {
    println!("pid {}", std::process::id());
    internet("four", "127.0.0.1:0");
    internet("six", "[::1]:0");
    unix(&UnixAddr::new(words.text(0)).expect("a path"), None);
    let name = |suffix: &str| {
        UnixAddr::new_abstract(format!("{}{suffix}", words.text(1)).as_bytes()).expect("a name")
    };
    unix(&name(""), Some(name("-client")));
    let socket = UdpSocket::bind("127.0.0.1:0").expect("a port");
    let own = socket.local_addr().expect("it has one");
    println!("datagram {}", own.port());
    socket.send_to(b"to myself", own).expect("it is sent");
    socket.recv_from(&mut [0; 16]).expect("it is there");
    for address in &words.0[2..] {
        let address = SocketAddrV6::new(address.parse().expect("an address"), 4711, 0, 0);
        // Whether it can be reached, and whether the machine has that family at all, is not what this is about.
        let _ = connect(socket.as_raw_fd(), &SockaddrIn6::from(address));
    }
    let nowhere = std::ptr::without_provenance(64);
    // SAFETY: the kernel only reads there, and says that it cannot.
    assert_eq!(unsafe { libc::connect(socket.as_raw_fd(), nowhere, 16) }, -1);
}

fn internet(name: &str, any: &str) {
    let Ok(listener) = TcpListener::bind(any) else { return println!("{name}-server 0") };
    let there = listener.local_addr().expect("it has one");
    let _client = TcpStream::connect(there).expect("it listens");
    let (_server, peer) = listener.accept().expect("it has connected");
    println!("{name}-server {}\n{name}-client {}", there.port(), peer.port());
}

fn unix(there: &UnixAddr, client_name: Option<UnixAddr>) {
    let new = || socket(AddressFamily::Unix, SockType::Stream, SockFlag::empty(), None).expect("a socket");
    let (server, client) = (new(), new());
    bind(server.as_raw_fd(), there).expect("it is free");
    listen(&server, Backlog::new(1).expect("it is small")).expect("it has an address");
    client_name.inspect(|name| bind(client.as_raw_fd(), name).expect("it is free"));
    connect(client.as_raw_fd(), there).expect("it listens");
    // The C library's: nix asks for no address.
    let (mut peer, mut length) = ([0u8; 110], 110);
    // SAFETY: so many bytes are there, of which each value is valid.
    let accepted = unsafe { libc::accept(server.as_raw_fd(), peer.as_mut_ptr().cast(), &raw mut length) };
    assert!(accepted >= 0, "accept: {}", std::io::Error::last_os_error());
}

/// `given-times`: system calls that are given times, and some that are given none where one could be.
pub(crate) fn given_times() {
    println!("pid {}", std::process::id());
    let time = |tv_sec, tv_nsec| libc::timespec { tv_sec, tv_nsec };
    let (short, endless, word) = (time(0, 2_500_000), time(i64::MAX, 2_000_000_000), 0u32);
    // The kernel writes what is left of these.
    let (mut polled, mut selected) = (short, short);
    let (polled, selected) = (&raw mut polled, &raw mut selected);
    let (short, endless, word) = (&raw const short, &raw const endless, &raw const word);
    let none = std::ptr::null::<libc::timespec>();
    let call = |number, [a, b, c, d, e]: [usize; 5]| {
        // SAFETY: the calls below read these values, and write those that nobody else has.
        let _ = unsafe { libc::syscall(number, a, b, c, d, e, 0) };
    };
    let at = |time: *const libc::timespec| time.addr();
    let futex = |operation: i32, time| {
        call(libc::SYS_futex, [word.addr(), (operation | libc::FUTEX_PRIVATE_FLAG) as usize, 1, at(time), 0]);
    };
    call(libc::SYS_nanosleep, [at(short), 0, 0, 0, 0]);
    // That many nanoseconds are refused, so it does not sleep.
    call(libc::SYS_nanosleep, [at(endless), 0, 0, 0, 0]);
    call(libc::SYS_nanosleep, [at(none), 0, 0, 0, 0]);
    call(libc::SYS_clock_nanosleep, [libc::CLOCK_MONOTONIC as usize, 0, at(short), 0, 0]);
    call(libc::SYS_ppoll, [0, 0, at(polled), 0, 8]);
    call(libc::SYS_pselect6, [0, 0, 0, 0, at(selected)]);
    call(libc::SYS_epoll_pwait2, [usize::MAX, 0, 0, at(short), 0]);
    // The word is not 1, so neither waits.
    futex(libc::FUTEX_WAIT, short);
    futex(libc::FUTEX_WAIT_BITSET, none);
    // It takes no time, whatever stands there.
    futex(libc::FUTEX_WAKE, short);
}
