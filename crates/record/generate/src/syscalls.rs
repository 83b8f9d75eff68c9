//! One program for all system calls that are recorded, at their entry or their return.
//!
//! A table says for each number which event it is, and which shape its record has; events with equal fields have one
//! shape, of which there are some dozens. The program goes to the shape's code by comparing, half of the shapes at a
//! time: a table of programs (tail calls) would cost an indirect jump, which is slow where the kernel works around
//! flaws of the CPU.

use crate::access::Access;
use crate::chosen::Chosen;
use crate::chosen::Filter;
use crate::code::Code;
use crate::error::Error;
use crate::plan::Generated;
use crate::plan::Plan;
use crate::record::Id;
use crate::state;
use crate::threads::Entry;
use crate::{arch, filter, map_number, slot, sockaddr};
use mote_bpf::helper::KTIME_GET_NS;
use mote_bpf::op::Size;
use mote_builder::{Build, Label, Value, field, map_value};
use mote_catalog::event::{Event, Field, Hook, Origin, Part};
use mote_layout::cooperation::SYSCALLS;
use std::rc::Rc;

/// Bit of a table's word: the time of the entry is noted.
const NOTED: u32 = 1 << 31;
/// Lowest bit of the shape in a table's word; the event's id is below.
const SHAPE: u32 = 16;

/// Entry or return.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// Programs at `sys_enter`.
    Entry,
    /// Programs at `sys_exit`.
    Exit,
}

/// What is done about the time at which calls begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Times {
    /// Nothing.
    No,
    /// It is noted, or taken out, for those calls whose word in the table says so.
    Some,
    /// It is noted for all, and is the time of their records.
    All,
}

/// Where a ring is claimed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Claims {
    /// Before filters are asked, of which there are some or none.
    First { looks: bool },
    /// Behind the filter that all events have.
    AfterFilter,
    /// In the code of each shape, behind its filter.
    EachShape,
}

impl Claims {
    fn of(chosen: &[&Chosen], shared: Option<&Filter>, times: Times) -> Claims {
        let with = |one: &Chosen| one.filter.as_ref().map(|filter| filter::needs_ring(&one.event, filter));
        let looks = chosen.iter().any(|one| one.filter.is_some());
        // The ring's times bound the one that is noted.
        if !looks || times == Times::All || chosen.iter().any(|one| with(one) == Some(true)) {
            Claims::First { looks }
        } else if shared.is_some() {
            Claims::AfterFilter
        } else {
            Claims::EachShape
        }
    }
}

/// The filter that all of these events have, if there is one and it looks at none of their fields: it is asked once for
/// all of them. Else the kernel's verifier would follow it for each event anew, which takes it seconds when the filter
/// searches a text.
fn shared_filter<'a>(chosen: &[&'a Chosen]) -> Option<&'a Filter> {
    let first = chosen.first()?.filter.as_ref().filter(|filter| filter.words.is_empty())?;
    chosen.iter().all(|one| one.filter.as_ref() == Some(first)).then_some(first)
}

/// Events that one piece of code writes.
struct Shape<'a> {
    first: &'a Chosen,
    events: usize,
    label: Label,
}

fn fields(chosen: &Chosen) -> impl Iterator<Item = (&mote_catalog::event::Type, &Origin)> {
    chosen.event.fields.iter().map(|Field { ty, from, .. }| (ty, from))
}

fn is_address((_, from): (&mote_catalog::event::Type, &Origin)) -> bool {
    matches!(from, Origin::Socket(_, Part::Text))
}

/// Whether an event's record holds how long the call took.
pub fn asks_duration(event: &Event) -> bool {
    event.fields.iter().any(|field| field.from == Origin::Duration)
}

fn number(chosen: &Chosen) -> Option<usize> {
    match chosen.event.hook {
        Hook::SyscallEntry(number) | Hook::SyscallExit(number) => Some(number as usize),
        _ => None,
    }
}

/// The program for these events, all of one side. `noted` are the numbers of calls whose time of entry is asked for (at
/// the entry), or was noted (at the return).
///
/// # Errors
/// [`Error::Event`].
pub fn program(
    plan: &Plan,
    side: Side,
    chosen: &[&Chosen],
    noted: &[u32],
    filter_maps: u32,
    access: Access,
) -> Result<Generated, Error> {
    let mut code = Code::new(plan, access);
    let mut shapes: Vec<Shape<'_>> = Vec::new();
    let mut table = vec![0u32; SYSCALLS];
    let shared = shared_filter(chosen);
    for one in chosen {
        let shape = shape_of(&mut code, &mut shapes, one, shared.is_some());
        let word = number(one).and_then(|number| table.get_mut(number));
        let word = word.ok_or_else(|| Error::event(&one.event.name, "it has no system call's number"))?;
        *word |= u32::from(one.id) | (shape as u32 + 1) << SHAPE;
    }
    for number in noted {
        if let Some(word) = table.get_mut(*number as usize) {
            *word |= NOTED;
        }
    }
    let has_address = chosen.iter().any(|one| fields(one).any(is_address));
    code.words = has_address.then_some(map_number::FILTERS + filter_maps);
    let looks = |one: &&Chosen| one.filter.as_ref().is_some_and(|it| filter::looks_at_bytes(&one.event, it));
    code.scratch = chosen.iter().any(looks);
    code.is_own_doing = true;
    let times = times(side, chosen, noted);
    let claims = Claims::of(chosen, shared, times);
    prologue(&mut code, side, map_number::FILTERS + filter_maps, times, claims);
    if let (Some(filter), Some(first)) = (shared, chosen.first()) {
        code.filter(&first.event, filter)?;
    }
    if shared.is_none_or(|filter| filter.records) {
        if claims == Claims::AfterFilter {
            code.claim(false);
        }
        let number = code.get((slot::ID >> SHAPE) & ((NOTED >> SHAPE) - 1));
        usual(&mut code, &number, &shapes);
        dispatch(&mut code, &number, &shapes, 0);
        drop(number);
        for shape in &shapes {
            code.timed = times == Times::All;
            code.claimed = claims != Claims::EachShape;
            body(&mut code, shape, shared.is_some())?;
        }
    }
    let name = if side == Side::Entry { "sys_enter" } else { "sys_exit" };
    let insns = code.finish(name)?;
    let mut table: Vec<u8> = table.iter().flat_map(|word| word.to_le_bytes()).collect();
    if has_address {
        table.extend(sockaddr::words().flat_map(u64::to_le_bytes));
    }
    Ok(Generated { insns, table: Some(table) })
}

fn times(side: Side, chosen: &[&Chosen], noted: &[u32]) -> Times {
    let is_noted = |one: &&Chosen| number(one).is_some_and(|number| noted.contains(&(number as u32)));
    if noted.is_empty() {
        Times::No
    } else if side == Side::Entry && chosen.len() == noted.len() && chosen.iter().all(is_noted) {
        Times::All
    } else {
        Times::Some
    }
}

/// The number of the event's shape: that of events with the same fields, and the same filter if not all share one.
fn shape_of<'a>(
    code: &mut Code<'_>,
    shapes: &mut Vec<Shape<'a>>,
    chosen: &'a Chosen,
    is_shared: bool,
) -> usize {
    let same = |shape: &Shape<'_>| {
        (is_shared || shape.first.filter == chosen.filter) && fields(shape.first).eq(fields(chosen))
    };
    let known = shapes.iter().position(same);
    let number = known.unwrap_or_else(|| {
        shapes.push(Shape { first: chosen, events: 0, label: code.b.label() });
        shapes.len() - 1
    });
    if let Some(shape) = shapes.get_mut(number) {
        shape.events += 1;
    }
    number
}

/// From the context to a claimed ring, if that is claimed first, with the call's word in its slot.
fn prologue(code: &mut Code<'_>, side: Side, table: u32, times: Times, claims: Claims) {
    let (saved, out) = (Rc::clone(&code.saved), code.out);
    code.begin();
    code.put(slot::CONTEXT, code.context());
    let second = code.of_context(8, Size::DW);
    let number = match side {
        Side::Entry => {
            let number = code.get(second);
            code.set(&saved.context, code.of_context(0, Size::DW));
            number
        }
        Side::Exit => {
            code.put(slot::RESULT, second);
            code.set(&saved.context, code.of_context(0, Size::DW));
            let number = code.load(Size::DW, &saved.context, arch::CALL_NUMBER as u32);
            code.get(number)
        }
    };
    // Also what is no call at all (-1), and those of the x32 ABI, which have a bit set.
    code.jump_if(number.ge(SYSCALLS), out);
    let word = code.get((map_value(table, 0) + (&number << 2)).place::<u32>());
    code.jump_if(word.eq(0), out);
    code.put(slot::ID, word);
    if times != Times::No {
        code.put(slot::BEGAN, &number);
    }
    drop(number);
    let tid = code.thread_id();
    code.select(tid, &[], claims != Claims::First { looks: false });
    abi(code);
    match times {
        Times::No => {}
        Times::Some => notes(code, side),
        Times::All => code.ensure(),
    }
    if let Claims::First { looks } = claims {
        code.claim(looks);
    }
    if times == Times::All {
        let now = code.time();
        code.when(saved.entry.ne(0), |code| note(code, now));
    }
}

/// Leaves out calls of another ABI: their numbers mean other calls.
fn abi(code: &mut Code<'_>) {
    let abi_word = code.plan.facts.and_then(|facts| facts.abi_word);
    if abi_word.is_none() || code.access != Access::TypedCall {
        return;
    }
    let saved = Rc::clone(&code.saved);
    code.set(&saved.to, &saved.to & arch::OTHER_ABI);
    code.when(saved.to.ne(0), |code| {
        code.count(state::FOREIGN_ABI);
        code.jump(code.out);
    });
}

/// Notes when the call began, or takes that out again; leaves when that is all that is wanted. The call's number is in
/// the slot of its begin.
fn notes(code: &mut Code<'_>, side: Side) {
    let (word, out) = (slot::low::<u32>(slot::ID), code.out);
    let saved = Rc::clone(&code.saved);
    code.block(|code, not| {
        code.jump_if((word >> NOTED.trailing_zeros()).eq(0), not);
        code.ensure();
        match side {
            Side::Exit => code.take_began(),
            Side::Entry => {
                code.jump_if(saved.entry.eq(0), not);
                let now = code.invoke(KTIME_GET_NS, ());
                note(code, now);
            }
        }
    });
    code.jump_if((word & (NOTED - (1 << SHAPE))).eq(0), out);
}

/// Notes when the call in the slot began.
fn note(code: &mut Code<'_>, time: Value) {
    let saved = Rc::clone(&code.saved);
    code.put(saved.entry.at(field!(Entry, syscall_time)), time);
    code.put(saved.entry.at(field!(Entry, syscall)), slot::BEGAN);
}

/// Goes to the code of the shape that most of the events have, if there is such a one and its number (from 1 on) is
/// `number`: returns that have a result and no more.
fn usual(code: &mut Code<'_>, number: &Value, shapes: &[Shape<'_>]) {
    let all: usize = shapes.iter().map(|shape| shape.events).sum();
    let is_usual = |(_, shape): &(usize, &Shape<'_>)| 2 * shape.events > all;
    if let Some((at, shape)) = shapes.iter().enumerate().find(is_usual).filter(|_| shapes.len() > 2) {
        code.jump_if(number.eq(at + 1), shape.label);
    }
}

/// Goes to the code of the shape whose number (from 1 on) this is; `base` is the number before the first of `shapes`.
fn dispatch(code: &mut Code<'_>, number: &Value, shapes: &[Shape<'_>], base: usize) {
    match shapes {
        [] => code.jump(if code.claimed { code.release } else { code.out }),
        [one] => code.jump(one.label),
        _ => {
            let (low, high) = shapes.split_at(shapes.len() / 2);
            let upper = code.label();
            code.jump_if(number.gt(base + low.len()), upper);
            dispatch(code, number, low, base);
            code.bind(upper);
            dispatch(code, number, high, base + low.len());
        }
    }
}

fn body(code: &mut Code<'_>, shape: &Shape<'_>, is_asked: bool) -> Result<(), Error> {
    let event = &shape.first.event;
    code.bind(shape.label);
    code.kept.clear();
    let filter = shape.first.filter.as_ref().filter(|_| !is_asked);
    code.filtered(event, filter)?;
    if filter.is_some_and(|filter| !filter.records) {
        return Ok(());
    }
    code.record(event, Id::Slot)
}
