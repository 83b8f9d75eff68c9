//! When something counts, in a stream.

/// A moment of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Moment {
    /// So many instructions of the stream were executed.
    Instructions(u64),
    /// A time stamp, of which packets have the low 56 bits.
    Time(u64),
    /// The same, of something that the kernel has done for the program that runs: it counts from where that goes on.
    Return(u64),
}

/// How far a stream has come in time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Reached {
    /// The last time stamp.
    pub(crate) time: Option<u64>,
    /// Where a program comes back from the kernel: the next one.
    pub(crate) next: Option<u64>,
}

impl Moment {
    /// From the beginning of the stream.
    pub(crate) const BEGIN: Moment = Moment::Instructions(0);

    /// Whether it has come, where so many instructions were executed and time has come so far.
    #[inline]
    pub(crate) fn is_reached(self, instructions: u64, Reached { time, next }: Reached) -> bool {
        // The difference in 56 bits, with their sign.
        let is_since = |from: u64, time: u64| (time.wrapping_sub(from) << 8).cast_signed() >= 0;
        match self {
            Moment::Instructions(count) => count <= instructions,
            Moment::Time(from) => time.is_some_and(|time| is_since(from, time)),
            Moment::Return(from) => [time, next].into_iter().flatten().any(|time| is_since(from, time)),
        }
    }

    /// After how many instructions it is; `u64::MAX` where that is not known.
    pub(crate) fn instructions(self) -> u64 {
        match self {
            Moment::Instructions(count) => count,
            Moment::Time(_) | Moment::Return(_) => u64::MAX,
        }
    }

    /// Its count, of whatever it counts.
    pub(crate) fn count(self) -> u64 {
        match self {
            Moment::Instructions(count) | Moment::Time(count) | Moment::Return(count) => count,
        }
    }

    /// This moment, but not before another one of the same kind.
    pub(crate) fn not_before(self, other: Moment) -> Moment {
        match (self, other) {
            (Moment::Instructions(this), Moment::Instructions(that)) => Moment::Instructions(this.max(that)),
            (Moment::Time(this), Moment::Time(that)) => Moment::Time(this.max(that)),
            (Moment::Return(this), Moment::Return(that)) => Moment::Return(this.max(that)),
            _ => self,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_stamps_have_56_bits() {
        let is_reached = |from, time| Moment::Time(from).is_reached(0, Reached { time, next: None });
        let high = 0x1200_0000_0000_0000;
        assert!(is_reached(high + 5, Some(5)) && is_reached(high + 5, Some(6)));
        assert!(!is_reached(high + 5, Some(4)) && !is_reached(0, None));
        // Beyond the wrap of the packets' bits.
        assert!(is_reached(0x00ff_ffff_ffff_fff0, Some(7)) && !is_reached(7, Some(0x00ff_ffff_ffff_fff0)));
    }

    #[test]
    fn counts_are_reached_whatever_the_time() {
        let never = Reached::default();
        assert!(Moment::BEGIN.is_reached(0, never) && Moment::Instructions(3).is_reached(3, never));
        assert!(!Moment::Instructions(4).is_reached(3, Reached { time: Some(u64::MAX), next: None }));
    }

    #[test]
    fn what_the_kernel_did_counts_where_the_program_goes_on() {
        let coming_back = Reached { time: Some(10), next: Some(20) };
        assert!(
            Moment::Return(15).is_reached(0, coming_back) && !Moment::Return(21).is_reached(0, coming_back)
        );
        assert!(!Moment::Time(15).is_reached(0, coming_back));
        assert!(!Moment::Return(15).is_reached(0, Reached { time: Some(10), next: None }));
    }
}
