//! Paths of calls of a whole capture.

use super::shown::Input;
use super::times::Times;
use mote_capture::{Capture, KERNEL, Note, follow_timed};
use mote_hardware::paths::{ByThread, Functions, PathSink, Syscalls, Tree, Walker, Whole};
use mote_hardware::{Process, Running};

/// The system calls that were gathered from all streams, with the names in them.
#[derive(Debug)]
pub(super) struct Gathered {
    pub(super) functions: Functions,
    pub(super) of: Syscalls,
    pub(super) times: Times,
    /// Code of the kernel is known.
    pub(super) has_kernel: bool,
}

/// All paths, with the names in them. What is wrong with the capture is said.
///
/// # Errors
/// It is no capture, or cannot be read.
pub(super) fn whole(input: &Input) -> anyhow::Result<(Functions, Tree)> {
    let (_, functions, whole) = walk(input, |_, _: &mut Whole| {})?;
    Ok((functions, whole.tree))
}

/// The paths of system calls. What is wrong with the capture is said.
///
/// # Errors
/// It is no capture, or cannot be read.
pub(super) fn syscalls(input: &Input) -> anyhow::Result<Gathered> {
    let (capture, functions, mut of) = walk(input, |capture, syscalls: &mut Syscalls| {
        let processor = capture.processor();
        let are_known = Times::new(processor).are_known;
        syscalls.next_stream(processor.nanoseconds().filter(|_| are_known));
    })?;
    of.next_stream(None);
    let has_kernel = capture.notes().iter().any(|note| note.pid == KERNEL);
    Ok(Gathered { functions, of, times: Times::new(capture.processor()), has_kernel })
}

/// The paths of each thread of the process that `choose` finds in notes, with the names in them.
///
/// # Errors
/// It is no capture, or cannot be read; there is no such process; or what was decoded is not what was executed.
pub(super) fn of_process(
    input: &Input,
    choose: impl Fn(&[Note]) -> anyhow::Result<Process>,
) -> anyhow::Result<(Capture, Functions, ByThread)> {
    let (mut functions, mut sink, mut known) = (Functions::default(), ByThread::default(), None);
    let capture = input.with_streams(|capture, stream, code| {
        let (process, truths) = match &mut known {
            Some(known) => known,
            None => known.insert((choose(capture.notes())?, capture.truth()?)),
        };
        let running = Running::of_process(capture.notes(), stream.of, process);
        let taken = (std::mem::take(&mut functions), std::mem::take(&mut sink));
        let mut walker = Walker::new(code, taken.0, running, taken.1);
        follow_timed(&stream.bytes, code, &capture.clocks(stream), &mut walker, |_| true)?;
        let (decoded, executed) = (walker.instructions(), truths.get(&stream.of).map(|one| one.instructions));
        anyhow::ensure!(
            executed.is_none_or(|executed| executed == decoded),
            "{decoded} instructions were decoded, and {} executed: mote pt check says where they differ",
            executed.unwrap_or(0)
        );
        (functions, sink) = walker.finish();
        Ok(())
    })?;
    Ok((capture, functions, sink))
}

/// Gives the paths of all streams to one sink, which `begin` tells of each new one.
fn walk<S: PathSink + Default>(
    input: &Input,
    mut begin: impl FnMut(&Capture, &mut S),
) -> anyhow::Result<(Capture, Functions, S)> {
    let (mut functions, mut sink) = (Functions::default(), S::default());
    let capture = input.with_streams(|capture, stream, code| {
        begin(capture, &mut sink);
        let running = Running::of(capture.notes(), stream.of);
        let taken = (std::mem::take(&mut functions), std::mem::take(&mut sink));
        let mut walker = Walker::new(code, taken.0, running, taken.1);
        follow_timed(&stream.bytes, code, &capture.clocks(stream), &mut walker, |_| true)?;
        (functions, sink) = walker.finish();
        Ok(())
    })?;
    Ok((capture, functions, sink))
}
