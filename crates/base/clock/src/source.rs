//! Which clock to stamp events with, and why.

use crate::NS_PER_S;
use core::fmt;
use core::str::FromStr;
use mote_sys::time::{ClockId, clock_gettime};
use mote_sys::{Errno, fd, tsc};

const CLOCKSOURCE: &core::ffi::CStr = c"/sys/devices/system/clocksource/clocksource0/current_clocksource";

/// The clock that stamps events; its unit is the *tick*.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// The CPU's time-stamp counter. Its frequency must be measured.
    Tsc,
    /// `CLOCK_MONOTONIC` through the vDSO: one tick is one nanosecond.
    Monotonic,
}

impl Source {
    /// Chooses the clock: `asked` if given, else the TSC when the kernel trusts it.
    ///
    /// The wish is honoured even against the evidence; the [`Choice`] then says so. Where a wish
    /// comes from (flag, environment) is the caller's matter; [`Source::from_str`] reads one.
    ///
    /// # Cost
    /// Three system calls; CPUID, which traps on a virtual machine.
    pub fn choose(asked: Option<Source>) -> Choice {
        let verdict = Verdict::of_this_machine();
        let source = asked.unwrap_or(match verdict {
            Verdict::Trusted => Source::Tsc,
            _ => Source::Monotonic,
        });
        Choice { source, verdict, asked: asked.is_some() }
    }

    /// Reads the clock, in ticks.
    ///
    /// # Cost
    /// `Tsc`: bench `event_cost`, case `rdtsc`. `Monotonic`: one vDSO call, two to four times that.
    ///
    /// # Signal safety
    /// Callable from a handler.
    #[inline(always)]
    pub fn ticks(self) -> u64 {
        match self {
            Source::Tsc => tsc::count(),
            Source::Monotonic => clock_gettime(ClockId::Monotonic),
        }
    }

    /// The frequency in Hz, when it is known without measuring.
    pub const fn known_frequency_hz(self) -> Option<u64> {
        match self {
            Source::Tsc => None,
            Source::Monotonic => Some(NS_PER_S),
        }
    }

    /// The name by which users ask for it.
    pub const fn name(self) -> &'static str {
        match self {
            Source::Tsc => "tsc",
            Source::Monotonic => "monotonic",
        }
    }
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Source {
    type Err = &'static str;

    /// Reads `tsc` or `monotonic`.
    fn from_str(text: &str) -> Result<Source, Self::Err> {
        match text {
            "tsc" => Ok(Source::Tsc),
            "monotonic" => Ok(Source::Monotonic),
            _ => Err("not a clock: use `tsc` or `monotonic`"),
        }
    }
}

/// A chosen clock with the reason, for `mote doctor` (`Display`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Choice {
    /// Which clock of the machine it is.
    pub source: Source,
    /// What the machine says about its time-stamp counter.
    pub verdict: Verdict,
    /// True when the user asked for `source`.
    pub asked: bool,
}

impl fmt::Display for Choice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.asked, self.source, self.verdict) {
            (false, ..) | (true, Source::Tsc, Verdict::Trusted) => {
                write!(f, "{}: {}", self.source, self.verdict)
            }
            (true, Source::Tsc, verdict) => {
                write!(f, "tsc, as asked for, but times may be wrong: {verdict}")
            }
            (true, Source::Monotonic, _) => f.write_str("monotonic, as asked for"),
        }
    }
}

/// Whether the time-stamp counter may stand for time, and if not, why.
///
/// Ask again at the end of a trace: the kernel may have lost its trust meanwhile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Verdict {
    /// The kernel keeps time with it, and it runs at one rate in all power states.
    Trusted,
    /// The kernel keeps time with something else.
    Clocksource(ClocksourceName),
    /// The kernel does not say what it keeps time with.
    Unreadable(Errno),
    /// CPUID does not promise an invariant TSC (SDM vol. 3, 19.17.1).
    NotInvariant,
}

impl Verdict {
    /// Asks the kernel and the CPU.
    pub fn of_this_machine() -> Verdict {
        match ClocksourceName::read_current() {
            Ok(name) => Verdict::judge(name, tsc::is_invariant()),
            Err(errno) => Verdict::Unreadable(errno),
        }
    }

    fn judge(name: ClocksourceName, invariant: bool) -> Verdict {
        if name.as_str() != tsc::CLOCKSOURCE {
            Verdict::Clocksource(name)
        } else if invariant {
            Verdict::Trusted
        } else {
            Verdict::NotInvariant
        }
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Verdict::Trusted => f.write_str("the kernel's clocksource is tsc, and it is invariant"),
            Verdict::Clocksource(name) => {
                write!(f, "the kernel's clocksource is {name}, so it does not trust the tsc")
            }
            Verdict::Unreadable(errno) => {
                let path = CLOCKSOURCE.to_str().unwrap_or_default();
                write!(f, "cannot read {path} (errno {}), so the tsc is not trusted", errno.0)
            }
            Verdict::NotInvariant => f.write_str(
                "the kernel's clocksource is tsc, but cpuid does not call it invariant, \
                 so it may stop or change its rate",
            ),
        }
    }
}

/// Name of a clocksource of the kernel: at most 31 bytes, as in the kernel.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct ClocksourceName {
    bytes: [u8; 31],
    len: u8,
}

impl ClocksourceName {
    fn read_current() -> Result<ClocksourceName, Errno> {
        let file = fd::open(CLOCKSOURCE, 0, 0)?;
        let mut text = [0; 32];
        let len = fd::read(&file, &mut text)?;
        Ok(ClocksourceName::new(text.get(..len).unwrap_or(&text)))
    }

    /// The first line of `text`, cut after 31 bytes.
    fn new(text: &[u8]) -> ClocksourceName {
        let line = text.split(|byte| *byte == b'\n').next().unwrap_or_default();
        let mut bytes = [0; 31];
        let len = line.len().min(bytes.len());
        bytes.iter_mut().zip(line).for_each(|(to, from)| *to = *from);
        ClocksourceName { bytes, len: len as u8 }
    }

    /// The name; empty when it is not UTF-8.
    pub fn as_str(&self) -> &str {
        let name = self.bytes.get(..usize::from(self.len)).unwrap_or_default();
        core::str::from_utf8(name).unwrap_or_default()
    }
}

impl fmt::Display for ClocksourceName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl fmt::Debug for ClocksourceName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self.as_str(), f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::string::ToString;

    fn judge(name: &str, invariant: bool) -> Verdict {
        Verdict::judge(ClocksourceName::new(name.as_bytes()), invariant)
    }

    #[test]
    fn the_tsc_needs_both_the_kernel_and_the_cpu() {
        assert_eq!(judge("tsc\n", true), Verdict::Trusted);
        assert_eq!(judge("tsc\n", false), Verdict::NotInvariant);
        let hpet = judge("hpet\n", true);
        assert_eq!(hpet.to_string(), "the kernel's clocksource is hpet, so it does not trust the tsc");
        assert_eq!(judge("", true).to_string().matches("hpet").count(), 0);
    }

    #[test]
    fn a_wish_is_honoured_and_told() {
        let choice = Choice { source: Source::Tsc, verdict: judge("hpet", true), asked: true };
        assert!(choice.to_string().starts_with("tsc, as asked for, but"), "{choice}");
        assert_eq!(Source::choose(Some(Source::Monotonic)).source, Source::Monotonic);
        assert_eq!("tsc".parse(), Ok(Source::Tsc));
        assert!("TSC2".parse::<Source>().is_err());
    }

    #[test]
    fn a_long_or_odd_name_is_cut() {
        assert_eq!(ClocksourceName::new(&[b'x'; 90]).as_str().len(), 31);
        assert_eq!(ClocksourceName::new(&[0xff, 0xfe]).as_str(), "");
    }

    #[test]
    fn this_machine_is_judged_as_its_files_say() {
        let path = CLOCKSOURCE.to_str().unwrap();
        let Ok(name) = std::fs::read_to_string(path) else {
            mote_skip::skip(format_args!("{path} cannot be read"));
            return;
        };
        let flags = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
        let invariant = flags.contains(" nonstop_tsc") && flags.contains(" constant_tsc");
        assert_eq!(Verdict::of_this_machine(), judge(&name, invariant));
    }
}
