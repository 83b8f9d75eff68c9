//! Kernel events recorded by generated programs, end to end: needs the right to load programs.

mod processes;
mod steps;
mod support;
mod torture;

use mote_catalog::event::{Event, Field, Hook, Origin, Type};
use mote_catalog::stack::Stacks;
use mote_kernel::session::{Kernel, Targets};
use mote_layout::stack::Copy;
use std::time::Duration;
use support::*;

const PPID: i64 = libc::SYS_getppid;

fn getppid(times: usize) {
    for _ in 0..times {
        mote_sys::process::parent();
    }
}

/// Follows the calling thread; not the process, whose other threads are those of other tests.
fn own(kernel: &Kernel) {
    kernel.state().follow(mote_sys::process::tid() as u32, mote_generate::threads::TRACED).unwrap();
}

#[test]
fn each_call_is_recorded_once() {
    if !can() {
        return;
    }
    let events =
        vec![chosen(7, entry(PPID, vec![])), chosen(8, exit(PPID, vec![number("ret", 64, Origin::Result)]))];
    let kernel = start(request(events, Targets::Launch));
    own(&kernel);
    getppid(10);
    kernel.enable();
    getppid(1000);
    kernel.disable();
    getppid(10);
    let records = read(&kernel, |id, _| if id == 7 { 0 } else { 8 });
    let tid = mote_sys::process::tid() as u32;
    let mine: Vec<_> = records.iter().filter(|record| record.tid == tid).collect();
    assert_eq!(mine.iter().filter(|record| record.id == 7).count(), 1000);
    assert_eq!(mine.iter().filter(|record| record.id == 8).count(), 1000);
    let parent = mote_sys::process::parent() as i64;
    let good = |record: &&&Record| record.id == 8 && record.fields == parent.to_le_bytes();
    assert_eq!(mine.iter().filter(good).count(), 1000);
    assert!(kernel.losses().is_empty() && lost(&kernel) == [0, 0], "{:?}", kernel.losses());
}

use mote_catalog::Catalog;
use mote_filter::ContextWord;
use mote_generate::Chosen;
use mote_generate::Filter;
use mote_ring::Mode;

/// Bytes of a text, with its NUL.
fn text_len(bytes: &[u8]) -> usize {
    bytes.iter().position(|byte| *byte == 0).expect("texts end") + 1
}

fn openat() -> Event {
    entry(
        libc::SYS_openat,
        vec![
            number("dfd", 32, Origin::Argument(0)),
            text("filename", Origin::UserText(1)),
            number("flags", 32, Origin::Argument(2)),
        ],
    )
}

fn openat_len(fields: &[u8]) -> usize {
    4 + text_len(&fields[4..]) + 4
}

#[test]
fn children_of_the_command_are_followed_and_nobody_else() {
    if !can() {
        return;
    }
    let kernel = start(request(vec![chosen(3, openat())], Targets::Launch));
    kernel.enable();
    let pid = run(
        &kernel,
        "/bin/sh",
        &["-c", "cat /dev/null; (cat /proc/self/comm > /dev/null); cat /etc/hostname > /dev/null & wait"],
    );
    std::fs::read("/proc/self/stat").unwrap();
    kernel.disable();
    let records = read(&kernel, |_, fields| openat_len(fields));
    let own = mote_sys::process::tid() as u32;
    assert!(records.iter().all(|record| record.tid != own));
    let opened = |name: &str| {
        let has = |record: &&Record| record.fields[4..].starts_with(name.as_bytes());
        records.iter().filter(has).map(|record| record.tid).collect::<Vec<_>>()
    };
    for name in ["/dev/null\0", "/proc/self/comm\0", "/etc/hostname\0"] {
        let tids = opened(name);
        assert!(
            tids.iter().any(|tid| *tid != pid),
            "{name:?} is opened by {tids:?}, not by children of {pid}"
        );
    }
    assert!(opened("/proc/self/stat").is_empty());
    // All threads have ended, and are forgotten as soon as the kernel has freed the tasks.
    for _ in 0..6000 {
        if kernel.state().threads().next().is_none() {
            break;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    assert_eq!(kernel.live(), 0);
    assert_eq!(lost(&kernel), [0, 0]);
}

#[test]
fn texts_are_cut_and_bad_ones_are_empty() {
    if !can() {
        return;
    }
    let kernel = start(request(vec![chosen(3, openat())], Targets::Launch));
    own(&kernel);
    kernel.enable();
    let long = "x".repeat(400);
    let _ = std::fs::File::open(&long);
    let _ = std::fs::File::open("short");
    // An address where nothing is.
    let _ = mote_sys::perf::tracepoint(0);
    kernel.disable();
    let records = read(&kernel, |_, fields| openat_len(fields));
    let tid = mote_sys::process::tid() as u32;
    let texts: Vec<&[u8]> =
        records.iter().filter(|it| it.tid == tid).map(|it| &it.fields[4..it.fields.len() - 4]).collect();
    let cut = format!("{}\0", "x".repeat(255));
    assert_eq!(texts, [cut.as_bytes(), b"short\0"]);
    assert_eq!(records[0].fields[..4], libc::AT_FDCWD.to_le_bytes());
}

/// Emitted = read + lost, to the event.
#[test]
fn a_full_ring_counts_what_it_loses() {
    if !can() {
        return;
    }
    let mut request =
        request(vec![chosen(1, entry(PPID, vec![number("a", 64, Origin::Argument(0))]))], Targets::Launch);
    request.buffers.sub_bits = 12;
    request.buffers.count_bits = 1;
    let kernel = start(request);
    own(&kernel);
    kernel.enable();
    getppid(5000);
    kernel.disable();
    let read = read(&kernel, |_, _| 8).len() as u64;
    let [full, others] = lost(&kernel);
    assert!(full > 4000 && read >= 2 * (4096 / 20 - 1), "{read} read, {full} lost");
    assert_eq!((read + full, others), (5000, 0));
    assert_eq!(kernel.losses().nested, 0);
}

#[test]
fn a_flight_recorder_keeps_the_newest() {
    if !can() {
        return;
    }
    let mut request = request(
        vec![
            chosen(1, exit(PPID, vec![number("ret", 64, Origin::Result)])),
            chosen(2, entry(libc::SYS_getuid, vec![])),
        ],
        Targets::Launch,
    );
    request.buffers.sub_bits = 12;
    request.buffers.count_bits = 2;
    request.buffers.mode = Mode::Overwrite;
    let kernel = start(request);
    own(&kernel);
    kernel.enable();
    getppid(5000);
    kernel.disable();
    let records = read(&kernel, |id, _| if id == 1 { 8 } else { 0 });
    assert!(records.len() >= 3 * (4096 / 20 - 2) && records.len() < 5000, "{}", records.len());
    assert!(records.windows(2).all(|two| two[0].ring != two[1].ring || two[0].time <= two[1].time));
    assert_eq!(lost(&kernel), [0, 0]);
}

/// Records of interrupts come between those of system calls on the same CPU, into the ring of the second level; nothing
/// is torn, nothing uncounted.
#[test]
fn interrupts_do_not_disturb_the_interrupted() {
    if !can() {
        return;
    }
    let catalog = Catalog::open();
    let select = |patterns: &[&str]| match catalog.select(patterns) {
        Ok(selection) => selection.events,
        Err(unmatched) => panic!("{unmatched}"),
    };
    let mut events: Vec<Chosen> = vec![
        chosen(1, entry(PPID, vec![number("a", 64, Origin::Argument(0))])),
        chosen(2, exit(PPID, vec![number("ret", 64, Origin::Result)])),
    ];
    let fixed = |event: &Event| event.fields.iter().all(|field| size(&field.ty).is_some());
    let mut sizes = vec![0, 8, 8];
    for event in select(&["timer:*", "irq:*", "sched:*"]).into_iter().filter(fixed) {
        sizes.push(event.fields.iter().filter_map(|field| size(&field.ty)).sum());
        events.push(chosen(sizes.len() as u16 - 1, event));
    }
    assert!(events.len() > 10, "{}", events.len());
    let mut request = request(events, Targets::All);
    request.buffers.sub_bits = 20;
    request.buffers.count_bits = 4;
    let kernel = start(request);
    kernel.enable();
    let threads: Vec<_> = (0..4)
        .map(|_| {
            std::thread::spawn(|| {
                getppid(20_000);
                mote_sys::process::tid() as u32
            })
        })
        .collect();
    let tids: Vec<u32> = threads.into_iter().map(|thread| thread.join().unwrap()).collect();
    kernel.disable();
    let records = read(&kernel, |id, _| sizes[usize::from(id)]);
    let levels = kernel.geometry().cpus / 2;
    println!(
        "{} records, {} of them nested",
        records.len(),
        records.iter().filter(|it| it.ring >= levels).count()
    );
    if lost(&kernel) == [0, 0] && kernel.losses().nested == 0 {
        for tid in tids {
            for id in [1, 2] {
                assert_eq!(records.iter().filter(|it| it.tid == tid && it.id == id).count(), 20_000);
            }
        }
    }
    assert_eq!(lost(&kernel)[1], 0);
    assert!(records.windows(2).all(|two| two[0].ring != two[1].ring || two[0].time <= two[1].time));
    let parent = (mote_sys::process::parent() as i64).to_le_bytes();
    let own = |record: &&Record| record.id == 2 && record.fields != parent;
    assert_eq!(records.iter().filter(own).filter(|it| it.tid == mote_sys::process::tid() as u32).count(), 0);
}

/// Bytes of types that always have as many.
fn size(ty: &Type) -> Option<usize> {
    match ty {
        Type::Scalar(scalar)
        | Type::Enumeration(scalar, _)
        | Type::Flags(scalar, _)
        | Type::Labelled(scalar, _) => Some(scalar.bytes()),
        Type::FixedText(bytes) => Some(usize::from(*bytes)),
        Type::Array(scalar, count) => Some(scalar.bytes() * usize::from(*count)),
        Type::Text | Type::Sequence(..) => None,
    }
}

#[test]
fn every_event_of_this_kernel_has_a_program() {
    if !can() {
        return;
    }
    let catalog = Catalog::open();
    let events = catalog.select(&["*"]).unwrap_or_else(|unmatched| panic!("{unmatched}")).events;
    // The kernel takes some 50 ms to detach a trace event: by default only a few.
    let all = std::env::var_os("MOTE_ALL_EVENTS").is_some();
    let taken = |(index, event): &(usize, Event)| {
        all || index % 64 == 0 || !matches!(event.hook, Hook::Tracepoint { .. })
    };
    let events = events.into_iter().enumerate().filter(taken);
    let events: Vec<Chosen> = events.enumerate().map(|(id, (_, event))| chosen(id as u16, event)).collect();
    let count = events.len();
    let names: Vec<String> = events.iter().map(|one| one.event.name.clone()).collect();
    let start = std::time::Instant::now();
    let mut request = request(events, Targets::Launch);
    request.buffers.sub_bits = 16;
    let kernel = Kernel::start(request).unwrap_or_else(|error| panic!("{error}"));
    println!("{count} events in {:?}", start.elapsed());
    let refused: Vec<String> =
        kernel.refused().into_iter().map(|(id, why)| format!("{}: {why}", names[usize::from(id)])).collect();
    assert!(refused.is_empty(), "{} refused: {}", refused.len(), refused.join("\n"));
}

fn sched(name: &str) -> Event {
    let catalog = Catalog::open();
    catalog
        .select(&[format!("sched:{name}")])
        .unwrap_or_else(|unmatched| panic!("{unmatched}"))
        .events
        .remove(0)
}

/// Of a switch, both threads are concerned.
#[test]
fn switches_to_a_traced_thread_are_its_events() {
    if !can() {
        return;
    }
    let event = sched("sched_switch");
    let bytes: usize = event.fields.iter().filter_map(|field| size(&field.ty)).sum();
    let place = |name: &str| {
        let at = event.fields.iter().position(|field| field.name == name).expect(name);
        event.fields[..at].iter().filter_map(|field| size(&field.ty)).sum::<usize>()
    };
    let (prev, next) = (place("prev_tid"), place("next_tid"));
    let kernel = start(request(vec![chosen(1, event)], Targets::Launch));
    kernel.enable();
    let pid = run(&kernel, "/bin/sleep", &["0.05"]);
    kernel.disable();
    let records = read(&kernel, |_, _| bytes);
    let tid = |record: &Record, at: usize| u32::from_le_bytes(record.fields[at..at + 4].try_into().unwrap());
    assert!(!records.is_empty());
    assert!(records.iter().all(|it| tid(it, prev) == pid || tid(it, next) == pid), "{records:?}");
    assert!(records.iter().any(|it| tid(it, next) == pid) && records.iter().any(|it| tid(it, prev) == pid));
    // Its last one, when it is dead already, is among them.
    assert_eq!(tid(records.iter().max_by_key(|it| it.time).unwrap(), prev), pid);
}

/// `r0 = word 1 (length) == 9`, of a text
fn nine_letters() -> Filter {
    use mote_bpf::Reg;
    use mote_bpf::op::{Cond, Size};
    use mote_builder::Builder;
    let mut b = Builder::new();
    let not = b.label();
    b.mov(Reg::R0, 0);
    b.load(Size::DW, Reg::R2, Reg::R1, 8);
    b.branch(Cond::Ne, Reg::R2, 9, not);
    b.load(Size::DW, Reg::R3, Reg::R1, 0);
    b.load(Size::B, Reg::R4, Reg::R3, 0);
    b.branch(Cond::Ne, Reg::R4, i32::from(b'/'), not);
    b.mov(Reg::R0, 1);
    b.bind(not);
    b.exit();
    Filter {
        insns: b.finish().unwrap(),
        words: vec![ContextWord::Field(1), ContextWord::Field(2)],
        records: true,
        foreign: None,
    }
}

#[test]
fn filters_see_texts_and_drop_events() {
    if !can() {
        return;
    }
    let mut filtered = chosen(3, openat());
    filtered.filter = Some(nine_letters());
    let kernel = start(request(
        vec![filtered, chosen(4, exit(libc::SYS_openat, vec![number("ret", 64, Origin::Result)]))],
        Targets::Launch,
    ));
    own(&kernel);
    kernel.enable();
    for path in ["/dev/null", "/dev/zero", "/dev/full1", "123456789", "/"] {
        let _ = std::fs::File::open(path);
    }
    kernel.disable();
    let mut records = read(&kernel, |id, fields| if id == 3 { openat_len(fields) } else { 8 });
    // Other tests of this process open files, too.
    records.retain(|it| it.tid == mote_sys::process::tid() as u32);
    let texts: Vec<&[u8]> =
        records.iter().filter(|it| it.id == 3).map(|it| &it.fields[4..it.fields.len() - 4]).collect();
    assert_eq!(texts, [b"/dev/null\0", b"/dev/zero\0"]);
    assert_eq!(records.iter().filter(|it| it.id == 4).count(), 5);
    // The ring was released each time.
    assert_eq!(kernel.losses().nested, 0);
}

#[test]
fn fixed_texts_reach_filters_with_their_length() {
    if !can() {
        return;
    }
    let mut event = sched("sched_wakeup");
    let comm = event.fields.iter().position(|field| field.name == "comm").unwrap();
    event.fields.rotate_left(comm);
    let bytes: usize = event.fields.iter().filter_map(|field| size(&field.ty)).sum();
    let mut filtered = chosen(1, event);
    let mut filter = nine_letters();
    filter.words = vec![ContextWord::Field(0), ContextWord::Field(1)];
    // Starts with `s` instead of `/`.
    let slash = filter.insns.iter().position(|insn| insn.imm == i32::from(b'/')).unwrap();
    filter.insns[slash].imm = i32::from(b's');
    filtered.filter = Some(filter);
    let kernel = start(request(vec![filtered], Targets::All));
    kernel.enable();
    for name in ["sleeping9", "other", "sleeping10"] {
        let body = || (0..20).for_each(|_| std::thread::sleep(Duration::from_millis(1)));
        std::thread::Builder::new().name(name.to_owned()).spawn(body).unwrap().join().unwrap();
    }
    kernel.disable();
    let records = read(&kernel, |_, _| bytes);
    assert!(records.len() >= 10, "{}", records.len());
    assert!(records.iter().all(|it| it.fields.starts_with(b"sleeping9\0")));
}

#[test]
fn stacks_are_in_front_of_the_fields() {
    if !can() {
        return;
    }
    let mut event = entry(PPID, vec![number("a", 64, Origin::Argument(0))]);
    mote_catalog::stack::add(&mut event, Stacks { copy: 0, ..Stacks::BOTH });
    let kernel =
        start(request(vec![chosen(1, event), chosen(2, entry(libc::SYS_getuid, vec![]))], Targets::Launch));
    own(&kernel);
    kernel.enable();
    getppid(100);
    kernel.disable();
    let stack = |fields: &[u8]| 2 + 8 * usize::from(u16::from_le_bytes([fields[0], fields[1]]));
    let records = read(&kernel, |_, fields| stack(fields) + stack(&fields[stack(fields)..]) + 8);
    assert_eq!(records.len(), 100);
    for record in &records {
        let user = &record.fields[stack(&record.fields)..];
        assert!(stack(&record.fields) > 2 + 8 && stack(user) > 2, "{record:?}");
        assert_eq!(record.fields[9], 0xff, "an address of the kernel");
        assert!(user[9] == 0, "an address of the process");
    }
}

/// What is looked for in a copy of a stack.
const MARK: u64 = 0x1234_5678;

#[test]
fn stacks_are_copied_as_far_as_they_go() {
    if !can() {
        return;
    }
    for bytes in [512, 8 << 10, 16 << 10] {
        let mut event = entry(PPID, vec![number("a", 64, Origin::Argument(0))]);
        mote_catalog::stack::add(&mut event, Stacks { kernel: false, user: true, copy: bytes });
        let kernel = start(request(vec![chosen(1, event)], Targets::Launch));
        // In a thread of its own, whose stack is not deep.
        let thread = || {
            own(&kernel);
            let room = std::hint::black_box([MARK; 100]);
            kernel.enable();
            getppid(1);
            kernel.disable();
            std::hint::black_box(room.as_ptr()) as u64
        };
        let at = std::thread::scope(|scope| scope.spawn(thread).join().expect("it ends"));
        let len = |fields: &[u8]| 2 + 8 * usize::from(u16::from_le_bytes([fields[0], fields[1]]));
        let records = read(&kernel, |_, fields| len(fields) + 8);
        let elements = &records[0].fields[2..len(&records[0].fields)];
        let copy = Copy::read(elements).expect("a copy");
        assert_eq!(copy.process, std::process::id());
        let [_, stack, _] = copy.registers;
        // The room lies in the stack, and the copy begins below it.
        assert!(stack <= at && at - stack < 4096, "{stack:x}, {at:x}");
        let most = bytes as usize;
        assert!(copy.stack.len() == 512 || most > 512 && copy.stack.len() < 12 << 10, "{}", copy.stack.len());
        let copied = copy.stack.get((at - stack) as usize..).unwrap_or_default();
        let words: Vec<&[u8]> = copied.chunks_exact(8).take(100).collect();
        assert!(words.iter().all(|word| **word == MARK.to_le_bytes()), "{words:?}");
        assert!(most == 512 || words.len() == 100);
    }
}

#[test]
fn durations_are_those_of_the_calls() {
    if !can() {
        return;
    }
    let duration = Field {
        name: "duration".to_owned(),
        ty: Type::Scalar(mote_layout::types::Scalar::unsigned(64)),
        from: Origin::Duration,
    };
    for targets in [Targets::Launch, Targets::All] {
        let kernel = start(request(
            vec![chosen(
                1,
                exit(libc::SYS_clock_nanosleep, vec![number("ret", 64, Origin::Result), duration.clone()]),
            )],
            targets.clone(),
        ));
        if targets == Targets::Launch {
            own(&kernel);
        }
        kernel.enable();
        std::thread::sleep(Duration::from_millis(30));
        kernel.disable();
        let tid = mote_sys::process::tid() as u32;
        let records = read(&kernel, |_, _| 16);
        let mine: Vec<_> = records.iter().filter(|it| it.tid == tid).collect();
        assert_eq!(mine.len(), 1, "{targets:?}");
        let took = u64::from_le_bytes(mine[0].fields[8..].try_into().unwrap());
        assert!((30_000_000..10_000_000_000).contains(&took), "{took}");
        assert!(kernel.open_syscalls().iter().all(|(open, ..)| *open != tid));
    }
}

/// A thread that executes a program gets the id of its process; the other threads end.
#[test]
fn a_process_is_followed_through_exec_by_any_thread() {
    if !can() {
        return;
    }
    let kernel = start(request(vec![chosen(3, openat())], Targets::Launch));
    kernel.enable();
    let script = "import threading, os, sys\nt = threading.Thread(target=lambda: os.execv('/bin/cat', ['cat', '/etc/hostname']))\nt.start()\nt.join()\n";
    let pid = run(&kernel, "python3", &["-c", script]);
    kernel.disable();
    let records = read(&kernel, |_, fields| openat_len(fields));
    let opens = |it: &&Record| it.fields[4..].starts_with(b"/etc/hostname\0");
    assert_eq!(records.iter().filter(opens).map(|it| it.tid).collect::<Vec<_>>(), [pid]);
    assert_eq!(kernel.live(), 0);
}

#[test]
fn all_threads_of_a_running_process_are_followed() {
    if !can() {
        return;
    }
    let (go, wait) = std::sync::mpsc::channel::<()>();
    let kernel = start(request(vec![chosen(1, entry(PPID, vec![]))], Targets::Launch));
    let early = std::thread::spawn(move || {
        wait.recv().unwrap();
        getppid(10);
        std::thread::spawn(|| getppid(5)).join().unwrap();
    });
    assert!(kernel.follow(std::process::id()).unwrap() >= 2);
    kernel.enable();
    go.send(()).unwrap();
    early.join().unwrap();
    kernel.disable();
    let mut counts = std::collections::BTreeMap::new();
    read(&kernel, |_, _| 0).iter().for_each(|it| *counts.entry(it.tid).or_insert(0) += 1);
    let mut counts: Vec<i32> = counts.into_values().collect();
    counts.retain(|count| [5, 10].contains(count));
    counts.sort_unstable();
    assert!(counts.contains(&5) && counts.contains(&10), "{counts:?}");
    assert!(kernel.follow(4_000_000).is_err());
}

#[test]
fn threads_that_do_not_fit_are_counted() {
    if !can() {
        return;
    }
    let mut request = request(vec![chosen(1, entry(PPID, vec![]))], Targets::Launch);
    request.threads = 64;
    let kernel = start(request);
    kernel.enable();
    run(
        &kernel,
        "/bin/sh",
        &["-c", "all=; for i in $(seq 1 150); do sleep 1000 & all=\"$all $!\"; done; kill $all; wait"],
    );
    assert!(kernel.losses().threads > 50, "{:?}", kernel.losses());
}

#[test]
fn a_control_group_is_followed() {
    let root = std::fs::read_to_string("/proc/self/mountinfo").unwrap();
    let root = root.lines().find(|line| line.contains(" - cgroup2 ")).and_then(|line| line.split(' ').nth(4));
    let Some(root) = root.filter(|_| can()) else {
        mote_skip::skip("cgroup2 is not mounted");
        return;
    };
    let group = std::path::Path::new(root).join(format!("mote-test-{}", std::process::id()));
    let inner = group.join("inner");
    if let Err(error) = std::fs::create_dir_all(&inner) {
        mote_skip::skip(format_args!("cannot make a control group: {error}"));
        return;
    }
    let kernel = start(request(vec![chosen(3, openat())], Targets::Cgroup(group.clone())));
    kernel.enable();
    let script = format!(
        "echo $$ > {}/cgroup.procs; cat /etc/hostname; echo $$ > {root}/cgroup.procs; cat /etc/passwd",
        inner.display()
    );
    let status = std::process::Command::new("/bin/sh")
        .args(["-c", &script])
        .stdout(std::process::Stdio::null())
        .status()
        .unwrap();
    kernel.disable();
    let _ = std::fs::remove_dir(&inner);
    let _ = std::fs::remove_dir(&group);
    assert!(status.success());
    let records = read(&kernel, |_, fields| openat_len(fields));
    let opened = |name: &[u8]| records.iter().any(|it| it.fields[4..].starts_with(name));
    assert!(opened(b"/etc/hostname\0") && !opened(b"/etc/passwd\0"));
    assert!(Kernel::start(request(vec![], Targets::Cgroup("/tmp".into()))).is_err());
}

#[test]
fn what_cannot_be_says_why() {
    if !can() {
        return;
    }
    let mut large = request(vec![], Targets::All);
    large.buffers.sub_bits = 24;
    large.buffers.count_bits = 6;
    let error = Kernel::start(large).unwrap_err().to_string();
    assert!(error.contains("512 MiB") && error.contains("--kernel-buffers"), "{error}");
    // A filter that reads where it may not: the event is named, the verifier is heard, the others are recorded.
    let mut bad = chosen(9, openat());
    let mut filter = nine_letters();
    filter.insns[1].off = 2000;
    bad.filter = Some(filter);
    let kernel = Kernel::start(request(vec![bad, chosen(1, entry(PPID, vec![]))], Targets::Launch)).unwrap();
    let refused = kernel.refused();
    assert!(refused.len() == 1 && refused[0].0 == 9, "{refused:?}");
    assert!(refused[0].1.contains("R1") || refused[0].1.contains("stack"), "{refused:?}");
    own(&kernel);
    kernel.enable();
    getppid(10);
    kernel.disable();
    assert_eq!(
        read(&kernel, |_, _| 0).iter().filter(|it| it.tid == mote_sys::process::tid() as u32).count(),
        10
    );
    assert!(kernel.now().unwrap() > 0);
    assert_eq!(kernel.own_thread().unwrap(), mote_sys::process::tid() as u32);
}

/// Number 20 is `getpid` in the 32-bit ABI, and `writev` in ours.
#[test]
fn calls_of_another_abi_are_not_misnamed() {
    if !can() {
        return;
    }
    let kernel = start(request(
        vec![chosen(1, entry(libc::SYS_writev, vec![])), chosen(2, exit(libc::SYS_writev, vec![]))],
        Targets::Launch,
    ));
    kernel.enable();
    let script = "import ctypes, mmap\nm = mmap.mmap(-1, 4096, prot=7)\nm.write(bytes([0xb8, 20, 0, 0, 0, 0xcd, 0x80, 0xc3]))\n\
        f = ctypes.CFUNCTYPE(ctypes.c_int)(ctypes.addressof(ctypes.c_char.from_buffer(m)))\nimport os\nassert f() == os.getpid()\n";
    run(&kernel, "python3", &["-c", script]);
    kernel.disable();
    assert_eq!(read(&kernel, |_, _| 0).len(), 0);
    assert_eq!(kernel.losses().foreign_abi, 2);
}

/// `r0 = word 0 != 0`, which is `ret`.
fn not_zero() -> Filter {
    use mote_bpf::Reg;
    use mote_bpf::op::Size;
    use mote_builder::Builder;
    let mut b = Builder::new();
    b.load(Size::DW, Reg::R0, Reg::R1, 0);
    b.exit();
    Filter { insns: b.finish().unwrap(), words: vec![ContextWord::Field(0)], records: true, foreign: None }
}

#[test]
fn all_system_calls_may_have_filters() {
    if !can() {
        return;
    }
    let calls = (0..360).map(|call| {
        let ret = vec![number("ret", 64, Origin::Result)];
        Chosen { filter: Some(not_zero()), ..chosen(call as u16, exit(call, ret)) }
    });
    let began = std::time::Instant::now();
    let kernel = start(request(calls.collect(), Targets::Launch));
    println!("in {:?}", began.elapsed());
    own(&kernel);
    kernel.enable();
    mote_sys::thread::give_way();
    getppid(3);
    kernel.disable();
    let records = read(&kernel, |_, _| 8);
    let count = |call: i64| records.iter().filter(|it| i64::from(it.id) == call).count();
    assert_eq!([count(PPID), count(libc::SYS_sched_yield)], [3, 0]);
}

#[test]
fn events_can_be_added_while_others_are_recorded() {
    if !can() {
        return;
    }
    let kernel = start(request(vec![chosen(1, entry(PPID, vec![]))], Targets::Launch));
    own(&kernel);
    kernel.enable();
    getppid(5);
    kernel.add(&[chosen(2, exit(PPID, vec![]))]).unwrap();
    getppid(5);
    kernel.disable();
    kernel.enable();
    getppid(1);
    kernel.disable();
    let records = read(&kernel, |_, _| 0);
    let count = |id: u16| records.iter().filter(|it| it.id == id).count();
    assert_eq!([count(1), count(2)], [11, 6]);
}
