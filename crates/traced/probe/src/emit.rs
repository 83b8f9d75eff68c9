//! From an event's fields to a record in a ring.

use crate::arch::keep_in_memory;
use crate::fields::Fields;
use crate::packer::Packer;
use core::marker::PhantomData;
use core::mem::MaybeUninit;
use mote_agent::stack::Here;
use mote_agent::{Between, Event, FAULTED};
use mote_layout::context::{DROP, RECORD};
use mote_ring::direct::{Piece, Row, Shape, WriteTo};
use mote_ring::timing::{Now, Timing};
use mote_ring::writer::Payload;
use mote_ring::{Direct, Fragment, Record};

/// Fields of up to this many bytes together are packed on the stack and copied in words; larger ones are
/// copied from where they lie.
const SMALL_BYTES: usize = 256;

/// Space for the packed fields: what they take, and whole words for the copy.
type Small = MaybeUninit<[u64; SMALL_BYTES / 8 + 2]>;

/// Records an event with these fields, if it is on, and its filter lets it through.
///
/// Never inlined, and cold: a function with an event in it needs neither the stack nor the registers of this one while
/// the event is off, and events with the same types of fields share its code.
///
/// A filter is asked here, straight on: it must be quick to say no. So there is no frame for packing, and nothing that
/// has to survive the filter in registers, which would be saved and restored for that. An event without a filter takes
/// a jump more, which vanishes behind the reading of the time.
///
/// # Signal safety
/// Callable from a handler.
///
/// # Cost
/// Benches `event_cost` and `filter`. No allocation, no system call but for a thread's first event and those of a
/// filter's helpers.
#[inline(always)]
pub fn emit<F: Fields>(event: &Event, fields: F) {
    emit_apart(fields, event);
}

/// See [`emit`]. The event comes last, so that fields are in registers that reading the time does not overwrite. Sites
/// call this: what is inlined into them is in their stacks.
#[cold]
#[inline(never)]
pub fn emit_apart<F: Fields>(fields: F, event: &Event) {
    if Two::<F>::FITS || Short::<F>::FITS {
        match event.direct() {
            Some(to) if Two::<F>::FITS => return emit_direct(to, fields),
            Some(to) => return emit_short(fields, event, to),
            // Behind what is nearer to the floor, where a jump counts most.
            None => core::hint::cold_path(),
        }
    }
    if event.has_stack() {
        core::hint::cold_path();
        return emit_from(fields, event, Here::now());
    }
    emit_generally(fields, event);
}

/// As [`emit`], of an event that sessions want stacks with, which are those of `here`.
#[cold]
#[inline(never)]
pub fn emit_from<F: Fields>(fields: F, event: &Event, here: Here) {
    here.have(|| emit_generally(fields, event));
}

/// Records an event for which there is no shortest way, or which does not fit there. Of stacks it is as the calling
/// thread has noted.
#[inline(always)]
fn emit_generally<F: Fields>(fields: F, event: &Event) {
    match event.between() {
        Between::Nothing => {
            core::hint::cold_path();
            emit_now(event, fields);
        }
        Between::Sessions if Two::<F>::FITS || Short::<F>::FITS => emit_many(fields, event),
        _ => emit_filtered(fields, event),
    }
}

/// Records fields that are a piece each, if they are short enough: nothing is in the way of the event.
#[inline(never)]
fn emit_short<F: Fields>(fields: F, event: &Event, to: Direct) {
    let mut pieces = Pieces::uninit();
    if !put_pieces(&fields, &mut pieces) {
        return emit_now(event, fields);
    }
    // SAFETY: `put_pieces`.
    if !unsafe { write_pieces::<F>(to, Now, &pieces) } {
        emit_otherwise(to, &fields);
    }
}

/// Records an event that several sessions have on, none of them with a filter; or asks the filters.
#[inline(never)]
fn emit_many<F: Fields>(fields: F, event: &Event) {
    let written = match Two::<F>::FITS {
        true => write_two_to_each(fields, event),
        false => write_pieces_to_each(&fields, event),
    };
    if !written {
        emit_filtered(fields, event);
    }
}

#[inline(always)]
fn write_two_to_each<F: Fields>(fields: F, event: &Event) -> bool {
    let (first, second) = in_two(fields);
    let record = InTwo::<F> { first, second, fields: PhantomData };
    event.each_direct(&record, |ways| two_otherwise::<F>(ways, first, second))
}

/// Fields that are in two words ([`in_two`]), as a record.
struct InTwo<F> {
    first: u64,
    second: u64,
    fields: PhantomData<F>,
}

impl<F: Fields> WriteTo for InTwo<F> {
    #[inline(always)]
    fn write_to<T: Timing>(&self, to: Direct, timing: T) -> bool {
        write_two::<F>(to, timing, self.first, self.second)
    }
}

/// Records numbers for the first of these sessions by the general way, and for each of the others as it can be.
#[cold]
#[inline(never)]
fn two_otherwise<F: Fields>(ways: &[Option<Direct>], first: u64, second: u64) {
    for to in ways.iter().map_while(|to| *to) {
        record_two_otherwise::<F>(to, first, second);
    }
}

#[inline(always)]
fn write_pieces_to_each<F: Fields>(fields: &F, event: &Event) -> bool {
    let mut pieces = Pieces::uninit();
    put_pieces(fields, &mut pieces)
        && event.each_direct(&InPieces::<F> { pieces: &pieces, fields: PhantomData }, |ways| {
            ways.iter().map_while(|to| *to).for_each(|to| emit_otherwise(to, fields));
        })
}

/// Fields as [`put_pieces`] has made them ready, as a record.
struct InPieces<'p, F> {
    pieces: &'p Pieces,
    fields: PhantomData<F>,
}

impl<F: Fields> WriteTo for InPieces<'_, F> {
    #[inline(always)]
    fn write_to<T: Timing>(&self, to: Direct, timing: T) -> bool {
        // SAFETY: `put_pieces`.
        unsafe { write_pieces::<F>(to, timing, self.pieces) }
    }
}

/// Fields that may be a piece each.
struct Short<F>(PhantomData<F>);

/// Most pieces of an event.
const PIECES_MAX: usize = 16;
/// The highest bit of each byte.
const HIGHEST_BITS: u64 = 0x8080_8080_8080_8080;
/// Space for them.
type Pieces = MaybeUninit<[Piece; PIECES_MAX]>;

impl<F: Fields> Short<F> {
    const FITS: bool = F::ARE_SHORT && !Two::<F>::FITS && F::COUNT <= PIECES_MAX;
}

impl<F: Fields> Row for Short<F> {
    const COUNT: usize = if Short::<F>::FITS { F::COUNT } else { 0 };
}

/// Makes pieces of short fields; false when one of them is not short, or has a NUL.
#[inline(always)]
fn put_pieces<F: Fields>(fields: &F, pieces: &mut Pieces) -> bool {
    let mut nul = 0;
    // SAFETY: there is room for all pieces of fields that fit.
    let are_short = Short::<F>::FITS && unsafe { fields.put_pieces(pieces.as_mut_ptr().cast(), &mut nul) };
    are_short && nul & HIGHEST_BITS == 0
}

/// Writes a record of pieces; false when it has to be written otherwise.
///
/// # Safety
/// The pieces are of [`put_pieces`] of such fields.
#[inline(always)]
unsafe fn write_pieces<F: Fields>(to: Direct, timing: impl Timing, pieces: &Pieces) -> bool {
    // SAFETY: `Fields` is sealed: there are `COUNT` pieces, of 8 bytes at most.
    unsafe { to.write_pieces::<Short<F>>(timing, pieces.as_ptr().cast()) }
}

/// As [`record_two_otherwise`], of short fields.
#[cold]
#[inline(never)]
fn emit_otherwise<F: Fields>(to: Direct, fields: &F) {
    let mut small = Small::uninit();
    let (from, len) = pack(*fields, &mut small);
    // SAFETY: `pack`; pieces are 16 words at most, and `Small` has more.
    unsafe { write_words_otherwise(to, from, len) };
}

/// Records an event that has something between it and its channel. Apart, so that others need no stack frame.
#[inline(never)]
fn emit_filtered<F: Fields>(fields: F, event: &Event) {
    // Copies are made here: what is copied from a parameter would be in memory from the beginning. Fields that are in
    // memory already stay there.
    if size_of::<F>() <= 2 * size_of::<usize>() {
        emit_gated(event, &{ fields });
    } else {
        emit_gated(event, &fields);
    }
}

/// Fields that two registers hold, and how they lie in a record: two fields as they are, more of them packed.
struct Two<F>(PhantomData<F>);

impl<F: Fields> Two<F> {
    const FITS: bool = F::ARE_FIXED && F::SIZE <= 16;
    const ARE_APART: bool = F::COUNT <= 2 && F::FIRST <= 8 && F::SIZE - F::FIRST <= 8;
}

impl<F: Fields> Shape for Two<F> {
    const LEN: usize = if Two::<F>::FITS { F::SIZE } else { 0 };
    const SECOND_AT: usize = if Two::<F>::FITS && Two::<F>::ARE_APART { F::FIRST } else { 8 };
}

/// Records numbers, of at most 16 bytes together, that nothing is in the way of: they never leave the registers.
#[inline(always)]
fn emit_direct<F: Fields>(to: Direct, fields: F) {
    let (first, second) = in_two(fields);
    if !write_two::<F>(to, Now, first, second) {
        record_two_otherwise::<F>(to, first, second);
    }
}

/// Numbers as they are handed to the sequence.
#[inline(always)]
fn in_two<F: Fields>(fields: F) -> (u64, u64) {
    match Two::<F>::ARE_APART {
        true => (fields.first_bits(), fields.second_bits()),
        false => packed(fields),
    }
}

/// Writes a record of fields that are in two words ([`in_two`]); false when it has to be written otherwise.
#[inline(always)]
fn write_two<F: Fields>(to: Direct, timing: impl Timing, first: u64, second: u64) -> bool {
    if F::SIZE == 0 { to.write_none(timing) } else { to.write_two::<Two<F>>(timing, first, second) }
}

/// Fields of 16 bytes at most, in two words.
#[inline(always)]
fn packed<F: Fields>(fields: F) -> (u64, u64) {
    let mut words = [0; 3];
    if Two::<F>::FITS {
        // SAFETY: the fields are 16 bytes at most, and there is a word behind them.
        let packer = unsafe { Packer::new(words.as_mut_ptr()) };
        fields.pack(packer).finish();
    }
    let [first, second, _] = words;
    (first, second)
}

/// Records what could not be written directly: the thread has no name yet, its CPU no ring, or the sub-buffer is full.
#[cold]
#[inline(always)]
fn record_two_otherwise<F: Fields>(to: Direct, first: u64, second: u64) {
    // Behind the first field, what lies above it in its register does not count.
    let (low, above) = match <Two<F> as Shape>::SECOND_AT {
        at @ 1..8 => (first & ((1 << (8 * at)) - 1) | second << (8 * at), second >> (64 - 8 * at)),
        0 => (second, 0),
        _ => (first, second),
    };
    record_packed_otherwise(to, low, above, F::SIZE);
}

/// As [`record_two_otherwise`], of packed fields.
#[cold]
#[inline(never)]
fn record_packed_otherwise(to: Direct, first: u64, second: u64, len: usize) {
    let words = [first, second];
    // SAFETY: two words are there.
    unsafe { write_words_otherwise(to, words.as_ptr().cast(), len.min(size_of_val(&words))) };
}

/// Records an event whose packed fields are the first `len` bytes of `first` and then `second`, at most 16: what
/// `mote.h` calls with what the event's state says of the shortest way.
///
/// # Safety
/// `len` is at most 16.
///
/// # Signal safety
/// Callable from a handler.
#[inline(always)]
pub unsafe fn record_packed(first: u64, second: u64, to: Direct, len: usize) {
    // SAFETY: the caller's promise.
    if !unsafe { to.write_packed(first, second, len) } {
        record_packed_otherwise(to, first, second, len);
    }
}

/// Asks the filter; `fields` are in memory.
#[inline(always)]
fn emit_gated<F: Fields>(event: &Event, fields: &F) {
    let words = fields.words();
    let held = event;
    keep_in_memory(&held);
    keep_in_memory(fields);
    // SAFETY: `Fields` is sealed: its words are those of the description, which is made of the same types.
    match unsafe { event.ask((&raw const words).cast()) } {
        DROP => {}
        answer => {
            core::hint::cold_path();
            emit_answered(held, fields, &words, answer);
        }
    }
}

/// Records an event that has no filter.
#[inline(never)]
fn emit_now<F: Fields>(event: &Event, fields: F) {
    if fields.size_max() <= SMALL_BYTES {
        let mut small = Small::uninit();
        let (from, len) = pack(fields, &mut small);
        // SAFETY: `pack`.
        unsafe { record(event, from, len) };
    } else {
        emit_large(event, fields, RECORD);
    }
}

/// Packs small fields; returns where they are and how many bytes they are, which are written up to whole words.
#[inline(always)]
fn pack<F: Fields>(fields: F, small: &mut Small) -> (*const u8, usize) {
    let start = small.as_mut_ptr().cast::<u64>();
    // SAFETY: the fields put at most `size_max` bytes, `Fields` being sealed; `Small` has room for `SMALL_BYTES`
    // and more than a word behind them.
    let packer = unsafe { Packer::new(start) };
    (start.cast_const().cast(), fields.pack(packer).finish())
}

/// Records an event that a filter has let through, or at which it had a fault.
#[cold]
#[inline(never)]
fn emit_answered<F: Fields>(event: &Event, fields: &F, words: &F::Words, answer: u64) {
    let verdict = match answer {
        // SAFETY: as in `emit_gated`.
        FAULTED => unsafe { event.judge_fault((&raw const *words).cast()) },
        verdict => verdict,
    };
    if verdict == DROP {
        return;
    }
    let fields = *fields;
    if fields.size_max() <= SMALL_BYTES {
        let mut small = Small::uninit();
        let (from, len) = pack(fields, &mut small);
        // SAFETY: `pack`.
        unsafe { record_judged(event, from, len, verdict) };
    } else {
        emit_large(event, fields, verdict);
    }
}

/// Records an event whose packed fields are `len` bytes at `from`.
///
/// This is what every event of every language goes through, unless a filter has judged it.
///
/// # Safety
/// `len` bytes at `from`, rounded up to whole 8-byte words, must be readable.
///
/// # Signal safety
/// Callable from a handler.
#[inline(never)]
pub unsafe fn record(event: &Event, from: *const u8, len: usize) {
    if let Some(to) = event.direct() {
        // SAFETY: the caller's promise.
        if !unsafe { to.write_words(from, len) } {
            // SAFETY: the caller's promise.
            unsafe { write_words_otherwise(to, from, len) };
        }
        return;
    }
    let Some((channel, tag)) = event.destination() else { return };
    let thread = this_thread();
    // SAFETY: the caller's promise.
    unsafe { channel.write_words(tag, thread, from, len) };
}

/// As [`record`], where `verdict` says: in the ring, aside, or with several sessions.
///
/// # Safety
/// As [`record`].
///
/// # Signal safety
/// Callable from a handler.
#[inline(never)]
pub unsafe fn record_judged(event: &Event, from: *const u8, len: usize, verdict: u64) {
    if verdict != RECORD {
        core::hint::cold_path();
        // SAFETY: the caller's promise.
        return unsafe { event.write_judged(Payload::Words { from, len }, verdict) };
    }
    let Some((channel, tag)) = event.destination() else { return };
    let thread = this_thread();
    // SAFETY: the caller's promise.
    unsafe { channel.write_words(tag, thread, from, len) };
}

/// As [`record_two_otherwise`], of fields in memory.
///
/// # Safety
/// As [`record`].
#[cold]
#[inline(never)]
unsafe fn write_words_otherwise(to: Direct, from: *const u8, len: usize) {
    this_thread();
    // SAFETY: the caller's promise. What became of the record is counted in the ring.
    let _ = unsafe { to.write_otherwise(from, len) };
}

#[inline(always)]
fn this_thread() -> u32 {
    match mote_sync::thread::id() {
        0 => mote_agent::introduce_thread(),
        id => id,
    }
}

#[cold]
#[inline(never)]
fn emit_large<F: Fields>(event: &Event, fields: F, verdict: u64) {
    let mut list = F::Fragments::default();
    let list = fields.fragments(&mut list);
    let len = list.iter().map(|fragment| fragment.len).sum();
    // SAFETY: the fragments are of `fields` and of what they borrow.
    unsafe { record_fragments(event, list, len, verdict) };
}

/// Records an event of fragments, `len` bytes together, where `verdict` says.
///
/// # Safety
/// Every fragment must be readable.
#[inline(never)]
pub unsafe fn record_fragments(event: &Event, list: &[Fragment], len: usize, verdict: u64) {
    let payload = Payload::Fragments { list, len };
    if verdict != RECORD {
        // SAFETY: the caller's promise.
        return unsafe { event.write_judged(payload, verdict) };
    }
    let Some((channel, tag)) = event.destination() else { return };
    // SAFETY: the caller's promise.
    unsafe { channel.write(Record { tag, thread: this_thread(), payload }) };
}
