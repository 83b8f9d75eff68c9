//! Which value is in which register, at the place that is being written.
//!
//! Each value has a number. At each place of the program the builder knows of each register which value owns it, and
//! whether that was written yet; a label knows what all the ways to it agree on. A helper's call takes `r0` to `r5`
//! from their owners. So a read of a value that is gone is noticed where it is written.

use crate::error::BuildError;
use mote_bpf::Reg;
use std::cell::RefCell;
use std::panic::Location;
use std::rc::Rc;

/// Registers that calls change, in the order in which values get them: `r0`, where results come, is the last.
const SCRATCH: [Reg; 6] = [Reg::R1, Reg::R2, Reg::R3, Reg::R4, Reg::R5, Reg::R0];
/// The same, a bit for each.
pub(crate) const SCRATCH_BITS: u16 = 0x3f;
/// Registers that survive calls.
const SAVED: [Reg; 4] = [Reg::R6, Reg::R7, Reg::R8, Reg::R9];

/// Number of a value; 0 is none.
pub(crate) type Id = u32;

/// Which values are still held, by their numbers.
type Live = Rc<RefCell<Vec<bool>>>;

/// A value in a register, from when it is made until it is dropped: then the register is free for others.
///
/// A value is a variable: [`Build::set`](crate::Build::set) changes it. Scratch values (`r0` to `r5`) are lost with the
/// next call; saved ones (`r6` to `r9`) stay.
///
/// In an expression, `&value` reads it; `value` gives it up, so that the result may take its register over.
#[derive(Debug)]
#[must_use]
pub struct Value {
    pub(crate) reg: Reg,
    pub(crate) id: Id,
    live: Live,
}

impl Value {
    /// The register that the value is in, for instructions that are written one by one.
    pub fn register(&self) -> Reg {
        self.reg
    }
}

impl Drop for Value {
    fn drop(&mut self) {
        if let Some(live) = self.live.borrow_mut().get_mut(self.id as usize) {
            *live = false;
        }
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Owner {
    id: Id,
    /// Something was written there since.
    set: bool,
}

/// What is known at a place.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Known([Owner; Reg::COUNT]);

impl Known {
    /// What is known whichever of two ways was taken.
    pub(crate) fn and(&self, other: &Known) -> Known {
        let mut both = *self;
        for (mine, theirs) in both.0.iter_mut().zip(&other.0) {
            let set = mine.set && theirs.set;
            *mine = if mine.id == theirs.id { Owner { id: mine.id, set } } else { Owner::default() };
        }
        both
    }

    /// Without what calls change.
    pub(crate) fn saved(&self) -> Known {
        let mut saved = *self;
        SCRATCH.into_iter().for_each(|reg| saved.0[reg.index()] = Owner::default());
        saved
    }
}

/// The registers of a program in the making.
#[derive(Clone, Debug)]
pub(crate) struct Registers {
    /// `None`: no way leads here.
    pub(crate) here: Option<Known>,
    live: Live,
    /// Registers that are not given out, a bit for each.
    pub(crate) withheld: u16,
    /// Registers that are given out last, a bit for each.
    pub(crate) avoided: u16,
    /// Where the caller is, in its source.
    pub(crate) at: &'static Location<'static>,
}

impl Default for Registers {
    fn default() -> Registers {
        // Number 0 is no value.
        let live = Rc::new(RefCell::new(vec![false]));
        Registers { here: Some(Known::default()), live, withheld: 0, avoided: 0, at: Location::caller() }
    }
}

impl Registers {
    fn is_live(&self, id: Id) -> bool {
        self.live.borrow().get(id as usize) == Some(&true)
    }

    /// Whether no value that is still held owns the register here.
    pub(crate) fn is_free(&self, reg: Reg) -> bool {
        self.here.is_none_or(|known| !self.is_live(known.0[reg.index()].id))
    }

    /// A new value that owns this register from here on.
    pub(crate) fn own(&mut self, reg: Reg) -> Value {
        let mut live = self.live.borrow_mut();
        live.push(true);
        let value = Value { reg, id: live.len() as Id - 1, live: Rc::clone(&self.live) };
        if let Some(known) = &mut self.here {
            known.0[reg.index()] = Owner { id: value.id, set: false };
        }
        value
    }

    /// A new value in a free register: one that survives calls, or one that does not. One that is set later has the
    /// last one, which is the least likely to be asked for until then.
    pub(crate) fn take(&mut self, saved: bool, later: bool) -> Result<Value, BuildError> {
        let (withheld, avoided) = (self.withheld, self.avoided);
        let has = |bits: u16, reg: Reg| bits >> reg.index() & 1 == 1;
        let find = |other_than: u16| {
            let free = |reg: &&Reg| !has(other_than, **reg) && self.is_free(**reg);
            match (saved, later) {
                (true, _) => SAVED.iter().find(free),
                (false, false) => SCRATCH.iter().find(free),
                (false, true) => SCRATCH.iter().rfind(|reg| **reg != Reg::R0 && free(reg)),
            }
        };
        let free = find(withheld | avoided).or_else(|| find(withheld));
        let free = free.copied();
        free.map(|reg| self.own(reg)).ok_or(BuildError::NoRegister { saved, at: self.at })
    }

    /// The value was written to its register.
    pub(crate) fn set(&mut self, reg: Reg, id: Id) -> Result<(), BuildError> {
        if !self.is_free(reg) && !self.owns(reg, id) {
            return Err(BuildError::Lost { reg, at: self.at });
        }
        if let Some(known) = &mut self.here {
            known.0[reg.index()] = Owner { id, set: true };
        }
        Ok(())
    }

    fn owns(&self, reg: Reg, id: Id) -> bool {
        self.here.is_none_or(|known| known.0[reg.index()].id == id)
    }

    /// An error if the register does not hold this value.
    pub(crate) fn check(&self, reg: Reg, id: Id) -> Result<(), BuildError> {
        let Some(known) = self.here else { return Ok(()) };
        match known.0[reg.index()] {
            Owner { id: owner, set: true } if owner == id => Ok(()),
            Owner { id: owner, .. } if owner == id => Err(BuildError::Unset { reg, at: self.at }),
            _ => Err(BuildError::Lost { reg, at: self.at }),
        }
    }

    /// The register is written to by an instruction that belongs to no value.
    pub(crate) fn lose(&mut self, reg: Reg) {
        if let Some(known) = &mut self.here {
            known.0[reg.index()] = Owner::default();
        }
    }

    /// After a call.
    pub(crate) fn call(&mut self) {
        self.here = self.here.map(|known| known.saved());
    }

    /// An error if a value that is held at a label behind which the program goes on is another one here.
    pub(crate) fn agrees(&self, label: &Known) -> Result<(), BuildError> {
        let Some(here) = &self.here else { return Ok(()) };
        for (reg, (mine, theirs)) in Reg::ALL.into_iter().zip(here.0.iter().zip(&label.0)) {
            if self.is_live(theirs.id) && theirs.set && mine != theirs {
                return Err(BuildError::Lost { reg, at: self.at });
            }
        }
        Ok(())
    }
}
