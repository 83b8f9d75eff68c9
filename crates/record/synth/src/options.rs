//! The processor whose packets are made: what it can do, what is switched on, how its clocks run.

use std::ops::Range;

/// What clocks may be: beyond, time would need more bits than it has, or MTC packets have no end.
const ART_HZ_MAX: u64 = 10_000_000_000;
const TICK_PS_MAX: u64 = 1_000_000_000;
const KERNEL_PS_MAX: u64 = 1_000_000_000_000;

/// What a processor's trace has. Names are those of IA32_RTIT_CTL (SDM 3C, 33.2.8.2) where there is one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// DisRETC is clear: a return to where the matching call would have it is one bit (33.4.2.2).
    pub return_compression: bool,
    /// TNT-64 packets are written: up to 47 branches instead of 6 (33.4.2.1).
    pub long_tnt: bool,
    /// TIP packets are held back while a TNT packet fills (33.4.2.3, "Deferred TIPs").
    pub deferred_tips: bool,
    /// TSCEn: TSC packets in PSB+.
    pub tsc: bool,
    /// MTCEn and MTCFreq: an MTC packet each time that bit N of the crystal clock's count changes.
    pub mtc: Option<u8>,
    /// CYCEn: CYC packets, with at least so many cycles between two (CycThresh as cycles; 0 and 1 are no threshold).
    pub cyc: Option<u64>,
    /// PTWEn: PTW packets.
    pub ptwrite: bool,
    /// FUPonPTW: each of them with a FUP.
    pub ptwrite_fup: bool,
    /// PSBFreq, in bytes: a PSB when so many bytes have been written since the last one. The processors' are 2 KiB to
    /// 64 MiB (33.2.8.2); any other number is as good here.
    pub psb_bytes: u64,
    /// OS: the kernel is traced, too. Facts are of a processor then, not of a thread.
    pub kernel: bool,
    /// The VMCS packet that is part of PSB+, of a processor that is a guest.
    pub vmcs: Option<u64>,
    /// An interrupt each so many instructions, at the next end of a run: FUP, TIP.PGD, TIP.PGE.
    pub interrupt_every: Option<u64>,
    /// Which instructions find the internal buffer full, by their number in the thread, in ascending order: from the
    /// run that holds the first one to the run that holds the last one, no packet is written, and OVF behind.
    pub overflows: Vec<Range<u64>>,
    /// Of which instructions the packets are lost because nobody has made room for them in memory: the kernel switches
    /// tracing on anew behind. As `overflows`.
    pub truncations: Vec<Range<u64>>,
    /// The clocks.
    pub clock: Clock,
}

/// The simulated clocks: time passes by executed instructions only.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Clock {
    /// Picoseconds that an instruction takes.
    pub tick_ps: u64,
    /// Picoseconds in the kernel, each time.
    pub kernel_ps: u64,
    /// The time at which threads begin, in picoseconds since the clocks were 0.
    pub start_ps: u64,
    /// The crystal clock (ART), in Hz: CPUID.15H, ECX.
    pub art_hz: u64,
    /// TSC ticks per crystal clock tick, as numerator and denominator: CPUID.15H, EBX and EAX.
    pub tsc_per_art: (u32, u32),
    /// CBR: the core's clock, in 100 MHz.
    pub core_ratio: u8,
}

impl Default for Options {
    /// As perf records by default (`intel_pt//u`): TSC, MTC every 8 ticks, return compression, no CYC.
    fn default() -> Options {
        Options {
            return_compression: true,
            long_tnt: false,
            deferred_tips: false,
            tsc: true,
            mtc: Some(3),
            cyc: None,
            ptwrite: false,
            ptwrite_fup: false,
            psb_bytes: 2048,
            kernel: false,
            vmcs: None,
            interrupt_every: None,
            overflows: Vec::new(),
            truncations: Vec::new(),
            clock: Clock::default(),
        }
    }
}

impl Default for Clock {
    /// A crystal of 24 MHz, TSC and core at 2.4 GHz, one nanosecond an instruction, one microsecond in the kernel.
    fn default() -> Clock {
        Clock {
            tick_ps: 1000,
            kernel_ps: 1_000_000,
            start_ps: 1_000_000_000_000,
            art_hz: 24_000_000,
            tsc_per_art: (100, 1),
            core_ratio: 24,
        }
    }
}

/// How packets are lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Loss {
    /// The internal buffer is full.
    Overflow,
    /// Memory is.
    Truncation,
}

impl Options {
    /// All losses that are wished, those of each kind in the order in which they are wished.
    pub(crate) fn losses(&self) -> Vec<(Range<u64>, Loss)> {
        let of = |ranges: &[Range<u64>], loss| {
            ranges.iter().map(move |range| (range.clone(), loss)).collect::<Vec<_>>()
        };
        let mut all = of(&self.overflows, Loss::Overflow);
        let both = !all.is_empty() && !self.truncations.is_empty();
        all.extend(of(&self.truncations, Loss::Truncation));
        if both {
            all.sort_by_key(|(range, _)| range.start);
        }
        all
    }

    /// Says what no processor has.
    ///
    /// # Errors
    /// A sentence about the first such option.
    pub fn check(&self) -> Result<(), String> {
        let Clock { tick_ps, kernel_ps, art_hz, tsc_per_art: (numerator, denominator), core_ratio, .. } =
            self.clock;
        let losses = self.losses();
        let in_order = losses.windows(2).all(|pair| pair[0].0.end <= pair[1].0.start);
        let whole = losses.iter().all(|(range, _)| range.start < range.end);
        let wrong = [
            (
                art_hz == 0 || numerator == 0 || denominator == 0,
                "the crystal clock and its ratio must not be 0",
            ),
            (art_hz > ART_HZ_MAX, "the crystal clock is faster than any: at most 10 GHz"),
            (tick_ps > TICK_PS_MAX, "an instruction takes at most a millisecond"),
            (kernel_ps > KERNEL_PS_MAX, "the kernel takes at most a second each time"),
            (core_ratio == 0, "the core's ratio must not be 0"),
            (self.mtc.is_some_and(|bit| bit > 15), "MTCFreq is at most 15"),
            (self.mtc.is_some() && !self.tsc, "MTC without TSC has no time to begin with: switch TSC on"),
            (self.psb_bytes < 256, "PSB+ needs room: a period of 256 bytes at least"),
            (self.interrupt_every == Some(0), "an interrupt each 0 instructions leaves none"),
            (
                self.kernel && self.interrupt_every.is_some(),
                "a kernel that is traced has interrupts of its own: no others can be made up",
            ),
            (!in_order || !whole, "losses must be in ascending order, not empty, and not overlap"),
            (
                self.ptwrite_fup && !self.ptwrite,
                "FUP packets on PTWRITE (FUPonPTW) need PTWRITE packets: switch these on",
            ),
        ];
        match wrong.iter().find(|(is_so, _)| *is_so) {
            Some((_, sentence)) => Err((*sentence).to_owned()),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_no_processor_has_is_refused() {
        let mut none: Vec<Options> = vec![Options::default(); 7];
        none[5].clock.tick_ps = u64::MAX;
        none[6].clock.art_hz = u64::MAX;
        none[0].clock.art_hz = 0;
        none[1].mtc = Some(16);
        none[2].tsc = false;
        none[3].overflows = vec![5..9, 8..12];
        none[4].interrupt_every = Some(0);
        for options in none {
            assert!(options.check().is_err(), "{options:?}");
        }
        assert_eq!(Options::default().check(), Ok(()));
    }
}
