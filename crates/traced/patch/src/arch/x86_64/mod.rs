//! x86-64. See [`crate::arch`] for what each item is.

mod site;
mod write;

pub(crate) use site::{
    HOP, Head, NOP, SITE_BYTES, TRAP, begins_site, behind, can_hop, is_hop_promised, jump, jump_target,
    read_head,
};
pub(crate) use write::{serialise, store, store_pair};

/// Of the kernel's `syscall_64.tbl`.
pub(crate) const SYS_IO_PGETEVENTS: libc::c_long = 333;
