//! What is told of sampling beside the samples, as events of its own: for readers that estimate how often a function
//! was called, and want to know what that has cost.

use core::sync::atomic::{AtomicBool, Ordering};
use mote_agent::stack::Here;
use mote_agent::{DynamicEvent, Event, Function, Quota};
use mote_layout::context::DROP;
use probe::__private as private;

/// A function has got a quota.
static GIVEN: DynamicEvent = DynamicEvent::new(c"mote1\nfperf:quota\n6 mote:0\n\nfunction str\nround u64\n");
/// The probe of a function is taken away: how many calls of it have passed by since its quota was spent; and since it
/// had that, for how many nanoseconds the process ran, and what samples took of these.
static PAUSED: DynamicEvent = DynamicEvent::new(
    c"mote1\nfperf:paused\n6 mote:0\n\nfunction str\nround u64\npassed u64\nran u64\ntook u64\n",
);
/// An interval is over: nanoseconds that the process ran, what samples took, and how many functions have no quota.
static BUDGETED: DynamicEvent =
    DynamicEvent::new(c"mote1\nfperf:budget\n6 mote:0\n\nran u64\ntook u64\nwaiting u64\n");

/// Most bytes of a function's name, with its NUL, and of numbers behind it.
const TEXT_MAX: usize = 1280;
const NUMBERS_MAX: usize = 4;

/// Makes the events known, once.
pub(crate) fn announce() {
    static ANNOUNCED: AtomicBool = AtomicBool::new(false);
    if !ANNOUNCED.swap(true, Ordering::Relaxed) {
        [&GIVEN, &PAUSED, &BUDGETED].into_iter().for_each(mote_agent::announce);
    }
}

/// A function has a quota again.
pub(crate) fn given(function: &Function) {
    tell(&GIVEN.event, Some(name(function)), &[function.quota.round.load(Ordering::Relaxed).into()]);
}

/// A function has none: the process has run for `cpu` nanoseconds, of which samples took `all_took`.
pub(crate) fn paused(function: &Function, cpu: u64, all_took: u64) {
    let Quota { passed, round, took, ran, .. } = &function.quota;
    let passed = passed.load(Ordering::Relaxed);
    let ran = cpu.saturating_sub(ran.load(Ordering::Relaxed));
    let took = all_took.saturating_sub(took.load(Ordering::Relaxed));
    let round = round.load(Ordering::Relaxed);
    tell(&PAUSED.event, Some(name(function)), &[round.into(), passed.into(), ran, took]);
}

/// An interval is over.
pub(crate) fn interval(ran: u64, took: u64, waiting: u32) {
    tell(&BUDGETED.event, None, &[ran, took, waiting.into()]);
}

/// The name of a function, without its provider: the second line of its description.
fn name(function: &Function) -> &'static [u8] {
    /// Bytes of the first line, and of the provider.
    const BEFORE: usize = "mote1\nf:".len();
    let name = function.description.to_bytes().get(BEFORE..).unwrap_or_default();
    let end = name.iter().position(|byte| *byte == b'\n').unwrap_or(name.len());
    name.get(..end).unwrap_or_default()
}

/// Records an event with a text, if it has one, and numbers.
fn tell(event: &Event, text: Option<&[u8]>, numbers: &[u64]) {
    if !event.is_on() {
        return;
    }
    let mut bytes = [0_u8; TEXT_MAX + (NUMBERS_MAX + 1) * size_of::<u64>()];
    let mut words = [0; 2 + NUMBERS_MAX];
    let (mut len, mut context) = (0, words.iter_mut());
    let mut word = |value: u64| context.next().into_iter().for_each(|to| *to = value);
    if let Some(text) = text {
        let text = text.get(..TEXT_MAX - 1).unwrap_or(text);
        bytes.iter_mut().zip(text).for_each(|(to, from)| *to = *from);
        let begin = bytes.as_ptr().expose_provenance();
        word(begin as u64);
        word((begin + text.len()) as u64);
        // With its NUL.
        len = text.len() + 1;
    }
    for number in numbers {
        word(*number);
        let to = bytes.get_mut(len..).unwrap_or_default();
        to.iter_mut().zip(number.to_le_bytes()).for_each(|(to, from)| *to = from);
        len += size_of::<u64>();
    }
    let from = bytes.as_ptr();
    Here::nowhere().have(|| {
        if !event.is_gated() {
            // SAFETY: the bytes have room for a word more.
            return unsafe { probe::record(event, from, len) };
        }
        // SAFETY: the words are those of the description.
        match unsafe { event.judge(words.as_ptr()) } {
            DROP => {}
            // SAFETY: as above.
            verdict => unsafe { private::record_judged(event, from, len, verdict) },
        }
    });
}
