//! The interpreter: one loop over [`Step`]s, registers in an array.
//!
//! Programs were checked when they became steps (`steps-lead-to-steps`), so the loop checks nothing but how often it
//! goes backwards. What programs do to memory is the promise of the code that runs them:
//! [`Verified`](mote_bpf::verify::Verified) programs only what they may.
//!
//! # Cost
//! About 1 ns a step on a machine of 2020; a frame of 512 bytes of stack, and some 200 of its own, for each local
//! function that is being run.

mod arithmetic;
mod atomic;
pub(crate) mod decode;
pub(crate) mod form;

use crate::entry::{Returned, Target};
use crate::fault::{self, Fault};
use crate::helper::{self, FaultingFn, HelperFn};
use arithmetic::{w32, w64};
use atomic::Into;
use core::ffi::c_void;
use core::mem::MaybeUninit;
use form::{Code, Step};
use mote_bpf::environment::{FRAMES_MAX, STACK_BYTES};
use mote_bpf::table::Table;

/// What the interpreter needs of a program.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub(crate) struct Image {
    /// Its first step.
    pub(crate) first: *const Step,
    /// How often it may jump backwards or call its own functions.
    pub(crate) turns_max: u32,
}

/// A run of a program.
struct Run {
    turns_left: u32,
    tail_calls: u64,
    /// The program to go on with, and its `r1`.
    next: Option<(Target, u64)>,
}

impl Run {
    /// Counts a step backwards.
    #[inline(always)]
    fn turn(&mut self) -> Result<(), Fault> {
        self.turns_left = self.turns_left.checked_sub(1).ok_or(Fault::Steps)?;
        Ok(())
    }
}

/// Runs a program; as [`Entry`](crate::entry::Entry) says.
///
/// # Safety
/// `image` points to the image of a program whose steps hold `steps-lead-to-steps`, and that does only what it may when
/// it starts with `r1` and `r2`.
pub(crate) unsafe extern "C" fn enter(r1: u64, r2: u64, image: *const c_void, tail_calls: u64) -> Returned {
    let (mut image, mut r1, mut r2) = (image.cast::<Image>(), r1, r2);
    let mut run = Run { turns_left: 0, tail_calls, next: None };
    loop {
        // SAFETY: the caller's promise, or that of the slot that a tail call leads to.
        let Image { first, turns_max } = unsafe { image.read() };
        run.turns_left = turns_max;
        let mut regs = Regs(Table([0; 16]));
        (regs.0[1], regs.0[2]) = (r1, r2);
        // SAFETY: the caller's promise.
        let result = unsafe { function(&mut run, first, &mut regs, FRAMES_MAX) };
        let Some((target, context)) = run.next.take() else { return result.into() };
        run.tail_calls += 1;
        (r1, r2) = (context, 0);
        if !target.is_interpreted() {
            // SAFETY: the slot's promise: as harmless as this program.
            return unsafe { (target.entry)(r1, r2, target.image, run.tail_calls) };
        }
        image = target.image.cast();
    }
}

/// The steps of the loop in families, the same for both widths.
macro_rules! dispatch {
    (
        $regs:ident, $step:ident, $pc:ident, $run:ident;
        alu { $($f:ident: $r64:ident $i64:ident $r32:ident $i32:ident;)* }
        branch { $($cond:ident: $jr64:ident $ji64:ident $jr32:ident $ji32:ident $load:ident;)* }
        xor { $($xor:ident: $part:ident;)* }
        loaded { $($loaded:ident: $is:ident;)* }
        $($other:pat => $does:expr,)*
    ) => {
        match $step.code {
            $(
                Code::$r64 => $regs.set($step.dst, w64::$f($regs.get($step.dst), $regs.get($step.src))),
                Code::$i64 => $regs.set($step.dst, w64::$f($regs.get($step.dst), $step.value())),
                Code::$r32 => $regs.set(
                    $step.dst,
                    w32::$f($regs.get($step.dst) as u32, $regs.get($step.src) as u32).into(),
                ),
                Code::$i32 => $regs.set($step.dst, w32::$f($regs.get($step.dst) as u32, $step.low).into()),
            )*
            $(
                Code::$jr64 if w64::$cond($regs.get($step.dst), $regs.get($step.src)) => jump!($step, $pc, $run),
                Code::$ji64 if w64::$cond($regs.get($step.dst), $step.value()) => jump!($step, $pc, $run),
                Code::$jr32 if w32::$cond($regs.get($step.dst) as u32, $regs.get($step.src) as u32) => {
                    jump!($step, $pc, $run)
                }
                Code::$ji32 if w32::$cond($regs.get($step.dst) as u32, $step.low) => jump!($step, $pc, $run),
                Code::$jr64 | Code::$ji64 | Code::$jr32 | Code::$ji32 => {}
                Code::$load => {
                    let at = $regs.get($step.src).wrapping_add_signed(i64::from($step.high as i32));
                    // SAFETY: the caller's promise; what is not there is a fault.
                    let value = unsafe { fault::load_u64(at) }?;
                    $regs.set($step.dst, value);
                    if w64::$cond(value, i64::from($step.low as i32) as u64) {
                        jump!($step, $pc, $run)
                    } else {
                        $pc = $pc.wrapping_add(1);
                    }
                }
            )*
            $(
                Code::$xor => load_with!($regs, $step, $pc, $part, |value| {
                    $regs.set($step.dst, (u32::from(value) ^ $step.low).into());
                }),
            )*
            $(
                Code::$loaded => load_with!($regs, $step, $pc, load_u64, |value| {
                    $regs.set($step.dst, value);
                    if w64::$is($regs.get($step.low as u8), value) {
                        jump!($step, $pc, $run);
                        continue;
                    }
                }),
            )*
            $($other => $does,)*
        }
    };
}

/// Goes where a step leads.
macro_rules! jump {
    ($step:ident, $pc:ident, $run:ident) => {{
        if $step.to < 0 {
            $run.turn()?;
        }
        $pc = $pc.wrapping_offset($step.to as isize);
    }};
}

/// Registers by number; the numbers are below 16 (`steps-lead-to-steps`), and the mask makes that known.
struct Regs(Table<u64, 16>);

impl Regs {
    #[inline(always)]
    fn get(&self, number: u8) -> u64 {
        self.0[number.into()]
    }

    #[inline(always)]
    fn set(&mut self, number: u8, value: u64) {
        self.0[number.into()] = value;
    }

    /// Address of a memory access.
    #[inline(always)]
    fn address(&self, number: u8, step: &Step) -> u64 {
        self.get(number).wrapping_add_signed(i64::from(step.to))
    }

    /// `r1` to `r5`.
    #[inline(always)]
    fn args(&self) -> [u64; 5] {
        [self.0[1], self.0[2], self.0[3], self.0[4], self.0[5]]
    }
}

/// Runs one function, which finds its arguments in `regs`, to its end; its `r0`.
///
/// # Safety
/// As [`enter`]; `pc` is a step of that program.
unsafe fn function(run: &mut Run, mut pc: *const Step, regs: &mut Regs, frames: usize) -> Result<u64, Fault> {
    let mut stack = MaybeUninit::<[u64; STACK_BYTES / 8]>::uninit();
    regs.0[10] = stack.as_mut_ptr() as u64 + STACK_BYTES as u64;
    loop {
        // SAFETY: `steps-lead-to-steps`: a step of the program, which its mapping holds.
        let step = unsafe { &*pc };
        pc = pc.wrapping_add(1);
        dispatch! { regs, step, pc, run;
            alu {
                add: Add64R Add64I Add32R Add32I; sub: Sub64R Sub64I Sub32R Sub32I;
                mul: Mul64R Mul64I Mul32R Mul32I; div: Div64R Div64I Div32R Div32I;
                sdiv: SDiv64R SDiv64I SDiv32R SDiv32I; modulo: Mod64R Mod64I Mod32R Mod32I;
                smod: SMod64R SMod64I SMod32R SMod32I; or: Or64R Or64I Or32R Or32I;
                and: And64R And64I And32R And32I; xor: Xor64R Xor64I Xor32R Xor32I;
                lsh: Lsh64R Lsh64I Lsh32R Lsh32I; rsh: Rsh64R Rsh64I Rsh32R Rsh32I;
                arsh: Arsh64R Arsh64I Arsh32R Arsh32I; mov: Mov64R Mov64I Mov32R Mov32I;
            }
            branch {
                eq: Eq64R Eq64I Eq32R Eq32I LoadEq; ne: Ne64R Ne64I Ne32R Ne32I LoadNe;
                gt: Gt64R Gt64I Gt32R Gt32I LoadGt; ge: Ge64R Ge64I Ge32R Ge32I LoadGe;
                lt: Lt64R Lt64I Lt32R Lt32I LoadLt; le: Le64R Le64I Le32R Le32I LoadLe;
                set: Set64R Set64I Set32R Set32I LoadSet; sgt: SGt64R SGt64I SGt32R SGt32I LoadSGt;
                sge: SGe64R SGe64I SGe32R SGe32I LoadSGe; slt: SLt64R SLt64I SLt32R SLt32I LoadSLt;
                sle: SLe64R SLe64I SLe32R SLe32I LoadSLe;
            }
            xor { LoadXor8: load_u8; LoadXor16: load_u16; LoadXor32: load_u32; }
            loaded { LoadEqR: eq; LoadNeR: ne; }
            Code::Load8 => load!(regs, step, load_u8, u64),
            Code::Load16 => load!(regs, step, load_u16, u64),
            Code::Load32 => load!(regs, step, load_u32, u64),
            Code::Load64 => load!(regs, step, load_u64, u64),
            Code::LoadAdd => load_with!(regs, step, pc, load_u64, |value| {
                regs.set(step.dst, value.wrapping_add_signed(i64::from(step.low as i32)));
            }),
            Code::LoadXor64 => load_with!(regs, step, pc, load_u64, |value| {
                regs.set(step.dst, value);
                regs.set(step.low as u8, regs.get(step.low as u8) ^ value);
            }),
            Code::OrNe => {
                let value = regs.get(step.dst) | regs.get(step.src);
                regs.set(step.dst, value);
                if value != 0 { jump!(step, pc, run) } else { pc = pc.wrapping_add(1) }
            },
            Code::Exit => return Ok(regs.0[0]),
            Code::Return => return Ok(step.value()),
            Code::Jump => jump!(step, pc, run),
            Code::Wide => {
                regs.set(step.dst, step.value());
                pc = pc.wrapping_add(1);
            },
            Code::Call => {
                // SAFETY: the program calls helpers as their signature says.
                regs.0[0] = unsafe { call(step.value(), regs.args()) };
            },
            // SAFETY: as above.
            Code::CallFaulting => regs.0[0] = unsafe { call_faulting(step.value(), regs.args()) }?,
            // SAFETY: `steps-lead-to-steps`.
            Code::CallLocal => regs.0[0] = unsafe { call_local(run, pc, step, regs, frames) }?,
            Code::TailCall => {
                // SAFETY: the program calls helpers as their signature says.
                match unsafe { tail_call(run, regs, frames) } {
                    Some(result) => return result,
                    None => regs.0[0] = helper::NO_PROGRAM,
                }
            },
            // SAFETY: the caller's promise.
            _ => unsafe { other(step, regs) }?,
        }
    }
}

/// A load: a fault ends the program.
macro_rules! load {
    ($regs:ident, $step:ident, $load:ident, $extended:ty) => {{
        // SAFETY: the caller's promise; what is not there is a fault.
        let value = unsafe { fault::$load($regs.address($step.src, $step)) }?;
        $regs.set($step.dst, value as $extended as u64)
    }};
}
use load;

/// A load whose offset is in `high`, with the work of the next step, over which it goes.
macro_rules! load_with {
    ($regs:ident, $step:ident, $pc:ident, $load:ident, |$value:ident| $does:block) => {{
        let at = $regs.get($step.src).wrapping_add_signed(i64::from($step.high as i32));
        // SAFETY: the caller's promise; what is not there is a fault.
        let $value = unsafe { fault::$load(at) }?;
        $does
        $pc = $pc.wrapping_add(1);
    }};
}
use load_with;

/// A store; likewise.
macro_rules! store {
    ($regs:ident, $step:ident, $store:ident, $value:expr) => {{
        // SAFETY: the caller's promise; what is not there is a fault.
        unsafe { fault::$store($regs.address($step.dst, $step), $value as _) }?
    }};
}

/// Steps that are rarer in filters, or long anyway.
///
/// # Safety
/// As [`function`].
unsafe fn other(step: &Step, regs: &mut Regs) -> Result<(), Fault> {
    let (dst, src) = (regs.get(step.dst), regs.get(step.src));
    match step.code {
        Code::LoadS8 => load!(regs, step, load_u8, i8),
        Code::LoadS16 => load!(regs, step, load_u16, i16),
        Code::LoadS32 => load!(regs, step, load_u32, i32),
        Code::Store8 => store!(regs, step, store_u8, src),
        Code::Store16 => store!(regs, step, store_u16, src),
        Code::Store32 => store!(regs, step, store_u32, src),
        Code::Store64 => store!(regs, step, store_u64, src),
        Code::Put8 => store!(regs, step, store_u8, step.value()),
        Code::Put16 => store!(regs, step, store_u16, step.value()),
        Code::Put32 => store!(regs, step, store_u32, step.value()),
        Code::Put64 => store!(regs, step, store_u64, step.value()),
        Code::Sx8W64 => regs.set(step.dst, src as i8 as u64),
        Code::Sx16W64 => regs.set(step.dst, src as i16 as u64),
        Code::Sx32W64 => regs.set(step.dst, src as i32 as u64),
        Code::Sx8W32 => regs.set(step.dst, u64::from(src as i8 as u32)),
        Code::Sx16W32 => regs.set(step.dst, u64::from(src as i16 as u32)),
        Code::Neg64 => regs.set(step.dst, dst.wrapping_neg()),
        Code::Neg32 => regs.set(step.dst, u64::from((dst as u32).wrapping_neg())),
        Code::Swap16 => regs.set(step.dst, u64::from((dst as u16).swap_bytes())),
        Code::Swap32 => regs.set(step.dst, u64::from((dst as u32).swap_bytes())),
        Code::Swap64 => regs.set(step.dst, dst.swap_bytes()),
        Code::Acquire => {
            // SAFETY: the caller's promise: atomic operations are on memory that is mapped.
            let value = unsafe { atomic::load(step.low, regs.address(step.dst, step)) }?;
            regs.set(step.src, value);
        }
        // SAFETY: as above.
        Code::Release => unsafe { atomic::store(step.low, regs.address(step.dst, step), src) }?,
        // SAFETY: as above.
        _ => unsafe { exchange(step, regs, src) }?,
    }
    Ok(())
}

/// An atomic operation that reads and writes.
///
/// # Safety
/// As [`function`].
unsafe fn exchange(step: &Step, regs: &mut Regs, reg: u64) -> Result<(), Fault> {
    let (at, r0) = (regs.address(step.dst, step), regs.0[0]);
    let (was, into) = match step.code {
        // SAFETY: the caller's promise: atomic operations are on memory that is mapped.
        Code::Atomic32 => unsafe { atomic::on_32(step.low, at, reg, r0) }?,
        // SAFETY: as above.
        Code::Atomic64 => unsafe { atomic::on_64(step.low, at, reg, r0) }?,
        // The second half of a 16-byte instruction is never reached (`steps-lead-to-steps`).
        _ => return Err(Fault::Memory),
    };
    match into {
        Into::Nothing => {}
        Into::Reg => regs.set(step.src, was),
        Into::R0 => regs.0[0] = was,
    }
    Ok(())
}

/// # Safety
/// `function` is a [`HelperFn`], and these are arguments of its signature.
#[inline(always)]
unsafe fn call(function: u64, [a, b, c, d, e]: [u64; 5]) -> u64 {
    // SAFETY: the caller's promise.
    let function = unsafe { core::mem::transmute::<usize, HelperFn>(function as usize) };
    // SAFETY: the caller's promise.
    unsafe { function(a, b, c, d, e) }
}

/// # Safety
/// `function` is a [`FaultingFn`], and these are arguments of its signature.
#[inline(always)]
unsafe fn call_faulting(function: u64, [a, b, c, d, e]: [u64; 5]) -> Result<u64, Fault> {
    // SAFETY: the caller's promise.
    let function = unsafe { core::mem::transmute::<usize, FaultingFn>(function as usize) };
    // SAFETY: the caller's promise.
    unsafe { function(a, b, c, d, e) }.into()
}

/// Calls a function of the program, which `step` before `pc` leads to.
///
/// # Safety
/// As [`function`].
unsafe fn call_local(
    run: &mut Run,
    pc: *const Step,
    step: &Step,
    regs: &Regs,
    frames: usize,
) -> Result<u64, Fault> {
    run.turn()?;
    let frames = frames.checked_sub(1).filter(|left| *left > 0).ok_or(Fault::Steps)?;
    let mut inner = Regs(regs.0);
    // SAFETY: `steps-lead-to-steps`.
    unsafe { function(run, pc.wrapping_offset(step.to as isize), &mut inner, frames) }
}

/// Goes on with another program: the main function leaves it to [`enter`]. `None` when there is none.
///
/// # Safety
/// `r1` to `r3` are arguments of [`mote_bpf::helper::TAIL_CALL`].
#[cold]
unsafe fn tail_call(run: &mut Run, regs: &Regs, frames: usize) -> Option<Result<u64, Fault>> {
    let [context, map, index, ..] = regs.args();
    // SAFETY: the caller's promise.
    let target = unsafe { helper::tail_target(map, index, run.tail_calls) }?;
    if frames == FRAMES_MAX {
        run.next = Some((target, context));
        return Some(Ok(0));
    }
    // From a local function, as the kernel: the other program's end is that of the function.
    // SAFETY: the slot's promise: as harmless as this program.
    Some(unsafe { (target.entry)(context, 0, target.image, run.tail_calls + 1) }.into())
}
