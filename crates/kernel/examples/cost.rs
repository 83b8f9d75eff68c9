//! What a recorded system call costs over a bare one: `cargo run --release -p mote-kernel --example cost`.
//!
//! All cases are measured in turn, several times, in short batches; the lowest tenth and the median of all batches are shown, in ns a call. On a busy machine
//! the lowest tenth is what counts: those batches were not interrupted.

use mote_assembler::builder::Builder;
use mote_bpf::Reg;
use mote_bpf::op::{Cond, Size};
use mote_filter::ContextWord;
use mote_kernel::event::{Event, Field, Hook, Origin, Type};
use mote_kernel::generate::Facts;
use mote_kernel::map::{Create, Map, MapType};
use mote_kernel::session::{Buffers, Chosen, Filter, Kernel, Request, Targets};
use mote_layout::types::Scalar;
use mote_ring::Mode;
use std::time::Instant;

const CALLS: u32 = 1000;
const BATCHES: usize = 100;
const ROUNDS: usize = 15;
const GETPPID: u32 = libc::SYS_getppid as u32;
const KTIME_GET_NS: u32 = 5;
const RINGBUF_RESERVE: u32 = 131;
const RINGBUF_SUBMIT: u32 = 132;
const GET_CURRENT_TASK_BTF: u32 = 158;

fn field(name: &str, ty: Scalar, from: Origin) -> Field {
    Field { name: name.to_owned(), ty: Type::Scalar(ty), from }
}

fn entry(number: u32, fields: Vec<Field>) -> Event {
    event(Hook::SyscallEntry(number), fields)
}

fn exit(fields: Vec<Field>) -> Event {
    event(Hook::SyscallExit(GETPPID), fields)
}

fn event(hook: Hook, fields: Vec<Field>) -> Event {
    Event { provider: "syscalls".to_owned(), name: "call".to_owned(), fields, hook }
}

fn argument() -> Event {
    entry(GETPPID, vec![field("a", Scalar::signed(64), Origin::Argument(0))])
}

fn result() -> Field {
    field("ret", Scalar::signed(64), Origin::Result)
}

fn duration() -> Field {
    field("duration", Scalar::unsigned(64), Origin::Duration)
}

/// Of as many shapes as system calls have, and more.
fn all_calls() -> Vec<Event> {
    let call = |number: u32| {
        let ty = |at: u32| if number >> at & 1 == 1 { Scalar::signed(32) } else { Scalar::hex(64) };
        let count = if number == GETPPID { 0 } else { number % 7 };
        entry(number, (0..count.min(6)).map(|at| field("a", ty(at), Origin::Argument(at as u8))).collect())
    };
    (0..400).map(call).collect()
}

fn kernel(facts: Facts, targets: Targets, events: Vec<Event>, filter: Option<Filter>) -> Kernel {
    let chosen = |(id, event)| Chosen { id: id as u16, event, filter: filter.clone() };
    let events = events.into_iter().enumerate().map(chosen).collect();
    let buffers = Buffers { sub_bits: 18, count_bits: 2, mode: Mode::Overwrite };
    let request = Request { events, targets, buffers, maps: Vec::new(), threads: 1024 };
    let kernel = Kernel::start_with(request, facts).expect("root may");
    assert_eq!(kernel.refused(), []);
    kernel
}

/// `r0 = argument 0 == 12345`
fn compare() -> Filter {
    let mut b = Builder::new();
    let not = b.label();
    b.mov(Reg::R0, 0);
    b.load(Size::DW, Reg::R1, Reg::R1, 0);
    b.branch(Cond::Ne, Reg::R1, 12345, not);
    b.mov(Reg::R0, 1);
    b.bind(not);
    b.exit();
    Filter { insns: b.finish().expect("it is short"), words: vec![ContextWord::Field(0)], records: true }
}

/// A program that only calls these helpers, at each system call.
fn calling(facts: Facts, helpers: &[u32]) -> Kernel {
    let kernel = kernel(facts, Targets::All, vec![], None);
    let mut b = Builder::new();
    helpers.iter().for_each(|helper| b.call(*helper));
    b.mov(Reg::R0, 0);
    b.exit();
    let insns = b.finish().expect("it is short");
    kernel.attach("calls", &Hook::SyscallEntry(0), &insns, &[]).expect("harmless");
    kernel
}

/// The usual way: 16 bytes in eBPF's ring buffer, time and a number, submitted.
fn ring_buffer(facts: Facts) -> Kernel {
    let kernel = kernel(facts, Targets::All, vec![], None);
    let (map_type, entries) = (MapType::RingBuffer, 1 << 23);
    let create =
        Create { map_type, key_bytes: 0, value_bytes: 0, entries, flags: 0, inner: None, name: "peer" };
    let map = Map::make(&create).expect("root may");
    let mut b = Builder::new();
    let full = b.label();
    b.map(Reg::R1, 2);
    b.mov(Reg::R2, 16);
    b.mov(Reg::R3, 0);
    b.call(RINGBUF_RESERVE);
    b.branch(Cond::Eq, Reg::R0, 0, full);
    b.mov(Reg::R6, Reg::R0);
    b.call(KTIME_GET_NS);
    b.store(Size::DW, Reg::R6, 0, Reg::R0);
    b.store(Size::DW, Reg::R6, 8, 42);
    b.mov(Reg::R1, Reg::R6);
    b.mov(Reg::R2, 0);
    b.call(RINGBUF_SUBMIT);
    b.bind(full);
    b.mov(Reg::R0, 0);
    b.exit();
    let insns = b.finish().expect("it is short");
    kernel.attach("peer", &Hook::SyscallEntry(0), &insns, &[&map]).expect("harmless");
    kernel
}

/// Everybody's events.
fn all(facts: Facts, events: Vec<Event>) -> Kernel {
    kernel(facts, Targets::All, events, None)
}

/// Our own.
fn own(facts: Facts, events: Vec<Event>, filter: Option<Filter>) -> Kernel {
    let kernel = kernel(facts, Targets::Launch, events, filter);
    kernel.follow(std::process::id()).expect("we live");
    kernel
}

type Case = (&'static str, fn(Facts) -> Option<Kernel>);

const CASES: [Case; 16] = [
    ("bare", |_| None),
    ("empty program", |facts| Some(calling(facts, &[]))),
    ("program that reads the time", |facts| Some(calling(facts, &[KTIME_GET_NS]))),
    ("program that asks who runs", |facts| Some(calling(facts, &[GET_CURRENT_TASK_BTF]))),
    ("ring buffer of eBPF", |facts| Some(ring_buffer(facts))),
    ("entry, recorded, all", |facts| Some(all(facts, vec![entry(GETPPID, vec![])]))),
    ("entry, recorded, thread", |facts| Some(own(facts, vec![entry(GETPPID, vec![])], None))),
    ("entry, one of 400", |facts| Some(own(facts, all_calls(), None))),
    ("entry with an argument", |facts| Some(all(facts, vec![argument()]))),
    ("entry, other thread", |facts| Some(kernel(facts, Targets::Launch, vec![argument()], None))),
    ("entry, other call", |facts| Some(all(facts, vec![entry(1, vec![])]))),
    ("entry, argument differs", |facts| Some(own(facts, vec![argument()], Some(compare())))),
    ("exit with result", |facts| Some(all(facts, vec![exit(vec![result()])]))),
    ("entry and exit", |facts| Some(all(facts, vec![entry(GETPPID, vec![]), exit(vec![result()])]))),
    ("entry and exit with duration", |facts| {
        Some(own(facts, vec![entry(GETPPID, vec![]), exit(vec![result(), duration()])], None))
    }),
    ("only slow exits", |facts| Some(own(facts, vec![exit(vec![duration()])], Some(compare())))),
];

fn measure() -> f64 {
    let start = Instant::now();
    for _ in 0..CALLS {
        mote_sys::process::parent();
    }
    start.elapsed().as_nanos() as f64 / f64::from(CALLS)
}

fn main() {
    let facts = Facts::of_kernel().expect("BTF");
    let mut times = vec![Vec::new(); CASES.len()];
    for _ in 0..ROUNDS {
        for ((_, make), times) in CASES.iter().zip(&mut times) {
            let kernel = make(facts);
            kernel.iter().for_each(Kernel::enable);
            measure();
            times.extend((0..BATCHES).map(|_| measure()));
        }
    }
    times.iter_mut().for_each(|times| times.sort_by(f64::total_cmp));
    let of = |times: &[f64]| (times[times.len() / 10], times[times.len() / 2]);
    let floor = of(&times[0]);
    for ((name, _), times) in CASES.iter().zip(&times) {
        let (tenth, median) = of(times);
        let over = (tenth - floor.0, median - floor.1);
        println!(
            "{name:30} {tenth:7.1} ns, over bare {:6.1}   (medians {median:7.1}, {:6.1})",
            over.0, over.1
        );
    }
}
