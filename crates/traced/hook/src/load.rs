//! From a plan to memory, guards and events.

use crate::counters::Set;
use crate::counts::{self, Counted, Counters};
use crate::retire::{self, State};
use crate::{arch, budget, callers, known, nearby, stack, ticks, unwinding, values};
use core::ffi::CStr;
use core::ops::Range;
use core::sync::atomic::{AtomicBool, AtomicPtr};
use mote_agent::{Callers, Function, Kept, Quota};
use mote_layout::functions::{
    CODE_AT, HEADER_BYTES, Kind, Memory, Plan, Probe, RECORD_AT, Scope, VALUE_BYTES,
};
use mote_patch::{Lasting, Place, add_lasting};
use mote_sync::{List, Listed, Next};
use mote_sys::fd::{self, Fd};
use mote_sys::mem::{Mapping, PAGE_BYTES};
use mote_sys::raw::syscall;
use mote_sys::{Errno, Result, tsc};

/// Most bytes of a plan before its code.
const PLAN_MAX: usize = 1 << 30;

/// A plan that was taken in. This stays for good; what it is about may be taken away (`retire`).
#[repr(C)]
pub(crate) struct Loaded {
    /// First, so that its address is this one's.
    lasting: Lasting,
    pub(crate) plan: Plan<'static>,
    /// The memory of its functions: the plan's bytes, their records, and their counters.
    pub(crate) memory: [Range<usize>; 3],
    pub(crate) state: State,
    next: Next<Loaded>,
}

/// The plans, the last one first.
static LOADED: List<Loaded> = List::new();

impl Listed for Loaded {
    fn next(&self) -> &Next<Loaded> {
        &self.next
    }
}

/// The plans that were taken in.
pub(crate) fn all() -> impl Iterator<Item = &'static Loaded> {
    LOADED.iter()
}

/// Takes in the plan in the file `path`: its functions become events, which are off until a session wants them. Returns
/// how many, without those whose calls are counted for another session. Or takes the code of earlier ones away, and
/// returns how many pieces of code it was about (`mote_layout::retired`).
///
/// On a thread of ours: it reads a file, maps memory, and waits for the dynamic linker.
///
/// # Errors
/// `EINVAL`: it is no plan. `EEXIST`: something lies where its code is to go, so that it has to be made anew.
/// `ENOTSUP`: the processor cannot keep all registers. `EPERM`: threads may not read the time. `ENOEXEC`: there is no
/// unwinder that could be told of it. `ENOSPC`: plans were taken in too often, or have too many
/// sets of callers. `EBUSY`: plans cannot be given up, as a session has the process. `ESTALE`: another recorder has had
/// plans given up since. Those of open(2), read(2) and mmap(2).
///
/// # Safety
/// `plan-true`.
pub unsafe fn load(path: &CStr) -> Result<usize> {
    let was_own = mote_agent::is_own_work();
    mote_agent::set_own_work(true);
    // SAFETY: the caller's promise.
    let loaded = unsafe { load_here(path) };
    mote_agent::set_own_work(was_own);
    loaded
}

/// # Safety
/// As [`load`].
unsafe fn load_here(path: &CStr) -> Result<usize> {
    if !arch::can_keep_registers() {
        return Err(Errno(libc::ENOTSUP));
    }
    if !tsc::is_allowed() {
        return Err(Errno(libc::EPERM));
    }
    // What is no plan is answered there.
    let file = fd::open(path, libc::O_RDWR | libc::O_CLOEXEC, 0)?;
    // SAFETY: the caller's promise.
    if let Some(done) = unsafe { retire::asked(&file) }? {
        return Ok(done);
    }
    let bytes = read(&file)?;
    let plan = Plan::parse(bytes).ok_or(Errno(libc::EINVAL))?;
    if !plan.probes().all(|probe| is_sound(&plan, &probe)) {
        return Err(Errno(libc::EINVAL));
    }
    if plan.probe_count() == 0 || plan.probes().any(|probe| returns(&plan, &probe)) {
        let (area, bytes) = stack::reserve().ok_or(Errno(libc::ENOMEM))?;
        stack::show_tops(arch::tops());
        mote_agent::stack::set_replaced(arch::finder());
        if !unwinding::describe(area, bytes) {
            return Err(Errno(libc::ENOEXEC));
        }
    }
    ticks::set_tick(plan.tick);
    mote_sync::rseq::find();
    if plan.probe_count() == 0 {
        return Ok(0);
    }
    // Before anything refers to it.
    let records = Mapping::private(plan.probe_count() * size_of::<Function>())?;
    let has_values =
        |probe: Probe| probe.scope == Scope::Caller || plan.values(&probe).is_some_and(values::is_packed);
    if plan.probes().any(has_values) && !stack::reserve_values() {
        return Err(Errno(libc::ENOMEM));
    }
    let counters = Counters::make(&plan)?;
    let loaded = Mapping::private(size_of::<Loaded>())?;
    let pages = |base: *const u8, len: usize| base.addr()..base.addr() + len.next_multiple_of(PAGE_BYTES);
    let memory = [pages(bytes.as_ptr(), bytes.len()), pages(records.base(), records.len()), counters.pages()];
    let Mapped { count, busy } = map_all(&file, &plan, &counters, records.base().cast())?;
    let loaded = loaded.leak().cast::<Loaded>();
    // SAFETY: fresh memory of this size; pages are aligned for any type.
    unsafe { loaded.write(Loaded::new(plan, memory)) };
    // SAFETY: written just now, and leaked.
    let loaded: &'static Loaded = unsafe { &*loaded };
    LOADED.add(loaded);
    known::look_by(&loaded.plan);
    add_lasting(&loaded.lasting);
    let records: *const Function = records.leak().cast();
    // SAFETY: `map_all` has written as many; they were leaked.
    let functions = unsafe { core::slice::from_raw_parts(records, count) };
    if plan.counters().next().is_some() {
        count_and_limit(&plan, functions)?;
    }
    // SAFETY: `plan-true`.
    if functions.is_empty() || unsafe { mote_agent::add_functions(functions) } {
        return Ok(plan.probe_count() - busy);
    }
    Err(Errno(libc::ENOSPC))
}

impl Loaded {
    const fn new(plan: Plan<'static>, memory: [Range<usize>; 3]) -> Loaded {
        Loaded { lasting: Lasting::new(resume), plan, memory, state: State::new(), next: Next::new() }
    }
}

/// Has calls of functions sampled, with what a plan counts, within its budget.
fn count_and_limit(plan: &Plan<'_>, functions: &'static [Function]) -> Result<()> {
    Set::new(plan.counters()).install()?;
    budget::begin(plan.budget, functions);
    Ok(())
}

/// The bytes of a plan but its code, which stay.
fn read(file: &Fd) -> Result<&'static [u8]> {
    let mut header = [0; HEADER_BYTES];
    read_all(file, &mut header, 0)?;
    let bytes = Plan::bytes_before_code(&header).filter(|bytes| *bytes <= PLAN_MAX);
    let bytes = bytes.ok_or(Errno(libc::EINVAL))?;
    let memory = Mapping::private(bytes)?;
    // SAFETY: fresh memory of this size, which nothing else refers to.
    let plan = unsafe { core::slice::from_raw_parts_mut(memory.base(), bytes) };
    read_all(file, plan, 0)?;
    memory.leak();
    Ok(plan)
}

fn read_all(file: &Fd, mut into: &mut [u8], mut at: u64) -> Result<()> {
    while !into.is_empty() {
        match fd::read_at(file, into, at)? {
            0 => return Err(Errno(libc::EINVAL)),
            read => {
                at += read as u64;
                into = into.get_mut(read..).unwrap_or_default();
            }
        }
    }
    Ok(())
}

/// Whether calls of a probe's function return by a stub. Those whose entries are counted return as they always did.
fn returns(plan: &Plan<'_>, probe: &Probe) -> bool {
    let is_entered_only = plan.values(probe).and_then(counts::of) == Some(Counted::Entries);
    !is_entered_only || probe.scope == Scope::Caller
}

/// Whether a probe's words lie in memory of the plan, its description is a text, and its jump and body are known here.
fn is_sound(plan: &Plan<'_>, probe: &Probe) -> bool {
    let holds =
        |memory: Memory| memory.address.checked_add(RECORD_AT).is_some_and(|first| first <= probe.body);
    // `caller-filled`.
    let is_filled = |values: &[_]| probe.scope != Scope::Caller || (!values.is_empty() && plan.callers != 0);
    let lies_there = plan.memory_at(probe.body).is_some_and(holds);
    // A breakpoint that stays would kill a thread that comes by with SIGTRAP blocked.
    probe.kind == Kind::Jump
        && probe.copy.checked_sub(probe.body) == Some(arch::copy_at(returns(plan, probe)))
        && plan.text(probe).is_some()
        && plan.values(probe).is_some_and(is_filled)
        && lies_there
}

/// What came of a plan's functions.
struct Mapped {
    /// New ones.
    count: usize,
    /// Those whose calls are counted for another session.
    busy: usize,
}

/// Maps the plan's code, and writes the records of those functions to `records` that no plan before has had. All or
/// nothing.
fn map_all(file: &Fd, plan: &Plan<'static>, counters: &Counters, records: *mut Function) -> Result<Mapped> {
    for (number, memory) in plan.memories().enumerate() {
        if let Err(why) = map(file, plan, &memory) {
            plan.memories().take(number).for_each(|memory| unmap(&memory));
            return Err(why);
        }
    }
    let set = callers::bit(plan.callers).ok_or(Errno(libc::ENOSPC));
    let set = set.inspect_err(|_| plan.memories().for_each(|memory| unmap(&memory)))?;
    let (mut count, mut busy) = (0, 0);
    for (number, probe) in plan.probes().enumerate() {
        let description = plan.text(&probe).and_then(|text| CStr::from_bytes_with_nul(text).ok());
        let description = description.unwrap_or(c"");
        let values = plan.values(&probe).unwrap_or_default();
        let counter = counters.of(number);
        let callers = callers::of(&probe, set);
        let wanted = (values, callers);
        match mote_agent::keeps_function(probe.address as usize, description, wanted, counter) {
            Kept::No => {}
            Kept::Yes => continue,
            Kept::Busy => {
                busy += 1;
                continue;
            }
        }
        let record = records.wrapping_add(count);
        count += 1;
        let place = Place {
            off: probe.old,
            on: probe.new,
            probe: probe.target as usize,
            copy: probe.copy as usize,
            guards: probe.guards,
        };
        let function = Function {
            event: probe::Event::new(),
            description,
            address: probe.address as usize,
            place,
            values,
            callers,
            is_replaced: AtomicBool::new(false),
            quota: Quota::new(),
            counter: AtomicPtr::new(counter),
        };
        // SAFETY: the caller's memory has room for as many as there are probes.
        unsafe { record.write(function) };
        let cell = |before: u64| (probe.body - before) as *mut u64;
        // SAFETY: `is_sound`: in memory that was mapped just now, and is writable.
        unsafe { cell(RECORD_AT).write_unaligned(record.expose_provenance() as u64) };
        // SAFETY: as above.
        unsafe { cell(CODE_AT).write_unaligned(entry(probe.body as usize, values, callers) as u64) };
    }
    let mut sealed = Ok(());
    for memory in plan.memories() {
        let executable = (libc::PROT_READ | libc::PROT_EXEC) as usize;
        let arguments = [memory.address as usize, memory.len as usize, executable, 0, 0, 0];
        // SAFETY: mapped above; nothing refers to it but the records of functions that are off.
        sealed = sealed.and(unsafe { syscall(libc::SYS_mprotect, arguments) }.map(drop));
    }
    if sealed.is_err() {
        plan.memories().for_each(|memory| unmap(&memory));
    }
    sealed.map(|()| Mapped { count, busy })
}

/// The code that the body of a function leads to.
fn entry(body: usize, values: &[[u8; VALUE_BYTES]], callers: Callers) -> usize {
    let (is_below, has_sequences) = (callers.below != 0, mote_sync::rseq::is_found());
    match (values, counts::of(values)) {
        _ if callers.of != 0 => arch::entry_with_values(),
        ([], _) if is_below => arch::entry_below(),
        ([], _) => arch::entry(),
        (_, Some(Counted::Entries)) if is_below => arch::entry_counted_below(has_sequences),
        (_, Some(Counted::Entries)) => nearby::entry_counted(body, has_sequences),
        (_, Some(Counted::Both)) if is_below => arch::entry_counted_both_below(),
        (_, Some(Counted::Both)) => arch::entry_counted_both(),
        (values, None) if values::is_sampled(values) => arch::entry_sampled(),
        _ if is_below => arch::entry_with_values_below(),
        _ => arch::entry_with_values(),
    }
}

fn map(file: &Fd, plan: &Plan<'_>, memory: &Memory) -> Result<()> {
    let (at, len) = (memory.address as usize, memory.len as usize);
    if !at.is_multiple_of(PAGE_BYTES) || memory.code_len > memory.len {
        return Err(Errno(libc::EINVAL));
    }
    let writable = (libc::PROT_READ | libc::PROT_WRITE) as usize;
    let fixed = if plan.is_reserved { libc::MAP_FIXED } else { libc::MAP_FIXED_NOREPLACE };
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | fixed;
    // SAFETY: nothing is replaced but what was reserved for this.
    let mapped = unsafe { syscall(libc::SYS_mmap, [at, len, writable, flags as usize, usize::MAX, 0]) }?;
    if mapped != at {
        // A kernel before 4.17 takes the address for a hint.
        // SAFETY: mapped just now.
        let _ = unsafe { syscall(libc::SYS_munmap, [mapped, len, 0, 0, 0, 0]) };
        return Err(Errno(libc::EEXIST));
    }
    // SAFETY: fresh memory, with room for them.
    let code = unsafe { core::slice::from_raw_parts_mut(mapped as *mut u8, memory.code_len as usize) };
    read_all(file, code, memory.code).inspect_err(|_| unmap(memory))
}

fn unmap(memory: &Memory) {
    // SAFETY: mapped by `map`, and nothing leads there yet.
    let _ = unsafe { syscall(libc::SYS_munmap, [memory.address as usize, memory.len as usize, 0, 0, 0, 0]) };
}

/// Where a thread goes on that has met a breakpoint of ours, outside of a batch.
fn resume(lasting: &'static Lasting, address: usize, is_gone: bool) -> Option<usize> {
    // SAFETY: `lasting` is the first of a `Loaded`, which stays.
    let loaded = unsafe { &*(&raw const *lasting).cast::<Loaded>() };
    if loaded.state.is_released() {
        return None;
    }
    let address = address as u64;
    let guard = loaded.plan.guard(address);
    let is_begin = || is_gone && loaded.plan.probes().any(|probe| probe.address == address);
    guard.or_else(|| is_begin().then_some(address)).map(|address| address as usize)
}
