//! A thread that is stopped for a moment. Whatever happens, it goes on: when this is dropped, and when its tracer ends,
//! which the kernel sees to.

use crate::arch::Registers;
use crate::target::{Patience, Target, errno};
use crate::thread;
use mote_layout::join::{RESTART_BYTES, restart};
use mote_sys::Errno;
use mote_sys::ptrace::{self, State};
use std::fs::File;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::time::{Duration, Instant};

/// How long a thread may take to stop: one that waits for a disk does not.
const STOPPING: Duration = Duration::from_secs(1);
/// How often it is looked whether it has.
const LOOK: Duration = Duration::from_micros(100);

/// A stopped thread.
pub(crate) struct Stopped {
    tid: i32,
    registers: Registers,
    /// A signal that it was about to take.
    signal: i32,
}

/// A thread that is in a call that the kernel has interrupted for us.
pub(crate) struct Waiting {
    /// Why it was, above 0.
    pub(crate) kind: u64,
    /// Where its stack is.
    pub(crate) stack_pointer: u64,
    /// Behind the instruction of the call.
    pub(crate) returns_to: u64,
}

impl Stopped {
    /// Stops a thread. `None` when it is about to take a signal, or has gone: it goes on.
    ///
    /// # Errors
    /// `ETIMEDOUT` when it does not stop; it is let go when the calling thread ends. `EPERM` when it is traced or may
    /// not be.
    pub(crate) fn stop(tid: i32, patience: &Patience<'_>) -> Result<Option<Stopped>, Errno> {
        if Stopped::ask(tid)? { Stopped::asked(tid, patience) } else { Ok(None) }
    }

    /// Asks a thread to stop. Returns whether it is there.
    ///
    /// # Errors
    /// `EPERM` when it is traced or may not be.
    pub(crate) fn ask(tid: i32) -> Result<bool, Errno> {
        match ptrace::seize(tid) {
            Err(Errno(libc::ESRCH)) => return Ok(false),
            seized => seized?,
        }
        ptrace::interrupt(tid).or_else(gone)?;
        Ok(true)
    }

    /// One that was asked to stop, as [`Stopped::stop`].
    ///
    /// # Errors
    /// As there.
    pub(crate) fn asked(tid: i32, patience: &Patience<'_>) -> Result<Option<Stopped>, Errno> {
        Stopped::asked_as(tid, patience, |state| state == State::Interrupted)
    }

    /// As [`Stopped::asked`]; also one whose process is stopped by a signal, and stays so.
    ///
    /// # Errors
    /// As there.
    pub(crate) fn halted(tid: i32, patience: &Patience<'_>) -> Result<Option<Stopped>, Errno> {
        let suits = |state| matches!(state, State::Interrupted | State::GroupStop);
        Stopped::asked_as(tid, patience, suits)
    }

    fn asked_as(
        tid: i32,
        patience: &Patience<'_>,
        suits: impl Fn(State) -> bool,
    ) -> Result<Option<Stopped>, Errno> {
        let until = Instant::now() + STOPPING;
        let state = loop {
            match ptrace::state(tid) {
                Ok(State::Runs) if Instant::now() > until || patience.is_over() => {
                    return Err(Errno(libc::ETIMEDOUT));
                }
                Ok(State::Runs) => std::thread::sleep(LOOK),
                Err(Errno(libc::EINTR)) => {}
                Err(Errno(libc::ECHILD)) | Ok(State::Gone) => return Ok(None),
                state => break state?,
            }
        };
        let signal = if let State::Signal(signal) = state { signal } else { 0 };
        let Ok(registers) = Registers::of(tid) else {
            let _ = ptrace::detach(tid, signal);
            return Ok(None);
        };
        let mut stopped = Stopped { tid, registers, signal };
        if !suits(state) {
            return Ok(None);
        }
        stopped.begin_again();
        Ok(Some(stopped))
    }

    /// One that has stopped because [`ptrace::interrupt`] asked for it; it goes on, untraced, when this is dropped.
    pub(crate) fn interrupted_before(tid: i32) -> Option<Stopped> {
        let mut stopped = Stopped { tid, registers: Registers::of(tid).ok()?, signal: 0 };
        stopped.begin_again();
        Some(stopped)
    }

    /// A call without a time limit that has ended because of this stop alone is begun again, whatever becomes of the
    /// thread now: unless a handler runs.
    fn begin_again(&mut self) {
        let has_ended = |kind| kind == restart::NOHAND && self.registers.answer() == -i64::from(libc::EINTR);
        if self.interrupted().is_some_and(has_ended) {
            self.registers.set_answer(restart::NOHAND);
            let _ = self.registers.give(self.tid);
        }
    }

    /// With which error the call was interrupted that it was in.
    fn interrupted(&self) -> Option<u64> {
        self.registers.call()?.interrupted(self.registers.answer())
    }

    /// The number of the call that it was in.
    pub(crate) fn call(&self) -> Option<i64> {
        Some(self.registers.call()?.number)
    }

    /// What its registers hold.
    pub(crate) fn words(&self) -> [u64; 16] {
        self.registers.words()
    }

    /// The word of its own that lies so far from its pointer; 0 where there is none.
    pub(crate) fn own_word(&self, memory: &File, distance: u64) -> u64 {
        let mut word = [0; 8];
        let at = self.registers.thread_pointer().wrapping_add(distance);
        memory.read_exact_at(&mut word, at).map_or(0, |()| u64::from_le_bytes(word))
    }

    /// Whether it is in a system call that waits.
    pub(crate) fn is_in_call(&self) -> bool {
        self.registers.call().is_some_and(|call| call.number >= 0)
    }

    /// Which thread it is.
    pub(crate) fn tid(&self) -> i32 {
        self.tid
    }

    /// Whether it is in a call, which may be begun again.
    pub(crate) fn is_interrupted(&self) -> bool {
        self.interrupted().is_some()
    }

    /// Where it goes on.
    pub(crate) fn instruction(&self) -> u64 {
        self.registers.instruction()
    }

    /// The stack pointer with which the thread was stopped.
    pub(crate) fn stack_pointer(&self) -> u64 {
        self.registers.stack_pointer()
    }

    /// The words of its stack, from the stack pointer on; `mappings` are those of its process, by address.
    pub(crate) fn stack(&self, target: &Target, mappings: &[Range<u64>]) -> Vec<u64> {
        let at = self.stack_pointer();
        let behind = mappings.partition_point(|range| range.start <= at);
        let own = behind.checked_sub(1).and_then(|last| mappings.get(last));
        thread::stack(target.memory(), at, own.map_or(at, |range| range.end))
    }

    /// Lets it take signals that it has blocked, of a mask.
    ///
    /// # Errors
    /// As ptrace(2).
    pub(crate) fn unblock(&self, signals: u64) -> Result<(), Errno> {
        let mask = ptrace::signal_mask(self.tid)?;
        ptrace::set_signal_mask(self.tid, mask & !signals)
    }

    /// The call that it was in, if it can be called away from it.
    pub(crate) fn waiting(&self) -> Option<Waiting> {
        let now = &self.registers;
        now.call()?.rank()?;
        let kind = self.interrupted()?;
        Some(Waiting { kind, stack_pointer: now.stack_pointer(), returns_to: now.instruction() })
    }

    /// Sends it to `code`, and lets it go: the one change.
    ///
    /// # Errors
    /// As ptrace(2); it goes on as it was.
    pub(crate) fn send(self, code: u64, nonce: u64) -> Result<(), Errno> {
        let mut registers = self.registers;
        registers.send(code, nonce);
        registers.give(self.tid)
    }

    /// Whether it runs code of its own, or is behind a call that is over: it may be led elsewhere, and back, at any
    /// instruction but those of a restartable sequence.
    pub(crate) fn runs(&self, memory: &File) -> bool {
        let is_usual = self.registers.call().is_some() && !is_restart(self.registers.answer());
        is_usual
            && !ptrace::sequences(self.tid).is_ok_and(|area| is_in_sequence(memory, area, self.instruction()))
    }

    /// Has it go on elsewhere, where the same is done as here.
    ///
    /// # Errors
    /// As ptrace(2); it goes on as it was.
    pub(crate) fn go_on_at(&mut self, at: u64) -> Result<(), Errno> {
        self.registers.set_instruction(at);
        self.registers.give(self.tid)
    }

    /// Leads it through `code`, which goes back by itself. The word on its stack, below what it uses, changes nothing.
    ///
    /// # Errors
    /// As ptrace(2), or as of its memory; it goes on as it was.
    pub(crate) fn detour(self, memory: &File, code: u64) -> Result<(), Errno> {
        let mut registers = self.registers;
        let (at, back) = registers.detour(code);
        memory.write_all_at(&back.to_le_bytes(), at).map_err(|why| errno(&why))?;
        registers.give(self.tid)
    }

    /// Puts a thread that never got beyond the first instruction of `code`, where nothing was changed yet, back into
    /// the call that it was sent from.
    pub(crate) fn put_back(self, code: u64, sent: &Sent) {
        if (code.saturating_sub(RESTART_BYTES)..=code).contains(&self.registers.instruction()) {
            let _ = sent.registers.give(self.tid);
        }
    }

    /// What [`Stopped::put_back`] needs, before it is sent.
    pub(crate) fn note(&self) -> Sent {
        Sent { tid: self.tid, registers: self.registers }
    }
}

/// A thread that was sent.
pub(crate) struct Sent {
    pub(crate) tid: i32,
    registers: Registers,
}

impl Sent {
    /// Its stack pointer when it was sent.
    pub(crate) fn stack_pointer(&self) -> u64 {
        self.registers.stack_pointer()
    }
}

impl Drop for Stopped {
    fn drop(&mut self) {
        let _ = ptrace::detach(self.tid, self.signal);
    }
}

/// Whether a call that has answered so is to be begun again.
fn is_restart(answer: i64) -> bool {
    let kinds = [restart::SYS, restart::NOINTR, restart::NOHAND, restart::RESTARTBLOCK];
    answer.checked_neg().is_some_and(|kind| kinds.contains(&kind.cast_unsigned()))
}

/// Whether an instruction is of the restartable sequence that a thread has begun, whose `struct rseq` is at `area`
/// (linux/rseq.h). What cannot be read may be one.
fn is_in_sequence(memory: &File, area: u64, instruction: u64) -> bool {
    /// Where in it the address of the sequence is, and where in that its first instruction and how long it is.
    const SEQUENCE: u64 = 8;
    const START: u64 = 8;
    let mut word = [0; 8];
    if area == 0 {
        return false;
    }
    if memory.read_exact_at(&mut word, area.wrapping_add(SEQUENCE)).is_err() {
        return true;
    }
    let sequence = u64::from_le_bytes(word);
    let mut words = [0; 16];
    if sequence == 0 {
        return false;
    }
    if memory.read_exact_at(&mut words, sequence.wrapping_add(START)).is_err() {
        return true;
    }
    let [start, bytes] = [0, 8].map(|at| words.get(at..at + 8).and_then(|word| word.try_into().ok()));
    let [start, bytes] = [start, bytes].map(|word| word.map_or(0, u64::from_le_bytes));
    instruction.wrapping_sub(start) < bytes
}

fn gone(why: Errno) -> Result<(), Errno> {
    if why.0 == libc::ESRCH { Ok(()) } else { Err(why) }
}
