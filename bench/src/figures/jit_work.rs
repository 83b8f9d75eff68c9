//! What runs while code is copied, for `jit`.

use super::stopwatch::thread_ns;
use super::turns::line;
use anyhow::{Context, anyhow};
use mote_bpf::Insn;
use mote_bpf::environment::{Entry, Environment};
use mote_bpf::verify;
use mote_builder::{Build, Builder};
use mote_sys::mem::{Mapping, PAGE_BYTES};
use mote_vm::{Program, Setup};
use std::hint::black_box;

/// Most instructions that a program of a site executes.
const STEPS_MAX: u32 = 1_000;

/// A system call that does nothing; a page that is made writable, written, and made executable; a copy of a page:
/// nanoseconds of each.
pub(super) fn pages(turns: u64) -> anyhow::Result<String> {
    let memory = Mapping::private(PAGE_BYTES).context("no memory")?;
    let base = memory.base();
    let protect = |protection| {
        // SAFETY: a page of ours that nobody else knows of; it is written only while that is allowed.
        unsafe { libc::mprotect(base.cast(), PAGE_BYTES, protection) }
    };
    let mut text = String::new();
    let each = |body: &mut dyn FnMut(u64)| {
        let begun = thread_ns();
        (0..turns).for_each(|turn| body(black_box(turn)));
        (thread_ns() - begun) as f64 / turns as f64
    };
    let call = each(&mut |_| {
        // SAFETY: it takes nothing, and changes nothing.
        black_box(unsafe { libc::getppid() });
    });
    let page = each(&mut |turn| {
        protect(libc::PROT_READ | libc::PROT_WRITE);
        // SAFETY: the begin of the page, which is writable now.
        unsafe { base.cast::<u64>().write_volatile(turn) };
        protect(libc::PROT_READ | libc::PROT_EXEC);
    });
    let (from, mut to) = (vec![1_u8; PAGE_BYTES], vec![0_u8; PAGE_BYTES]);
    let copy = each(&mut |_| black_box(&mut to).copy_from_slice(black_box(&from)));
    line(&mut text, "call", call);
    line(&mut text, "page", page);
    line(&mut text, "copy", copy);
    Ok(text)
}

/// Programs of eBPF that are verified, compiled and run, one after the other: nanoseconds of all.
pub(super) fn sites(count: u64) -> anyhow::Result<String> {
    let environment =
        Environment { entry: Entry::Context(&[]), maps: &[], helpers: &[], steps_max: STEPS_MAX };
    let mut room = mote_vm::workspace().map_err(|why| anyhow!("no memory: {why}"))?;
    let insns = program()?;
    let begun = thread_ns();
    for _ in 0..count {
        let verified =
            verify::verify(&insns, &environment, &mut room).map_err(|why| anyhow!("refused: {why}"))?;
        let program =
            Program::load(&verified, &Setup::default()).map_err(|why| anyhow!("not loaded: {why}"))?;
        // SAFETY: the program reads nothing of its context, and has neither maps nor helpers.
        let result = unsafe { program.run(0, 0) }.map_err(|why| anyhow!("it ended early: {why:?}"))?;
        black_box(result);
    }
    let mut text = String::new();
    line(&mut text, "sites", (thread_ns() - begun) as f64);
    Ok(text)
}

/// About as long as a filter of some conditions.
fn program() -> anyhow::Result<Vec<Insn>> {
    let mut b = Builder::new();
    let value = b.keep(42);
    for step in 0..40_u64 {
        b.set(&value, (&value + step) ^ (step << 3));
    }
    b.exit_with(value);
    b.finish().map_err(|why| anyhow!("it cannot be built: {why}"))
}
