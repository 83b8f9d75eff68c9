//! A program, ready to run.

use crate::code::{Code, Refused, Source};
use crate::entry::{Engine, Target};
use crate::fault::{self, Fault};
use crate::helper::Function;
use crate::interpret::decode::{self, Linked};
use crate::interpret::form::Step;
use crate::interpret::{self, Image};
use crate::map::{Map, ProgramSlot};
use crate::setup::{Choice, LoadError, Setup};
use core::ptr;
use mote_bpf::environment::{FRAMES_MAX, INSNS_MAX};
use mote_bpf::verify::Verified;
use mote_bpf::{Environment, Insn, MapShape};
use mote_jit::{HelperPlace, MapPlace};
use mote_sys::Errno;
use mote_sys::mem::{Mapping, PAGE_BYTES};

/// A program that is ready to run: with its maps, helpers and code.
///
/// # Invariants
/// `program-holds-its-parts`: `target` is that of `code` if there is one, else the interpreter's entry and the image
/// that it wants; both last as long as `self`.
#[derive(Debug)]
pub struct Program {
    target: Target,
    /// The maps' descriptors; steps of the interpreter. `None` when there is nothing to keep.
    data: Option<Mapping>,
    code: Option<Code>,
    refused: Option<Refused>,
}

// SAFETY: neither code nor image change after loading (`program-holds-its-parts`), and maps may be used by any thread.
unsafe impl Send for Program {}
// SAFETY: as above.
unsafe impl Sync for Program {}

impl Program {
    /// Makes a verified program ready.
    ///
    /// # Errors
    /// [`LoadError`].
    ///
    /// # Cost
    /// Some system calls; time and memory (16 bytes each for the interpreter) linear in the instructions.
    pub fn load(verified: &Verified<'_>, setup: &Setup<'_>) -> Result<Program, LoadError> {
        same_maps(verified.maps(), setup.maps)?;
        let mut functions = [mote_jit::Function::default(); mote_jit::FUNCTIONS_MAX];
        let known = verified.functions();
        for (function, known) in functions.iter_mut().zip(known) {
            *function =
                mote_jit::Function { start: known.start() as u32, stack_bytes: known.stack_bytes() as u32 };
        }
        let functions = functions.get(..known.len()).ok_or(mote_jit::Error::Functions);
        build(verified.insns(), functions, verified.steps(), setup)
    }

    /// Makes a program ready that was not verified. It may have any instructions; malformed ones are refused.
    ///
    /// # Errors
    /// [`LoadError`].
    ///
    /// # Safety
    /// Run in `env`, the program must touch no memory but its own, call helpers only as their signatures say, and end
    /// (the interpreter sees to that itself: [`Fault::Steps`]).
    pub unsafe fn load_unverified(
        insns: &[Insn],
        env: &Environment<'_>,
        setup: &Setup<'_>,
    ) -> Result<Program, LoadError> {
        same_maps(env.maps, setup.maps)?;
        let mut functions = [mote_jit::Function::default(); mote_jit::FUNCTIONS_MAX];
        let found = mote_jit::functions(insns, &mut functions);
        let functions = found.map(|count| functions.get(..count).unwrap_or_default());
        build(insns, functions, env.steps_max, setup)
    }

    /// Runs the program; its `r0`.
    ///
    /// # Errors
    /// [`Fault`]: it ended before its end.
    ///
    /// # Safety
    /// 1. `r1` and `r2` are what the environment's entry says, and the memory that they lead to lasts until the program
    ///    ends. (Where texts lie that `Start` words point to may be unreadable: that is a fault.)
    /// 2. The functions in the `Setup` do what their signatures in the environment say.
    /// 3. The maps' memory is still there.
    ///
    /// # Cost
    /// One indirect call, and the program.
    ///
    /// # Signal safety
    /// Callable from a handler, if the setup's helpers are.
    #[inline(always)]
    pub unsafe fn run(&self, r1: u64, r2: u64) -> Result<u64, Fault> {
        // SAFETY: `program-holds-its-parts`; the caller's promises.
        unsafe { (self.target.entry)(r1, r2, self.target.image, 0) }.into()
    }

    /// Whether it is interpreted or runs as machine code.
    pub fn engine(&self) -> Engine {
        self.target.engine
    }

    /// Why it is not machine code, though it was to be if possible.
    pub fn refusal(&self) -> Option<Refused> {
        self.refused
    }

    /// Bytes of memory that it takes, in pages, without its maps.
    pub fn memory_bytes(&self) -> usize {
        let data = self.data.as_ref().map_or(0, |data| data.len().next_multiple_of(PAGE_BYTES));
        data + self.code.as_ref().map_or(0, Code::memory_bytes)
    }
}

impl ProgramSlot {
    /// Puts a program in, or empties the slot.
    ///
    /// # Safety
    /// 1. `program` was verified in the environment of all programs that have a map with this slot (or is as harmless
    ///    there).
    /// 2. It is dropped, after it was replaced here, only when no run is under way that began before (a grace period).
    pub unsafe fn set(&self, program: Option<&Program>) {
        self.store(program.map(|program| &program.target));
    }
}

fn same_maps(shapes: &[MapShape], maps: &[Map]) -> Result<(), LoadError> {
    let differs = |index: &usize| maps.get(*index).map(Map::shape) != shapes.get(*index);
    (0..shapes.len().max(maps.len())).find(differs).map_or(Ok(()), |index| Err(LoadError::Map(index)))
}

/// Makes a program of instructions, compiled if that is to be.
fn build(
    insns: &[Insn],
    functions: Result<&[mote_jit::Function], mote_jit::Error>,
    turns_max: u32,
    setup: &Setup<'_>,
) -> Result<Program, LoadError> {
    if insns.is_empty() || insns.len() > INSNS_MAX {
        return Err(LoadError::End);
    }
    let refused = match (setup.engine, functions) {
        (Choice::Interpreter, _) => None,
        (_, Err(why)) => Some(Refused::Jit(why)),
        (_, Ok(functions)) => match compile(insns, functions, setup) {
            Ok(program) => return Ok(program),
            Err(refused) => Some(refused),
        },
    };
    match refused {
        Some(refused) if setup.engine == Choice::Jit => Err(LoadError::Jit(refused)),
        refused => interpret(insns, turns_max, setup, refused),
    }
}

/// Memory for the maps' descriptors and for what comes behind them: [`Image`] and steps, if `steps` is not 0.
struct Data<'a> {
    mapping: Option<Mapping>,
    maps: &'a [Map],
}

impl<'a> Data<'a> {
    fn new(maps: &'a [Map], steps: usize) -> Result<Data<'a>, Errno> {
        let bytes = steps_at(maps.len()) + steps * size_of::<Step>();
        if maps.is_empty() && steps == 0 {
            return Ok(Data { mapping: None, maps });
        }
        let mapping = Mapping::private(bytes)?;
        for (index, map) in maps.iter().enumerate() {
            let at = mapping.base().wrapping_add(index * size_of::<Map>());
            // SAFETY: inside the mapping, which begins at a page and with the maps.
            unsafe { at.cast::<Map>().write(*map) };
        }
        Ok(Data { mapping: Some(mapping), maps })
    }

    fn at(&self, offset: usize) -> *mut u8 {
        self.mapping.as_ref().map_or(ptr::null_mut(), |mapping| mapping.base().wrapping_add(offset))
    }

    /// What the map of this index is for programs.
    fn place(&self, index: usize) -> Option<MapPlace> {
        let descriptor = self.at(index * size_of::<Map>()) as u64;
        self.maps.get(index).map(|map| MapPlace { descriptor, values: map.values_address() })
    }
}

const fn steps_at(maps: usize) -> usize {
    let image = (maps * size_of::<Map>()).next_multiple_of(align_of::<Image>());
    (image + size_of::<Image>()).next_multiple_of(align_of::<Step>().next_multiple_of(16))
}

/// Calls `then` with what programs know of their maps: in pieces of the stack, or of a mapping of its own if they are
/// many.
fn with_places<R>(data: &Data<'_>, then: impl FnOnce(&[MapPlace]) -> R) -> Result<R, Errno> {
    const FEW: usize = 32;
    let mut few = [MapPlace::default(); FEW];
    let count = data.maps.len();
    if let Some(places) = few.get_mut(..count) {
        places.iter_mut().enumerate().for_each(|(i, place)| *place = data.place(i).unwrap_or_default());
        return Ok(then(places));
    }
    let memory = Mapping::private(count * size_of::<MapPlace>())?;
    // SAFETY: the mapping is ours alone and as large; numbers may be any bits.
    let places = unsafe { core::slice::from_raw_parts_mut(memory.base().cast::<MapPlace>(), count) };
    places.iter_mut().enumerate().for_each(|(i, place)| *place = data.place(i).unwrap_or_default());
    Ok(then(places))
}

/// Makes machine code.
fn compile(insns: &[Insn], functions: &[mote_jit::Function], setup: &Setup<'_>) -> Result<Program, Refused> {
    let data = Data::new(setup.maps, 0)?;
    let helper = |id| {
        setup.helper(id).map(|function| match function {
            Function::Plain(function) => HelperPlace { address: function as usize as u64, faults: false },
            Function::Faulting(function) => HelperPlace { address: function as usize as u64, faults: true },
            Function::TailCall => {
                HelperPlace { address: crate::helper::tail_call as *const () as u64, faults: false }
            }
        })
    };
    let code =
        with_places(&data, |maps| Code::compile(&Source { insns, functions, maps, helper: &helper }))??;
    let target = Target { entry: code.entry(), image: ptr::null(), engine: Engine::Jit };
    Ok(Program { target, data: data.mapping, code: Some(code), refused: None })
}

/// Makes steps.
fn interpret(
    insns: &[Insn],
    turns_max: u32,
    setup: &Setup<'_>,
    refused: Option<Refused>,
) -> Result<Program, LoadError> {
    fault::watch();
    let data = Data::new(setup.maps, insns.len()).map_err(LoadError::Memory)?;
    let steps = data.at(steps_at(setup.maps.len())).cast::<Step>();
    let helper = |id| setup.helper(id);
    with_places(&data, |maps| {
        let linked = Linked { maps, helper: &helper };
        (0..insns.len()).try_for_each(|at| {
            let step = decode::step(insns, at, &linked)?;
            // SAFETY: the mapping has room for as many steps as there are instructions.
            unsafe { steps.wrapping_add(at).write(step) };
            Ok(())
        })
    })
    .map_err(LoadError::Memory)??;
    let image = steps.cast::<u8>().wrapping_sub(size_of::<Image>()).cast::<Image>();
    // SAFETY: `steps_at` left room for it before the steps; aligned as they are.
    unsafe { image.write(Image { first: steps, turns_max }) };
    let target = Target { entry: interpret::enter, image: image.cast(), engine: Engine::Interpreter };
    Ok(Program { target, data: data.mapping, code: None, refused })
}

const _: () = assert!(size_of::<Image>().is_multiple_of(8) && FRAMES_MAX > 1);
