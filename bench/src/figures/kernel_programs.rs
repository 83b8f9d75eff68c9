//! `kernel_programs`: what each kind of program that mote makes for the kernel adds to a system call, without a
//! recorder around it.

use super::effort::Effort;
use super::figure::{Figure, Samples};
use super::kernel_calls::{added, lone};
use super::kernel_floor::Floor;
use super::session::Lab;
use anyhow::Context;
use mote_bpf::Reg;
use mote_bpf::op::{Cond, Size};
use mote_builder::Builder;
use mote_catalog::event::{Event, Field, Hook, Origin, Type};
use mote_filter::ContextWord;
use mote_generate::{Chosen, Facts, Filter};
use mote_kernel::map::Buffers;
use mote_kernel::session::{Kernel, Request, Targets};
use mote_layout::types::Scalar;
use mote_ring::Mode;

const GETPPID: u32 = libc::SYS_getppid as u32;
/// A call that nobody makes here.
const OTHER: u32 = libc::SYS_swapoff as u32;

/// A program, and what is recorded by it of whom.
struct Case {
    name: &'static str,
    events: fn() -> Vec<Event>,
    whose: Whose,
    filtered: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Whose {
    Everybody,
    Ours,
    /// Nobody's: no thread is followed.
    Others,
}

const fn case(name: &'static str, whose: Whose, filtered: bool, events: fn() -> Vec<Event>) -> Case {
    Case { name, events, whose, filtered }
}

const CASES: [Case; 11] = [
    case("entry/all", Whose::Everybody, false, || vec![entry(GETPPID, vec![])]),
    case("entry/thread", Whose::Ours, false, || vec![entry(GETPPID, vec![])]),
    case("entry/one-of-400", Whose::Ours, false, all_calls),
    case("entry/argument", Whose::Everybody, false, || vec![argument()]),
    case("entry/other-thread", Whose::Others, false, || vec![argument()]),
    case("entry/other-call", Whose::Everybody, false, || vec![entry(OTHER, vec![])]),
    case("entry/argument-differs", Whose::Ours, true, || vec![argument()]),
    case("exit/result", Whose::Everybody, false, || vec![exit(vec![result()])]),
    case("both", Whose::Everybody, false, || vec![entry(GETPPID, vec![]), exit(vec![result()])]),
    case("both/duration", Whose::Ours, false, || {
        vec![entry(GETPPID, vec![]), exit(vec![result(), duration()])]
    }),
    case("exit/only-slow", Whose::Ours, true, || vec![exit(vec![duration()])]),
];
const FLOORS: [Floor; 5] = [Floor::Empty, Floor::EmptyBoth, Floor::Clock, Floor::WhoRuns, Floor::RingBuffer];

/// Measures all of them in turns.
pub(super) fn run(effort: Effort) -> anyhow::Result<Vec<Figure>> {
    let mut lab = Lab::new()?;
    let facts = mote_kernel::session::facts()?;
    let mut samples = Samples::default();
    for _ in 0..effort.choose(5, 25) {
        lone(&mut lab, &mut samples, None)?;
        for floor in FLOORS {
            let _attached = floor.attach()?;
            lone(&mut lab, &mut samples, Some(floor.name()))?;
        }
        for case in &CASES {
            let kernel = case.attach(facts)?;
            kernel.enable();
            lone(&mut lab, &mut samples, Some(case.name))?;
        }
    }
    let mut figures: Vec<Figure> =
        CASES.iter().map(|case| Figure::new(case.name, "ns", &added(&samples, case.name))).collect();
    figures.extend(FLOORS.map(Floor::name).map(|name| Figure::new(name, "ns", &added(&samples, name))));
    Ok(figures)
}

impl Case {
    fn attach(&self, facts: Facts) -> anyhow::Result<Kernel> {
        let filter = self.filtered.then(compare).transpose()?;
        let chosen = |(id, event)| Chosen { id: id as u16, event, filter: filter.clone() };
        let events = (self.events)().into_iter().enumerate().map(chosen).collect();
        let targets = if self.whose == Whose::Everybody { Targets::All } else { Targets::Launch };
        let buffers = Buffers { sub_bits: 18, count_bits: 2, mode: Mode::Overwrite };
        let request = Request { events, targets, buffers, maps: Vec::new(), threads: 1024 };
        let kernel = Kernel::start_with(request, facts)?;
        anyhow::ensure!(kernel.refused().is_empty(), "the kernel refuses {:?}", kernel.refused());
        if self.whose == Whose::Ours {
            kernel.follow(std::process::id())?;
        }
        Ok(kernel)
    }
}

fn event(hook: Hook, fields: Vec<Field>) -> Event {
    Event { provider: "syscalls".to_owned(), name: "call".to_owned(), fields, hook }
}

fn entry(number: u32, fields: Vec<Field>) -> Event {
    event(Hook::SyscallEntry(number), fields)
}

fn exit(fields: Vec<Field>) -> Event {
    event(Hook::SyscallExit(GETPPID), fields)
}

fn field(name: &str, ty: Scalar, from: Origin) -> Field {
    Field { name: name.to_owned(), ty: Type::Scalar(ty), from }
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

/// A filter: `r0 = the first field == 12345`.
fn compare() -> anyhow::Result<Filter> {
    let mut b = Builder::new();
    let not = b.label();
    b.mov(Reg::R0, 0);
    b.load(Size::DW, Reg::R1, Reg::R1, 0);
    b.branch(Cond::Ne, Reg::R1, 12345, not);
    b.mov(Reg::R0, 1);
    b.bind(not);
    b.exit();
    let insns = b.finish().context("a filter of the bench is wrong")?;
    Ok(Filter { insns, words: vec![ContextWord::Field(0)], records: true, foreign: None })
}
