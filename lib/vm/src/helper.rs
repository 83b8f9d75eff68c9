//! The functions that programs call: what implements the signatures of [`mote_bpf::helper::BUILTIN`].
//!
//! | module | job |
//! |---|---|
//! | [`maps`] | entries of maps, `keep_last` |
//! | [`records`] | ring buffers |
//! | [`text`] | texts of the context: compare, copy, hash |
//! | [`search`], [`glob`] | texts of the context: find, match |
//! | [`process`] | which thread this is, where it runs, what time it is |
//!
//! What they are given is as the verifier says. Texts, keys, and other readable bytes may lie where the context's words
//! say, which may be nowhere: so all of that is read by [`touch`](crate::touch), and such helpers can end the program
//! with a fault.

mod glob;
mod maps;
mod process;
mod records;
mod search;
mod text;

pub use process::note_process;
pub(crate) use text::until_nul;

use crate::code::{Entry, Returned};
use crate::fault::Fault;
use crate::map::Map;
use crate::program::{Engine, Setup};
use core::ffi::c_void;
use mote_bpf::helper as id;

/// A helper: arguments from `r1` to `r5`, its answer to `r0`.
pub type HelperFn = unsafe extern "C" fn(u64, u64, u64, u64, u64) -> u64;
/// A helper that may end the program with a fault.
pub type FaultingFn = unsafe extern "C" fn(u64, u64, u64, u64, u64) -> Returned;

impl From<Result<u64, Fault>> for Returned {
    #[inline(always)]
    fn from(result: Result<u64, Fault>) -> Returned {
        match result {
            Ok(r0) => Returned { r0, fault: 0 },
            Err(fault) => Returned { r0: 0, fault: fault as u64 },
        }
    }
}

impl From<Returned> for Result<u64, Fault> {
    #[inline(always)]
    fn from(returned: Returned) -> Result<u64, Fault> {
        if returned.fault == 0 { Ok(returned.r0) } else { Err(Fault::from_code(returned.fault)) }
    }
}

/// How a helper is called.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Function {
    /// As any function.
    Plain(HelperFn),
    /// The program ends if it says so.
    Faulting(FaultingFn),
    /// The engine's own affair.
    TailCall,
}

/// The helper of this number: the setup's before the built-in one.
pub(crate) fn find(id: u32, setup: &Setup<'_>) -> Option<Function> {
    let plain = setup.helpers.iter().find(|(number, _)| *number == id);
    let faulting = setup.faulting.iter().find(|(number, _)| *number == id);
    match (faulting, plain) {
        (Some((_, function)), _) => Some(Function::Faulting(*function)),
        (None, Some((_, function))) => Some(Function::Plain(*function)),
        (None, None) => builtin(id),
    }
}

fn builtin(id: u32) -> Option<Function> {
    use Function::{Faulting, Plain};
    Some(match id {
        id::MAP_LOOKUP => Faulting(maps::lookup),
        id::MAP_UPDATE => Faulting(maps::update),
        id::MAP_DELETE => Faulting(maps::delete),
        id::MAP_ADD => Faulting(maps::add),
        id::KEEP_LAST => Faulting(maps::keep_last),
        id::KTIME_GET_NS => Plain(process::ktime_get_ns),
        id::GET_PRANDOM_U32 => Plain(process::get_prandom_u32),
        id::GET_SMP_PROCESSOR_ID => Plain(process::get_smp_processor_id),
        id::GET_CURRENT_PID_TGID => Plain(process::get_current_pid_tgid),
        id::GET_CURRENT_COMM => Plain(process::get_current_comm),
        id::TAIL_CALL => Function::TailCall,
        id::RINGBUF_OUTPUT => Faulting(records::output),
        id::RINGBUF_RESERVE => Plain(records::reserve),
        id::RINGBUF_SUBMIT => Plain(records::submit),
        id::RINGBUF_DISCARD => Plain(records::discard),
        id::STRNCMP => Faulting(text::strncmp),
        id::MEMORY_COMPARE => Faulting(text::memory_compare),
        id::TEXT_COMPARE => Faulting(text::text_compare),
        id::TEXT_TEXT_COMPARE => Faulting(text::text_text_compare),
        id::TEXT_COPY => Faulting(text::text_copy),
        id::TEXT_HASH => Faulting(text::text_hash),
        id::TEXT_FIND => Faulting(search::text_find),
        id::TEXT_GLOB => Faulting(glob::text_glob),
        id::LOG_LINEAR => Plain(process::log_linear),
        _ => return None,
    })
}

/// What `tail_call` answers when there is no program: as the kernel's, `-ENOENT`.
pub(crate) const NO_PROGRAM: u64 = errno(2);

/// An error number as a program sees it.
pub(crate) const fn errno(number: i64) -> u64 {
    -number as u64
}

/// Where a tail call leads.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Target {
    pub(crate) entry: Entry,
    pub(crate) program: *const c_void,
    engine: Engine,
}

impl Target {
    /// Whether `program` is an image of the interpreter.
    pub(crate) fn is_interpreted(&self) -> bool {
        self.engine == Engine::Interpreter
    }
}

/// The program at an index, unless that many tail calls were enough.
///
/// # Safety
/// `map` is a program's reference to a map, which is being run.
pub(crate) unsafe fn tail_target(map: u64, index: u64, tail_calls: u64) -> Option<Target> {
    if tail_calls >= u64::from(id::TAIL_CALLS_MAX) {
        return None;
    }
    // SAFETY: the caller's promise.
    let map = unsafe { map_of(map) };
    let crate::map::place::Place::Array(place) = &map.place else { return None };
    let at = place.value(u32::try_from(index).ok()?, 0)?;
    let number = crate::map::memory::Memory::load(map.memory, at) as u32;
    // SAFETY: a program with this map is being run, and the reference ends with this function.
    let program = unsafe { map.slot(number)?.get() }?;
    let (entry, image, engine) = program.target();
    Some(Target { entry, program: image, engine })
}

/// Where machine code goes on: an entry (0: nowhere), and the program for it.
#[repr(C)]
pub(crate) struct Jump {
    entry: u64,
    program: u64,
}

/// `tail_call` for machine code, which passes how many there were as the fourth argument.
///
/// # Safety
/// As [`tail_target`].
pub(crate) unsafe extern "C" fn tail_call(_: u64, map: u64, index: u64, tail_calls: u64, _: u64) -> Jump {
    // SAFETY: the caller's promise.
    match unsafe { tail_target(map, index, tail_calls) } {
        Some(target) => Jump { entry: target.entry as usize as u64, program: target.program as u64 },
        None => Jump { entry: 0, program: 0 },
    }
}

/// The map that a program refers to.
///
/// # Safety
/// `map` is such a reference, of a program that is being run; the result is not used after that run.
#[inline(always)]
pub(crate) unsafe fn map_of<'a>(map: u64) -> &'a Map {
    // SAFETY: the address of a descriptor in the program's mapping, which does not change.
    unsafe { &*(map as *const Map) }
}
