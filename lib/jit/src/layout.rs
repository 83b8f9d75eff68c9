//! The walk over the functions: where code lies, which jumps are short, and what the frames are.
//!
//! The first walk takes all jumps as long, so that every distance is an upper bound. The next ones make jumps short
//! that surely reach; since that only brings code closer, what was short stays short. The last walk writes, with
//! nothing left to decide.

use crate::fuse::{self, Abilities, Step};
use crate::plan::{Plan, Shape};
use crate::sink::Sink;
use crate::{Compiled, Error, Frame, Input};

/// A jump's target, as far as it is known.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Aim {
    /// Offset of the target's code.
    pub(crate) offset: u32,
    /// The short form reaches it.
    pub(crate) short: bool,
}

/// What an emitter needs beside the step.
pub(crate) struct Around<'a> {
    pub(crate) input: &'a Input<'a>,
    pub(crate) plan: &'a Plan<'a>,
    pub(crate) shape: &'a Shape,
    /// Slot of the step.
    pub(crate) slot: usize,
    /// Slot behind the step.
    pub(crate) next: usize,
    /// Where its jump leads.
    pub(crate) aim: Aim,
    /// Where a fault of a called helper leads.
    pub(crate) fault: u32,
    /// Frames of all functions, as far as they are known.
    pub(crate) frames: &'a [Frame],
    /// Nothing will move any more: a distance that does not fit is an error.
    pub(crate) is_last: bool,
}

/// An emitter.
pub(crate) trait Target<'a> {
    /// What it can do in one step.
    const ABILITIES: Abilities;
    /// How far the short form of a jump reaches, in bytes from its end.
    const REACH: i64;
    /// Most bytes of a step that ends with a jump.
    const STEP_BYTES: i64;
    /// Where its bytes go.
    fn sink(&mut self) -> &mut Sink<'a>;
    /// Builds the frame, and returns its `gap` and `saved`.
    fn begin(&mut self, shape: &Shape) -> (u16, u16);
    /// Emits a step.
    fn step(&mut self, step: &Step, around: &Around<'_>) -> Result<(), Error>;
    /// Emits what a fault of a called helper leads to.
    fn finish(&mut self, shape: &Shape);
}

/// Walks that may make jumps short.
const SHRINKS: usize = 3;

#[derive(Clone, Copy, PartialEq)]
enum Walk {
    First,
    Shrink,
    Last,
}

/// Compiles the program.
pub(crate) fn run<'a, T: Target<'a>>(
    input: &Input<'_>,
    target: &mut T,
    workspace: &mut [u32],
    frames: &mut [Frame],
) -> Result<Compiled, Error> {
    let mut plan = Plan::new(input, workspace)?;
    let frames = frames.get_mut(..plan.function_count()).ok_or(Error::Room)?;
    walk(input, &mut plan, target, frames, Walk::First)?;
    for _ in 0..SHRINKS {
        if !walk(input, &mut plan, target, frames, Walk::Shrink)? {
            break;
        }
    }
    if walk(input, &mut plan, target, frames, Walk::Last)? {
        return Err(Error::Far);
    }
    let sink = target.sink();
    if sink.fits() { Ok(Compiled { bytes: sink.len(), frames: frames.len() }) } else { Err(Error::Room) }
}

/// One walk; returns whether anything moved.
fn walk<'a, T: Target<'a>>(
    input: &Input<'_>,
    plan: &mut Plan<'_>,
    target: &mut T,
    frames: &mut [Frame],
    mode: Walk,
) -> Result<bool, Error> {
    target.sink().rewind();
    let mut moved = false;
    for index in 0..frames.len() {
        let shape = plan.shape(index)?;
        // By the walk before: the end, which faults lead to, is known only then.
        let before = frames.get(index).copied().unwrap_or_default();
        let entry = target.sink().len() as u32;
        let (gap, saved) = target.begin(&shape);
        let mut frame = Frame { entry, start: target.sink().len() as u32, gap, saved, ..before };
        set(frames, index, frame);
        let mut slot = shape.start;
        while slot < shape.end {
            let (step, next) = fuse::step(plan, slot, T::ABILITIES)?;
            let offset = target.sink().len() as u32;
            if mode == Walk::Shrink
                && step.target().is_some_and(|to| reaches::<T>(plan, slot, next, to, offset))
            {
                plan.make_short(slot);
            }
            moved |= plan.place(slot..next, offset);
            let aim =
                Aim { offset: step.target().map_or(0, |to| plan.offset(to)), short: plan.is_short(slot) };
            let around = Around {
                input,
                plan,
                shape: &shape,
                slot,
                next,
                aim,
                fault: before.end,
                frames,
                is_last: mode == Walk::Last,
            };
            target.step(&step, &around)?;
            slot = next;
        }
        frame.end = target.sink().len() as u32;
        set(frames, index, frame);
        target.finish(&shape);
        moved |= frame != before;
    }
    Ok(moved)
}

fn set(frames: &mut [Frame], index: usize, frame: Frame) {
    if let Some(place) = frames.get_mut(index) {
        *place = frame;
    }
}

/// Whether a short jump of the step at `slot` surely leads to `to`; `offset` is the step's own place in this walk.
fn reaches<'a, T: Target<'a>>(plan: &Plan<'_>, slot: usize, next: usize, to: usize, offset: u32) -> bool {
    if to > slot {
        // Neither place was reached by this walk: their distance by the last one is an upper bound.
        i64::from(plan.offset(to)) - i64::from(plan.offset(next)) <= T::REACH
    } else {
        i64::from(offset) - i64::from(plan.offset(to)) <= T::REACH - T::STEP_BYTES
    }
}
