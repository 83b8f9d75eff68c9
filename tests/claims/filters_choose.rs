//! A filter records exactly the events for which it holds.

use crate::support::event::named;
use crate::support::{Record, Trace, programs};
use std::process::Command;

const COUNT: u64 = 4000;

/// What a packet of a number has, as the scene makes it.
struct Packet {
    id: u64,
    len: u64,
    delta: i64,
    proto: &'static str,
    load: f64,
    out: bool,
    ports: Vec<u64>,
    mac: u64,
    urgent: bool,
}

fn packet(id: u64) -> Packet {
    Packet {
        id,
        len: id * 7 % 3000,
        delta: 500 - (id % 1000) as i64,
        proto: ["tcp4", "tcp6", "udp", "icmp"][(id % 4) as usize],
        load: id as f64 / 8.0,
        out: id % 2 == 1,
        ports: [id & 0xffff, (id / 2) & 0xffff, 80].into_iter().take((id % 4).min(3) as usize).collect(),
        mac: id & 0xff,
        urgent: id.is_multiple_of(10),
    }
}

fn record(options: &[&str]) -> Trace {
    Record::scene(&["net", &COUNT.to_string()]).with(options).run().ends_with(0)
}

#[track_caller]
fn ids(trace: &Trace, name: &str) -> Vec<u64> {
    named(&trace.events(), name).iter().map(|event| event.number("id")).collect()
}

#[track_caller]
fn chooses(filter: &str, holds: impl Fn(&Packet) -> bool) {
    let trace = record(&["-e", "net:packet", "--filter", filter]);
    let expect: Vec<u64> = (0..COUNT).filter(|id| holds(&packet(*id))).collect();
    assert!(!expect.is_empty() && expect.len() < COUNT as usize, "the test says nothing: {filter}");
    assert_eq!(ids(&trace, "net:packet"), expect, "{filter}");
    assert!(trace.events().iter().all(|event| event.name == "net:packet"));
}

#[test]
fn by_numbers() {
    chooses("len > 1500", |p| p.len > 1500);
    chooses("len >= 1k && len < 2k && id % 3 == 1", |p| (1024..2048).contains(&p.len) && p.id % 3 == 1);
    chooses("delta < -100 || delta == 500", |p| p.delta < -100 || p.delta == 500);
    chooses("load > 100.25 && !(load >= 200)", |p| p.load > 100.25 && p.load < 200.0);
    chooses("(id & 0xf0) == 0x30 && urgent", |p| p.id & 0xf0 == 0x30 && p.urgent);
    chooses("id in (3, 5, 70) || len - id == 0", |p| [3, 5, 70].contains(&p.id) || p.len == p.id);
}

#[test]
fn by_texts() {
    chooses("proto == \"tcp*\"", |p| p.proto.starts_with("tcp"));
    chooses("proto == \"*p4\" && len > 10", |p| p.proto == "tcp4" && p.len > 10);
    chooses("proto != \"udp\"", |p| p.proto != "udp");
    chooses("proto == \"i*p\"", |p| p.proto == "icmp");
}

#[test]
fn by_labels_and_elements() {
    chooses("direction == \"Out\"", |p| p.out);
    chooses("ports[1] == 80 || ports[2] == 80", |p| {
        p.ports.get(1) == Some(&80) || p.ports.get(2) == Some(&80)
    });
    chooses("mac[0] == 17 && mac[1] == 1", |p| p.mac == 17);
}

#[test]
fn by_the_number_of_times() {
    let trace =
        record(&["-e", "net:packet", "--filter", "every(1000)", "-e", "net:noise", "--filter", "first(7)"]);
    assert_eq!(ids(&trace, "net:packet").len() as u64, COUNT / 1000);
    assert_eq!(ids(&trace, "net:noise"), (0..7).collect::<Vec<_>>());
    let trace = record(&["-e", "net:packet", "--filter", "sample(25%)"]);
    let some = ids(&trace, "net:packet").len() as u64;
    assert!((COUNT / 8..COUNT / 2).contains(&some), "{some} of {COUNT}");
    let trace = record(&["-e", "net:packet", "--filter", "limit(5/s)"]);
    let few = ids(&trace, "net:packet").len();
    assert!((1..=100).contains(&few), "{few}");
}

#[test]
fn by_context() {
    let trace =
        record(&["-e", "net:packet", "--filter", "$comm == \"scenes\" && $exe == \"*/scenes\" && id < 3"]);
    assert_eq!(ids(&trace, "net:packet"), [0, 1, 2]);
    let trace =
        record(&["-e", "net:packet", "--filter", "$tid == $pid && $cpu < 4096 && $last.proto != proto"]);
    assert_eq!(ids(&trace, "net:packet"), (1..COUNT).collect::<Vec<_>>(), "the first has no last one");
    let trace = record(&["-e", "net:packet", "--filter", "$tid == 1"]);
    assert_eq!(ids(&trace, "net:packet").len(), 0);
}

#[test]
fn each_pattern_has_a_filter_of_its_own() {
    let trace = record(&["-e", "net:packet", "--filter", "id == 5", "-e", "net:noise"]);
    assert_eq!(ids(&trace, "net:packet"), [5]);
    assert_eq!(ids(&trace, "net:noise").len() as u64, COUNT);
    let trace = record(&["--filter", "id == 6"]);
    assert_eq!((ids(&trace, "net:packet"), ids(&trace, "net:noise")), (vec![6], vec![6]));
    // A rule beside another: an event is recorded when one of them wants it.
    let trace = record(&["-e", "net:packet", "--filter", "id == 5", "-e", "net:*", "--filter", "id == 7"]);
    assert_eq!((ids(&trace, "net:packet"), ids(&trace, "net:noise")), (vec![5, 7], vec![7]));
}

#[test]
fn what_does_not_fit_is_told() {
    let fails = |options: &[&str], expect: &[&str]| {
        let trace = Record::scene(&["net", "5"]).with(options).run().ends_with(2);
        for text in expect {
            assert!(trace.err.contains(text), "no '{text}' in {}", trace.err);
        }
        assert!(!trace.path.exists(), "nothing was recorded, and yet there is a directory");
    };
    fails(&["-e", "net:packet", "--filter", "lenn > 5"], &["lenn", "len"]);
    fails(&["-e", "net:packet", "--filter", "len == \"x\""], &["len"]);
    fails(&["-e", "net:packet", "--filter", "direction == \"Outt\""], &["Outt", "Out"]);
    fails(&["-e", "net:packet", "--filter", "len >"], &["len >"]);
    fails(&["--on", "net:packet if len > 5 do dance"], &["dance"]);
    fails(&["--on", "net:packet do snapshot"], &["--mode overwrite"]);
}

#[test]
fn children_have_the_filters_too() {
    let trace = Record::scene(&["fork", "3", "100"]).with(&["--filter", "seq < 10"]).run().ends_with(0);
    let events = trace.events();
    assert!(!events.is_empty());
    let pids: std::collections::BTreeSet<u64> = events.iter().filter_map(|event| event.pid).collect();
    assert!(pids.len() >= 3, "{pids:?}");
    assert!(events.iter().all(|event| event.fields.get("seq").is_none_or(|_| event.number("seq") < 10)));
}

#[test]
fn the_list_of_events_says_which_have_filters() {
    let running = Record::scene(&["net-until"])
        .with(&["-e", "net:packet", "--filter", "id < 5", "-e", "net:noise"])
        .start();
    let pid = running.wait_for("pid").to_string();
    let list = || {
        let mut command = std::process::Command::new(crate::support::programs::mote());
        let output = command.args(["list", &pid, "-e", "net:*"]).output().expect("mote runs");
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    let line =
        |text: &str, name: &str| text.lines().find(|line| line.contains(name)).unwrap_or("").to_owned();
    let text = list();
    assert!(line(&text, "packet").contains("on, filtered"), "{text}");
    assert!(line(&text, "noise").contains("on") && !line(&text, "noise").contains("on, filtered"), "{text}");
    running.signal(nix::sys::signal::Signal::SIGTERM);
    running.wait().ends_with(128 + 15);
}

#[test]
fn a_filter_on_the_command_line_may_begin_with_a_minus() {
    let filter = |expression: &str| {
        let words = ["filter", expression, "--event", "net:packet", programs::scenes(), "--emit", "tree"];
        let output = Command::new(programs::mote()).args(words).output().expect("mote runs");
        let text = |bytes| String::from_utf8_lossy(bytes).into_owned();
        (output.status.success(), text(&output.stdout), text(&output.stderr))
    };
    let (done, tree, said) = filter("-len");
    assert!(done && tree.contains("-len"), "{tree}{said}");
    let (done, tree, said) = filter("$elapsed by id > 5ms");
    assert!(done && tree.contains("$elapsed by id: u64: u64 in {5000001..}"), "{tree}{said}");
    for (wrong, place) in [("len > -9223372036854775809", ":1:8"), ("$elapsed by idd > 5ms", ":1:13")] {
        let (done, _, said) = filter(wrong);
        assert!(!done && said.contains(&format!("net:packet{place}")), "{said}");
    }
}
