//! Switches of the program's own: branches that cost a NOP, and are turned while threads run.

use crate::constructor::sites;
use mote_agent::ChangeError;

/// A condition that is part of the instructions: what is rarely changed, and asked for often.
///
/// [`is_on!`](crate::is_on) is a NOP where the switch is off and a jump where it is on: no load, no register, no branch
/// to be foreseen (Desnoyers 2009, "immediate values"). No recorder is needed. A switch belongs to the program or
/// library that it is linked into; it is off at the beginning.
///
/// ```
/// static CHECKS: mote::Switch = mote::Switch::new();
///
/// fn step() -> bool {
///     mote::is_on!(CHECKS)
/// }
/// assert!(!step());
/// CHECKS.set(true)?;
/// assert!(step());
/// # Ok::<(), mote::ChangeError>(())
/// ```
///
/// # Limits
/// A child of `vfork` must not turn switches. On processors whose vendor does not promise that two bytes of running
/// code change at once (all but AMD's) a thread that blocks SIGTRAP makes `set` fail, unless the environment says
/// `MOTE_HOP=1`.
#[repr(transparent)]
#[derive(Debug, Default)]
pub struct Switch(mote_agent::Switch);

impl Switch {
    /// A switch that is off.
    pub const fn new() -> Switch {
        Switch(mote_agent::Switch::new())
    }

    /// Turns the switch. When it returns, every pass through a site that starts afterwards, on any thread, goes the new
    /// way.
    ///
    /// It waits while the process joins a session or another thread turns a switch, and for up to two seconds for
    /// threads that a breakpoint would kill.
    ///
    /// # Errors
    /// Sites cannot be changed here, or not now. The switch is as it was.
    ///
    /// # Signal safety
    /// Not for handlers.
    ///
    /// # Cost
    /// Some ten microseconds, and beside other threads a hundred; all sites of the program are looked at.
    pub fn set(&'static self, on: bool) -> Result<(), ChangeError> {
        flip(&[(self, on)])
    }

    /// Whether it is on: a load, for where no site is wanted.
    #[inline(always)]
    pub fn is_on(&self) -> bool {
        self.0.is_on()
    }
}

/// Turns several switches in one go, which costs about as much as one: all of them or none. See [`Switch::set`].
///
/// Passes through different sites may see the switches turned in any order.
///
/// # Errors
/// As [`Switch::set`].
pub fn flip(wanted: &[(&'static Switch, bool)]) -> Result<(), ChangeError> {
    // SAFETY: the section is that of this object, which stays mapped while its code runs.
    unsafe { mote_agent::flip(sites(), wanted.iter().map(|(switch, on)| (&switch.0, *on))) }
}
