//! Whether interrupts are enabled, as far as what was executed says: for `popf` and `iret`, which restore it.
//!
//! No packet tells the interrupt flag, except on processors with event trace (MODE.Exec, SDM 33.4.2.8). What `popf`
//! restores is what the `pushf` before it saved, and `iret` what the interrupt saved that it returns from: kernels nest
//! them like parentheses. So the flag is kept there where it is known. Programs run with interrupts enabled. Linux
//! enters the kernel with interrupts disabled: by gates of interrupts, and by the mask of `syscall` (Linux 6.1,
//! `arch/x86/kernel/idt.c`, `syscall_init`).

use super::marks::Switching;

/// How deep `pushf` and interrupts are remembered.
const DEPTH_MAX: usize = 64;

/// The interrupt flag.
#[derive(Clone, Debug, Default)]
pub(super) struct Interrupts {
    /// Nothing where it is not known.
    are_enabled: Option<bool>,
    by_pushf: Vec<Option<bool>>,
    by_interrupt: Vec<Option<bool>>,
}

impl Interrupts {
    /// An instruction was executed. Returns whether interrupts may be enabled behind it.
    pub(super) fn take(&mut self, switching: Switching) -> bool {
        match switching {
            Switching::Cli | Switching::Syscall => self.are_enabled = Some(false),
            Switching::Sti | Switching::Sysret => self.are_enabled = Some(true),
            Switching::Pushf => push(&mut self.by_pushf, self.are_enabled),
            Switching::Popf => self.are_enabled = self.by_pushf.pop().flatten(),
            Switching::Iret => self.are_enabled = self.by_interrupt.pop().flatten(),
        }
        self.are_enabled != Some(false)
    }

    /// Something interrupts, in the kernel or in a program.
    pub(super) fn interrupt(&mut self, is_in_kernel: bool) {
        push(&mut self.by_interrupt, if is_in_kernel { self.are_enabled } else { Some(true) });
        self.are_enabled = Some(false);
    }

    /// A packet says so.
    pub(super) fn set(&mut self, are_enabled: bool) {
        self.are_enabled = Some(are_enabled);
    }

    /// Code is missing here.
    pub(super) fn forget(&mut self) {
        *self = Interrupts::default();
    }
}

fn push(saved: &mut Vec<Option<bool>>, are_enabled: Option<bool>) {
    if saved.len() == DEPTH_MAX {
        saved.remove(0);
    }
    saved.push(are_enabled);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_are_restored_as_they_were_saved() {
        use Switching::{Cli, Popf, Pushf, Sti};
        let mut interrupts = Interrupts::default();
        // What the first one saves is not known, so that what it restores may be that they are enabled.
        let outer = [Pushf, Cli, Pushf, Cli, Popf, Popf, Popf, Sti, Pushf, Cli, Popf];
        let may = outer.map(|one| interrupts.take(one));
        assert_eq!(may, [true, false, false, false, false, true, true, true, true, false, true]);
        interrupts.set(false);
        assert!(!interrupts.take(Pushf));
        interrupts.forget();
        assert!(interrupts.take(Pushf));
    }

    #[test]
    fn interrupts_give_back_what_they_found() {
        use Switching::{Cli, Iret, Sti, Syscall, Sysret};
        let mut interrupts = Interrupts::default();
        assert!(!interrupts.take(Syscall) && interrupts.take(Sti) && !interrupts.take(Cli));
        // A fault while they are disabled.
        interrupts.interrupt(true);
        assert!(!interrupts.take(Iret) && interrupts.take(Sysret));
        interrupts.interrupt(false);
        interrupts.interrupt(true);
        assert!(!interrupts.take(Iret) && interrupts.take(Iret) && interrupts.take(Iret));
    }
}
