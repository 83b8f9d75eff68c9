//! Families of events: one word for what people look for together, and which systems of tracefs that is.

/// A family.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Family {
    /// The word.
    pub name: &'static str,
    /// What it is about.
    pub about: &'static str,
    /// Systems of tracefs; with `:`, only events of the system that begin so.
    pub systems: &'static [&'static str],
}

/// All of them. What is in no family is in one that has the name of its system.
pub const FAMILIES: [Family; 12] = [
    Family {
        name: "sched",
        about: "switches, wake-ups, migrations; threads and processes that begin and end",
        systems: &["sched"],
    },
    Family {
        name: "syscalls",
        about: "system calls: entry with arguments, exit with result",
        systems: &["syscalls"],
    },
    Family { name: "block", about: "requests to disks", systems: &["block"] },
    Family {
        name: "net",
        about: "packets, sockets, protocols",
        systems: &[
            "net",
            "skb",
            "sock",
            "tcp",
            "udp",
            "icmp",
            "napi",
            "qdisc",
            "neigh",
            "fib",
            "fib6",
            "bridge",
            "mptcp",
            "vsock",
            "netlink",
            "page_pool",
            "xdp",
        ],
    },
    Family {
        name: "irq",
        about: "interrupts, soft interrupts, interrupts between CPUs",
        systems: &["irq", "irq_vectors", "ipi", "nmi", "csd"],
    },
    Family {
        name: "mm",
        about: "memory: page faults, allocation, reclaim, compaction, mappings",
        systems: &[
            "exceptions:page_fault",
            "kmem",
            "vmscan",
            "compaction",
            "mmap",
            "mmap_lock",
            "oom",
            "migrate",
            "thp",
            "huge_memory",
            "ksm",
            "pagemap",
            "page_isolation",
            "percpu",
            "tlb",
            "vmalloc",
            "memcg",
            "maple_tree",
        ],
    },
    Family {
        name: "power",
        about: "sleep states and frequencies of CPUs and devices",
        systems: &["power", "rpm", "cpuhp", "thermal"],
    },
    Family { name: "timer", about: "timers, ticks", systems: &["timer", "alarmtimer", "timer_migration"] },
    Family { name: "signal", about: "signals that are sent and delivered", systems: &["signal"] },
    Family {
        name: "fs",
        about: "file systems, page cache, write-back, locks of files",
        systems: &[
            "ext4",
            "xfs",
            "btrfs",
            "jbd2",
            "erofs",
            "fuse",
            "iomap",
            "filemap",
            "filelock",
            "readahead",
            "writeback",
            "wbt",
            "fs_dax",
        ],
    },
    Family { name: "lock", about: "contended locks of the kernel", systems: &["lock"] },
    Family { name: "workqueue", about: "deferred work", systems: &["workqueue"] },
];

/// The family of an event.
pub(crate) fn of<'a>(system: &'a str, event: &str) -> &'a str {
    let has = |listed: &&str| match listed.split_once(':') {
        Some((of, start)) => of == system && event.starts_with(start),
        None => *listed == system,
    };
    FAMILIES.iter().find(|family| family.systems.iter().any(has)).map_or(system, |family| family.name)
}
