//! The seam for the processor: what a site may hold, and how it is written, by the same names for each. The protocol is
//! that of [`crate::batch`].
//!
//! | item | what a processor's folder gives |
//! |---|---|
//! | `SITE_BYTES` | bytes of a site: the length of its NOP and of its jump, which are one instruction each |
//! | `NOP` | the one NOP that a site may hold |
//! | `jump`, `jump_target` | the jump from a site, to and from bytes |
//! | `behind` | the address of the instruction after a site |
//! | `Head`, `TRAP` | a breakpoint instruction, as the number that its bytes are |
//! | `read_head` | the same bytes of a site, as they are now |
//! | `begins_site` | whether a site that no batch holds open may begin so |
//! | `HOP`, `can_hop`, `is_hop_promised` | a short jump over the rest of the site; where it can be used; whether the vendor says so |
//! | `store`, `store_pair` | one store instruction each, of a byte and of a hop |
//! | `serialise` | makes this core drop instructions that it has fetched before |
//! | `SYS_IO_PGETEVENTS` | the number of io_pgetevents(2), which libc does not name |
//!
//! A second processor is a second folder, and its line in the list below.

#[cfg(target_arch = "x86_64")]
mod x86_64;
#[cfg(target_arch = "x86_64")]
pub(crate) use x86_64::*;

#[cfg(not(target_arch = "x86_64"))]
compile_error!(
    "mote-trace-patch does not know this processor: add src/arch/NAME with what src/arch/mod.rs lists"
);
