//! Paths of calls of a whole capture.

use super::shown::Input;
use super::times::Times;
use mote_capture::{Capture, KERNEL, follow_timed};
use mote_hardware::Running;
use mote_hardware::paths::{Functions, PathSink, Syscalls, Tree, Walker, Whole};

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
