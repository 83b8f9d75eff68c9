//! Events that happen often, or whose fields LTTng makes of other things than the kernel's trace events do: raw
//! tracepoints, written down by hand.
//!
//! The table below says of each what its arguments must be and where the fields lie; BTF says at which offsets. An
//! event that this kernel has with other arguments, or without one of the members, is taken from tracefs instead.
//!
//! ```text
//! event system:name ARGUMENTS          a structure's name: a pointer to it; *: another pointer; n: a number
//!   field TYPE SOURCE STEPS            SOURCE: 1 (argument), 1.mm.pgd (member of it), 1.* (where it points),
//!                                      tid, comm (of the running thread)
//! ```
//! Types are those of descriptions, `str`, and with `:` a list of labels. Steps: `-100`, `&255`, `>>9`, `?0=1:256` (256
//! when argument 0 is 1), `%state`, `@` (a thread's id, as the recorder sees it).

use crate::btf::{Btf, Member, Parameter};
use crate::event::{Bits, Event, Field, Hook, Origin, Step, Type};
use crate::{family, names};
use mote_layout::types::Scalar;

/// Fields as in lttng-modules, `sched.h`, `irq.h`, `timer.h`, `block.h`, `arch/x86/exceptions.h`. The priorities there
/// are relative to MAX_RT_PRIO (100).
const TABLE: &str = "
event sched:sched_switch n task_struct task_struct n
  prev_comm char[16] 1.comm
  prev_tid i32 1.pid
  prev_prio i32 1.prio -100
  prev_state i64:state 3 %state ?0=1:256
  next_comm char[16] 2.comm
  next_tid i32 2.pid
  next_prio i32 2.prio -100
event sched:sched_wakeup task_struct
  comm char[16] 0.comm
  tid i32 0.pid
  prio i32 0.prio -100
  target_cpu i32 0.thread_info.cpu
event sched:sched_waking task_struct
  comm char[16] 0.comm
  tid i32 0.pid
  prio i32 0.prio -100
  target_cpu i32 0.thread_info.cpu
event sched:sched_wakeup_new task_struct
  comm char[16] 0.comm
  tid i32 0.pid
  prio i32 0.prio -100
  target_cpu i32 0.thread_info.cpu
event sched:sched_migrate_task task_struct n
  comm char[16] 0.comm
  tid i32 0.pid
  prio i32 0.prio -100
  orig_cpu i32 0.thread_info.cpu
  dest_cpu i32 1
event sched:sched_process_fork task_struct task_struct
  parent_comm char[16] 0.comm
  parent_tid i32 0.pid
  parent_pid i32 0.tgid
  child_comm char[16] 1.comm
  child_tid i32 1.pid
  child_pid i32 1.tgid
event sched:sched_process_exit task_struct n
  comm char[16] 0.comm
  tid i32 0.pid
  prio i32 0.prio -100
event sched:sched_process_free task_struct
  comm char[16] 0.comm
  tid i32 0.pid
  prio i32 0.prio -100
event sched:sched_process_exec task_struct n linux_binprm
  filename str 2.filename
  tid i32 0.pid
  old_tid i32 1 @
event sched:sched_stat_runtime task_struct n
  comm char[16] 0.comm
  tid i32 0.pid
  runtime u64 1
event irq:irq_handler_entry n irqaction
  irq i32 0
  name str 1.name
event irq:irq_handler_exit n irqaction n
  irq i32 0
  ret i32 2
event irq:softirq_entry n
  vec u32:softirq 0
event irq:softirq_exit n
  vec u32:softirq 0
event irq:softirq_raise n
  vec u32:softirq 0
event timer:hrtimer_start hrtimer n
  hrtimer x64 0
  function x64 0.function
  expires i64 0.node.expires
  softexpires i64 0._softexpires
  mode u32:mode 1
event timer:hrtimer_start hrtimer n n
  hrtimer x64 0
  function x64 0.function
  expires i64 0.node.expires
  softexpires i64 0._softexpires
  mode u32:mode 1
  was_armed u8 2
event timer:hrtimer_expire_entry hrtimer *
  hrtimer x64 0
  now i64 1.*
  function x64 0.function
event timer:hrtimer_expire_exit hrtimer
  hrtimer x64 0
event timer:hrtimer_cancel hrtimer
  hrtimer x64 0
event timer:timer_init timer_list
  timer x64 0
event timer:timer_cancel timer_list
  timer x64 0
event timer:timer_expire_exit timer_list
  timer x64 0
event block:block_rq_insert request
  dev u32 0.q.disk.part0.bd_dev
  sector u64 0.__sector
  nr_sector u32 0.__data_len >>9
  bytes u32 0.__data_len
  tid i32 tid
  rwbs u32:request 0.cmd_flags %rwbs
  comm char[16] comm
event block:block_rq_issue request
  dev u32 0.q.disk.part0.bd_dev
  sector u64 0.__sector
  nr_sector u32 0.__data_len >>9
  bytes u32 0.__data_len
  tid i32 tid
  rwbs u32:request 0.cmd_flags %rwbs
  comm char[16] comm
event block:block_rq_merge request
  dev u32 0.q.disk.part0.bd_dev
  sector u64 0.__sector
  nr_sector u32 0.__data_len >>9
  bytes u32 0.__data_len
  tid i32 tid
  rwbs u32:request 0.cmd_flags %rwbs
  comm char[16] comm
event block:block_rq_requeue request
  dev u32 0.q.disk.part0.bd_dev
  sector u64 0.__sector
  nr_sector u32 0.__data_len >>9
  rwbs u32:request 0.cmd_flags %rwbs
event block:block_rq_complete request n n
  dev u32 0.q.disk.part0.bd_dev
  sector u64 0.__sector
  nr_sector u32 2 >>9
  error i32 1 %blk_status
  rwbs u32:request 0.cmd_flags %rwbs
event block:block_bio_queue bio
  dev u32 0.bi_bdev.bd_dev
  sector u64 0.bi_iter.bi_sector
  nr_sector u32 0.bi_iter.bi_size >>9
  rwbs u32:request 0.bi_opf %rwbs
  tid i32 tid
  comm char[16] comm
event block:block_bio_frontmerge bio
  dev u32 0.bi_bdev.bd_dev
  sector u64 0.bi_iter.bi_sector
  nr_sector u32 0.bi_iter.bi_size >>9
  rwbs u32:request 0.bi_opf %rwbs
  tid i32 tid
  comm char[16] comm
event block:block_bio_backmerge bio
  dev u32 0.bi_bdev.bd_dev
  sector u64 0.bi_iter.bi_sector
  nr_sector u32 0.bi_iter.bi_size >>9
  rwbs u32:request 0.bi_opf %rwbs
  tid i32 tid
  comm char[16] comm
event exceptions:page_fault_user n pt_regs n
  address x64 0
  ip x64 1.ip
  error_code x8:fault 2
event exceptions:page_fault_kernel n pt_regs n
  address x64 0
  ip x64 1.ip
  error_code x8:fault 2
";

/// The definition of an event for this kernel, if the table has one that fits.
pub(crate) fn event(btf: &Btf, system: &str, name: &str) -> Option<Event> {
    let arguments = btf.parameters(name)?;
    let full_name = format!("{system}:{name}");
    TABLE.split("\nevent ").skip(1).find_map(|entry| {
        let mut lines = entry.lines();
        let mut head = lines.next()?.split_whitespace();
        if head.next()? != full_name || !fits(&arguments, head) {
            return None;
        }
        let fields = lines.map(|line| field(btf, &arguments, line)).collect::<Option<_>>()?;
        Some(Event {
            provider: family::of(system, name).to_owned(),
            name: names::event(system, name),
            fields,
            hook: Hook::Raw { name: name.to_owned(), btf_id: btf.tracepoint(name) },
        })
    })
}

/// System and name of the events in the table.
pub(crate) fn all() -> impl Iterator<Item = (&'static str, &'static str)> {
    let heads = TABLE.split("\nevent ").skip(1).filter_map(|entry| entry.split_whitespace().next());
    heads.filter_map(|name| name.split_once(':'))
}

fn fits<'a>(arguments: &[Parameter], mut wanted: impl Iterator<Item = &'a str>) -> bool {
    let all = arguments.iter().all(|argument| match (argument, wanted.next()) {
        (Parameter::Number, Some("n")) | (Parameter::Pointer(_), Some("*")) => true,
        (Parameter::Pointer(name), Some(wanted)) => name == wanted,
        _ => false,
    });
    all && wanted.next().is_none()
}

/// A line of the table.
fn field(btf: &Btf, arguments: &[Parameter], line: &str) -> Option<Field> {
    let mut words = line.split_whitespace();
    let (name, ty, source) = (words.next()?, words.next()?, words.next()?);
    let steps = words.map(|word| step(btf, word)).collect::<Option<Vec<_>>>()?;
    let from = origin(btf, arguments, source, ty == "str")?;
    let from = if steps.is_empty() { from } else { Origin::Made { from: Box::new(from), steps } };
    Some(Field { name: name.to_owned(), ty: type_of(ty)?, from })
}

fn origin(btf: &Btf, arguments: &[Parameter], source: &str, text: bool) -> Option<Origin> {
    match source {
        "tid" => return Some(Origin::Tid),
        "comm" => return Some(Origin::Comm),
        _ => {}
    }
    let (argument, path) = source.split_once('.').map_or((source, None), |(a, path)| (a, Some(path)));
    let argument: u8 = argument.parse().ok()?;
    let Some(names) = path else { return Some(Origin::Argument(argument)) };
    if names == "*" {
        return Some(Origin::Member { argument, path: vec![0], bytes: 8 });
    }
    let Parameter::Pointer(structure) = arguments.get(usize::from(argument))? else { return None };
    let Member { path, bytes, pointer, .. } = btf.member(structure, names)?;
    match text {
        true => pointer.then_some(Origin::KernelText { argument, path }),
        false if structure == "task_struct" && matches!(names, "pid" | "tgid") => {
            Some(Origin::TaskId { argument, path, process: names == "tgid" })
        }
        false => Some(Origin::Member { argument, path, bytes: u8::try_from(bytes).ok()? }),
    }
}

fn type_of(text: &str) -> Option<Type> {
    let scalar = |name: &str| Scalar::ALL.into_iter().find(|scalar| scalar.name() == name);
    if let Some(len) = text.strip_prefix("char[").and_then(|rest| rest.strip_suffix(']')) {
        return Some(Type::FixedText(len.parse().ok()?));
    }
    Some(match text.split_once(':') {
        _ if text == "str" => Type::Text,
        None => Type::Scalar(scalar(text)?),
        Some((base, "state")) => Type::Labelled(scalar(base)?, labels(&STATES)),
        Some((base, "softirq")) => Type::Labelled(scalar(base)?, labels(&SOFTIRQS)),
        Some((base, "request")) => Type::Labelled(scalar(base)?, labels(&REQUEST)),
        Some((base, "mode")) => Type::Enumeration(scalar(base)?, labels(&HRTIMER_MODES)),
        Some((base, "fault")) => {
            let bits = FAULTS.iter().map(|(name, value)| ((*name).to_owned(), *value as u64));
            Type::Flags(scalar(base)?, bits.collect())
        }
        Some(_) => return None,
    })
}

fn labels(list: &[(&str, i64)]) -> Vec<(String, i64, i64)> {
    list.iter().map(|(name, value)| ((*name).to_owned(), *value, *value)).collect()
}

/// What a thread is that leaves the CPU, as the kernel reports it (`include/linux/sched.h`); 0x100: it was preempted.
const STATES: [(&str, i64); 10] = [
    ("TASK_RUNNING", 0),
    ("TASK_INTERRUPTIBLE", 1),
    ("TASK_UNINTERRUPTIBLE", 2),
    ("TASK_STOPPED", 4),
    ("TASK_TRACED", 8),
    ("EXIT_DEAD", 0x10),
    ("EXIT_ZOMBIE", 0x20),
    ("TASK_PARKED", 0x40),
    ("TASK_IDLE", 0x80),
    ("TASK_PREEMPTED", 0x100),
];
const SOFTIRQS: [(&str, i64); 10] = [
    ("HI", 0),
    ("TIMER", 1),
    ("NET_TX", 2),
    ("NET_RX", 3),
    ("BLOCK", 4),
    ("IRQ_POLL", 5),
    ("TASKLET", 6),
    ("SCHED", 7),
    ("HRTIMER", 8),
    ("RCU", 9),
];
/// LTTng's bits of a request (`block.h`, RWBS_FLAG_*).
const REQUEST: [(&str, i64); 11] = [
    ("WRITE", 1),
    ("DISCARD", 1 << 1),
    ("READ", 1 << 2),
    ("RAHEAD", 1 << 3),
    ("BARRIER", 1 << 4),
    ("SYNC", 1 << 5),
    ("META", 1 << 6),
    ("SECURE", 1 << 7),
    ("FLUSH", 1 << 8),
    ("FUA", 1 << 9),
    ("PREFLUSH", 1 << 10),
];
const HRTIMER_MODES: [(&str, i64); 12] = [
    ("HRTIMER_MODE_ABS", 0),
    ("HRTIMER_MODE_REL", 1),
    ("HRTIMER_MODE_ABS_PINNED", 2),
    ("HRTIMER_MODE_REL_PINNED", 3),
    ("HRTIMER_MODE_ABS_SOFT", 4),
    ("HRTIMER_MODE_REL_SOFT", 5),
    ("HRTIMER_MODE_ABS_PINNED_SOFT", 6),
    ("HRTIMER_MODE_REL_PINNED_SOFT", 7),
    ("HRTIMER_MODE_ABS_HARD", 8),
    ("HRTIMER_MODE_REL_HARD", 9),
    ("HRTIMER_MODE_ABS_PINNED_HARD", 10),
    ("HRTIMER_MODE_REL_PINNED_HARD", 11),
];
const FAULTS: [(&str, i64); 6] = [
    ("PROTECTION_FAULT", 1),
    ("WRITE_ACCESS", 2),
    ("USER_MODE", 4),
    ("RESERVED_BIT", 8),
    ("INSTRUCTION_FETCH", 16),
    ("PROTECTION_KEYS_BLOCK", 32),
];

fn step(btf: &Btf, text: &str) -> Option<Step> {
    let (sign, rest) = text.split_at_checked(1)?;
    match sign {
        "@" => Some(Step::RecorderTid),
        "-" => Some(Step::Add(-rest.parse::<i64>().ok()?)),
        "&" => Some(Step::And(rest.parse().ok()?)),
        ">" => Some(Step::Shift(rest.strip_prefix('>')?.parse().ok()?)),
        "?" => {
            let (condition, value) = rest.split_once(':')?;
            let (argument, equals) = condition.split_once('=')?;
            Some(Step::When {
                argument: argument.parse().ok()?,
                equals: equals.parse().ok()?,
                value: value.parse().ok()?,
            })
        }
        "%" => match rest {
            "state" => Some(Step::Bits(states())),
            "rwbs" => request_flags(btf).map(Step::Bits),
            "blk_status" => Some(Step::Bits(block_errors())),
            _ => None,
        },
        _ => None,
    }
}

/// From a thread's state to the one that is reported: of sleeping threads, those that do not count as load are idle.
fn states() -> Vec<Bits> {
    const NO_LOAD: u64 = 0x400;
    const DEAD: u64 = 0x80;
    const LOCK_WAIT: u64 = 0x1000;
    let bit = |bit: u64| Bits { mask: bit, equals: bit, set: bit };
    vec![
        bit(1),
        Bits { mask: NO_LOAD | 2, equals: 2, set: 2 },
        Bits { mask: NO_LOAD | 2, equals: NO_LOAD | 2, set: 0x80 },
        Bits { mask: LOCK_WAIT, equals: LOCK_WAIT, set: 2 },
        bit(4),
        bit(8),
        bit(0x10),
        bit(0x20),
        bit(0x40),
        Bits { mask: DEAD, equals: DEAD, set: 0x10 },
    ]
}

/// The bits of a request, of the kernel's operation and flags.
fn request_flags(btf: &Btf) -> Option<Vec<Bits>> {
    const OPERATION: u64 = 0xff;
    let operations = [
        ("REQ_OP_READ", 4),
        ("REQ_OP_WRITE", 1),
        ("REQ_OP_FLUSH", 1 << 8),
        ("REQ_OP_DISCARD", 2),
        ("REQ_OP_SECURE_ERASE", 2 | 1 << 7),
    ];
    let flags = [
        ("__REQ_RAHEAD", 1 << 3),
        ("__REQ_SYNC", 1 << 5),
        ("__REQ_META", 1 << 6),
        ("__REQ_FUA", 1 << 9),
        ("__REQ_PREFLUSH", 1 << 10),
    ];
    let mut rules = Vec::new();
    for (name, set) in operations {
        let equals = btf.enumerator("req_op", name)?;
        rules.push(Bits { mask: OPERATION, equals, set });
    }
    for (name, set) in flags {
        let bit = btf.enumerator("req_flag_bits", name).filter(|bit| *bit < 64)?;
        rules.push(Bits { mask: 1 << bit, equals: 1 << bit, set });
    }
    Some(rules)
}

/// From the block layer's states to errors (`block/blk-core.c`, blk_errors).
fn block_errors() -> Vec<Bits> {
    let errors = [
        (1, libc::EOPNOTSUPP),
        (2, libc::ETIMEDOUT),
        (3, libc::ENOSPC),
        (4, libc::ENOLINK),
        (5, libc::EREMOTEIO),
        (6, libc::EBADE),
        (7, libc::ENODATA),
        (8, libc::EILSEQ),
        (9, libc::ENOMEM),
        (10, libc::EIO),
        (12, libc::EAGAIN),
    ];
    errors.map(|(equals, error)| Bits { mask: 0xff, equals, set: i64::from(-error) as u64 }).into()
}
