//! What system calls are given in structures, or return there, is in their events as the program itself knows it.

use crate::support::event::{Event, named};
use crate::support::kernel::{self, of_thread};
use crate::support::{Record, Trace, has_tool, output_of, skip};
use std::process::Command;

/// Addresses, as inet_ntop(3) writes them.
const SIX: [&str; 12] = [
    "::",
    "::1",
    "::ffff:192.0.2.129",
    "::fffe:0:1",
    "1::",
    "fe80::1:2:3:4",
    "2001:db8::1:0:0:1",
    "0:0:1::",
    "1:0:3:0:5:0:7:0",
    "1:2:3:4:5:6:7:8",
    "10:200:3000:f:ff:fff:ffff:0",
    "abcd:ef01:2345:6789:abcd:ef01:2345:6789",
];

/// What a person names a unix socket.
const NAME: &str = "mote-claims-sockets";

/// The program's trace, and the path of its socket.
fn sockets(options: &[&str], wrapper: &[&str]) -> (Trace, String) {
    let folder = tempfile::tempdir().expect("a directory");
    let path = folder.path().join("socket").to_string_lossy().into_owned();
    let name = format!("{NAME}-{}", std::process::id());
    let words: Vec<&str> = ["sockets", &path, &name].into_iter().chain(SIX).collect();
    (Record::scene(&words).under(wrapper).with(options).run().ends_with(0), path)
}

/// Family, port, address.
type Seen = (String, u64, String);

fn seen(event: &Event) -> Seen {
    let text =
        |name: &str| event.fields[name].as_str().unwrap_or_else(|| panic!("{name} of {event:?}")).to_owned();
    (text("family"), event.number("port"), text("address"))
}

fn addresses(events: &[Event], name: &str, pid: u64) -> Vec<Seen> {
    of_thread(events, name, pid).into_iter().map(seen).collect()
}

#[test]
fn addresses_of_sockets() {
    if !kernel::is_there() {
        return;
    }
    let (trace, path) = sockets(&["-k", "syscalls"], &[]);
    let (pid, events) = (trace.printed("pid"), trace.view());
    let is = |family: &str, port: u64, address: &str| (family.to_owned(), port, address.to_owned());
    let has_six = trace.printed("six-server") != 0;
    if !has_six {
        skip("this machine has no IPv6");
    }
    let six = |name: &str| has_six.then(|| is("AF_INET6", trace.printed(name), "::1"));
    let name = format!("@{NAME}-{}", std::process::id());
    let connected: Vec<Seen> = [is("AF_INET", trace.printed("four-server"), "127.0.0.1")]
        .into_iter()
        .chain(six("six-server"))
        .chain([is("AF_UNIX", 0, &path), is("AF_UNIX", 0, &name)])
        .chain(SIX.map(|address| is("AF_INET6", 4711, address)))
        .chain([is("AF_UNSPEC", 0, "")])
        .collect();
    assert_eq!(addresses(&events, "syscall_entry_connect", pid), connected);
    // The last one could not be read.
    assert!(trace.err.contains("EMPTY"), "{}", trace.err);
    let accepted: Vec<Seen> = [is("AF_INET", trace.printed("four-client"), "127.0.0.1")]
        .into_iter()
        .chain(six("six-client"))
        .collect();
    assert_eq!(addresses(&events, "syscall_exit_accept4", pid), accepted);
    let accepted = [is("AF_UNIX", 0, ""), is("AF_UNIX", 0, &format!("{name}-client"))];
    assert_eq!(addresses(&events, "syscall_exit_accept", pid), accepted);
    let bound = addresses(&events, "syscall_entry_bind", pid);
    for wanted in
        [is("AF_INET", 0, "127.0.0.1"), is("AF_UNIX", 0, &path), is("AF_UNIX", 0, &format!("{name}-client"))]
    {
        assert!(bound.contains(&wanted), "{wanted:?} in {bound:?}");
    }
    let datagram = is("AF_INET", trace.printed("datagram"), "127.0.0.1");
    assert_eq!(addresses(&events, "syscall_entry_sendto", pid), std::slice::from_ref(&datagram));
    assert_eq!(addresses(&events, "syscall_exit_recvfrom", pid), std::slice::from_ref(&datagram));
    assert!(addresses(&events, "syscall_exit_getsockname", pid).contains(&datagram));
    if has_tool("babeltrace2") {
        let text = output_of(Command::new("babeltrace2").arg(trace.path.join("kernel")));
        let shown = format!(
            "family = ( \"AF_INET\" : container = 2 ), port = {}, address = \"127.0.0.1\"",
            datagram.1
        );
        assert!(text.contains(&shown), "{shown}");
    }
}

#[test]
fn addresses_of_sockets_are_filtered_by() {
    if !kernel::is_there() {
        return;
    }
    let filter = r#"address == "fe80:*" || family == AF_INET && port > 0 || address == "::ffff:192.0.2.129""#;
    let (trace, _) = sockets(&["-k", "syscalls:*connect", "--filter", filter], &[]);
    let events = trace.view();
    let shown: Vec<Seen> = named(&events, "syscall_entry_connect").into_iter().map(seen).collect();
    let is = |family: &str, port: u64, address: &str| (family.to_owned(), port, address.to_owned());
    let wanted = [
        is("AF_INET", trace.printed("four-server"), "127.0.0.1"),
        is("AF_INET6", 4711, "::ffff:192.0.2.129"),
        is("AF_INET6", 4711, "fe80::1:2:3:4"),
    ];
    assert_eq!(shown, wanted);
}

#[test]
fn also_where_the_kernel_does_not_tell_its_types() {
    if !kernel::is_there() || !has_tool("unshare") {
        return;
    }
    let hidden = ["unshare", "-m", "sh", "-c", "mount -t tmpfs none /sys/kernel/btf && exec \"$@\"", "sh"];
    let options = ["-k", "syscalls:*connect,syscalls:*accept,syscalls:*recvfrom", "-a"];
    let (trace, path) = sockets(&options, &hidden);
    let (pid, events) = (trace.printed("pid"), kernel::trace_of(&trace).view());
    let connected = addresses(&events, "syscall_entry_connect", pid);
    assert!(connected.contains(&("AF_UNIX".to_owned(), 0, path)), "{connected:?}");
    assert!(connected.iter().any(|(.., address)| address == "2001:db8::1:0:0:1"), "{connected:?}");
    let accepted = addresses(&events, "syscall_exit_accept", pid);
    assert!(accepted.iter().any(|(.., address)| address.ends_with("-client")), "{accepted:?}");
    let datagram = ("AF_INET".to_owned(), trace.printed("datagram"), "127.0.0.1".to_owned());
    assert_eq!(addresses(&events, "syscall_exit_recvfrom", pid), [datagram]);
}

#[test]
fn times_are_nanoseconds() {
    const SHORT: i64 = 2_500_000;
    if !kernel::is_there() {
        return;
    }
    let trace = Record::scene(&["given-times"]).with(&["-k", "syscalls"]).run().ends_with(0);
    let (pid, events) = (trace.printed("pid"), trace.view());
    let times = |call: &str, field: &str| -> Vec<Option<i64>> {
        let calls = of_thread(&events, &format!("syscall_entry_{call}"), pid);
        calls.iter().map(|event| event.fields[field].as_i64()).collect()
    };
    assert_eq!(times("nanosleep", "rqtp_ns"), [Some(SHORT), Some(i64::MAX), Some(-1)]);
    assert_eq!(times("clock_nanosleep", "rqtp_ns"), [Some(SHORT)]);
    // The standard library has a look at its descriptors by the time it starts.
    assert_eq!(times("ppoll", "tsp_ns").last(), Some(&Some(SHORT)));
    assert_eq!(times("pselect6", "tsp_ns"), [Some(SHORT)]);
    assert_eq!(times("epoll_pwait2", "timeout_ns"), [Some(SHORT)]);
    let futexes = times("futex", "utime_ns");
    assert_eq!(futexes.last_chunk(), Some(&[Some(SHORT), Some(-1), Some(-1)]), "{futexes:?}");
    let filters = ["--filter", "utime_ns == 2500000", "-k", "syscalls:*sleep", "--filter", "rqtp_ns == none"];
    let options = [&["-k", "syscalls:*futex"], &filters[..]].concat();
    let trace = Record::scene(&["given-times"]).with(&options).run().ends_with(0);
    let events = trace.view();
    assert_eq!(named(&events, "syscall_entry_futex").len(), 1, "{events:?}");
    assert_eq!(named(&events, "syscall_entry_nanosleep").len(), 1, "{events:?}");
}
