//! Programs made, loaded and attached.

use super::multi_probe;
use super::place::{self, Next, Place};
use super::probe_scope::{self, ProbeScope};
use super::request::{Refused, Request, Targets};
use super::selection::selection;
use super::state::{Attached, Kernel};
use super::thread_table::{forget_last, watch};
use crate::Error;
use crate::attach;
use crate::attach::Link;
use crate::load::{Kind, Program};
use crate::map::{self, Map, State};
use crate::privilege;
use mote_bpf::Insn;
use mote_catalog::event::Hook;
use mote_generate::Access;
use mote_generate::Chosen;
use mote_generate::namespace::Namespace;
use mote_generate::state::{self, Layout};
use mote_generate::syscalls::{self, Side, asks_duration};
use mote_generate::{Facts, Plan, Selection, one_event, test_run, thread_programs};
use mote_ring::reader::Channel;
use mote_sys::Errno;
use std::sync::{Arc, Mutex};

/// The generation of the first programs.
const FIRST: u32 = 1;

pub(super) fn start(request: Request, facts: Result<Facts, Error>) -> Result<Kernel, Error> {
    if let Some(missing) = privilege::check() {
        return Err(Error::Privilege(missing));
    }
    let cpus = mote_sys::process::possible_cpus().map_err(Error::Map)?;
    let selection = selection(&request.targets)?;
    // The events of all threads can be recorded without.
    let facts = match selection {
        Selection::Threads => Some(facts?),
        _ => facts.ok(),
    };
    let threads = request.threads.clamp(64, 1 << 20).next_power_of_two();
    let layout = Layout { cpus, threads };
    let geometry = map::geometry(request.buffers, cpus)?;
    let state = Arc::new(State::create(layout)?);
    let rings = map::rings(&geometry)?;
    let channel = Channel::over(mote_sys::fd::duplicate(rings.fd()).map_err(Error::Map)?, geometry)?;
    let (test_run, namespace) = test_run_program(&state, facts)?;
    let selection = match (&request.targets, own_process(&test_run)) {
        (Targets::Others, Some(process)) => Selection::Others { process },
        _ => selection,
    };
    let generation = FIRST;
    let plan = Plan { geometry, layout, selection, generation, facts, namespace };
    let attached = Mutex::new(Attached::default());
    let pids = if let Targets::ProbedIn(pids) = &request.targets { pids.as_slice() } else { &[] };
    let kernel = Kernel {
        attached,
        test_run,
        channel: std::sync::Arc::new(channel),
        rings,
        state,
        maps: Mutex::new(request.maps),
        scope: ProbeScope::new(pids),
        plan,
        generation: FIRST.into(),
        births: Mutex::default(),
    };
    if selection == Selection::Threads {
        watch(&kernel)?;
    }
    events(&kernel, &request.events)?;
    if let Targets::Pids(pids) = &request.targets {
        for pid in pids {
            kernel.follow(*pid)?;
        }
    }
    Ok(kernel)
}

/// The program that is run here, and how the recorder sees threads, if that is otherwise than the kernel does.
fn test_run_program(state: &State, facts: Option<Facts>) -> Result<(Program, Option<Namespace>), Error> {
    let load = |offsets| Program::load("mote_own", Kind::Raw, &test_run::program(offsets)?, &[state.map()]);
    let offsets = facts.and_then(|facts| facts.ids);
    // Before Linux 5.11 programs of this kind cannot ask for their task.
    let own = load(offsets).or_else(|_| load(None))?;
    let _ = own.run();
    let level = state.memory().load64(state::LEVEL as usize) as u32;
    let namespace = offsets.filter(|_| level > 0).map(|offsets| Namespace { level, offsets });
    Ok((own, namespace))
}

/// This process's id as the kernel counts, if the calling thread is its first one, which has the same id.
fn own_process(test_run: &Program) -> Option<u32> {
    let is_first = mote_sys::process::tid().unsigned_abs() == std::process::id();
    test_run.run().ok().filter(|_| is_first)
}

pub(super) fn events(kernel: &Kernel, events: &[Chosen]) -> Result<(), Error> {
    let entry = |one: &&Chosen| matches!(one.event.hook, Hook::SyscallEntry(_));
    let exit = |one: &&Chosen| matches!(one.event.hook, Hook::SyscallExit(_));
    let (entries, rest): (Vec<&Chosen>, Vec<&Chosen>) = events.iter().partition(entry);
    let (exits, others): (Vec<&Chosen>, Vec<&Chosen>) = rest.into_iter().partition(exit);
    let noted: Vec<u32> = exits
        .iter()
        .filter(|one| asks_duration(&one.event))
        .filter_map(|one| number(&one.event.hook))
        .collect();
    if !noted.is_empty() {
        watch(kernel)?;
    }
    calls(kernel, Side::Entry, &entries, &noted)?;
    calls(kernel, Side::Exit, &exits, &noted)?;
    for one in multi_probe::attach(kernel, others)? {
        match alone(kernel, one) {
            Ok(()) => {}
            Err(why @ Error::Privilege(_)) => return Err(why),
            Err(why) => kernel.attached().refused.push(Refused { id: one.id, why }),
        }
    }
    match events.iter().any(|one| is_of_freeing(&one.event.hook)) {
        true => forget_last(kernel),
        false => Ok(()),
    }
}

fn is_of_freeing(hook: &Hook) -> bool {
    match hook {
        Hook::Raw { name, .. } => name == thread_programs::FORGETS,
        // It shares the tracepoint.
        Hook::Tracepoint { path, .. } => path.ends_with(thread_programs::FORGETS),
        _ => false,
    }
}

fn number(hook: &Hook) -> Option<u32> {
    match hook {
        Hook::SyscallEntry(number) | Hook::SyscallExit(number) => Some(*number),
        _ => None,
    }
}

/// The program of an event that is no system call: in the best way in which the kernel takes it.
fn alone(kernel: &Kernel, chosen: &Chosen) -> Result<(), Error> {
    let mut refused = None;
    for access in one_event::accesses(&kernel.plan, &chosen.event.hook) {
        let generated = one_event::program(&kernel.plan(), chosen, access).map_err(Error::from);
        let done =
            generated.and_then(|it| put(kernel, &chosen.event.name, &chosen.event.hook, access, &it.insns));
        match done {
            Ok(()) => return Ok(()),
            // The first refusal is about what the event really needs.
            Err(why) => refused = refused.or(Some(why)),
        }
    }
    refused.map_or(Ok(()), Err)
}

/// The program of all system calls of one side. When the kernel refuses it, those whose filters it refuses are left
/// out.
fn calls(kernel: &Kernel, side: Side, chosen: &[&Chosen], noted: &[u32]) -> Result<(), Error> {
    if chosen.is_empty() && (noted.is_empty() || side == Side::Exit) {
        return Ok(());
    }
    let together = call_program(kernel, side, chosen, noted);
    match together {
        Err(Error::Verifier { errno: TOO_MUCH | TOO_FAR, .. }) => {
            return parted(kernel, side, chosen, noted, together);
        }
        Err(Error::Verifier { .. } | Error::Generate(_)) if chosen.iter().any(|one| one.filter.is_some()) => {
        }
        together => return attach_calls(kernel, side, chosen, together),
    }
    let mut kept = Vec::new();
    for one in chosen {
        match call_program(kernel, side, &[one], noted) {
            Ok(_) => kept.push(*one),
            Err(why) => kernel.attached().refused.push(Refused { id: one.id, why }),
        }
    }
    let together = call_program(kernel, side, &kept, noted);
    parted(kernel, side, &kept, noted, together)
}

/// The verifier's answer to a program that is more than it follows.
const TOO_MUCH: Errno = Errno(libc::E2BIG);
/// And to one whose jumps would not reach any more, once it has put in what it adds to the program.
const TOO_FAR: Errno = Errno(libc::ENOMEM);

/// One program of these system calls; when that is more than the kernel's verifier follows, one of each half. What is
/// noted of a call is noted by the program that has its event.
fn parted(
    kernel: &Kernel,
    side: Side,
    chosen: &[&Chosen],
    noted: &[u32],
    together: Result<(Program, Next), Error>,
) -> Result<(), Error> {
    let (one, other) = chosen.split_at(chosen.len() / 2);
    if one.is_empty() || !matches!(together, Err(Error::Verifier { errno: TOO_MUCH | TOO_FAR, .. })) {
        return attach_calls(kernel, side, chosen, together);
    }
    let is_of_other = |call: &&u32| other.iter().any(|event| number(&event.event.hook) == Some(**call));
    let (others, ones): (Vec<u32>, Vec<u32>) = noted.iter().partition(is_of_other);
    for (part, noted) in [(one, ones), (other, others)] {
        let program = call_program(kernel, side, part, &noted);
        parted(kernel, side, part, &noted, program)?;
    }
    Ok(())
}

fn attach_calls(
    kernel: &Kernel,
    side: Side,
    chosen: &[&Chosen],
    loaded: Result<(Program, Next), Error>,
) -> Result<(), Error> {
    let name = call_name(side);
    let attached = loaded.and_then(|(program, next)| {
        let access = next.access();
        place::put(kernel, next, name, program, |program| {
            Ok(vec![attach_at(program, name, &call_hook(side), access)?])
        })
    });
    match attached {
        Ok(()) => {}
        Err(why @ Error::Privilege(_)) => return Err(why),
        Err(why) => {
            let why = why.to_string();
            let refused =
                |one: &&Chosen| Refused { id: one.id, why: Error::event(&one.event.name, why.clone()) };
            kernel.attached().refused.extend(chosen.iter().map(refused));
        }
    }
    Ok(())
}

const fn call_name(side: Side) -> &'static str {
    match side {
        Side::Entry => "sys_enter",
        Side::Exit => "sys_exit",
    }
}

const fn call_hook(side: Side) -> Hook {
    match side {
        Side::Entry => Hook::SyscallEntry(0),
        Side::Exit => Hook::SyscallExit(0),
    }
}

fn call_program(
    kernel: &Kernel,
    side: Side,
    chosen: &[&Chosen],
    noted: &[u32],
) -> Result<(Program, Next), Error> {
    let accesses: &[Access] = match kernel.plan.facts {
        Some(_) => &[Access::TypedCall, Access::RawCall],
        None => &[Access::RawCall],
    };
    let mut refused = None;
    for access in accesses {
        let maps = kernel.maps().len() as u32;
        let generated = syscalls::program(&kernel.plan(), side, chosen, noted, maps, *access)?;
        let next = place::next(kernel, Place::Hook(call_hook(side), *access))?;
        let table = map::table("mote_syscalls", &generated.table.unwrap_or_default())?;
        let (name, hook) = (call_name(side), call_hook(side));
        match load(kernel, name, &hook, *access, &generated.insns, (&next, Some(&table))) {
            Ok(program) => return Ok((program, next)),
            // The other access would be as much.
            Err(why @ Error::Verifier { errno: TOO_MUCH | TOO_FAR, .. }) => return Err(why),
            Err(why) => refused = refused.or(Some(why)),
        }
    }
    Err(refused.unwrap_or_else(|| Error::event(call_name(side), "it has no context")))
}

fn load(
    kernel: &Kernel,
    name: &str,
    hook: &Hook,
    access: Access,
    insns: &[Insn],
    (next, table): (&Next, Option<&Map>),
) -> Result<Program, Error> {
    let filters = kernel.maps();
    let mut maps = vec![kernel.state.map(), &kernel.rings, &*next.array];
    maps.extend(filters.iter().map(|map| &**map));
    maps.extend(table);
    Program::load(name, kind(kernel, hook, access), insns, &maps)
}

fn kind(kernel: &Kernel, hook: &Hook, access: Access) -> Kind {
    match *hook {
        Hook::Fentry { btf_id, returns, .. } => Kind::Function { btf_id, returns },
        _ => Kind::of(access, btf_id(kernel, hook)),
    }
}

fn btf_id(kernel: &Kernel, hook: &Hook) -> Option<u32> {
    match hook {
        Hook::Raw { btf_id, .. } => *btf_id,
        Hook::SyscallEntry(_) => kernel.plan.facts.map(|facts| facts.sys_enter),
        Hook::SyscallExit(_) => kernel.plan.facts.map(|facts| facts.sys_exit),
        _ => None,
    }
}

fn attach_at(program: &Program, name: &str, hook: &Hook, access: Access) -> Result<Link, Error> {
    let tracepoint = match hook {
        Hook::Raw { name, .. } => name.as_str(),
        Hook::SyscallEntry(_) => call_name(Side::Entry),
        Hook::SyscallExit(_) => call_name(Side::Exit),
        Hook::Fentry { .. } => return attach::function(program, name),
        _ => return attach::perf(program, name, hook, None),
    };
    match access {
        Access::Typed | Access::TypedCall => attach::tracepoint(program, name, None),
        _ => attach::tracepoint(program, name, Some(tracepoint)),
    }
}

fn put(kernel: &Kernel, name: &str, hook: &Hook, access: Access, insns: &[Insn]) -> Result<(), Error> {
    let next = place::next(kernel, Place::Hook(hook.clone(), access))?;
    let program = load(kernel, name, hook, access, insns, (&next, None))?;
    place::put(kernel, next, name, program, |program| match hook {
        Hook::Uprobe { path, .. } => probe_scope::everywhere(kernel, path, |process| {
            Ok(vec![attach::perf(program, name, hook, process)?])
        }),
        _ => Ok(vec![attach_at(program, name, hook, access)?]),
    })
}

pub(super) fn program(
    kernel: &Kernel,
    name: &str,
    hook: &Hook,
    insns: &[Insn],
    maps: &[&Map],
) -> Result<(), Error> {
    watch(kernel)?;
    let access = match (hook, btf_id(kernel, hook)) {
        (Hook::Raw { .. } | Hook::SyscallEntry(_) | Hook::SyscallExit(_), Some(_)) => Access::Typed,
        (Hook::Raw { .. } | Hook::SyscallEntry(_) | Hook::SyscallExit(_), None) => Access::Raw,
        (Hook::Tracepoint { .. }, _) => Access::Record,
        (Hook::Fentry { .. }, _) => Access::Function,
        _ => Access::Probe,
    };
    let mut all = vec![kernel.state.map(), &kernel.rings];
    all.extend(maps);
    let program = Program::load(name, kind(kernel, hook, access), insns, &all)?;
    let link = attach_at(&program, name, hook, access)?;
    let mut attached = kernel.attached();
    attached.links.push(link);
    attached.programs.push(program);
    Ok(())
}
