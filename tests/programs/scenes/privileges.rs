//! Servers that begin as root and work as somebody else.

use crate::processes::in_child;
use crate::words::Words;
use nix::sys::wait::waitpid;
use nix::unistd::{Gid, Uid, setgroups, setresgid, setresuid};
use std::fs::{self, File};
use std::os::unix::fs::FileExt;

/// What only the master knows.
const SECRET: &str = "the master's secret";
/// What every worker says.
const OWN: &str = "a worker's own words";

/// Becomes another user for good, as servers' workers do.
pub(crate) fn become_user(id: u32) {
    let (user, group) = (Uid::from_raw(id), Gid::from_raw(id));
    setgroups(&[]).expect("root");
    setresgid(group, group, group).expect("root");
    setresuid(user, user, user).expect("root");
    // The kernel has taken its own memory from it, which it may have back (PR_SET_DUMPABLE).
    nix::sys::prctl::set_dumpable(true).expect("one's own");
}

/// `master WORKERS EVENTS USER`: as nginx: a master that stays root, and workers, its children, that become USER. All
/// emit. Each worker then looks through all that it has mapped of mote for what it said itself and for what the master
/// said.
pub(crate) fn master(words: &Words) {
    let (workers, events, user) = (words.number(0), words.number(1), words.number(2) as u32);
    emit(0, events, SECRET);
    let mut pids = Vec::new();
    for who in 1..=workers {
        pids.push(in_child(|| {
            become_user(user);
            emit(who, events, OWN);
            println!("own-{who} {}\nsecrets-{who} {}", find(OWN), find(SECRET));
        }));
        emit(workers + who, events, SECRET);
    }
    for pid in pids {
        waitpid(pid, None).expect("a child");
    }
    println!("master {}", find(SECRET));
}

fn emit(who: u64, events: u64, text: &str) {
    for seq in 0..events {
        mote::event!(e2e::served, who: u64 = who, seq: u64 = seq, text: &str = text);
    }
}

/// How often a text is in memory that this process shares with a recorder.
fn find(text: &str) -> usize {
    let maps = fs::read_to_string("/proc/self/maps").expect("our own");
    let memory = File::open("/proc/self/mem").expect("our own");
    let shared = maps.lines().filter(|line| line.contains("memfd:mote"));
    let ranges = shared.filter_map(|line| line.split(' ').next()?.split_once('-'));
    ranges.map(|(start, end)| count(&memory, (number(start), number(end)), text)).sum()
}

fn number(hex: &str) -> u64 {
    u64::from_str_radix(hex, 16).expect("an address")
}

fn count(memory: &File, (start, end): (u64, u64), text: &str) -> usize {
    let mut bytes = vec![0; 1 << 20];
    let mut found = 0;
    for at in (start..end).step_by(bytes.len()) {
        let len = bytes.len().min((end - at) as usize);
        if memory.read_exact_at(&mut bytes[..len], at).is_ok() {
            found += bytes[..len].windows(text.len()).filter(|window| *window == text.as_bytes()).count();
        }
    }
    found
}

/// `become USER PROGRAM WORDS...`: becomes another user, and then another program.
pub(crate) fn become_and_run(words: &Words) {
    mote::event!(e2e::before, text: &str = SECRET);
    become_user(words.number(0) as u32);
    let rest: Vec<&str> = (1..).map(|index| words.text(index)).take_while(|word| !word.is_empty()).collect();
    let why = std::os::unix::process::CommandExt::exec(std::process::Command::new(rest[0]).args(&rest[1..]));
    panic!("{rest:?}: {why}");
}
