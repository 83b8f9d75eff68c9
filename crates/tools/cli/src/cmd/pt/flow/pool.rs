//! Lines by several threads, in their order.
//!
//! Who follows packets hands chunks on; some threads make text of them, and one writes it, chunk by chunk as they came.
//! How many chunks wait for others is bounded, and with it the memory that they take.

use super::lines::{Chunk, Lines, Look, Printed};
use crate::out;
use std::io::{self, BufWriter, Write};
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};
use std::sync::{Mutex, PoisonError};
use std::thread;

/// Most threads that make text, and how many chunks may wait for each of them.
const THREADS_MAX: usize = 8;
const AHEAD_MAX: usize = 4;

/// Text of a chunk, and what was printed in it.
type Text = io::Result<(Vec<u8>, Printed)>;
/// A chunk, and where its text is wanted.
type Work = (Chunk, Sender<Text>);

/// Prints what `follow` hands on, `left` instructions at most. `follow` is told whether more is wanted.
///
/// # Errors
/// It cannot be written, or `follow` says so.
pub(super) fn print(
    look: &Look<'_>,
    left: Option<u64>,
    threads: usize,
    follow: impl FnOnce(&mut dyn FnMut(Chunk) -> bool) -> anyhow::Result<()>,
) -> anyhow::Result<Printed> {
    match left {
        None if threads > 1 => by_several(look, threads.min(THREADS_MAX), follow),
        left => by_one(look, left.unwrap_or(u64::MAX), follow),
    }
}

fn by_one(
    look: &Look<'_>,
    left: u64,
    follow: impl FnOnce(&mut dyn FnMut(Chunk) -> bool) -> anyhow::Result<()>,
) -> anyhow::Result<Printed> {
    let (mut lines, mut to) = (Lines::new(*look, left), BufWriter::new(out::lock()));
    let mut done = Ok(());
    if lines.goes_on() {
        follow(&mut |chunk| {
            done = lines.print(&chunk, &mut to);
            done.is_ok() && lines.goes_on()
        })?;
    }
    done.and_then(|()| to.flush())?;
    Ok(lines.printed())
}

fn by_several(
    look: &Look<'_>,
    threads: usize,
    follow: impl FnOnce(&mut dyn FnMut(Chunk) -> bool) -> anyhow::Result<()>,
) -> anyhow::Result<Printed> {
    let (work, taken) = channel::<Work>();
    let taken = Mutex::new(taken);
    let (order, texts) = sync_channel(threads * AHEAD_MAX);
    thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| make(*look, &taken));
        }
        let writer = scope.spawn(move || write(&texts));
        let done = follow(&mut |chunk| hand_on(chunk, &work, &order));
        // Threads that wait for more end.
        drop((work, order));
        let written = writer.join().unwrap_or_else(|_| Err(io::Error::other("writing has failed")));
        done.and(written.map_err(anyhow::Error::from))
    })
}

/// Hands a chunk on; false where its text is not wanted any more.
fn hand_on(chunk: Chunk, work: &Sender<Work>, order: &SyncSender<Receiver<Text>>) -> bool {
    let (to, text) = channel();
    order.send(text).is_ok() && work.send((chunk, to)).is_ok()
}

/// Makes text of chunk after chunk.
fn make(look: Look<'_>, work: &Mutex<Receiver<Work>>) {
    let mut lines = Lines::new(look, u64::MAX);
    let mut before = Printed::default();
    loop {
        let next = work.lock().unwrap_or_else(PoisonError::into_inner).recv();
        let Ok((chunk, to)) = next else { return };
        let mut text = Vec::new();
        let done = lines.print(&chunk, &mut text);
        let now = lines.printed();
        let (instructions, gaps) = (now.instructions - before.instructions, now.gaps - before.gaps);
        before = now;
        // Whoever does not want it any more has an error to tell.
        let _ = to.send(done.map(|()| (text, Printed { instructions, gaps })));
    }
}

/// Writes text after text.
fn write(texts: &Receiver<Receiver<Text>>) -> io::Result<Printed> {
    let (mut to, mut printed) = (out::lock(), Printed::default());
    for text in texts {
        let Ok(text) = text.recv() else { break };
        let (text, more) = text?;
        to.write_all(&text)?;
        printed.add(more);
    }
    to.flush()?;
    Ok(printed)
}
