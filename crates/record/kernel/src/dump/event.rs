//! The events of the dump: names and fields, and a record of one.

/// A record of the dump.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// Which event: the index of its description.
    pub event: usize,
    /// The thread that dumps.
    pub tid: u32,
    /// Its fields, as `mote_layout::types` says.
    pub fields: Vec<u8>,
}

/// The kinds of records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Start,
    End,
    Process,
    Namespace,
    File,
    Mapping,
    Interface,
    Cpu,
    Disk,
    Interrupt,
}

/// Name and fields of each kind, in order.
const EVENTS: [(&str, &[&str]); 10] = [
    ("start", &[]),
    ("end", &[]),
    (
        "process_state",
        &[
            "tid i32",
            "pid i32",
            "ppid i32",
            "name char[16]",
            "type labelled i32 USER_THREAD=0 KERNEL_THREAD=1",
            "mode labelled i32 USER_MODE=0 SYSCALL=1 TRAP=2 IRQ=3 SOFTIRQ=4 UNKNOWN=5",
            "submode labelled i32 NONE=0 UNKNOWN=1",
            "status labelled i32 UNNAMED=0 WAIT_FORK=1 WAIT_CPU=2 EXIT=3 ZOMBIE=4 WAIT=5 RUN=6 DEAD=7",
            "cpu u32",
            "file_table_address x64",
        ],
    ),
    ("process_pid_ns", &["tid i32", "vtid i32", "vpid i32", "vppid i32", "ns_level i32", "ns_inum u32"]),
    (
        "file_descriptor",
        &["file_table_address x64", "pid i32", "fd i32", "flags x32", "fmode x32", "filename str"],
    ),
    (
        "vm_map",
        &[
            "pid i32",
            "start x64",
            "end x64",
            "flags flags x64 VM_READ=1 VM_WRITE=2 VM_EXEC=4 VM_SHARED=8",
            "inode u64",
            "pgoff u64",
            "filename str",
        ],
    ),
    ("network_interface", &["name str", "address_ipv4 x32"]),
    (
        "cpu_topology",
        &[
            "architecture str",
            "cpu_id u16",
            "vendor str",
            "family u8",
            "model u8",
            "model_name str",
            "physical_id u16",
            "core_id u16",
            "cores u16",
        ],
    ),
    ("block_device", &["dev u32", "diskname str"]),
    ("interrupt", &["irq u32", "name str", "action str", "tid i32"]),
];

/// The descriptions of the dump's events (`mote_layout::parse` reads them), for the metadata.
pub fn descriptions() -> Vec<String> {
    let describe = |(name, fields): &(&str, &[&str])| {
        let lines: String = fields.iter().flat_map(|field| [*field, "\n"]).collect();
        format!("{}\nstatedump:lttng_statedump_{name}\n6 :0\n\n{lines}", mote_layout::describe::VERSION)
    };
    EVENTS.iter().map(describe).collect()
}
