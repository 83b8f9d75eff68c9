//! The programs: at the entry and the return of system calls, at switches and wake-ups, at the end of threads and at
//! exec.

mod code;
mod life;
mod record;
mod sched;
mod syscall;

use crate::offsets::Offsets;
use code::Code;
use mote_bpf::Insn;
use mote_builder::BuildError;
use mote_generate::state::Layout;

/// The tracepoint of wake-ups.
pub(crate) const WAKING: &str = "sched_waking";

/// The programs, each with its tracepoint: entries of calls behind returns, and ends of threads before all, so that
/// nothing is half seen.
pub(crate) fn all(offsets: &Offsets, layout: Layout) -> [(&'static str, Result<Vec<Insn>, BuildError>); 6] {
    let code = || Code::new(offsets, layout);
    [
        ("sched_process_exit", life::exit(offsets, layout)),
        ("sched_process_exec", life::exec(offsets, layout)),
        ("sched_switch", sched::switch(offsets, layout)),
        (WAKING, waking(offsets, layout)),
        ("sys_exit", syscall::exit(code())),
        ("sys_enter", syscall::enter(code())),
    ]
}

/// The program at [`WAKING`].
pub(crate) fn waking(offsets: &Offsets, layout: Layout) -> Result<Vec<Insn>, BuildError> {
    sched::waking(offsets, layout)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::offsets::Throttled;
    use mote_builder::Field;
    use mote_catalog::btf::Btf;
    use mote_generate::Facts;
    use mote_generate::namespace::Namespace;

    /// The builder refuses a program that reads a register which a call took; no kernel need be asked for that.
    #[test]
    fn programs_are_built_for_every_kernel() {
        let btf = match Btf::of_kernel() {
            Ok(btf) => btf,
            Err(error) => return mote_skip::skip(format_args!("no types of the kernel: {error}")),
        };
        let here = Offsets::of(&btf).expect("the members are there");
        let ids = Facts::of(&btf).expect("the members are there").ids;
        let namespace = ids.map(|offsets| Namespace { level: 1, offsets });
        let queue = Throttled::Queue(Field::found(64, 8).unwrap(), Field::found(32, 4).unwrap());
        let variants = [
            Offsets { namespace, ..here.clone() },
            Offsets { throttled: queue, ..here.clone() },
            Offsets { files: None, abi_word: None, preempt_count: None, ..here.clone() },
            Offsets { throttled: Throttled::Unknown, namespace, ..here.clone() },
            here,
        ];
        let layout = Layout { cpus: 4, threads: 4096 };
        for offsets in &variants {
            for (name, insns) in all(offsets, layout) {
                let insns = insns.unwrap_or_else(|error| panic!("{name}: {error}"));
                println!("{name}: {} instructions", insns.len());
                assert!(insns.len() < 1_200, "{name} has {} instructions", insns.len());
            }
        }
    }
}
