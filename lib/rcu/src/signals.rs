//! The updater's fence for all threads by signals (thesis, figure 6.9).
//!
//! The updater sets `need_fence` in each slot and sends each thread a signal; the handler fences, clears the word and
//! fences. A thread that blocks the signal holds grace periods up; registration unblocks it.

use crate::domain::{Domain, Protocol};
use crate::error::RegisterError;
use crate::flavor::{Flavor, Signal};
use crate::phases::protocol;
use crate::slot::Slot;
use crate::wait::Patience;
use core::sync::atomic::{AtomicI32, AtomicUsize, Ordering, fence};
use mote_sys::{process, signal, thread};

/// By default one that does nothing in programs without a handler, should one arrive late.
const DEFAULT: i32 = libc::SIGURG;

/// The signal, negative once a thread has registered: then its handler is there, and updaters may send it.
static NUMBER: AtomicI32 = AtomicI32::new(DEFAULT);

/// Chooses the signal that this flavour uses, instead of SIGURG. False, and nothing is changed, when a thread has
/// registered already: another signal might end the program.
pub fn choose(signal: i32) -> bool {
    // What is no signal is refused when a thread registers.
    let unless_final = |number| (number >= 0).then_some(signal.max(0));
    NUMBER.fetch_update(Ordering::Relaxed, Ordering::Relaxed, unless_final).is_ok()
}

fn number() -> i32 {
    NUMBER.load(Ordering::Relaxed).saturating_abs()
}

/// Installs the handler, and lets the calling thread take the signal.
///
/// # Errors
/// The program handles the signal itself, or it is no signal.
pub(crate) fn prepare() -> Result<(), RegisterError> {
    loop {
        let number = number();
        install(number)?;
        signal::unblock(signal::bit(number));
        let made_final = NUMBER.compare_exchange(number, -number, Ordering::Relaxed, Ordering::Relaxed);
        // Else another thread has just chosen another.
        if made_final.map_or_else(|now| now == -number, |_| true) {
            return Ok(());
        }
    }
}

fn install(number: i32) -> Result<(), RegisterError> {
    let handler = answer as *const () as usize;
    let now = signal::action(number).map_err(RegisterError::Signal)?;
    if now.handler != handler {
        if now.handler != libc::SIG_DFL && now.handler != libc::SIG_IGN {
            return Err(RegisterError::SignalTaken(number));
        }
        let action = signal::Action::new(handler, libc::SA_RESTART | libc::SA_ONSTACK, 0);
        // SAFETY: the handler touches one atomic of the thread's slot and nothing else.
        unsafe { signal::set_action(number, &action) }.map_err(RegisterError::Signal)?;
    }
    Ok(())
}

/// The handler: both fences as in the figure. Without a slot the thread is no reader, and any handler is a fence.
extern "C" fn answer(_: i32) {
    fence(Ordering::SeqCst);
    if let Some(slot) = Signal::slot() {
        slot.need_fence.store(0, Ordering::Relaxed);
    }
    fence(Ordering::SeqCst);
}

/// The signal flavour's grace periods.
#[derive(Debug)]
pub enum FenceBySignal {}

impl Protocol for FenceBySignal {
    const FIRST: usize = crate::slot::GUARDED;
    const PHASES: u64 = protocol::PHASES;

    fn advance(gp: &AtomicUsize) -> usize {
        protocol::advance(gp)
    }

    fn is_old(word: usize, gp: usize) -> bool {
        protocol::is_old(word, gp)
    }

    fn fence_all(domain: &Domain<Self>, own: Option<&Slot>) {
        fence(Ordering::SeqCst);
        if domain.registry.is_alone(own) {
            return;
        }
        let (pid, number) = (process::pid(), number());
        let others = || {
            let others = domain.registry.entries();
            others.filter(|entry| own.is_none_or(|own| !core::ptr::eq(own, entry.slot)))
        };
        for entry in others() {
            entry.slot.need_fence.store(1, Ordering::Relaxed);
            let _ = thread::send_signal(pid, entry.slot.owner().tid(), number);
        }
        for entry in others() {
            let mut patience = Patience::default();
            while entry.slot.need_fence.load(Ordering::Relaxed) != 0 {
                patience.wait();
                if !patience.is_long() {
                    continue;
                }
                if domain.registry.dead_owner(pid, entry).is_some() {
                    // What the dead have done is done.
                    break;
                }
                // Lost, or the queue was full.
                let _ = thread::send_signal(pid, entry.slot.owner().tid(), number);
            }
        }
        fence(Ordering::SeqCst);
    }
}
