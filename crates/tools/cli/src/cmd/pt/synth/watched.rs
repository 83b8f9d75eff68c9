//! A run that takes long: how far it is, and its end before its time.

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use mote_daemon::command::Signals;
use mote_synth::trace::{Streams, Trace};
use mote_synth::{Error, Fact, Note, Observer, Stop};
use mote_words::grouped;
use std::io::IsTerminal;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// How often is looked what has happened.
const LOOK: Duration = Duration::from_millis(100);
/// Instructions a second that programs have by themselves, in millions, for the estimate.
const ALONE: u64 = 2500;

/// Gives a trace all that is reported, and counts it.
pub(super) struct Watched<'t, S: Streams> {
    trace: &'t mut Trace<S>,
    shared: Arc<Shared>,
    /// Whether the terminal's Ctrl-C reaches the program, which may end by itself then.
    program_hears: bool,
    looker: Option<JoinHandle<()>>,
}

#[derive(Default)]
struct Shared {
    instructions: AtomicU64,
    is_over: AtomicBool,
    stop: Stop,
}

impl<'t, S: Streams> Watched<'t, S> {
    pub(super) fn new(trace: &'t mut Trace<S>, program_hears: bool) -> Self {
        Watched { trace, shared: Arc::default(), program_hears, looker: None }
    }

    /// Whether it was ended before its time.
    pub(super) fn was_stopped(&self) -> bool {
        self.shared.stop.load(Ordering::Relaxed)
    }
}

impl<S: Streams> Observer for Watched<'_, S> {
    fn fact(&mut self, tid: i32, fact: &Fact<'_>) -> Result<(), Error> {
        if let Fact::Run(run) = fact {
            let count = self.shared.instructions.load(Ordering::Relaxed) + run.count();
            self.shared.instructions.store(count, Ordering::Relaxed);
        }
        self.trace.fact(tid, fact)
    }

    fn note(&mut self, tid: i32, note: &Note) -> Result<(), Error> {
        self.trace.note(tid, note)
    }

    fn stop(&mut self) -> Option<Stop> {
        // The program was started, and takes signals as ever.
        let signals = Signals::catch().ok()?;
        let (shared, program_hears) = (Arc::clone(&self.shared), self.program_hears);
        self.looker = Some(std::thread::spawn(move || look(&signals, &shared, program_hears)));
        Some(Arc::clone(&self.shared.stop))
    }
}

impl<S: Streams> Drop for Watched<'_, S> {
    fn drop(&mut self) {
        self.shared.is_over.store(true, Ordering::Relaxed);
        if let Some(looker) = self.looker.take() {
            looker.thread().unpark();
            let _ = looker.join();
        }
    }
}

/// Shows how far the run is, and takes signals, until it is over.
fn look(signals: &Signals, shared: &Shared, program_hears: bool) {
    let is_shown = std::io::stderr().is_terminal();
    let target = if is_shown { ProgressDrawTarget::stderr_with_hz(5) } else { ProgressDrawTarget::hidden() };
    let bar = ProgressBar::with_draw_target(None, target);
    if let Ok(style) = ProgressStyle::with_template("synthesizing {elapsed}  {msg}") {
        bar.set_style(style);
    }
    let (began, mut asked) = (Instant::now(), 0);
    while !shared.is_over.load(Ordering::Relaxed) {
        while let Some(arrived) = signals.next() {
            if arrived.asks_to_end() {
                // A program that has heard it, too, may have something to do before it ends.
                asked += if arrived.from_terminal && program_hears { 1 } else { 2 };
            }
        }
        if asked >= 2 {
            shared.stop.store(true, Ordering::Relaxed);
        }
        bar.set_message(message(shared.instructions.load(Ordering::Relaxed), began.elapsed()));
        bar.tick();
        std::thread::park_timeout(LOOK);
    }
    bar.finish_and_clear();
}

/// How far a run is, and how long it would take others.
fn message(instructions: u64, elapsed: Duration) -> String {
    let millions = instructions / 1_000_000;
    let a_second = (millions as f64 / elapsed.as_secs_f64().max(0.001)) as u64;
    let text = format!("{} million instructions, {} million a second", grouped(millions), grouped(a_second));
    match ALONE.checked_div(a_second) {
        Some(times) if elapsed.as_secs() > 0 => {
            format!("{text}: a second of the program by itself takes about {} s", grouped(times.max(1)))
        }
        _ => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_shown() {
        let text = message(1_234_567_890, Duration::from_secs(10));
        assert_eq!(
            text,
            "1,234 million instructions, 123 million a second: a second of the program by itself takes about 20 s"
        );
        assert_eq!(message(5, Duration::from_secs(2)), "0 million instructions, 0 million a second");
    }
}
