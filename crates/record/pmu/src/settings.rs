//! What is to be recorded, and the event's attribute that says it to the kernel.

use crate::device::Device;
use mote_perfdata::Attribute;
use mote_perfdata::attribute::{flag, sample};

/// `PERF_TYPE_SOFTWARE`, `PERF_COUNT_SW_DUMMY`.
const SOFTWARE: u32 = 1;
const DUMMY: u64 = 9;
/// The periods that are taken unless others are wished, as perf does; or the next ones that the processor has.
const MTC_USUAL: u32 = 3;
const PSB_USUAL: u32 = 3;

/// A packet's period, as its number N in IA32_RTIT_CTL.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Period {
    /// As usual, where the processor can.
    #[default]
    Usual,
    /// No such packets.
    Off,
    /// The value of the period or threshold, as the processor encodes it.
    Exactly(u8),
}

/// What packets there are to be, and of whose code.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Settings {
    /// CYC packets, with a threshold of 2^(N-1) cycles; 0: none.
    pub cyc: Option<u8>,
    /// MTC packets, each 2^N ticks of the crystal clock.
    pub mtc: Period,
    /// Bytes between PSB packets: 2^(11+N).
    pub psb: Option<u8>,
    /// Each return with its address.
    pub no_return_compression: bool,
    /// The kernel's code, too.
    pub kernel: bool,
}

/// What cannot be recorded.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Impossible {
    /// The processor does not have such packets (CPUID.14H.0, EBX bits 1 and 3).
    #[error("this processor has no {0}: Intel's have since Skylake and Goldmont")]
    Lacks(&'static str),
    /// It has not this period.
    #[error("{what} {value} is none that this processor has: it has {known}")]
    Value {
        /// The setting.
        what: &'static str,
        /// The value that the processor does not have.
        value: u8,
        /// The values that the processor has, as text.
        known: String,
    },
    /// The kernel does not know it.
    #[error("this kernel does not know `{0}` of Intel PT: a later one does")]
    Kernel(&'static str),
}

impl Settings {
    /// The attribute of Intel PT's event.
    ///
    /// # Errors
    /// The processor, or the kernel, cannot do what is wished.
    pub fn attribute(&self, device: &Device) -> Result<Attribute, Impossible> {
        let mut words = Words { device, words: [0; 3] };
        words.set("tsc", 1)?;
        // Since Linux 4.13 branches can be left out, and have to be asked for; before, they are always there.
        if device.has("pt") && device.has("branch") {
            words.set("pt", 1)?;
            words.set("branch", 1)?;
        }
        if let Some(period) = self.mtc_period(device)? {
            words.set("mtc", 1)?;
            words.set("mtc_period", period.into())?;
        }
        if let Some(period) = self.psb_period(device)? {
            words.set("psb_period", period.into())?;
        }
        if let Some(threshold) = self.cyc {
            can(device, "psb_cyc", "packets with cycles (CYC)")?;
            is_one_of(device.cap("cycle_thresholds") | 1, threshold, "the threshold of CYC")?;
            words.set("cyc", 1)?;
            words.set("cyc_thresh", threshold.into())?;
        }
        if self.no_return_compression {
            words.set("noretcomp", 1)?;
        }
        let [config, config1, config2] = words.words;
        Ok(Attribute {
            kind: device.unit,
            config,
            config1,
            config2,
            sample_period: 1,
            flags: self.flags() | flag::DISABLED,
            ..said()
        })
    }

    /// The attribute of the event that tells what processes map and run; with the kernel's code, what changes in it.
    /// `cpu_wide`: it is of all processes of a CPU.
    #[must_use]
    pub fn side_band(&self, cpu_wide: bool) -> Attribute {
        let tells =
            flag::MMAP | flag::COMM | flag::TASK | flag::MMAP2 | flag::COMM_EXEC | flag::CONTEXT_SWITCH;
        let of_kernel = if self.kernel && cpu_wide { flag::KSYMBOL | flag::TEXT_POKE } else { 0 };
        let flags = self.flags() | flag::DISABLED | tells | flag::BUILD_ID | of_kernel;
        Attribute { kind: SOFTWARE, config: DUMMY, flags, ..said() }
    }

    fn flags(&self) -> u64 {
        flag::SAMPLE_ID_ALL | if self.kernel { 0 } else { flag::EXCLUDE_KERNEL | flag::EXCLUDE_HV }
    }

    fn mtc_period(&self, device: &Device) -> Result<Option<u8>, Impossible> {
        let periods = device.cap("mtc_periods");
        match self.mtc {
            Period::Off => Ok(None),
            Period::Usual if device.cap("mtc") == 0 => Ok(None),
            Period::Usual => Ok(nearest(periods, MTC_USUAL)),
            Period::Exactly(period) => {
                can(device, "mtc", "packets of the crystal clock (MTC)")?;
                is_one_of(periods, period, "the period of MTC")?;
                Ok(Some(period))
            }
        }
    }

    fn psb_period(&self, device: &Device) -> Result<Option<u8>, Impossible> {
        let periods = device.cap("psb_periods");
        match self.psb {
            None if device.cap("psb_cyc") == 0 || device.cap("mtc_periods") == 0 => Ok(None),
            None => Ok(nearest(periods, PSB_USUAL)),
            Some(period) => {
                can(device, "psb_cyc", "choice of how far PSB packets are apart")?;
                // The kernel takes 0 on every processor that has the choice.
                is_one_of(periods | 1, period, "the period of PSB")?;
                Ok(Some(period))
            }
        }
    }
}

/// What stands behind all records.
fn said() -> Attribute {
    let sample_type = sample::IP | sample::TID | sample::TIME | sample::CPU | sample::IDENTIFIER;
    Attribute { sample_type, ..Attribute::default() }
}

/// The words of an attribute that is put together.
struct Words<'d> {
    device: &'d Device,
    words: [u64; 3],
}

impl Words<'_> {
    fn set(&mut self, format: &'static str, value: u64) -> Result<(), Impossible> {
        let bits = self.device.bits(format, value).ok_or(Impossible::Kernel(format))?;
        self.words.iter_mut().zip(bits).for_each(|(word, bits)| *word |= bits);
        Ok(())
    }
}

fn can(device: &Device, cap: &str, what: &'static str) -> Result<(), Impossible> {
    if device.cap(cap) == 0 { Err(Impossible::Lacks(what)) } else { Ok(()) }
}

fn is_one_of(bits: u64, value: u8, what: &'static str) -> Result<(), Impossible> {
    if value < 64 && bits >> value & 1 != 0 {
        return Ok(());
    }
    let known: Vec<String> = (0..64).filter(|bit| bits >> bit & 1 != 0).map(|bit| bit.to_string()).collect();
    Err(Impossible::Value { what, value, known: known.join(", ") })
}

/// The highest of the bits up to this one, else the lowest.
fn nearest(bits: u64, wanted: u32) -> Option<u8> {
    let below = bits & (u64::MAX >> (63 - wanted));
    match (below, bits) {
        (_, 0) => None,
        (0, _) => Some(bits.trailing_zeros() as u8),
        _ => Some(below.ilog2() as u8),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_period_is_taken() {
        assert_eq!(nearest(0x249, 3), Some(3));
        assert_eq!(nearest(0x249, 2), Some(0));
        assert_eq!(nearest(0x240, 3), Some(6));
        assert_eq!(nearest(0, 3), None);
    }
}
