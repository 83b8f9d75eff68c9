//! Names of events and fields where LTTng (lttng-modules, `include/instrumentation/events`) has others than the kernel.

use crate::arch::EVENT_NAMES;

/// System, how the kernel's name begins, and what LTTng has instead of that beginning.
const EVENTS: [(&str, &str, &str); 16] = [
    ("irq", "softirq_", "irq_softirq_"),
    ("timer", "hrtimer_", "timer_hrtimer_"),
    ("timer", "itimer_", "timer_itimer_"),
    ("net", "netif_receive_skb", "net_if_receive_skb"),
    ("net", "netif_rx", "net_if_rx"),
    ("net", "napi_gro_", "net_napi_gro_"),
    ("skb", "kfree_skb", "skb_kfree"),
    ("skb", "consume_skb", "skb_consume"),
    ("kmem", "kmalloc", "kmem_kmalloc"),
    ("kmem", "kfree", "kmem_kfree"),
    ("kmem", "mm_page", "kmem_mm_page"),
    ("power", "cpu_idle", "power_cpu_idle"),
    ("power", "cpu_frequency", "power_cpu_frequency"),
    ("power", "machine_suspend", "power_machine_suspend"),
    ("compaction", "mm_compaction_", "compaction_"),
    ("printk", "console", "printk_console"),
];

/// LTTng's name of an event of tracefs.
pub(crate) fn event(system: &str, name: &str) -> String {
    let renamed = EVENTS.iter().chain(&EVENT_NAMES).find_map(|(of, from, to)| {
        let rest = (*of == system).then(|| name.strip_prefix(from))??;
        Some(format!("{to}{rest}"))
    });
    renamed.unwrap_or_else(|| name.to_owned())
}

/// LTTng's name of a field: what the scheduler's events call `pid` is the id of a thread.
pub(crate) fn field(system: &str, name: &str) -> String {
    match name.strip_suffix("pid") {
        Some(start) if system == "sched" && (start.is_empty() || start.ends_with('_')) => {
            format!("{start}tid")
        }
        _ => name.to_owned(),
    }
}
