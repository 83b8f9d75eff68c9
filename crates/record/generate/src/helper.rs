//! Numbers of the kernel's functions for programs (`enum bpf_func_id` of `linux/bpf.h`).

pub(crate) const KTIME_GET_NS: u32 = 5;
pub(crate) const TAIL_CALL: u32 = 12;
pub(crate) const GET_SMP_PROCESSOR_ID: u32 = 8;
pub(crate) const GET_CURRENT_PID_TGID: u32 = 14;
pub(crate) const GET_CURRENT_COMM: u32 = 16;
pub(crate) const GET_STACK: u32 = 67;
pub(crate) const PROBE_READ_USER: u32 = 112;
pub(crate) const PROBE_READ_KERNEL: u32 = 113;
pub(crate) const PROBE_READ_USER_STR: u32 = 114;
pub(crate) const PROBE_READ_KERNEL_STR: u32 = 115;
pub(crate) const GET_CURRENT_ANCESTOR_CGROUP_ID: u32 = 123;
pub(crate) const GET_CURRENT_TASK_BTF: u32 = 158;
pub(crate) const GET_ATTACH_COOKIE: u32 = 174;
