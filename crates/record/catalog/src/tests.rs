//! The catalogue against the running kernel, and its parsers against damaged input.

use super::*;
use crate::event::{Origin, Type};
use mote_layout::parse::parse;
use std::collections::HashSet;
use std::process::Command;

/// The catalogue of this machine; `None`, loudly, where tracefs may not be read.
fn here() -> Option<Catalog> {
    let catalog = Catalog::open();
    if catalog.tracefs.is_none() || catalog.btf.is_none() {
        mote_skip::skip(catalog.notes().join("; "));
        return None;
    }
    Some(catalog)
}

/// A small generator of numbers (xorshift).
struct Random(u64);

impl Random {
    fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % limit.max(1) as u64) as usize
    }
}

#[test]
fn every_event_of_this_kernel_is_understood_and_described() {
    let Some(catalog) = here() else { return };
    let all = catalog.select(&["*"]).expect("everything fits");
    assert_eq!(all.left_out, Vec::<String>::new());
    assert!(all.events.len() > 1000, "{}", all.events.len());
    let mut names = HashSet::new();
    for event in &all.events {
        let text = event.description();
        let read = parse(text.as_bytes()).unwrap_or_else(|why| panic!("{why}:\n{text}"));
        assert_eq!((read.provider, read.name), (&event.provider[..], &event.name[..]));
        assert_eq!(read.fields().count(), event.fields.len());
        assert!(names.insert(event.full_name()), "{} is there twice", event.full_name());
    }
}

#[test]
fn the_names_are_those_that_bpftrace_lists() {
    let Some(catalog) = here() else { return };
    // It wants tracefs to be mounted: if it is not, then in a namespace of its own.
    let script = "{ [ -e /sys/kernel/tracing/events ] || mount -t tracefs nodev /sys/kernel/tracing; } && \
                  bpftrace -l 'tracepoint:*'";
    let listed = Command::new("unshare").args(["-m", "sh", "-c", script]).output();
    let Some(listed) = listed.ok().filter(|output| output.status.success() && !output.stdout.is_empty())
    else {
        return mote_skip::skip("bpftrace, or a mount namespace, is not to be had");
    };
    let listed = String::from_utf8_lossy(&listed.stdout);
    let listed: HashSet<&str> = listed.lines().filter_map(|line| line.strip_prefix("tracepoint:")).collect();
    let ours: HashSet<String> =
        catalog.entries.iter().map(|entry| format!("{}:{}", entry.system, entry.kernel_name)).collect();
    for name in &listed {
        // What ftrace makes for itself is no tracepoint.
        assert!(ours.contains(*name) || name.starts_with("ftrace:"), "{name} is missing");
    }
    for name in &ours {
        assert!(listed.contains(name.as_str()), "{name} is not there");
    }
}

/// `vec u32` of `vec labelled u32 HI=0 ...` with its kind.
fn labels_left_out(line: &str) -> &str {
    let end = line.find('=').map_or(line.len(), |at| line[..at].rfind(' ').unwrap_or(at));
    &line[..end]
}

#[test]
fn what_is_written_down_by_hand_fits_this_kernel() {
    let Some(catalog) = here() else { return };
    let btf = catalog.btf().expect("looked at");
    for (system, name) in hot::all() {
        let event = hot::event(btf, system, name);
        assert!(event.is_some() || btf.tracepoint(name).is_none(), "{system}:{name}: the table does not fit");
    }
    let golden = |name: &str| {
        let selection = catalog.select(&[name]).expect("this kernel has it");
        let text = selection.events[0].description();
        text.lines().skip(4).map(labels_left_out).collect::<Vec<_>>().join(", ")
    };
    assert_eq!(
        golden("sched_switch"),
        "prev_comm char[16], prev_tid i32, prev_prio i32, prev_state labelled i64, next_comm char[16], next_tid i32, next_prio i32"
    );
    assert_eq!(golden("sched_process_exec"), "filename str, tid i32, old_tid i32");
    assert_eq!(
        golden("block_rq_issue"),
        "dev u32, sector u64, nr_sector u32, bytes u32, tid i32, rwbs labelled u32, comm char[16]"
    );
    assert_eq!(
        golden("signal_generate"),
        "sig i32, errno i32, code i32, comm char[16], pid i32, group i32, result i32"
    );
}

#[test]
fn offsets_are_those_of_the_kernels_own_debugger() {
    let Some(catalog) = here() else { return };
    let btf = catalog.btf().expect("looked at");
    let dump = Command::new("bpftool").args(["btf", "dump", "file", btf::OF_KERNEL]).output();
    let Some(dump) = dump.ok().filter(|output| output.status.success()) else {
        return mote_skip::skip("bpftool is not to be had");
    };
    let dump = String::from_utf8_lossy(&dump.stdout);
    let start = dump.find("STRUCT 'task_struct' ").expect("every kernel has it");
    let body = dump[start..].lines().skip(1).take_while(|line| line.starts_with('\t'));
    let mut compared = 0;
    for line in body {
        let words: Vec<&str> = line.split_whitespace().collect();
        let (name, bits) = (words[0].trim_matches('\''), words[2].trim_start_matches("bits_offset="));
        if let Some(offset) = btf.offset("task_struct", name) {
            assert_eq!(offset, bits.parse::<u32>().expect("a number") / 8, "{name}");
            compared += 1;
        }
    }
    assert!(compared > 100, "{compared}");
    let path = btf.member("task_struct", "mm.exe_file").expect("both are there").path;
    assert_eq!(path.len(), 2);
    assert_eq!(btf.member("task_struct", "comm").map(|member| member.bytes), Some(16));
    assert_eq!(btf.member("task_struct", "pid.x"), None);
    assert_eq!(btf.tracepoint("no_such_tracepoint"), None);
}

#[test]
fn arguments_of_system_calls() {
    let Some(catalog) = here() else { return };
    let of = |name: &str| catalog.select(&[name]).expect("every kernel has it").events;
    let openat = of("openat");
    assert_eq!(openat.len(), 2);
    assert_eq!(openat[0].hook, Hook::SyscallEntry(257));
    let names: Vec<&str> = openat[0].fields.iter().map(|field| field.name.as_str()).collect();
    assert_eq!(names, ["dfd", "filename", "flags", "mode"]);
    assert_eq!((&openat[0].fields[1].ty, &openat[0].fields[1].from), (&Type::Text, &Origin::UserText(1)));
    assert!(
        matches!(&openat[0].fields[2].ty, Type::Flags(_, labels) if labels.contains(&("O_CREAT".into(), 0x40)))
    );
    assert!(
        matches!(of("syscall_entry_write")[0].fields[1].from, Origin::Argument(1)),
        "a buffer is no text"
    );
    let socket = of("sys_enter_socket");
    let Type::Enumeration(_, labels) = &socket[0].fields[1].ty else { panic!("no enumeration") };
    let both = i64::from(libc::SOCK_STREAM | libc::SOCK_CLOEXEC);
    assert!(labels.contains(&("SOCK_STREAM|SOCK_CLOEXEC".to_owned(), both, both)));
    // Both the table's and the kernel's name, and the return only on request with how long it took.
    assert_eq!(of("fstat"), of("newfstat"));
    assert_eq!(of("syscall_exit_read")[0].fields.len(), 1);
    let timed = Catalog::open().with_durations();
    let read = timed.select(&["syscall_exit_read"]).expect("every kernel has it");
    assert_eq!(read.events[0].fields[1].from, Origin::Duration);
    // Behind the arguments, or the result, what lies in structures.
    let names =
        |event: &Event| event.fields.iter().map(|field| field.name.clone()).collect::<Vec<_>>().join(" ");
    assert_eq!(names(&of("sys_enter_connect")[0]), "fd uservaddr addrlen family port address");
    assert_eq!(names(&of("syscall_exit_accept4")[0]), "ret family port address");
}

#[test]
fn patterns_mean_families_systems_and_names() {
    let Some(catalog) = here() else { return };
    let names = |pattern: &str| -> HashSet<String> {
        let selection = catalog.select(&[pattern]).unwrap_or_else(|why| panic!("{why}"));
        selection.events.iter().map(Event::full_name).collect()
    };
    assert!(names("sched").contains("sched:sched_switch"));
    assert!(
        names("mm").is_superset(&names("kmem")) && names("mm").contains("mm:x86_exceptions_page_fault_user")
    );
    assert_eq!(names("softirq_entry"), names("irq_softirq_entry"));
    assert_eq!(names("kmem:kfree"), names("mm:kmem_kfree"));
    assert!(names("syscalls:read*").iter().all(|name| name.contains("_read")));
    assert!(names("syscalls:read*").contains("syscalls:syscall_exit_readv"));
    assert!(
        names("mmap").contains("syscalls:syscall_entry_mmap")
            && names("mmap").contains("mm:vm_unmapped_area")
    );
    for (wrong, near) in
        [("sched_swich", "sched_switch"), ("sched:swich", "sched:sched_switch"), ("shed", "sched")]
    {
        let why = catalog.select(&[wrong]).expect_err("there is none").to_string();
        assert!(why.contains(near), "{why}");
    }
}

#[test]
fn without_tracefs_or_types_there_is_less() {
    let Some(catalog) = here() else { return };
    let with = |catalog: &Catalog, name: &str| catalog.select(&[name]).map(|selection| selection.events);
    let untyped = Catalog::with(Tracefs::open().ok(), None);
    let switch = &with(&untyped, "sched_switch").expect("from tracefs")[0];
    assert!(matches!(&switch.hook, Hook::Tracepoint { path, .. } if path == "sched/sched_switch"));
    assert!(switch.fields.iter().any(|field| field.name == "prev_tid"));
    let untraced = Catalog::with(None, Btf::of_kernel().ok());
    assert_eq!(with(&untraced, "sched_switch"), with(&catalog, "sched_switch"));
    let openat = &with(&untraced, "syscall_entry_openat").expect("from the table")[0];
    assert_eq!(openat.fields.len(), 6);
    let nothing = Catalog::with(None, None);
    let selection = nothing.select(&["sched_switch"]).expect("the name is known");
    assert_eq!((selection.events.len(), selection.left_out.len()), (0, 1));
}

#[test]
fn damaged_formats_are_refused_or_read_and_never_panic() {
    const FORMAT: &str = "name: x\nID: 7\nformat:\n\tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;\n\n\tfield:char comm[16];\toffset:8;\tsize:16;\tsigned:0;\n\tfield:__data_loc char[] cmd;\toffset:24;\tsize:4;\tsigned:0;\n\tfield:unsigned int vec;\toffset:28;\tsize:4;\tsigned:0;\n\tfield:__u8 saddr[sizeof(struct sockaddr_in6)];\toffset:32;\tsize:28;\tsigned:0;\n\nprint fmt: \"%u\", REC->vec, __print_symbolic(REC->vec, { 0, \"HI\" }, { 1 << 3, \"RCU\" })\n";
    let read = format::parse(FORMAT).expect("well formed");
    let types: Vec<&Type> = read.fields.iter().map(|(field, _)| &field.ty).collect();
    assert!(matches!(types[0], Type::FixedText(16)));
    assert!(matches!(types[1], Type::Text));
    assert!(matches!(types[2], Type::Enumeration(_, labels) if labels.len() == 2 && labels[1].1 == 8));
    assert!(matches!(types[3], Type::Array(_, 28)));
    let (mut random, bytes) = (Random(7), FORMAT.as_bytes());
    for end in 0..bytes.len() {
        let _ = format::parse(&FORMAT[..end]);
    }
    for _ in 0..20_000 {
        let mut damaged = bytes.to_vec();
        for _ in 0..=random.below(4) {
            let at = random.below(damaged.len());
            damaged[at] = b"(){}[];:,\"\t\n 0129-<|&~x_R>*"[random.below(27)];
        }
        let _ = format::parse(&String::from_utf8_lossy(&damaged));
    }
    assert!(format::parse("").is_err());
    assert!(matches!(format::parse("name: x\nID: 1\nfield:int x;offset:y;"), Err(format::Error::Field(_))));
}

#[test]
fn damaged_types_are_refused_or_read_and_never_panic() {
    let Ok(whole) = std::fs::read(btf::OF_KERNEL) else {
        return mote_skip::skip("the kernel has no BTF");
    };
    let walk = |btf: &Btf| {
        let _ = btf.member("task_struct", "mm.exe_file.f_path.dentry.d_name.name");
        let _ = btf.parameters("sched_switch");
        let _ = btf.enumerator("req_op", "REQ_OP_READ");
        let _ = hot::event(btf, "block", "block_rq_issue");
    };
    let mut random = Random(11);
    for _ in 0..40 {
        let end = random.below(whole.len());
        if let Ok(btf) = Btf::read(whole[..end].to_vec()) {
            walk(&btf);
        }
    }
    for round in 0..40 {
        let mut damaged = whole.clone();
        for _ in 0..1000 {
            // Also only behind the types that are walked first.
            let at = if round % 2 == 0 { random.below(damaged.len()) } else { 24 + random.below(400_000) };
            damaged[at] = random.below(256) as u8;
        }
        if let Ok(btf) = Btf::read(damaged) {
            walk(&btf);
        }
    }
    for len in 0..200 {
        let noise: Vec<u8> = (0..len).map(|_| random.below(256) as u8).collect();
        assert!(Btf::read(noise).is_err());
    }
}
