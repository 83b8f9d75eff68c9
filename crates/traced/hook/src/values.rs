//! What an event of a function has besides its duration: arguments, which are taken when the function begins, and what
//! it returns.
//!
//! What arguments point to may be nowhere: memory is read by process_vm_readv(2), which fails where a load would end
//! the program. That is a system call for each text, and for each structure.

use crate::counters::{Reading, Spent};
use crate::counts;
use core::mem::MaybeUninit;
use mote_agent::Function;
use mote_layout::context::DROP;
use mote_layout::functions::{Origin, RECORD_MAX, RETURNED, UNWOUND, VALUE_BYTES, VALUES_MAX, Value, What};
use mote_sys::mem::{PAGE_BYTES, read_own};
use probe::__private as private;

/// In place of a text that cannot be read.
const UNREADABLE: &[u8] = b"(unreadable)";
/// In place of a text that is not there.
const NULL: &[u8] = b"(null)";
/// Behind a text that was cut.
const CUT: &[u8] = b"...";
/// Bytes that are read of a structure at a time.
const WINDOW: usize = 256;
/// Most bytes of a text with its NUL, or one more.
const TEXT_MAX: usize = 256;

/// Room for what an event of a slot's call has besides its duration.
#[repr(C)]
#[derive(Debug)]
pub(crate) struct Packed {
    /// Bytes of the fields so far.
    pub(crate) len: usize,
    /// The fields; so many more that whole words can be read.
    pub(crate) bytes: [u8; RECORD_MAX + 24],
    /// Of a call that is a sample.
    pub(crate) sample: Sample,
    /// Of a call of a caller.
    pub(crate) inside: Inside,
}

/// What a call that is a sample has from its begin.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Sample {
    /// For how many nanoseconds the probe was there.
    pub(crate) since: u64,
    pub(crate) round: u32,
    pub(crate) left: u32,
    /// Where it returns to.
    pub(crate) caller: u64,
    /// What was counted.
    pub(crate) before: Reading,
}

/// What a call of a caller has changed for its thread (`callers`).
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Inside {
    /// The sets of callers that the thread was in none of before.
    pub(crate) sets: u64,
    /// Where the return address of the call is.
    pub(crate) place: usize,
    /// The same of the caller's call around it.
    pub(crate) around: usize,
}

type Values = [[u8; VALUE_BYTES]];
/// Gives the word that a value is taken from: a register, or an address.
type Registers<'r> = &'r dyn Fn(Origin) -> Option<u64>;

/// Packs the arguments of a call that begins.
pub(crate) fn begin(values: &Values, registers: Registers<'_>, packed: &mut Packed) {
    packed.len = 0;
    let mut taking = Taking::new(Some(registers), packed);
    for value in values.iter().filter_map(|value| Value::from_bytes(*value)) {
        if value.what == What::Duration {
            break;
        }
        taking.take(value);
    }
}

/// Whether calls of a function are samples.
pub(crate) fn is_sampled(values: &Values) -> bool {
    values.iter().any(|value| value.first() == Some(&(What::Left as u8)))
}

/// Whether calls with these values have a place where they are packed.
pub(crate) fn is_packed(values: &Values) -> bool {
    !values.is_empty() && counts::of(values).is_none()
}

/// Records a call that has ended, with its arguments: after it has returned with these registers, or not at all. `now`
/// is what was counted until then, where it is a sample.
pub(crate) fn end(
    function: &Function,
    registers: Option<Registers<'_>>,
    duration: u64,
    now: Option<Reading>,
    packed: &mut Packed,
) {
    let sample = packed.sample;
    let spent = match now.map(|now| now.since(&sample.before)) {
        // Another thread goes on with what one has begun: what was counted is unknown.
        Some(None) => return,
        Some(Some(spent)) => spent,
        None => Spent::default(),
    };
    let all = || function.values.iter().filter_map(|value| Value::from_bytes(*value));
    let late = all().skip_while(|value| value.what != What::Duration);
    let ending = if registers.is_some() { RETURNED } else { UNWOUND };
    let mut taking = Taking::new(registers, packed);
    for value in late {
        match value.what {
            What::Duration => taking.packed.put(&duration.to_le_bytes()),
            What::End => taking.packed.put(&[ending]),
            What::Since => taking.packed.put(&sample.since.to_le_bytes()),
            What::Round => taking.packed.put(&sample.round.to_le_bytes()),
            What::Left => taking.packed.put(&sample.left.to_le_bytes()),
            What::Caller => taking.packed.put(&sample.caller.to_le_bytes()),
            What::Overhead => taking.packed.put(&spent.overhead.to_le_bytes()),
            What::Counted => taking.packed.put(&[spent.percent]),
            What::Counter => {
                let count = spent.counts.get(value.offset as usize).copied().unwrap_or(0);
                taking.packed.put(&count.to_le_bytes());
            }
            _ => taking.take(value),
        }
    }
    record(function, all(), packed);
}

/// Records an event whose fields are packed.
fn record(function: &Function, values: impl Iterator<Item = Value>, packed: &Packed) {
    let (from, len) = (packed.bytes.as_ptr(), packed.len);
    let event = &function.event;
    if !event.is_gated() {
        // SAFETY: the packed bytes have whole words, and more behind them.
        return unsafe { probe::record(event, from, len) };
    }
    let words = context(values, packed);
    // SAFETY: the words are those of the values, and so of the description.
    match unsafe { event.judge(words.as_ptr().cast()) } {
        DROP => {}
        // SAFETY: as above.
        verdict => unsafe { private::record_judged(event, from, len, verdict) },
    }
}

/// Words of all values for a filter.
type Context = [u64; 2 * VALUES_MAX];

/// The words of a filter's context (`mote_layout::context`), from the fields as they are packed.
fn context(values: impl Iterator<Item = Value>, packed: &Packed) -> Context {
    let mut words = [0; 2 * VALUES_MAX];
    let mut to = words.iter_mut();
    let mut put = |word: u64| {
        if let Some(to) = to.next() {
            *to = word;
        }
    };
    let mut rest = packed.bytes.get(..packed.len).unwrap_or_default();
    for value in values {
        let len = match value.what {
            What::Count => continue,
            What::Text | What::Characters => {
                let end = rest.iter().position(|byte| *byte == 0).unwrap_or(rest.len());
                let begin = rest.as_ptr().expose_provenance() as u64;
                put(begin);
                put(begin + end as u64);
                end + 1
            }
            what => {
                let mut bytes = [0; 8];
                let len = usize::from(value.bytes);
                bytes.iter_mut().zip(rest.iter().take(len)).for_each(|(to, from)| *to = *from);
                let word = u64::from_le_bytes(bytes);
                let above = 64_u32.saturating_sub(8 * u32::from(value.bytes)) & 63;
                put(match what {
                    What::Signed => ((word << above) as i64 >> above) as u64,
                    What::Float if len == 4 => f64::from(f32::from_bits(word as u32)).to_bits(),
                    _ => word,
                });
                len
            }
        };
        rest = rest.get(len..).unwrap_or_default();
    }
    words
}

impl Packed {
    /// Puts bytes behind those that are there. There is always room: a plan's values are no larger (`Plan::values`).
    fn put(&mut self, bytes: &[u8]) {
        let free = self.bytes.get_mut(self.len..).unwrap_or_default();
        free.iter_mut().zip(bytes).for_each(|(to, from)| *to = *from);
        self.len = (self.len + bytes.len()).min(self.bytes.len());
    }

    /// Puts a text up to its NUL, cut where it has more than `max` characters, and a NUL.
    fn put_text(&mut self, text: &[u8], max: usize) {
        let end = text.iter().position(|byte| *byte == 0);
        let text = text.get(..end.unwrap_or(text.len())).unwrap_or_default();
        if text.len() <= max {
            self.put(text);
        } else {
            let mut len = max.saturating_sub(CUT.len()).min(text.len());
            // Not in the middle of a character.
            while len > 0 && text.get(len).is_some_and(|byte| byte & 0xc0 == 0x80) {
                len -= 1;
            }
            self.put(text.get(..len).unwrap_or_default());
            self.put(CUT.get(..max.min(CUT.len())).unwrap_or_default());
        }
        self.put(&[0]);
    }

    /// Puts a value that there is not.
    fn put_nothing(&mut self, value: Value) {
        match value.what {
            What::Count => {}
            What::Text | What::Characters => self.put(&[0]),
            _ => self.put([0; 8].get(..usize::from(value.bytes)).unwrap_or_default()),
        }
    }
}

/// Takes values from registers and memory.
struct Taking<'t, 'p> {
    /// The registers; `None` where a call has not returned, and has no result.
    registers: Option<Registers<'t>>,
    packed: &'p mut Packed,
    /// How many characters the next text has.
    count: Option<u64>,
    /// What was read last of a structure: from where on, and how many bytes.
    window: (usize, usize),
    bytes: MaybeUninit<[u8; WINDOW]>,
}

impl<'t, 'p> Taking<'t, 'p> {
    fn new(registers: Option<Registers<'t>>, packed: &'p mut Packed) -> Taking<'t, 'p> {
        Taking { registers, packed, count: None, window: (0, 0), bytes: MaybeUninit::uninit() }
    }

    fn take(&mut self, value: Value) {
        let Some(registers) = self.registers else { return self.packed.put_nothing(value) };
        match value.what {
            What::Count => self.count = Some(self.number(value, size_of::<u64>()).unwrap_or(0)),
            What::Text => {
                let (address, count) = (self.number(value, size_of::<u64>()), self.count.take());
                self.take_text(address, count, usize::from(value.bytes));
            }
            What::Characters => {
                let address = registers(value.from).map(|base| base.wrapping_add_signed(value.offset.into()));
                self.take_text(address, Some(value.bytes.into()), usize::from(value.bytes));
            }
            _ => {
                let number = self.number(value, usize::from(value.bytes)).unwrap_or(0);
                self.packed.put(number.to_le_bytes().get(..usize::from(value.bytes)).unwrap_or_default());
            }
        }
    }

    /// A number of so many bytes; `None` where it cannot be read.
    fn number(&mut self, value: Value, bytes: usize) -> Option<u64> {
        let word = self.registers?(value.from)?;
        if !value.is_behind {
            return Some(word >> (8 * (value.offset as u32 & 7)));
        }
        let at = word.wrapping_add_signed(value.offset.into()) as usize;
        let (begin, len) = self.window;
        let is_there = |begin: usize, len: usize| {
            at >= begin && at.checked_add(bytes).is_some_and(|end| end <= begin + len)
        };
        if !is_there(begin, len) {
            // From the structure's begin on, so that its other members are there, too.
            let base = word as usize;
            let begin = if at.wrapping_sub(base) < WINDOW - size_of::<u64>() { base } else { at };
            // SAFETY: no byte of it is used that was not read.
            let into =
                unsafe { core::slice::from_raw_parts_mut(self.bytes.as_mut_ptr().cast::<u8>(), WINDOW) };
            self.window = (begin, read(begin, into));
        }
        let (begin, len) = self.window;
        if !is_there(begin, len) {
            return None;
        }
        // SAFETY: `len` bytes of it were read.
        let read = unsafe { core::slice::from_raw_parts(self.bytes.as_ptr().cast::<u8>(), len) };
        let mut number = [0; 8];
        let from = read.get(at - begin..at - begin + bytes)?;
        number.iter_mut().zip(from).for_each(|(to, from)| *to = *from);
        Some(u64::from_le_bytes(number))
    }

    /// Puts the text at an address: of so many characters, or up to a NUL; at most `max`.
    fn take_text(&mut self, address: Option<u64>, count: Option<u64>, max: usize) {
        let mut text = [0_u8; TEXT_MAX];
        // One character more than it may have shows that it goes on.
        let wanted = count.unwrap_or(u64::MAX).min(max as u64 + 1).min(TEXT_MAX as u64) as usize;
        let Some(address) = address else { return self.packed.put_text(UNREADABLE, max) };
        if address == 0 {
            return self.packed.put_text(if count == Some(0) { b"" } else { NULL }, max);
        }
        let into = text.get_mut(..wanted).unwrap_or_default();
        let read = read(address as usize, into);
        let text = into.get(..read).unwrap_or_default();
        let is_whole = read == wanted || text.contains(&0);
        self.packed.put_text(if is_whole { text } else { UNREADABLE }, max);
    }
}

/// Reads what lies at an address of this process, up to where nothing can be read; returns how many bytes.
fn read(address: usize, into: &mut [u8]) -> usize {
    // The kernel reads a part or does not: the parts are pages.
    let first = (PAGE_BYTES - address % PAGE_BYTES).min(into.len());
    read_own([(address, first), (address.wrapping_add(first), into.len() - first)], into)
}
